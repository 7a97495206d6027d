/*
 * A skeleton completed by the live machine: parts with the same bus id are one; the rest of the live machine follows.
 */
#include "discover.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct merging {
    struct rt_graph       *to;
    const struct rt_graph *from;
    uint32_t              *map;     /* live vertex -> merged one, or RT_NO_VERTEX */
    uint32_t               machine; /* merged */
    uint32_t               copied;  /* vertices that came from the skeleton */
    bool                   nvlinks; /* the skeleton has its own */
};

static void copy_attributes(struct rt_graph *to, uint32_t v, const struct rt_graph *from, uint32_t w)
{
    const char *key, *value;

    for (uint32_t i = 0; rt_attribute_at(from, w, i, &key, &value); i++)
        if (!rt_attribute(to, v, key))
            rt_graph_attribute(to, v, key, value);
}

/* An unfinished graph of the same parts; values that were assumed are unknown again. NULL: no memory. */
static struct rt_graph *copy(const struct rt_graph *from)
{
    struct rt_graph *to = rt_graph_new();

    for (uint32_t v = 0; to && v < from->nvertices; v++) {
        const struct rt_vertex *w = &from->vertex[v];
        if (v > 0 && rt_graph_add(to, w->kind, w->parent) == RT_NO_VERTEX)
            break;
        to->vertex[v].number = w->number;
        to->vertex[v].count = w->count;
        to->vertex[v].pci_class = w->pci_class;
        to->vertex[v].busid = w->busid;
        rt_graph_name(to, v, rt_vertex_name(from, v));
        copy_attributes(to, v, from, v);
    }
    for (uint32_t i = 0; to && i < from->nedges; i++) {
        struct rt_edge *edge = rt_graph_connect(to, from->edge[i].kind, from->edge[i].a, from->edge[i].b);
        if (!edge)
            break;
        *edge = from->edge[i];
        if (edge->gbs.source == RT_ASSUMED)
            edge->gbs = (struct rt_value){ 0, RT_UNKNOWN };
        if (edge->us.source == RT_ASSUMED)
            edge->us = (struct rt_value){ 0, RT_UNKNOWN };
    }
    return to;
}

/* Of the merged machine: the vertex of that kind and number, or RT_NO_VERTEX; number -1 takes the first. */
static uint32_t find_kind(const struct merging *m, enum rt_vertex_kind kind, int32_t number)
{
    for (uint32_t v = 0; v < m->copied; v++)
        if (m->to->vertex[v].kind == kind && (number < 0 || m->to->vertex[v].number == number) &&
            (kind == RT_FABRIC || m->to->vertex[v].machine == m->machine))
            return v;
    return RT_NO_VERTEX;
}

/* Where a live processor's devices go: to the NUMA domain of the same number, else the first, else the machine. */
static uint32_t map_processor(const struct merging *m, uint32_t w)
{
    const struct rt_vertex *vertex = &m->from->vertex[w];
    uint32_t v = RT_NO_VERTEX;

    if (vertex->kind == RT_NUMA || vertex->kind == RT_PACKAGE)
        v = find_kind(m, RT_NUMA, vertex->number);
    if (v == RT_NO_VERTEX)
        v = find_kind(m, RT_NUMA, -1);
    return v == RT_NO_VERTEX ? m->machine : v;
}

static struct rt_edge *edge_up(struct rt_graph *g, uint32_t v)
{
    for (uint32_t i = 0; i < g->nedges; i++)
        if (g->edge[i].b == v && g->edge[i].a == g->vertex[v].parent)
            return &g->edge[i];
    return NULL;
}

static void take_edge(struct rt_edge *to, const struct rt_edge *from)
{
    if (!to || !from || to->gbs.source >= RT_KNOWN)
        return;
    if (from->gbs.source >= RT_KNOWN)
        to->gbs = from->gbs;
    if (from->generation)
        to->generation = from->generation;
    if (from->width)
        to->width = from->width;
}

