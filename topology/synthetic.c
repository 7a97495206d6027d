/* Builds the machines that a synthetic text describes. */
#include "synthetic.h"
#include "rates.h"
#include "synthetic_parse.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_GPUS 1024 /* of one machine */

struct builder {
    const struct rt_synthetic *synthetic;
    struct rt_graph           *graph;
    uint32_t                   fabric; /* RT_NO_VERTEX until a NIC needs it */
    /* of the machine that is being built */
    uint32_t                   machine, number[RT_VERTEX_KINDS], functions, ngpus;
    float                      link_gbs;
    struct { uint32_t vertex; const struct rt_synthetic_item *item; } gpu[MOST_GPUS];
};

/* PCI functions of a machine are numbered through, so that it can be written as XML. */
static uint64_t next_busid(struct builder *b)
{
    const uint64_t n = ++b->functions;

    return (n >> 8) << 16 | (n & 0xff) << 8;
}

static uint32_t add_function(struct builder *b, const struct rt_synthetic_item *item, uint32_t parent)
{
    static const uint32_t classes[RT_VERTEX_KINDS] = {
        [RT_PCI_SWITCH] = 0x060400, [RT_GPU] = 0x030200, [RT_NIC] = 0x020000, [RT_NVSWITCH] = 0x068000,
    };
    struct rt_edge *edge;
    const uint32_t v = rt_graph_attach(b->graph, item->kind, parent, RT_PCI_LINK, &edge);

    if (v == RT_NO_VERTEX)
        return v;
    edge->generation = item->generation;
    edge->width = item->width;
    b->graph->vertex[v].busid = next_busid(b);
    b->graph->vertex[v].pci_class = classes[item->kind];
    return v;
}

static void add_ports(struct builder *b, const struct rt_synthetic_item *item, uint32_t nic)
{
    for (uint32_t i = 0; i < item->ports && nic != RT_NO_VERTEX; i++) {
        const uint32_t port = rt_graph_attach(b->graph, RT_PORT, nic, RT_PORT_LINK, NULL);
        struct rt_edge *edge = rt_graph_connect(b->graph, RT_NETWORK, port, b->fabric);
        if (!edge)
            return;
        b->graph->vertex[port].number = (int32_t)b->number[RT_PORT]++;
        if (item->gbit > 0)
            edge->gbs = (struct rt_value){ item->gbit / 8, RT_KNOWN };
    }
}

static void keep_gpu(struct builder *b, const struct rt_synthetic_item *item, uint32_t gpu)
{
    char sm[8];

    if (gpu == RT_NO_VERTEX)
        return;
    if (item->sm) {
        snprintf(sm, sizeof(sm), "%u", item->sm);
        rt_graph_attribute(b->graph, gpu, "sm", sm);
    }
    if (item->shape == RT_NVLINK_NONE)
        return;
    if (b->ngpus == MOST_GPUS)
        rt_graph_refuse(b->graph, RINGTREE_INVALID_ARGUMENT, "a machine can have at most %d GPUs with NVLink",
                        MOST_GPUS);
    else
        b->gpu[b->ngpus].vertex = gpu, b->gpu[b->ngpus++].item = item;
}

static uint32_t add_one(struct builder *b, const struct rt_synthetic_item *item, uint32_t parent)
{
    uint32_t v;

    switch (item->kind) {
    case RT_PACKAGE: v = rt_graph_add(b->graph, RT_PACKAGE, parent); break;
    case RT_NUMA:
        if (b->graph->vertex[parent].kind == RT_MACHINE)
            v = rt_graph_add(b->graph, RT_NUMA, parent);
        else
            v = rt_graph_attach(b->graph, RT_NUMA, parent, RT_INSIDE, NULL);
        break;
    case RT_CORES: v = rt_graph_attach(b->graph, RT_CORES, parent, RT_INSIDE, NULL); break;
    default:       v = add_function(b, item, parent); break;
    }
    if (v == RT_NO_VERTEX)
        return v;
    b->graph->vertex[v].number = (int32_t)b->number[item->kind]++;
    b->graph->vertex[v].count = item->kind == RT_CORES;
    if (item->link_gbs > 0 && b->graph->vertex[parent].kind == RT_MACHINE)
        b->link_gbs = item->link_gbs;
    if (item->kind == RT_GPU)
        keep_gpu(b, item, v);
    else if (item->kind == RT_NIC)
        add_ports(b, item, v);
    return v;
}

