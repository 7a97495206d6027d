/*
 * The heap behind ringtree_mem_alloc(): extents of the shared file, each with one owner. Extents come from one counter
 * in the file's header; the owner keeps those that were freed and uses them again. Freed pages are punched out of the
 * file, so they cost nothing and read as zeros.
 *
 * An extent is an odd number of pages long, since buffers exactly 2^28 bytes apart are many times slower together.
 * A lock, because a progress thread looks addresses up while the caller allocates.
 */
#include "inside.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#define WINDOW    (UINT64_C(256) << 20) /* peers' memory is mapped in pieces of this size: few mappings, all kept */
#define HUGE_PAGE (UINT64_C(2) << 20)

struct extent { /* live or spare */
    unsigned char *address; /* live ones; as view, where it is mapped */
    size_t         bytes;   /* as asked for */
    uint64_t       offset, length;
};

struct extents {
    struct extent *at;
    size_t         count, capacity;
};

struct rt_heap {
    pthread_mutex_t   lock;
    int               fd;
    uint32_t          rank;
    uint64_t          begin, end, page; /* offsets in the file */
    _Atomic uint64_t *used;             /* shared: bytes given out so far, by all ranks */
    struct extents    live;             /* by address */
    struct extents    spare;            /* by offset */
    struct extents    views;            /* of anybody's memory, as mapped */
};

struct rt_heap *rt_heap_open(int fd, const struct rt_node_layout *layout, _Atomic uint64_t *used, uint32_t rank)
{
    struct rt_heap *heap = calloc(1, sizeof *heap);
    if (!heap) return NULL;
    *heap = (struct rt_heap){ .fd = fd, .rank = rank, .begin = layout->heap, .end = layout->file_bytes,
                              .page = layout->page, .used = used };
    pthread_mutex_init(&heap->lock, NULL);
    return heap;
}

static void unmap_all(struct extents *extents)
{
    for (size_t i = 0; i < extents->count; i++) munmap(extents->at[i].address, extents->at[i].length);
    free(extents->at);
}

void rt_heap_close(struct rt_heap *heap)
{
    if (!heap) return;
    unmap_all(&heap->live);
    unmap_all(&heap->views);
    free(heap->spare.at);
    pthread_mutex_destroy(&heap->lock);
    free(heap);
}

/* ---- arrays of extents */

static bool extents_reserve(struct extents *extents)
{
    if (extents->count < extents->capacity) return true;
    const size_t capacity = extents->capacity ? 2 * extents->capacity : 16;
    struct extent *at = realloc(extents->at, capacity * sizeof *at);
    if (!at) return false;
    *extents = (struct extents){ at, extents->count, capacity };
    return true;
}

static void extents_insert(struct extents *extents, size_t i, struct extent extent)
{
    memmove(extents->at + i + 1, extents->at + i, (extents->count - i) * sizeof *extents->at);
    extents->at[i] = extent;
    extents->count++;
}

static void extents_remove(struct extents *extents, size_t i)
{
    extents->count--;
    memmove(extents->at + i, extents->at + i + 1, (extents->count - i) * sizeof *extents->at);
}

/* The number of live extents that begin at or before `address`. */
static size_t live_until(const struct extents *live, uintptr_t address)
{
    size_t low = 0, high = live->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if ((uintptr_t)live->at[middle].address <= address) low = middle + 1;
        else high = middle;
    }
    return low;
}

static struct extent *live_around(struct rt_heap *heap, const void *pointer)
{
    const size_t i = live_until(&heap->live, (uintptr_t)pointer);
    struct extent *found = i ? &heap->live.at[i - 1] : NULL;
    return found && (uintptr_t)pointer - (uintptr_t)found->address < found->length ? found : NULL;
}

/* ---- space in the file */

/* The smallest spare extent that is long enough; what it has too much, if that is of any use, stays spare. */
static bool spare_take(struct rt_heap *heap, uint64_t length, uint64_t *offset)
{
    struct extents *spare = &heap->spare;
    size_t best = spare->count;
    for (size_t i = 0; i < spare->count; i++)
        if (spare->at[i].length >= length && (best == spare->count || spare->at[i].length < spare->at[best].length))
            best = i;
    if (best == spare->count) return false;
    *offset = spare->at[best].offset;
    spare->at[best].offset += length;
    spare->at[best].length -= length;
    if (spare->at[best].length == 0) extents_remove(spare, best);
    return true;
}

