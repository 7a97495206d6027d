/*
 * The inside of the control plane. One mutex, `lock`, guards everything that is not atomic; the control thread holds it
 * except while it sleeps in poll(), and nothing under it blocks, so callers wait microseconds for it.
 */
#ifndef RT_INSIDE_H
#define RT_INSIDE_H

#include "acceptor.h"
#include "dialer.h"
#include "meeting.h"
#include "wire.h"
#include <pthread.h>

#define RT_NS_PER_MS  1000000ull
#define RT_LINKS_MOST 21 /* a parent, and a child for every bit of a rank below 2^20 */
#define RT_CALLS_KEPT 1024

/* A connection of the tree. */
struct rt_tree_link {
    int              fd;   /* -1: not made yet, or ended */
    uint32_t         rank; /* at the other end */
    uint32_t         span; /* child: ranks rank .. rank + span - 1 are behind it */
    uint32_t         pid;
    bool             heard; /* a whole message has come: it cannot be replaced any more */
    bool             gone;  /* child: all behind it said goodbye; any: it left */
    uint8_t          head[RT_HEADER_BYTES];
    uint32_t         head_have, body_have;
    struct rt_header header;
    uint8_t         *body;
    uint8_t         *out; /* bytes out_sent .. out_count - 1 are still to be sent */
    size_t           out_sent, out_count, out_capacity;
    uint8_t         *up; /* child: its RT_MESSAGE_UP, kept until this rank has called too */
    uint32_t         up_length;
    struct rt_calls  calls; /* child: what it last called */
};

struct rt_gather {
    bool        active, sent_up, done;
    uint32_t    sequence, bytes;
    const void *mine;
    uint8_t    *all;
};

struct rt_call_slot {
    _Atomic uint64_t word[5]; /* sequence, count, op and root, collective and type, hash */
};

/* Written by the calling thread, read by the control thread; see calls.c. */
struct rt_call_ring {
    struct rt_call_slot slot[RT_CALLS_KEPT];
    _Atomic uint64_t    head;     /* calls begun */
    _Atomic uint64_t    finished; /* sequence of the last finished one, plus 1 */
    uint64_t            hash;     /* the writer's */
};

struct rt_watchdog {
    uint64_t next_ns, head, finished, finished_ns, sent_head;
};

/* A data connection that nobody took yet, or a rank that waits for the offered descriptor. */
struct rt_parked {
    struct rt_parked *next;
    int               fd;
    struct rt_claim   claim;
};

struct rt_control {
    uint32_t                  rank, nranks, timeout_ms;
    const struct rt_settings *settings;
    const struct rt_clock    *clock;
    uint8_t                   secret[16], key[RT_AUTH_KEY];
    uint64_t                  number, meeting_number;
    struct rt_place          *places;
    bool                      places_known;
    struct rt_place           parent_place;

    pthread_mutex_t     lock;
    pthread_cond_t      changed; /* on CLOCK_MONOTONIC */
    pthread_t           thread;
    bool                has_lock, has_thread, stop;
    int                 wake_fd;   /* for the user's sleeping waits */
    int                 thread_fd; /* wakes the control thread */
    struct rt_acceptor  acceptor;
    bool                has_acceptor;
    struct pollfd      *pollfds;
    struct rt_tree_link link[RT_LINKS_MOST]; /* [0] is the parent's, unused on rank 0 */
    uint32_t            nlinks;
    struct rt_gather    gather;
    struct rt_parked   *parked, *waiting; /* waiting: for the offered descriptor */
    int                 offered_fd;

    bool                goodbye, said_goodbye, all_gone; /* this rank wants to leave; its subtree does; all do */
    _Atomic int         failed;
    struct rt_error     failure;
    struct rt_watchdog  watchdog;
    struct rt_call_ring calls;
};

/* Everything below but rt_control_thread() and the words is called with the lock held. */

/* control.c */
uint64_t rt_control_now(const struct rt_control *control);
/* "rank 3 (host x, pid 123)", or less if that is not known yet. Needs no lock. */
const char *rt_rank_words(const struct rt_control *control, uint32_t rank, char *text, size_t capacity);
void rt_control_unix_name(uint64_t number, uint32_t rank, uint16_t port, char name[RT_UNIX_NAME]);

/* serve.c */
void *rt_control_thread(void *control);
void rt_control_poke(struct rt_control *control); /* from any thread, no lock needed */

/* failure.c */
void rt_failure_set(struct rt_control *control, const struct rt_error *failure, const struct rt_tree_link *from);
void rt_failure_say(struct rt_control *control, ringtree_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void rt_control_ring(struct rt_control *control); /* makes wake_fd readable */

/* tree.c */
void rt_tree_init(struct rt_control *control);
void rt_tree_send(struct rt_tree_link *link, enum rt_message type, const void *body, uint32_t length);
void rt_tree_read(struct rt_control *control, struct rt_tree_link *link);
void rt_tree_flush(struct rt_tree_link *link);
void rt_tree_adopt(struct rt_control *control, int fd, const struct rt_claim *claim);
void rt_tree_end(struct rt_tree_link *link); /* closes and frees */
void rt_goodbye_step(struct rt_control *control);

/* gather.c */
void rt_gather_step(struct rt_control *control);
void rt_gather_up(struct rt_control *control, struct rt_tree_link *link, uint8_t *body, uint32_t length);
void rt_gather_down(struct rt_control *control, const uint8_t *body, uint32_t length);

/* calls.c, watchdog.c */
bool rt_call_at(const struct rt_call_ring *ring, uint64_t ordinal, struct rt_frame *frame, uint64_t *hash);
void rt_watchdog_tick(struct rt_control *control, uint64_t now_ns, uint64_t *wake_ns);
void rt_watchdog_compare(struct rt_control *control, struct rt_tree_link *link);
void rt_watchdog_state(struct rt_control *control, struct rt_state *state);

/* parked.c, ask.c */
void rt_parked_add(struct rt_control *control, int fd, const struct rt_claim *claim);
void rt_parked_serve_fd(struct rt_control *control);
void rt_parked_end(struct rt_control *control);
void rt_ask_answer(struct rt_control *control, int fd);
/* A dialer for `peer`, with the routes that its place gives. Takes no lock. */
void rt_dial_prepare(const struct rt_control *control, uint32_t peer, const struct rt_place *place,
                     const struct rt_claim *claim, uint64_t deadline_ns, struct rt_dialer *dialer);

#endif
