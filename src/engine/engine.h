/*
 * The host engine: reads the steps of a program, cuts chunks into slices, and moves real bytes over links.
 *
 * Collectives of a communicator run one after another, in the order of the calls; point-to-point transfers run beside
 * them, in order per peer and direction. Nothing here blocks but rt_engine_wait(), the one place that waits.
 * Nothing is allocated once a program exists and its links are open.
 */
#ifndef RT_ENGINE_H
#define RT_ENGINE_H

#include "algorithms/step.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/settings.h"
#include "bootstrap/control.h"
#include "carrier.h"
#include "compress.h"
#include "direct.h"
#include "shm/node.h"
#include "transports/transport.h"
#include <stdatomic.h>
#include <pthread.h>

#define RT_LANE_ALL_TO_ALL_V (RT_MAX_LANES - 1) /* algorithms stay below it */

/* A link and how many slices were given to it: fewer sent() than posted means that memory is still borrowed. */
struct rt_wire {
    uint64_t        posted, sent; /* `sent` as last seen */
    struct rt_wire *next; /* all wires of the engine */
    struct rt_link *link;
};

/* One rank's steps of one algorithm and root, with the wires that they use. Immutable once made. */
struct rt_program {
    struct rt_program         *next;
    const struct rt_algorithm *algorithm;
    uint32_t                   root, lanes, chunks, max_span;
    bool                       plain; /* rt_program_is_plain() */
    uint32_t                   nsteps[RT_MAX_LANES], scratch[RT_MAX_LANES];
    struct rt_step            *steps[RT_MAX_LANES];
    unsigned char *memory[RT_MAX_LANES]; /* scratch: its own, since operations of other programs may be queued */
    struct rt_wire           **senders; /* each wire that the steps send on, once */
    uint32_t                   nsenders;
};

/* SPOILT: the call that had it failed. ORPHAN: its owner gave it up while a call has it. */
enum rt_lent_is { RT_LENT_FREE, RT_LENT_OUT, RT_LENT_SPOILT, RT_LENT_ORPHAN };

/* Something of the caller's that a call uses beside its buffers: back once the request is finished. */
struct rt_lent {
    atomic_int      is;
    struct rt_lent *next;                   /* of the same request */
    void          (*drop)(struct rt_lent *); /* frees an orphan */
};

/* What the caller asked for, checked. */
struct rt_call {
    struct rt_frame frame; /* the call as the other ranks must have it */
    const void     *input;
    void           *output;
    size_t          count, element; /* elements, bytes of one */
    ringtree_type   type;
    ringtree_op     op;        /* built in; AVG and premul are SUM with the two below */
    bool            scaled;    /* multiply inputs by `scalar` first (premul_sum) */
    bool            divided_first, divided_last; /* AVG */
    bool            in_place; /* INPUT and OUTPUT are the same memory */
    unsigned char   scalar[8];
    struct rt_lent *held;     /* lent beside the buffers; or NULL */
};

struct ringtree_request {
    ringtree_comm   *comm;
    uint32_t         pending; /* parts not finished */
    ringtree_status  status;
    ringtree_request *next; /* in the communicator's pool */
    ringtree_request *made; /* in the list of all that it made */
    struct rt_lent  *held;  /* what its calls were lent, one after another */
    uint64_t         live;  /* RT_REQUEST_LIVE while the caller owns it: catches use after wait */
};
#define RT_REQUEST_LIVE UINT64_C(0x52696e6752657131)

/* How far a lane has come. */
struct rt_lane {
    size_t   slice;
    uint32_t step;
    bool     received, received2, computed, posted, done;
    const void *data, *data2; /* what was received, in place */
};

/* One message between two ranks: a send, a recv, or a block of all_to_all_v. */
struct rt_transfer {
    struct rt_transfer *next;
    ringtree_request   *request;
    struct rt_frame     frame;
    unsigned char      *memory;
    size_t              bytes, moved;
    bool                started;
    uint32_t            peer;
};

/* nothing: an empty array */
enum rt_method { RT_BY_NOTHING, RT_BY_PROGRAM, RT_BY_DIRECT, RT_BY_TRANSFERS, RT_BY_CODEC };

struct rt_operation {
    struct rt_operation     *next;
    ringtree_request        *request;
    struct rt_call           call;
    enum rt_method           method;
    const struct rt_program *program;
    size_t                   slice_bytes; /* wanted; 0: a whole slot */
    size_t                   chunk_elements, slice_elements, slices;
    struct rt_lane           lane[RT_MAX_LANES];
    struct rt_direct         direct;
    struct rt_transfer      *sends, *recvs; /* all_to_all_v: arrays of nranks */
    struct rt_compression    compression;   /* RT_BY_CODEC */
};

/* Transfers to or from one peer, first in first out. */
struct rt_queue {
    struct rt_transfer *first, *last;
    uint64_t            sequence; /* messages queued so far */
};

