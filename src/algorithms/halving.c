/*
 * Recursive halving and doubling (Rabenseifner) for any number of ranks: p is the largest power of two <= n, the array
 * has p chunks, and the first 2(n-p) ranks form pairs in which the even one hands its array to the odd one before and
 * gets the result after. The p ranks that stay have numbers v = 0..p-1.
 *
 * Halving: in the round with distance d = p/2, p/4, ..., 1, v works on the 2d chunks from v & ~(2d-1); it sends the
 * half that its partner v^d keeps and adds the partner's message to its own half. After the last round chunk v is
 * complete on v, and only there, so all ranks get one expression. Doubling, d = 1, ..., p/2, goes back the same way.
 *   In place: what a rank lent to v^d in halving comes back from v^d in doubling, which took it first; an even rank's
 *   array likewise from its odd partner. What is sent in doubling is not written again.
 *   Slots: partners both send first, then receive, so one is enough.
 * The two messages to and from the folded rank keep the largest span at p/2.
 */
#include "formula.h"

struct fold {
    uint32_t p, extra; /* ranks that stay; ranks that fold */
    uint32_t rounds;   /* log2 p */
    bool     folded;   /* hands its array over */
    uint32_t pair;     /* of a fold, or RT_NONE */
    uint32_t v;
};

static struct fold fold_of(uint32_t n, uint32_t rank)
{
    struct fold f = { .p = rt_power_below(n), .pair = RT_NONE };
    f.extra = n - f.p;
    f.rounds = rt_log2_up(f.p);
    if (rank < 2 * f.extra) {
        f.folded = rank % 2 == 0;
        f.pair = rank ^ 1;
        f.v = rank / 2;
    } else {
        f.v = rank - f.extra;
    }
    return f;
}

static uint32_t rank_of(const struct fold *f, uint32_t v)
{
    return v < f->extra ? 2 * v + 1 : v + f->extra;
}

static struct rt_step range(enum rt_verb verb, uint8_t source, uint32_t chunk, uint32_t span)
{
    struct rt_step step = rt_step_new(verb);
    step.source = source;
    step.source_chunk = step.target_chunk = chunk;
    step.span = span;
    return step;
}

uint32_t rt_halving_steps(uint32_t n, uint32_t rank)
{
    const struct fold f = fold_of(n, rank);
    if (n == 1) return 1;
    if (f.folded) return 4;
    return 4 * f.rounds + (f.pair == RT_NONE ? 0 : 4);
}

/* A folded rank: send both halves, receive both halves. */
static struct rt_step folded_step(const struct fold *f, uint32_t i)
{
    const uint32_t half = f->p / 2;
    struct rt_step step = range(i < 2 ? RT_SEND : RT_RECV_KEEP, RT_INPUT, i % 2 * half, half);
    if (i < 2) step.to = f->pair;
    else step.from = f->pair;
    return step;
}

static struct rt_step pair_step(const struct fold *f, uint32_t half_index, bool gather)
{
    const uint32_t half = f->p / 2;
    struct rt_step step = gather ? range(RT_SEND, RT_OUTPUT, half_index * half, half)
                                 : range(RT_RECV_REDUCE_KEEP, RT_INPUT, half_index * half, half);
    if (gather) step.to = f->pair;
    else step.from = f->pair;
    return step;
}

/* Round k of halving, first its send, then its receive. */
static struct rt_step halving_round(const struct fold *f, uint32_t k, bool receive)
{
    const uint32_t d = f->p >> (k + 1), base = f->v & ~(2 * d - 1), mine = base + (f->v & d);
    const uint8_t source = k == 0 && f->pair == RT_NONE ? RT_INPUT : RT_OUTPUT;
    struct rt_step step = range(receive ? RT_RECV_REDUCE_KEEP : RT_SEND, source, receive ? mine : mine ^ d, d);
    if (receive) step.from = rank_of(f, f->v ^ d);
    else step.to = rank_of(f, f->v ^ d);
    if (receive && d == 1) step.flags = RT_FINAL;
    return step;
}

static struct rt_step doubling_round(const struct fold *f, uint32_t k, bool receive)
{
    const uint32_t d = UINT32_C(1) << k, mine = f->v & ~(d - 1);
    struct rt_step step = range(receive ? RT_RECV_KEEP : RT_SEND, RT_OUTPUT, receive ? mine ^ d : mine, d);
    if (receive) step.from = rank_of(f, f->v ^ d);
    else step.to = rank_of(f, f->v ^ d);
    return step;
}

struct rt_step rt_halving_step(uint32_t n, uint32_t rank, uint32_t i)
{
    if (n == 1) return rt_alone();
    const struct fold f = fold_of(n, rank);
    if (f.folded) return folded_step(&f, i);
    if (f.pair != RT_NONE) {
        if (i < 2) return pair_step(&f, i, false);
        i -= 2;
    }
    if (i < 2 * f.rounds) return halving_round(&f, i / 2, i % 2);
    i -= 2 * f.rounds;
    if (i < 2 * f.rounds) return doubling_round(&f, i / 2, i % 2);
    return pair_step(&f, i - 2 * f.rounds, true);
}

static uint32_t chunks(const struct rt_shape *shape)
{
    return rt_power_below(shape->nranks);
}

static uint32_t max_span(const struct rt_shape *shape)
{
    return shape->nranks < 4 ? 1 : rt_power_below(shape->nranks) / 2;
}

static uint32_t steps(const struct rt_shape *shape)
{
    return rt_halving_steps(shape->nranks, shape->rank);
}

static struct rt_step step_of(const struct rt_shape *shape, uint32_t i)
{
    return rt_halving_step(shape->nranks, shape->rank, i);
}

const struct rt_algorithm rt_halving_all_reduce = {
    .name = "halving", .collective = RINGTREE_ALL_REDUCE, .min_slots = 1,
    .lanes = rt_one, .chunks = chunks, .max_span = max_span, .steps = steps, .step = step_of,
};
