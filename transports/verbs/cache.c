/* See cache.h. */
#include "cache.h"
#include "base/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * A forked child holds a copy of each userfaultfd. While one is open somewhere and nobody reads it, whoever unmaps
 * watched memory waits for ever; so children close theirs.
 */
#define MOST_WATCHERS 64
static atomic_int     watchers[MOST_WATCHERS]; /* descriptors + 1; 0: none */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool           children_close;

static void close_in_child(void)
{
    for (int i = 0; i < MOST_WATCHERS; i++) {
        const int one = atomic_exchange(&watchers[i], 0);
        if (one) close(one - 1);
    }
}

static void ask_for_forks(void)
{
    children_close = pthread_atfork(NULL, NULL, close_in_child) == 0;
}

static bool note_watcher(int watcher)
{
    pthread_once(&once, ask_for_forks);
    for (int i = 0, none = 0; children_close && i < MOST_WATCHERS; i++, none = 0)
        if (atomic_compare_exchange_strong(&watchers[i], &none, watcher + 1)) return true;
    return false;
}

static void close_watcher(int watcher)
{
    for (int i = 0, one = watcher + 1; i < MOST_WATCHERS; i++, one = watcher + 1)
        atomic_compare_exchange_strong(&watchers[i], &one, 0);
    close(watcher);
}

/* ---- the watching thread */

void rt_verbs_cache_forget(struct rt_verbs_cache *cache, uintptr_t begin, uintptr_t end)
{
    for (int i = 0; i < RT_VERBS_PIECES; i++) {
        struct rt_verbs_piece *piece = &cache->piece[i];
        if (atomic_load(&piece->begin) >= end || atomic_load(&piece->end) <= begin) continue;
        atomic_store(&piece->gone, true);
        atomic_store(&cache->some_gone, true);
    }
}

static void obey(struct rt_verbs_cache *cache, const struct uffd_msg *message)
{
    if (message->event == UFFD_EVENT_UNMAP || message->event == UFFD_EVENT_REMOVE)
        rt_verbs_cache_forget(cache, message->arg.remove.start, message->arg.remove.end);
    else if (message->event == UFFD_EVENT_REMAP)
        rt_verbs_cache_forget(cache, message->arg.remap.from, message->arg.remap.from + message->arg.remap.len);
}

/* Must never wait for anything that an unmapping thread may hold: no lock, no allocation, no log. */
static void *watch(void *argument)
{
    struct rt_verbs_cache *cache = argument;
    struct pollfd fds[2] = { { .fd = cache->watcher, .events = POLLIN }, { .fd = cache->stop, .events = POLLIN } };
    struct uffd_msg message;
    while (poll(fds, 2, -1) >= 0 || errno == EINTR) {
        if (fds[1].revents) break;
        atomic_store(&cache->reading, true); /* before the unmapping thread can go on */
        while (read(cache->watcher, &message, sizeof(message)) == (ssize_t)sizeof(message)) obey(cache, &message);
        atomic_store(&cache->reading, false);
    }
    close_watcher(cache->watcher); /* here: a thread that ends gives back its stack, which may be watched too */
    return NULL;
}

static bool prepare(int watcher)
{
    struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP |
                                                           UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_PAGEFAULT_FLAG_WP };
    return watcher >= 0 && ioctl(watcher, UFFDIO_API, &api) == 0;
}

bool rt_verbs_cache_open(struct rt_verbs_cache *cache, const char **why)
{
    cache->watcher = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    cache->stop = eventfd(0, EFD_CLOEXEC);
    *why = "the kernel has no userfaultfd that tells of unmapped memory";
    if (!prepare(cache->watcher) || cache->stop < 0) return false;
    *why = "too many communicators watch memory";
    if (!note_watcher(cache->watcher)) return false;
    *why = "no thread can be started to watch memory";
    cache->runs = pthread_create(&cache->thread, NULL, watch, cache) == 0;
    return cache->runs;
}

/* ---- pieces */

static void drop(struct rt_verbs_cache *cache, struct rt_verbs_piece *piece)
{
    if (piece->registered) cache->deregister(cache->context, piece->registered);
    piece->registered = NULL;
    atomic_store(&piece->end, 0);
    atomic_store(&piece->begin, 0);
    atomic_store(&piece->gone, false);
}

