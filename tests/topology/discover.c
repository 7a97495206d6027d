/*
 * Discovery: this machine, recorded ones through hwloc, /sys and NVML from stand-ins, and skeletons that are
 * completed.
 */
#include "folder.h"
#include "topology/discover.h"
#include "topology/file.h"
#include "topology/nccl.h"
#include "topology/synthetic.h"
#include "topology/xml.h"
#include <sys/stat.h>
#include <unistd.h>

static struct rt_error error;

#define NEEDS(check)                                                                                                   \
    do {                                                                                                               \
        const char *why;                                                                                               \
        if (!check(&why))                                                                                              \
            SKIP("%s", why);                                                                                           \
    } while (0)

static struct rt_graph *recorded(const char *file)
{
    char path[512], *text;
    size_t length;
    struct rt_graph *g = NULL;

    snprintf(path, sizeof(path), "%s/%s", MACHINES, file);
    CHECK_THAT(rt_file_read(path, &text, &length, &error) == RINGTREE_OK, "%s", error.text);
    CHECK_THAT((strstr(file, "hwloc") ? rt_hwloc_read : rt_nccl_read)(&g, text, length, file, &error) == RINGTREE_OK,
               "%s",
               error.text);
    free(text);
    return g;
}

static uint32_t first(const struct rt_graph *g, enum rt_vertex_kind kind)
{
    for (uint32_t v = 0; v < g->nvertices; v++)
        if (g->vertex[v].kind == kind)
            return v;
    return RT_NO_VERTEX;
}

TEST(this_machine_is_discovered)
{
    struct rt_graph *g;
    uint32_t cores = 0;

    NEEDS(rt_hwloc_available);
    CHECK_THAT(rt_discover(&g, &error) == RINGTREE_OK, "%s", error.text);
    if (!g)
        return;
    CHECK_EQ(g->nmachines, 1);
    for (uint32_t v = 0; v < g->nvertices; v++)
        cores += g->vertex[v].count;
    CHECK_THAT(cores >= 1, "%u cores", cores);
    rt_graph_free(g);
}

TEST(hwlocs_xml_gives_sockets_caches_bridges_and_devices_where_they_are)
{
    NEEDS(rt_hwloc_available);
    NEEDS(rt_xml_available);
    struct rt_graph *g = recorded("two-sockets.hwloc.xml");
    if (!g)
        return;
    CHECK_EQ(rt_graph_count(g, RT_PACKAGE), 2);
    CHECK_EQ(rt_graph_count(g, RT_NUMA), 2);
    CHECK_EQ(rt_graph_count(g, RT_CORES), 4);
    CHECK_EQ(rt_graph_count(g, RT_HOST_BRIDGE), 2);
    CHECK_EQ(rt_graph_count(g, RT_PCI_SWITCH), 3); /* the one that leads to a disk is not there */
    CHECK_EQ(rt_graph_count(g, RT_PORT), 1);
    const uint32_t port = first(g, RT_PORT), gpu = first(g, RT_GPU), nic = first(g, RT_NIC);
    CHECK(strcmp(rt_vertex_name(g, port), "mlx5_0") == 0);
    CHECK_EQ(g->vertex[port].parent, nic);
    CHECK_EQ(g->vertex[gpu].busid, 0x8100);
    uint32_t numa = gpu;
    while (g->vertex[numa].kind != RT_NUMA)
        numa = g->vertex[numa].parent;
    CHECK_EQ(g->vertex[numa].number, 1);
    const struct rt_edge *up = rt_edge_up(g, gpu);
    CHECK(up && up->gbs.source == RT_KNOWN && up->gbs.value > 47.9 && up->gbs.value < 48.1);
    CHECK_EQ(g->vertex[first(g, RT_CORES)].count, 4);
    rt_graph_free(g);
}

TEST(devices_of_a_flat_virtual_machine_hang_at_its_only_numa_domain)
{
    NEEDS(rt_hwloc_available);
    NEEDS(rt_xml_available);
    struct rt_graph *g = recorded("kvm-2-core.hwloc.xml");
    if (!g)
        return;
    CHECK_EQ(g->vertex[first(g, RT_HOST_BRIDGE)].parent, first(g, RT_NUMA));
    CHECK_EQ(rt_graph_count(g, RT_NIC), 1);
    rt_graph_free(g);
}

TEST(hostile_hwloc_files_are_refused)
{
    static const struct { const char *text, *why; } cases[] = {
        { "<system/>", "<topology> does" },
        { "<!DOCTYPE topology [<!ENTITY a \"b\">]><topology/>", "not allowed" },
        { "<topology version=\"2.0\"><object", "not XML" },
        { "<topology version=\"2.0\"/>", "hwloc does not accept" },
        { "<topology version=\"2.0\"><object type=\"Nonsense\"/></topology>", "hwloc does not accept" },
    };
    NEEDS(rt_hwloc_available);
    NEEDS(rt_xml_available);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct rt_graph *g;
        CHECK_EQ(rt_hwloc_read(&g, cases[i].text, strlen(cases[i].text), "test", &error), RINGTREE_INVALID_ARGUMENT);
        CHECK_HAS(error.text, cases[i].why);
        rt_graph_free(g);
    }
}

