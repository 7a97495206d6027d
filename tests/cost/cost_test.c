/* The model: what must hold of its times whatever the constants are. */
#include "cost/cost.h"
#include "test.h"
#include <string.h>

static struct rt_costs costs;

static struct rt_sites sites_of(uint32_t ranks, uint32_t nodes)
{
    static uint32_t node_of[4096];
    for (uint32_t r = 0; r < ranks; r++) node_of[r] = r * nodes / ranks;
    return rt_sites_of(ranks, node_of);
}

static double seconds(const struct rt_sites *s, const struct rt_algorithm *a, ringtree_collective c, size_t bytes)
{
    struct rt_prediction p;
    rt_cost_predict(&costs, s, c, a, bytes, 256 << 10, 0, &p);
    return p.seconds;
}

TEST(every_algorithm_is_known_to_the_model)
{
    const struct rt_sites s = sites_of(8, 2);
    struct rt_work work;
    for (uint32_t i = 0; i < rt_algorithm_count; i++) {
        const struct rt_algorithm *a = rt_algorithms[i];
        CHECK_THAT(rt_work_of(&s, a->collective, a->name, 1 << 20, &work), "%s %s",
                   ringtree_collective_name(a->collective), a->name);
        CHECK(rt_cost_way(a->collective, a) < RT_COST_WAYS);
    }
    CHECK(!rt_work_of(&s, RINGTREE_ALL_REDUCE, "no-such", 1 << 20, &work));
    CHECK(work.messages > 0); /* yet there is a general estimate */
}

TEST(times_are_finite_and_over_0_for_all_shapes)
{
    static const uint32_t ranks[] = { 2, 3, 5, 8, 13, 64, 1000, 4096 };
    rt_costs_built_in(&costs);
    for (size_t k = 0; k < sizeof ranks / sizeof *ranks; k++)
        for (uint32_t nodes = 1; nodes <= ranks[k]; nodes *= 4)
            for (uint32_t i = 0; i < rt_algorithm_count; i++)
                for (size_t bytes = 1; bytes <= (size_t)1 << 40; bytes *= 32) {
                    const struct rt_sites s = sites_of(ranks[k], nodes);
                    const double t = seconds(&s, rt_algorithms[i], rt_algorithms[i]->collective, bytes);
                    CHECK_THAT(t > 0 && t < 1e12, "%s of %zu bytes, %u ranks on %u nodes: %g s", rt_algorithms[i]->name,
                               bytes, ranks[k], nodes, t);
                }
}

TEST(times_are_finite_for_nothing_and_for_ranks_dealt_to_nodes_in_turn)
{
    uint32_t node_of[24];
    rt_costs_built_in(&costs);
    for (uint32_t nodes = 1; nodes <= 24; nodes++)
        for (uint32_t i = 0; i < rt_algorithm_count; i++)
            for (size_t bytes = 0; bytes <= 1 << 20; bytes = bytes * 1024 + 1) {
                for (uint32_t r = 0; r < 24; r++) node_of[r] = r % nodes;
                const struct rt_sites s = rt_sites_of(24, node_of);
                const double t = seconds(&s, rt_algorithms[i], rt_algorithms[i]->collective, bytes);
                CHECK_THAT(t > 0 && t < 1e12, "%s %s of %zu bytes, %u nodes: %g s",
                           ringtree_collective_name(rt_algorithms[i]->collective), rt_algorithms[i]->name, bytes, nodes,
                           t);
            }
}

TEST(a_slower_network_makes_every_algorithm_between_nodes_slower)
{
    const struct rt_sites s = sites_of(16, 4);
    rt_costs_built_in(&costs);
    double before[64];
    for (uint32_t i = 0; i < rt_algorithm_count; i++)
        before[i] = seconds(&s, rt_algorithms[i], rt_algorithms[i]->collective, 64 << 20);
    costs.link[RT_LINK_NETWORK].wire_byte *= 100;
    costs.link[RT_LINK_NETWORK].latency *= 100;
    for (uint32_t i = 0; i < rt_algorithm_count; i++)
        CHECK_THAT(seconds(&s, rt_algorithms[i], rt_algorithms[i]->collective, 64 << 20) > 2 * before[i], "%s %s",
                   ringtree_collective_name(rt_algorithms[i]->collective), rt_algorithms[i]->name);
}

