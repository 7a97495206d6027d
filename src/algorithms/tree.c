/*
 * Double binary trees (Sanders, Speck, Traff: "Two-tree algorithms for full bandwidth broadcast, reduction and scan").
 * The array has two chunks; tree t carries chunk t.
 *
 * Places 1..m of tree 0 form an in-order binary tree: a place with lowest set bit b stands b's height above the leaves,
 * so odd places are leaves and even ones are inner. Where m cuts the tree off, a node whose parent is missing hangs on
 * the next ancestor that exists. Tree 1 is the same on mirrored places (m even) or on places shifted by one (m odd), so
 * that a leaf of one tree is an inner node of the other, but for one rank when m is odd: nobody sends more than the
 * array's length.
 *
 * all_reduce: m = n. Lanes 2t and 2t+1 are tree t's up and down phase: a straight-line program each, so slices follow
 * one another through both. The root's down lane waits for its up lane.
 *   In place: a leaf lends INPUT to its parent, and the value that overwrites it comes down from the root, which has it
 *   by way of that parent. Inner nodes send what they have just added, from no buffer.
 * reduce, broadcast: m = n-1, the root stands above both trees' tops, lane t is tree t.
 * Every lane's messages run up or down a tree, without a cycle: one slot is enough.
 */
#include "formula.h"

struct node {
    uint32_t parent, left, right; /* ranks or RT_NONE */
};

static uint32_t low_bit(uint32_t x)
{
    return x & (~x + 1);
}

static uint32_t parent_of(uint32_t x, uint32_t m)
{
    for (uint32_t bit = low_bit(x); bit <= m; bit *= 2) {
        const uint32_t parent = (x ^ bit) | 2 * bit;
        if (parent <= m) return parent;
        x = parent;
    }
    return RT_NONE;
}

static uint32_t left_of(uint32_t x)
{
    return low_bit(x) == 1 ? RT_NONE : x - low_bit(x) / 2;
}

static uint32_t right_of(uint32_t x, uint32_t m)
{
    if (low_bit(x) == 1 || x == m) return RT_NONE;
    const uint32_t rest = rt_power_below(m - x), half = low_bit(x) / 2;
    return x + (rest < half ? rest : half);
}

/* Places and members are 1..m; member k has place k in tree 0. Both maps are their own kind of inverse. */
static uint32_t place_of(uint32_t member, uint32_t m, uint32_t tree)
{
    if (tree == 0) return member;
    if (m % 2 == 0) return m + 1 - member;
    return member == 1 ? m : member - 1;
}

static uint32_t member_at(uint32_t place, uint32_t m, uint32_t tree)
{
    if (place == RT_NONE || tree == 0) return place;
    if (m % 2 == 0) return m + 1 - place;
    return place == m ? 1 : place + 1;
}

/* all_reduce: rank r is member r+1 of n. */
static struct node all_reduce_node(const struct rt_shape *shape, uint32_t tree)
{
    const uint32_t m = shape->nranks, x = place_of(shape->rank + 1, m, tree);
    const uint32_t at[3] = { parent_of(x, m), left_of(x), right_of(x, m) };
    uint32_t rank[3];
    for (uint32_t i = 0; i < 3; i++) rank[i] = at[i] == RT_NONE ? RT_NONE : member_at(at[i], m, tree) - 1;
    return (struct node){ rank[0], rank[1], rank[2] };
}

/* reduce, broadcast: member k is rank root+k; the root has the tree's top as its only child. */
static struct node rooted_node(const struct rt_shape *shape, uint32_t tree)
{
    const uint32_t n = shape->nranks, m = n - 1, member = (shape->rank + n - shape->root) % n;
    if (member == 0)
        return (struct node){ RT_NONE, (shape->root + member_at(rt_power_below(m), m, tree)) % n, RT_NONE };
    const uint32_t x = place_of(member, m, tree);
    const uint32_t at[3] = { parent_of(x, m), left_of(x), right_of(x, m) };
    uint32_t rank[3];
    for (uint32_t i = 0; i < 3; i++)
        rank[i] = at[i] == RT_NONE ? RT_NONE : (shape->root + member_at(at[i], m, tree)) % n;
    if (rank[0] == RT_NONE) rank[0] = shape->root;
    return (struct node){ rank[0], rank[1], rank[2] };
}

static struct rt_step up(const struct node *node, uint32_t chunk)
{
    const bool leaf = node->left == RT_NONE, top = node->parent == RT_NONE;
    struct rt_step step = rt_step_new(leaf ? RT_SEND : top ? RT_RECV_REDUCE_KEEP : RT_RECV_REDUCE_SEND);
    step.source_chunk = step.target_chunk = chunk;
    step.from = node->left;
    step.from2 = node->right;
    step.to = node->parent;
    if (top) step.flags = RT_FINAL;
    return step;
}

static struct rt_step down(const struct node *node, uint32_t chunk)
{
    const bool leaf = node->left == RT_NONE, top = node->parent == RT_NONE;
    struct rt_step step = rt_step_new(leaf ? RT_RECV_KEEP : top ? RT_SEND : RT_RECV_KEEP_SEND);
    step.source_chunk = step.target_chunk = chunk;
    step.from = node->parent;
    step.to = node->left;
    step.to2 = node->right;
    return step;
}

static uint32_t two_unless_alone(const struct rt_shape *shape)
{
    return shape->nranks == 1 ? 1 : 2;
}

static uint32_t all_reduce_lanes(const struct rt_shape *shape)
{
    return shape->nranks == 1 ? 1 : 4;
}

static struct rt_step all_reduce_step(const struct rt_shape *shape, uint32_t i)
{
    (void)i;
    if (shape->nranks == 1) return rt_alone();
    const uint32_t tree = shape->lane / 2;
    const struct node node = all_reduce_node(shape, tree);
    if (shape->lane % 2 == 0) return up(&node, tree);
    struct rt_step step = down(&node, tree);
    if (node.parent == RT_NONE) {
        step.source = RT_OUTPUT;
        step.wait_lane = shape->lane - 1;
    }
    return step;
}

static struct rt_step reduce_step(const struct rt_shape *shape, uint32_t i)
{
    (void)i;
    if (shape->nranks == 1) return rt_alone();
    const struct node node = rooted_node(shape, shape->lane);
    return up(&node, shape->lane);
}

/* The root sends, then copies what it keeps itself. */
static uint32_t broadcast_steps(const struct rt_shape *shape)
{
    return shape->rank == shape->root && shape->nranks > 1 ? 2 : 1;
}

static struct rt_step broadcast_step(const struct rt_shape *shape, uint32_t i)
{
    if (shape->nranks == 1 || i == 1) return rt_own_block(shape->lane, shape->lane);
    const struct node node = rooted_node(shape, shape->lane);
    return down(&node, shape->lane);
}

const struct rt_algorithm rt_tree_all_reduce = {
    .name = "tree", .collective = RINGTREE_ALL_REDUCE, .min_slots = 1,
    .lanes = all_reduce_lanes, .chunks = two_unless_alone, .steps = rt_one, .step = all_reduce_step,
};
const struct rt_algorithm rt_tree_reduce = {
    .name = "tree", .collective = RINGTREE_REDUCE, .min_slots = 1,
    .lanes = two_unless_alone, .chunks = two_unless_alone, .steps = rt_one, .step = reduce_step,
};
const struct rt_algorithm rt_tree_broadcast = {
    .name = "tree", .collective = RINGTREE_BROADCAST, .min_slots = 1,
    .lanes = two_unless_alone, .chunks = two_unless_alone, .steps = broadcast_steps, .step = broadcast_step,
};
