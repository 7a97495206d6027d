/*
 * Inside the UCX transport. One UCX worker per communicator, one endpoint per pair of ranks (and one more per direction
 * of messages, whose receiver may come later). A slice is one active message: its header is struct rt_ucx_header, its
 * payload stays in UCX's own memory until it is released, or, by rendezvous, is fetched straight to where it is wanted.
 *
 * What UCX does not give, a TCP connection of the control plane's gives, one per pair: it brings the workers' addresses
 * (hello.h), tells in order that a link is closed, and tells at once that a process is gone, which UCX's own
 * keepalive over shared memory learns after 20 s.
 *
 * Order: UCX may overtake between its protocols and rails, so slices carry numbers and wait in RT_UCX_SLOTS places.
 * Credits: a sender has at most RT_UCX_SLOTS slices that were not released; how many were rides on the slices of the
 * other direction, or comes in a message of its own once half of them are due.
 *
 * Files: ucx.c the table; worker.c the worker and waiting; pair.c connecting and the side connection; send.c and recv.c
 * the ends; words.c sentences; load.c the library; hello.c the first message.
 */
#ifndef RT_UCX_H
#define RT_UCX_H

#include "bootstrap/control.h"
#include "transports/transport.h"
#include "hello.h"
#include "load.h"
#include <endian.h>

#define RT_UCX_SLOTS 8
#define RT_UCX_WAYS  3
#define RT_UCX_STRIPE_CLAIM 33 /* stripe of the side connection, beyond those of tcp and verbs */
enum rt_ucx_way { RT_UCX_BOTH_WAYS, RT_UCX_OUT, RT_UCX_IN }; /* of a pair: collectives; messages to, from the peer */
enum rt_ucx_id { RT_UCX_SLICE = 1, RT_UCX_CREDIT }; /* of active messages */

/*
 * Ahead of a slice, little endian. Without `frame` it is a credit, or a slice whose frame is that of the slice before
 * it on the link but for `bytes` and a sequence that is `later`: then 4 bytes and all of this fit into one cache line
 * of UCX's shared memory, and 56 still go without its slower way.
 */
struct rt_ucx_header {
    uint64_t        token;         /* from the receiver's hello */
    uint32_t        rank;          /* the sender's */
    uint8_t         number, taken; /* of the slice on its link; slices of the same lane's other direction that were
                                    * released by this sender: the low bytes */
    uint8_t         way, lane;     /* way: the receiver's */
    uint32_t        later;
    struct rt_frame frame;
};
#define RT_UCX_SHORT_BYTES 20
_Static_assert(sizeof(struct rt_ucx_header) == 56 && RT_UCX_SLOTS <= 128, "the wire format");

struct rt_ucx;
struct rt_ucx_pair;
struct rt_ucx_link;
struct rt_ucx_inbound;

/* Slices given to send(). Apart from the link, which ends with close(): UCX may still know of them. */
struct rt_ucx_sending {
    struct rt_ucx_sending *orphan; /* in the worker's list, to be freed with it */
    struct rt_ucx         *ucx;
    unsigned char         *memory; /* RT_UCX_SLOTS staging slots, in the order of the slices */
    ucs_status_t           failure; /* of a send that ended late */
    uint32_t               pending;
    struct rt_frame        last; /* frame that was sent */
    struct rt_ucx_slice {
        struct rt_ucx_sending *of;
        bool                   pending;
        struct rt_ucx_header   header;
    } slice[RT_UCX_SLOTS];
};

enum rt_ucx_state { RT_UCX_NONE, RT_UCX_HERE, RT_UCX_OFFERED, RT_UCX_COMING, RT_UCX_UNWANTED };

/* HERE: `data` is UCX's, ours or the caller's. OFFERED: by rendezvous. UNWANTED: too long. */
struct rt_ucx_arrival {
    struct rt_ucx_inbound *of;
    enum rt_ucx_state      state;
    bool                   retained; /* `data` is UCX's, to be given back */
    bool                   brief; /* `frame` has no more than `bytes` and how much `sequence` is later */
    struct rt_frame        frame;
    void                  *data;
    unsigned char         *memory; /* a slot for what is fetched to no other place; made on first use */
};

