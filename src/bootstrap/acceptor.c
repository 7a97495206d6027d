/* Listeners and half-made connections; see acceptor.h. */
#include "acceptor.h"
#include "base/log.h"
#include "net.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MS 1000000ull
#define EVICT_MS 500  /* a full table gives up a slot this old: an honest handshake takes a few milliseconds */
#define PAUSE_MS 100
#define STUCK_MS 2000 /* other threads may give descriptors back until then */

static void close_if_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

static int open_spare(void)
{
    return eventfd(0, EFD_CLOEXEC);
}

ringtree_status rt_acceptor_open(struct rt_acceptor *a, int tcp_fd, int unix_fd, const struct rt_clock *clock,
                                 struct rt_error *error)
{
    a->tcp_fd = tcp_fd;
    a->unix_fd = unix_fd;
    a->clock = clock;
    a->npending = 0;
    a->paused_until_ns = a->lack_since_ns = 0;
    a->lacked = 0;
    atomic_init(&a->rejected, 0);
    atomic_init(&a->lack, 0);
    atomic_init(&a->lack_ns, 0);
    a->spare_fd = open_spare();
    const int why = errno;
    a->pending = calloc(RT_PENDING_MOST, sizeof(*a->pending));
    if (a->pending && a->spare_fd >= 0)
        return RINGTREE_OK;
    const bool lacks_memory = !a->pending;
    rt_acceptor_close(a);
    if (!lacks_memory)
        return rt_fail(error, RINGTREE_SYSTEM, "no descriptor is left for incoming connections: %s",
                       rt_errno_words(why));
    return rt_fail(error, RINGTREE_NO_MEMORY, "no memory for the table of incoming connections");
}

void rt_acceptor_trust(struct rt_acceptor *a, const uint8_t secret[16], uint64_t number, uint32_t nranks)
{
    rt_auth_key(a->key, secret, number);
    a->number = number;
    a->nranks = nranks;
}

void rt_acceptor_close(struct rt_acceptor *a)
{
    for (uint32_t i = 0; i < a->npending; i++)
        close(a->pending[i].fd);
    a->npending = 0;
    free(a->pending);
    a->pending = NULL;
    close_if_open(a->tcp_fd);
    close_if_open(a->unix_fd);
    close_if_open(a->spare_fd);
    a->tcp_fd = a->unix_fd = a->spare_fd = -1;
}

/* The first few and then ever rarer: a flood of strangers must not fill the disk. */
static bool is_worth_a_line(uint64_t count)
{
    return count <= 16 || (count & (count - 1)) == 0;
}

static void turn_away(struct rt_acceptor *a, int fd, const char *why)
{
    uint64_t count = atomic_fetch_add_explicit(&a->rejected, 1, memory_order_relaxed) + 1;
    char text[80];

    if (is_worth_a_line(count))
        rt_log(RT_LOG_WARN, "turned away a connection from %s: %s (%" PRIu64 " so far)",
               rt_peer_text(fd, text, sizeof(text)), why, count);
}

static int forget(struct rt_acceptor *a, uint32_t i)
{
    int fd = a->pending[i].fd;

    a->pending[i] = a->pending[--a->npending];
    return fd;
}

static void drop(struct rt_acceptor *a, uint32_t i, const char *why)
{
    turn_away(a, a->pending[i].fd, why);
    close(forget(a, i));
}

static uint32_t oldest(const struct rt_acceptor *a)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < a->npending; i++)
        if (a->pending[i].since_ns < a->pending[best].since_ns)
            best = i;
    return best;
}

uint32_t rt_acceptor_pollfds(const struct rt_acceptor *a, struct pollfd *pollfds, uint64_t *wake_ns)
{
    uint32_t n = 0;
    const uint64_t now = rt_now_ns(a->clock);
    const bool full = a->npending == RT_PENDING_MOST;
    uint64_t until = a->paused_until_ns;

    if (a->npending) {
        uint64_t since = a->pending[oldest(a)].since_ns, late = since + RT_HANDSHAKE_MS * MS;
        if (late < *wake_ns)
            *wake_ns = late;
        if (full && since + EVICT_MS * MS > until)
            until = since + EVICT_MS * MS;
    }
    if (now < until && until < *wake_ns)
        *wake_ns = until;
    if (now >= until && a->tcp_fd >= 0)
        pollfds[n++] = (struct pollfd){ a->tcp_fd, POLLIN, 0 };
    if (now >= until && a->unix_fd >= 0)
        pollfds[n++] = (struct pollfd){ a->unix_fd, POLLIN, 0 };
    for (uint32_t i = 0; i < a->npending; i++)
        pollfds[n++] = (struct pollfd){ a->pending[i].fd, rt_handshake_events(&a->pending[i].handshake), 0 };
    return n;
}