/* When there is no memory to note it, the extent is lost: that costs address space only. */
static void spare_give(struct rt_heap *heap, uint64_t offset, uint64_t length)
{
    struct extents *spare = &heap->spare;
    size_t i = 0;
    while (i < spare->count && spare->at[i].offset < offset) i++;
    const bool joins_next = i < spare->count && offset + length == spare->at[i].offset;
    const bool joins_last = i > 0 && spare->at[i - 1].offset + spare->at[i - 1].length == offset;
    if (joins_last) {
        spare->at[i - 1].length += length + (joins_next ? spare->at[i].length : 0);
        if (joins_next) extents_remove(spare, i);
    } else if (joins_next) {
        spare->at[i].offset = offset;
        spare->at[i].length += length;
    } else if (extents_reserve(spare)) {
        extents_insert(spare, i, (struct extent){ .offset = offset, .length = length });
    }
}

/* What all ranks together have taken, never beyond the heap whatever the shared counter says. */
static uint64_t heap_used(const struct rt_heap *heap)
{
    const uint64_t used = atomic_load_explicit(heap->used, memory_order_relaxed), room = heap->end - heap->begin;
    return used < room ? used / heap->page * heap->page : room;
}

static bool space_take(struct rt_heap *heap, uint64_t length, uint64_t *offset)
{
    if (spare_take(heap, length, offset)) return true;
    const uint64_t room = heap->end - heap->begin;
    uint64_t used = atomic_load_explicit(heap->used, memory_order_relaxed);
    do {
        if (used % heap->page || used > room || length > room - used) return false;
    } while (!atomic_compare_exchange_weak_explicit(heap->used, &used, used + length, memory_order_relaxed,
                                                    memory_order_relaxed));
    *offset = heap->begin + used;
    return true;
}

/* ---- allocation */

static uint64_t machine_memory(void)
{
    struct sysinfo info;
    return sysinfo(&info) == 0 ? ((uint64_t)info.totalram + info.totalswap) * info.mem_unit : UINT64_MAX;
}

static ringtree_status alloc_extent(struct rt_heap *heap, size_t bytes, void **pointer, struct rt_error *error)
{
    const uint64_t pages = (bytes + heap->page - 1) / heap->page, length = (pages | 1) * heap->page;
    uint64_t offset = 0;
    if (!extents_reserve(&heap->live))
        return rt_fail(error, RINGTREE_NO_MEMORY, "ringtree_mem_alloc on rank %u: no memory", heap->rank);
    if (!space_take(heap, length, &offset))
        return rt_fail(error, RINGTREE_NO_MEMORY, "ringtree_mem_alloc on rank %u: the shared heap of %" PRIu64 " MiB "
                       "has no room for %zu bytes; free some memory, or raise ulimit -f before the ranks start",
                       heap->rank, (heap->end - heap->begin) >> 20, bytes);
    void *address = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, heap->fd, (off_t)offset);
    if (address == MAP_FAILED) {
        rt_fail_errno(error, "ringtree_mem_alloc on rank %u: cannot map %" PRIu64 " bytes (ulimit -v, or too many "
                      "mappings)", heap->rank, length);
        spare_give(heap, offset, length);
        if (error) error->status = RINGTREE_NO_MEMORY;
        return RINGTREE_NO_MEMORY;
    }
    if (length >= HUGE_PAGE) madvise(address, length, MADV_HUGEPAGE); /* advice: it may be refused */
    extents_insert(&heap->live, live_until(&heap->live, (uintptr_t)address),
                   (struct extent){ address, bytes, offset, length });
    *pointer = address;
    return RINGTREE_OK;
}

ringtree_status rt_heap_alloc(struct rt_heap *heap, size_t bytes, void **pointer, struct rt_error *error)
{
    const uint64_t memory = machine_memory();
    *pointer = NULL;
    if (bytes > memory || bytes > heap->end - heap->begin)
        return rt_fail(error, RINGTREE_NO_MEMORY, "ringtree_mem_alloc on rank %u: %zu bytes are more than this "
                       "machine's %" PRIu64 " MiB of memory or the shared heap's %" PRIu64 " MiB", heap->rank, bytes,
                       memory >> 20, (heap->end - heap->begin) >> 20);
    pthread_mutex_lock(&heap->lock);
    ringtree_status status = alloc_extent(heap, bytes, pointer, error);
    pthread_mutex_unlock(&heap->lock);
    return status;
}

