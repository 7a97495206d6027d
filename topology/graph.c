/* Building a graph: vertices, edges, texts in arrays that double; the first failure sticks. */
#include "graph_store.h"
#include <stdlib.h>
#include <string.h>

void rt_graph_refuse(struct rt_graph *graph, ringtree_status status, const char *format, ...)
{
    va_list args;

    if (rt_graph_failed(graph))
        return;
    va_start(args, format);
    rt_vfail(&graph->store->failure, status, format, args);
    va_end(args);
}

bool rt_graph_failed(const struct rt_graph *graph)
{
    return graph->store->failure.status != RINGTREE_OK;
}

/* Room for `wanted` items, at most `most`. */
static bool grow(struct rt_graph *graph, void *array, uint32_t *room, uint64_t wanted, uint32_t most, size_t size,
                 const char *what)
{
    void **items = array;
    uint64_t larger = *room ? *room : 64;

    if (rt_graph_failed(graph))
        return false;
    if (wanted <= *room)
        return true;
    if (wanted > most) {
        rt_graph_refuse(graph, RINGTREE_INVALID_ARGUMENT, "the machine is too large: over %u %s", most, what);
        return false;
    }
    while (larger < wanted)
        larger *= 2;
    void *moved = realloc(*items, larger * size);
    if (!moved) {
        rt_graph_refuse(graph, RINGTREE_NO_MEMORY, "no memory for %" PRIu64 " %s of a machine", wanted, what);
        return false;
    }
    *items = moved;
    *room = (uint32_t)larger;
    return true;
}

/* Offset of a copy; 0 for "" and after a failure. */
static uint32_t keep_text(struct rt_graph *graph, const char *text)
{
    struct rt_graph_store *s = graph->store;
    const size_t length = strlen(text) + 1;
    const uint32_t offset = s->text_used;

    if (length == 1 ||
        !grow(graph, &s->text, &s->text_room, s->text_used + (uint64_t)length, RT_GRAPH_MOST_TEXT, 1, "bytes of names"))
        return 0;
    memcpy(s->text + offset, text, length);
    s->text_used += (uint32_t)length;
    return offset;
}

struct rt_graph *rt_graph_new(void)
{
    struct rt_graph *graph = calloc(1, sizeof(*graph));

    if (!graph)
        return NULL;
    graph->store = calloc(1, sizeof(*graph->store));
    if (graph->store && grow(graph, &graph->store->text, &graph->store->text_room, 1, RT_GRAPH_MOST_TEXT, 1, "bytes")) {
        graph->store->text[0] = '\0';
        graph->store->text_used = 1;
        if (rt_graph_add(graph, RT_SYSTEM, RT_NO_VERTEX) == 0)
            return graph;
    }
    rt_graph_free(graph);
    return NULL;
}

void rt_graph_free(struct rt_graph *graph)
{
    if (!graph)
        return;
    if (graph->store) {
        free(graph->store->text);
        free(graph->store->attribute);
        free(graph->store->by_busid);
        free(graph->store);
    }
    free(graph->vertex);
    free(graph->edge);
    free(graph->edge_of);
    free(graph->edges_from);
    free(graph->child);
    free(graph->children_from);
    free(graph->machine);
    free(graph);
}

uint32_t rt_graph_add(struct rt_graph *graph, enum rt_vertex_kind kind, uint32_t parent)
{
    const uint32_t index = graph->nvertices;

    if (!grow(graph, &graph->vertex, &graph->store->vertex_room, index + UINT64_C(1), RT_GRAPH_MOST_VERTICES,
              sizeof(*graph->vertex), "parts"))
        return RT_NO_VERTEX;
    if ((index == 0) != (kind == RT_SYSTEM) || (index > 0 && parent >= index)) {
        rt_graph_refuse(graph, RINGTREE_INTERNAL, "a %s was added inside part %u of %u", rt_vertex_kind_name(kind),
                        parent, index);
        return RT_NO_VERTEX;
    }
    struct rt_vertex vertex = { .kind = (uint8_t)kind, .parent = parent, .machine = RT_NO_VERTEX, .number = -1,
                                .busid = RT_NO_BUSID };
    if (kind == RT_MACHINE)
        vertex.machine = index;
    else if (index > 0)
        vertex.machine = graph->vertex[parent].machine;
    graph->vertex[index] = vertex;
    graph->nvertices++;
    return index;
}

void rt_graph_name(struct rt_graph *graph, uint32_t vertex, const char *name)
{
    if (vertex < graph->nvertices)
        graph->vertex[vertex].name = keep_text(graph, name);
}

static struct rt_graph_attribute *find_attribute(const struct rt_graph *graph, uint32_t vertex, const char *key)
{
    const struct rt_graph_store *s = graph->store;

    for (uint32_t i = graph->vertex[vertex].attributes; i; i = s->attribute[i - 1].next)
        if (strcmp(s->text + s->attribute[i - 1].key, key) == 0)
            return &s->attribute[i - 1];
    return NULL;
}

