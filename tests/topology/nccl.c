/*
 * NCCL's topology XML: the vendors' files are read as they are and written again; hostile ones are told by their
 * line.
 */
#include "test.h"
#include "machines.h"
#include "topology/file.h"
#include "topology/nccl.h"
#include "topology/xml.h"

static struct rt_error error;

static struct rt_graph *read_machine(const char *file)
{
    char path[512], *text;
    size_t length;
    struct rt_graph *g = NULL;

    snprintf(path, sizeof(path), "%s/%s", MACHINES, file);
    CHECK_THAT(rt_file_read(path, &text, &length, &error) == RINGTREE_OK, "%s", error.text);
    CHECK_THAT(rt_nccl_read(&g, text, length, file, &error) == RINGTREE_OK, "%s", error.text);
    free(text);
    return g;
}

static ringtree_status read_text(struct rt_graph **g, const char *text)
{
    rt_error_clear(&error);
    return rt_nccl_read(g, text, strlen(text), "test", &error);
}

#define NEEDS_EXPAT                                                                                                    \
    do {                                                                                                               \
        const char *why;                                                                                               \
        if (!rt_xml_available(&why))                                                                                   \
            SKIP("%s", why);                                                                                           \
    } while (0)

static uint32_t count_edges(const struct rt_graph *g, enum rt_edge_kind kind)
{
    uint32_t count = 0;

    for (uint32_t e = 0; e < g->nedges; e++)
        count += g->edge[e].kind == kind;
    return count;
}

TEST(every_vendor_file_has_the_parts_that_its_readme_says)
{
    static const struct { uint32_t numa, switches, gpus, nics, ports, others, nvlinks; } wanted[MACHINE_FILES] = {
        { 2, 0, 0, 0, 0, 9, 0 }, { 2, 4, 8, 4, 4, 0, 0 },   { 2, 8, 0, 0, 0, 32, 0 },
        { 2, 0, 8, 1, 1, 0, 0 }, { 4, 4, 8, 8, 8, 0, 0 }, { 2, 24, 8, 8, 16, 0, 32 },
    };
    NEEDS_EXPAT;
    for (int i = 0; i < MACHINE_FILES; i++) {
        struct rt_graph *g = read_machine(machine_files[i]);
        if (!g)
            continue;
        CHECK_THAT(rt_graph_count(g, RT_NUMA) == wanted[i].numa, "%s", machine_files[i]);
        CHECK_THAT(rt_graph_count(g, RT_PCI_SWITCH) == wanted[i].switches, "%s", machine_files[i]);
        CHECK_THAT(rt_graph_count(g, RT_GPU) == wanted[i].gpus, "%s", machine_files[i]);
        CHECK_THAT(rt_graph_count(g, RT_NIC) == wanted[i].nics, "%s", machine_files[i]);
        CHECK_THAT(rt_graph_count(g, RT_PORT) == wanted[i].ports, "%s", machine_files[i]);
        CHECK_THAT(rt_graph_count(g, RT_PCI_DEVICE) == wanted[i].others, "%s", machine_files[i]);
        CHECK_THAT(count_edges(g, RT_NVLINK) == wanted[i].nvlinks, "%s", machine_files[i]);
        rt_graph_free(g);
    }
}

TEST(link_speeds_of_the_vendor_files_are_known_where_they_are_said_and_assumed_elsewhere)
{
    static const struct { unsigned generation; unsigned known, assumed; } wanted[MACHINE_FILES] = {
        { 0, 0, 9 }, { 3, 16, 0 }, { 5, 32, 8 }, { 4, 9, 0 }, { 4, 20, 0 }, { 5, 40, 0 },
    };
    NEEDS_EXPAT;
    for (int i = 0; i < MACHINE_FILES; i++) {
        struct rt_graph *g = read_machine(machine_files[i]);
        unsigned known = 0, assumed = 0;
        for (uint32_t e = 0; g && e < g->nedges; e++) {
            if (g->edge[e].kind != RT_PCI_LINK)
                continue;
            known += g->edge[e].gbs.source == RT_KNOWN;
            assumed += g->edge[e].gbs.source == RT_ASSUMED && g->edge[e].generation == 0;
            if (g->edge[e].gbs.source == RT_KNOWN && g->edge[e].generation != 2)
                CHECK_EQ(g->edge[e].generation, wanted[i].generation);
        }
        CHECK_THAT(known == wanted[i].known && assumed == wanted[i].assumed, "%s: %u known, %u assumed",
                   machine_files[i],
                   known, assumed);
        rt_graph_free(g);
    }
}

