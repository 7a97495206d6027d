/* Closing a graph: every edge and bus id is checked, then vertices find their edges, children and bus ids by index. */
#include "graph_store.h"
#include "rates.h"
#include <math.h>
#include <stdlib.h>

#define KIND(kind)  (1u << (kind))
#define PROCESSORS (KIND(RT_MACHINE) | KIND(RT_PACKAGE) | KIND(RT_NUMA) | KIND(RT_CORES))
#define FUNCTIONS  (KIND(RT_PCI_SWITCH) | KIND(RT_PCI_DEVICE) | KIND(RT_GPU) | KIND(RT_NIC) | KIND(RT_NVSWITCH))

/* The kinds that an edge may have at its ends. */
static const struct { uint32_t a, b; } ends[RT_EDGE_KINDS] = {
    [RT_NVLINK]    = { KIND(RT_GPU), KIND(RT_GPU) | KIND(RT_NVSWITCH) | PROCESSORS },
    [RT_PCI_LINK]  = { PROCESSORS | KIND(RT_HOST_BRIDGE) | KIND(RT_PCI_SWITCH) | KIND(RT_PCI_DEVICE), FUNCTIONS },
    [RT_HOST_LINK] = { PROCESSORS, KIND(RT_HOST_BRIDGE) },
    [RT_INSIDE]    = { PROCESSORS, PROCESSORS },
    [RT_BETWEEN]   = { PROCESSORS, PROCESSORS },
    [RT_PORT_LINK] = { KIND(RT_NIC) | PROCESSORS, KIND(RT_PORT) },
    [RT_NETWORK]   = { KIND(RT_PORT), KIND(RT_FABRIC) },
};

static bool value_is_sane(const struct rt_value *value)
{
    return value->source <= RT_MEASURED && isfinite(value->value) && value->value >= 0 &&
           (value->source != RT_UNKNOWN || value->value == 0);
}

/* Why the edge cannot be; NULL: it can. */
static const char *edge_fault(const struct rt_graph *graph, const struct rt_edge *e)
{
    const struct rt_vertex *a = &graph->vertex[e->a], *b = &graph->vertex[e->b];

    if (!(ends[e->kind].a & KIND(a->kind)) || !(ends[e->kind].b & KIND(b->kind)))
        return "cannot join such parts";
    if (e->kind != RT_NETWORK && a->machine != b->machine)
        return "joins parts of two machines";
    if (!value_is_sane(&e->gbs) || !value_is_sane(&e->us) || e->count == 0)
        return "has an impossible speed";
    return NULL;
}

static void check_edge(struct rt_graph *graph, const struct rt_edge *e)
{
    const char *fault = edge_fault(graph, e);
    char one[96], two[96];

    if (fault)
        rt_graph_refuse(graph, RINGTREE_INVALID_ARGUMENT, "the %s of %s and %s (%u times, %g GB/s, %g us) %s",
                        rt_edge_kind_name(e->kind), rt_vertex_text(graph, e->a, one, sizeof(one)),
                        rt_vertex_text(graph, e->b, two, sizeof(two)), e->count, e->gbs.value, e->us.value, fault);
}

static int by_busid(const void *one, const void *two, void *context)
{
    const struct rt_graph *graph = context;
    const uint32_t i = *(const uint32_t *)one, k = *(const uint32_t *)two;
    const struct rt_vertex *a = &graph->vertex[i], *b = &graph->vertex[k];

    if (a->machine != b->machine)
        return a->machine < b->machine ? -1 : 1;
    if (a->busid != b->busid)
        return a->busid < b->busid ? -1 : 1;
    return (i > k) - (i < k);
}

static void index_busids(struct rt_graph *graph)
{
    struct rt_graph_store *s = graph->store;
    char text[24];

    for (uint32_t v = 0; v < graph->nvertices; v++)
        if (graph->vertex[v].busid != RT_NO_BUSID)
            s->by_busid[s->nbusids++] = v;
    qsort_r(s->by_busid, s->nbusids, sizeof(*s->by_busid), by_busid, graph);
    for (uint32_t i = 1; i < s->nbusids; i++) {
        const struct rt_vertex *a = &graph->vertex[s->by_busid[i - 1]], *b = &graph->vertex[s->by_busid[i]];
        if (a->machine == b->machine && a->busid == b->busid)
            rt_graph_refuse(graph, RINGTREE_INVALID_ARGUMENT, "the bus id %s is there twice",
                            rt_busid_text(a->busid, text));
    }
}

