/*
 * Thousands of ranks, by fingerprint. Structure (slots, order, spans, leftovers) is run whole; values are followed for
 * 16 chunks. A case of over 4.5e6 steps is left to `ringtree-plan --verify` on request: rings, direct and pairwise
 * algorithms have about n*n steps, so they stop at 1,000 ranks here, but for one ring of 4,096.
 */
#include "check.h"

#define MOST_STEPS 4500000

static uint32_t verified, left_out;

static void verify_large(const struct rt_algorithm *a, uint32_t n, uint32_t root, uint32_t followed)
{
    struct rt_report report;
    const struct rt_verify_options o = { .nranks = n, .root = root, .in_place = true, .most_steps = MOST_STEPS,
                                         .followed = a->collective == RINGTREE_ALL_TO_ALL ? 0 : followed };
    rt_verify(a, &o, &report);
    if (report.verdict == RT_VERDICT_TOO_LARGE) left_out++;
    else verified++;
    CHECK_THAT(report.verdict == RT_VERDICT_OK || report.verdict == RT_VERDICT_TOO_LARGE, "%s %s, %u ranks: %s (%s)",
               ringtree_collective_name(a->collective), a->name, n, rt_verdict_name(report.verdict), report.text);
}

static void verify_all(uint32_t n)
{
    verified = left_out = 0;
    for (uint32_t i = 0; i < rt_algorithm_count; i++)
        if (!rt_algorithms[i]->refuses) verify_large(rt_algorithms[i], n, n / 3, 16);
    printf("%u ranks: %u algorithms verified, %u over the bound\n", n, verified, left_out);
}

TEST(algorithms_hold_for_1000_ranks)
{
    verify_all(1000);
    CHECK_EQ(left_out, 0);
}

TEST(algorithms_hold_for_4096_ranks)
{
    verify_all(4096);
    CHECK(verified >= 10);
}

TEST(a_ring_holds_for_4096_ranks)
{
    const struct rt_verify_options o = { .nranks = 4096, .in_place = true, .followed = 8 };
    check_verdict(rt_algorithm_find(RINGTREE_ALL_REDUCE, "ring"), &o, RT_VERDICT_OK);
}

TEST(algorithms_hold_for_16384_ranks)
{
    verify_all(16384);
    CHECK(verified >= 10);
}

TEST(hierarchical_holds_for_1000_ranks_on_125_nodes)
{
    uint32_t node_of[1000];
    const struct rt_layout layout = layout_of(node_of, 1000, 125, false);
    for (uint32_t i = 0; i < rt_algorithm_count; i++) {
        const struct rt_algorithm *a = rt_algorithms[i];
        if (!a->refuses) continue;
        const struct rt_verify_options o = { .nranks = 1000, .root = 77, .layout = &layout, .in_place = true,
                                             .followed = 16 };
        check_verdict(a, &o, RT_VERDICT_OK);
    }
}

/* The same with a wrong step in a chunk that is followed: fingerprints must show it. */
static struct rt_step twice_step(const struct rt_shape *shape, uint32_t i)
{
    const struct rt_algorithm *ring = rt_algorithm_find(RINGTREE_ALL_REDUCE, "ring");
    struct rt_step step = ring->step(shape, i);
    if (shape->rank == 5 && step.verb == RT_RECV_REDUCE_SEND && step.source_chunk == 0) step.verb = RT_RECV_KEEP_SEND;
    return step;
}

TEST(a_fingerprint_shows_a_missing_contribution_among_1000)
{
    struct rt_algorithm wrong = *rt_algorithm_find(RINGTREE_ALL_REDUCE, "ring");
    wrong.step = twice_step;
    const struct rt_verify_options o = { .nranks = 1000, .followed = 16 };
    check_verdict(&wrong, &o, RT_VERDICT_FINAL);
}

TEST_MAIN
