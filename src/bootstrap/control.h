/*
 * The control plane of one communicator: a meeting at the root, then a binomial tree of authenticated TCP connections
 * (or unix sockets where all is local), served by one thread that sleeps in poll() and wakes five times a second.
 *
 * It finds the others, carries small all-gathers, accepts data connections for the transports, and tells every rank of
 * a failure: a connection that ends without goodbye names its rank as lost, and the news floods the tree, so that
 * every survivor knows within milliseconds, whatever it is doing.
 *
 * Each connection, control or data, TCP or unix, begins with the same handshake: both sides prove the communicator's
 * 128-bit secret (HMAC over both nonces and the claim) before a field is believed; fixed sizes; a deadline; a failed
 * one costs a counter and nothing else.
 */
#ifndef RT_CONTROL_H
#define RT_CONTROL_H

#include "base/clock.h"
#include "base/error.h"
#include "base/settings.h"
#include "transports/transport.h"
#include "topology/place.h"

struct rt_control;

/* Parsed ringtree_id. */
struct rt_meeting {
    uint8_t           secret[16];
    uint64_t          number; /* random; tells communicators apart */
    struct rt_address address[RT_MAX_ADDRESSES];
    char              unix_name[40]; /* abstract unix socket of a root on this machine; "" = none */
};

/* The meeting point: ringtree_id_create(). Serves on its own thread until `nranks` (told by the first to come; another
 * number is refused) have met, or the timeout. `where`: RT_ROOT-like host:port to bind, or NULL for any free port.
 * A secret of zeros is replaced, with the number, by random ones; addresses and an empty unix_name are filled in. */
ringtree_status rt_meeting_serve(struct rt_meeting *meeting, const char *where, const struct rt_settings *settings,
                                 struct rt_error *error);
void rt_meeting_to_id(const struct rt_meeting *meeting, ringtree_id *id);
ringtree_status rt_meeting_from_id(struct rt_meeting *meeting, const ringtree_id *id, struct rt_error *error);

/* What the launcher's environment says. `meeting` is filled and served already if this rank hosts it. */
struct rt_launch {
    uint32_t          rank, nranks;
    const char       *launcher; /* "ringtree-run", "torchrun", "slurm", "open mpi", "mpich", "RINGTREE_ROOT", "none" */
    struct rt_meeting meeting;
};
ringtree_status rt_launch_find(struct rt_launch *launch, const struct rt_settings *settings, struct rt_error *error);

struct rt_control_options {
    uint32_t                  rank, nranks, timeout_ms;
    const struct rt_meeting  *meeting; /* NULL only when nranks == 1 */
    const struct rt_settings *settings;
    const struct rt_clock    *clock;
};

/* Meets the others; on success every rank has every rank's place. Collective; up to the timeout. */
ringtree_status rt_control_open(struct rt_control **control, const struct rt_control_options *options,
                                struct rt_error *error);
const struct rt_place *rt_control_places(const struct rt_control *control); /* nranks of them */
const uint8_t *rt_control_secret(const struct rt_control *control);         /* 16 bytes */
uint64_t rt_control_number(const struct rt_control *control);               /* new for each; equal on all ranks */

/* Every rank's `bytes` (at most 4096), in rank order, into all[nranks * bytes]. Collective, blocking, O(log n) rounds,
 * bounded by the timeout; a failure elsewhere ends it. One at a time. */
ringtree_status rt_control_all_gather(struct rt_control *control, const void *mine, size_t bytes, void *all,
                                      struct rt_error *error);

/* Goodbye: waits (bounded by wait_ms) until all ranks said it, ends the thread, frees. wait_ms 0: at once. */
void rt_control_close(struct rt_control *control, uint32_t wait_ms);

/* ---- failures. All may be called from any thread. */

