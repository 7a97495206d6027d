/* Shortest ways in one machine over links that have enough left. */
#include "site.h"
#include <stdlib.h>
#include <string.h>

/*
 * What a link costs: a way over NVLink beats one over PCIe, a switch beats the processor, and that beats the link
 * between processors. Passing through a GPU to a port is dearer than a switch and cheaper than the processor.
 */
static const uint8_t link_cost[RT_EDGE_KINDS] = {
    [RT_NVLINK] = 1, [RT_PCI_LINK] = 4, [RT_HOST_LINK] = 8, [RT_INSIDE] = 4, [RT_BETWEEN] = 32, [RT_PORT_LINK] = 1,
};
#define FORWARD_COST 4

static uint32_t count_links(const struct rt_graph *g, uint32_t v)
{
    uint32_t count = 0;

    for (uint32_t i = g->edges_from[v]; i < g->edges_from[v + 1]; i++)
        count += g->edge[g->edge_of[i]].kind != RT_NETWORK;
    return count;
}

/* What a port can send and receive, all its networks together. */
static float port_gbs(const struct rt_graph *g, uint32_t v)
{
    float gbs = 0;

    for (uint32_t i = g->edges_from[v]; i < g->edges_from[v + 1]; i++)
        if (g->edge[g->edge_of[i]].kind == RT_NETWORK)
            gbs += g->edge[g->edge_of[i]].gbs.value;
    return gbs;
}

/* The links of every part, in the order of its edges. */
static void add_links(struct rt_site *s, const uint32_t *local)
{
    const struct rt_graph *g = s->graph;
    uint32_t links = 0;

    for (uint32_t p = 0; p < s->n; p++) {
        const uint32_t v = s->vertex[p];
        s->from[p] = links;
        for (uint32_t i = g->edges_from[v]; i < g->edges_from[v + 1]; i++) {
            const struct rt_edge *e = &g->edge[g->edge_of[i]];
            if (e->kind == RT_NETWORK)
                continue;
            const uint32_t to = local[rt_edge_other(e, v)];
            s->link[links] = (struct rt_site_link){ to, links, e->kind };
            s->room[links] = e->gbs.value;
            if (e->kind == RT_PORT_LINK)
                s->room[links] = port_gbs(g, e->b);
            links++;
        }
    }
    s->from[s->n] = links;
}

/* Each link gets the other direction of its edge: both ends list an edge, at most once each. */
static void pair_links(struct rt_site *s)
{
    const struct rt_graph *g = s->graph;

    for (uint32_t p = 0; p < s->n; p++) {
        uint32_t i = s->from[p];
        for (uint32_t k = g->edges_from[s->vertex[p]]; k < g->edges_from[s->vertex[p] + 1]; k++) {
            if (g->edge[g->edge_of[k]].kind == RT_NETWORK)
                continue;
            const uint32_t q = s->link[i].to;
            uint32_t j = s->from[q];
            for (uint32_t m = g->edges_from[s->vertex[q]]; g->edge_of[m] != g->edge_of[k]; m++)
                j += g->edge[g->edge_of[m]].kind != RT_NETWORK;
            s->link[i++].back = j;
        }
    }
}

static bool allocate(struct rt_site *s, uint32_t links)
{
    const size_t n = s->n + (size_t)1;

    s->vertex = calloc(n, sizeof(*s->vertex));
    s->parent = calloc(n, sizeof(*s->parent));
    s->kind = calloc(n, sizeof(*s->kind));
    s->is_seat = calloc(n, sizeof(*s->is_seat));
    s->from = calloc(n, sizeof(*s->from));
    s->seat = calloc(s->nseats + (size_t)1, sizeof(*s->seat));
    s->port = calloc(s->nports + (size_t)1, sizeof(*s->port));
    s->cost = calloc(n, sizeof(*s->cost));
    s->via = calloc(n, sizeof(*s->via));
    s->by = calloc(n, sizeof(*s->by));
    s->link = calloc(links + (size_t)1, sizeof(*s->link));
    s->room = calloc(links + (size_t)1, sizeof(*s->room));
    s->heap = calloc(links + (size_t)2, sizeof(*s->heap));
    return s->vertex && s->parent && s->kind && s->is_seat && s->from && s->seat && s->port && s->cost && s->via &&
           s->by && s->link && s->room && s->heap;
}

bool rt_site_open(struct rt_site *s, const struct rt_graph *graph, const uint32_t *vertex, uint32_t n,
                  const uint32_t *local, const uint32_t *seat, uint32_t nseats, const uint32_t *port, uint32_t nports)
{
    uint32_t links = 0;

    *s = (struct rt_site){ .graph = graph, .n = n, .nseats = nseats, .nports = nports };
    for (uint32_t p = 0; p < n; p++)
        links += count_links(graph, vertex[p]);
    if (!allocate(s, links))
        return false;
    for (uint32_t p = 0; p < n; p++) {
        s->vertex[p] = vertex[p];
        s->kind[p] = graph->vertex[vertex[p]].kind;
        s->parent[p] = s->kind[p] == RT_MACHINE ? RT_NO_VERTEX : local[graph->vertex[vertex[p]].parent];
    }
    for (uint32_t i = 0; i < nseats; i++)
        s->seat[i] = local[seat[i]], s->is_seat[s->seat[i]] = true;
    for (uint32_t i = 0; i < nports; i++)
        s->port[i] = local[port[i]];
    add_links(s, local);
    pair_links(s);
    return true;
}

