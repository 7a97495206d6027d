/*
 * The meeting at the root: a thread that waits until every rank has come, checks that they belong together, and tells
 * each where its parent in the tree is. Or tells everyone who came why there will be no communicator.
 */
#include "meeting.h"
#include "acceptor.h"
#include "base/log.h"
#include "thread.h"
#include <arpa/inet.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MS 1000000ull
#define LINGER_MS 10000     /* after a failure: how long late comers are told of it */
#define RANKS_MOST (1u << 20)
#define GUESTS_MOST (RANKS_MOST + 1024)

struct guest {
    int            fd;
    bool           seated;
    uint32_t       have; /* bytes of its JOIN */
    uint64_t       since_ns;
    uint8_t        in[RT_HEADER_BYTES + RT_JOIN_BYTES];
    struct rt_join join; /* once seated */
};

struct server {
    struct rt_acceptor acceptor;
    uint64_t           session;
    struct guest     **guest; /* everyone proven and not yet answered */
    uint32_t           nguests, capacity;
    struct guest     **seat; /* by rank; NULL until nranks is known */
    uint32_t           nranks, nseated, told;
    uint32_t           timeout_ms; /* the one that ends first */
    uint64_t           deadline_ns;
    struct pollfd     *pollfds;
    struct rt_error    failure; /* once set, everyone gets it */
};

