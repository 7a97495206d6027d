/* Machines from text: what they consist of, how they are wired, and where a wrong text is wrong. */
#include "test.h"
#include "base/clock.h"
#include "topology/synthetic.h"
#include "topology/synthetic_parse.h"

static struct rt_error error;

static struct rt_graph *machine(const char *text)
{
    struct rt_graph *g;

    CHECK_THAT(rt_synthetic_read(&g, text, &error) == RINGTREE_OK, "%s", error.text);
    return g;
}

static uint32_t nvlinks_at(const struct rt_graph *g, uint32_t v)
{
    uint32_t links = 0;

    for (uint32_t i = g->edges_from[v]; i < g->edges_from[v + 1]; i++)
        if (g->edge[g->edge_of[i]].kind == RT_NVLINK)
            links += g->edge[g->edge_of[i]].count;
    return links;
}

static void check_nvlinks(const char *text, uint32_t wanted)
{
    struct rt_graph *g = machine(text);

    for (uint32_t v = 0; g && v < g->nvertices; v++)
        if (g->vertex[v].kind == RT_GPU)
            CHECK_THAT(nvlinks_at(g, v) == wanted, "%s: gpu %d has %u", text, g->vertex[v].number, nvlinks_at(g, v));
    rt_graph_free(g);
}

TEST(two_nodes_of_two_sockets_have_what_the_text_says)
{
    struct rt_graph *g = machine("2 node: 2 socket: 4 gpu nvlink:12 switch; 2 nic 200G");

    CHECK_EQ(g->nmachines, 2);
    CHECK_EQ(rt_graph_count(g, RT_PACKAGE), 4);
    CHECK_EQ(rt_graph_count(g, RT_GPU), 16);
    CHECK_EQ(rt_graph_count(g, RT_NIC), 8);
    CHECK_EQ(rt_graph_count(g, RT_PORT), 8);
    CHECK_EQ(rt_graph_count(g, RT_NVSWITCH), 2);
    CHECK_EQ(rt_graph_count(g, RT_FABRIC), 1);
    for (uint32_t e = 0; e < g->nedges; e++)
        if (g->edge[e].kind == RT_NETWORK)
            CHECK(g->edge[e].gbs.value == 25 && g->edge[e].gbs.source == RT_KNOWN);
    rt_graph_free(g);
}

TEST(every_wiring_gives_each_gpu_its_nvlinks)
{
    check_nvlinks("8 gpu nvlink:12 switch", 12);
    check_nvlinks("2 socket: 4 gpu nvlink:6 cube sm:70", 6);
    check_nvlinks("4 gpu nvlink:12 mesh", 12);
    check_nvlinks("4 gpu nvlink:4 ring", 4);
    check_nvlinks("2 gpu nvlink:4 ring", 4);
}

TEST(one_machine_needs_no_node_and_groups_end_with_their_parenthesis)
{
    struct rt_graph *g = machine("2 sockets: (2 numa: (8 core); 1 core); socket link:30: pci pcie:5x16: 1 nic; 2 gpus");

    CHECK_EQ(g->nmachines, 1);
    CHECK_EQ(rt_graph_count(g, RT_PACKAGE), 3);
    CHECK_EQ(rt_graph_count(g, RT_NUMA), 4);
    CHECK_EQ(rt_graph_count(g, RT_CORES), 34);
    CHECK_EQ(rt_graph_count(g, RT_GPU), 2);
    CHECK(g->vertex[g->nvertices - 1].kind == RT_GPU && g->vertex[g->vertex[g->nvertices - 1].parent].kind ==
          RT_PCI_SWITCH);
    rt_graph_free(g);
}

TEST(a_part_that_cannot_be_inside_the_last_one_is_beside_it)
{
    struct rt_graph *g = machine("2 node: socket: pci: 2 gpu; socket: pci: nic; node: 3 gpu; nic");

    CHECK_EQ(g->nmachines, 3);
    CHECK_EQ(rt_graph_count(g, RT_PACKAGE), 4);
    CHECK_EQ(rt_graph_count(g, RT_GPU), 7);
    CHECK_EQ(rt_graph_count(g, RT_NIC), 3);
    rt_graph_free(g);
}

TEST(a_machine_of_65536_ranks_is_built_in_a_moment)
{
    const uint64_t begin = rt_now_ns(&rt_system_clock);
    struct rt_graph *gpus = machine("8192 node: 2 socket: 2 pci: 2 gpu nvlink:18 switch sm:90; 2 nic 400G");
    struct rt_graph *nodes = machine("65536 node: nic 100G");
    const uint64_t ms = (rt_now_ns(&rt_system_clock) - begin) / 1000000;

    CHECK_EQ(rt_graph_count(gpus, RT_GPU), 65536);
    CHECK_EQ(nodes->nmachines, 65536);
    CHECK_THAT(ms < 5000, "%llu ms", (unsigned long long)ms);
    rt_graph_free(gpus);
    rt_graph_free(nodes);
}

TEST(a_wrong_text_is_refused_with_its_column)
{
    static const struct { const char *text, *why; } cases[] = {
        { "", "column 1 of" },
        { "2 node: 2 sokcet", "column 11 of" },
        { "2 node: 2 sokcet", "\"sokcet\" is no kind" },
        { "0 node", "1 to 1048576" },
        { "99999999999999999999 node", "1 to 1048576" },
        { "node: nic 200G: gpu", "column 17 of" },
        { "node: nic 200G: gpu", "a gpu cannot be inside a nic" },
        { "gpu nvlink:12", "both nvlink:N and one of" },
        { "gpu switch", "both nvlink:N and one of" },
        { "gpu nvlink switch", "needs a colon" },
        { "gpu pcie:9x16", "1 to 6" },
        { "gpu pcie:5", "5x16" },
        { "gpu 200G", "a NIC's speed" },
        { "nic 200", "a NIC's speed" },
        { "nic sm:90", "\"sm\" cannot be said of a nic" },
        { "node: (2 gpu", "\")\" is missing" },
        { "node: 2 gpu)", "the end was expected" },
        { "node: 2 gpu;", "column 13 of" },
        { "node: gpu; socket", "put it inside one" },
        { "node: gpu, nic", "was expected" },
        { "node; gpu", "outermost" },
        { "pci: pci: pci: pci: pci: pci: pci: pci: gpu", "nested" },
        { "3 gpu nvlink:1 mesh", "cannot make a mesh" },
        { "3 gpu nvlink:3 ring", "cannot make a ring" },
        { "7 gpu nvlink:6 cube", "a cube has 8 GPUs" },
        { "gpu nvlink:2 switch; gpu nvlink:6 cube", "different NVLinks" },
        { "1048576 node: 64 socket: 64 numa: 65536 core", "too large" },
        { "2000 gpu", "at most 256" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct rt_graph *g = NULL;
        CHECK_THAT(rt_synthetic_read(&g, cases[i].text, &error) == RINGTREE_INVALID_ARGUMENT && !g, "%s",
                   cases[i].text);
        CHECK_HAS(error.text, cases[i].why);
    }
}

TEST(more_items_than_can_be_described_are_refused)
{
    char text[2048] = "gpu";
    struct rt_graph *g;

    for (int i = 0; i < RT_SYNTHETIC_MOST_ITEMS; i++)
        strcat(text, "; gpu");
    CHECK_EQ(rt_synthetic_read(&g, text, &error), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(error.text, "at most 64 items");
}

TEST_MAIN
