/*
 * Log-step all-gather and reduce-scatter for any number of ranks (Bruck et al.), without a rotation at the end.
 *
 * all_gather. After the round with distance d = 1, 2, 4, ..., rank r holds the blocks r .. r+2d-1 (mod n): it sends
 * those it has, at most n-d of them, to r-d and gets as many, from r+d on, from r+d. They land where they belong, and a
 * block that is sent is not written again.
 *
 * reduce_scatter is its mirror in time: d runs from the largest power of two below n down to 1. Rank r holds partial
 * sums of the blocks r+j, j < 2d, and sends those with j >= d to r+d, for which they are the blocks j-d; what comes
 * from r-d is added to the own. Each block is added along a binomial tree that ends at its owner. The first round sends
 * and adds INPUT and leaves d partial sums in SCRATCH[0..d-1], after copying there those that no message is added to.
 * SCRATCH[j] is not written any more once it has been sent, as j only falls. In place OUTPUT[0] is INPUT[r], which is
 * read in the first round and never sent.
 *
 * All ranks send first, then receive, so one slot is enough.
 */
#include "formula.h"

static uint32_t rounds(const struct rt_shape *shape)
{
    return rt_log2_up(shape->nranks);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The largest message is the last round's, or the full one before it. */
static uint32_t max_span(const struct rt_shape *shape)
{
    const uint32_t n = shape->nranks;
    if (n < 3) return 1;
    const uint32_t d = UINT32_C(1) << (rounds(shape) - 1);
    return n - d > d / 2 ? n - d : d / 2;
}

static uint32_t all_gather_steps(const struct rt_shape *shape)
{
    return 1 + 2 * rounds(shape);
}

static struct rt_step all_gather_step(const struct rt_shape *shape, uint32_t i)
{
    const uint32_t n = shape->nranks, r = shape->rank;
    if (i == 0) return rt_own_block(0, r);
    const uint32_t d = UINT32_C(1) << (i - 1) / 2;
    const bool receive = (i - 1) % 2;
    struct rt_step step = rt_step_new(receive ? RT_RECV_KEEP : RT_SEND);
    step.source = RT_OUTPUT;
    step.source_chunk = r;
    step.target_chunk = (r + d) % n;
    step.span = least(d, n - d);
    if (receive) step.from = (r + d) % n;
    else step.to = (r + n - d) % n;
    return step;
}

/* The number of partial sums after the first round; 0: no scratch is needed. */
static uint32_t scratch(const struct rt_shape *shape)
{
    return shape->nranks < 3 ? 0 : UINT32_C(1) << (rounds(shape) - 1);
}

/* Sums that the first round's message does not touch: copied. */
static uint32_t untouched(const struct rt_shape *shape)
{
    const uint32_t d = scratch(shape);
    return d ? 2 * d - shape->nranks : 0;
}

static uint32_t reduce_scatter_steps(const struct rt_shape *shape)
{
    if (shape->nranks == 1) return 1;
    return 2 * rounds(shape) + (untouched(shape) > 0);
}

static struct rt_step copy_untouched(const struct rt_shape *shape)
{
    const uint32_t n = shape->nranks, touched = n - scratch(shape);
    struct rt_step step = rt_own_block((shape->rank + touched) % n, touched);
    step.target = RT_SCRATCH;
    step.span = untouched(shape);
    return step;
}

static struct rt_step reduce_scatter_step(const struct rt_shape *shape, uint32_t i)
{
    const uint32_t n = shape->nranks, r = shape->rank;
    if (n == 1) return rt_alone();
    if (untouched(shape) > 0) {
        if (i == 2) return copy_untouched(shape);
        if (i > 2) i--;
    }
    const uint32_t round = i / 2, d = UINT32_C(1) << (rounds(shape) - 1 - round);
    const bool receive = i % 2, first = round == 0;
    struct rt_step step = rt_step_new(receive ? RT_RECV_REDUCE_KEEP : RT_SEND);
    step.source = first ? RT_INPUT : RT_SCRATCH;
    step.source_chunk = first ? (r + (receive ? 0 : d)) % n : receive ? 0 : d;
    step.span = least(d, n - d);
    if (receive) step.from = (r + n - d) % n;
    else step.to = (r + d) % n;
    if (d == 1) step.flags = receive ? RT_FINAL : 0;
    else step.target = RT_SCRATCH;
    return step;
}

const struct rt_algorithm rt_bruck_all_gather = {
    .name = "bruck", .collective = RINGTREE_ALL_GATHER, .min_slots = 1,
    .lanes = rt_one, .chunks = rt_one_per_rank, .max_span = max_span,
    .steps = all_gather_steps, .step = all_gather_step,
};
const struct rt_algorithm rt_bruck_reduce_scatter = {
    .name = "bruck", .collective = RINGTREE_REDUCE_SCATTER, .min_slots = 1,
    .lanes = rt_one, .chunks = rt_one_per_rank, .scratch = scratch, .max_span = max_span,
    .steps = reduce_scatter_steps, .step = reduce_scatter_step,
};
