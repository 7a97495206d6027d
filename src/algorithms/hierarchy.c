/*
 * Hierarchical all-reduce: rank (x, l) is number l of m on node x of N. The array has m slices of q chunks, q the
 * largest power of two <= N. Three lanes, so that slices of the engine overlap inside and between nodes:
 *   lane 0  ring reduce-scatter inside the node: rank (x, l) ends with the node's sum of slice l
 *   lane 1  halving all-reduce of slice l among the N ranks (., l); waits for lane 0
 *   lane 2  ring all-gather inside the node; waits for lane 1
 * So each byte crosses between nodes once per node and direction, shared by all its ranks. Slice l is added along one
 * ring on every node, then at one place between nodes, then copied: one expression on all ranks.
 *
 * In place: what rank l lends inside the node at step 0 is slice l-1. It is overwritten by that slice's result, which
 * comes from the slice's owner l-1, who added it after it went round through l+1, which took the lent one. Between
 * nodes everything happens in OUTPUT as in halving.c. With one rank per node lanes 0 and 2 are empty.
 *
 * Slots: as in ring.c, two.
 */
#include "formula.h"
#include "nodes.h"

static uint32_t three(const struct rt_shape *shape)
{
    (void)shape;
    return 3;
}

static uint32_t slice_chunks(const struct rt_grid *grid)
{
    return rt_power_below(grid->nodes);
}

static uint32_t chunks(const struct rt_shape *shape)
{
    const struct rt_grid grid = rt_grid_of(shape);
    return grid.locals * slice_chunks(&grid);
}

static uint32_t max_span(const struct rt_shape *shape)
{
    const struct rt_grid grid = rt_grid_of(shape);
    return grid.locals > 1 ? slice_chunks(&grid) : slice_chunks(&grid) / 2;
}

static uint32_t steps(const struct rt_shape *shape)
{
    const struct rt_grid grid = rt_grid_of(shape);
    if (shape->lane == 1) return rt_halving_steps(grid.nodes, grid.node);
    return grid.locals > 1 ? grid.locals : 0;
}

/* Step i of a ring inside the node, on slice `slice` mod m. */
static struct rt_step inside(const struct rt_shape *shape, const struct rt_grid *grid, uint32_t i, uint32_t slice)
{
    const uint32_t m = grid->locals, q = slice_chunks(grid);
    const bool reduce = shape->lane == 0;
    struct rt_step step = rt_step_new(i == 0       ? RT_SEND
                                      : i == m - 1 ? (reduce ? RT_RECV_REDUCE_KEEP : RT_RECV_KEEP)
                                                   : (reduce ? RT_RECV_REDUCE_SEND : RT_RECV_KEEP_SEND));
    step.source = reduce ? RT_INPUT : RT_OUTPUT;
    step.source_chunk = step.target_chunk = slice % m * q;
    step.span = q;
    if (i > 0) step.from = rt_grid_rank(shape, grid->node, (grid->local + m - 1) % m);
    if (i < m - 1) step.to = rt_grid_rank(shape, grid->node, (grid->local + 1) % m);
    return step;
}

static uint32_t peer_rank(const struct rt_shape *shape, const struct rt_grid *grid, uint32_t node)
{
    return node == RT_NONE ? RT_NONE : rt_grid_rank(shape, node, grid->local);
}

/* halving.c's step, on slice `local` and among ranks of that number. */
static struct rt_step between(const struct rt_shape *shape, const struct rt_grid *grid, uint32_t i)
{
    struct rt_step step = rt_halving_step(grid->nodes, grid->node, i);
    const uint32_t first = grid->local * slice_chunks(grid);
    step.source_chunk += first;
    step.target_chunk += first;
    step.from = peer_rank(shape, grid, step.from);
    step.to = peer_rank(shape, grid, step.to);
    if (grid->locals > 1) step.source = RT_OUTPUT;
    if (i == 0) step.wait_lane = 0;
    return step;
}

static struct rt_step step_of(const struct rt_shape *shape, uint32_t i)
{
    const struct rt_grid grid = rt_grid_of(shape);
    const uint32_t m = grid.locals, l = grid.local;
    if (shape->lane == 0) return inside(shape, &grid, i, l + 2 * m - 1 - i);
    if (shape->lane == 1) return between(shape, &grid, i);
    struct rt_step step = inside(shape, &grid, i, l + 2 * m - i);
    if (i == 0) step.wait_lane = 1;
    return step;
}

const struct rt_algorithm rt_hierarchical_all_reduce = {
    .name = "hierarchical", .collective = RINGTREE_ALL_REDUCE, .min_slots = 2, .refuses = rt_grid_refuses,
    .lanes = three, .chunks = chunks, .max_span = max_span, .steps = steps, .step = step_of,
};