static ringtree_status not_live(const struct rt_heap *heap, const void *pointer, const struct extent *around,
                                struct rt_error *error)
{
    if (around)
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "ringtree_mem_free on rank %u: %p is inside the memory that "
                       "ringtree_mem_alloc gave out at %p, not its start", heap->rank, pointer,
                       (void *)around->address);
    return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "ringtree_mem_free on rank %u: %p is not live memory from "
                   "ringtree_mem_alloc of this communicator: freed already, or from elsewhere", heap->rank, pointer);
}

static ringtree_status free_extent(struct rt_heap *heap, void *pointer, struct rt_error *error)
{
    struct extent *found = live_around(heap, pointer);
    if (!found || found->address != pointer) return not_live(heap, pointer, found, error);
    const struct extent extent = *found;
    const int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    if (fallocate(heap->fd, punch, (off_t)extent.offset, (off_t)extent.length) != 0)
        memset(extent.address, 0, extent.length);
    munmap(extent.address, extent.length);
    extents_remove(&heap->live, (size_t)(found - heap->live.at));
    spare_give(heap, extent.offset, extent.length);
    return RINGTREE_OK;
}

ringtree_status rt_heap_free(struct rt_heap *heap, void *pointer, struct rt_error *error)
{
    pthread_mutex_lock(&heap->lock);
    ringtree_status status = free_extent(heap, pointer, error);
    pthread_mutex_unlock(&heap->lock);
    return status;
}

/* ---- looking up */

bool rt_heap_owns(struct rt_heap *heap, const void *pointer)
{
    pthread_mutex_lock(&heap->lock);
    const struct extent *found = live_around(heap, pointer);
    const bool owns = found && found->address == pointer;
    pthread_mutex_unlock(&heap->lock);
    return owns;
}

bool rt_heap_offset(struct rt_heap *heap, const void *pointer, size_t bytes, uint64_t *offset)
{
    pthread_mutex_lock(&heap->lock);
    const struct extent *found = live_around(heap, pointer);
    const size_t into = found ? (size_t)((uintptr_t)pointer - (uintptr_t)found->address) : 0;
    const bool inside = found && into <= found->bytes && bytes <= found->bytes - into;
    if (inside) *offset = found->offset + into;
    pthread_mutex_unlock(&heap->lock);
    return inside;
}

/* ---- peers' memory */

static unsigned char *view_find(const struct rt_heap *heap, uint64_t offset, size_t bytes)
{
    for (size_t i = heap->views.count; i-- > 0;) {
        const struct extent *view = &heap->views.at[i];
        if (offset >= view->offset && offset + bytes <= view->offset + view->length)
            return view->address + (offset - view->offset);
    }
    return NULL;
}

static unsigned char *view_new(struct rt_heap *heap, uint64_t offset, size_t bytes)
{
    if (!extents_reserve(&heap->views)) return NULL;
    const uint64_t first = (offset - heap->begin) / WINDOW * WINDOW + heap->begin;
    uint64_t last = (offset + bytes - heap->begin + WINDOW - 1) / WINDOW * WINDOW + heap->begin;
    if (last > heap->end) last = heap->end;
    void *address = mmap(NULL, last - first, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, heap->fd,
                         (off_t)first);
    if (address == MAP_FAILED) return NULL;
    madvise(address, last - first, MADV_DONTDUMP);
    extents_insert(&heap->views, heap->views.count, (struct extent){ address, 0, first, last - first });
    return (unsigned char *)address + (offset - first);
}

/* The offset came from a peer: it must lie in what has been given out. */
void *rt_heap_map(struct rt_heap *heap, uint64_t offset, size_t bytes)
{
    const uint64_t used = heap_used(heap);
    if (offset < heap->begin || offset - heap->begin > used || bytes > used - (offset - heap->begin)) return NULL;
    if (bytes == 0) bytes = 1;
    pthread_mutex_lock(&heap->lock);
    unsigned char *view = view_find(heap, offset, bytes);
    if (!view) view = view_new(heap, offset, bytes);
    pthread_mutex_unlock(&heap->lock);
    return view;
}