static char sys[64];

static void put(const char *folder, const char *file, const char *line)
{
    char path[512], parents[600];

    snprintf(path, sizeof(path), "%s/%s", sys, folder);
    for (char *c = path + 1; *c; c++) {
        if (*c != '/')
            continue;
        snprintf(parents, sizeof(parents), "%.*s", (int)(c - path), path);
        mkdir(parents, 0700);
    }
    mkdir(path, 0700);
    snprintf(parents, sizeof(parents), "%s/%s", path, file);
    FILE *out = fopen(parents, "w");
    CHECK(out != NULL);
    if (out) {
        fprintf(out, "%s\n", line);
        fclose(out);
    }
}

/* A machine with GPUs at 0000:01:00.0 and on, and a NIC whose ports are eth0 and mlx5_0; not finished. */
static struct rt_graph *bare_machine(unsigned gpus)
{
    struct rt_graph *g = rt_graph_new();
    const uint32_t fabric = rt_graph_add(g, RT_FABRIC, 0), machine = rt_graph_add(g, RT_MACHINE, 0);
    const uint32_t numa = rt_graph_add(g, RT_NUMA, machine), nic = rt_graph_attach(g, RT_NIC, numa, RT_PCI_LINK, NULL);
    static const char *const names[] = { "eth0", "mlx5_0", "../etc" };

    g->vertex[numa].number = 0;
    g->vertex[nic].busid = 0x2000;
    g->vertex[nic].pci_class = 0x020000;
    for (int i = 0; i < 3; i++) {
        const uint32_t port = rt_graph_attach(g, RT_PORT, nic, RT_PORT_LINK, NULL);
        rt_graph_connect(g, RT_NETWORK, port, fabric);
        rt_graph_name(g, port, names[i]);
    }
    for (unsigned i = 0; i < gpus; i++) {
        const uint32_t gpu = rt_graph_attach(g, RT_GPU, numa, RT_PCI_LINK, NULL);
        g->vertex[gpu].busid = (i + 1) << 8;
        g->vertex[gpu].pci_class = 0x030200;
    }
    return g;
}

TEST(sys_tells_link_speeds_and_ports)
{
    struct rt_graph *g = bare_machine(2);

    strcpy(sys, test_folder());
    put("bus/pci/devices/0000:01:00.0", "current_link_speed", "2.5 GT/s PCIe");
    put("bus/pci/devices/0000:01:00.0", "current_link_width", "16");
    put("bus/pci/devices/0000:01:00.0", "max_link_speed", "32.0 GT/s PCIe");
    put("bus/pci/devices/0000:02:00.0", "current_link_speed", "Unknown");
    put("bus/pci/devices/0000:02:00.0", "current_link_width", "63");
    put("class/infiniband/mlx5_0/ports/1", "rate", "200 Gb/sec (4X HDR)");
    put("class/net/eth0", "speed", "-1");
    put("class/net/eth0", "mtu", "9000");
    rt_sysfs_complete(g, sys);
    CHECK_THAT(rt_graph_finish(g, &error) == RINGTREE_OK, "%s", error.text);
    const uint32_t gpu = first(g, RT_GPU), port = first(g, RT_PORT);
    CHECK_EQ(rt_edge_up(g, gpu)->generation, 1);
    CHECK(rt_edge_up(g, gpu)->gbs.value == 3);
    CHECK(strcmp(rt_attribute(g, gpu, "pci.max_link_speed"), "32.0 GT/s PCIe") == 0);
    CHECK_EQ(rt_edge_up(g, gpu + 1)->gbs.source, RT_ASSUMED);
    CHECK(strcmp(rt_attribute(g, port, "mtu"), "9000") == 0);
    for (uint32_t e = 0; e < g->nedges; e++)
        if (g->edge[e].kind == RT_NETWORK)
            CHECK_EQ(g->edge[e].gbs.source, g->edge[e].a == port + 1 ? RT_KNOWN : RT_ASSUMED);
    rt_graph_free(g);
}

static uint32_t links_between(const struct rt_graph *g, uint32_t a, uint32_t b)
{
    for (uint32_t e = 0; e < g->nedges; e++)
        if (g->edge[e].kind == RT_NVLINK && g->edge[e].a == a && g->edge[e].b == b)
            return g->edge[e].count;
    return 0;
}

