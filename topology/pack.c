/*
 * Numbers are varints of 7 bits, least first; a text is its length and bytes; a value is its source and a float's bits.
 *
 *   machine = version nparts part* nedges edge*
 *   part    = kind parent number+1 count class busid+1 name nattributes (key value)*    parent: an earlier part
 *   edge    = kind a b+1 generation width count gbs us                                  b+1 = 0: the fabric
 */
#include "pack.h"
#include <stdlib.h>
#include <string.h>

#define VERSION 1

struct writer {
    uint8_t *bytes;
    size_t   used, room;
    bool     failed;
};

static void put_bytes(struct writer *w, const void *bytes, size_t length)
{
    if (!w->failed && w->used + length > w->room) {
        const size_t room = 2 * w->room + length + 256;
        uint8_t *larger = realloc(w->bytes, room);
        w->failed = !larger;
        if (larger)
            w->bytes = larger, w->room = room;
    }
    if (w->failed)
        return;
    memcpy(w->bytes + w->used, bytes, length);
    w->used += length;
}

static void put(struct writer *w, uint64_t value)
{
    uint8_t bytes[10];
    size_t length = 0;

    do {
        bytes[length++] = (uint8_t)(value & 0x7f) | (value > 0x7f ? 0x80 : 0);
    } while (value >>= 7);
    put_bytes(w, bytes, length);
}

static void put_text(struct writer *w, const char *text)
{
    put(w, strlen(text));
    put_bytes(w, text, strlen(text));
}

static void put_value(struct writer *w, const struct rt_value *value)
{
    uint32_t bits;

    memcpy(&bits, &value->value, sizeof(bits));
    const uint8_t bytes[] = { value->source, (uint8_t)bits, (uint8_t)(bits >> 8), (uint8_t)(bits >> 16),
                              (uint8_t)(bits >> 24) };
    put_bytes(w, bytes, sizeof(bytes));
}

static void put_part(struct writer *w, const struct rt_graph *g, uint32_t v, const uint32_t *local)
{
    const struct rt_vertex *vertex = &g->vertex[v];
    const char *key, *value;
    uint32_t attributes = 0;

    put(w, vertex->kind);
    put(w, vertex->kind == RT_MACHINE ? 0 : local[vertex->parent]);
    put(w, (uint64_t)(vertex->number + INT64_C(1)));
    put(w, vertex->count);
    put(w, vertex->pci_class);
    put(w, vertex->busid + 1);
    put_text(w, rt_vertex_name(g, v));
    while (rt_attribute_at(g, v, attributes, &key, &value))
        attributes++;
    put(w, attributes);
    for (uint32_t i = 0; rt_attribute_at(g, v, i, &key, &value); i++) {
        put_text(w, key);
        put_text(w, value);
    }
}

static void put_edge(struct writer *w, const struct rt_graph *g, const struct rt_edge *e, const uint32_t *local)
{
    put(w, e->kind);
    put(w, local[e->a]);
    put(w, g->vertex[e->b].kind == RT_FABRIC ? 0 : local[e->b] + UINT64_C(1));
    put(w, e->generation);
    put(w, e->width);
    put(w, e->count);
    put_value(w, &e->gbs);
    put_value(w, &e->us);
}

ringtree_status rt_graph_pack(const struct rt_graph *g, uint32_t machine, uint8_t **bytes, size_t *length,
                              struct rt_error *error)
{
    struct writer w = { .failed = false };
    uint32_t *local = calloc(g->nvertices, sizeof(*local)), parts = 0, edges = 0;

    w.failed = !local;
    for (uint32_t v = 0; v < g->nvertices && local; v++)
        if (g->vertex[v].machine == machine)
            local[v] = parts++;
    put(&w, VERSION);
    put(&w, parts);
    for (uint32_t v = 0; v < g->nvertices && local; v++)
        if (g->vertex[v].machine == machine)
            put_part(&w, g, v, local);
    for (uint32_t i = 0; i < g->nedges; i++)
        edges += g->vertex[g->edge[i].a].machine == machine;
    put(&w, edges);
    for (uint32_t i = 0; i < g->nedges && local; i++)
        if (g->vertex[g->edge[i].a].machine == machine)
            put_edge(&w, g, &g->edge[i], local);
    free(local);
    if (w.failed || w.used > RT_PACKED_MOST_BYTES) {
        free(w.bytes);
        return w.failed ? rt_fail(error, RINGTREE_NO_MEMORY, "no memory to describe this machine to other ranks")
                        : rt_fail(error, RINGTREE_UNSUPPORTED, "this machine's %u parts take %zu bytes to describe to "
                                                               "other "
                                  "ranks, over %u", parts, w.used, RT_PACKED_MOST_BYTES);
    }
    *bytes = w.bytes;
    *length = w.used;
    return RINGTREE_OK;
}

struct reader {
    struct rt_graph *graph;
    const uint8_t   *bytes;
    size_t           length, at;
    uint32_t         machine, fabric; /* vertices */
    char             text[2][2048];
    bool             damaged;
};

/* A number up to `most`; after damage always 0. */
static uint64_t get(struct reader *r, uint64_t most)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64 && r->at < r->length && !r->damaged; shift += 7) {
        const uint8_t byte = r->bytes[r->at++];
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte & 0x80)
            continue;
        r->damaged = value > most;
        return r->damaged ? 0 : value;
    }
    r->damaged = true;
    return 0;
}