/* The text that a graph is written as. */
static char *written(const struct rt_graph *g)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    CHECK(rt_nccl_write(g, g->machine[0], out));
    fclose(out);
    return text;
}

TEST(what_is_written_is_read_as_the_same)
{
    NEEDS_EXPAT;
    for (int i = 0; i < MACHINE_FILES; i++) {
        struct rt_graph *one = read_machine(machine_files[i]), *two = NULL;
        if (!one)
            continue;
        char *first = written(one);
        CHECK_THAT(read_text(&two, first) == RINGTREE_OK, "%s: %s", machine_files[i], error.text);
        if (two) {
            char *second = written(two);
            CHECK_THAT(strcmp(first, second) == 0, "%s:\n%s\nis not\n%s", machine_files[i], first, second);
            CHECK_EQ(one->nvertices, two->nvertices);
            CHECK_EQ(one->nedges, two->nedges);
            free(second);
        }
        free(first);
        rt_graph_free(one);
        rt_graph_free(two);
    }
}

#define HEAD "<system version=\"1\">\n<cpu numaid=\"0\">\n"
#define TAIL "</cpu>\n</system>\n"
#define PCI(id, rest) "<pci busid=\"0000:" id ":00.0\" " rest
#define GPU(id, rest) PCI(id, "class=\"0x030200\">") "<gpu dev=\"0\" sm=\"80\">" rest "</gpu></pci>\n"

TEST(a_missing_empty_or_unknown_link_is_unknown_and_never_generation_3)
{
    static const char *const links[] = { "/>", "link_speed=\"\" link_width=\"\"/>",
                                         "link_speed=\"Unknown speed\" link_width=\"63\"/>",
                                         "link_speed=\"Unknown\" link_width=\"Unknown\"/>", "link_width=\"16\"/>" };
    NEEDS_EXPAT;
    for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++) {
        char text[512];
        struct rt_graph *g;
        snprintf(text, sizeof(text), HEAD "%s %s" TAIL, "<pci busid=\"0000:01:00.0\"", links[i]);
        CHECK_THAT(read_text(&g, text) == RINGTREE_OK, "%s", error.text);
        if (!g)
            continue;
        CHECK_EQ(g->edge[0].generation, 0);
        CHECK_EQ(g->edge[0].gbs.source, RT_ASSUMED);
        rt_graph_free(g);
    }
}