/* This rank has failed: remember the first failure and flood it. Later ones are ignored. */
void rt_control_fail(struct rt_control *control, ringtree_status status, const char *sentence);
/* Has any rank failed? A relaxed load: cheap enough for every poll. */
bool rt_control_failed(const struct rt_control *control);
/* The first failure that this rank learned of. */
ringtree_status rt_control_failure(const struct rt_control *control, struct rt_error *error);
/* Readable when something changed (failure, new data connection) since rt_control_wake_clear(); for sleeping waits. */
int rt_control_wake_fd(const struct rt_control *control);
void rt_control_wake_clear(struct rt_control *control);

/* ---- the record of calls, and the watchdog that compares neighbours' records five times a second, so that ranks which
 * call different things, even without meeting in data, learn it within a second (RINGTREE_MISMATCH, both calls
 * named). */

#define RT_CALL_DESTROY 255 /* in rt_frame.collective: calls that move no data but have their place in the order */
#define RT_CALL_SPLIT   254
/* A collective starts. Lock-free, ~10 ns. frame->lane and bytes are ignored. */
void rt_control_record(struct rt_control *control, const struct rt_frame *frame);
/* It is done on this rank. */
/* A fingerprint of all calls so far: ranks with equal history made the same calls. */
uint64_t rt_control_history(const struct rt_control *control);
void rt_control_record_done(struct rt_control *control, uint64_t sequence);
/* "all_reduce #7 (count 100, float32, sum)" */
const char *rt_call_text(const struct rt_frame *frame, char *text, size_t capacity);
/* Ask `peer`'s control thread what its rank last did, for a timeout's sentence; waits at most wait_ms:
 * "it last finished #6 broadcast(...) 3.2 s ago and has not called #7", or "its process does not answer". Is it in a
 * call now? */
bool rt_control_ask(struct rt_control *control, uint32_t peer, uint32_t wait_ms, char *text, size_t capacity);

/* ---- authenticated data connections for transports */

enum rt_connection_kind { RT_CONNECT_DATA = 1, RT_CONNECT_NODE = 2 };

struct rt_claim { /* what the connecting side says it is; covered by the HMAC */
    uint32_t kind, rank, lane, stripe, stripes;
    uint32_t value; /* free for the transport */
};

/* A connection being made to `peer`'s listener. Non-blocking: call rt_dial_go() until it is not RINGTREE_IN_PROGRESS;
 * on OK *fd (non-blocking, cloexec) is the caller's. Tries the peer's addresses in turn, retries refusals, gives up at
 * the deadline with RINGTREE_UNREACHABLE and every address with its errno in words. rt_dial_start() may return NULL for
 * want of memory; rt_dial_go() then says so. */
struct rt_dial;
struct rt_dial *rt_dial_start(struct rt_control *control, uint32_t peer, const struct rt_claim *claim,
                              uint64_t deadline_ns);
ringtree_status rt_dial_go(struct rt_dial *dial, int *fd, struct rt_error *error);
int rt_dial_pollfd(struct rt_dial *dial, short *events); /* for sleeping; -1: it rests between tries (at most 100 ms) */
void rt_dial_end(struct rt_dial *dial);                   /* frees; closes what is half open */

/* Take an accepted connection with this (kind, rank, lane, stripe); -1: it has not come yet. */
int rt_control_take(struct rt_control *control, const struct rt_claim *claim);

/* ---- the unix socket of a machine: hands one descriptor to authenticated ranks */

/* From now on, whoever connects with RT_CONNECT_NODE gets `fd` by SCM_RIGHTS (the caller keeps its own). */
void rt_control_offer_fd(struct rt_control *control, int fd);
/* Connect to `peer`'s abstract unix socket, prove the secret, receive its offered descriptor. Blocking, bounded.
 * RINGTREE_UNREACHABLE: not on this machine, or in another network namespace. */
ringtree_status rt_control_fetch_fd(struct rt_control *control, uint32_t peer, uint32_t wait_ms, int *fd,
                                    struct rt_error *error);

/* Counters for ringtree-info and tests: strangers and garbage turned away. */
uint64_t rt_control_rejected(const struct rt_control *control);

#endif