void rt_site_close(struct rt_site *s)
{
    free(s->vertex);
    free(s->parent);
    free(s->kind);
    free(s->is_seat);
    free(s->from);
    free(s->seat);
    free(s->port);
    free(s->cost);
    free(s->via);
    free(s->by);
    free(s->link);
    free(s->room);
    free(s->heap);
}

/* A heap of (cost, part), so that equal ways are found in the order of parts. */
static void push(uint64_t *heap, uint32_t *count, uint64_t item)
{
    uint32_t i = (*count)++;

    for (; i > 0 && heap[(i - 1) / 2] > item; i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = item;
}

static uint64_t pop(uint64_t *heap, uint32_t *count)
{
    const uint64_t least = heap[0], last = heap[--(*count)];
    uint32_t i = 0;

    for (uint32_t child; (child = 2 * i + 1) < *count; i = child) {
        if (child + 1 < *count && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= last)
            break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return least;
}

/* What going on from `part` adds to the way, or RT_NO_VERTEX: nothing passes through it. */
static uint32_t passing_cost(const struct rt_site *s, uint32_t part, uint32_t begin, uint8_t out, bool forward)
{
    if (part == begin)
        return 0;
    if (s->kind[part] == RT_PORT || s->kind[part] == RT_CORES)
        return RT_NO_VERTEX;
    if (s->kind[part] != RT_GPU)
        return 0;
    return forward && out == RT_PCI_LINK && s->link[s->by[part]].kind == RT_NVLINK ? FORWARD_COST : RT_NO_VERTEX;
}

static void look_around(struct rt_site *s, uint32_t part, uint32_t begin, float gbs, bool forward, uint32_t *waiting)
{
    for (uint32_t i = s->from[part]; i < s->from[part + 1]; i++) {
        const struct rt_site_link *link = &s->link[i];
        const uint32_t passing = passing_cost(s, part, begin, link->kind, forward);
        if (s->room[i] < gbs || passing == RT_NO_VERTEX)
            continue;
        const uint32_t cost = s->cost[part] + link_cost[link->kind] + passing;
        if (cost >= s->cost[link->to])
            continue;
        s->cost[link->to] = cost;
        s->via[link->to] = part;
        s->by[link->to] = i;
        push(s->heap, waiting, (uint64_t)cost << 32 | link->to);
    }
}

void rt_site_look(struct rt_site *s, uint32_t begin, float gbs, bool forward)
{
    uint32_t waiting = 0;

    s->looks++;
    for (uint32_t p = 0; p < s->n; p++)
        s->cost[p] = RT_NO_VERTEX;
    s->cost[begin] = 0;
    s->via[begin] = RT_NO_VERTEX;
    push(s->heap, &waiting, begin);
    while (waiting) {
        const uint64_t item = pop(s->heap, &waiting);
        const uint32_t part = (uint32_t)item;
        if (s->cost[part] == item >> 32)
            look_around(s, part, begin, gbs, forward, &waiting);
    }
}

uint32_t rt_site_way(const struct rt_site *s, uint32_t end, uint32_t *link, uint32_t most)
{
    uint32_t count = 0;

    for (; s->via[end] != RT_NO_VERTEX; end = s->via[end]) {
        if (count == most)
            return 0;
        link[count++] = s->by[end];
    }
    return count;
}

enum rt_path rt_site_path(const struct rt_site *s, const uint32_t *link, uint32_t links)
{
    enum rt_path worst = RT_PATH_SAME;
    uint32_t pci = 0;

    for (uint32_t i = 0; i < links; i++) {
        const struct rt_site_link *l = &s->link[link[i]];
        enum rt_path here = RT_PATH_SAME;
        pci += l->kind == RT_PCI_LINK;
        if (l->kind == RT_NVLINK)
            here = RT_PATH_NVLINK;
        else if (l->kind == RT_PCI_LINK)
            here = pci > 2 ? RT_PATH_SWITCHES : RT_PATH_SWITCH;
        else if (l->kind == RT_BETWEEN)
            here = RT_PATH_SOCKETS;
        if (i > 0 && s->kind[l->to] == RT_GPU) /* links come last first: it is passed, not the end */
            here = RT_PATH_FORWARD;
        if (l->kind != RT_BETWEEN && s->kind[l->to] <= RT_HOST_BRIDGE && s->kind[l->to] != RT_CORES)
            here = RT_PATH_HOST;
        if (worst < here)
            worst = here;
    }
    return worst;
}