TEST(hostile_and_wrong_files_are_refused_with_their_line)
{
    static const struct { const char *text, *line, *why; } cases[] = {
        { "", "line 1", "not XML" },
        { "<system version=\"1\">", "line 1", "not XML" },
        { "<graphs/>", "line 1", "<system> does" },
        { "<system/>", "line 1", "version" },
        { "<system version=\"2\"/>", "line 1", "version" },
        { "<system version=\"1\"/>", "test", "no machine" },
        { HEAD PCI("01", "/>\n") PCI("01", "/>\n") TAIL, "line 4", "0000:01:00.0 is also in line 3" },
        { HEAD PCI("01", ">\n") PCI("01", "/>\n</pci>") TAIL, "line 4", "0000:01:00.0 is also in line 3" },
        { HEAD PCI("01", "link_speed=\"7 GT/s\"/>") TAIL, "line 3", "no PCIe generation" },
        { HEAD PCI("01", "link_width=\"-1\"/>") TAIL, "line 3", "not a number" },
        { HEAD PCI("01", "link_width=\"64\"/>") TAIL, "line 3", "no PCIe link" },
        { HEAD PCI("01", "link_width=\"99999999999999999999\"/>") TAIL, "line 3", "not a number" },
        { HEAD PCI("01", "class=\"gpu\"/>") TAIL, "line 3", "not a number" },
        { HEAD "<pci/>" TAIL, "line 3", "not a bus id" },
        { HEAD "<pci busid=\"01\"/>" TAIL, "line 3", "not a bus id" },
        { HEAD "<gpu/>" TAIL, "line 3", "<gpu> cannot stand inside cpu" },
        { HEAD "</cpu>\n<cpu numaid=\"0\">" TAIL, "line 4", "second <cpu>" },
        { HEAD PCI("01", "class=\"0x030200\">") "\n" PCI("02", "/>") "</pci>" TAIL, "line 4", "cannot hold" },
        { HEAD GPU("01", "<nvlink target=\"0000:01:00.0\" count=\"1\" tclass=\"0x030200\"/>") TAIL, "line 3",
          "its own GPU" },
        { HEAD GPU("01", "<nvlink target=\"0000:09:00.0\" count=\"1\" tclass=\"0x030200\"/>") TAIL, "line 3",
          "not in the file" },
        { HEAD GPU("01", "<nvlink target=\"0000:02:00.0\" count=\"2\" tclass=\"0x030200\"/>") GPU("02", "") TAIL,
          "line 3",
          "2 NVLinks to the other GPU, but 0 from it back" },
        { HEAD GPU("01", "<nvlink target=\"x\" count=\"2\" tclass=\"0x030200\"/>") TAIL, "line 3", "no bus id" },
        { HEAD GPU("01", "<nvlink target=\"0000:02:00.0\" count=\"0\"/>") TAIL, "line 3", "not a number" },
        { HEAD PCI("01", ">") "<gpu dev=\"0\"/>\n<gpu dev=\"0\"/></pci>" TAIL, "line 4", "second <gpu>" },
        { HEAD "<nic><net dev=\"x\"/></nic>" TAIL, "line 3", "not a number" },
        { "<!DOCTYPE a [<!ENTITY b \"bbbbbbbbbb\"><!ENTITY c \"&b;&b;&b;\">]>\n<system version=\"1\">&c;</system>",
          "line 1",
          "not allowed" },
    };
    NEEDS_EXPAT;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct rt_graph *g;
        CHECK_THAT(read_text(&g, cases[i].text) == RINGTREE_INVALID_ARGUMENT && !g, "%s", cases[i].text);
        CHECK_HAS(error.text, cases[i].line);
        CHECK_HAS(error.text, cases[i].why);
        rt_graph_free(g);
    }
}

/* `count` times `one`, between head and tail, with a number in each where it has "%". */
static char *repeated(const char *head, const char *one, unsigned count, const char *tail)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    fputs(head, out);
    for (unsigned i = 0; i < count; i++)
        for (const char *c = one; *c; c++)
            *c == '%' ? fprintf(out, "%04x:%02x", i >> 8, i & 0xff) : fputc(*c, out);
    fputs(tail, out);
    fclose(out);
    return text;
}

TEST(a_million_parts_and_a_thousand_levels_are_refused)
{
    NEEDS_EXPAT;
    struct rt_graph *g;
    char *flat = repeated(HEAD, "<pci busid=\"%:00.0\"/>\n", 300000, TAIL);
    char *deep = repeated(HEAD, "<pci busid=\"%:00.0\">\n", 1000, "");

    CHECK_EQ(read_text(&g, flat), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(error.text, "over 200000 elements");
    CHECK_EQ(read_text(&g, deep), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(error.text, "line 65: elements are nested over 64 deep");
    free(flat);
    free(deep);
}

TEST(elements_of_a_later_nccl_are_left_out_and_named)
{
    struct rt_graph *g;

    NEEDS_EXPAT;
    CHECK_THAT(read_text(&g, HEAD "<c2c bw=\"1\"><x/></c2c><y/>" PCI("01", "/>") TAIL) == RINGTREE_OK, "%s",
               error.text);
    CHECK_HAS(rt_attribute(g, 0, "ignored"), "c2c y");
    CHECK_EQ(rt_graph_count(g, RT_PCI_DEVICE), 1);
    rt_graph_free(g);
}

TEST(cpus_of_different_hosts_are_different_machines)
{
    struct rt_graph *g;

    NEEDS_EXPAT;
    CHECK_THAT(read_text(&g, "<system version=\"1\"><cpu host_hash=\"0xa\" numaid=\"0\">" PCI("01", "/>") "</cpu>"
                             "<cpu host_hash=\"0xb\" numaid=\"0\">" PCI("01", "/>") TAIL) == RINGTREE_OK, "%s",
                                 error.text);
    CHECK_EQ(g->nmachines, 2);
    rt_graph_free(g);
}

TEST_MAIN
