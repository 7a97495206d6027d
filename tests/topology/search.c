/* Rings and trees: the bandwidth found is the best known one, every rank is in every ring once, no link is overused. */
#include "test.h"
#include "base/clock.h"
#include "topology/file.h"
#include "topology/search.h"
#include "topology/synthetic.h"
#include "topology/xml.h"
#include "known.h"

static struct rt_error error;

/* Every seat once in each ring. */
static void check_rings(const char *text, const struct rt_search *s)
{
    uint32_t *ring = calloc(s->nseats, sizeof(*ring));
    bool *seen = calloc(s->graph->nvertices, sizeof(*seen));

    for (uint32_t c = 0; c < s->nchannels; c++) {
        memset(seen, 0, s->graph->nvertices * sizeof(*seen));
        rt_search_ring(s, c, ring);
        for (uint32_t i = 0; i < s->nseats; i++) {
            CHECK_THAT(!seen[ring[i]], "%s: channel %u visits a seat twice", text, c);
            seen[ring[i]] = true;
        }
    }
    free(ring);
    free(seen);
}

static struct rt_search *find(const char *text, struct rt_graph **g)
{
    struct rt_search *s = NULL;

    CHECK_THAT(rt_synthetic_read(g, text, &error) == RINGTREE_OK, "%s", error.text);
    if (*g)
        CHECK_THAT(rt_search(&s, *g, &error) == RINGTREE_OK, "%s: %s", text, error.text);
    return s;
}

TEST(the_bandwidth_found_is_the_best_known_one)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        struct rt_graph *g;
        struct rt_search *s = find(known[i].text, &g);
        if (s) {
            const float found = rt_search_gbs(s);
            CHECK_THAT(found > known[i].gbs * 0.999f && found < known[i].gbs * 1.001f,
                       "%s: %u x %g = %g GB/s, not %g (%llu looks)", known[i].name, s->nchannels, s->gbs, found,
                           known[i].gbs,
                       (unsigned long long)s->looks);
            check_rings(known[i].name, s);
        }
        rt_search_free(s);
        rt_graph_free(g);
    }
}

TEST(the_table_in_the_docs_is_what_is_found)
{
    char *docs, row[512];
    size_t length;

    if (rt_file_read(DOCS, &docs, &length, &error) != RINGTREE_OK) {
        TEST_FAIL("%s", error.text);
        return;
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        struct rt_graph *g;
        struct rt_search *s = find(known[i].text, &g);
        snprintf(row, sizeof(row), "\n| %s | `%s` | %u | %.4g | %.4g |\n", known[i].name, known[i].text,
                 s ? s->nchannels : 0, s ? (double)rt_search_gbs(s) : 0, (double)known[i].gbs);
        CHECK_THAT(strstr(docs, row), "%s lacks%s", DOCS, row);
        rt_search_free(s);
        rt_graph_free(g);
    }
    free(docs);
}

TEST(channels_stay_in_their_rail_and_use_every_port)
{
    struct rt_graph *g;
    struct rt_search *s = find(known[13].text, &g);
    bool used[8] = { false };

    for (uint32_t c = 0; s && c < s->nchannels; c++) {
        const struct rt_channel *channel = &s->rings[0]->channel[c];
        CHECK_EQ(channel->port_in, channel->port_out);
        used[channel->port_in] = true;
    }
    for (int i = 0; i < 8; i++)
        CHECK(used[i]);
    if (s) {
        CHECK_EQ(s->nrings, 1);
        CHECK(s->rings[0]->within == RT_PATH_NVLINK);
        CHECK_THAT(s->rings[0]->to_port <= RT_PATH_FORWARD, "%s", rt_path_name(s->rings[0]->to_port));
    }
    rt_search_free(s);
    rt_graph_free(g);
}

TEST(the_same_machine_gives_the_same_rings)
{
    struct rt_graph *g, *h;
    struct rt_search *s = find(known[2].text, &g), *t = find(known[2].text, &h);

    CHECK(s && t && s->nchannels == t->nchannels);
    for (uint32_t c = 0; s && t && c < s->nchannels; c++)
        CHECK(memcmp(s->rings[0]->channel[c].seat, t->rings[0]->channel[c].seat, 8 * sizeof(uint16_t)) == 0);
    rt_search_free(s);
    rt_search_free(t);
    rt_graph_free(g);
    rt_graph_free(h);
}