static void take_vertex(struct rt_graph *to, uint32_t v, const struct rt_graph *from, uint32_t w)
{
    const struct rt_vertex *live = &from->vertex[w];
    struct rt_vertex *merged = &to->vertex[v];

    if (merged->kind == RT_PCI_DEVICE)
        merged->kind = live->kind;
    if (merged->pci_class == 0)
        merged->pci_class = live->pci_class;
    if (merged->number < 0)
        merged->number = live->number;
    if (rt_vertex_name(to, v)[0] == '\0')
        rt_graph_name(to, v, rt_vertex_name(from, w));
    copy_attributes(to, v, from, w);
}

static uint32_t add_part(struct merging *m, uint32_t w, uint32_t parent, enum rt_edge_kind kind)
{
    struct rt_edge *edge;
    const uint32_t v = rt_graph_attach(m->to, m->from->vertex[w].kind, parent, kind, &edge);

    if (v == RT_NO_VERTEX)
        return v;
    m->to->vertex[v].busid = m->from->vertex[w].busid;
    m->to->vertex[v].count = m->from->vertex[w].count;
    m->to->vertex[v].number = m->from->vertex[w].number;
    take_edge(edge, rt_edge_up(m->from, w));
    return v;
}

static uint32_t map_function(struct merging *m, uint32_t w)
{
    const struct rt_vertex *live = &m->from->vertex[w];
    uint32_t v = RT_NO_VERTEX;

    for (uint32_t i = 0; i < m->copied && live->busid != RT_NO_BUSID; i++)
        if (m->to->vertex[i].busid == live->busid && m->to->vertex[i].machine == m->machine)
            v = i;
    if (v != RT_NO_VERTEX)
        take_edge(edge_up(m->to, v), rt_edge_up(m->from, w));
    else if (rt_edge_up(m->from, w))
        v = add_part(m, w, m->map[live->parent], RT_PCI_LINK);
    else if (!m->nvlinks && (v = rt_graph_add(m->to, live->kind, m->machine)) != RT_NO_VERTEX)
        m->to->vertex[v].busid = live->busid;
    if (v != RT_NO_VERTEX)
        take_vertex(m->to, v, m->from, w);
    return v;
}

static const struct rt_edge *network_of(const struct rt_graph *g, uint32_t port)
{
    for (uint32_t i = g->edges_from[port]; i < g->edges_from[port + 1]; i++)
        if (g->edge[g->edge_of[i]].kind == RT_NETWORK)
            return &g->edge[g->edge_of[i]];
    return NULL;
}

static struct rt_edge *network_in(struct rt_graph *g, uint32_t port)
{
    for (uint32_t i = 0; i < g->nedges; i++)
        if (g->edge[i].kind == RT_NETWORK && g->edge[i].a == port)
            return &g->edge[i];
    return NULL;
}

/* The skeleton's port under the same NIC: of the same name, or one that stands for ports it does not name. */
static uint32_t find_port(const struct merging *m, uint32_t nic, const char *name)
{
    for (uint32_t v = 0; v < m->copied; v++) {
        const char *implied = rt_attribute(m->to, v, "implied");
        if (m->to->vertex[v].kind == RT_PORT && m->to->vertex[v].parent == nic &&
            ((implied && *implied) || strcmp(rt_vertex_name(m->to, v), name) == 0))
            return v;
    }
    return RT_NO_VERTEX;
}

static uint32_t map_port(struct merging *m, uint32_t w)
{
    const uint32_t parent = m->map[m->from->vertex[w].parent];
    uint32_t v = find_port(m, parent, rt_vertex_name(m->from, w)), fabric = find_kind(m, RT_FABRIC, -1);

    if (parent == RT_NO_VERTEX)
        return parent;
    if (v == RT_NO_VERTEX) {
        if (fabric == RT_NO_VERTEX) /* the live one was added, as it comes before the ports */
            fabric = m->map[rt_edge_other(network_of(m->from, w), w)];
        v = add_part(m, w, parent, RT_PORT_LINK);
        rt_graph_connect(m->to, RT_NETWORK, v, fabric);
    } else if (rt_attribute(m->to, v, "implied")) {
        rt_graph_attribute(m->to, v, "implied", "");
        m->to->vertex[v].number = m->from->vertex[w].number;
    }
    if (v == RT_NO_VERTEX)
        return v;
    take_vertex(m->to, v, m->from, w);
    take_edge(network_in(m->to, v), network_of(m->from, w));
    return v;
}

