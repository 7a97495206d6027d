/* ringtree_mem_alloc()'s memory: pieces of the shared file, mapped here by their owner and by peers on first use. */
#include "inside.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE         4096
#define MOST_WINDOWS 256

static bool extents_add(struct rt_extents *extents, struct rt_extent extent)
{
    if (extents->count == extents->capacity) {
        const uint32_t capacity = extents->capacity ? 2 * extents->capacity : 16;
        struct rt_extent *list = realloc(extents->list, capacity * sizeof *list);
        if (!list) return false;
        extents->list = list;
        extents->capacity = capacity;
    }
    extents->list[extents->count++] = extent;
    return true;
}

static unsigned char *map(const struct rt_node *node, uint64_t offset, size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, node->fd, (off_t)offset);
    if (memory == MAP_FAILED) return NULL;
    madvise(memory, bytes, MADV_HUGEPAGE); /* harmless where it is not granted */
    return memory;
}

/* Whole pages and an odd number of them: buffers exactly 2^28 bytes apart are many times slower together. */
static size_t piece_bytes(size_t bytes)
{
    const size_t pages = bytes / PAGE + (bytes % PAGE != 0);
    return (pages | 1) * PAGE;
}

/* A freed extent of this rank that fits without much waste, else a fresh piece. 0: the heap is used up. */
static uint64_t find_piece(struct rt_node *node, size_t bytes)
{
    for (uint32_t i = 0; i < node->own.count; i++) {
        const struct rt_extent *extent = &node->own.list[i];
        if (extent->memory || extent->bytes < bytes || extent->bytes / 2 > bytes) continue;
        const uint64_t offset = extent->offset;
        node->own.list[i] = node->own.list[--node->own.count];
        return offset;
    }
    _Atomic uint64_t *next = &rt_node_header(node)->heap_next;
    uint64_t offset = atomic_load(next);
    do {
        if (offset < node->layout.heap || offset > node->layout.file_bytes || bytes > node->layout.file_bytes - offset)
            return 0;
    } while (!atomic_compare_exchange_weak(next, &offset, offset + bytes));
    return offset;
}

ringtree_status rt_node_alloc(struct rt_node *node, size_t bytes, void **pointer, struct rt_error *error)
{
    if (bytes > node->layout.file_bytes - node->layout.heap - PAGE)
        return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: ringtree_mem_alloc of %zu bytes: more than the shared heap holds",
                       node->rank, bytes);
    const size_t size = piece_bytes(bytes);
    const uint64_t offset = find_piece(node, size);
    unsigned char *memory = offset ? map(node, offset, size) : NULL;
    if (!memory || !extents_add(&node->own, (struct rt_extent){ offset, size, memory })) {
        if (memory) munmap(memory, size);
        return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: ringtree_mem_alloc: no memory for %zu bytes", node->rank, bytes);
    }
    *pointer = memory;
    return RINGTREE_OK;
}

static struct rt_extent *find_own(const struct rt_node *node, const void *pointer)
{
    for (uint32_t i = 0; i < node->own.count; i++)
        if (node->own.list[i].memory && node->own.list[i].memory == pointer) return &node->own.list[i];
    return NULL;
}

bool rt_node_owns(const struct rt_node *node, const void *pointer)
{
    return find_own(node, pointer) != NULL;
}

ringtree_status rt_node_free(struct rt_node *node, void *pointer, struct rt_error *error)
{
    struct rt_extent *extent = find_own(node, pointer);
    if (!extent)
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "rank %u: ringtree_mem_free: %p is not live memory from "
                       "ringtree_mem_alloc of this communicator", node->rank, pointer);
    munmap(extent->memory, extent->bytes);
    extent->memory = NULL;
    fallocate(node->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)extent->offset, (off_t)extent->bytes);
    return RINGTREE_OK;
}

bool rt_node_offset(const struct rt_node *node, const void *pointer, size_t bytes, uint64_t *offset)
{
    const unsigned char *at = pointer;
    for (uint32_t i = 0; i < node->own.count; i++) {
        const struct rt_extent *extent = &node->own.list[i];
        if (!extent->memory || at < extent->memory || at >= extent->memory + extent->bytes) continue;
        const size_t skip = (size_t)(at - extent->memory);
        if (bytes > extent->bytes - skip) return false;
        *offset = extent->offset + skip;
        return true;
    }
    return false;
}

void *rt_node_map(struct rt_node *node, uint64_t offset, size_t bytes)
{
    const struct rt_node_layout *layout = &node->layout;
    if (offset < layout->heap || offset > layout->file_bytes || bytes > layout->file_bytes - offset) return NULL;
    struct rt_extents *windows = &node->windows;
    for (uint32_t i = 0; i < windows->count; i++) {
        const struct rt_extent *window = &windows->list[i];
        if (offset >= window->offset && offset - window->offset <= window->bytes &&
            bytes <= window->bytes - (offset - window->offset))
            return window->memory + (offset - window->offset);
    }
    if (windows->count >= MOST_WINDOWS) { /* the oldest goes; views last for one operation only */
        munmap(windows->list[0].memory, windows->list[0].bytes);
        memmove(windows->list, windows->list + 1, --windows->count * sizeof *windows->list);
    }
    const uint64_t begin = offset / PAGE * PAGE, end = (offset + bytes + PAGE - 1) / PAGE * PAGE;
    unsigned char *memory = map(node, begin, end - begin + (begin == end ? PAGE : 0));
    const struct rt_extent window = { begin, end - begin + (begin == end ? PAGE : 0), memory };
    if (memory && !extents_add(windows, window)) {
        munmap(memory, window.bytes);
        return NULL;
    }
    return memory ? memory + (offset - begin) : NULL;
}

static void extents_close(struct rt_extents *extents)
{
    for (uint32_t i = 0; i < extents->count; i++)
        if (extents->list[i].memory) munmap(extents->list[i].memory, extents->list[i].bytes);
    free(extents->list);
}

void rt_node_heap_close(struct rt_node *node)
{
    extents_close(&node->own);
    extents_close(&node->windows);
}
