/*
 * The end of a reading: numbers and ports that the file left out, bus ids that are twice in it, NVLinks to their
 * ends.
 */
#include "nccl_read.h"
#include <stdlib.h>

struct found {
    uint32_t machine, vertex;
    uint64_t busid;
};

static int compare_places(const struct found *a, const struct found *b)
{
    if (a->machine != b->machine)
        return a->machine < b->machine ? -1 : 1;
    return (a->busid > b->busid) - (a->busid < b->busid);
}

static int by_busid(const void *one, const void *two)
{
    const struct found *a = one, *b = two;

    const int order = compare_places(a, b);

    return order ? order : (a->vertex > b->vertex) - (a->vertex < b->vertex);
}

/* All functions by machine and bus id. NULL: refused. */
static struct found *sort_functions(struct rt_nccl_reading *r, struct rt_xml *xml, uint32_t *count)
{
    struct rt_graph *g = r->graph;
    struct found *list = calloc(g->nvertices, sizeof(*list));
    char text[24];

    *count = 0;
    if (!list) {
        rt_xml_fail(xml, 0, "no memory for %u parts", g->nvertices);
        return NULL;
    }
    for (uint32_t v = 0; v < g->nvertices; v++)
        if (g->vertex[v].busid != RT_NO_BUSID)
            list[(*count)++] = (struct found){ g->vertex[v].machine, v, g->vertex[v].busid };
    qsort(list, *count, sizeof(*list), by_busid);
    for (uint32_t i = 1; i < *count; i++) {
        const struct rt_vertex *one = &g->vertex[list[i - 1].vertex], *two = &g->vertex[list[i].vertex];
        if (compare_places(&list[i - 1], &list[i]) != 0)
            continue;
        rt_xml_fail(xml, two->count, "the bus id %s is also in line %u", rt_busid_text(two->busid, text), one->count);
        free(list);
        return NULL;
    }
    return list;
}

