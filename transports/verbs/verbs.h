/*
 * Inside the verbs transport. A link carries slices one way. The two links between a pair of ranks on one lane share
 * their queue pairs (reliable connections, one completion queue each), as the links of tcp share their sockets; the
 * lane for messages has queue pairs of its own for each direction.
 *
 * A slice is written by RDMA into the slots that the receiver advertises, frame and payload in one request, whose
 * immediate tells the slice's number. A payload longer than RT_VERBS_STRIPE_LEAST is cut into as many parts as there
 * are queue pairs, over all ports. What a receiver released goes back as a credit in the immediates of slices that go
 * the other way, or alone once RT_VERBS_OWED are owed: so a sender never has more than RT_VERBS_RING slices at the
 * receiver, and that bounds every queue. Receive requests carry no memory, since all data goes into the slots; a shared
 * receive queue would save nothing, and one peer could use it up for all others.
 *
 * Beside the queue pairs each pair has an authenticated TCP connection. Over it go the hellos; its end tells at once
 * that the peer's process is gone. When a queue pair breaks, both ends empty theirs, tell over it how many slices came
 * whole, and go on with new ones, on ports that still work; where there is none, on the tcp transport (recover.c).
 *
 * Files: api.c loads the library; words.c, route.c, message.c pure parts; ports.c devices; memory.c registration;
 * cache.c the caller's memory; pair.c, hello.c connecting; queue.c queue pairs; send.c, recv.c the ends; recover.c
 * what happens when something breaks; verbs.c the table.
 */
#ifndef RT_VERBS_H
#define RT_VERBS_H

#include "api.h"
#include "bootstrap/control.h"
#include "cache.h"
#include "message.h"
#include "words.h"
#include "transports/transport.h"

#define RT_VERBS_SLOTS        4 /* as told to the engine: RING less the credits that may be owed */
#define RT_VERBS_STAGING      (RT_VERBS_RING + 1) /* a slot may be reserved beside those under way */
#define RT_VERBS_OWED         3
#define RT_VERBS_HEAD         64 /* of a slot; the frame is its second half */
#define RT_VERBS_FRAME        32
#define RT_VERBS_INLINE       220 /* frame and payload of a short slice, which go into the request itself */
#define RT_VERBS_SMALL        256 /* memory of a sender for each frame, or short slice */
#define RT_VERBS_STRIPE_LEAST (64 * 1024)
#define RT_VERBS_SENDS        32 /* requests of a queue pair */
#define RT_VERBS_RECEIVES     16
#define RT_VERBS_QUIET        4 /* so many requests may go without a completion */
#define RT_VERBS_ZERO_COPY    (16 * 1024) /* shorter payloads are copied rather than registered */
#define RT_VERBS_STRIPE_CLAIM 32 /* stripe of the pair's own connection, beyond those of tcp */
#define RT_VERBS_IDLE_LOOKS   1024 /* polls without news between two looks at the connection and the devices */
_Static_assert(RT_VERBS_RING - (RT_VERBS_OWED - 1) >= RT_VERBS_SLOTS, "credits owed leave too few slots");
_Static_assert(RT_VERBS_RING + RT_VERBS_RING / RT_VERBS_OWED + 2 <= RT_VERBS_RECEIVES, "receive requests run out");

/* A port of a device, opened for one communicator. */
struct rt_verbs_port {
    struct ibv_context *context;
    struct ibv_pd      *pd;
    struct rt_verbs_end end;
    char                device[32], interface[16];
    uint32_t            number, gid_index, pkey_index;
    uint64_t            speed; /* Mbit/s */
    int                 numa;
    bool                soft; /* emulated by the kernel */
    bool                down; /* an event said so, and none that it is up again */
    bool                gone; /* its device failed or was removed, for good */
    bool                odp;  /* can register without pinning */
    bool                owner; /* closes context and pd: the first port of its device */
    char                event[300]; /* its last asynchronous event, for sentences */
};

/* What the transport keeps for a communicator. */
struct rt_verbs {
    const struct rt_verbs_api *api;
    struct rt_fabric          *fabric;
    struct rt_verbs_port       port[RT_VERBS_PORTS];
    uint32_t                   ports;
    char                       why[300]; /* there are none */
    bool                       asked_for; /* RINGTREE_TRANSPORTS was set */
    uint8_t                   *meets;    /* per peer: 1 it can be reached, 2 it has no ports, 3 none that meets ours */
    struct rt_verbs_pair      *pairs;
    int                        poller; /* an epoll of the connections of all pairs */
    struct rt_verbs_cache     *cache;  /* what is registered of the caller's; NULL: slices are copied */
    bool                       cache_tried;
};

