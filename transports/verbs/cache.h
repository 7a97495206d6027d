/*
 * Registered memory of the caller's, kept for the next time: arrays are sent from where they lie.
 *
 * A registration pins pages. If the caller gives the memory back and gets other pages at the same address, the device
 * would go on sending the old ones, so the kernel is asked to tell: every kept piece is watched by a userfaultfd (for
 * munmap, mremap and MADV_DONTNEED, which is what free() comes down to; no page fault is ever held up). Whoever unmaps
 * waits in the kernel until a thread of this cache has read the event, and lookups wait until what was read is marked:
 * so a piece is never used after its memory has gone. Where there is no userfaultfd, nothing is kept and slices are
 * copied. The same for memory that is not private and anonymous.
 *
 * Pieces are parts of the caller's mappings of up to RT_VERBS_PIECE bytes, at aligned addresses. The one that was
 * unused for longest makes room.
 */
#ifndef RT_VERBS_CACHE_H
#define RT_VERBS_CACHE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RT_VERBS_PIECES 64
#define RT_VERBS_PIECE  ((size_t)4 << 20)

struct rt_verbs_piece {
    _Atomic uintptr_t begin, end; /* end 0: free */
    atomic_bool       gone;       /* its memory is not what it was */
    void             *registered; /* what register_() gave; NULL: not to be had, copy */
    uint32_t          users;
    uint64_t          used_at;
};

struct rt_verbs_cache {
    struct rt_verbs_piece piece[RT_VERBS_PIECES];
    uint64_t              turn;
    atomic_bool           some_gone, reading;
    int                   watcher, stop; /* userfaultfd; an eventfd that ends the thread */
    bool                  runs;
    pthread_t             thread;
    void *(*register_)(void *context, void *at, size_t bytes); /* NULL: not possible */
    void (*deregister)(void *context, void *registered);
    void *context;
};

/* false: nothing can be watched here, *why says why; then find() always says to copy. */
bool rt_verbs_cache_open(struct rt_verbs_cache *cache, const char **why);
/* No piece may be in use. */
void rt_verbs_cache_close(struct rt_verbs_cache *cache);
/* The piece that covers these bytes, in use from now on; NULL: copy them. */
struct rt_verbs_piece *rt_verbs_cache_find(struct rt_verbs_cache *cache, const void *at, size_t bytes);
void rt_verbs_cache_release(struct rt_verbs_piece *piece);
/* Memory from `begin` to `end` is gone. Of any thread; takes no lock, allocates nothing. */
void rt_verbs_cache_forget(struct rt_verbs_cache *cache, uintptr_t begin, uintptr_t end);

#endif
