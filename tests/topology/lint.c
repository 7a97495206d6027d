/* Lints: each fault is found where it is, and is not where it is not. */
#include "folder.h"
#include "topology/discover.h"
#include "topology/lint.h"
#include "topology/synthetic.h"
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char said[4096];

static void keep(void *context, const char *sentence)
{
    (void)context;
    snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s\n", sentence);
}

static unsigned lint_graph(const struct rt_graph *g)
{
    struct rt_lint lint = { .say = keep };

    said[0] = '\0';
    rt_lint_graph(&lint, g);
    return lint.count;
}

static struct rt_graph *machine(const char *text)
{
    struct rt_error error;
    struct rt_graph *g;

    CHECK_THAT(rt_synthetic_read(&g, text, &error) == RINGTREE_OK, "%s", error.text);
    return g;
}

static uint32_t first(const struct rt_graph *g, enum rt_vertex_kind kind)
{
    uint32_t v = 0;

    while (g->vertex[v].kind != kind)
        v++;
    return v;
}

TEST(a_machine_without_faults_gives_no_sentence)
{
    struct rt_graph *g = machine("2 socket: 2 pci pcie:5x16: gpu pcie:5x16 nvlink:18 switch; nic 400G pcie:5x16");

    CHECK_THAT(lint_graph(g) == 0, "%s", said);
    rt_graph_free(g);
}

TEST(each_fault_of_a_graph_is_said_and_not_where_there_is_none)
{
    static const struct { const char *faulty, *why, *sound; } cases[] = {
        { "2 socket: pci pcie:2x16: gpu pcie:5x16; nic pcie:5x16", "slower than what is below",
          "2 socket: pci pcie:5x16: gpu pcie:5x16; nic pcie:5x16" },
        { "2 socket: pci pcie:2x16: gpu pcie:5x16; nic pcie:5x16", "and 1 more",
          "socket: pci pcie:2x16: gpu pcie:5x16; nic pcie:5x16" },
        { "socket: pci pcie:1x16: gpu pcie:1x16", "idle or badly seated", "socket: pci pcie:3x16: gpu pcie:3x16" },
        { "socket: pci pcie:5x16: gpu pcie:5x16; socket: pci pcie:5x16: nic", "crosses the link between processors",
          "socket: pci pcie:5x16: gpu pcie:5x16; pci pcie:5x16: nic" },
        { "socket: 4 gpu pcie:4x16", "right below the processor", "socket: 2 pci pcie:4x16: 2 gpu pcie:4x16" },
        { "2 gpu", "2 of 2 PCIe links is not known", "2 gpu pcie:4x16" },
        { "2 socket: (2 core); numa", "nothing can be placed near its memory", "2 socket: numa: 2 core" },
        { "gpu pcie:4x16 nvlink:12 switch; gpu pcie:4x16 nvlink:4 switch", "links are down",
          "2 gpu pcie:4x16 nvlink:12 switch" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct rt_graph *g = machine(cases[i].faulty), *sound = machine(cases[i].sound);
        CHECK(lint_graph(g) > 0);
        CHECK_HAS(said, cases[i].why);
        lint_graph(sound);
        CHECK_THAT(!strstr(said, cases[i].why), "%s: %s", cases[i].sound, said);
        rt_graph_free(g);
        rt_graph_free(sound);
    }
}

TEST(what_attributes_tell_is_said)
{
    struct rt_graph *g = machine("2 node: socket: pci pcie:4x16: gpu pcie:4x8; nic 200G pcie:4x16 ports:2");
    const uint32_t gpu = first(g, RT_GPU), port = first(g, RT_PORT);

    rt_graph_attribute(g, 0, "ignored", "c2c");
    rt_graph_attribute(g, gpu, "pci.max_link_speed", "16.0 GT/s PCIe");
    rt_graph_attribute(g, gpu, "pci.max_link_width", "16");
    rt_graph_attribute(g, port, "mtu", "9000");
    rt_graph_attribute(g, port + 1, "mtu", "1500");
    rt_graph_attribute(g, port + 1, "state", "1: DOWN");
    rt_graph_attribute(g, g->machine[0], "absent", "3");
    CHECK_EQ(lint_graph(g), 5);
    CHECK_HAS(said, "left out: c2c");
    CHECK_HAS(said, "generation 4 x8, below its own 16.0 GT/s PCIe x16");
    CHECK_HAS(said, "has MTU 1500");
    CHECK_HAS(said, "not ACTIVE");
    CHECK_HAS(said, "3 devices of the file are not in this machine");
    rt_graph_free(g);
}

static char sys[64];

static void put(const char *file, const void *bytes, size_t length)
{
    char path[512], parents[600];

    snprintf(path, sizeof(path), "%s/%s", sys, file);
    for (char *c = path + 1; *c; c++) {
        if (*c != '/')
            continue;
        snprintf(parents, sizeof(parents), "%.*s", (int)(c - path), path);
        mkdir(parents, 0700);
    }
    FILE *out = fopen(path, "w");
    CHECK(out && fwrite(bytes, 1, length, out) == length);
    if (out)
        fclose(out);
}

static const char *fact(const struct rt_graph *g, uint32_t v, const char *key)
{
    const char *value = rt_attribute(g, v, key);

    return value ? value : "none";
}

TEST(settings_of_the_running_machine_are_seen)
{
    struct rt_graph *g = machine("socket: pci pcie:4x16: 2 gpu pcie:4x16");
    const uint32_t bridge = first(g, RT_PCI_SWITCH), here = g->machine[0];
    const struct rlimit low = { 65536, 65536 };
    uint8_t config[4096] = { 0 };
    struct rlimit limit;

    strcpy(sys, test_folder());
    rt_facts_complete(g, sys);
    CHECK_THAT(lint_graph(g) == 0, "%s", said);
    /* the second extended capability is access control, with request redirection on */
    memcpy(config + 0x100, "\x01\x00\x01\x20", 4);
    memcpy(config + 0x200, "\x0d\x00\x01\x00\x00\x00\x04\x00", 8);
    put("bus/pci/devices/0000:01:00.0/config", config, 64); /* what others than root may read */
    rt_facts_complete(g, sys);
    CHECK(!rt_attribute(g, bridge, "pci.acs"));
    put("bus/pci/devices/0000:01:00.0/config", config, sizeof(config));
    put("devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n", 10);
    put("kernel/iommu_groups/0/type", "DMA-FQ\n", 7);
    rt_facts_complete(g, sys);
    CHECK_HAS(fact(g, here, "iommu"), "none"); /* there is a group, but no IOMMU */
    put("class/iommu/dmar0", "", 0);
    CHECK_EQ(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
    CHECK_EQ(setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){ low.rlim_cur, limit.rlim_max }), 0);
    rt_facts_complete(g, sys);
    setrlimit(RLIMIT_MEMLOCK, &limit);
    CHECK_HAS(fact(g, bridge, "pci.acs"), "redirects");
    CHECK_HAS(fact(g, here, "governor"), "powersave");
    CHECK_HAS(fact(g, here, "iommu"), "DMA-FQ");
    CHECK_HAS(fact(g, here, "memlock_kib"), "64");
    rt_graph_free(g);
}