/* A queue pair. */
struct rt_verbs_queue {
    struct rt_verbs_port    *port;
    struct ibv_comp_channel *channel;
    struct ibv_cq           *cq;
    struct ibv_qp           *qp;
    uint32_t                 psn;
    uint32_t                 inline_bytes; /* that it grants */
    uint64_t                 posted, done; /* send requests */
    uint32_t                 quiet;        /* posted since the last one with a completion */
    uint64_t                 awaited, awaited_ns; /* the oldest request under way; when it was first seen */
    uint32_t                 receives;     /* receive requests that lie there */
    uint8_t                  their_port;
    bool                     armed;
    struct rt_verbs_end      theirs;
};

enum rt_verbs_way { RT_VERBS_BOTH_WAYS, RT_VERBS_OUT, RT_VERBS_IN };
enum rt_verbs_state {
    RT_VERBS_CONNECTING, /* the TCP connection is being made */
    RT_VERBS_GREETING,   /* hello and ready are under way */
    RT_VERBS_UP,
    RT_VERBS_BREAKING,   /* queue pairs are emptied, then greeting begins anew */
    RT_VERBS_PLAIN       /* slices go over the tcp transport from here on */
};

/* What two links share. In a list of the communicator's. */
struct rt_verbs_pair {
    struct rt_verbs_pair *next;
    struct rt_verbs      *verbs;
    struct rt_fabric     *fabric;
    struct rt_verbs_link *out, *in; /* NULL: not open at this end */
    uint32_t              peer, lane;
    enum rt_verbs_way     way;
    enum rt_verbs_state   state;
    struct rt_error       failure;
    bool                  dials;
    struct rt_dial       *dial;
    int                   fd, poller; /* the connection; an epoll of what wakes this pair, and all connections; -1 */

    struct rt_verbs_queue queue[RT_VERBS_QUEUES];
    uint32_t              queues; /* made; after the hellos: used */
    uint32_t              epoch;
    uint32_t              broken[RT_VERBS_PORTS]; /* times that a port of ours failed this pair */
    uint64_t              breaking_ns;            /* when emptying ends at the latest */
    struct rt_verbs_hello mine, theirs;
    bool                  heard_ready, told_ready, told_rings;
    struct rt_verbs_rings rings; /* of the receiver over there */
    bool                  heard_rings;
    unsigned char         inbox[2 * RT_VERBS_MOST], outbox[4 * RT_VERBS_MOST];
    size_t                inbox_used, outbox_used;
    uint32_t              idle;
    char                  reason[1000]; /* why it broke last, for sentences */
};

/* A slice given to send(). A short one is copied behind its frame; others stay where they are until acknowledged. */
struct rt_verbs_slice {
    struct rt_frame      frame;
    const unsigned char *data;
    uint64_t             post[RT_VERBS_QUEUES]; /* the request on each queue that carries a part of it */
    int32_t              staged; /* the staging slot that it lies in, or -1 */
    bool                 is_short;
    struct ibv_mr      **mr;   /* of `data`, per port */
    struct rt_verbs_piece *held; /* the caller's registered memory that it lies in, or NULL */
};

/* Registered memory of a link: a receiver's slots, or a sender's staging. */
struct rt_verbs_slots {
    unsigned char *memory;
    size_t         bytes;
    struct ibv_mr *mr[RT_VERBS_PORTS];
};

struct rt_verbs_link {
    struct rt_link        link;
    struct rt_verbs_pair *pair;
    struct rt_verbs_slots slots;
    size_t                stride; /* of a slot */
    bool                  news;   /* something came for this link since it last looked */
    struct rt_link       *plain;  /* the tcp transport's, once it goes over that */
    uint64_t              plain_from; /* its first slice is number so of this link */

    /* sender; slices up to `issued` are with the queue pairs (or tcp), up to `sent` no longer needed */
    struct rt_verbs_slice slice[RT_VERBS_RING];
    uint64_t              posted, issued, sent, credited;
    uint32_t              slots_used;
    int32_t               reserved;

    /* receiver */
    uint8_t         parts[RT_VERBS_RING]; /* bit per queue: that part of the slice has come */
    uint64_t        released, told;       /* slices done with; credited to the sender */
    struct rt_frame frame;
    bool            holds, holds_slot, holds_plain;
    bool            owes; /* a credit could not be sent yet */
};

