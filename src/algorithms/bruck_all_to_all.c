/*
 * Log-step all-to-all for small blocks (Bruck et al.), any number of ranks. Block j of rank r, the one for rank r+j,
 * travels by the binary digits of j: in round k all blocks whose digit k is set move on by 2^k ranks, in one message.
 * The index j stays with a block, so after all rounds index j holds the block that rank r-j meant for rank r.
 *
 * SCRATCH: blocks 0..n-1 by index, then one area of `most` blocks per round to pack what is sent, then one to receive.
 *   1. copy INPUT[r+j] to block j, all j at once
 *   2. per round: pack the runs of 2^k consecutive indices whose digit k is set, send, receive, unpack the same runs
 *   3. copy block j to OUTPUT[r-j], one by one as the order is reversed
 * Lending: only packed areas are sent, each once per slice. In place: INPUT is read in step 1 only, before any write.
 * All ranks send first, then receive, so one slot is enough.
 */
#include "formula.h"

static uint32_t rounds(uint32_t n)
{
    return rt_log2_up(n);
}

/* Indices below n whose digit k is set. */
static uint32_t moved(uint32_t n, uint32_t k)
{
    const uint32_t bit = UINT32_C(1) << k, rest = n % (2 * bit);
    return n / (2 * bit) * bit + (rest > bit ? rest - bit : 0);
}

static uint32_t runs(uint32_t n, uint32_t k)
{
    const uint32_t bit = UINT32_C(1) << k;
    return (n + bit - 1) / (2 * bit);
}

static uint32_t most(uint32_t n)
{
    uint32_t most_moved = 1;
    for (uint32_t k = 0; k < rounds(n); k++)
        if (moved(n, k) > most_moved) most_moved = moved(n, k);
    return most_moved;
}

static uint32_t max_span(const struct rt_shape *shape)
{
    return most(shape->nranks);
}

static uint32_t scratch(const struct rt_shape *shape)
{
    const uint32_t n = shape->nranks;
    return n == 1 ? 0 : n + (rounds(n) + 1) * most(n);
}

static uint32_t steps(const struct rt_shape *shape)
{
    const uint32_t n = shape->nranks;
    if (n == 1) return 1;
    uint32_t count = 1 + n;
    for (uint32_t k = 0; k < rounds(n); k++) count += 2 + 2 * runs(n, k);
    return count;
}

static struct rt_step in_scratch(enum rt_verb verb, uint32_t source, uint32_t target, uint32_t span)
{
    struct rt_step step = rt_step_new(verb);
    step.source = step.target = RT_SCRATCH;
    step.source_chunk = source;
    step.target_chunk = target;
    step.span = span;
    return step;
}

/* Run number `run` of round k moves between its place by index and the area at `area`. */
static struct rt_step pack(uint32_t n, uint32_t k, uint32_t run, uint32_t area, bool back)
{
    const uint32_t bit = UINT32_C(1) << k, first = run * 2 * bit + bit, packed = area + run * bit;
    const uint32_t span = n - first < bit ? n - first : bit;
    return back ? in_scratch(RT_COPY, packed, first, span) : in_scratch(RT_COPY, first, packed, span);
}

static struct rt_step round_step(const struct rt_shape *shape, uint32_t k, uint32_t i)
{
    const uint32_t n = shape->nranks, r = shape->rank, count = runs(n, k), d = UINT32_C(1) << k;
    const uint32_t sent = n + k * most(n), received = n + rounds(n) * most(n);
    if (i < count) return pack(n, k, i, sent, false);
    if (i > count + 1) return pack(n, k, i - count - 2, received, true);
    struct rt_step step = in_scratch(i == count ? RT_SEND : RT_RECV_KEEP, sent, received, moved(n, k));
    if (i == count) step.to = (r + d) % n;
    else step.from = (r + n - d) % n;
    return step;
}

static struct rt_step step_of(const struct rt_shape *shape, uint32_t i)
{
    const uint32_t n = shape->nranks, r = shape->rank;
    if (n == 1) return rt_own_block(0, 0);
    if (i == 0) {
        struct rt_step step = rt_own_block(r, 0);
        step.target = RT_SCRATCH;
        step.span = n;
        return step;
    }
    i--;
    for (uint32_t k = 0; k < rounds(n); k++) {
        const uint32_t count = 2 + 2 * runs(n, k);
        if (i < count) return round_step(shape, k, i);
        i -= count;
    }
    struct rt_step step = rt_own_block(i, (r + n - i) % n);
    step.source = RT_SCRATCH;
    return step;
}

const struct rt_algorithm rt_bruck_all_to_all = {
    .name = "bruck", .collective = RINGTREE_ALL_TO_ALL, .min_slots = 1,
    .lanes = rt_one, .chunks = rt_one_per_rank, .scratch = scratch, .max_span = max_span,
    .steps = steps, .step = step_of,
};