TEST(doubling_wins_for_small_and_not_for_large_arrays)
{
    const struct rt_sites s = sites_of(64, 64);
    rt_costs_built_in(&costs);
    const struct rt_algorithm *doubling = rt_algorithm_find(RINGTREE_ALL_REDUCE, "doubling");
    const struct rt_algorithm *ring = rt_algorithm_find(RINGTREE_ALL_REDUCE, "ring");
    CHECK(seconds(&s, doubling, RINGTREE_ALL_REDUCE, 8) < seconds(&s, ring, RINGTREE_ALL_REDUCE, 8) / 2);
    CHECK(seconds(&s, doubling, RINGTREE_ALL_REDUCE, 64 << 20) > 2 * seconds(&s, ring, RINGTREE_ALL_REDUCE, 64 << 20));
}

TEST(a_broadcast_to_two_other_nodes_is_one_hop_of_the_hierarchy_and_two_of_the_chain)
{
    const struct rt_sites s = sites_of(3, 3);
    rt_costs_built_in(&costs);
    rt_costs_uncorrect(&costs);
    const double chain = seconds(&s, rt_algorithm_find(RINGTREE_BROADCAST, "ring"), RINGTREE_BROADCAST, 8);
    const double heap = seconds(&s, rt_algorithm_find(RINGTREE_BROADCAST, "hierarchical"), RINGTREE_BROADCAST, 8);
    CHECK_THAT(heap < 0.7 * chain, "%g beside %g", heap, chain);
}

TEST(doubling_among_three_nodes_is_three_hops_between_them)
{
    const struct rt_sites s = sites_of(3, 3);
    struct rt_work work;
    CHECK(rt_work_of(&s, RINGTREE_ALL_REDUCE, "doubling", 8, &work));
    CHECK_EQ(work.between, 3);
    CHECK_EQ(work.inside, 0);
}

TEST(connections_are_as_many_as_pay)
{
    const struct rt_sites s = sites_of(4, 4);
    double t[RT_COST_SPREADS];
    rt_costs_built_in(&costs);
    CHECK_EQ(rt_cost_connections(&costs, &s, 256 << 10, t), 1); /* nobody measured that one is narrow */
    for (uint32_t i = 1; i < RT_COST_SPREADS; i++) CHECK(t[i] >= t[i - 1]);
    rt_costs_narrow(&costs, RT_LINK_NETWORK, 4.1); /* one takes 4 times as long */
    CHECK_EQ(rt_cost_connections(&costs, &s, 256 << 10, t), 4);
    CHECK(t[0] > 1.8 * t[1] && t[1] > 1.8 * t[2]);
    CHECK_EQ(rt_cost_connections(&costs, &s, RT_COST_SPREAD, NULL), 1); /* slices go over one each */
    rt_costs_narrow(&costs, RT_LINK_NETWORK, 1.1);
    CHECK_EQ(rt_cost_connections(&costs, &s, 256 << 10, NULL), 1);
}

TEST(a_call_of_short_slices_takes_one_connection)
{
    struct rt_sites s = sites_of(4, 4);
    struct rt_prediction p;
    const struct rt_algorithm *ring = rt_algorithm_find(RINGTREE_ALL_REDUCE, "ring");
    rt_costs_built_in(&costs);
    s.connections = 4;
    rt_cost_predict(&costs, &s, RINGTREE_ALL_REDUCE, ring, 64 << 10, 256 << 10, 0, &p);
    CHECK_EQ(p.connections, 1);
    rt_cost_predict(&costs, &s, RINGTREE_ALL_REDUCE, ring, 4 << 20, 256 << 10, 0, &p);
    CHECK_EQ(p.connections, 4);
    rt_cost_predict(&costs, &s, RINGTREE_ALL_REDUCE, ring, 4 << 20, 256 << 10, 32 << 10, &p); /* forced */
    CHECK_EQ(p.connections, 1);
}

