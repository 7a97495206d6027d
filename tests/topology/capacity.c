/*
 * No found ring overuses a link, shown without the search's own books: every hop of every channel is laid over the
 * machine again, by ways found here, and what each direction of each link carries is added up here.
 */
#include "test.h"
#include "topology/load.h"
#include "topology/search.h"
#include "known.h"
#include <dirent.h>
#include <float.h>

#define MOST_VERTICES 512 /* of a graph; larger ones are of the same machines many times */

struct book {
    const struct rt_graph *g;
    float    left[4 * MOST_VERTICES][2]; /* of each edge from a to b, and back */
    float    cost[MOST_VERTICES];
    uint32_t by[MOST_VERTICES]; /* edge */
    bool     done[MOST_VERTICES];
};

static float capacity(const struct rt_graph *g, const struct rt_edge *e)
{
    float gbs = 0;

    if (e->kind != RT_PORT_LINK)
        return e->gbs.value;
    for (uint32_t i = 0; i < g->nedges; i++) /* a port is no faster than its network */
        gbs += g->edge[i].kind == RT_NETWORK && g->edge[i].a == e->b ? g->edge[i].gbs.value : 0;
    return gbs;
}

static bool open_book(struct book *b, const struct rt_graph *g)
{
    b->g = g;
    if (g->nvertices > MOST_VERTICES || g->nedges > 4 * MOST_VERTICES)
        return false;
    for (uint32_t e = 0; e < g->nedges; e++)
        b->left[e][0] = b->left[e][1] = capacity(g, &g->edge[e]);
    return true;
}

/* Data passes through everything but ports, cores and GPUs; through a GPU from NVLink to PCIe, towards a port. */
static bool passes(const struct book *b, uint32_t v, uint32_t begin, const struct rt_edge *out, bool to_port)
{
    const uint8_t kind = b->g->vertex[v].kind;

    if (v == begin)
        return true;
    if (kind == RT_GPU)
        return to_port && b->g->edge[b->by[v]].kind == RT_NVLINK && out->kind == RT_PCI_LINK;
    return kind != RT_PORT && kind != RT_CORES;
}

static float length(const struct rt_edge *e)
{
    static const float lengths[RT_EDGE_KINDS] = {
        [RT_NVLINK] = 1, [RT_PCI_LINK] = 4, [RT_HOST_LINK] = 8, [RT_INSIDE] = 4, [RT_BETWEEN] = 32, [RT_PORT_LINK] = 1,
    };
    return lengths[e->kind];
}

/* Shortest ways over links with that much left, the plain way: the nearest open vertex, again and again. */
static void find_ways(struct book *b, uint32_t begin, float gbs, bool to_port)
{
    const struct rt_graph *g = b->g;

    for (uint32_t v = 0; v < g->nvertices; v++)
        b->cost[v] = FLT_MAX, b->done[v] = false;
    b->cost[begin] = 0;
    for (uint32_t at = begin; at != RT_NO_VERTEX;) {
        b->done[at] = true;
        for (uint32_t i = g->edges_from[at]; i < g->edges_from[at + 1]; i++) {
            const uint32_t e = g->edge_of[i], to = rt_edge_other(&g->edge[e], at);
            const float cost = b->cost[at] + length(&g->edge[e]) + (g->vertex[at].kind == RT_GPU && at != begin) * 4;
            const bool full = g->edge[e].kind == RT_NETWORK || b->left[e][g->edge[e].a != at] < gbs * 0.9995f;
            if (full || cost >= b->cost[to] || !passes(b, at, begin, &g->edge[e], to_port))
                continue;
            b->cost[to] = cost;
            b->by[to] = e;
        }
        at = RT_NO_VERTEX;
        for (uint32_t v = 0; v < g->nvertices; v++)
            if (!b->done[v] && b->cost[v] < FLT_MAX && (at == RT_NO_VERTEX || b->cost[v] < b->cost[at]))
                at = v;
    }
}

static bool lay(struct book *b, uint32_t begin, uint32_t end, float gbs, bool to_port)
{
    if (begin == end)
        return true;
    find_ways(b, begin, gbs, to_port);
    if (b->cost[end] == FLT_MAX)
        return false;
    for (uint32_t at = end; at != begin;) {
        const struct rt_edge *e = &b->g->edge[b->by[at]];
        const uint32_t before = rt_edge_other(e, at);
        b->left[b->by[at]][e->a != before] -= gbs;
        at = before;
    }
    return true;
}

