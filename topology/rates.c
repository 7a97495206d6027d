/*
 * What links are worth until they are measured, in GB/s of payload and microseconds.
 *
 * PCIe payload is 3/4 of the raw rate: 12 GB/s of 16 at 3.0 x16, what GPUs and NICs were seen to reach. An NVLink's
 * payload per direction was 18 of 20 GB/s on P100, 20 of 25 on V100 and A100, 20.6 on H100, 40.1 of 50 on B200; a
 * PCIe card's bridge (sm 86) 12. Nothing in a file tells how fast sockets are joined; device to device they were seen
 * to carry 10 GB/s on Skylake, 22 on Sapphire Rapids (model 143 and later), 16 on EPYC.
 */
#include "rates.h"
#include <stdlib.h>
#include <string.h>

static const struct { const char *number; unsigned generation; float gbs_per_lane; } pci[] = {
    { "2.5", 1, 0.1875f }, { "5", 2, 0.375f }, { "8", 3, 0.75f }, { "16", 4, 1.5f }, { "32", 5, 3 }, { "64", 6, 6 },
};
enum { PCI_GENERATIONS = sizeof(pci) / sizeof(*pci) };

float rt_pci_gbs(unsigned generation, unsigned width)
{
    return generation >= 1 && generation <= PCI_GENERATIONS ? pci[generation - 1].gbs_per_lane * (float)width : 0;
}

static const char *skip_spaces(const char *text)
{
    while (*text == ' ')
        text++;
    return text;
}

/* What may follow the number: "GT/s", then nothing, "PCIe" or "PCIe/s". */
static bool is_speed_unit(const char *text)
{
    text = skip_spaces(text);
    if (strncmp(text, "GT/s", 4) != 0)
        return false;
    text = skip_spaces(text + 4);
    if (strncmp(text, "PCIe", 4) == 0)
        text += strncmp(text + 4, "/s", 2) == 0 ? 6 : 4;
    return *skip_spaces(text) == '\0';
}

int rt_pci_generation(const char *text)
{
    text = skip_spaces(text);
    if (*text == '\0' || strncmp(text, "Unknown", 7) == 0)
        return 0;
    for (unsigned i = 0; i < PCI_GENERATIONS; i++) {
        const size_t length = strlen(pci[i].number);
        if (strncmp(text, pci[i].number, length) != 0)
            continue;
        const char *rest = text + length;
        if (rest[0] == '.' && i > 0) /* "8.0" */
            rest += rest[1] == '0' ? 2 : 0;
        if (is_speed_unit(rest))
            return (int)pci[i].generation;
    }
    return -1;
}

const char *rt_pci_speed_text(unsigned generation)
{
    static const char *const texts[] = {
        "", "2.5 GT/s PCIe", "5.0 GT/s PCIe", "8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe", "64.0 GT/s PCIe",
    };
    return generation < sizeof(texts) / sizeof(*texts) ? texts[generation] : "";
}

float rt_nvlink_gbs(unsigned sm)
{
    if (sm >= 100) return 40.1f;
    if (sm >= 90)  return 20.6f;
    if (sm == 86)  return 12;
    if (sm >= 70)  return 20;
    return sm >= 60 ? 18 : 0;
}

static unsigned sm_of(const struct rt_graph *graph, const struct rt_edge *edge)
{
    const char *sm = rt_attribute(graph, edge->a, "sm");

    return sm ? (unsigned)strtoul(sm, NULL, 10) : 0;
}

/* An NVLink's rate is known where the GPU's generation is. */
static struct rt_value nvlink_value(const struct rt_graph *graph, const struct rt_edge *edge)
{
    const float one = rt_nvlink_gbs(sm_of(graph, edge));

    if (one > 0)
        return (struct rt_value){ one * edge->count, RT_KNOWN };
    return (struct rt_value){ 20.0f * edge->count, RT_ASSUMED };
}

