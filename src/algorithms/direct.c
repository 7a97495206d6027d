/*
 * Direct algorithms over a full mesh: every rank meets every other one once per phase. Few rounds, n-1 links per rank.
 *
 * reduce_scatter: rank r sends block p to rank p for all p, then adds the n values of block r in rank order 0, 1, ..,
 * n-1, as the direct path in shared memory does. It collects them in OUTPUT: what comes from rank 0 is kept, what comes
 * from others is added behind it (RT_OWN_FIRST). Its own value waits in SCRATCH, because in place OUTPUT takes its
 * memory, and is added at its turn by a local RT_REDUCE. (Ranks 0 and 1 can begin with their own value instead.)
 * all_reduce: the same on chunk r of n, then the owner sends the result to all others: one expression on all ranks.
 *   In place: chunk p was lent to rank p, and what overwrites it is p's result, sent after p took all.
 * all_gather: every rank sends its block to all others.
 *
 * Every link carries one message per phase and all are sent before any is received, so one slot is enough.
 */
#include "formula.h"

/* The reduction's steps: 0 copies the own value, 1..n follow the ranks. */
static struct rt_step add(const struct rt_shape *shape, uint32_t i, uint32_t input, uint32_t output)
{
    const uint32_t r = shape->rank, peer = i - 1;
    if (i == 0) {
        struct rt_step copy = rt_own_block(input, 0);
        copy.target = RT_SCRATCH;
        copy.length_chunk = output;
        if (r > 1) return copy;
        return rt_step_new(RT_NOTHING);
    }
    if (peer == r && r < 2) return rt_step_new(RT_NOTHING);
    struct rt_step step = rt_step_new(peer == 0 && r > 1 ? RT_RECV_KEEP : RT_RECV_REDUCE_KEEP);
    step.source = RT_OUTPUT;
    step.source_chunk = step.target_chunk = output;
    if (peer == r) {
        step.verb = RT_REDUCE;
        step.source = RT_SCRATCH;
        step.source_chunk = 0;
    } else {
        step.from = peer;
        if (peer > 0) step.flags = RT_OWN_FIRST;
    }
    if (r < 2 && peer == 1 - r) {
        step.source = RT_INPUT;
        step.source_chunk = input;
    }
    if (peer == shape->nranks - 1 || (shape->nranks == 2 && peer == 0)) step.flags |= RT_FINAL;
    return step;
}

static struct rt_step send_to(const struct rt_shape *shape, uint32_t distance, uint8_t source, uint32_t chunk)
{
    struct rt_step step = rt_step_new(RT_SEND);
    step.to = (shape->rank + distance) % shape->nranks;
    step.source = source;
    step.source_chunk = chunk == RT_NONE ? step.to : chunk;
    return step;
}

static struct rt_step keep_from(const struct rt_shape *shape, uint32_t distance)
{
    struct rt_step step = rt_step_new(RT_RECV_KEEP);
    step.from = (shape->rank + shape->nranks - distance) % shape->nranks;
    step.target_chunk = step.from;
    return step;
}

static uint32_t scratch(const struct rt_shape *shape)
{
    return shape->rank > 1 ? 1 : 0;
}

static uint32_t all_reduce_steps(const struct rt_shape *shape)
{
    return shape->nranks == 1 ? 1 : 4 * shape->nranks - 2;
}

static struct rt_step all_reduce_step(const struct rt_shape *shape, uint32_t i)
{
    const uint32_t n = shape->nranks, r = shape->rank;
    if (n == 1) return rt_alone();
    if (i < n - 1) return send_to(shape, i + 1, RT_INPUT, RT_NONE);
    i -= n - 1;
    if (i <= n) return add(shape, i, r, r);
    i -= n + 1;
    if (i < n - 1) return send_to(shape, i + 1, RT_OUTPUT, r);
    return keep_from(shape, i - (n - 1) + 1);
}

static uint32_t reduce_scatter_steps(const struct rt_shape *shape)
{
    return shape->nranks == 1 ? 1 : 2 * shape->nranks;
}

static struct rt_step reduce_scatter_step(const struct rt_shape *shape, uint32_t i)
{
    const uint32_t n = shape->nranks;
    if (n == 1) return rt_alone();
    if (i < n - 1) return send_to(shape, i + 1, RT_INPUT, RT_NONE);
    return add(shape, i - (n - 1), shape->rank, 0);
}

static uint32_t all_gather_steps(const struct rt_shape *shape)
{
    return 2 * shape->nranks - 1;
}

static struct rt_step all_gather_step(const struct rt_shape *shape, uint32_t i)
{
    const uint32_t n = shape->nranks;
    if (i < n - 1) return send_to(shape, i + 1, RT_INPUT, 0);
    if (i == n - 1) return rt_own_block(0, shape->rank);
    return keep_from(shape, i - (n - 1));
}

const struct rt_algorithm rt_direct_all_reduce = {
    .name = "direct", .collective = RINGTREE_ALL_REDUCE, .min_slots = 1,
    .lanes = rt_one, .chunks = rt_one_per_rank, .scratch = scratch, .steps = all_reduce_steps, .step = all_reduce_step,
};
const struct rt_algorithm rt_direct_reduce_scatter = {
    .name = "direct", .collective = RINGTREE_REDUCE_SCATTER, .min_slots = 1,
    .lanes = rt_one, .chunks = rt_one_per_rank, .scratch = scratch, .steps = reduce_scatter_steps,
    .step = reduce_scatter_step,
};
const struct rt_algorithm rt_direct_all_gather = {
    .name = "direct", .collective = RINGTREE_ALL_GATHER, .min_slots = 1,
    .lanes = rt_one, .chunks = rt_one_per_rank, .steps = all_gather_steps, .step = all_gather_step,
};