TEST(settings_of_a_machine_are_said_where_they_harm_and_not_elsewhere)
{
    static const struct { const char *key, *bad, *good, *why; bool gpu, rdma; } cases[] = {
        { "governor", "powersave", "performance", "governor is powersave", false, false },
        { "iommu", "DMA-FQ", "identity", "iommu=pt", true, false },
        { "memlock_kib", "64", "1048576", "only 64 KiB of memory", false, true },
        { "pci.acs", "redirects", NULL, "setpci -s 0000:01:00.0 ECAP_ACS", true, false },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        for (int harmless = 0; harmless < 2; harmless++) {
            struct rt_graph *g = machine(cases[i].gpu && harmless ? "pci pcie:4x16: nic 100G pcie:4x16"
                                                                  : "pci pcie:4x16: gpu pcie:4x16; nic 100G pcie:4x16");
            const uint32_t v = i == 3 ? first(g, RT_PCI_SWITCH) : g->machine[0];
            const bool can = harmless && (cases[i].gpu || cases[i].rdma);
            rt_graph_attribute(g, first(g, RT_PORT), "kind", cases[i].rdma && !harmless ? "rdma" : "network");
            if (cases[i].good) rt_graph_attribute(g, v, cases[i].key, cases[i].good);
            CHECK_THAT(lint_graph(g) == 0, "%s", said);
            rt_graph_attribute(g, v, cases[i].key, cases[i].bad);
            CHECK_THAT(lint_graph(g) == !can, "%s: %s", cases[i].key, said);
            if (!can) CHECK_HAS(said, cases[i].why);
            rt_graph_free(g);
        }
}

/* Two machines of two ports each; MTUs in order. */
static unsigned lint_mtus(const char *text, const char *const mtu[4], bool named)
{
    struct rt_graph *g = machine(text);
    uint32_t port = 0;

    for (uint32_t v = 0; v < g->nvertices; v++) {
        if (g->vertex[v].kind != RT_PORT)
            continue;
        rt_graph_attribute(g, v, "mtu", mtu[port]);
        if (named) rt_graph_name(g, v, port % 2 ? "eth1" : "eth0");
        port++;
    }
    const unsigned count = lint_graph(g);
    rt_graph_free(g);
    return count;
}

TEST(mtus_are_compared_between_ports_of_one_network)
{
    static const char rails[] = "2 node: pci pcie:4x16: 2 nic 200G pcie:4x16", mixed[] = "2 node: pci pcie:4x16: "
        "nic 200G pcie:4x16; nic 25G pcie:4x16", unknown[] = "2 node: pci pcie:4x16: 2 nic pcie:4x16";

    CHECK_EQ(lint_mtus(rails, (const char *const[]){ "9000", "9000", "9000", "9000" }, false), 0);
    CHECK_EQ(lint_mtus(rails, (const char *const[]){ "9000", "9000", "1500", "1500" }, false), 1);
    CHECK_HAS(said, "has MTU 1500 (and 1 more), but");
    CHECK_EQ(lint_mtus(rails, (const char *const[]){ "9000", "1500", "9000", "9000" }, false), 1);
    CHECK_EQ(lint_mtus(mixed, (const char *const[]){ "9000", "1500", "9000", "1500" }, false), 0);
    CHECK_EQ(lint_mtus(mixed, (const char *const[]){ "9000", "1500", "9000", "9000" }, false), 1);
    CHECK_EQ(lint_mtus(unknown, (const char *const[]){ "9000", "1500", "9000", "1500" }, true), 0);
    CHECK_EQ(lint_mtus(unknown, (const char *const[]){ "9000", "1500", "9000", "1400" }, true), 1);
    CHECK_HAS(said, "eth1 has MTU 1400, but");
}

TEST(what_is_true_of_one_of_several_machines_names_it)
{
    struct rt_graph *g = machine("3 node: 2 core");

    rt_graph_name(g, g->machine[1], "host1");
    rt_graph_name(g, g->machine[2], "host2");
    rt_graph_attribute(g, g->machine[1], "governor", "powersave");
    rt_graph_attribute(g, g->machine[2], "governor", "powersave");
    CHECK_EQ(lint_graph(g), 1);
    CHECK_HAS(said, "host1: the processors' frequency governor is powersave");
    rt_graph_free(g);
}

TEST_MAIN
