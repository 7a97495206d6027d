/*
 * Gather and scatter without detours: the root meets every other rank once, in the order root+1, root+2, ... All
 * messages are independent, so one slot is enough. In place the root's own block is already where it belongs.
 */
#include "formula.h"

static uint32_t steps(const struct rt_shape *shape)
{
    return shape->rank == shape->root ? shape->nranks : 1;
}

static struct rt_step gather_step(const struct rt_shape *shape, uint32_t i)
{
    const uint32_t peer = (shape->root + i) % shape->nranks;
    struct rt_step step = rt_step_new(shape->rank == shape->root ? RT_RECV_KEEP : RT_SEND);
    if (shape->rank != shape->root) {
        step.to = shape->root;
        return step;
    }
    if (i == 0) return rt_own_block(0, peer);
    step.from = peer;
    step.target_chunk = peer;
    return step;
}

static struct rt_step scatter_step(const struct rt_shape *shape, uint32_t i)
{
    const uint32_t peer = (shape->root + i) % shape->nranks;
    struct rt_step step = rt_step_new(shape->rank == shape->root ? RT_SEND : RT_RECV_KEEP);
    if (shape->rank != shape->root) {
        step.from = shape->root;
        return step;
    }
    if (i == 0) return rt_own_block(peer, 0);
    step.to = peer;
    step.source_chunk = peer;
    return step;
}

const struct rt_algorithm rt_linear_gather = {
    .name = "linear", .collective = RINGTREE_GATHER, .min_slots = 1,
    .lanes = rt_one, .chunks = rt_one_per_rank, .steps = steps, .step = gather_step,
};
const struct rt_algorithm rt_linear_scatter = {
    .name = "linear", .collective = RINGTREE_SCATTER, .min_slots = 1,
    .lanes = rt_one, .chunks = rt_one_per_rank, .steps = steps, .step = scatter_step,
};
