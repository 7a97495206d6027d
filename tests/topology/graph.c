/* The graph of a machine: building, refusing, finding, and what unknown links are assumed to be. */
#include "test.h"
#include "topology/graph.h"
#include "topology/rates.h"

static struct rt_error error;

/* A machine with one switch, of unknown uplink, and two devices below it. */
static struct rt_graph *small(uint64_t first, uint64_t second)
{
    struct rt_graph *g = rt_graph_new();
    const uint32_t machine = rt_graph_add(g, RT_MACHINE, 0), numa = rt_graph_add(g, RT_NUMA, machine);
    const uint32_t bridge = rt_graph_add(g, RT_PCI_SWITCH, numa);

    rt_graph_connect(g, RT_PCI_LINK, numa, bridge);
    for (int i = 0; i < 2; i++) {
        const uint32_t gpu = rt_graph_add(g, RT_GPU, bridge);
        struct rt_edge *edge = rt_graph_connect(g, RT_PCI_LINK, bridge, gpu);
        edge->generation = 5;
        edge->width = 16;
        g->vertex[gpu].busid = i ? second : first;
        g->vertex[gpu].number = i;
    }
    return g;
}

TEST(a_finished_graph_knows_edges_children_and_bus_ids)
{
    struct rt_graph *g = small(0x0f00, 0x1f00);

    CHECK_EQ(rt_graph_finish(g, &error), RINGTREE_OK);
    CHECK_EQ(g->nvertices, 6);
    CHECK_EQ(g->children_from[4] - g->children_from[3], 2);
    CHECK_EQ(g->child[g->children_from[3]], 4);
    CHECK_EQ(g->edges_from[4] - g->edges_from[3], 3);
    CHECK_EQ(rt_edge_other(&g->edge[g->edge_of[g->edges_from[3]]], 3), 2);
    CHECK_EQ(rt_graph_at_busid(g, 1, 0x1f00), 5);
    CHECK_EQ(rt_graph_at_busid(g, 1, 0x1e00), RT_NO_VERTEX);
    CHECK_EQ(g->machine[0], 1);
    CHECK_EQ(rt_graph_count(g, RT_GPU), 2);
    rt_graph_free(g);
}

TEST(an_unknown_uplink_is_assumed_as_fast_as_what_is_below_it)
{
    struct rt_graph *g = small(1, 2);

    CHECK_EQ(rt_graph_finish(g, &error), RINGTREE_OK);
    CHECK_EQ(g->edge[0].gbs.source, RT_ASSUMED);
    CHECK(g->edge[0].gbs.value == 48);
    CHECK_EQ(g->edge[0].generation, 0);
    CHECK_EQ(g->edge[1].gbs.source, RT_KNOWN);
    rt_graph_free(g);
}

