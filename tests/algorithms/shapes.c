/* What algorithms promise beside their steps: names, refusals, slots, and something for every collective. */
#include "check.h"

static const ringtree_collective with_algorithms[] = {
    RINGTREE_ALL_REDUCE, RINGTREE_REDUCE, RINGTREE_BROADCAST, RINGTREE_REDUCE_SCATTER,
    RINGTREE_ALL_GATHER, RINGTREE_ALL_TO_ALL, RINGTREE_GATHER, RINGTREE_SCATTER,
};

TEST(every_collective_has_an_algorithm_for_any_number_of_ranks)
{
    for (size_t c = 0; c < sizeof with_algorithms / sizeof *with_algorithms; c++) {
        uint32_t unconditional = 0;
        for (uint32_t i = 0; i < rt_algorithm_count; i++)
            unconditional += rt_algorithms[i]->collective == with_algorithms[c] && !rt_algorithms[i]->refuses;
        CHECK_THAT(unconditional > 0, "%s", ringtree_collective_name(with_algorithms[c]));
    }
}

TEST(an_algorithm_is_found_by_collective_and_name)
{
    for (uint32_t i = 0; i < rt_algorithm_count; i++)
        CHECK(rt_algorithm_find(rt_algorithms[i]->collective, rt_algorithms[i]->name) == rt_algorithms[i]);
    CHECK(!rt_algorithm_find(RINGTREE_ALL_REDUCE, "pairwise"));
    CHECK(!rt_algorithm_find(RINGTREE_BARRIER, "ring"));
    CHECK(!rt_algorithm_find(RINGTREE_ALL_REDUCE, ""));
}

TEST(hierarchical_refuses_one_node_and_uneven_nodes_with_a_reason)
{
    const uint32_t one[4] = { 0, 0, 0, 0 }, uneven[4] = { 0, 0, 1, 2 }, uneven_sum[6] = { 0, 0, 1, 2, 2, 2 };
    const struct rt_algorithm *a = rt_algorithm_find(RINGTREE_ALL_REDUCE, "hierarchical");
    const struct rt_layout single = { 1, one }, odd = { 3, uneven }, odd_sum = { 3, uneven_sum };
    struct rt_shape shape = { .nranks = 4, .root = RT_NONE };
    CHECK_HAS(a->refuses(&shape), "two nodes");
    shape.layout = &single;
    CHECK_HAS(a->refuses(&shape), "two nodes");
    shape.layout = &odd;
    CHECK_HAS(a->refuses(&shape), "same number of ranks");
    shape.nranks = 6;
    shape.layout = &odd_sum; /* the mean is right, the nodes are not */
    CHECK_HAS(a->refuses(&shape), "same number of ranks");
    const struct rt_verify_options o = { .nranks = 6, .layout = &odd_sum };
    check_verdict(a, &o, RT_VERDICT_REFUSED);
}

TEST(a_fused_ring_with_one_slot_deadlocks)
{
    const struct rt_verify_options one = { .nranks = 8, .slots = 1 }, two = { .nranks = 8, .slots = 2 };
    check_verdict(rt_algorithm_find(RINGTREE_ALL_REDUCE, "ring"), &one, RT_VERDICT_DEADLOCK);
    check_verdict(rt_algorithm_find(RINGTREE_ALL_REDUCE, "ring"), &two, RT_VERDICT_OK);
    check_verdict(rt_algorithm_find(RINGTREE_REDUCE_SCATTER, "ring"), &one, RT_VERDICT_DEADLOCK);
}

/* min_slots is the least: with one slot fewer some number of ranks up to 8 hangs. */
TEST(min_slots_is_not_more_than_needed)
{
    uint32_t node_of[16];
    const struct rt_layout layout = layout_of(node_of, 16, 4, false);
    for (uint32_t i = 0; i < rt_algorithm_count; i++) {
        const struct rt_algorithm *a = rt_algorithms[i];
        if (a->min_slots == 1) continue;
        const struct rt_verify_options o = { .nranks = 16, .layout = &layout, .slots = a->min_slots - 1, .slices = 2 };
        check_verdict(a, &o, RT_VERDICT_DEADLOCK);
    }
}

TEST(more_slots_than_needed_do_no_harm)
{
    uint32_t node_of[12];
    const struct rt_layout layout = layout_of(node_of, 12, 3, true);
    for (uint32_t i = 0; i < rt_algorithm_count; i++) {
        const struct rt_verify_options o = { .nranks = 12, .root = 5, .layout = &layout, .slots = 64, .slices = 3,
                                             .in_place = true };
        check_verdict(rt_algorithms[i], &o, RT_VERDICT_OK);
    }
}

TEST(both_trees_together_give_no_rank_more_than_one_array_to_send)
{
    const struct rt_algorithm *a = rt_algorithm_find(RINGTREE_ALL_REDUCE, "tree");
    for (uint32_t n = 2; n <= 256; n++) {
        for (uint32_t r = 0; r < n; r++) {
            uint32_t children = 0;
            for (uint32_t lane = 1; lane < 4; lane += 2) {
                const struct rt_shape shape = { .nranks = n, .rank = r, .root = RT_NONE, .lane = lane };
                const struct rt_step down = a->step(&shape, 0);
                children += (down.to != RT_NONE) + (down.to2 != RT_NONE);
            }
            CHECK_THAT(children <= 3, "rank %u of %u has %u children", r, n, children);
        }
    }
}

TEST(a_run_over_the_bound_of_steps_is_not_begun)
{
    const struct rt_verify_options o = { .nranks = 100, .most_steps = 1000 };
    check_verdict(rt_algorithm_find(RINGTREE_ALL_REDUCE, "ring"), &o, RT_VERDICT_TOO_LARGE);
}

TEST(wrong_options_are_refused)
{
    const struct rt_verify_options none = { .nranks = 0 }, beyond = { .nranks = 4, .root = 4 };
    check_verdict(rt_algorithm_find(RINGTREE_BROADCAST, "tree"), &none, RT_VERDICT_SHAPE);
    check_verdict(rt_algorithm_find(RINGTREE_BROADCAST, "tree"), &beyond, RT_VERDICT_SHAPE);
}

TEST_MAIN
