/*
 * Recursive doubling: log2(p) exchanges of the whole array, for small ones. p is the largest power of two <= n; the
 * first 2(n-p) ranks form pairs in which the even one hands its array to the odd one before and gets the result after.
 *
 * In the round with distance d = 1, 2, ..., p/2, v and v^d exchange what they have, each the sum of its block of d, and
 * both add it in the same order, lower block first (RT_OWN_FIRST on the lower one): one expression on all ranks.
 *   Lending: every round's value has a scratch chunk of its own, written once per slice and sent in the next round;
 *   a lane with scratch starts its next slice only when all that it sent was taken. The own input is copied into the
 *   first, because OUTPUT, in place the same memory, is written when a partner may not yet have taken a lent INPUT.
 *   Slots: partners both send first, then receive, so one is enough.
 */
#include "formula.h"

struct fold {
    uint32_t p, extra, rounds;
};

static struct fold fold_of(uint32_t n)
{
    const uint32_t p = rt_power_below(n);
    return (struct fold){ p, n - p, rt_log2_up(p) };
}

static uint32_t rank_of(const struct fold *f, uint32_t v)
{
    return v < f->extra ? 2 * v + 1 : v + f->extra;
}

static uint32_t scratch(const struct rt_shape *shape)
{
    return rt_log2_up(rt_power_below(shape->nranks));
}

static uint32_t steps(const struct rt_shape *shape)
{
    const struct fold f = fold_of(shape->nranks);
    if (shape->nranks == 1) return 1;
    if (shape->rank >= 2 * f.extra) return 1 + 2 * f.rounds;
    return shape->rank % 2 == 0 ? 2 : 2 + 2 * f.rounds;
}

static struct rt_step towards(enum rt_verb verb, uint32_t peer)
{
    struct rt_step step = rt_step_new(verb);
    if (verb == RT_SEND) step.to = peer;
    else step.from = peer;
    step.length_chunk = 0;
    return step;
}

/* SCRATCH[0] = this rank's input, with its folded partner's if it has one. */
static struct rt_step first_value(bool paired, uint32_t pair)
{
    struct rt_step step = paired ? towards(RT_RECV_REDUCE_KEEP, pair) : rt_step_new(RT_COPY);
    step.target = RT_SCRATCH;
    step.length_chunk = 0;
    return step;
}

static struct rt_step exchange(const struct fold *f, uint32_t v, uint32_t round, bool receive)
{
    const uint32_t d = UINT32_C(1) << round;
    struct rt_step step = towards(receive ? RT_RECV_REDUCE_KEEP : RT_SEND, rank_of(f, v ^ d));
    step.source = RT_SCRATCH;
    step.source_chunk = round;
    if (!receive) return step;
    if (round == f->rounds - 1) {
        step.flags = RT_FINAL;
    } else {
        step.target = RT_SCRATCH;
        step.target_chunk = round + 1;
    }
    if ((v & d) == 0) step.flags |= RT_OWN_FIRST;
    return step;
}

static struct rt_step step_of(const struct rt_shape *shape, uint32_t i)
{
    const struct fold f = fold_of(shape->nranks);
    const uint32_t r = shape->rank;
    const bool paired = r < 2 * f.extra;
    if (shape->nranks == 1) return rt_alone();
    if (paired && r % 2 == 0) return towards(i == 0 ? RT_SEND : RT_RECV_KEEP, r + 1);
    if (i == 0) return first_value(paired, r - 1);
    if (i <= 2 * f.rounds) return exchange(&f, paired ? r / 2 : r - f.extra, (i - 1) / 2, (i - 1) % 2);
    struct rt_step step = towards(RT_SEND, r - 1);
    step.source = RT_OUTPUT;
    return step;
}

const struct rt_algorithm rt_doubling_all_reduce = {
    .name = "doubling", .collective = RINGTREE_ALL_REDUCE, .min_slots = 1,
    .lanes = rt_one, .chunks = rt_one, .scratch = scratch, .steps = steps, .step = step_of,
};