static uint32_t find_function(const struct found *list, uint32_t count, uint32_t machine, uint64_t busid)
{
    const struct found wanted = { machine, 0, busid };
    uint32_t low = 0, high = count;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (compare_places(&list[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && compare_places(&list[low], &wanted) == 0 ? list[low].vertex : RT_NO_VERTEX;
}

static uint32_t processor_of(const struct rt_graph *g, uint32_t vertex)
{
    while (g->vertex[vertex].kind != RT_NUMA)
        vertex = g->vertex[vertex].parent;
    return vertex;
}

static bool resolve(struct rt_nccl_reading *r, struct rt_xml *xml, const struct found *list, uint32_t count,
                    struct rt_nccl_link *link, uint32_t first_added)
{
    struct rt_graph *g = r->graph;
    const uint32_t machine = g->vertex[link->gpu].machine;
    const bool to_switch = link->target_class >> 8 == 0x0680;
    char text[24];

    if (link->target_busid != RT_NO_BUSID)
        link->target = find_function(list, count, machine, link->target_busid);
    if (link->target == RT_NO_VERTEX && to_switch)
        link->target = rt_graph_nvswitch(g, machine, link->target_busid, first_added);
    else if (link->target_class >> 8 == 0x0604) /* the GPU's processor, on POWER */
        link->target = processor_of(g, link->target == RT_NO_VERTEX ? link->gpu : link->target);
    if (link->target == RT_NO_VERTEX && link->target_busid == RT_NO_BUSID)
        return rt_xml_fail(xml, link->line, "the <nvlink>'s target is no bus id");
    if (link->target == RT_NO_VERTEX)
        return rt_xml_fail(xml, link->line, "the <nvlink> leads to %s, which is not in the file",
                           rt_busid_text(link->target_busid, text));
    if (link->target == link->gpu)
        return rt_xml_fail(xml, link->line, "the <nvlink> leads back to its own GPU");
    const uint8_t kind = g->vertex[link->target].kind;
    if (kind != RT_GPU && kind != RT_NVSWITCH && kind != RT_NUMA)
        return rt_xml_fail(xml, link->line, "the <nvlink> leads to a %s", rt_vertex_kind_name(kind));
    return true;
}

static int by_ends(const void *one, const void *two)
{
    const struct rt_nccl_link *a = one, *b = two;
    const uint64_t x = (uint64_t)a->gpu << 32 | a->target, y = (uint64_t)b->gpu << 32 | b->target;

    if (x != y)
        return x < y ? -1 : 1;
    return (a->line > b->line) - (a->line < b->line);
}

static uint32_t merge_equal(struct rt_nccl_link *link, uint32_t count)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (kept && link[kept - 1].gpu == link[i].gpu && link[kept - 1].target == link[i].target)
            link[kept - 1].count += link[i].count;
        else
            link[kept++] = link[i];
    }
    return kept;
}

static const struct rt_nccl_link *find_link(const struct rt_nccl_reading *r, uint32_t gpu, uint32_t target)
{
    const struct rt_nccl_link wanted = { .gpu = gpu, .target = target };

    for (uint32_t low = 0, high = r->nlinks; low < high;) {
        const uint32_t middle = low + (high - low) / 2;
        const struct rt_nccl_link *link = &r->link[middle];
        if (link->gpu == gpu && link->target == target)
            return link;
        if (((uint64_t)link->gpu << 32 | link->target) < ((uint64_t)wanted.gpu << 32 | wanted.target))
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* Between two GPUs each says what it sees, and both see the same. */
static bool add_edges(struct rt_nccl_reading *r, struct rt_xml *xml)
{
    for (uint32_t i = 0; i < r->nlinks; i++) {
        const struct rt_nccl_link *link = &r->link[i];
        const bool to_gpu = r->graph->vertex[link->target].kind == RT_GPU;
        const struct rt_nccl_link *back = to_gpu ? find_link(r, link->target, link->gpu) : NULL;
        if (to_gpu && (!back || back->count != link->count))
            return rt_xml_fail(xml, link->line, "there are %u NVLinks to the other GPU, but %u from it back",
                               link->count, back ? back->count : 0);
        if (to_gpu && link->gpu > link->target)
            continue;
        struct rt_edge *edge = rt_graph_connect(r->graph, RT_NVLINK, link->gpu, link->target);
        if (!edge)
            return true; /* the graph's failure is looked at next */
        edge->count = (uint16_t)(link->count < UINT16_MAX ? link->count : UINT16_MAX);
    }
    return true;
}

/* What is inside a part comes right after it, but for the fabric, which is added with the first port. */
static bool has_port(const struct rt_graph *g, uint32_t nic)
{
    for (uint32_t v = nic + 1; v < g->nvertices && (g->vertex[v].parent >= nic || g->vertex[v].kind == RT_FABRIC); v++)
        if (g->vertex[v].kind == RT_PORT && g->vertex[v].parent == nic)
            return true;
    return false;
}

/*
 * GPUs and NICs of which none has a number get them in their order; a NIC without <net> gets a port of unknown speed.
 */
static void complete(struct rt_nccl_reading *r)
{
    struct rt_graph *g = r->graph;
    const uint32_t known = g->nvertices;
    int32_t gpus = 0, nics = 0;
    bool numbered = false;

    for (uint32_t v = 0; v < known; v++)
        numbered |= g->vertex[v].kind == RT_GPU && g->vertex[v].number >= 0;
    for (uint32_t v = 0; v < known; v++) {
        g->vertex[v].count = 0; /* it held the line */
        if (g->vertex[v].kind == RT_MACHINE)
            gpus = nics = 0;
        if (g->vertex[v].kind == RT_GPU && !numbered)
            g->vertex[v].number = gpus++;
        if (g->vertex[v].kind != RT_NIC)
            continue;
        g->vertex[v].number = nics++;
        if (has_port(g, v))
            continue;
        if (r->fabric == RT_NO_VERTEX)
            r->fabric = rt_graph_add(g, RT_FABRIC, 0);
        const uint32_t port = rt_graph_attach(g, RT_PORT, v, RT_PORT_LINK, NULL);
        rt_graph_connect(g, RT_NETWORK, port, r->fabric);
        rt_graph_attribute(g, port, "implied", "1");
    }
    for (uint32_t i = 0; i < r->nhosts; i++)
        rt_graph_join_processors(g, r->host[i].vertex, 0);
}

bool rt_nccl_resolve_links(struct rt_nccl_reading *r, struct rt_xml *xml)
{
    uint32_t count;
    struct found *list = sort_functions(r, xml, &count);
    const uint32_t first_added = r->graph->nvertices;
    bool fine = list != NULL;

    for (uint32_t i = 0; i < r->nlinks && fine; i++)
        fine = resolve(r, xml, list, count, &r->link[i], first_added);
    free(list);
    if (!fine)
        return false;
    complete(r);
    qsort(r->link, r->nlinks, sizeof(*r->link), by_ends);
    r->nlinks = merge_equal(r->link, r->nlinks);
    return add_edges(r, xml);
}