static const char *get_text(struct reader *r, unsigned which)
{
    char *text = r->text[which];
    const size_t length = (size_t)get(r, sizeof(r->text[0]) - 1);

    if (length > r->length - r->at)
        r->damaged = true;
    if (r->damaged)
        return "";
    memcpy(text, r->bytes + r->at, length);
    text[length] = '\0';
    r->at += length;
    return text;
}

static struct rt_value get_value(struct reader *r)
{
    struct rt_value value = { 0, RT_UNKNOWN };

    if (r->damaged || r->length - r->at < 5) {
        r->damaged = true;
        return value;
    }
    const uint8_t *from = r->bytes + r->at;
    const uint32_t bits = from[1] | (uint32_t)from[2] << 8 | (uint32_t)from[3] << 16 | (uint32_t)from[4] << 24;
    memcpy(&value.value, &bits, sizeof(bits));
    value.source = from[0];
    r->at += 5;
    return value;
}

/* The first part is the machine, and no other is. */
static void get_part(struct reader *r, uint32_t index)
{
    struct rt_graph *g = r->graph;
    const uint64_t kind = get(r, RT_VERTEX_KINDS - 1), parent = get(r, index ? index - 1 : 0);

    if ((kind == RT_MACHINE) != (index == 0) || kind == RT_SYSTEM || kind == RT_FABRIC)
        r->damaged = true;
    if (r->damaged)
        return;
    const uint32_t v = rt_graph_add(g, (enum rt_vertex_kind)kind, index ? r->machine + (uint32_t)parent : 0);
    const int32_t number = (int32_t)((int64_t)get(r, INT32_MAX) - 1);
    const uint32_t count = (uint32_t)get(r, UINT32_MAX), pci_class = (uint32_t)get(r, 0xffffff);
    const uint64_t busid = get(r, UINT64_C(1) << 48) - 1;
    if (v == RT_NO_VERTEX || r->damaged)
        return;
    g->vertex[v].number = number;
    g->vertex[v].count = count;
    g->vertex[v].pci_class = pci_class;
    g->vertex[v].busid = busid;
    rt_graph_name(g, v, get_text(r, 0));
    for (uint64_t i = get(r, 64); i > 0 && !r->damaged; i--) {
        const char *key = get_text(r, 0), *value = get_text(r, 1);
        rt_graph_attribute(g, v, key, value);
    }
}

static void get_edge(struct reader *r, uint32_t parts)
{
    const uint64_t kind = get(r, RT_EDGE_KINDS - 1), a = get(r, parts - 1), b = get(r, parts);
    const uint8_t generation = (uint8_t)get(r, UINT8_MAX), width = (uint8_t)get(r, UINT8_MAX);
    const uint16_t count = (uint16_t)get(r, UINT16_MAX);
    const struct rt_value gbs = get_value(r), us = get_value(r);

    if (r->damaged || (b == 0) != (kind == RT_NETWORK) || a + 1 == b) {
        r->damaged = true;
        return;
    }
    if (b == 0 && r->fabric == RT_NO_VERTEX)
        r->fabric = rt_graph_add(r->graph, RT_FABRIC, 0);
    struct rt_edge *e = rt_graph_connect(r->graph, (enum rt_edge_kind)kind, r->machine + (uint32_t)a,
                                         b ? r->machine + (uint32_t)b - 1 : r->fabric);
    if (!e)
        return;
    e->generation = generation;
    e->width = width;
    e->count = count;
    e->gbs = gbs;
    e->us = us;
}

static void get_machine(struct reader *r, const struct rt_packed *packed, uint32_t index)
{
    r->bytes = packed->bytes;
    r->length = packed->length;
    r->at = 0;
    r->damaged = packed->length > RT_PACKED_MOST_BYTES || get(r, VERSION) != VERSION;
    r->machine = r->graph->nvertices;
    const uint32_t parts = (uint32_t)get(r, packed->length); /* each takes bytes */
    r->damaged |= parts == 0;
    for (uint32_t i = 0; i < parts && !r->damaged && !rt_graph_failed(r->graph); i++)
        get_part(r, i);
    if (!r->damaged && !rt_graph_failed(r->graph))
        r->graph->vertex[r->machine].number = (int32_t)index;
    const uint32_t edges = (uint32_t)get(r, packed->length);
    for (uint32_t i = 0; i < edges && !r->damaged && !rt_graph_failed(r->graph); i++)
        get_edge(r, parts);
    if (r->damaged || (r->at != r->length && !rt_graph_failed(r->graph)))
        rt_graph_refuse(r->graph, RINGTREE_INVALID_ARGUMENT, "the description of machine %u by rank %u (host %s), %zu "
                        "bytes, is damaged at byte %zu, or from another version of ringtree", index, packed->rank,
                        packed->host ? packed->host : "?", packed->length, r->at);
}

ringtree_status rt_graph_unite(struct rt_graph **united, const struct rt_packed *machine, uint32_t count,
                               struct rt_error *error)
{
    struct reader *r = calloc(1, sizeof(*r));
    struct rt_graph *g = rt_graph_new();

    *united = NULL;
    if (!r || !g) {
        free(r);
        rt_graph_free(g);
        return rt_fail(error, RINGTREE_NO_MEMORY, "no memory for the machines of %u hosts", count);
    }
    r->graph = g;
    r->fabric = RT_NO_VERTEX;
    for (uint32_t i = 0; i < count && !rt_graph_failed(g); i++)
        get_machine(r, &machine[i], i);
    free(r);
    const ringtree_status status = rt_graph_finish(g, error);
    if (status == RINGTREE_OK)
        *united = g;
    else
        rt_graph_free(g);
    return status;
}