TEST(nvml_tells_gpus_of_direct_links_and_switches)
{
    struct rt_graph *g = bare_machine(4);
    const uint32_t gpu = first(g, RT_GPU);

    CHECK(rt_nvml_complete(g, FAKE_NVML));
    CHECK_THAT(rt_graph_finish(g, &error) == RINGTREE_OK, "%s", error.text);
    const uint32_t nvswitch = first(g, RT_NVSWITCH);
    CHECK_EQ(rt_graph_count(g, RT_NVSWITCH), 1);
    CHECK_EQ(links_between(g, gpu, gpu + 1), 2);
    CHECK_EQ(links_between(g, gpu + 2, nvswitch), 3);
    CHECK_EQ(links_between(g, gpu + 3, nvswitch), 3);
    CHECK(strcmp(rt_attribute(g, gpu, "sm"), "90") == 0);
    rt_graph_free(g);
}

TEST(a_missing_or_broken_nvml_leaves_the_graph_alone)
{
    struct rt_graph *g = bare_machine(4);
    const uint32_t edges = g->nedges;

    CHECK(!rt_nvml_complete(g, "libnvidia-ml-that-is-not-there.so"));
    setenv("FAKE_NVML", "broken", 1);
    CHECK(!rt_nvml_complete(g, FAKE_NVML));
    unsetenv("FAKE_NVML");
    CHECK_EQ(g->nedges, edges);
    rt_graph_free(g);
}

/* A machine whose GPUs and NIC have the bus ids that the skeleton of AWS's g5 names, all flat on one NUMA domain. */
static struct rt_graph *flat_g5(void)
{
    struct rt_graph *g = bare_machine(8);
    const uint32_t gpu = first(g, RT_GPU), nic = first(g, RT_NIC);
    struct rt_error why;

    for (uint32_t i = 0; i < 8; i++) {
        g->vertex[gpu + i].busid = (0x16 + i) << 3;
        g->vertex[gpu + i].number = (int32_t)i;
    }
    g->vertex[nic].busid = 0x15 << 3;
    for (uint32_t e = 0; e < g->nedges; e++)
        if (g->edge[e].b == gpu)
            g->edge[e].generation = 4, g->edge[e].width = 8;
    CHECK_THAT(rt_graph_finish(g, &why) == RINGTREE_OK, "%s", why.text);
    return g;
}

TEST(a_skeleton_of_bus_ids_is_completed_by_the_live_machine)
{
    NEEDS(rt_xml_available);
    struct rt_graph *skeleton = recorded("aws-g5.48xl.xml"), *live = flat_g5(), *g = NULL;

    CHECK_THAT(rt_graph_merge(&g, skeleton, live, &error) == RINGTREE_OK, "%s", error.text);
    if (g) {
        CHECK_EQ(rt_graph_count(g, RT_GPU), 8);
        CHECK_EQ(rt_graph_count(g, RT_NIC), 1);
        CHECK_EQ(rt_graph_count(g, RT_PORT), 3);
        CHECK_EQ(rt_graph_count(g, RT_PCI_DEVICE), 0);
        const uint32_t machine = g->machine[0], one = rt_graph_at_busid(g, machine, 0x16 << 3);
        const uint32_t last = rt_graph_at_busid(g, machine, 0x1d << 3);
        CHECK_EQ(g->vertex[g->vertex[one].parent].number, 0);
        CHECK_EQ(g->vertex[g->vertex[last].parent].number, 1); /* where the skeleton has it */
        CHECK_EQ(rt_edge_up(g, one)->generation, 4);
        CHECK_EQ(rt_edge_up(g, one)->gbs.source, RT_KNOWN);
        CHECK(strcmp(rt_attribute(g, g->machine[0], "absent"), "0") == 0);
    }
    rt_graph_free(skeleton);
    rt_graph_free(live);
    rt_graph_free(g);
}

TEST(gpus_that_a_skeleton_leaves_out_and_devices_that_are_absent_are_seen)
{
    NEEDS(rt_xml_available);
    struct rt_graph *skeleton = recorded("aws-p5.xml"), *live = NULL, *g = NULL;

    CHECK_EQ(rt_synthetic_read(&live, "2 socket: 2 core; 2 gpu nvlink:18 switch", &error), RINGTREE_OK);
    CHECK_THAT(rt_graph_merge(&g, skeleton, live, &error) == RINGTREE_OK, "%s", error.text);
    if (g) {
        CHECK_EQ(rt_graph_count(g, RT_GPU), 4);
        CHECK_EQ(rt_graph_count(g, RT_CORES), 4);
        CHECK_EQ(rt_graph_count(g, RT_NVSWITCH), 1);
        CHECK(strcmp(rt_attribute(g, g->machine[0], "absent"), "40") == 0);
    }
    rt_graph_free(skeleton);
    rt_graph_free(live);
    rt_graph_free(g);
}

TEST_MAIN
