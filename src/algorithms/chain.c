/*
 * Chains: a ring that is cut at the root, for broadcast and reduce. One step per rank and slice; the slices follow one
 * another along the chain, so a long array costs its own length plus n hops of one slice.
 *
 * broadcast runs root, root+1, ..., root-1. reduce runs root+1, ..., root and each rank adds itself once.
 * There is no cycle, so one slot is enough. In place: only the root of a broadcast lends its INPUT, and a COPY onto
 * itself is skipped; in a reduce only OUTPUT of the root is written, from which nothing is sent.
 */
#include "formula.h"

static uint32_t broadcast_steps(const struct rt_shape *shape)
{
    return shape->rank == shape->root && shape->nranks > 1 ? 2 : 1;
}

static struct rt_step broadcast_step(const struct rt_shape *shape, uint32_t i)
{
    const uint32_t n = shape->nranks, r = shape->rank, place = (r + n - shape->root) % n;
    if (place == 0 && (i == 1 || n == 1)) return rt_own_block(0, 0);
    struct rt_step step = rt_step_new(place == 0       ? RT_SEND
                                      : place == n - 1 ? RT_RECV_KEEP : RT_RECV_KEEP_SEND);
    if (place > 0) step.from = (r + n - 1) % n;
    if (place < n - 1) step.to = (r + 1) % n;
    return step;
}

static struct rt_step reduce_step(const struct rt_shape *shape, uint32_t i)
{
    const uint32_t n = shape->nranks, r = shape->rank, place = (r + 2 * n - shape->root - 1) % n;
    (void)i;
    if (n == 1) return rt_alone();
    struct rt_step step = rt_step_new(place == 0 ? RT_SEND : place == n - 1 ? RT_RECV_REDUCE_KEEP
                                                       : RT_RECV_REDUCE_SEND);
    if (place > 0) step.from = (r + n - 1) % n;
    if (place < n - 1) step.to = (r + 1) % n;
    else step.flags = RT_FINAL;
    return step;
}

const struct rt_algorithm rt_ring_broadcast = {
    .name = "ring", .collective = RINGTREE_BROADCAST, .min_slots = 1,
    .lanes = rt_one, .chunks = rt_one, .steps = broadcast_steps, .step = broadcast_step,
};
const struct rt_algorithm rt_ring_reduce = {
    .name = "ring", .collective = RINGTREE_REDUCE, .min_slots = 1,
    .lanes = rt_one, .chunks = rt_one, .steps = rt_one, .step = reduce_step,
};