/* What came on one lane of a pair, whether or not the link is open yet. */
struct rt_ucx_inbound {
    struct rt_ucx_inbound *orphan;
    struct rt_ucx         *ucx;
    struct rt_ucx_pair    *pair;
    uint32_t               lane;
    uint64_t               next, told; /* number of the next slice to give; released slices told to the sender */
    bool                   ended, crediting; /* the sender's link is closed after `end` slices; a credit goes */
    uint64_t               end;
    uint32_t               fetching; /* arrivals that are COMING */
    struct rt_frame        last; /* that was released */
    unsigned char         *copies; /* of short payloads, a place for each arrival; made on first use */
    ucs_status_t           failure;
    struct rt_ucx_header   credit;
    struct rt_ucx_arrival  arrival[RT_UCX_SLOTS];
};

/* WIRES: the first message is under way; only once the other worker has answered it can long ones go. */
enum rt_ucx_stage { RT_UCX_DIALS, RT_UCX_GREETS, RT_UCX_WIRES, RT_UCX_CONNECTED };

struct rt_ucx_pair {
    struct rt_ucx_pair     *next; /* of those that connect */
    struct rt_ucx          *ucx;
    uint32_t                peer, users; /* links; 0: the peer came first */
    enum rt_ucx_way         way;
    enum rt_ucx_stage       stage;
    struct rt_dial         *dial; /* NULL: the peer dials, or it is done */
    int                     side; /* the side connection, -1 */
    uint8_t                *hello_out, *hello_in; /* until connected */
    size_t                  out_bytes, out_done, in_done;
    ucp_ep_h                endpoint;
    struct rt_ucx_header    first;
    void                   *wiring; /* its request */
    uint64_t                token_in, token_out;
    bool                    gone, out_closed[RT_LINK_LANES]; /* the peer's receiver is closed */
    uint64_t                gone_ns;
    uint8_t                 goodbye[16]; /* the next one, as far as it came */
    uint32_t                goodbye_done;
    struct rt_error         failure;
    struct rt_ucx_link     *out[RT_LINK_LANES];
    struct rt_ucx_inbound  *in[RT_LINK_LANES];
    char                    lanes[64]; /* "sysv, cma": what UCX chose */
    uint32_t                eager_bytes; /* slices of at most so many never go by rendezvous */
};

struct rt_ucx {
    struct rt_fabric          *fabric;
    const struct rt_ucx_calls *call; /* NULL: UCX is not here */
    uint8_t                   *can;  /* per rank: can it use UCX? NULL: not told */
    ucp_context_h              context;
    ucp_worker_h               worker;
    ucp_address_t             *address;
    size_t                     address_bytes;
    int                        set, ready; /* epoll: worker and side connections; an eventfd that is always readable */
    uint32_t                   users, quiet; /* links; polls in a row that found nothing */
    bool                       host_only; /* UCX knows no device memory here */
    uint64_t                   strays; /* messages turned away */
    struct rt_ucx_sending     *sending_orphans;
    struct rt_ucx_inbound     *inbound_orphans;
    struct rt_ucx_pair        *connecting;
    uint32_t                   asked; /* rank that was last asked whether it sends messages */
    struct rt_ucx_pair       **pairs; /* [rank * RT_UCX_WAYS + way] */
};

struct rt_ucx_link {
    struct rt_link         link;
    struct rt_error        failure; /* once set, every call gives it */
    struct rt_ucx         *ucx;  /* NULL: not opened */
    struct rt_ucx_pair    *pair;
    struct rt_ucx_sending *sending;
    struct rt_ucx_inbound *inbound;
    uint64_t               posted, sent; /* slices given, no longer borrowed */
    uint32_t               taken; /* released by the peer, the low word */
    bool                   wants_room; /* sender: the last call was refused for want of a slot */
    bool                   holds; /* receiver: a slice was given and is not released */
};

/* The frame's numbers from this machine's order to the wire's, or back. */
static inline void rt_ucx_frame_order(struct rt_frame *frame)
{
    frame->sequence = htole64(frame->sequence);
    frame->count = htole64(frame->count);
    frame->op = htole32(frame->op);
    frame->root = htole32(frame->root);
    frame->bytes = htole32(frame->bytes);
}

/* The same pair's way as the peer counts it. */
static inline enum rt_ucx_way rt_ucx_way_there(enum rt_ucx_way way)
{
    return way == RT_UCX_BOTH_WAYS ? way : way == RT_UCX_OUT ? RT_UCX_IN : RT_UCX_OUT;
}

static inline bool rt_ucx_room(const struct rt_ucx_link *l)
{
    return (uint32_t)l->posted - l->taken < RT_UCX_SLOTS && !l->sending->slice[l->posted % RT_UCX_SLOTS].pending;
}