static float between_gbs(const struct rt_graph *graph, uint32_t processor)
{
    const char *vendor = rt_attribute(graph, processor, "vendor"), *model = rt_attribute(graph, processor, "modelid");

    if (vendor && strcmp(vendor, "AuthenticAMD") == 0)
        return 16;
    return vendor && model && strcmp(vendor, "GenuineIntel") == 0 && strtoul(model, NULL, 10) >= 143 ? 22 : 10;
}

static struct rt_value gbs_of(const struct rt_graph *graph, const struct rt_edge *edge)
{
    const float pci_gbs = rt_pci_gbs(edge->generation, edge->width);

    switch ((enum rt_edge_kind)edge->kind) {
    case RT_NVLINK:    return nvlink_value(graph, edge);
    case RT_PCI_LINK:  return (struct rt_value){ pci_gbs, pci_gbs > 0 ? RT_KNOWN : RT_UNKNOWN };
    case RT_HOST_LINK: return (struct rt_value){ 200, RT_ASSUMED };
    case RT_INSIDE:    return (struct rt_value){ graph->vertex[edge->b].kind == RT_CORES ? 10 : 100, RT_ASSUMED };
    case RT_BETWEEN:   return (struct rt_value){ between_gbs(graph, edge->b), RT_ASSUMED };
    case RT_PORT_LINK: return (struct rt_value){ 200, RT_ASSUMED };
    default:           return (struct rt_value){ 12.5f, RT_ASSUMED }; /* 100 Gbit/s */
    }
}

static float us_of(const struct rt_edge *edge)
{
    static const float us[RT_EDGE_KINDS] = {
        [RT_NVLINK] = 0.7f, [RT_PCI_LINK] = 0.4f,  [RT_HOST_LINK] = 0.1f, [RT_INSIDE] = 0.1f,
        [RT_BETWEEN] = 0.2f, [RT_PORT_LINK] = 0.1f, [RT_NETWORK] = 1.5f,
    };
    return us[edge->kind];
}

/*
 * A PCIe link of unknown speed is assumed as fast as the fastest known one that meets it (a switch's uplink as its
 * devices' links), else as the fastest known of the machine, else as 4.0 x16.
 */
static void assume_pci(struct rt_graph *graph, float *at_vertex, float *of_machine)
{
    for (uint32_t i = 0; i < graph->nedges; i++) {
        const struct rt_edge *e = &graph->edge[i];
        if (e->kind != RT_PCI_LINK || e->gbs.source < RT_KNOWN)
            continue;
        float *const places[] = { &at_vertex[e->a], &at_vertex[e->b], &of_machine[graph->vertex[e->b].machine] };
        for (unsigned k = 0; k < 3; k++)
            if (*places[k] < e->gbs.value)
                *places[k] = e->gbs.value;
    }
    for (uint32_t i = 0; i < graph->nedges; i++) {
        struct rt_edge *e = &graph->edge[i];
        if (e->kind != RT_PCI_LINK || e->gbs.source != RT_UNKNOWN)
            continue;
        const float candidates[] = { at_vertex[e->b], at_vertex[e->a], of_machine[graph->vertex[e->b].machine], 24 };
        unsigned k = 0;
        while (candidates[k] == 0)
            k++;
        e->gbs = (struct rt_value){ candidates[k], RT_ASSUMED };
    }
}

void rt_graph_assume(struct rt_graph *graph)
{
    bool unknown_pci = false;

    for (uint32_t i = 0; i < graph->nedges; i++) {
        struct rt_edge *e = &graph->edge[i];
        if (e->gbs.source == RT_UNKNOWN)
            e->gbs = gbs_of(graph, e);
        if (e->us.source == RT_UNKNOWN)
            e->us = (struct rt_value){ us_of(e), RT_ASSUMED };
        unknown_pci |= e->gbs.source == RT_UNKNOWN;
    }
    if (!unknown_pci)
        return;
    float *rates = calloc(2 * (size_t)graph->nvertices, sizeof(*rates));
    if (rates)
        assume_pci(graph, rates, rates + graph->nvertices);
    else
        rt_graph_refuse(graph, RINGTREE_NO_MEMORY, "no memory for the speeds of %u parts", graph->nvertices);
    free(rates);
}
