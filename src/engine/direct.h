/*
 * The direct paths of ranks that all share one machine's memory. They live beside the formulas because they read all
 * peers' memory at once instead of passing messages: packets of cache lines for small arrays, cells for larger ones,
 * and where the arrays themselves can be reached, each rank working on its own part of everybody's.
 *
 * Every rank adds operands in rank order, so that all get the same bits.
 */
#ifndef RT_DIRECT_H
#define RT_DIRECT_H

#include "base/error.h"
#include "transports/transport.h"
#include <stdbool.h>
#include <stddef.h>

struct rt_node;
struct rt_exchange; /* one per communicator */
struct rt_call;

/* Where an operation is; zeroed at its start. */
struct rt_direct {
    uint32_t phase, peer;
    size_t   block, most; /* most: elements of each piece in a block */
    uint64_t turn; /* of block 0 */
    uint32_t way, hash, root;
    bool     begun, remote, streams; /* streams: results go past the caches */
};

/* The two calls that differ. */
struct rt_difference {
    uint32_t        peer;
    struct rt_frame mine, theirs;
};

/* reads: private memory may be read by the kernel's help; alike on all ranks. */
struct rt_exchange *rt_exchange_open(struct rt_node *node, bool reads);
void rt_exchange_close(struct rt_exchange *exchange);

/* Is there a direct path for this collective? */
bool rt_direct_serves(ringtree_collective collective);

/* OK: finished. IN_PROGRESS: call again. RINGTREE_MISMATCH: see *difference. RINGTREE_NO_MEMORY: a peer's memory cannot
 * be mapped here. PEER_LOST: difference->peer's memory cannot be read; errno says why. */
ringtree_status rt_direct_advance(struct rt_exchange *exchange, struct rt_direct *direct, const struct rt_call *call,
                                  bool *moved, struct rt_difference *difference);

/*
 * Calls of one line, which go out and come back with nothing between: is `call` one? The two that follow do what
 * rt_direct_advance() does; they leave `direct` where that goes on.
 */
bool rt_line_fits(const struct rt_exchange *exchange, const struct rt_call *call);
/* false: there is no room for this turn yet; nothing was done. */
bool rt_line_publish(struct rt_exchange *exchange, struct rt_direct *direct, const struct rt_call *call);
/* false: not all have come yet, or one calls something else. */
bool rt_line_take(struct rt_exchange *exchange, struct rt_direct *direct, const struct rt_call *call);

/* The operation failed: take back what was published, and wait a moment for peers that may be inside this rank's
 * memory. */
void rt_direct_leave(struct rt_exchange *exchange, const struct rt_direct *direct);

/* The local rank that is waited for now. */
uint32_t rt_direct_awaits(const struct rt_exchange *exchange, const struct rt_direct *direct);

#endif
