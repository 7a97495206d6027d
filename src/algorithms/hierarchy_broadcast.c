/*
 * Hierarchical broadcast: the array goes from node to node once, between leaders, and from each leader along a chain
 * through its node. The leader of the root's node is the root; of another node it is the rank with the same local
 * number. Nodes form a binary heap counted from the root's: node k's children are 2k+1 and 2k+2. Ranks of a node form
 * the chain leader, leader+1, ... in local numbers.
 *
 * A leader passes a slice on to other nodes first, then into its own. No cycle, so one slot is enough, and only the
 * root lends INPUT, which nothing overwrites.
 */
#include "formula.h"
#include "nodes.h"

struct place {
    struct rt_grid grid;
    uint32_t       root_node, leader; /* leader's local number */
    uint32_t       heap, chain;       /* position of this node, of this rank in it */
};

static struct place place_of(const struct rt_shape *shape)
{
    struct place p = { .grid = rt_grid_of(shape) };
    p.root_node = shape->layout->node_of[shape->root];
    p.leader = rt_grid_local(shape, shape->root);
    p.heap = (p.grid.node + p.grid.nodes - p.root_node) % p.grid.nodes;
    p.chain = (p.grid.local + p.grid.locals - p.leader) % p.grid.locals;
    return p;
}

static uint32_t leader_of(const struct rt_shape *shape, const struct place *p, uint32_t heap)
{
    if (heap >= p->grid.nodes) return RT_NONE;
    return rt_grid_rank(shape, (p->root_node + heap) % p->grid.nodes, p->leader);
}

static uint32_t neighbour(const struct rt_shape *shape, const struct place *p, uint32_t distance)
{
    return rt_grid_rank(shape, p->grid.node, (p->grid.local + distance) % p->grid.locals);
}

/* A leader: between nodes, into the node, and the root keeps its own. */
static uint32_t steps(const struct rt_shape *shape)
{
    const struct place p = place_of(shape);
    if (p.chain > 0) return 1;
    return 1 + (p.grid.locals > 1) + (p.heap == 0);
}

static struct rt_step between(const struct rt_shape *shape, const struct place *p)
{
    const uint32_t left = leader_of(shape, p, 2 * p->heap + 1);
    struct rt_step step = rt_step_new(p->heap == 0 ? RT_SEND : left == RT_NONE ? RT_RECV_KEEP : RT_RECV_KEEP_SEND);
    if (p->heap > 0) step.from = leader_of(shape, p, (p->heap - 1) / 2);
    step.to = left;
    step.to2 = leader_of(shape, p, 2 * p->heap + 2);
    return step;
}

static struct rt_step along_chain(const struct rt_shape *shape, const struct place *p)
{
    const bool last = p->chain == p->grid.locals - 1;
    struct rt_step step = rt_step_new(p->chain == 0 ? RT_SEND : last ? RT_RECV_KEEP : RT_RECV_KEEP_SEND);
    if (p->chain == 0 && p->heap > 0) step.source = RT_OUTPUT;
    if (p->chain > 0) step.from = neighbour(shape, p, p->grid.locals - 1);
    if (!last) step.to = neighbour(shape, p, 1);
    return step;
}

static struct rt_step step_of(const struct rt_shape *shape, uint32_t i)
{
    const struct place p = place_of(shape);
    if (p.chain > 0) return along_chain(shape, &p);
    if (i == 0) return between(shape, &p);
    if (i == 1 && p.grid.locals > 1) return along_chain(shape, &p);
    return rt_own_block(0, 0);
}

const struct rt_algorithm rt_hierarchical_broadcast = {
    .name = "hierarchical", .collective = RINGTREE_BROADCAST, .min_slots = 1, .refuses = rt_grid_refuses,
    .lanes = rt_one, .chunks = rt_one, .steps = steps, .step = step_of,
};
