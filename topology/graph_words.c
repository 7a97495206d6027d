/* The words of a graph: kinds, bus ids, what a part is called in a sentence. */
#include "graph.h"
#include <stdio.h>
#include <string.h>

const char *rt_vertex_kind_name(enum rt_vertex_kind kind)
{
    static const char *const names[RT_VERTEX_KINDS] = {
        [RT_SYSTEM] = "system",           [RT_FABRIC] = "fabric",         [RT_MACHINE] = "machine",
        [RT_PACKAGE] = "package",         [RT_NUMA] = "numa",             [RT_CORES] = "cores",
        [RT_HOST_BRIDGE] = "host bridge", [RT_PCI_SWITCH] = "pci switch", [RT_PCI_DEVICE] = "pci device",
        [RT_GPU] = "gpu",                 [RT_NVSWITCH] = "nvswitch",     [RT_NIC] = "nic",
        [RT_PORT] = "port",
    };
    return kind < RT_VERTEX_KINDS ? names[kind] : "?";
}

const char *rt_edge_kind_name(enum rt_edge_kind kind)
{
    static const char *const names[RT_EDGE_KINDS] = {
        [RT_NVLINK] = "nvlink",       [RT_PCI_LINK] = "pcie",          [RT_HOST_LINK] = "host link",
        [RT_INSIDE] = "inside",       [RT_BETWEEN] = "inter-socket",   [RT_PORT_LINK] = "port link",
        [RT_NETWORK] = "network",
    };
    return kind < RT_EDGE_KINDS ? names[kind] : "?";
}

const char *rt_source_name(enum rt_source source)
{
    static const char *const names[] = { "unknown", "assumed", "known", "measured" };

    return source <= RT_MEASURED ? names[source] : "?";
}

/* 1 to `most` hex digits, then `after`. NULL: they are not there. */
static const char *hex(const char *text, unsigned most, char after, uint64_t *value)
{
    unsigned digits = 0;

    for (*value = 0; digits < most; digits++, text++) {
        const char c = *text;
        if (c >= '0' && c <= '9')      *value = *value * 16 + (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f') *value = *value * 16 + (uint64_t)(c - 'a' + 10);
        else if (c >= 'A' && c <= 'F') *value = *value * 16 + (uint64_t)(c - 'A' + 10);
        else break;
    }
    return digits > 0 && *text == after ? text + (after != '\0') : NULL;
}

uint64_t rt_busid_parse(const char *text)
{
    uint64_t domain = 0, bus, device, function;
    const char *colon = strchr(text, ':');

    if (colon && strchr(colon + 1, ':'))
        text = hex(text, 8, ':', &domain); /* sysfs has 4 digits, NVML 8 */
    if (!text || !(text = hex(text, 2, ':', &bus)) || !(text = hex(text, 2, '.', &device)) ||
        !hex(text, 1, '\0', &function) || device > 31 || function > 7)
        return RT_NO_BUSID;
    return domain << 16 | bus << 8 | device << 3 | function;
}

const char *rt_busid_text(uint64_t busid, char *text)
{
    snprintf(text, 24, "%04x:%02x:%02x.%x", (unsigned)(busid >> 16), (unsigned)(busid >> 8 & 0xff),
             (unsigned)(busid >> 3 & 0x1f), (unsigned)(busid & 7));
    return text;
}

const char *rt_vertex_text(const struct rt_graph *graph, uint32_t vertex, char *text, size_t capacity)
{
    const struct rt_vertex *v = &graph->vertex[vertex];
    const char *name = rt_vertex_name(graph, vertex);
    char number[16] = "", busid[32] = "", place[24];

    if (v->number >= 0)
        snprintf(number, sizeof(number), " %d", v->number);
    if (v->busid != RT_NO_BUSID)
        snprintf(busid, sizeof(busid), " %s", rt_busid_text(v->busid, place));
    snprintf(text, capacity, "%s%s%s%s%s", rt_vertex_kind_name(v->kind), number, *name ? " " : "", name, busid);
    return text;
}