/* The part [*begin, *begin + length) of a payload that goes over queue `i` of `queues`; returns its length. */
static inline uint32_t rt_verbs_part(uint32_t bytes, uint32_t queues, uint32_t i, uint32_t *begin)
{
    *begin = 0;
    if (bytes <= RT_VERBS_STRIPE_LEAST || queues <= 1) return i == 0 ? bytes : 0;
    const uint32_t part = (bytes / queues + 4095) & ~4095u;
    if ((uint64_t)part * i >= bytes) return 0;
    *begin = part * i;
    return i == queues - 1 || bytes - *begin < part ? bytes - *begin : part;
}

/* Bit i: queue i carries something of such a slice. */
static inline uint8_t rt_verbs_parts(uint32_t bytes, uint32_t queues)
{
    uint8_t parts = 1;
    uint32_t begin;
    for (uint32_t i = 1; i < queues; i++)
        if (rt_verbs_part(bytes, queues, i, &begin)) parts |= (uint8_t)(1u << i);
    return parts;
}

static inline struct rt_verbs_link *rt_verbs_link_of(struct rt_link *link)
{
    return (struct rt_verbs_link *)link;
}

/* ---- ports.c */

void rt_verbs_announce(struct rt_fabric *fabric, void *mine);
void rt_verbs_hear(struct rt_fabric *fabric, const void *all, size_t stride);
void rt_verbs_leave(struct rt_fabric *fabric);
/* Is the port usable now? Asks the device. */
bool rt_verbs_port_is_up(const struct rt_verbs *verbs, const struct rt_verbs_port *port);
/* "rxe0 port 1 (GID ::ffff:10.0.0.1)" */
const char *rt_verbs_port_text(const struct rt_verbs_port *port, char *text, size_t capacity);
/* Reads the devices' asynchronous events: marks ports, remembers the sentences, logs. A removed device is left out of
 * what wakes the pairs from then on: its descriptor stays readable for ever. */
void rt_verbs_events(struct rt_verbs *verbs);

/* ---- summary.c: the one place for what a link takes */

size_t rt_verbs_receive_bytes(size_t stride);
size_t rt_verbs_send_bytes(uint32_t slot_bytes);

/* ---- memory.c */

/* Slots of registered memory for a link. Checks what the system lets a process pin, before the first. */
ringtree_status rt_verbs_slots_open(struct rt_verbs *verbs, struct rt_verbs_slots *slots, size_t bytes, bool remote,
                                    struct rt_error *error);
struct ibv_mr *rt_verbs_register(const struct rt_verbs *verbs, const struct rt_verbs_port *port, void *at,
                                 size_t bytes, bool remote);
void rt_verbs_slots_close(struct rt_verbs *verbs, struct rt_verbs_slots *slots);
/* Memory of the caller's, for slices to be sent from where they lie. */
void rt_verbs_cache_start(struct rt_verbs *verbs);
void rt_verbs_cache_stop(struct rt_verbs *verbs);
/* 0: enough may be pinned for `bytes` more. Else what to do about it is in *error. */
ringtree_status rt_verbs_check_memlock(size_t bytes, uint64_t limit, bool privileged, struct rt_error *error);

/* ---- pair.c: the links' common part, and its progress */

