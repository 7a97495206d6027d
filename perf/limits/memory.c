/*
 * Buffers. Two of them exactly 2^28 bytes apart were 7-12 times slower in one loop than others, and large mappings lie
 * side by side, so each is an odd number of pages long.
 */
#include "limits.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE ((size_t)2 << 20)

static size_t odd_pages(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return ((bytes + page - 1) / page | 1) * page;
}

static void *map_shared(size_t length)
{
    const int fd = memfd_create("ringtree-limits", MFD_CLOEXEC);
    void     *bytes = MAP_FAILED;
    if (fd >= 0 && !ftruncate(fd, (off_t)length)) bytes = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    return bytes;
}

struct memory memory_map(size_t bytes, enum memory_kind kind)
{
    const size_t length = odd_pages(bytes + (kind == MEMORY_HUGE ? HUGE : 0)); /* room for a whole huge page inside */
    void *map = kind == MEMORY_SHARED ? map_shared(length)
                                      : mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return (struct memory){ NULL, 0 };
    madvise(map, length, kind == MEMORY_HUGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return (struct memory){ map, length };
}

struct memory memory_new(size_t bytes, enum memory_kind kind)
{
    struct memory memory = memory_map(bytes, kind);
    if (memory.bytes) memset(memory.bytes, 1, memory.length);
    return memory;
}

void memory_free(struct memory *memory)
{
    if (memory->bytes) munmap(memory->bytes, memory->length);
    *memory = (struct memory){ NULL, 0 };
}