static void fail(struct server *s, ringtree_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void fail(struct server *s, ringtree_status status, const char *format, ...)
{
    va_list args;

    if (s->failure.status)
        return;
    va_start(args, format);
    rt_vfail(&s->failure, status, format, args);
    va_end(args);
    s->deadline_ns = rt_now_ns(s->acceptor.clock) + LINGER_MS * MS;
    rt_log(RT_LOG_ERROR, "meeting: %s", s->failure.text);
}

/* One short message into an empty socket buffer: it always fits, so a short write means that the guest is gone. */
static void answer(struct guest *g, enum rt_message type, const uint8_t *body, uint32_t length)
{
    uint8_t message[RT_HEADER_BYTES + RT_FAILURE_MOST];

    rt_header_put(message, type, length);
    memcpy(message + RT_HEADER_BYTES, body, length);
    if (send(g->fd, message, RT_HEADER_BYTES + length, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        rt_log(RT_LOG_WARN, "meeting: rank %u cannot be answered: %s", g->join.rank, rt_errno_words(errno));
    close(g->fd);
    g->fd = -1;
}

static void tell_failure(struct server *s, struct guest *g)
{
    uint8_t body[RT_FAILURE_MOST];

    answer(g, RT_MESSAGE_FAILURE, body, rt_failure_put(body, &s->failure));
    s->told++;
}

static void remove_guest(struct server *s, uint32_t i)
{
    if (s->guest[i]->fd >= 0)
        close(s->guest[i]->fd);
    free(s->guest[i]);
    s->guest[i] = s->guest[--s->nguests];
}

static void add_guest(struct server *s, int fd)
{
    struct guest *g = calloc(1, sizeof(*g));

    if (g && s->nguests == s->capacity) {
        uint32_t more = s->capacity ? 2 * s->capacity : 16;
        struct guest **grown = realloc(s->guest, more * sizeof(*grown));
        struct pollfd *polled = realloc(s->pollfds, (more + RT_ACCEPTOR_POLLFDS) * sizeof(*polled));
        s->guest = grown ? grown : s->guest;
        s->pollfds = polled ? polled : s->pollfds;
        if (grown && polled)
            s->capacity = more;
    }
    if (!g || s->nguests == s->capacity || s->nguests >= GUESTS_MOST) {
        free(g);
        close(fd);
        return;
    }
    g->fd = fd;
    g->since_ns = rt_now_ns(s->acceptor.clock);
    s->guest[s->nguests++] = g;
}

/* Does this guest belong here? The first one to come says how many there are. */
static void seat_guest(struct server *s, struct guest *g)
{
    const struct rt_join *j = &g->join;
    const uint64_t late = rt_now_ns(s->acceptor.clock) + j->timeout_ms * MS;

    if (strcmp(j->version, ringtree_version()) != 0) {
        fail(s, RINGTREE_REFUSED, "rank %u (host %s, pid %u) runs ringtree %s, and where the ranks meet it is %s; use "
             "one version on all ranks", j->rank, j->place.host, j->place.pid, j->version, ringtree_version());
        return;
    }
    if (!s->seat) {
        if (j->nranks == 0 || j->nranks > RANKS_MOST || !(s->seat = calloc(j->nranks, sizeof(struct guest *)))) {
            fail(s, RINGTREE_REFUSED, "rank %u (host %s, pid %u) asked for %u ranks: at most %u are possible", j->rank,
                 j->place.host, j->place.pid, j->nranks, RANKS_MOST);
            return;
        }
        s->nranks = j->nranks;
    }
    if (j->nranks != s->nranks) {
        const struct guest *first = NULL;
        for (uint32_t i = 0; i < s->nguests && !first; i++)
            first = s->guest[i]->seated ? s->guest[i] : NULL;
        fail(s, RINGTREE_REFUSED, "the ranks disagree on how many they are: rank %u (host %s, pid %u) was started as "
             "one of %u, rank %u (host %s, pid %u) as one of %u; start all with the same size", j->rank, j->place.host,
             j->place.pid, j->nranks, first ? first->join.rank : 0, first ? first->join.place.host : "?",
             first ? first->join.place.pid : 0, s->nranks);
    } else if (j->rank >= s->nranks) {
        fail(s, RINGTREE_REFUSED, "rank %u (host %s, pid %u) is not below the number of ranks, %u", j->rank,
             j->place.host, j->place.pid, s->nranks);
    } else if (s->seat[j->rank]) {
        const struct rt_place *other = &s->seat[j->rank]->join.place;
        fail(s, RINGTREE_REFUSED, "rank %u was given to two processes: host %s, pid %u and host %s, pid %u; give every "
             "process its own rank number", j->rank, other->host, other->pid, j->place.host, j->place.pid);
    } else {
        s->seat[j->rank] = g;
        s->nseated++;
        g->seated = true;
        if (late < s->deadline_ns) {
            s->deadline_ns = late;
            s->timeout_ms = j->timeout_ms;
        }
    }
}

/* Reads what a guest sent. False: it is done with and to be removed. */
static bool hear_guest(struct server *s, struct guest *g)
{
    struct rt_header header;

    for (;;) {
        uint8_t spare;
        bool complete = g->have == sizeof(g->in);
        ssize_t got = recv(g->fd, complete ? &spare : g->in + g->have, complete ? 1 : sizeof(g->in) - g->have,
                           MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return true;
        if (got <= 0 || complete) { /* ended; or said more than it should */
            if (g->seated)
                fail(s, RINGTREE_PEER_LOST, "rank %u (host %s, pid %u) ended while the others were still coming",
                     g->join.rank, g->join.place.host, g->join.place.pid);
            return false;
        }
        g->have += (uint32_t)got;
        if (g->have < sizeof(g->in))
            continue;
        if (!rt_header_parse(g->in, 1, &header) || header.type != RT_MESSAGE_JOIN ||
            !rt_join_parse(g->in + RT_HEADER_BYTES, &g->join))
            return false;
        if (!s->failure.status)
            seat_guest(s, g);
    }
}

static void hear_guests(struct server *s)
{
    const uint64_t now = rt_now_ns(s->acceptor.clock);

    for (uint32_t i = s->nguests; i-- > 0;) {
        struct guest *g = s->guest[i];
        bool late = g->have < sizeof(g->in) && now >= g->since_ns + RT_HANDSHAKE_MS * MS;
        if (!hear_guest(s, g) || late) {
            if (g->seated) {
                s->seat[g->join.rank] = NULL;
                s->nseated--;
            }
            remove_guest(s, i);
        }
    }
    for (uint32_t i = s->failure.status ? s->nguests : 0; i-- > 0;) {
        if (s->guest[i]->have == sizeof(s->guest[i]->in)) {
            tell_failure(s, s->guest[i]);
            remove_guest(s, i);
        }
    }
}

/* "3, 7-9" */
static void name_missing(const struct server *s, char *text, size_t capacity)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t r = 0, listed = 0; r < s->nranks; r++) {
        uint32_t end = r;
        if (s->seat[r])
            continue;
        while (end + 1 < s->nranks && !s->seat[end + 1])
            end++;
        if (listed++ == 16) {
            snprintf(text + used, capacity - used, ", ...");
            return;
        }
        used += (size_t)snprintf(text + used, capacity - used, end > r ? "%s%u-%u" : "%s%u", listed > 1 ? ", " : "", r,
                                 end);
        r = end;
    }
}

static void fail_missing(struct server *s)
{
    const uint64_t rejected = atomic_load_explicit(&s->acceptor.rejected, memory_order_relaxed);
    const uint32_t n = s->nranks - s->nseated;
    char missing[400], turned_away[120] = "", lack[160];

    if (!s->seat)
        return;
    name_missing(s, missing, sizeof(missing));
    if (rejected)
        snprintf(turned_away, sizeof(turned_away), "; %" PRIu64 " connection%s turned away, as with another secret",
                 rejected, rejected == 1 ? " was" : "s were");
    fail(s, RINGTREE_TIMEOUT, "rank%s %s of %u did not come within %u ms%s%s; look at the output of %s, or raise "
         "RINGTREE_TIMEOUT_MS", n == 1 ? "" : "s", missing, s->nranks, s->timeout_ms, turned_away,
         rt_acceptor_words(&s->acceptor, lack, sizeof(lack)),
         n == 1 ? "that rank" : "those ranks");
}

/* Waiting on is no use: nobody can be let in, and all who came have gone away or been seated. */
static void fail_stuck(struct server *s)
{
    char lack[160];

    fail(s, RINGTREE_SYSTEM, "the meeting has let in %u rank%s and can let in no more%s, in the process that made the "
         "id, or rank 0's", s->nseated, s->nseated == 1 ? "" : "s",
         rt_acceptor_words(&s->acceptor, lack, sizeof(lack)));
}

static void seat_everyone(struct server *s)
{
    uint8_t body[RT_SEAT_BYTES];

    for (uint32_t r = s->nranks; r-- > 0;) { /* rank 0 last: its process may be this one, and be in a hurry */
        struct rt_seat seat = { s->session, s->seat[rt_tree_parent(r)]->join.place };
        rt_seat_put(body, &seat);
        answer(s->seat[r], RT_MESSAGE_SEAT, body, RT_SEAT_BYTES);
    }
}

static void free_server(struct server *s)
{
    while (s->nguests)
        remove_guest(s, s->nguests - 1);
    rt_acceptor_close(&s->acceptor);
    free(s->guest);
    free(s->seat);
    free(s->pollfds);
    sodium_memzero(s, sizeof(*s));
    free(s);
}

/* One turn. False: the meeting is over. */
static bool serve_once(struct server *s)
{
    const struct rt_clock *clock = s->acceptor.clock;
    struct rt_claim claim;
    uint64_t wake = s->deadline_ns;
    int fd;
    uint32_t n = rt_acceptor_pollfds(&s->acceptor, s->pollfds, &wake);

    for (uint32_t i = 0; i < s->nguests; i++) {
        s->pollfds[n++] = (struct pollfd){ s->guest[i]->fd, POLLIN, 0 };
        if (s->guest[i]->have < sizeof(s->guest[i]->in) && s->guest[i]->since_ns + RT_HANDSHAKE_MS * MS < wake)
            wake = s->guest[i]->since_ns + RT_HANDSHAKE_MS * MS;
    }
    poll(s->pollfds, n, rt_poll_ms(rt_now_ns(clock), wake));
    rt_acceptor_go(&s->acceptor);
    while ((fd = rt_acceptor_next(&s->acceptor, &claim)) >= 0) {
        if (claim.kind == RT_CONNECT_MEET)
            add_guest(s, fd);
        else
            close(fd);
    }
    hear_guests(s);
    if (s->failure.status)
        return rt_now_ns(clock) < s->deadline_ns && s->told < s->nranks;
    if (s->seat && s->nseated == s->nranks) {
        seat_everyone(s);
        return false;
    }
    const bool stuck = rt_acceptor_is_stuck(&s->acceptor);
    if (rt_now_ns(clock) < s->deadline_ns && !stuck)
        return true;
    if (stuck)
        fail_stuck(s);
    else
        fail_missing(s);
    hear_guests(s);
    return s->failure.status != RINGTREE_OK && s->told < s->nranks;
}

static void *serve(void *argument)
{
    while (serve_once(argument))
        ;
    free_server(argument);
    return NULL;
}

/* ------------------------------------------------------------------ opening */

static bool is_numeric(const char *host)
{
    uint8_t bytes[16];

    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

/* The port that `where` names. A name binds to every address: it may stand for another one on other machines. */
static ringtree_status listen_where(struct rt_meeting *meeting, const char *where, int *fd, struct rt_error *error)
{
    char host[256], text[80];
    uint16_t port;

    ringtree_status status = rt_where_parse(where, "RINGTREE_ROOT", host, sizeof(host), &port, error);
    if (!status)
        status = rt_where_resolve(host, port, "rank 0's address", meeting->address, error);
    if (status)
        return status;
    *fd = rt_listen_tcp(is_numeric(host) ? &meeting->address[0] : NULL, &port);
    if (*fd == -EADDRNOTAVAIL && is_numeric(host))
        *fd = rt_listen_tcp(NULL, &port); /* an address that is translated on the way here */
    if (*fd >= 0)
        return RINGTREE_OK;
    return rt_fail(error, RINGTREE_UNREACHABLE,
                   "rank 0 cannot listen at %s (%s): %s; %s", where,
                   rt_address_text(&meeting->address[0], text, sizeof(text)), rt_errno_words(-*fd),
                   *fd == -EADDRINUSE ? "another program, or a run that has not ended, has this port: choose another "
                                        "in RINGTREE_ROOT, RINGTREE_PORT or the launcher's MASTER_PORT"
                                      : "look at RINGTREE_ROOT or the launcher's MASTER_ADDR");
}

/* Any free port, on every address of this machine. */
static ringtree_status listen_anywhere(struct rt_meeting *meeting, const struct rt_settings *settings, int *fd,
                                       struct rt_error *error)
{
    struct rt_place place;
    uint16_t port = 0;

    memset(&place, 0, sizeof(place));
    ringtree_status status = rt_place_find(&place, settings, error);
    if (status)
        return status;
    *fd = rt_listen_tcp(NULL, &port);
    if (*fd < 0)
        return rt_fail(error, RINGTREE_SYSTEM, "the meeting point cannot listen on any port: %s", rt_errno_words(-*fd));
    for (uint32_t i = 0; i < RT_MAX_ADDRESSES; i++) {
        meeting->address[i] = place.address[i];
        meeting->address[i].port = place.address[i].family ? port : 0;
    }
    return RINGTREE_OK;
}

/* A new secret and numbers, unless the launcher gave them. */
static void fill_secrets(struct rt_meeting *meeting)
{
    if (sodium_is_zero(meeting->secret, sizeof(meeting->secret))) {
        randombytes_buf(meeting->secret, sizeof(meeting->secret));
        randombytes_buf(&meeting->number, sizeof(meeting->number));
    }
    if (meeting->unix_name[0] == '\0') {
        uint64_t name;
        randombytes_buf(&name, sizeof(name));
        snprintf(meeting->unix_name, sizeof(meeting->unix_name), "ringtree-%016" PRIx64, name);
    }
}

static ringtree_status start(struct server *s, const struct rt_meeting *meeting, int tcp_fd, int unix_fd,
                             const struct rt_settings *settings, struct rt_error *error)
{
    ringtree_status status = rt_acceptor_open(&s->acceptor, tcp_fd, unix_fd, &rt_system_clock, error);

    if (status)
        return status;
    rt_acceptor_trust(&s->acceptor, meeting->secret, meeting->number, 0);
    randombytes_buf(&s->session, sizeof(s->session));
    s->timeout_ms = (uint32_t)settings->number[RT_TIMEOUT_MS];
    s->deadline_ns = rt_now_ns(&rt_system_clock) + s->timeout_ms * MS;
    s->pollfds = calloc(RT_ACCEPTOR_POLLFDS, sizeof(*s->pollfds));
    if (!s->pollfds)
        return rt_fail(error, RINGTREE_NO_MEMORY, "no memory for the meeting point");
    int failed = rt_thread_start(NULL, "ringtree-meet", serve, s);
    if (failed)
        return rt_fail(error, RINGTREE_SYSTEM, "the meeting point's thread cannot start: %s", rt_errno_words(failed));
    return RINGTREE_OK;
}

ringtree_status rt_meeting_serve(struct rt_meeting *meeting, const char *where, const struct rt_settings *settings,
                                 struct rt_error *error)
{
    int tcp_fd = -1;

    if (sodium_init() < 0)
        return rt_fail(error, RINGTREE_SYSTEM, "libsodium finds no source of random numbers");
    const bool named = meeting->unix_name[0] != '\0';
    fill_secrets(meeting);
    ringtree_status status = where ? listen_where(meeting, where, &tcp_fd, error)
                                   : listen_anywhere(meeting, settings, &tcp_fd, error);
    if (status)
        return status;
    int unix_fd = rt_listen_unix(meeting->unix_name);
    if (unix_fd < 0 && named) {
        close(tcp_fd);
        return rt_fail(error, RINGTREE_UNREACHABLE, "rank 0 cannot listen at the unix socket @%s: %s; another run of "
                       "this job has not ended, or set RINGTREE_ROOT", meeting->unix_name, rt_errno_words(-unix_fd));
    }
    if (unix_fd < 0)
        meeting->unix_name[0] = '\0';
    struct server *s = calloc(1, sizeof(*s));
    if (!s) {
        close(tcp_fd);
        if (unix_fd >= 0)
            close(unix_fd);
        return rt_fail(error, RINGTREE_NO_MEMORY, "no memory for the meeting point");
    }
    s->acceptor.can_do_without_unix = where || !named; /* a name alone: the launcher's ranks know nothing else */
    status = start(s, meeting, tcp_fd, unix_fd, settings, error);
    if (status)
        free_server(s);
    return status;
}