static void append_attribute(struct rt_graph *graph, uint32_t vertex, const struct rt_graph_attribute *attribute)
{
    struct rt_graph_store *s = graph->store;
    uint32_t *end = &graph->vertex[vertex].attributes;

    if (!grow(graph, &s->attribute, &s->attribute_room, s->nattributes + UINT64_C(1), RT_GRAPH_MOST_VERTICES * 8,
              sizeof(*s->attribute), "attributes"))
        return;
    while (*end)
        end = &s->attribute[*end - 1].next;
    s->attribute[s->nattributes++] = *attribute;
    *end = s->nattributes;
}

void rt_graph_attribute(struct rt_graph *graph, uint32_t vertex, const char *key, const char *value)
{
    if (vertex >= graph->nvertices)
        return;
    const uint32_t value_at = keep_text(graph, value);
    struct rt_graph_attribute *known = find_attribute(graph, vertex, key);

    if (known)
        known->value = value_at;
    else
        append_attribute(graph, vertex, &(struct rt_graph_attribute){ keep_text(graph, key), value_at, 0 });
}

struct rt_edge *rt_graph_connect(struct rt_graph *graph, enum rt_edge_kind kind, uint32_t a, uint32_t b)
{
    if (!grow(graph, &graph->edge, &graph->store->edge_room, graph->nedges + UINT64_C(1), RT_GRAPH_MOST_EDGES,
              sizeof(*graph->edge), "links"))
        return NULL;
    if (a >= graph->nvertices || b >= graph->nvertices || a == b) {
        rt_graph_refuse(graph, RINGTREE_INTERNAL, "a %s between parts %u and %u of %u", rt_edge_kind_name(kind), a, b,
                        graph->nvertices);
        return NULL;
    }
    struct rt_edge *edge = &graph->edge[graph->nedges++];
    *edge = (struct rt_edge){ .a = a, .b = b, .kind = (uint8_t)kind, .count = 1 };
    return edge;
}

uint32_t rt_graph_attach(struct rt_graph *graph, enum rt_vertex_kind kind, uint32_t parent, enum rt_edge_kind edge_kind,
                         struct rt_edge **edge)
{
    const uint32_t vertex = rt_graph_add(graph, kind, parent);
    struct rt_edge *joined = vertex == RT_NO_VERTEX ? NULL : rt_graph_connect(graph, edge_kind, parent, vertex);

    if (edge)
        *edge = joined;
    return joined ? vertex : RT_NO_VERTEX;
}

static void join(struct rt_graph *graph, uint32_t a, uint32_t b, float gbs)
{
    struct rt_edge *edge = rt_graph_connect(graph, RT_BETWEEN, a, b);

    if (edge && gbs > 0)
        edge->gbs = (struct rt_value){ gbs, RT_KNOWN };
}

static bool is_processor_of(const struct rt_graph *graph, uint32_t vertex, uint32_t machine)
{
    return graph->vertex[vertex].parent == machine &&
           (graph->vertex[vertex].kind == RT_PACKAGE || graph->vertex[vertex].kind == RT_NUMA);
}

void rt_graph_join_processors(struct rt_graph *graph, uint32_t machine, float gbs)
{
    bool devices = false;

    for (uint32_t v = machine + 1; v < graph->nvertices; v++)
        devices |= graph->vertex[v].parent == machine && graph->vertex[v].kind > RT_NUMA &&
                   graph->vertex[v].kind != RT_NVSWITCH;
    for (uint32_t a = machine + 1; a < graph->nvertices; a++) {
        if (!is_processor_of(graph, a, machine))
            continue;
        if (devices)
            join(graph, machine, a, gbs);
        for (uint32_t b = a + 1; b < graph->nvertices && !rt_graph_failed(graph); b++)
            if (is_processor_of(graph, b, machine))
                join(graph, a, b, gbs);
    }
}

const char *rt_vertex_name(const struct rt_graph *graph, uint32_t vertex)
{
    return graph->store->text + graph->vertex[vertex].name;
}

const char *rt_attribute(const struct rt_graph *graph, uint32_t vertex, const char *key)
{
    const struct rt_graph_attribute *found = find_attribute(graph, vertex, key);

    return found ? graph->store->text + found->value : NULL;
}

bool rt_attribute_at(const struct rt_graph *graph, uint32_t vertex, uint32_t index, const char **key,
                     const char **value)
{
    const struct rt_graph_store *s = graph->store;
    uint32_t i = graph->vertex[vertex].attributes;

    while (i && index--)
        i = s->attribute[i - 1].next;
    if (!i)
        return false;
    *key = s->text + s->attribute[i - 1].key;
    *value = s->text + s->attribute[i - 1].value;
    return true;
}

uint32_t rt_graph_nvswitch(struct rt_graph *g, uint32_t machine, uint64_t busid, uint32_t first)
{
    int32_t number = 0;

    for (uint32_t v = first; v < g->nvertices; v++) {
        if (g->vertex[v].kind != RT_NVSWITCH || g->vertex[v].machine != machine)
            continue;
        if (g->vertex[v].busid == busid)
            return v;
        number++;
    }
    const uint32_t v = rt_graph_add(g, RT_NVSWITCH, machine);
    if (v != RT_NO_VERTEX) {
        g->vertex[v].busid = busid;
        g->vertex[v].pci_class = 0x068000;
        g->vertex[v].number = number;
    }
    return v;
}
