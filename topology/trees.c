/*
 * Two binary trees over the machines 0 .. n-1 such that a machine that passes on in one is a leaf of the other, so both
 * together use every machine's ports in both directions. In the first, the parent of m is found by m's lowest bit: odd
 * machines are leaves. The second is the first shifted by one machine where n is odd, mirrored where it is even.
 */
#include "search.h"

static uint32_t lowest_bit(uint32_t m)
{
    return m & (~m + 1);
}

/* Machine 0 is the root, and has one child: the largest power of two below n. */
static struct rt_tree first_tree(uint32_t n, uint32_t m)
{
    struct rt_tree tree = { RT_NO_VERTEX, { RT_NO_VERTEX, RT_NO_VERTEX } };
    uint32_t bit = lowest_bit(m);

    if (m == 0) {
        for (bit = 1; bit * 2 < n;)
            bit *= 2;
        if (n > 1)
            tree.child[0] = bit;
        return tree;
    }
    tree.parent = (m ^ bit) | bit << 1;
    if (tree.parent >= n)
        tree.parent = m ^ bit;
    if (bit > 1)
        tree.child[0] = m - bit / 2;
    for (uint32_t half = bit / 2; half > 0; half /= 2)
        if (m + half < n) {
            tree.child[1] = m + half;
            break;
        }
    return tree;
}

static uint32_t moved(uint32_t n, uint32_t m, bool back)
{
    if (m == RT_NO_VERTEX)
        return m;
    if (n % 2 == 0)
        return n - 1 - m;
    return back ? (m + 1) % n : (m + n - 1) % n;
}

struct rt_tree rt_search_tree(uint32_t nmachines, uint32_t channel, uint32_t machine)
{
    if (channel % 2 == 0)
        return first_tree(nmachines, machine);
    struct rt_tree tree = first_tree(nmachines, moved(nmachines, machine, false));
    tree.parent = moved(nmachines, tree.parent, true);
    for (int i = 0; i < 2; i++)
        tree.child[i] = moved(nmachines, tree.child[i], true);
    return tree;
}
