/* Ranks as (node, local number). */
#include "nodes.h"

static uint32_t ranks_on(const struct rt_shape *shape, uint32_t node)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < shape->nranks; r++) count += shape->layout->node_of[r] == node;
    return count;
}

/* Node after node, `locals` ranks each: the usual placement, seen without counting each node's ranks. */
static bool in_blocks(const struct rt_shape *shape, uint32_t locals)
{
    uint32_t r = 0;
    while (r < shape->nranks && shape->layout->node_of[r] == r / locals) r++;
    return r == shape->nranks;
}

const char *rt_grid_refuses(const struct rt_shape *shape)
{
    const struct rt_layout *layout = shape->layout;
    if (!layout || !layout->node_of || layout->nnodes < 2) return "needs at least two nodes";
    /* as many ranks on each node as on the first: then their sum is the number of ranks */
    const uint32_t locals = ranks_on(shape, 0);
    if ((uint64_t)locals * layout->nnodes != shape->nranks) return "needs the same number of ranks on every node";
    if (in_blocks(shape, locals)) return NULL;
    for (uint32_t node = 1; node < layout->nnodes; node++)
        if (ranks_on(shape, node) != locals) return "needs the same number of ranks on every node";
    return NULL;
}

struct rt_grid rt_grid_of(const struct rt_shape *shape)
{
    const uint32_t nodes = shape->layout->nnodes;
    return (struct rt_grid){ nodes, shape->nranks / nodes, shape->layout->node_of[shape->rank],
                             rt_grid_local(shape, shape->rank) };
}

uint32_t rt_grid_rank(const struct rt_shape *shape, uint32_t node, uint32_t local)
{
    for (uint32_t r = 0; r < shape->nranks; r++)
        if (shape->layout->node_of[r] == node && local-- == 0) return r;
    return RT_NONE;
}

uint32_t rt_grid_local(const struct rt_shape *shape, uint32_t rank)
{
    uint32_t local = 0;
    for (uint32_t r = 0; r < rank; r++) local += shape->layout->node_of[r] == shape->layout->node_of[rank];
    return local;
}