/* One machine's part of a channel: from port to seats to port, or round. */
static bool lay_channel(struct book *b, const struct rt_search *s, uint32_t machine, uint32_t channel, float gbs)
{
    const struct rt_rings *rings = s->rings[s->rings_of[machine]];
    const struct rt_channel *c = &rings->channel[channel];
    const uint32_t *seat = s->seat + s->seat_from[machine], *port = s->port + s->port_from[machine];
    const bool network = c->port_in != RT_NO_VERTEX;
    bool good = !network || lay(b, port[c->port_in], seat[c->seat[0]], gbs, false);

    for (uint32_t i = 0; i + 1 < rings->nseats && good; i++)
        good = lay(b, seat[c->seat[i]], seat[c->seat[i + 1]], gbs, false);
    const uint32_t last = seat[c->seat[rings->nseats - 1]];
    return good && lay(b, last, network ? port[c->port_out] : seat[c->seat[0]], gbs, network);
}

/* All channels of all machines at `part` of their speed; false: some hop finds no way with enough left. */
static bool fits(const struct rt_search *s, float part)
{
    static struct book book;

    if (!open_book(&book, s->graph)) {
        TEST_FAIL("a graph of %u parts and %u links is too large for the books", s->graph->nvertices, s->graph->nedges);
        return false;
    }
    for (uint32_t m = 0; m < s->nmachines; m++) {
        const struct rt_rings *rings = s->rings[s->rings_of[m]];
        for (uint32_t c = 0; c < rings->nchannels; c++)
            if (!lay_channel(&book, s, m, c, rings->gbs * part))
                return false;
    }
    for (uint32_t e = 0; e < s->graph->nedges; e++)
        for (int way = 0; way < 2; way++)
            CHECK_THAT(book.left[e][way] > -0.001f * s->graph->edge[e].gbs.value - 0.01f, "link %u is overused by %g",
                       e, (double)-book.left[e][way]);
    return true;
}

static struct rt_search *search(const char *source, struct rt_graph **g)
{
    struct rt_error error;
    struct rt_search *s = NULL;

    if (rt_machine_load(g, source, false, &error) != RINGTREE_OK || rt_search(&s, *g, &error) != RINGTREE_OK)
        TEST_SAY("%s: %s", source, error.text);
    return s;
}

/* "2 node:" rather than 16 or 64 of them: all are alike, and the search is done once for them. */
static const char *few_nodes(const char *text)
{
    static char shorter[512];
    const char *rest = strstr(text, " node:");

    snprintf(shorter, sizeof(shorter), "%s%s", rest ? "2" : "", rest ? rest : text);
    return shorter;
}

TEST(no_link_of_a_known_machine_is_overused)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        struct rt_graph *g = NULL;
        struct rt_search *s = search(few_nodes(known[i].text), &g);
        CHECK_THAT(s && fits(s, 1), "%s", known[i].name);
        rt_search_free(s);
        rt_graph_free(g);
    }
}

/* The bound is reached exactly there, so any more is too much: the books do see it. */
TEST(rings_that_are_a_little_faster_overuse_some_link)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        struct rt_graph *g = NULL;
        struct rt_search *s = search(few_nodes(known[i].text), &g);
        CHECK_THAT(s && !fits(s, 1.02f), "%s", known[i].name);
        rt_search_free(s);
        rt_graph_free(g);
    }
}

static void check_folder(const char *folder, unsigned *count)
{
    DIR *files = opendir(folder);
    char path[512];

    for (struct dirent *entry; files && (entry = readdir(files));) {
        const char *end = strrchr(entry->d_name, '.');
        if (!end || (strcmp(end, ".xml") != 0 && strcmp(end, ".machine") != 0))
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        struct rt_graph *g = NULL;
        struct rt_search *s = search(path, &g);
        CHECK_THAT(!s || fits(s, 1), "%s", entry->d_name);
        *count += s != NULL;
        rt_search_free(s);
        rt_graph_free(g);
    }
    if (files)
        closedir(files);
}

TEST(no_link_of_a_recorded_machine_is_overused)
{
    unsigned count = 0;

    check_folder(MACHINES, &count);
    CHECK_THAT(count >= 7, "%u machines", count); /* at least those in words */
    check_folder(MORE_MACHINES, &count);
}

TEST_MAIN