/* Depth is bounded by the reader of the text. */
static void add_list(struct builder *b, uint8_t first, uint32_t parent)
{
    for (uint8_t i = first; i != RT_SYNTHETIC_NONE; i = b->synthetic->item[i].next) {
        const struct rt_synthetic_item *item = &b->synthetic->item[i];
        for (uint32_t k = 0; k < item->count && !rt_graph_failed(b->graph); k++)
            add_list(b, item->inside, add_one(b, item, parent));
    }
}

static void link_gpus(struct builder *b, uint32_t i, uint32_t k, uint32_t links)
{
    struct rt_edge *edge = links ? rt_graph_connect(b->graph, RT_NVLINK, b->gpu[i].vertex, b->gpu[k].vertex) : NULL;

    if (edge)
        edge->count = (uint16_t)links;
}

static void link_switch(struct builder *b)
{
    const uint32_t nvswitch = rt_graph_add(b->graph, RT_NVSWITCH, b->machine);

    if (nvswitch == RT_NO_VERTEX)
        return;
    b->graph->vertex[nvswitch].busid = next_busid(b);
    b->graph->vertex[nvswitch].pci_class = 0x068000;
    b->graph->vertex[nvswitch].number = 0;
    for (uint32_t i = 0; i < b->ngpus; i++) {
        struct rt_edge *edge = rt_graph_connect(b->graph, RT_NVLINK, b->gpu[i].vertex, nvswitch);
        if (edge)
            edge->count = b->gpu[i].item->nvlinks;
    }
}

static void link_mesh(struct builder *b, uint32_t links)
{
    const uint32_t each = b->ngpus > 1 ? links / (b->ngpus - 1) : 0;

    if (each == 0)
        rt_graph_refuse(b->graph, RINGTREE_INVALID_ARGUMENT, "%u NVLinks cannot make a mesh of %u GPUs", links,
                        b->ngpus);
    for (uint32_t i = 0; i < b->ngpus; i++)
        for (uint32_t k = i + 1; k < b->ngpus; k++)
            link_gpus(b, i, k, each);
}

static void link_ring(struct builder *b, uint32_t links)
{
    if (b->ngpus < 2 || (b->ngpus > 2 && links % 2))
        rt_graph_refuse(b->graph, RINGTREE_INVALID_ARGUMENT, "%u NVLinks cannot make a ring of %u GPUs", links,
                        b->ngpus);
    else if (b->ngpus == 2)
        link_gpus(b, 0, 1, links);
    else
        for (uint32_t i = 0; i < b->ngpus; i++)
            link_gpus(b, i, (i + 1) % b->ngpus, links / 2);
}

/* The links of DGX-1 with V100: six of each GPU, two where the matrix says 2. */
static void link_cube(struct builder *b, uint32_t links)
{
    static const uint8_t cube[8][8] = {
        { 0, 1, 1, 2, 2 }, { 1, 0, 2, 1, 0, 2 }, { 1, 2, 0, 2, 0, 0, 1 }, { 2, 1, 2, 0, 0, 0, 0, 1 },
        { 2, 0, 0, 0, 0, 1, 1, 2 }, { 0, 2, 0, 0, 1, 0, 2, 1 }, { 0, 0, 1, 0, 1, 2, 0, 2 }, { 0, 0, 0, 1, 2, 1, 2, 0 },
    };
    if (b->ngpus != 8 || links % 6)
        rt_graph_refuse(b->graph, RINGTREE_INVALID_ARGUMENT, "a cube has 8 GPUs of 6 NVLinks, not %u of %u", b->ngpus,
                        links);
    else
        for (uint32_t i = 0; i < 8; i++)
            for (uint32_t k = i + 1; k < 8; k++)
                link_gpus(b, i, k, cube[i][k] * links / 6);
}