struct rt_engine {
    struct rt_fabric            fabric;
    const struct rt_transport **reach;    /* per peer; NULL for this rank */
    uint8_t                    *candidates; /* per peer: the transports that reach it, a bit each */
    struct rt_carrier_costs     carriers;
    uint32_t                   *node_of;  /* per rank */
    bool                        announced[RT_CARRIERS]; /* it told the others of its end */
    bool                        steps;        /* one of them wants to be called now and then */
    uint32_t                    rounds;       /* without progress */
    struct rt_layout            layout;
    struct rt_wire            **wires;    /* [(sender * RT_LINK_LANES + lane) * nranks + peer] */
    struct rt_wire             *all_wires;
    struct rt_program          *programs;
    struct rt_operation        *first, *last; /* collectives waiting; the first one runs */
    struct rt_operation        *pool;
    struct rt_transfer         *transfer_pool;
    struct rt_queue            *sending, *receiving; /* per peer */
    uint64_t                    transfers;           /* alive */
    uint64_t                    sequence;            /* collectives started */
    struct rt_frame             last_call;
    uint32_t                    direct_logged;       /* a bit per collective */
    struct rt_exchange         *exchange; /* the direct shared-memory paths; NULL: not all ranks share memory */
    bool                        reads;      /* all ranks read each other's private memory */
    size_t                      slot_bytes; /* the least of all ranks' links */
    unsigned char              *bounce[RT_MAX_LANES]; /* a slice of scaled input */
    struct rt_compressor       *compressor; /* NULL: no compressed call yet */
    uint32_t                    timeout_ms;
    uint64_t                    waited_ns, looked_ns; /* without progress; when it was last looked at, 0: not yet */
    uint32_t                    spin_polls;
    uint32_t                    polls_a_yield;
    bool                        progress_thread_runs, progress_thread_stop;
    uint32_t                    callers; /* waiting: they move everything on, and the thread rests */
    pthread_t                   progress_thread;
    pthread_mutex_t             lock; /* taken only with a progress thread */
    pthread_cond_t              work;
    struct rt_error             error; /* the first failure on this rank */
    bool                        failed;
};

/* The engine of a communicator. `fabric` is copied. node_of[nranks] is copied. Collective over control (one
 * all-gather). */
ringtree_status rt_engine_open(struct rt_engine **engine, const struct rt_fabric *fabric, const uint32_t *node_of,
                               uint32_t timeout_ms, struct rt_error *error);
/* Ends the thread, waits up to wait_ms for sent data to leave, closes links, frees. */
void rt_engine_close(struct rt_engine *engine, uint32_t wait_ms);

/* The program of (algorithm, root), made on first use, with its links opened. */
ringtree_status rt_engine_program(struct rt_engine *engine, const struct rt_algorithm *algorithm, uint32_t root,
                                  const struct rt_program **program, struct rt_error *error);

void rt_program_free(struct rt_program *program);

/* An operation from the pool, zeroed but for what the pool owns. NULL: no memory. */
struct rt_operation *rt_engine_operation(struct rt_engine *engine);
struct rt_transfer *rt_engine_transfer(struct rt_engine *engine);

void rt_operation_drop(struct rt_engine *engine, struct rt_operation *operation); /* not started after all */
void rt_transfer_drop(struct rt_engine *engine, struct rt_transfer *transfer);

/* Append to the collectives, numbered and recorded. The engine owns the operation from here; request->pending counts it
 * already. */
void rt_engine_start(struct rt_engine *engine, struct rt_operation *operation);
/*
 * Blocking calls while nothing else is under way. true: done. false: rt_engine_resume() an operation of the same call,
 * with the same `direct`, to go on where it came.
 */
bool rt_engine_direct(struct rt_engine *engine, struct rt_call *call, struct rt_direct *direct);
/* The same for a call of which rt_line_fits() holds; `call` is like an earlier one but for its arrays. */
bool rt_engine_again(struct rt_engine *engine, struct rt_call *call, struct rt_direct *direct);
/* The same for an operation of which rt_operation_is_plain() holds; that itself is what goes on. */
bool rt_engine_plain(struct rt_engine *engine, struct rt_operation *operation);
/* Does it pass whole arrays that fit one slice from rank to rank? Cuts it. */
bool rt_operation_is_plain(struct rt_engine *engine, struct rt_operation *operation);
void rt_engine_resume(struct rt_engine *engine, struct rt_operation *operation);
/* A call takes its place in the order that all ranks must share. */
void rt_engine_record(struct rt_engine *engine, const struct rt_frame *frame);
/* Append a transfer to its peer's queue; numbers it. */
void rt_engine_transfer_start(struct rt_engine *engine, struct rt_transfer *transfer, bool sends);