static uint32_t map_vertex(struct merging *m, uint32_t w)
{
    const struct rt_vertex *live = &m->from->vertex[w];
    uint32_t v;

    switch ((enum rt_vertex_kind)live->kind) {
    case RT_SYSTEM:  return 0;
    case RT_MACHINE:
        take_vertex(m->to, m->machine, m->from, w);
        return m->machine;
    case RT_FABRIC:
        v = find_kind(m, RT_FABRIC, -1);
        return v == RT_NO_VERTEX ? rt_graph_add(m->to, RT_FABRIC, 0) : v;
    case RT_PACKAGE:
    case RT_NUMA:
        v = map_processor(m, w);
        if (m->to->vertex[v].kind == RT_NUMA && m->to->vertex[v].number == live->number)
            copy_attributes(m->to, v, m->from, w);
        return v;
    case RT_CORES:       return add_part(m, w, m->map[live->parent], RT_INSIDE);
    case RT_HOST_BRIDGE: return map_processor(m, live->parent);
    case RT_PORT:        return map_port(m, w);
    default:             return map_function(m, w);
    }
}

static void take_nvlinks(struct merging *m)
{
    for (uint32_t i = 0; i < m->from->nedges && !m->nvlinks; i++) {
        const struct rt_edge *live = &m->from->edge[i];
        if (live->kind != RT_NVLINK || m->map[live->a] == RT_NO_VERTEX || m->map[live->b] == RT_NO_VERTEX)
            continue;
        struct rt_edge *edge = rt_graph_connect(m->to, RT_NVLINK, m->map[live->a], m->map[live->b]);
        if (edge)
            edge->count = live->count;
    }
}

static void count_absent(struct merging *m)
{
    unsigned absent = 0;
    char text[16];

    for (uint32_t v = 0; v < m->copied; v++)
        if (m->to->vertex[v].busid != RT_NO_BUSID && m->to->vertex[v].busid >> 16 != 0xffff &&
            rt_graph_at_busid(m->from, m->from->machine[0], m->to->vertex[v].busid) == RT_NO_VERTEX)
            absent++;
    snprintf(text, sizeof(text), "%u", absent);
    rt_graph_attribute(m->to, m->machine, "absent", text);
}

ringtree_status rt_graph_merge(struct rt_graph **merged, const struct rt_graph *skeleton, const struct rt_graph *live,
                               struct rt_error *error)
{
    struct merging m = { .to = copy(skeleton), .from = live, .map = calloc(live->nvertices, sizeof(*m.map)),
                         .machine = skeleton->machine[0], .copied = skeleton->nvertices };

    *merged = NULL;
    if (!m.to || !m.map) {
        rt_graph_free(m.to);
        free(m.map);
        return rt_fail(error, RINGTREE_NO_MEMORY, "no memory to merge two machines");
    }
    for (uint32_t i = 0; i < skeleton->nedges; i++)
        m.nvlinks |= skeleton->edge[i].kind == RT_NVLINK;
    for (uint32_t w = 0; w < live->nvertices && !rt_graph_failed(m.to); w++)
        m.map[w] = map_vertex(&m, w);
    if (!rt_graph_failed(m.to)) {
        take_nvlinks(&m);
        count_absent(&m);
    }
    free(m.map);
    const ringtree_status status = rt_graph_finish(m.to, error);
    if (status == RINGTREE_OK)
        *merged = m.to;
    else
        rt_graph_free(m.to);
    return status;
}