TEST(the_hierarchy_wins_where_many_ranks_share_a_slow_wire)
{
    const struct rt_sites s = sites_of(64, 8);
    rt_costs_built_in(&costs);
    costs.link[RT_LINK_NETWORK].wire_byte = 8e-9; /* 1 Gbit/s */
    const double best = seconds(&s, rt_algorithm_find(RINGTREE_ALL_REDUCE, "hierarchical"), RINGTREE_ALL_REDUCE,
                                64 << 20);
    CHECK(best < seconds(&s, rt_algorithm_find(RINGTREE_ALL_REDUCE, "direct"), RINGTREE_ALL_REDUCE, 64 << 20) / 2);
    CHECK(best < seconds(&s, rt_algorithm_find(RINGTREE_ALL_REDUCE, "doubling"), RINGTREE_ALL_REDUCE, 64 << 20) / 2);
}

/* The way of all_reduce of the least time. */
static const char *best_of(const struct rt_sites *s, size_t bytes)
{
    const char *best = "";
    double least = 0;
    for (uint32_t i = 0; i < rt_algorithm_count; i++) {
        if (rt_algorithms[i]->collective != RINGTREE_ALL_REDUCE) continue;
        const double t = seconds(s, rt_algorithms[i], RINGTREE_ALL_REDUCE, bytes);
        if (least > 0 && t >= least) continue;
        least = t;
        best = rt_algorithms[i]->name;
    }
    return best;
}

static double ratio(const struct rt_sites *s, const char *name, const char *other, size_t bytes)
{
    return seconds(s, rt_algorithm_find(RINGTREE_ALL_REDUCE, name), RINGTREE_ALL_REDUCE, bytes) /
           seconds(s, rt_algorithm_find(RINGTREE_ALL_REDUCE, other), RINGTREE_ALL_REDUCE, bytes);
}

/* As measured between two namespaces joined by veth: 3.5 us, 6.7 GB/s. */
TEST(between_two_near_machines_an_array_is_sent_whole_only_while_it_is_short)
{
    const struct rt_sites s = sites_of(2, 2);
    const struct rt_link_measured veth = { 3.5e-6, 0.15e-9 };
    rt_costs_built_in(&costs);
    rt_costs_adapt(&costs, RT_LINK_NETWORK, &veth);
    for (size_t bytes = 4; bytes <= 16 << 10; bytes *= 4)
        CHECK_THAT(!strcmp(best_of(&s, bytes), "doubling"), "%zu bytes: %s", bytes, best_of(&s, bytes));
    for (size_t bytes = 256 << 10; bytes <= 64 << 20; bytes *= 4) {
        CHECK_THAT(ratio(&s, "doubling", "ring", bytes) > 1.01, "%zu bytes: %g", bytes,
                   ratio(&s, "doubling", "ring", bytes));
        CHECK_THAT(ratio(&s, best_of(&s, bytes), "ring", bytes) > 0.96, "%zu bytes: %s", bytes, best_of(&s, bytes));
        CHECK_THAT(ratio(&s, "halving", "ring", bytes) < 1.02, "%zu bytes: they send the same", bytes);
    }
}

/* All of the 2 (n - 1) / n array that each rank has to send and to receive goes out and in at the same time. */
TEST(on_a_slow_wire_time_is_that_of_the_bytes_that_leave_a_machine)
{
    const struct rt_sites s = sites_of(4, 4), two = sites_of(2, 2);
    const struct rt_link_measured gigabit = { 20e-6, 8e-9 };
    const size_t bytes = 64 << 20;
    rt_costs_built_in(&costs);
    rt_costs_adapt(&costs, RT_LINK_NETWORK, &gigabit);
    CHECK_THAT(!strcmp(best_of(&s, bytes), "ring"), "%zu bytes: %s", bytes, best_of(&s, bytes));
    const double wire = 1.5 * (double)bytes * costs.link[RT_LINK_NETWORK].wire_byte;
    const double took = seconds(&s, rt_algorithm_find(RINGTREE_ALL_REDUCE, "ring"), RINGTREE_ALL_REDUCE, bytes);
    CHECK_THAT(took > wire && took < 1.05 * wire, "%g s, the wire takes %g", took, wire);
    CHECK_THAT(ratio(&s, "halving", "ring", bytes) < 1.03, "%g", ratio(&s, "halving", "ring", bytes));
    CHECK_THAT(ratio(&s, "direct", "ring", bytes) > 1.02, "%g", ratio(&s, "direct", "ring", bytes));
    CHECK_THAT(ratio(&s, "doubling", "ring", bytes) > 1.3, "%g", ratio(&s, "doubling", "ring", bytes));
    CHECK_THAT(ratio(&two, "halving", "ring", bytes) < 1.03, "%g", ratio(&two, "halving", "ring", bytes));
    CHECK_THAT(ratio(&two, "tree", "ring", bytes) < 1.1, "%g", ratio(&two, "tree", "ring", bytes));
}

