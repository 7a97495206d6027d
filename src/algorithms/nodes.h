/* Ranks as (node, local number): the grid of hierarchical algorithms. Ranks of a node need not be contiguous. */
#ifndef RT_NODES_H
#define RT_NODES_H

#include "step.h"

struct rt_grid {
    uint32_t nodes, locals; /* ranks = nodes * locals */
    uint32_t node, local;   /* of this rank */
};

/* NULL when every node has the same number of ranks and there are two nodes at least, else why not. */
const char *rt_grid_refuses(const struct rt_shape *shape);

/* Only for a shape that is not refused. O(ranks). */
struct rt_grid rt_grid_of(const struct rt_shape *shape);

/* The rank with number `local`, in rank order, on `node`. */
uint32_t rt_grid_rank(const struct rt_shape *shape, uint32_t node, uint32_t local);

/* The number of `rank` among the ranks of its node. */
uint32_t rt_grid_local(const struct rt_shape *shape, uint32_t rank);

#endif
