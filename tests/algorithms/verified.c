/*
 * Every algorithm, every number of ranks from 1 to 256, verified exactly.
 *
 * In place is run for all: the memory then differs from out of place only in that INPUT and OUTPUT chunks are one,
 * which adds hazards and takes none away, and INPUT is never written as such; so what holds in place holds out of
 * place. That is tried, not only argued, up to 32 ranks. Two slices in a row, where lanes overlap and scratch is used
 * again, are run up to 64 ranks and at 127 to 129, 255 and 256.
 */
#include "check.h"

#define MOST 256

static bool is_hierarchical(const struct rt_algorithm *a)
{
    return strcmp(a->name, "hierarchical") == 0;
}

static void verify_root(const struct rt_algorithm *a, uint32_t n, uint32_t root, const struct rt_layout *layout)
{
    const bool twice = n <= 64 || (n >= 127 && n <= 129) || n >= 255;
    struct rt_verify_options o = { .nranks = n, .root = root, .layout = layout, .in_place = true,
                                   .slices = twice ? 2 : 1 };
    check_verdict(a, &o, RT_VERDICT_OK);
    o.in_place = false;
    if (n <= 32) check_verdict(a, &o, RT_VERDICT_OK);
}

static void verify_roots(const struct rt_algorithm *a, uint32_t n, const struct rt_layout *layout)
{
    verify_root(a, n, 0, layout);
    if (!rt_collective_has_root(a->collective)) return;
    if (n > 1) verify_root(a, n, n - 1, layout);
    if (n > 2) verify_root(a, n, 1, layout);
    if (n > 3) verify_root(a, n, n / 2, layout);
}

/*
 * Divisors as numbers of nodes, all of them up to 64 ranks, then few and many nodes. Ranks in blocks and dealt out in
 * turn, both up to 64 ranks, then one or the other.
 */
static void verify_layouts(const struct rt_algorithm *a, uint32_t n)
{
    uint32_t node_of[MOST];
    for (uint32_t nodes = 2; nodes <= n; nodes++) {
        if (n % nodes || (n > 64 && nodes > 4 && nodes < n / 2)) continue;
        for (int mixed = 0; mixed < 2; mixed++) {
            if (n > 64 && mixed != (int)(nodes % 2)) continue;
            const struct rt_layout layout = layout_of(node_of, n, nodes, mixed);
            verify_roots(a, n, &layout);
        }
    }
}

static void verify_all(ringtree_collective collective)
{
    for (uint32_t i = 0; i < rt_algorithm_count; i++) {
        const struct rt_algorithm *a = rt_algorithms[i];
        if (a->collective != collective) continue;
        for (uint32_t n = 1; n <= MOST; n++) {
            if (is_hierarchical(a)) verify_layouts(a, n);
            else verify_roots(a, n, NULL);
        }
    }
}

TEST(every_all_reduce_adds_each_rank_once_on_all_ranks)      { verify_all(RINGTREE_ALL_REDUCE); }
TEST(every_reduce_adds_each_rank_once_at_any_root)           { verify_all(RINGTREE_REDUCE); }
TEST(every_broadcast_reaches_all_ranks_from_any_root)        { verify_all(RINGTREE_BROADCAST); }
TEST(every_reduce_scatter_adds_each_rank_once_at_the_owner)  { verify_all(RINGTREE_REDUCE_SCATTER); }
TEST(every_all_gather_brings_all_blocks_to_all_ranks)        { verify_all(RINGTREE_ALL_GATHER); }
TEST(every_all_to_all_brings_each_block_where_it_belongs)    { verify_all(RINGTREE_ALL_TO_ALL); }
TEST(every_gather_brings_all_blocks_to_any_root)             { verify_all(RINGTREE_GATHER); }
TEST(every_scatter_brings_each_block_from_any_root)          { verify_all(RINGTREE_SCATTER); }

/* The last chunks of a short array, or of an array's last slice, are empty: their messages are skipped by both ends. */
TEST(algorithms_hold_when_the_last_chunks_are_empty)
{
    uint32_t node_of[40];
    for (uint32_t i = 0; i < rt_algorithm_count; i++) {
        const struct rt_algorithm *a = rt_algorithms[i];
        if (!rt_collective_cuts(a->collective)) continue;
        for (uint32_t n = is_hierarchical(a) ? 4 : 2; n <= 40; n += is_hierarchical(a) ? 4 : 1) {
            const struct rt_layout layout = layout_of(node_of, n, n % 4 ? 1 : n / 4 > 1 ? n / 4 : 2, n % 8 == 0);
            const struct rt_shape shape = { .nranks = n, .root = 0, .layout = &layout };
            const uint32_t chunks = a->chunks(&shape);
            for (uint32_t full = 1; full < chunks; full += full > 2 && full + 3 < chunks ? 2 : 1) {
                const struct rt_verify_options o = { .nranks = n, .layout = &layout, .in_place = true, .slices = 2,
                                                     .full_chunks = full };
                if (!check_verdict(a, &o, RT_VERDICT_OK)) return;
            }
        }
    }
}

TEST_MAIN