ringtree_status rt_verbs_pair_open(struct rt_verbs_link *l, struct rt_error *error);
void rt_verbs_pair_close(struct rt_verbs_link *l);
/* One round: connection, hellos, completions. OK: up (or plain). IN_PROGRESS: not yet. Else the pair's failure. */
ringtree_status rt_verbs_progress(struct rt_verbs_pair *pair);
/* Moves the connecting and mending of all pairs on. */
void rt_verbs_step(struct rt_fabric *fabric);
int rt_verbs_pollfd(struct rt_link *link, short *events);
/* Remembers the first failure; every call of both links gives it from then on. */
ringtree_status rt_verbs_fail(struct rt_verbs_pair *pair, ringtree_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
ringtree_status rt_verbs_failed(const struct rt_verbs_pair *pair, struct rt_error *error);
/* The connection has ended, or the process at its end: a sentence that names it. */
ringtree_status rt_verbs_lost(struct rt_verbs_pair *pair, const char *how);

/* ---- hello.c: messages over the pair's connection */

ringtree_status rt_verbs_greet(struct rt_verbs_pair *pair); /* the hello of this epoch: makes the queue pairs */
ringtree_status rt_verbs_listen(struct rt_verbs_pair *pair); /* reads and obeys what came */
ringtree_status rt_verbs_tell_rings(struct rt_verbs_pair *pair);
ringtree_status rt_verbs_flush_outbox(struct rt_verbs_pair *pair);

/* ---- queue.c */

ringtree_status rt_verbs_queue_make(struct rt_verbs_pair *pair, struct rt_verbs_queue *queue,
                                    struct rt_verbs_port *port);
ringtree_status rt_verbs_queue_connect(struct rt_verbs_pair *pair, struct rt_verbs_queue *queue,
                                       const struct rt_verbs_queue_end *theirs);
void rt_verbs_queue_drop(struct rt_verbs_pair *pair, struct rt_verbs_queue *queue);
void rt_verbs_queue_empty(struct rt_verbs_pair *pair, struct rt_verbs_queue *queue); /* to its error state */
ringtree_status rt_verbs_queue_refill(struct rt_verbs_pair *pair, struct rt_verbs_queue *queue);
/* Takes what completed. True: something did. A failure breaks the pair. */
bool rt_verbs_queue_poll(struct rt_verbs_pair *pair, uint32_t number);
bool rt_verbs_queue_arm(struct rt_verbs_pair *pair, struct rt_verbs_queue *queue);
/* How long the oldest request has been under way, as far as this is asked now and then. */
uint64_t rt_verbs_queue_age_ns(struct rt_verbs_queue *queue, uint64_t now_ns);

/* ---- send.c and recv.c */

void *rt_verbs_reserve(struct rt_link *link, struct rt_error *error);
ringtree_status rt_verbs_send(struct rt_link *link, const struct rt_frame *frame, const void *data,
                              struct rt_error *error);
uint64_t rt_verbs_sent(struct rt_link *link, struct rt_error *error);
bool rt_verbs_flushed(struct rt_link *link);
/* Hands slices to the queue pairs (or tcp) as far as credits and queues allow. Only when UP or PLAIN. */
ringtree_status rt_verbs_issue(struct rt_verbs_link *l);
/* A credit came: so many slices, in low bits, were released. */
ringtree_status rt_verbs_credit(struct rt_verbs_link *l, uint32_t low);
/* Is every request done? The last may have gone without a completion; one that writes nothing then tells of all. */
bool rt_verbs_is_drained(struct rt_verbs_pair *pair, struct rt_verbs_queue *queue);
void rt_verbs_count_sent(struct rt_verbs_link *l);
/* The link no longer needs slices before `until`. */
void rt_verbs_forget(struct rt_verbs_link *l, uint64_t until);
/* Alone, since nothing goes that way; false: no room now. */
bool rt_verbs_send_credit(struct rt_verbs_pair *pair, uint64_t released);

ringtree_status rt_verbs_recv(struct rt_link *link, const struct rt_frame *expect, void *into, size_t capacity,
                              struct rt_frame *frame, const void **data, struct rt_error *error);
void rt_verbs_release(struct rt_link *link);
/* A part of a slice came on queue `queue`. */
ringtree_status rt_verbs_arrived(struct rt_verbs_link *l, const struct rt_verbs_note *note);
/* Slices that are whole, from the beginning. */
uint64_t rt_verbs_whole(const struct rt_verbs_link *l);
void rt_verbs_owe(struct rt_verbs_link *l); /* sends a credit that is due */

/* ---- recover.c */

/* Something broke that new queue pairs may mend; `port`: of ours, blamed; `reason` for the sentence. */
void rt_verbs_break(struct rt_verbs_pair *pair, const struct rt_verbs_port *port, const char *reason);
ringtree_status rt_verbs_break_go(struct rt_verbs_pair *pair); /* while BREAKING */
/* Both hellos of a new epoch are there: the sender goes back to the first slice that did not come whole. */
ringtree_status rt_verbs_rewind(struct rt_verbs_pair *pair);
ringtree_status rt_verbs_go_plain(struct rt_verbs_pair *pair);
ringtree_status rt_verbs_plain_open(struct rt_verbs_link *l, uint64_t from);
ringtree_status rt_verbs_plain_push(struct rt_verbs_link *l);
/* May this port be used again by this pair? */
bool rt_verbs_port_is_usable(const struct rt_verbs_pair *pair, const struct rt_verbs_port *port);

#endif