/* from[v] and items[] by counting: those of v come in the order of adding. Edges have two owners, vertices one. */
static void index_edges(struct rt_graph *graph)
{
    uint32_t *from = graph->edges_from;

    for (uint32_t e = 0; e < graph->nedges; e++)
        from[graph->edge[e].a + 1]++, from[graph->edge[e].b + 1]++;
    for (uint32_t v = 0; v < graph->nvertices; v++)
        from[v + 1] += from[v];
    for (uint32_t e = graph->nedges; e-- > 0;) {
        graph->edge_of[--from[graph->edge[e].a + 1]] = e;
        graph->edge_of[--from[graph->edge[e].b + 1]] = e;
    }
    for (uint32_t v = 0; v < graph->nvertices; v++)
        from[v] = from[v + 1];
    from[graph->nvertices] = 2 * graph->nedges;
}

static void index_children(struct rt_graph *graph)
{
    uint32_t *from = graph->children_from;

    for (uint32_t v = 1; v < graph->nvertices; v++)
        from[graph->vertex[v].parent + 1]++;
    for (uint32_t v = 0; v < graph->nvertices; v++)
        from[v + 1] += from[v];
    for (uint32_t v = graph->nvertices; v-- > 1;)
        graph->child[--from[graph->vertex[v].parent + 1]] = v;
    for (uint32_t v = 0; v < graph->nvertices; v++)
        from[v] = from[v + 1];
    from[graph->nvertices] = graph->nvertices - 1;
}

static void index_machines(struct rt_graph *graph)
{
    for (uint32_t v = 0; v < graph->nvertices; v++)
        if (graph->vertex[v].kind == RT_MACHINE)
            graph->machine[graph->nmachines++] = v;
    if (graph->nmachines == 0)
        rt_graph_refuse(graph, RINGTREE_INVALID_ARGUMENT, "there is no machine in it");
}

static bool allocate_indexes(struct rt_graph *graph)
{
    const size_t n = graph->nvertices + (size_t)1;

    graph->edge_of = calloc(2 * (size_t)graph->nedges + 1, sizeof(uint32_t));
    graph->edges_from = calloc(n, sizeof(uint32_t));
    graph->child = calloc(n, sizeof(uint32_t));
    graph->children_from = calloc(n, sizeof(uint32_t));
    graph->machine = calloc(n, sizeof(uint32_t));
    graph->store->by_busid = calloc(n, sizeof(uint32_t));
    return graph->edge_of && graph->edges_from && graph->child && graph->children_from && graph->machine &&
           graph->store->by_busid;
}

ringtree_status rt_graph_finish(struct rt_graph *graph, struct rt_error *error)
{
    const struct rt_error *failure = &graph->store->failure;

    if (!rt_graph_failed(graph))
        rt_graph_assume(graph);
    for (uint32_t e = 0; e < graph->nedges && !rt_graph_failed(graph); e++)
        check_edge(graph, &graph->edge[e]);
    if (!rt_graph_failed(graph) && !allocate_indexes(graph))
        rt_graph_refuse(graph, RINGTREE_NO_MEMORY, "no memory to index %u parts of a machine", graph->nvertices);
    if (!rt_graph_failed(graph)) {
        index_edges(graph);
        index_children(graph);
        index_machines(graph);
        index_busids(graph);
    }
    return rt_graph_failed(graph) ? rt_fail(error, failure->status, "%s", failure->text) : RINGTREE_OK;
}

uint32_t rt_graph_at_busid(const struct rt_graph *graph, uint32_t machine, uint64_t busid)
{
    const struct rt_graph_store *s = graph->store;
    uint32_t low = 0, high = s->nbusids;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const struct rt_vertex *v = &graph->vertex[s->by_busid[middle]];
        if (v->machine < machine || (v->machine == machine && v->busid < busid))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == s->nbusids)
        return RT_NO_VERTEX;
    const struct rt_vertex *v = &graph->vertex[s->by_busid[low]];
    return v->machine == machine && v->busid == busid ? s->by_busid[low] : RT_NO_VERTEX;
}

uint32_t rt_graph_count(const struct rt_graph *graph, enum rt_vertex_kind kind)
{
    uint32_t count = 0;

    for (uint32_t v = 0; v < graph->nvertices; v++)
        count += graph->vertex[v].kind == kind;
    return count;
}

const struct rt_edge *rt_edge_up(const struct rt_graph *graph, uint32_t vertex)
{
    for (uint32_t i = graph->edges_from[vertex]; i < graph->edges_from[vertex + 1]; i++) {
        const struct rt_edge *edge = &graph->edge[graph->edge_of[i]];
        if (rt_edge_other(edge, vertex) == graph->vertex[vertex].parent)
            return edge;
    }
    return NULL;
}
