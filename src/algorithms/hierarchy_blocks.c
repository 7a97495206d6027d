/*
 * Hierarchical all-gather and reduce-scatter: rank (x, l) is number l of m on node x of N, and block (x, l) is its own.
 *
 * all_gather: first a ring of N between nodes, among the ranks of number l, brings the blocks (., l) to each of them;
 * then, for x = 0 .. N-1 one after the other, a ring of m inside the node passes the blocks (x, .) on. A block crosses
 * between nodes once per node, shared by all ranks of the node. What is sent is never written again.
 *
 * reduce_scatter is the mirror: for each x a ring of m inside the node adds the blocks (x, .); rank (y, l) keeps its
 * node's sum of block (x, l) in SCRATCH[x]; then a ring of N between nodes adds these, ending at the owner. In place
 * OUTPUT[0] is INPUT[r], which no ring sends as the own block of its owner comes last, and is read before that.
 *
 * Slots: as in ring.c, two.
 */
#include "formula.h"
#include "nodes.h"

static uint32_t rank_between(const struct rt_shape *shape, const struct rt_grid *grid, uint32_t node)
{
    return rt_grid_rank(shape, node % grid->nodes, grid->local);
}

static uint32_t rank_inside(const struct rt_shape *shape, const struct rt_grid *grid, uint32_t local)
{
    return rt_grid_rank(shape, grid->node, local % grid->locals);
}

/* Own block; N steps between; N rings of m inside, if the node has more than one rank. */
static uint32_t steps(const struct rt_shape *shape)
{
    const struct rt_grid grid = rt_grid_of(shape);
    return 1 + grid.nodes + (grid.locals > 1 ? grid.nodes * grid.locals : 0);
}

static struct rt_step gather_ring(uint32_t i, uint32_t size, uint32_t block, uint32_t previous, uint32_t next)
{
    struct rt_step step = rt_step_new(i == 0 ? RT_SEND : i == size - 1 ? RT_RECV_KEEP : RT_RECV_KEEP_SEND);
    step.source = RT_OUTPUT;
    step.source_chunk = step.target_chunk = block;
    if (i > 0) step.from = previous;
    if (i < size - 1) step.to = next;
    return step;
}

static struct rt_step gather_step(const struct rt_shape *shape, uint32_t i)
{
    const struct rt_grid g = rt_grid_of(shape);
    if (i == 0) return rt_own_block(0, shape->rank);
    i--;
    if (i < g.nodes)
        return gather_ring(i, g.nodes, rank_between(shape, &g, g.node + g.nodes - i),
                           rank_between(shape, &g, g.node + g.nodes - 1), rank_between(shape, &g, g.node + 1));
    i -= g.nodes;
    const uint32_t node = i / g.locals, at = i % g.locals, block = (g.local + g.locals - at) % g.locals;
    return gather_ring(at, g.locals, rt_grid_rank(shape, node, block),
                       rank_inside(shape, &g, g.local + g.locals - 1), rank_inside(shape, &g, g.local + 1));
}

static struct rt_step reduce_ring(uint32_t i, uint32_t size, uint32_t previous, uint32_t next)
{
    struct rt_step step =
        rt_step_new(i == 0 ? RT_SEND : i == size - 1 ? RT_RECV_REDUCE_KEEP : RT_RECV_REDUCE_SEND);
    if (i > 0) step.from = previous;
    if (i < size - 1) step.to = next;
    return step;
}

static struct rt_step reduce_inside(const struct rt_shape *shape, const struct rt_grid *g, uint32_t i)
{
    const uint32_t node = i / g->locals, at = i % g->locals, block = (g->local + 2 * g->locals - 1 - at) % g->locals;
    struct rt_step step = reduce_ring(at, g->locals, rank_inside(shape, g, g->local + g->locals - 1),
                                      rank_inside(shape, g, g->local + 1));
    step.source_chunk = rt_grid_rank(shape, node, block);
    step.target = RT_SCRATCH;
    step.target_chunk = node;
    return step;
}

static struct rt_step reduce_between(const struct rt_shape *shape, const struct rt_grid *g, uint32_t i)
{
    const uint32_t node = (g->node + 2 * g->nodes - 1 - i) % g->nodes;
    struct rt_step step = reduce_ring(i, g->nodes, rank_between(shape, g, g->node + g->nodes - 1),
                                      rank_between(shape, g, g->node + 1));
    step.source = g->locals > 1 ? RT_SCRATCH : RT_INPUT;
    step.source_chunk = g->locals > 1 ? node : rt_grid_rank(shape, node, g->local);
    if (i == g->nodes - 1) step.flags = RT_FINAL;
    return step;
}

static uint32_t scatter_steps(const struct rt_shape *shape)
{
    return steps(shape) - 1;
}

static struct rt_step scatter_step(const struct rt_shape *shape, uint32_t i)
{
    const struct rt_grid g = rt_grid_of(shape);
    const uint32_t within = g.locals > 1 ? g.nodes * g.locals : 0;
    return i < within ? reduce_inside(shape, &g, i) : reduce_between(shape, &g, i - within);
}

static uint32_t scratch(const struct rt_shape *shape)
{
    const struct rt_grid g = rt_grid_of(shape);
    return g.locals > 1 ? g.nodes : 0;
}

const struct rt_algorithm rt_hierarchical_all_gather = {
    .name = "hierarchical", .collective = RINGTREE_ALL_GATHER, .min_slots = 2, .refuses = rt_grid_refuses,
    .lanes = rt_one, .chunks = rt_one_per_rank, .steps = steps, .step = gather_step,
};
const struct rt_algorithm rt_hierarchical_reduce_scatter = {
    .name = "hierarchical", .collective = RINGTREE_REDUCE_SCATTER, .min_slots = 2, .refuses = rt_grid_refuses,
    .lanes = rt_one, .chunks = rt_one_per_rank, .scratch = scratch, .steps = scatter_steps, .step = scatter_step,
};