/* ---- worker.c */

/* fabric->ucx, made when first asked for. NULL: no memory. */
struct rt_ucx *rt_ucx_state(struct rt_fabric *fabric);
void rt_ucx_leave(struct rt_fabric *fabric);
/* The worker runs while it has users. */
ringtree_status rt_ucx_open(struct rt_fabric *fabric, struct rt_error *error);
void rt_ucx_close(struct rt_ucx *ucx);
/* One round of UCX; now and then a look at the side connections. */
void rt_ucx_progress(struct rt_ucx *ucx);
void rt_ucx_watch(struct rt_ucx_pair *pair, bool on);
/* True: ucx->set is readable once something comes. False: something was there, and one round was made. */
bool rt_ucx_arm(struct rt_ucx *ucx);
/* Waits, moving UCX on, until the request is over (then freed); bounded. */
void rt_ucx_finish(struct rt_ucx *ucx, void *request);

/* ---- pair.c */

ringtree_status rt_ucx_pair_open(struct rt_ucx_link *l, struct rt_error *error);
/* The link leaves its pair: tells the peer; a pair without links is freed. */
void rt_ucx_pair_close(struct rt_ucx_link *l);
/* Goes on connecting. A failure is the link's from then on. */
ringtree_status rt_ucx_pair_connect(struct rt_ucx_link *l);
int rt_ucx_pair_pollfd(const struct rt_ucx_pair *pair, short *events); /* while it connects */
/* All pairs that connect go on, also those that no link asks for: their peers may wait for it. */
void rt_ucx_connect_all(struct rt_ucx *ucx);
/* Somebody sends messages that nobody here receives yet: short ones may come. Looks at one rank a call. */
void rt_ucx_welcome(struct rt_ucx *ucx);
void rt_ucx_pairs_end(struct rt_ucx *ucx); /* those without links */
/* Something happened on the side connection. */
void rt_ucx_side_read(struct rt_ucx_pair *pair);
/* Ends the endpoint, and with it all that is under way on it. */
void rt_ucx_pair_break(struct rt_ucx_pair *pair);

/* ---- words.c */

ringtree_status rt_ucx_fail(struct rt_ucx_link *l, ringtree_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
ringtree_status rt_ucx_failed(const struct rt_ucx_link *l, struct rt_error *error);
/* The link has failed with what UCX says of it. */
ringtree_status rt_ucx_lost(struct rt_ucx_link *l, ucs_status_t status, const char *when);
/* The peer ended its link or its process. */
ringtree_status rt_ucx_ended(struct rt_ucx_link *l, const char *when);
/* Of an endpoint: into pair->failure, once. */
void rt_ucx_pair_failed(struct rt_ucx_pair *pair, ucs_status_t status);
const char *rt_ucx_tls(void); /* UCX_TLS, or what stands for it */

/* ---- send.c and recv.c: functions of the table, and what UCX calls */

void *rt_ucx_reserve(struct rt_link *link, struct rt_error *error);
ringtree_status rt_ucx_send(struct rt_link *link, const struct rt_frame *frame, const void *data,
                            struct rt_error *error);
uint64_t rt_ucx_sent(struct rt_link *link, struct rt_error *error);
bool rt_ucx_flushed(struct rt_link *link);
void rt_ucx_taken(struct rt_ucx_link *l, uint8_t taken); /* the peer released so many, the low byte */

ringtree_status rt_ucx_recv(struct rt_link *link, const struct rt_frame *expect, void *into, size_t capacity,
                            struct rt_frame *frame, const void **data, struct rt_error *error);
void rt_ucx_release(struct rt_link *link);
void rt_ucx_fill_credit(const struct rt_ucx_pair *pair, uint32_t lane, struct rt_ucx_header *header);
bool rt_ucx_has_next(const struct rt_ucx_link *l);
/* What came on this lane; made on first use. NULL: no memory. */
struct rt_ucx_inbound *rt_ucx_inbound(struct rt_ucx_pair *pair, uint32_t lane);
void rt_ucx_inbound_drop(struct rt_ucx_inbound *in);
ucs_status_t rt_ucx_slice_came(void *ucx, const void *header, size_t header_bytes, void *data, size_t bytes,
                               const ucp_am_recv_param_t *param);
ucs_status_t rt_ucx_credit_came(void *ucx, const void *header, size_t header_bytes, void *data, size_t bytes,
                                const ucp_am_recv_param_t *param);

#endif
