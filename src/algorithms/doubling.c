/*
 * Recursive doubling: log2(p) exchanges of the whole array, for small ones. p is the largest power of two <= n; the
 * first 2(n-p) ranks form pairs in which the even one hands its array to the odd one before and gets the result after.
 *
 * In the round with distance d = 1, 2, ..., p/2, v and v^d exchange what they have, each the sum of its block of d, and
 * both add it in the same order, lower block first (RT_OWN_FIRST on the lower one): one expression on all ranks.
 *   Lending: every value between rounds has a scratch chunk of its own, written once per slice and sent in the next
 *   round; a lane with scratch starts its next slice only when all that it sent was taken. INPUT is sent as RT_COPIED,
 *   because OUTPUT, in place the same memory, is written when a partner may not yet have taken a lent INPUT.
 *   Slots: partners both send first, then receive, so one is enough.
 */
#include "formula.h"

struct fold {
    uint32_t p, extra, rounds;
    bool     paired; /* this rank: one of the first 2 * extra */
};

static struct fold fold_of(const struct rt_shape *shape)
{
    const uint32_t p = rt_power_below(shape->nranks), extra = shape->nranks - p;
    return (struct fold){ p, extra, rt_log2_up(p), shape->rank < 2 * extra };
}

static uint32_t rank_of(const struct fold *f, uint32_t v)
{
    return v < f->extra ? 2 * v + 1 : v + f->extra;
}

/* A value for each round, but the first of a rank that has no partner to hear before: that is INPUT. */
static uint32_t scratch(const struct rt_shape *shape)
{
    const struct fold f = fold_of(shape);
    return f.paired || f.rounds == 0 ? f.rounds : f.rounds - 1;
}

static uint32_t steps(const struct rt_shape *shape)
{
    const struct fold f = fold_of(shape);
    if (shape->nranks == 1) return 1;
    if (!f.paired) return 2 * f.rounds;
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

/* SCRATCH[0] = this rank's input with its folded partner's. */
static struct rt_step first_value(uint32_t pair)
{
    struct rt_step step = towards(RT_RECV_REDUCE_KEEP, pair);
    step.target = RT_SCRATCH;
    return step;
}

static struct rt_step exchange(const struct fold *f, uint32_t v, uint32_t round, bool receive)
{
    const uint32_t d = UINT32_C(1) << round, at = f->paired ? round : round - 1;
    struct rt_step step = towards(receive ? RT_RECV_REDUCE_KEEP : RT_SEND, rank_of(f, v ^ d));
    if (f->paired || round > 0) {
        step.source = RT_SCRATCH;
        step.source_chunk = at;
    } else if (!receive) {
        step.flags = RT_COPIED;
    }
    if (!receive) return step;
    if (round == f->rounds - 1) {
        step.flags = RT_FINAL;
    } else {
        step.target = RT_SCRATCH;
        step.target_chunk = at + 1;
    }
    if ((v & d) == 0) step.flags |= RT_OWN_FIRST;
    return step;
}

static struct rt_step step_of(const struct rt_shape *shape, uint32_t i)
{
    const struct fold f = fold_of(shape);
    const uint32_t r = shape->rank;
    if (shape->nranks == 1) return rt_alone();
    if (f.paired && r % 2 == 0) return towards(i == 0 ? RT_SEND : RT_RECV_KEEP, r + 1);
    if (f.paired && i == 0) return first_value(r - 1);
    const uint32_t at = f.paired ? i - 1 : i;
    if (at < 2 * f.rounds) return exchange(&f, f.paired ? r / 2 : r - f.extra, at / 2, at % 2);
    struct rt_step step = towards(RT_SEND, r - 1);
    step.source = RT_OUTPUT;
    return step;
}

const struct rt_algorithm rt_doubling_all_reduce = {
    .name = "doubling", .collective = RINGTREE_ALL_REDUCE, .min_slots = 1,
    .lanes = rt_one, .chunks = rt_one, .scratch = scratch, .steps = steps, .step = step_of,
};