TEST(different_machines_have_what_all_have)
{
    struct rt_graph *g;
    struct rt_search *s =
        find("2 node: (2 nic 100G pcie:4x16; 4 gpu pcie:4x16); node: nic 100G pcie:4x16; 4 gpu pcie:4x16", &g);

    if (s) {
        CHECK_EQ(s->nrings, 2);
        CHECK_EQ(s->nseats, 12);
        CHECK_THAT(rt_search_gbs(s) <= 12.51f, "%g", rt_search_gbs(s));
        check_rings("mixed", s);
    }
    rt_search_free(s);
    rt_graph_free(g);
}

TEST(sixty_five_thousand_ranks_are_searched_in_a_moment)
{
    struct rt_graph *g;
    const uint64_t begin = rt_now_ns(&rt_system_clock);
    struct rt_search *s =
        find("8192 node: 2 socket: 4 pci pcie:5x16: gpu pcie:5x16 nvlink:18 switch sm:90; nic 400G pcie:5x16", &g);
    const uint64_t ms = (rt_now_ns(&rt_system_clock) - begin) / 1000000;

    CHECK(s && s->nseats == 65536);
    CHECK_THAT(ms < 10000, "%llu ms", (unsigned long long)ms);
    rt_search_free(s);
    rt_graph_free(g);
}

TEST(only_the_seats_that_ranks_use_are_searched)
{
    struct rt_graph *g;
    struct rt_search *all = find(known[2].text, &g), *s = NULL;
    /* four GPUs of the cube; the two that are far from each other have no NVLink between them */
    const uint32_t four[] = { all->seat[0], all->seat[1], all->seat[2], all->seat[3] };
    const uint32_t two[] = { all->seat[0], all->seat[5] }, twice[] = { all->seat[0], all->seat[0] };

    CHECK_THAT(rt_search_among(&s, g, four, 4, &error) == RINGTREE_OK, "%s", error.text);
    CHECK_THAT(s && s->nseats == 4 && rt_search_gbs(s) > 79.9f, "%g", s ? rt_search_gbs(s) : 0);
    rt_search_free(s);
    CHECK_THAT(rt_search_among(&s, g, two, 2, &error) == RINGTREE_OK, "%s", error.text);
    CHECK_THAT(s && rt_search_gbs(s) < 12.1f && s->rings[0]->within == RT_PATH_SOCKETS, "%g", s ? rt_search_gbs(s) : 0);
    rt_search_free(s);
    CHECK_EQ(rt_search_among(&s, g, twice, 2, &error), RINGTREE_INVALID_ARGUMENT);
    CHECK_EQ(rt_search_among(&s, g, four, 0, &error), RINGTREE_UNSUPPORTED);
    CHECK_HAS(error.text, "no rank lives on machine 0");
    rt_search_free(all);
    rt_graph_free(g);
}

TEST(what_cannot_be_connected_is_said)
{
    static const struct { const char *text, *why; } cases[] = {
        { "2 node: 2 gpu", "machine 0 of 2 has no network port" },
        { "node: (nic; gpu); node: 2 socket: gpu", "machine 1 of 2 has no network port" },
        { "2 node: 2 socket: 200 core; nic", "400 places for ranks" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct rt_graph *g;
        struct rt_search *s;
        CHECK_THAT(rt_synthetic_read(&g, cases[i].text, &error) == RINGTREE_OK, "%s", error.text);
        CHECK_EQ(rt_search(&s, g, &error), RINGTREE_UNSUPPORTED);
        CHECK_HAS(error.text, cases[i].why);
        rt_graph_free(g);
    }
}

/* Rings of `text` as XML. */
static char *rings_text(const struct rt_search *s)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    CHECK(rt_rings_write(s, 0, out));
    fclose(out);
    return text;
}

