/* Lints: each fault is found where it is, and is not where it is not. */
#include "test.h"
#include "topology/lint.h"
#include "topology/synthetic.h"
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

TEST(each_fault_of_a_graph_is_said)
{
    static const struct { const char *text, *why; } cases[] = {
        { "2 socket: pci pcie:2x16: gpu pcie:5x16; nic pcie:5x16", "slower than what is below" },
        { "2 socket: pci pcie:2x16: gpu pcie:5x16; nic pcie:5x16", "and 1 more" },
        { "socket: pci pcie:1x16: gpu pcie:1x16", "idle or badly seated" },
        { "socket: pci pcie:5x16: gpu pcie:5x16; socket: pci pcie:5x16: nic", "crosses the link between processors" },
        { "socket: 4 gpu pcie:4x16", "right below the processor" },
        { "2 gpu", "2 of 2 PCIe links is not known" },
        { "2 socket: (2 core); numa", "nothing can be placed near its memory" },
        { "gpu pcie:4x16 nvlink:12 switch; gpu pcie:4x16 nvlink:4 switch", "links are down" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct rt_graph *g = machine(cases[i].text);
        CHECK(lint_graph(g) > 0);
        CHECK_HAS(said, cases[i].why);
        rt_graph_free(g);
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

static char sys[] = "/tmp/ringtree-sys-XXXXXX";

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

TEST(settings_of_the_running_machine_are_said)
{
    struct rt_graph *g = machine("socket: pci pcie:4x16: 2 gpu pcie:4x16");
    struct rt_lint lint = { .say = keep };
    uint8_t config[4096] = { 0 };
    char command[64];

    said[0] = '\0';
    CHECK(mkdtemp(sys) != NULL);
    rt_lint_system(&lint, g, sys);
    CHECK_THAT(lint.count == 0, "%s", said);
    /* the second extended capability is access control, with request redirection on */
    memcpy(config + 0x100, "\x01\x00\x01\x20", 4);
    memcpy(config + 0x200, "\x0d\x00\x01\x00\x00\x00\x04\x00", 8);
    put("bus/pci/devices/0000:01:00.0/config", config, sizeof(config));
    put("devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n", 10);
    put("class/iommu/dmar0", "", 0);
    put("kernel/iommu_groups/0/type", "DMA-FQ\n", 7);
    rt_lint_system(&lint, g, sys);
    CHECK_EQ(lint.count, 3);
    CHECK_HAS(said, "setpci -s 0000:01:00.0 ECAP_ACS");
    CHECK_HAS(said, "governor is powersave");
    CHECK_HAS(said, "iommu=pt");
    put("bus/pci/devices/0000:01:00.0/config", config, 64); /* what others than root may read */
    lint.count = 0;
    rt_lint_system(&lint, g, sys);
    CHECK_EQ(lint.count, 2);
    snprintf(command, sizeof(command), "rm -rf %s", sys);
    CHECK_EQ(system(command), 0);
    rt_graph_free(g);
}

TEST_MAIN
