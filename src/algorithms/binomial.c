/*
 * Binomial trees for gather and scatter, any number of ranks and any root. v = (rank - root) mod n. v's lowest set bit
 * b (for the root: the least power of two >= n) is the size of its subtree, which holds v .. v+b-1 cut off at n; its
 * children are v + 1, v + 2, v + 4, ... below v+b, its parent is v-b.
 *
 * gather: a child's message has its whole subtree, so v collects contiguous blocks from small children to large ones,
 * in SCRATCH (the root in OUTPUT, where its block v belongs to rank root+v), and sends them on in one message. scatter
 * is the mirror: large children first. Each scratch chunk is written once per slice. There is no cycle: one slot.
 * In place: the root's own block is already where the COPY would put it.
 */
#include "formula.h"

struct subtree {
    uint32_t v, bit, size, children;
};

static struct subtree subtree_of(const struct rt_shape *shape)
{
    const uint32_t n = shape->nranks;
    struct subtree t = { .v = (shape->rank + n - shape->root) % n };
    t.bit = t.v ? t.v & (~t.v + 1) : UINT32_C(1) << rt_log2_up(n);
    t.size = t.bit < n - t.v ? t.bit : n - t.v;
    t.children = rt_log2_up(t.size);
    return t;
}

static uint32_t child_size(const struct subtree *t, uint32_t k)
{
    const uint32_t size = UINT32_C(1) << k;
    return size < t->size - size ? size : t->size - size;
}

static uint32_t rank_at(const struct rt_shape *shape, uint32_t v)
{
    return (shape->root + v) % shape->nranks;
}

static uint32_t max_span(const struct rt_shape *shape)
{
    uint32_t most = 1;
    const uint32_t n = shape->nranks;
    for (uint32_t size = 1; size < n; size *= 2) {
        const uint32_t span = size < n - size ? size : n - size;
        if (span > most) most = span;
    }
    return most;
}

static uint32_t scratch(const struct rt_shape *shape)
{
    const struct subtree t = subtree_of(shape);
    return t.v == 0 || t.size == 1 ? 0 : t.size;
}

/* Own block, children, parent; a leaf only has its parent. */
static uint32_t steps(const struct rt_shape *shape)
{
    const struct subtree t = subtree_of(shape);
    if (t.v && t.size == 1) return 1;
    return 1 + t.children + (t.v != 0);
}

static struct rt_step gather_step(const struct rt_shape *shape, uint32_t i)
{
    const struct subtree t = subtree_of(shape);
    const bool leaf = t.size == 1, to_parent = t.v && (leaf || i == t.children + 1);
    struct rt_step step = rt_step_new(to_parent ? RT_SEND : i == 0 ? RT_COPY : RT_RECV_KEEP);
    if (to_parent) {
        step.source = leaf ? RT_INPUT : RT_SCRATCH;
        step.span = t.size;
        step.to = rank_at(shape, t.v - t.bit);
        return step;
    }
    step.target = t.v ? RT_SCRATCH : RT_OUTPUT;
    const uint32_t offset = i == 0 ? 0 : UINT32_C(1) << (i - 1);
    step.target_chunk = t.v ? offset : rank_at(shape, offset);
    if (i == 0) return step;
    step.span = child_size(&t, i - 1);
    step.from = rank_at(shape, t.v + offset);
    return step;
}

static struct rt_step scatter_step(const struct rt_shape *shape, uint32_t i)
{
    const struct subtree t = subtree_of(shape);
    const bool leaf = t.size == 1, from_parent = t.v && i == 0;
    const uint32_t k = i - (t.v != 0); /* children, largest first, then the own block */
    struct rt_step step = rt_step_new(from_parent ? RT_RECV_KEEP : k == t.children ? RT_COPY : RT_SEND);
    if (from_parent) {
        step.target = leaf ? RT_OUTPUT : RT_SCRATCH;
        step.span = t.size;
        step.from = rank_at(shape, t.v - t.bit);
        return step;
    }
    step.source = t.v ? RT_SCRATCH : RT_INPUT;
    const uint32_t offset = k == t.children ? 0 : UINT32_C(1) << (t.children - 1 - k);
    step.source_chunk = t.v ? offset : rank_at(shape, offset);
    if (k == t.children) return step;
    step.span = child_size(&t, t.children - 1 - k);
    step.to = rank_at(shape, t.v + offset);
    return step;
}

const struct rt_algorithm rt_binomial_gather = {
    .name = "binomial", .collective = RINGTREE_GATHER, .min_slots = 1,
    .lanes = rt_one, .chunks = rt_one_per_rank, .scratch = scratch, .max_span = max_span,
    .steps = steps, .step = gather_step,
};
const struct rt_algorithm rt_binomial_scatter = {
    .name = "binomial", .collective = RINGTREE_SCATTER, .min_slots = 1,
    .lanes = rt_one, .chunks = rt_one_per_rank, .scratch = scratch, .max_span = max_span,
    .steps = steps, .step = scatter_step,
};
