/* The table as text: what is written is read again, and nothing else is believed. */
#include "cost/table.h"
#include "test.h"

static struct rt_costs costs, again;
static struct rt_error error;
static char text[RT_COST_TEXT_MOST];

static size_t write_text(const struct rt_costs *table)
{
    FILE *out = fmemopen(text, sizeof text, "w");
    CHECK(out && rt_costs_write(table, true, out));
    const long length = out ? ftell(out) : 0;
    if (out) fclose(out);
    return length > 0 ? (size_t)length : 0;
}

static ringtree_status read_text(struct rt_costs *table, const char *lines)
{
    char whole[4096];
    const int n = snprintf(whole, sizeof whole, "ringtree costs 1\n%s", lines);
    return rt_costs_read(table, whole, (size_t)n, "test", &error);
}

TEST(the_built_in_table_is_read_whole)
{
    rt_costs_built_in(&costs);
    for (int kind = 0; kind < RT_LINK_KINDS; kind++) CHECK(costs.link[kind].latency > 0);
    CHECK(costs.exchange.latency > 0 && costs.add > 0);
    const struct rt_algorithm *ring = rt_algorithm_find(RINGTREE_ALL_REDUCE, "ring");
    CHECK(costs.correction[RT_COST_TCP][rt_cost_way(RINGTREE_ALL_REDUCE, ring)][0][0] != 1);
}

TEST(a_table_that_is_written_and_read_is_the_same_to_the_bit)
{
    rt_costs_built_in(&costs);
    costs.link[RT_LINK_NETWORK].flow_byte = 16e-10;
    const size_t length = write_text(&costs);
    memset(&again, 0, sizeof again);
    for (size_t i = 0; i < sizeof again.correction / sizeof(float); i++) ((float *)again.correction)[i] = 1;
    CHECK_EQ(rt_costs_read(&again, text, length, "test", &error), RINGTREE_OK);
    CHECK_EQ(rt_costs_hash(&again), rt_costs_hash(&costs));
    CHECK(memcmp(&again, &costs, sizeof costs) == 0);
    again.add += 1e-15;
    CHECK(rt_costs_hash(&again) != rt_costs_hash(&costs));
}

TEST(what_is_wrong_changes_nothing_and_is_told_with_its_line)
{
    static const char *const wrong[] = {
        "add 1\n", "add 1\nadd x\nend\n", "add -1\nend\n", "add 1.5\nend\n", "add 99999999999999999999999\nend\n",
        "add 1 2\nend\n", "add\nend\n", "link nowhere 1 1 1 1 1\nend\n", "link shm 1 1 1 1\nend\n",
        "link shm 0 1 1 1 1\nend\n", "exchange 1 1 1 1 1 1 1\nend\n", "exchange 1 1 1 0 1 1 1 1\nend\n",
        "correction udp all_reduce ring 2 1 1 1 1 1 1 1 1 1\nend\n",
        "correction tcp all_reduce ring 3 1 1 1 1 1 1 1 1 1\nend\n",
        "correction tcp all_reduce ring 2 1 1 1 1 1 1 1 1\nend\n",
        "correction tcp all_reduce ring 2 0 1 1 1 1 1 1 1 1\nend\n",
        "correction tcp all_reduce a-name-that-is-much-too-long 2 1 1 1 1 1 1 1 1 1\nend\n",
        "flow network\nend\n", "flow network -1\nend\n", "flow network 1 1\nend\n", "flow nowhere 1\nend\n",
        "end\nadd 1\n", "end of it\n", "surprise\nend\n",
    };
    rt_costs_built_in(&costs);
    const uint64_t before = rt_costs_hash(&costs);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_THAT(read_text(&costs, wrong[i]) == RINGTREE_INVALID_SETTING, "%s", wrong[i]);
        CHECK_HAS(error.text, "test");
        CHECK_EQ(rt_costs_hash(&costs), before);
    }
    CHECK_EQ(rt_costs_read(&costs, "ringtree costs 2\nend\n", 21, "test", &error), RINGTREE_INVALID_SETTING);
    CHECK_EQ(rt_costs_read(&costs, "", 0, "test", &error), RINGTREE_INVALID_SETTING);
    CHECK_EQ(read_text(&costs, "# fine\nadd 7000\nend\n"), RINGTREE_OK);
    CHECK(costs.add > 6.9e-12 && costs.add < 7.1e-12);
}

TEST(every_beginning_of_a_table_is_refused)
{
    rt_costs_built_in(&costs);
    const size_t length = write_text(&costs);
    for (size_t cut = 0; cut + 1 < length; cut++) {
        char *part = malloc(cut + 1); /* so that reading beyond is seen */
        memcpy(part, text, cut);
        if (rt_costs_read(&costs, part, cut, "test", &error) == RINGTREE_OK) TEST_FAIL("cut at %zu", cut);
        free(part);
    }
}

TEST(an_algorithm_of_another_build_is_passed_over)
{
    rt_costs_built_in(&costs);
    const uint64_t before = rt_costs_hash(&costs);
    CHECK_EQ(read_text(&costs, "correction tcp all_reduce future 2 1 1 1 1 1 1 1 1 1\nend\n"), RINGTREE_OK);
    CHECK_EQ(rt_costs_hash(&costs), before);
}

TEST_MAIN
