/*
 * Pairwise all-to-all for any number of ranks. In round i rank r meets the rank p with r + p = i (mod n), so the two
 * agree on the round; once it meets itself and copies. Over the n rounds p takes every value once.
 *
 * In place: the block received from p overwrites the one just sent to p, and p need not have taken it when it sends
 * its own, so the send is RT_COPIED. Partners both send first, then receive, so one slot is enough.
 */
#include "formula.h"

static uint32_t steps(const struct rt_shape *shape)
{
    return 2 * shape->nranks;
}

static struct rt_step step_of(const struct rt_shape *shape, uint32_t i)
{
    const uint32_t n = shape->nranks, r = shape->rank, peer = (i / 2 + n - r) % n;
    if (peer == r) return i % 2 == 0 ? rt_own_block(r, r) : rt_step_new(RT_NOTHING);
    struct rt_step step = rt_step_new(i % 2 == 0 ? RT_SEND : RT_RECV_KEEP);
    step.source_chunk = step.target_chunk = peer;
    if (i % 2 == 0) {
        step.to = peer;
        step.flags = RT_COPIED;
    } else {
        step.from = peer;
    }
    return step;
}

const struct rt_algorithm rt_pairwise_all_to_all = {
    .name = "pairwise", .collective = RINGTREE_ALL_TO_ALL, .min_slots = 1,
    .lanes = rt_one, .chunks = rt_one_per_rank, .steps = steps, .step = step_of,
};