/* One round over everything that can move. True: something moved. */
bool rt_engine_progress(struct rt_engine *engine);
/* Until request->pending is 0 or the engine failed. The only function that waits. */
ringtree_status rt_engine_wait(struct rt_engine *engine, ringtree_request *request);
/* Runs `work`, which waits for other ranks by itself; a peer may need this rank's pending requests to move before it
 * can come there, so they do, beside it. */
void rt_engine_beside(struct rt_engine *engine, void (*work)(void *context), void *context);
/* One look: RINGTREE_IN_PROGRESS while it is not finished. */
ringtree_status rt_engine_test(struct rt_engine *engine, ringtree_request *request);
/* Failed here or elsewhere: every part of every request ends with that status. */
bool rt_engine_failed(struct rt_engine *engine);

/* Fails this rank and, by the control plane, all others. */
ringtree_status rt_engine_fail(struct rt_engine *engine, const struct rt_error *error);

/* Waits a moment for the control plane to tell who failed; true: it did. */
bool rt_engine_verdict(struct rt_engine *engine, uint64_t wait_ns);

void rt_engine_lock(struct rt_engine *engine);
void rt_engine_unlock(struct rt_engine *engine);
void rt_engine_wake(struct rt_engine *engine); /* the progress thread has work */

ringtree_status rt_progress_start(struct rt_engine *engine, struct rt_error *error);

/* ---- between the engine's files */

/* Only whole arrays go from rank to rank, one after another. */
bool rt_program_is_plain(const struct rt_program *program);
/* Nothing that its steps sent is read from its memory any more. Asks every wire, which moves all of them on. */
bool rt_program_sent(const struct rt_program *program, struct rt_error *error);
/* Is the array of this collective one that is cut into chunks? Else it is blocks of the ranks. */
bool rt_cuts_array(uint8_t collective);
void rt_operation_cut(struct rt_engine *engine, struct rt_operation *operation);
#ifdef RINGTREE_FAULT_SWITCHES
void rt_engine_corrupt(const struct rt_engine *engine, const struct rt_call *call);
#else
#define rt_engine_corrupt(engine, call) ((void)(engine))
#endif

void rt_progress_stop(struct rt_engine *engine);
uint32_t rt_wait_polls(const struct rt_engine *engine);
uint64_t rt_wait_yield(const struct rt_engine *engine); /* gives the core away; ns until it was back */
/*
 * Polls until the next yield. What was missing being there soon after one (helped) says that the peer waits for this
 * very core: then the yields come twice as often, else half as often, so that two ranks on one core soon hand it over
 * at once, and ranks on cores of their own hardly pay. One that gave the core to somebody who computes is long, and not
 * to be repeated soon.
 */
void rt_wait_learn(struct rt_engine *engine, uint64_t gone_ns, bool helped);

struct rt_wire *rt_wire(struct rt_engine *engine, bool sender, uint32_t lane, uint32_t peer);
ringtree_status rt_wire_open(struct rt_engine *engine, bool sender, uint32_t lane, uint32_t peer,
                             struct rt_error *error);
/* Send and count. */
ringtree_status rt_wire_send(struct rt_wire *wire, const struct rt_frame *frame, const void *data,
                             struct rt_error *error);
bool rt_wire_idle(struct rt_wire *wire, struct rt_error *error); /* nothing borrowed any more */

void rt_engine_step(struct rt_engine *engine); /* transports move their connecting on */

/* Moves lanes, direct exchanges or transfers as far as they go. *moved: something happened. OK: finished. */
ringtree_status rt_lanes_advance(struct rt_engine *engine, struct rt_operation *operation, bool *moved,
                                 struct rt_error *error);
ringtree_status rt_transfer_send(struct rt_engine *engine, struct rt_transfer *transfer, uint32_t lane, bool *moved,
                                 struct rt_error *error);
ringtree_status rt_transfer_recv(struct rt_engine *engine, struct rt_transfer *transfer, uint32_t lane, bool *moved,
                                 struct rt_error *error);
ringtree_status rt_transfers_advance(struct rt_engine *engine, struct rt_operation *operation, bool *moved,
                                     struct rt_error *error);
bool rt_queues_advance(struct rt_engine *engine, struct rt_error *error, ringtree_status *status);

/* RINGTREE_MISMATCH: this rank's call and the peer's, from its frame. */
ringtree_status rt_mismatch(struct rt_engine *engine, const struct rt_frame *mine, uint32_t peer,
                            const struct rt_frame *theirs, struct rt_error *error);

/* Descriptors whose events would end the present waits, for poll(2). Returns how many were added. */
struct pollfd;
uint32_t rt_blocked_fds(struct rt_engine *engine, struct pollfd *fds, uint32_t capacity);
/* The ranks that the present waits are for: at most `capacity`. */
uint32_t rt_blocked_peers(struct rt_engine *engine, uint32_t *peers, uint32_t capacity);
/* How far the links have come that the present waits are for, in words. */
void rt_blocked_links(struct rt_engine *engine, char *text, size_t capacity);

#endif
