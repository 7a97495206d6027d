/*
 * Accepts connections on a TCP and a unix listener and brings each through the handshake, for whichever thread polls
 * it. Strangers cost a slot of a small table for at most RT_HANDSHAKE_MS, a counter and a log line.
 *
 * One descriptor is held in reserve. When accept() finds none left, the reserve takes each connection just long enough
 * to say so to the other side, which would otherwise wait for an answer and could only guess.
 */
#ifndef RT_ACCEPTOR_H
#define RT_ACCEPTOR_H

#include "auth.h"
#include <poll.h>
#include <stdatomic.h>

#define RT_PENDING_MOST 128 /* handshakes at once; more wait in the kernel's backlog */
#define RT_ACCEPTOR_POLLFDS (2 + RT_PENDING_MOST)

struct rt_pending {
    int                 fd;
    uint64_t            since_ns;
    struct rt_handshake handshake;
};

struct rt_acceptor {
    int                    tcp_fd, unix_fd; /* -1: none */
    int                    spare_fd;        /* the reserve; -1: lost to another thread, for now */
    bool                   can_do_without_unix; /* set before opening: whoever knows it knows TCP's too */
    uint8_t                key[RT_AUTH_KEY];
    uint64_t               number;
    uint32_t               nranks;
    uint32_t               npending;
    uint64_t               paused_until_ns; /* out of descriptors: listeners rest */
    uint64_t               lack_since_ns;   /* while `lacked` is not 0 */
    const struct rt_clock *clock;
    struct rt_pending     *pending; /* RT_PENDING_MOST of them */
    _Atomic uint64_t       rejected;
    _Atomic int            lack;    /* errno of the last accept() that failed for lack of descriptors or memory */
    _Atomic uint64_t       lack_ns; /* when that was */
    uint32_t               lacked; /* how often in a row */
};

/* Takes over the listeners, also when it fails (RINGTREE_NO_MEMORY; RINGTREE_SYSTEM: no descriptor is left). */
ringtree_status rt_acceptor_open(struct rt_acceptor *acceptor, int tcp_fd, int unix_fd, const struct rt_clock *clock,
                                 struct rt_error *error);
/* Which key and communicator the handshakes prove; ranks at or above nranks are refused (0: any). */
void rt_acceptor_trust(struct rt_acceptor *acceptor, const uint8_t secret[16], uint64_t number, uint32_t nranks);
void rt_acceptor_close(struct rt_acceptor *acceptor);
/* For the end of a sentence about ranks that are missing: "" unless some could not be let in lately, then why not. */
const char *rt_acceptor_words(const struct rt_acceptor *acceptor, char *text, size_t capacity);
/* Nothing could be let in for two seconds, and it is not half-made connections that use the descriptors up. */
bool rt_acceptor_is_stuck(const struct rt_acceptor *acceptor);

/* Fills at most RT_ACCEPTOR_POLLFDS entries; returns their number and lowers *wake_ns to when it must run again. */
uint32_t rt_acceptor_pollfds(const struct rt_acceptor *acceptor, struct pollfd *pollfds, uint64_t *wake_ns);
/* After poll(): accept, and drop what is late. */
void rt_acceptor_go(struct rt_acceptor *acceptor);
/* A connection that is proven, or -1. It is the caller's. */
int rt_acceptor_next(struct rt_acceptor *acceptor, struct rt_claim *claim);

#endif