TEST(what_was_fitted_within_a_machine_says_nothing_of_a_network)
{
    struct rt_sites s = sites_of(4, 4);
    rt_costs_built_in(&costs);
    const struct rt_algorithm *ring = rt_algorithm_find(RINGTREE_ALL_REDUCE, "ring");
    const uint32_t way = rt_cost_way(RINGTREE_ALL_REDUCE, ring);
    CHECK(rt_cost_correction(&costs, &s, way, 4096) == 1);
    s.between = RT_LINK_LOOPBACK;
    CHECK(rt_cost_correction(&costs, &s, way, 4096) != 1);
}

TEST(a_near_network_does_not_make_cores_faster)
{
    const struct rt_link_measured near = { 7.5e-6, 0.8e-9 }, nearer = { 0.5e-6, 0.8e-9 };
    rt_costs_built_in(&costs);
    const double message = costs.link[RT_LINK_NETWORK].message;
    rt_costs_adapt(&costs, RT_LINK_NETWORK, &near);
    CHECK(costs.link[RT_LINK_NETWORK].message == message);
    rt_costs_adapt(&costs, RT_LINK_NETWORK, &nearer);
    CHECK(costs.link[RT_LINK_NETWORK].message == costs.link[RT_LINK_NETWORK].latency);
}

static double latency_beside(double reference, double measured)
{
    rt_costs_built_in(&costs);
    costs.reference[RT_LINK_LOOPBACK] = (struct rt_link_measured){ reference, reference ? 1e-10 : 0 };
    const double before = costs.link[RT_LINK_LOOPBACK].latency;
    rt_costs_adapt(&costs, RT_LINK_LOOPBACK, &(struct rt_link_measured){ measured ? measured : 1.3 * before, 1e-10 });
    return costs.link[RT_LINK_LOOPBACK].latency / before;
}

TEST(a_measurement_near_the_tables_reference_changes_nothing_and_one_beyond_does)
{
    CHECK(latency_beside(1e-6, 1.3e-6) == 1);
    CHECK(latency_beside(1e-6, 0.75e-6) == 1);
    CHECK(latency_beside(1e-6, 1.5e-6) > 1.41);
    CHECK(latency_beside(1e-6, 0.6e-6) < 0.71);
    CHECK(latency_beside(0, 0) > 1.41); /* no reference: all that is known is what was measured */
}

TEST(a_correction_counts_where_it_stands_and_half_way_to_its_neighbour)
{
    const struct rt_sites s = sites_of(4, 1);
    const struct rt_algorithm *ring = rt_algorithm_find(RINGTREE_ALL_REDUCE, "ring");
    rt_costs_built_in(&costs);
    const uint32_t way = rt_cost_way(RINGTREE_ALL_REDUCE, ring);
    for (uint32_t n = 0; n < RT_COST_RANKS; n++)
        for (uint32_t b = 0; b < RT_COST_SIZES; b++) costs.correction[RT_COST_SHM][way][n][b] = b == 3 ? 3 : 1;
    CHECK(rt_cost_correction(&costs, &s, way, 4096) == 3);
    CHECK(rt_cost_correction(&costs, &s, way, 512) == 1);
    CHECK(rt_cost_correction(&costs, &s, way, 1 << 30) == 1);
    const double between = rt_cost_correction(&costs, &s, way, 1448);
    CHECK_THAT(between > 1.9 && between < 2.1, "%g", between);
    CHECK(rt_cost_correction(&costs, &s, RT_COST_WAYS, 4096) == 1);
}

TEST(places_are_counted)
{
    static const uint32_t turns[] = { 0, 1, 0, 1, 0, 1 };
    struct rt_sites s = rt_sites_of(6, turns);
    CHECK(s.nodes == 2 && s.local == 3 && !s.blocked && s.crossing == 3);
    s = sites_of(6, 2);
    CHECK(s.nodes == 2 && s.local == 3 && s.blocked && s.crossing == 1);
    s = sites_of(6, 1);
    CHECK(s.nodes == 1 && s.local == 6 && s.crossing == 0);
}

TEST_MAIN
