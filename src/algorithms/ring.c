/*
 * Rings: rank r receives from r-1 and sends to r+1.
 *
 * all_reduce. Chunk c starts at rank c+1, collects one rank per hop, is complete on rank c after n-1 hops, then makes
 * n-1 more hops as a finished value. So at step i every rank works on chunk (rank - 1 - i) mod n, in both halves: the
 * same chunk comes round twice, first to be added, then to be kept. Every chunk is added along one path, so all ranks
 * get one expression.
 *   In place: rank r lends INPUT[r-1] at step 0 and overwrites it at step n, on receipt of a message that has been
 *   through r+1, which took the lent one first. No other chunk is lent before it is final.
 *   Slots: with one slot every rank holds its received message while it waits for room at the next, which does too: a
 *   deadlock. With two, the message of step i finds a free slot once step i-2's was taken, which needs no later step.
 *
 * reduce_scatter is the first half: n steps, ending at the owner of the chunk. In place OUTPUT[0] is INPUT[r], which is
 * read in the last step only.
 *
 * all_gather is the second half: rank r's own block first, then whatever comes, n-1 hops each. A block that is sent is
 * never written again.
 */
#include "formula.h"

static struct rt_step ring_step(const struct rt_shape *shape, uint32_t i, enum rt_verb verb)
{
    const uint32_t n = shape->nranks, r = shape->rank;
    struct rt_step step = rt_step_new(verb);
    step.source_chunk = step.target_chunk = (r + 2 * n - 1 - i) % n;
    if (verb != RT_SEND) step.from = (r + n - 1) % n;
    if (verb != RT_RECV_KEEP && verb != RT_RECV_REDUCE_KEEP) step.to = (r + 1) % n;
    return step;
}

static uint32_t all_reduce_steps(const struct rt_shape *shape)
{
    return 2 * shape->nranks - 1;
}

static struct rt_step all_reduce_step(const struct rt_shape *shape, uint32_t i)
{
    const uint32_t n = shape->nranks;
    if (n == 1) return rt_alone();
    if (i == 0) return ring_step(shape, i, RT_SEND);
    if (i < n - 1) return ring_step(shape, i, RT_RECV_REDUCE_SEND);
    if (i > n - 1) return ring_step(shape, i, i == 2 * n - 2 ? RT_RECV_KEEP : RT_RECV_KEEP_SEND);
    struct rt_step step = ring_step(shape, i, RT_RECV_REDUCE_KEEP_SEND);
    step.flags = RT_FINAL;
    return step;
}

static struct rt_step reduce_scatter_step(const struct rt_shape *shape, uint32_t i)
{
    const uint32_t n = shape->nranks;
    if (n == 1) return rt_alone();
    if (i == 0) return ring_step(shape, i, RT_SEND);
    if (i < n - 1) return ring_step(shape, i, RT_RECV_REDUCE_SEND);
    struct rt_step step = ring_step(shape, i, RT_RECV_REDUCE_KEEP);
    step.target_chunk = 0;
    step.flags = RT_FINAL;
    return step;
}

static uint32_t all_gather_steps(const struct rt_shape *shape)
{
    return shape->nranks == 1 ? 1 : shape->nranks + 1;
}

/* Send the own block, copy it, then pass on n-1 others. */
static struct rt_step all_gather_step(const struct rt_shape *shape, uint32_t i)
{
    const uint32_t n = shape->nranks, r = shape->rank;
    if (n == 1 || i == 1) return rt_own_block(0, r);
    if (i > 1) return ring_step(shape, i - 2, i == n ? RT_RECV_KEEP : RT_RECV_KEEP_SEND);
    struct rt_step step = ring_step(shape, 0, RT_SEND);
    step.source_chunk = 0;
    return step;
}

const struct rt_algorithm rt_ring_all_reduce = {
    .name = "ring", .collective = RINGTREE_ALL_REDUCE, .min_slots = 2,
    .lanes = rt_one, .chunks = rt_one_per_rank, .steps = all_reduce_steps, .step = all_reduce_step,
};
const struct rt_algorithm rt_ring_reduce_scatter = {
    .name = "ring", .collective = RINGTREE_REDUCE_SCATTER, .min_slots = 2,
    .lanes = rt_one, .chunks = rt_one_per_rank, .steps = rt_one_per_rank, .step = reduce_scatter_step,
};
const struct rt_algorithm rt_ring_all_gather = {
    .name = "ring", .collective = RINGTREE_ALL_GATHER, .min_slots = 2,
    .lanes = rt_one, .chunks = rt_one_per_rank, .steps = all_gather_steps, .step = all_gather_step,
};