void rt_verbs_cache_close(struct rt_verbs_cache *cache)
{
    const uint64_t one = 1;
    for (int i = 0; i < RT_VERBS_PIECES; i++)
        if (cache->piece[i].end) drop(cache, &cache->piece[i]);
    if (cache->runs && write(cache->stop, &one, sizeof(one)) == (ssize_t)sizeof(one)) pthread_join(cache->thread, NULL);
    else if (cache->watcher >= 0) close_watcher(cache->watcher);
    if (cache->stop >= 0) close(cache->stop);
}

static void drop_gone(struct rt_verbs_cache *cache)
{
    if (!atomic_exchange(&cache->some_gone, false)) return;
    for (int i = 0; i < RT_VERBS_PIECES; i++) {
        struct rt_verbs_piece *piece = &cache->piece[i];
        if (piece->gone && !piece->users) drop(cache, piece);
        else if (piece->gone) atomic_store(&cache->some_gone, true);
    }
}

/* A place for another piece: a free one, or that of the one unused for longest. NULL: all are in use. */
static struct rt_verbs_piece *make_room(struct rt_verbs_cache *cache)
{
    struct rt_verbs_piece *oldest = NULL;
    for (int i = 0; i < RT_VERBS_PIECES; i++) {
        struct rt_verbs_piece *piece = &cache->piece[i];
        if (!piece->end) return piece;
        if (!piece->users && (!oldest || piece->used_at < oldest->used_at)) oldest = piece;
    }
    if (oldest) drop(cache, oldest);
    return oldest;
}

/* The private anonymous writable mapping around `at`, or false. Neighbours with the same rights are one. */
static bool mapping_of(uintptr_t at, uintptr_t *begin, uintptr_t *end)
{
    char line[512], rights[8];
    uint64_t from, to, inode;
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    *begin = *end = 0;
    while (maps && fgets(line, sizeof(line), maps)) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*s %*s %" SCNu64, &from, &to, rights, &inode) != 4) continue;
        if (strcmp(rights, "rw-p") != 0 || inode) continue;
        if (from != *end) {
            if (found) break;
            *begin = from;
        }
        *end = to;
        found |= from <= at && at < to;
    }
    if (maps) fclose(maps);
    return found;
}

/*
 * Registers the piece around these bytes. The whole mapping is watched, and stays so to the end: watching a part would
 * split it, and an mremap() over both parts would fail. Watched first: from then on nothing is missed.
 */
static void take(struct rt_verbs_cache *cache, struct rt_verbs_piece *piece, uintptr_t at, size_t bytes)
{
    const uintptr_t from = at / RT_VERBS_PIECE * RT_VERBS_PIECE;
    const uintptr_t to = (at + bytes + RT_VERBS_PIECE - 1) / RT_VERBS_PIECE * RT_VERBS_PIECE;
    uintptr_t begin, end;
    const bool found = mapping_of(at, &begin, &end) && at + bytes <= end;
    struct uffdio_register range = { .range = { begin, end - begin }, .mode = UFFDIO_REGISTER_MODE_WP };
    atomic_store(&piece->begin, found && begin > from ? begin : from);
    atomic_store(&piece->end, found && end < to ? end : to); /* not found: remembered as one to copy */
    if (found && ioctl(cache->watcher, UFFDIO_REGISTER, &range) == 0)
        piece->registered = cache->register_(cache->context, (void *)piece->begin, piece->end - piece->begin);
}

static struct rt_verbs_piece *add(struct rt_verbs_cache *cache, uintptr_t at, size_t bytes)
{
    struct rt_verbs_piece *piece = make_room(cache);
    if (piece) take(cache, piece, at, bytes);
    return piece;
}

struct rt_verbs_piece *rt_verbs_cache_find(struct rt_verbs_cache *cache, const void *data, size_t bytes)
{
    const uintptr_t at = (uintptr_t)data;
    struct rt_verbs_piece *found = NULL;
    if (!cache->runs) return NULL;
    while (atomic_load(&cache->reading)) rt_pause();
    drop_gone(cache);
    for (int i = 0; i < RT_VERBS_PIECES && !found; i++) {
        struct rt_verbs_piece *piece = &cache->piece[i];
        if (piece->begin <= at && at + bytes <= piece->end && !piece->gone) found = piece;
    }
    if (!found) found = add(cache, at, bytes);
    if (!found) return NULL;
    found->used_at = ++cache->turn;
    if (!found->registered) return NULL;
    found->users++;
    return found;
}

void rt_verbs_cache_release(struct rt_verbs_piece *piece)
{
    piece->users--;
}
