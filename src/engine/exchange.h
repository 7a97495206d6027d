/*
 * What the direct paths share: areas, turns, lines. Each rank owns an area that all read and only it writes:
 *
 *   line[16][]  packets: in each cache line a tag (turn and the call's fingerprint) and 56 bytes, so that payload and
 *               tag travel together, with one writer. Line 0 goes with every turn, with or without payload.
 *   call[16]    the call in full, read only when fingerprints differ, to name it
 *   done        the last turn whose result cell is ready, or whose work in others' memory is finished
 *   in[2]       cells of input;  out[2]  cells of results
 *
 * A turn is a packet, or one block of one operation; turns are numbered through the communicator's life, alike on all
 * ranks, and go round the sets of lines and the pairs of cells. A rank publishes turn t only after it has finished
 * reading turn t-1. It writes the cells of turn t only after it saw everybody's turn t-1, and lines alone after it saw
 * everybody's turn t-15 (rt_gate): so who writes over an earlier turn knows that all have finished with it. Not
 * everybody waits in every turn: a root that only sends goes on at once, up to sixteen packets ahead, and meets the
 * gate later. That is what keeps ranks that share a core from changing places at every call.
 *
 * The two-shot all-reduce looks one block ahead: it publishes t+1 before it reduces t. It writes t+2 after it saw every
 * done >= t, and a peer's done >= t means that it has read all in-cells of t. The out-cell of t is written again at
 * t+2, after all t+2 lines were seen, which peers publish after copying t.
 */
#ifndef RT_EXCHANGE_H
#define RT_EXCHANGE_H

#include "engine.h"
#include <stdatomic.h>
#include <string.h>

#define RT_PAYLOAD      56
#define RT_PACKET_LINES 9 /* more lines gain nothing over a cell */
#define RT_PACKET       (RT_PAYLOAD * RT_PACKET_LINES)
#define RT_TAG_BITS     24
#define RT_TURNS        16 /* of lines; of cells there are two */
#define RT_CELLS        2

struct rt_line64 {
    _Atomic uint64_t tag;
    unsigned char    payload[RT_PAYLOAD];
};

struct rt_area {
    struct rt_line64 line[RT_TURNS][RT_PACKET_LINES];
    struct {
        struct rt_frame frame;
        unsigned char   pad[32];
    } call[RT_TURNS];
    unsigned char    pad[128];
    _Atomic uint64_t done, left; /* left: the last turn that this rank gave up */
};
#define RT_AREA_HEADER 12288
_Static_assert(sizeof(struct rt_area) <= RT_AREA_HEADER, "cells begin after it");

struct rt_exchange {
    struct rt_node  *node;
    uint32_t         n, self;
    size_t           cell;
    uint64_t         turn;      /* the next one */
    uint64_t         synced;    /* all lines up to this turn were seen */
    uint64_t         differing; /* the turn of a mismatch */
    uint32_t         hash[RT_TURNS]; /* of this rank's last turns */
    bool             one_process, reads, crowded; /* crowded: more ranks than cores */
    uint32_t         unread; /* whose memory could not be read */
    struct rt_area **area;
    const void     **sources; /* n, for rt_reduce_many() */
    unsigned char  **inputs, **outputs;
    unsigned char   *packets; /* n packets, their payload in one piece */
};

static inline struct rt_line64 *rt_line(const struct rt_exchange *x, uint32_t i, uint64_t turn)
{
    return x->area[i]->line[turn % RT_TURNS];
}

static inline unsigned char *rt_in_cell(const struct rt_exchange *x, uint32_t i, uint64_t turn)
{
    return (unsigned char *)x->area[i] + RT_AREA_HEADER + (turn & 1) * x->cell;
}

static inline unsigned char *rt_out_cell(const struct rt_exchange *x, uint32_t i, uint64_t turn)
{
    return (unsigned char *)x->area[i] + RT_AREA_HEADER + (2 + (turn & 1)) * x->cell;
}

static inline uint64_t rt_tag(uint32_t hash, uint64_t turn)
{
    return turn << RT_TAG_BITS | hash;
}

/* ---- turns (direct.c). direct->peer remembers who is awaited; it is 0 again when they return OK. */

/* OK: the lines of `turn` may be written (depth RT_TURNS), and its cells (depth RT_CELLS). */
ringtree_status rt_gate(struct rt_exchange *x, struct rt_direct *direct, uint64_t turn, uint32_t depth);
/* What a line's tag says of a call, beside its turn. */
uint32_t rt_call_hash(const struct rt_frame *frame);
/* Publishes line 0 of `turn` with the `bytes` of payload, and all that was written before. */
void rt_publish(struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call, uint64_t turn,
                const void *payload, size_t bytes);
