/*
 * The shared file: a memfd, so it has no name and ends with its last user however that ends, and it does not count
 * against /dev/shm. Its size is sealed, so no peer can shorten it under a mapping. What a rank takes over is checked
 * against what it computed itself before anything in it is used.
 */
#include "inside.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static ringtree_status map_fixed_part(struct rt_node_file *file, struct rt_error *error)
{
    const uint64_t bytes = file->layout.heap;
    void *base = rt_mapping_open(file->fd, bytes);
    if (!base)
        return rt_fail_errno(error, "cannot map %" PRIu64 " MiB of address space for the memory shared by %u ranks "
                             "(most of it is never touched); raise ulimit -v, or lower RINGTREE_SHM_SLOTS or "
                             "RINGTREE_SHM_SLOT_BYTES", bytes >> 20, file->layout.seats);
    file->base = base;
    return RINGTREE_OK;
}

static int memfd_new(void)
{
    const int fd = memfd_create("ringtree", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
    if (fd >= 0 || errno != EINVAL) return fd;
    return memfd_create("ringtree", MFD_CLOEXEC | MFD_ALLOW_SEALING); /* before Linux 6.3 */
}

ringtree_status rt_file_make(struct rt_node_file *file, const struct rt_node_choice *choice, struct rt_error *error)
{
    *file = (struct rt_node_file){ .fd = -1 };
    if (!rt_layout_from(&file->layout, choice))
        return rt_fail(error, RINGTREE_UNSUPPORTED, "the memory shared by %u ranks does not fit the limit on file "
                       "sizes; raise ulimit -f", choice->seats);
    file->fd = memfd_new();
    if (file->fd < 0) return rt_fail_errno(error, "cannot make shared memory (memfd_create)");
    if (ftruncate(file->fd, (off_t)file->layout.file_bytes) != 0)
        return rt_fail_errno(error, "cannot make shared memory %" PRIu64 " GiB long (it stays empty); raise ulimit -f",
                             file->layout.file_bytes >> 30);
    if (fcntl(file->fd, F_ADD_SEALS, SEALS) != 0) return rt_fail_errno(error, "cannot seal shared memory");
    ringtree_status status = map_fixed_part(file, error);
    if (status == RINGTREE_OK) ((struct rt_node_header *)file->base)->layout = file->layout;
    return status;
}

static ringtree_status check_size(const struct rt_node_file *file, struct rt_error *error)
{
    struct stat stat;
    if (fstat(file->fd, &stat) != 0)
        return rt_fail_errno(error, "cannot look at the shared memory that was handed over");
    const int seals = fcntl(file->fd, F_GET_SEALS);
    if ((uint64_t)stat.st_size != file->layout.file_bytes || seals < 0 || (seals & SEALS) != SEALS)
        return rt_fail(error, RINGTREE_REFUSED, "the descriptor that was handed over is not the shared memory: %lld "
                       "bytes where %" PRIu64 " were announced, seals %d", (long long)stat.st_size,
                       file->layout.file_bytes, seals);
    return RINGTREE_OK;
}

ringtree_status rt_file_take(struct rt_node_file *file, int fd, const struct rt_node_choice *choice,
                             struct rt_error *error)
{
    struct rt_node_layout found;
    *file = (struct rt_node_file){ .fd = fd };
    if (!rt_layout_from(&file->layout, choice))
        return rt_fail(error, RINGTREE_REFUSED, "the announced shape of the shared memory is impossible: %u ranks, %u "
                       "slots of %u bytes, %" PRIu64 " bytes long", choice->seats, choice->slots, choice->slot_bytes,
                       choice->file_bytes);
    ringtree_status status = check_size(file, error);
    if (status == RINGTREE_OK) status = map_fixed_part(file, error);
    if (status != RINGTREE_OK) return status;
    memcpy(&found, file->base, sizeof found);
    if (memcmp(&found, &file->layout, sizeof found) == 0) return RINGTREE_OK;
    return rt_fail(error, RINGTREE_REFUSED, "the shared memory's header is not the expected one (magic %016" PRIx64
                   ", version %u, %u ranks, communicator %016" PRIx64 "): different builds of ringtree, or damaged",
                   found.magic, found.version, found.seats, found.number);
}

void rt_file_close(struct rt_node_file *file)
{
    if (file->base) rt_mapping_close(file->base);
    if (file->fd >= 0) close(file->fd);
    *file = (struct rt_node_file){ .fd = -1 };
}