TEST(rings_are_written_and_read_again)
{
    static const size_t machines[] = { 2, 6, 13, 15 };
    const char *why;

    if (!rt_xml_available(&why))
        SKIP("%s", why);
    for (size_t i = 0; i < sizeof(machines) / sizeof(*machines); i++) {
        struct rt_graph *g;
        struct rt_search *s = find(known[machines[i]].text, &g);
        char *one = rings_text(s);
        CHECK_THAT(rt_rings_read(s, 0, one, strlen(one), "test", &error) == RINGTREE_OK, "%s", error.text);
        char *two = rings_text(s);
        CHECK_THAT(strcmp(one, two) == 0, "%s is not %s", one, two);
        free(one);
        free(two);
        rt_search_free(s);
        rt_graph_free(g);
    }
}

TEST(a_file_of_rings_that_this_machine_cannot_have_is_refused_with_its_line)
{
#define GRAPH(n, rest)                                                                                                 \
    "<graphs version=\"1\">\n<graph id=\"0\" pattern=\"4\" nchannels=\"" n "\" speedintra=\"10\">\n" rest
#define ENDS "</channel></graph></graphs>"
    static const struct { const char *text, *why; } cases[] = {
        { "<graphs/>", "line 1: there is no graph 0" },
        { "<system/>", "cannot stand here" },
        { GRAPH("0", "</graph></graphs>"), "line 2: nchannels is 1 to 32" },
        { GRAPH("99", "</graph></graphs>"), "line 2: nchannels is 1 to 32" },
        { GRAPH("1", "</graph></graphs>"), "line 3: there are 0 channels" },
        { GRAPH("1", "<channel><gpu dev=\"0\"/>" ENDS), "line 3: the channel visits 1 of 2" },
        { GRAPH("1", "<channel><gpu dev=\"0\"/>\n<gpu dev=\"0\"/>" ENDS), "line 4: the channel visits gpu 0 twice" },
        { GRAPH("1", "<channel><gpu dev=\"7\"/>" ENDS), "no <gpu> 7" },
        { GRAPH("1", "<channel><net dev=\"1\"/>" ENDS), "no <net> 1" },
        { GRAPH("1", "<channel><gpu dev=\"x\"/>" ENDS), "not a number" },
        { GRAPH("1", "<channel><gpu dev=\"0\"/><gpu dev=\"1\"/>" ENDS), "come and go by a <net>" },
    };
    struct rt_graph *g;
    struct rt_search *s = find("2 node: 2 gpu; nic", &g);
    const char *why;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases) && rt_xml_available(&why); i++) {
        const char *text = cases[i].text;
        CHECK_THAT(rt_rings_read(s, 0, text, strlen(text), "test", &error) == RINGTREE_INVALID_ARGUMENT, "%s", text);
        CHECK_HAS(error.text, cases[i].why);
    }
    rt_search_free(s);
    rt_graph_free(g);
}

TEST(both_trees_reach_every_machine_and_a_machine_passes_on_in_one_of_them)
{
    for (uint32_t n = 1; n <= 300; n++) {
        uint32_t both = 0;
        for (uint32_t m = 0; m < n; m++) {
            unsigned inner = 0;
            for (uint32_t c = 0; c < 2; c++) {
                const struct rt_tree tree = rt_search_tree(n, c, m);
                unsigned children = 0;
                for (int k = 0; k < 2; k++)
                    if (tree.child[k] != RT_NO_VERTEX) {
                        children++;
                        CHECK_THAT(tree.child[k] < n && rt_search_tree(n, c, tree.child[k]).parent == m,
                                   "n %u, m %u", n, m);
                    }
                inner += children > 0;
                uint32_t up = m, steps = 0;
                while (rt_search_tree(n, c, up).parent != RT_NO_VERTEX && steps++ <= 10)
                    up = rt_search_tree(n, c, up).parent;
                CHECK_THAT(steps <= 10, "n %u, m %u", n, m);
            }
            both += inner == 2;
        }
        CHECK_THAT(both <= 2, "n %u: %u machines pass on in both", n, both);
    }
}

TEST_MAIN