/* OK: line 0 of `turn` is there and says the same call; of all, of the root, or of all others for the root. */
ringtree_status rt_await(struct rt_exchange *x, struct rt_direct *direct, uint64_t turn);
ringtree_status rt_await_root(struct rt_exchange *x, struct rt_direct *direct, uint64_t turn);
/* The same of rank i's line. */
ringtree_status rt_line_check(struct rt_exchange *x, uint32_t i, uint32_t hash, uint64_t turn);

void rt_done_publish(struct rt_exchange *x, uint64_t turn);
bool rt_done_await(struct rt_exchange *x, struct rt_direct *direct, uint64_t turn);

/* ---- arrays (arrays.c) */

/* Blocks of `count` elements in this rank's input and output; 0: it has none. */
uint32_t rt_input_blocks(const struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call);
uint32_t rt_output_blocks(const struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call);

/* One of a few collectives, each a bit: these questions are asked several times in the smallest calls. */
static inline bool rt_is_one_of(const struct rt_call *call, uint32_t bits)
{
    return bits >> call->frame.collective & 1;
}

static inline bool rt_is_reducing(const struct rt_call *call)
{
    return rt_is_one_of(call, 1u << RINGTREE_ALL_REDUCE | 1u << RINGTREE_REDUCE_SCATTER | 1u << RINGTREE_REDUCE);
}

static inline bool rt_root_gives(const struct rt_call *call) /* only the root */
{
    return rt_is_one_of(call, 1u << RINGTREE_BROADCAST | 1u << RINGTREE_SCATTER);
}

static inline bool rt_root_takes(const struct rt_call *call)
{
    return rt_is_one_of(call, 1u << RINGTREE_REDUCE | 1u << RINGTREE_GATHER);
}

static inline bool rt_has_pieces(const struct rt_call *call) /* a giver's array has a block for each rank */
{
    return rt_is_one_of(call, 1u << RINGTREE_REDUCE_SCATTER | 1u << RINGTREE_ALL_TO_ALL | 1u << RINGTREE_SCATTER);
}

static inline bool rt_gives(const struct rt_direct *direct, const struct rt_call *call, uint32_t i)
{
    return !rt_root_gives(call) || i == direct->root;
}

static inline bool rt_takes(const struct rt_direct *direct, const struct rt_call *call, uint32_t i)
{
    return !rt_root_takes(call) || i == direct->root;
}

static inline bool rt_is_prepared(const struct rt_call *call) /* is the input changed before it is summed? */
{
    return call->scaled || call->divided_first;
}

/* target = source as the sum wants it */
void rt_prepare(const struct rt_exchange *x, const struct rt_call *call, void *target, const void *source,
                size_t elements);
/* target = sum of x->sources in rank order, divided for AVG */
void rt_add_up(struct rt_exchange *x, const struct rt_call *call, void *target, size_t elements);
/* A result into the caller's output. */
void rt_put(const struct rt_direct *direct, void *target, const void *source, size_t bytes);
bool rt_streams(const struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call);
/* x->sources[i] = NULL where rank i gives nothing */
void rt_only_givers(struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call);
/* What this rank makes of x->sources (NULL where a rank gives nothing): elements [at, at + elements) of its output. */
void rt_combine(struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call, size_t at,
                size_t elements);

/* Larger all-reduces whose arrays cannot be reached. */
bool rt_goes_two_shot(const struct rt_exchange *x, const struct rt_call *call);
/* Elements of each piece in a block that goes through cells. */
size_t rt_cells_most(const struct rt_exchange *x, const struct rt_call *call);
/* Block b of the input into the cell of `turn`. */
void rt_cells_write(struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call, size_t b,
                    uint64_t turn);
void rt_two_shot_write(struct rt_exchange *x, const struct rt_call *call, size_t b, uint64_t turn);

/* ---- the paths, one file each; what rt_direct_advance() gives */
ringtree_status rt_packet_advance(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call,
                                  bool *moved);
ringtree_status rt_cells_advance(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call,
                                 bool *moved);
ringtree_status rt_two_shot_advance(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call,
                                    bool *moved);
/* Begins an operation whose arrays may be reachable: OK once direct->way says which way it goes. */
ringtree_status rt_reach_begin(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call,
                               bool *moved);
ringtree_status rt_reach_advance(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call,
                                 bool *moved);

enum rt_way { RT_WAY_NEW, RT_WAY_PACKET, RT_WAY_CELLS, RT_WAY_ASK, RT_WAY_REACH, RT_WAY_TWO_SHOT };

#endif
