/*
 * A collective is a formula: (shape, step number) -> one step. It knows neither bytes nor links.
 *
 * Four readers walk the same steps: the engine, the verifier, the printer (ringtree-plan) and later the GPU kernel
 * and the simulator. The algorithm counts chunks; the engine cuts each chunk into slices and runs the whole program
 * of a lane once per slice. Within a lane, messages between two ranks arrive in order; a message of `span` chunks is
 * one message and takes one slot of the link (from, to, lane).
 *
 * Chunks. all_reduce, reduce, broadcast: the array is cut into `chunks` equal parts, INPUT and OUTPUT have all of
 * them. reduce_scatter, scatter: INPUT has one chunk per rank, OUTPUT only chunk 0 (this rank's). all_gather,
 * gather: the reverse. all_to_all: both have one per rank. SCRATCH has scratch() chunks, private to the lane, valid
 * for one slice.
 *
 * In place. all_reduce, reduce, broadcast, all_to_all: INPUT and OUTPUT may be the same memory. reduce_scatter:
 * OUTPUT[0] may be INPUT[rank]; all_gather: INPUT[0] may be OUTPUT[rank]; gather and scatter so at the root. A COPY
 * onto itself is skipped. A formula must be right both in place and not. A message's data may be read from its source
 * at any time until the receiver has taken it (zero-copy), so nothing may overwrite it before that is certain.
 */
#ifndef RT_STEP_H
#define RT_STEP_H

#include <ringtree/ringtree.h>
#include <stdbool.h>
#include <stdint.h>

#ifndef RT_NONE
#define RT_NONE UINT32_MAX
#endif
#define RT_MAX_LANES 8

enum rt_verb {
    RT_SEND,                  /* source -> `to` */
    RT_RECV_REDUCE_SEND,      /* received op source -> `to`, kept nowhere */
    RT_RECV_REDUCE_KEEP,      /* received op source -> target */
    RT_RECV_REDUCE_KEEP_SEND, /* received op source -> target and `to` */
    RT_RECV_KEEP_SEND,        /* received -> target and `to` */
    RT_RECV_KEEP,             /* received -> target */
    RT_COPY,                  /* source -> target, no peer */
    RT_NOTHING,               /* a step without effect, for ranks that skip a round; may carry a wait */
    RT_REDUCE                 /* target op source -> target (RT_OWN_FIRST: source op target), no peer */
};

enum rt_buffer { RT_INPUT, RT_OUTPUT, RT_SCRATCH };

enum rt_step_flags {
    RT_FINAL     = 1, /* this reduction (or COPY) completes the chunk: AVG divides here. Exactly once per chunk. */
    RT_OWN_FIRST = 2, /* result is source op received; without it received op source. Makes bits equal on all ranks */
    RT_COPIED    = 4  /* with RT_SEND from INPUT: in place, this rank overwrites the source before the receiver has
                         surely taken the message. So when INPUT and OUTPUT are the same memory it is copied, never
                         lent */
};

/*
 * Chunk i of `span` is (chunk + i * stride) mod chunks, for source and target alike when both have all chunks;
 * a buffer of one chunk is addressed with source_chunk or target_chunk 0 and span 1.
 *
 * `from2` names a second peer whose message meets the first in the same reduction, added in float32 for narrow
 * floats: (received from `from`) op (received from `from2`) op source; with RT_OWN_FIRST source op `from` op `from2`.
 *
 * `length_chunk`: the array chunk whose length the message has (i of a span: length_chunk + i * stride). Both ends must
 * name the same one: the last chunk of a cut array is shorter, or empty, and an empty message is skipped by both.
 * RT_NONE: source_chunk of SEND and COPY, target_chunk of the verbs that keep, source_chunk of RECV_REDUCE_SEND; so it
 * must be set where that buffer is SCRATCH (matters to all_reduce, reduce and broadcast; blocks are all equally long).
 *
 * `wait_lane`: before this step, lane wait_lane of the same rank must have finished its whole program for the same
 * slice. Used once at a tree's root, between the up lane and the down lane.
 */
struct rt_step {
    uint8_t  verb, source, target, flags;
    uint32_t source_chunk, target_chunk, span, stride;
    uint32_t from, from2, to, to2; /* ranks or RT_NONE. to2: the same data goes to a second peer (tree down) */
    uint32_t wait_lane, length_chunk;
};

/* Where ranks live. node_of[r] is 0 .. nnodes-1, numbered by first appearance. NULL: one node holds all. */
struct rt_layout {
    uint32_t        nnodes;
    const uint32_t *node_of;
};

struct rt_shape {
    uint32_t                nranks, rank, root; /* root RT_NONE where the collective has none */
    uint32_t                lane;
    const struct rt_layout *layout; /* may be NULL */
};

struct rt_algorithm {
    const char         *name; /* "ring" */
    ringtree_collective collective;
    uint32_t            min_slots; /* per link, least for freedom from deadlock; part of the contract */
    /* NULL when it can serve this shape, else why not: "needs the same number of ranks on every node" */
    const char *(*refuses)(const struct rt_shape *shape);
    uint32_t (*lanes)(const struct rt_shape *shape);      /* 1 .. RT_MAX_LANES, equal on all ranks */
    uint32_t (*chunks)(const struct rt_shape *shape);     /* equal on all ranks and lanes */
    uint32_t (*scratch)(const struct rt_shape *shape);    /* chunks of scratch of this lane; NULL: none */
    uint32_t (*max_span)(const struct rt_shape *shape);   /* largest span of any rank's messages; NULL: 1 */
    uint32_t (*steps)(const struct rt_shape *shape);      /* of this rank and lane; may be 0 */
    struct rt_step (*step)(const struct rt_shape *shape, uint32_t index); /* index < steps(shape) */
};

/* All algorithms, any collective. barrier is an all_reduce of one element and has none of its own. */
extern const struct rt_algorithm *const rt_algorithms[];
extern const uint32_t rt_algorithm_count;

/* NULL when there is no such algorithm for the collective. */
const struct rt_algorithm *rt_algorithm_find(ringtree_collective collective, const char *name);

/* A step whose unused fields are RT_NONE / span 1 / stride 1. Start from it. */
static inline struct rt_step rt_step_new(enum rt_verb verb)
{
    return (struct rt_step){ .verb = (uint8_t)verb, .source = RT_INPUT, .target = RT_OUTPUT, .span = 1, .stride = 1,
                             .from = RT_NONE, .from2 = RT_NONE, .to = RT_NONE, .to2 = RT_NONE, .wait_lane = RT_NONE,
                             .length_chunk = RT_NONE };
}

/* The array chunk that gives the message its length. */
static inline uint32_t rt_step_length_chunk(const struct rt_step *step)
{
    if (step->length_chunk != RT_NONE) return step->length_chunk;
    const bool by_source = step->verb == RT_SEND || step->verb == RT_COPY || step->verb == RT_RECV_REDUCE_SEND;
    return by_source ? step->source_chunk : step->target_chunk;
}

static inline bool rt_step_receives(const struct rt_step *step)
{
    return step->from != RT_NONE;
}
static inline bool rt_step_reduces(const struct rt_step *step)
{
    return (step->verb >= RT_RECV_REDUCE_SEND && step->verb <= RT_RECV_REDUCE_KEEP_SEND) || step->verb == RT_REDUCE;
}
static inline bool rt_step_keeps(const struct rt_step *step)
{
    return (step->verb >= RT_RECV_REDUCE_KEEP && step->verb <= RT_COPY) || step->verb == RT_REDUCE;
}

#endif