/* A free slot, if need be at the cost of the slowest stranger. */
static bool make_room(struct rt_acceptor *a, uint64_t now)
{
    if (a->npending < RT_PENDING_MOST)
        return true;
    uint32_t slowest = oldest(a);
    if (now < a->pending[slowest].since_ns + EVICT_MS * MS)
        return false;
    drop(a, slowest, "too slow while many wait");
    return true;
}

const char *rt_acceptor_words(const struct rt_acceptor *a, char *text, size_t capacity)
{
    const int lack = atomic_load_explicit(&a->lack, memory_order_relaxed);
    const uint64_t last_ns = atomic_load_explicit(&a->lack_ns, memory_order_relaxed);

    text[0] = '\0';
    if (lack && rt_now_ns(a->clock) < last_ns + STUCK_MS * MS)
        snprintf(text, capacity, "; connections could not be accepted here: %s", rt_errno_words(lack));
    return text;
}

bool rt_acceptor_is_stuck(const struct rt_acceptor *a)
{
    return a->lacked && a->npending == 0 && rt_now_ns(a->clock) >= a->lack_since_ns + STUCK_MS * MS;
}

/*
 * Everyone who waits at this listener is told that no descriptor is left, at the cost of the one in reserve. Between
 * close() and accept4() another thread may take it; so an accepted connection becomes the reserve again in one step,
 * and a reserve that stays lost is made anew from the unix listener, where TCP leads to the same place.
 */
static void tell_lack(struct rt_acceptor *a, int listener)
{
    uint8_t words[RT_CHALLENGE_BYTES];

    rt_lack_put(words);
    if (a->spare_fd < 0 && a->lacked && a->can_do_without_unix && a->unix_fd >= 0) {
        close(a->unix_fd);
        a->unix_fd = -1;
        listener = a->tcp_fd;
    }
    for (uint32_t i = 0; i < RT_PENDING_MOST; i++) {
        close_if_open(a->spare_fd);
        a->spare_fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (a->spare_fd < 0)
            break;
        if (send(a->spare_fd, words, sizeof(words), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            rt_log(RT_LOG_WARN, "cannot say that no descriptor is left: %s", rt_errno_words(errno));
        dup3(listener, a->spare_fd, O_CLOEXEC);
    }
    if (a->spare_fd < 0)
        a->spare_fd = open_spare();
}

/* accept() failed: a rest, if it was for lack of something. */
static void rest(struct rt_acceptor *a, int listener, int why, uint64_t now)
{
    if (why != EMFILE && why != ENFILE && why != ENOBUFS && why != ENOMEM)
        return;
    if (!poll(&(struct pollfd){ listener, POLLIN, 0 }, 1, 0))
        return; /* accept4() looks for a descriptor first, then for a connection: there is none */
    if (why == EMFILE || why == ENFILE)
        tell_lack(a, listener);
    if (a->lacked == 0)
        a->lack_since_ns = now;
    atomic_store_explicit(&a->lack_ns, now, memory_order_relaxed);
    a->paused_until_ns = now + PAUSE_MS * MS;
    atomic_store_explicit(&a->lack, why, memory_order_relaxed);
    if (is_worth_a_line(++a->lacked))
        rt_log(RT_LOG_ERROR, "cannot accept a connection: %s", rt_errno_words(why));
}

static void accept_from(struct rt_acceptor *a, int listener)
{
    const uint64_t now = rt_now_ns(a->clock);

    if (listener < 0 || now < a->paused_until_ns)
        return;
    while (make_room(a, now)) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return rest(a, listener, errno, now);
        a->lacked = 0;
        rt_tune_connection(fd);
        struct rt_pending *p = &a->pending[a->npending++];
        p->fd = fd;
        p->since_ns = now;
        rt_handshake_serve(&p->handshake, a->key, a->number, a->nranks);
    }
}

void rt_acceptor_go(struct rt_acceptor *a)
{
    const uint64_t now = rt_now_ns(a->clock);

    for (uint32_t i = a->npending; i-- > 0;)
        if (now >= a->pending[i].since_ns + RT_HANDSHAKE_MS * MS)
            drop(a, i, "no proof of the secret within 5 s");
    accept_from(a, a->tcp_fd);
    accept_from(a, a->unix_fd);
}

int rt_acceptor_next(struct rt_acceptor *a, struct rt_claim *claim)
{
    for (uint32_t i = a->npending; i-- > 0;) {
        ringtree_status status = rt_handshake_go(&a->pending[i].handshake, a->pending[i].fd);
        if (status == RINGTREE_OK) {
            *claim = a->pending[i].handshake.claim;
            return forget(a, i);
        }
        if (status == RINGTREE_REFUSED)
            drop(a, i, "it does not know the secret");
        else if (status != RINGTREE_IN_PROGRESS)
            drop(a, i, "it ended before it proved the secret");
    }
    return -1;
}