TEST(a_bus_id_that_is_twice_in_one_machine_is_refused)
{
    struct rt_graph *g = small(0x0f00, 0x0f00);

    CHECK_EQ(rt_graph_finish(g, &error), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(error.text, "bus id 0000:0f:00.0 is there twice");
    rt_graph_free(g);
}

TEST(an_edge_between_kinds_that_have_none_is_refused)
{
    struct rt_graph *g = small(1, 2);

    rt_graph_connect(g, RT_NVLINK, 2, 4);
    CHECK_EQ(rt_graph_finish(g, &error), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(error.text, "cannot join such parts");
    rt_graph_free(g);
}

TEST(the_first_failure_sticks_and_adding_goes_on_harmlessly)
{
    struct rt_graph *g = rt_graph_new();
    const uint32_t lost = rt_graph_add(g, RT_GPU, 7);

    CHECK_EQ(lost, RT_NO_VERTEX);
    rt_graph_name(g, lost, "x");
    rt_graph_attribute(g, lost, "key", "value");
    CHECK(rt_graph_connect(g, RT_NVLINK, lost, 0) == NULL);
    CHECK_EQ(rt_graph_finish(g, &error), RINGTREE_INTERNAL);
    CHECK_HAS(error.text, "a gpu was added inside part 7 of 1");
    rt_graph_free(g);
}

TEST(a_graph_without_a_machine_is_refused)
{
    struct rt_graph *g = rt_graph_new();

    CHECK_EQ(rt_graph_finish(g, &error), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(error.text, "no machine");
    rt_graph_free(g);
}

TEST(a_graph_of_too_many_parts_is_refused)
{
    struct rt_graph *g = rt_graph_new();
    const uint32_t machine = rt_graph_add(g, RT_MACHINE, 0);

    while (rt_graph_add(g, RT_CORES, machine) != RT_NO_VERTEX)
        if (g->nvertices > RT_GRAPH_MOST_VERTICES)
            break;
    CHECK_EQ(rt_graph_finish(g, &error), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(error.text, "too large");
    rt_graph_free(g);
}

TEST(attributes_keep_their_order_and_are_replaced_by_key)
{
    struct rt_graph *g = rt_graph_new();
    const uint32_t machine = rt_graph_add(g, RT_MACHINE, 0);
    const char *key, *value;

    rt_graph_attribute(g, machine, "a", "1");
    rt_graph_attribute(g, machine, "b", "2");
    rt_graph_attribute(g, machine, "a", "3");
    CHECK(strcmp(rt_attribute(g, machine, "a"), "3") == 0);
    CHECK(rt_attribute_at(g, machine, 1, &key, &value) && strcmp(key, "b") == 0 && strcmp(value, "2") == 0);
    CHECK(!rt_attribute_at(g, machine, 2, &key, &value));
    CHECK(rt_attribute(g, machine, "c") == NULL);
    rt_graph_free(g);
}

TEST(bus_ids_are_read_as_sysfs_and_nvml_write_them)
{
    char text[24];

    CHECK_EQ(rt_busid_parse("0000:0f:00.0"), 0x0f00);
    CHECK_EQ(rt_busid_parse("00000000:0F:1c.7"), 0x0fe7);
    CHECK_EQ(rt_busid_parse("0f:00.0"), 0x0f00);
    CHECK(strcmp(rt_busid_text(rt_busid_parse("ffff:ff:01.0"), text), "ffff:ff:01.0") == 0);
    static const char *const wrong[] = { "", "0f", "0000:0f:00", "0000:0f:20.0", "0000:0f:00.8", "0000:0f:00.0 ",
                                         "g000:0f:00.0", "123456789:0f:00.0", "0000:0f:00.00", ":0f:00.0", "::." };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
        CHECK_THAT(rt_busid_parse(wrong[i]) == RT_NO_BUSID, "\"%s\"", wrong[i]);
}

TEST(every_spelling_of_a_link_speed_is_one_generation_and_others_are_refused)
{
    static const struct { const char *text; int generation; } cases[] = {
        { "2.5 GT/s", 1 }, { "2.5 GT/s PCIe", 1 }, { "5 GT/s", 2 }, { "5.0 GT/s PCIe", 2 }, { "8 GT/s", 3 },
        { "8.0 GT/s", 3 }, { "16 GT/s", 4 }, { "16.0 GT/s PCIe", 4 }, { "32 GT/s PCIe/s", 5 }, { "32.0 GT/s PCIe", 5 },
        { "64.0 GT/s PCIe", 6 }, { "8GT/s", 3 }, { "", 0 }, { "Unknown speed", 0 }, { "Unknown", 0 },
        { "7 GT/s", -1 }, { "8", -1 }, { "80 GT/s", -1 }, { "8.5 GT/s", -1 }, { "8 GT/s PCIex", -1 }, { "gen3", -1 },
        { "2.5.0 GT/s", -1 }, { "8. GT/s", -1 }, { "-8 GT/s", -1 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        CHECK_THAT(rt_pci_generation(cases[i].text) == cases[i].generation, "\"%s\" is %d", cases[i].text,
                   rt_pci_generation(cases[i].text));
    for (unsigned g = 0; g <= 6; g++)
        CHECK_EQ(rt_pci_generation(rt_pci_speed_text(g)), g);
}

TEST_MAIN
