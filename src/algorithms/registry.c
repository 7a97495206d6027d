/* All algorithms. A new one is added here and nowhere else; within a collective the order is that of printed lists. */
#include "step.h"
#include <string.h>

extern const struct rt_algorithm rt_ring_all_reduce, rt_tree_all_reduce, rt_halving_all_reduce,
    rt_doubling_all_reduce, rt_direct_all_reduce, rt_hierarchical_all_reduce;
extern const struct rt_algorithm rt_ring_reduce, rt_tree_reduce;
extern const struct rt_algorithm rt_ring_broadcast, rt_tree_broadcast, rt_hierarchical_broadcast;
extern const struct rt_algorithm rt_ring_reduce_scatter, rt_bruck_reduce_scatter, rt_direct_reduce_scatter,
    rt_hierarchical_reduce_scatter;
extern const struct rt_algorithm rt_ring_all_gather, rt_bruck_all_gather, rt_direct_all_gather,
    rt_hierarchical_all_gather;
extern const struct rt_algorithm rt_pairwise_all_to_all, rt_bruck_all_to_all;
extern const struct rt_algorithm rt_binomial_gather, rt_linear_gather;
extern const struct rt_algorithm rt_binomial_scatter, rt_linear_scatter;

const struct rt_algorithm *const rt_algorithms[] = {
    &rt_ring_all_reduce, &rt_tree_all_reduce, &rt_halving_all_reduce, &rt_doubling_all_reduce, &rt_direct_all_reduce,
    &rt_hierarchical_all_reduce,
    &rt_ring_reduce, &rt_tree_reduce,
    &rt_ring_broadcast, &rt_tree_broadcast, &rt_hierarchical_broadcast,
    &rt_ring_reduce_scatter, &rt_bruck_reduce_scatter, &rt_direct_reduce_scatter, &rt_hierarchical_reduce_scatter,
    &rt_ring_all_gather, &rt_bruck_all_gather, &rt_direct_all_gather, &rt_hierarchical_all_gather,
    &rt_pairwise_all_to_all, &rt_bruck_all_to_all,
    &rt_binomial_gather, &rt_linear_gather,
    &rt_binomial_scatter, &rt_linear_scatter,
};
const uint32_t rt_algorithm_count = sizeof rt_algorithms / sizeof rt_algorithms[0];

const struct rt_algorithm *rt_algorithm_find(ringtree_collective collective, const char *name)
{
    for (uint32_t i = 0; i < rt_algorithm_count; i++)
        if (rt_algorithms[i]->collective == collective && strcmp(rt_algorithms[i]->name, name) == 0)
            return rt_algorithms[i];
    return NULL;
}