static void link_machine(struct builder *b)
{
    if (b->ngpus == 0)
        return;
    const struct rt_synthetic_item *item = b->gpu[0].item;
    for (uint32_t i = 1; i < b->ngpus; i++)
        if (b->gpu[i].item->shape != item->shape || (item->shape != RT_NVLINK_SWITCH &&
                                                     b->gpu[i].item->nvlinks != item->nvlinks))
            rt_graph_refuse(b->graph, RINGTREE_INVALID_ARGUMENT, "the GPUs of one machine have different NVLinks");
    switch (item->shape) {
    case RT_NVLINK_SWITCH: link_switch(b); break;
    case RT_NVLINK_MESH:   link_mesh(b, item->nvlinks); break;
    case RT_NVLINK_RING:   link_ring(b, item->nvlinks); break;
    default:               link_cube(b, item->nvlinks); break;
    }
}

static void add_machine(struct builder *b, uint8_t first)
{
    const uint32_t number = b->number[RT_MACHINE];

    memset(b->number, 0, sizeof(b->number));
    b->functions = b->ngpus = 0;
    b->link_gbs = 0;
    b->machine = rt_graph_add(b->graph, RT_MACHINE, 0);
    if (b->machine == RT_NO_VERTEX)
        return;
    b->graph->vertex[b->machine].number = (int32_t)number;
    b->number[RT_MACHINE] = number + 1;
    add_list(b, first, b->machine);
    rt_graph_join_processors(b->graph, b->machine, b->link_gbs);
    link_machine(b);
}

static void add_system(struct builder *b)
{
    const struct rt_synthetic *s = b->synthetic;
    bool network = false;

    for (uint32_t i = 0; i < s->nitems; i++)
        network |= s->item[i].kind == RT_NIC;
    b->fabric = network ? rt_graph_add(b->graph, RT_FABRIC, 0) : RT_NO_VERTEX;
    if (s->item[0].kind != RT_MACHINE) {
        add_machine(b, 0);
        return;
    }
    for (uint8_t i = 0; i != RT_SYNTHETIC_NONE; i = s->item[i].next)
        for (uint32_t k = 0; k < s->item[i].count && !rt_graph_failed(b->graph); k++)
            add_machine(b, s->item[i].inside);
}

/* A device beside sockets would be connected to none of them. */
static ringtree_status check_places(const struct rt_synthetic *s, uint8_t first, const char *text,
                                    struct rt_error *error)
{
    bool processors = false;

    for (uint8_t i = first; i != RT_SYNTHETIC_NONE; i = s->item[i].next)
        processors |= s->item[i].kind == RT_PACKAGE || s->item[i].kind == RT_NUMA;
    for (uint8_t i = first; i != RT_SYNTHETIC_NONE; i = s->item[i].next)
        if (processors && s->item[i].kind > RT_NUMA)
            return rt_fail(error, RINGTREE_INVALID_ARGUMENT,
                           "column %u of the machine \"%s\": beside sockets or NUMA domains a %s is connected to "
                           "nothing; put it inside one", s->item[i].column, text, rt_vertex_kind_name(s->item[i].kind));
    return RINGTREE_OK;
}

static ringtree_status check_synthetic(const struct rt_synthetic *s, const char *text, struct rt_error *error)
{
    if (s->item[0].kind != RT_MACHINE)
        return check_places(s, 0, text, error);
    for (uint8_t i = 0; i != RT_SYNTHETIC_NONE; i = s->item[i].next) {
        const ringtree_status status = check_places(s, s->item[i].inside, text, error);
        if (status != RINGTREE_OK)
            return status;
    }
    return RINGTREE_OK;
}

ringtree_status rt_synthetic_read(struct rt_graph **graph, const char *text, struct rt_error *error)
{
    struct rt_synthetic synthetic;
    ringtree_status status = rt_synthetic_parse(&synthetic, text, error);

    *graph = NULL;
    if (status == RINGTREE_OK)
        status = check_synthetic(&synthetic, text, error);
    if (status != RINGTREE_OK)
        return status;
    struct builder *b = calloc(1, sizeof(*b));
    struct rt_graph *g = rt_graph_new();
    if (!b || !g) {
        free(b);
        rt_graph_free(g);
        return rt_fail(error, RINGTREE_NO_MEMORY, "no memory for a synthetic machine");
    }
    b->synthetic = &synthetic;
    b->graph = g;
    add_system(b);
    free(b);
    status = rt_graph_finish(g, error);
    if (status == RINGTREE_OK)
        *graph = g;
    else
        rt_graph_free(g);
    return status;
}
