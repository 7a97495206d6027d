/* What /sys knows of PCI links and network ports, into a graph that is not finished. */
#include "discover.h"
#include "file.h"
#include "interfaces.h"
#include "rates.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_value(const char *sys, const char *folder, const char *name, const char *file, char *line,
                       size_t capacity)
{
    char path[512];

    if (strchr(name, '/') || strcmp(name, "..") == 0 ||
        (size_t)snprintf(path, sizeof(path), "%s/%s/%s/%s", sys, folder, name, file) >= sizeof(path))
        return false;
    return rt_file_line(path, line, capacity) && *line;
}

/* 0: unknown, which the kernel also says as 63 or 255. */
static uint8_t lanes(const char *text)
{
    const unsigned long width = strtoul(text, NULL, 10);

    return width <= 32 ? (uint8_t)width : 0;
}

/* Of a bridge that is not PCI Express there is no link speed; the links of virtual devices may be "Unknown". */
static void complete_link(struct rt_graph *g, struct rt_edge *edge, const char *sys)
{
    static const char folder[] = "bus/pci/devices";
    char busid[24], line[128];

    if (g->vertex[edge->b].busid == RT_NO_BUSID)
        return;
    rt_busid_text(g->vertex[edge->b].busid, busid);
    if (read_value(sys, folder, busid, "current_link_speed", line, sizeof(line))) {
        const int generation = rt_pci_generation(line);
        edge->generation = (uint8_t)(generation > 0 ? generation : 0);
    }
    if (read_value(sys, folder, busid, "current_link_width", line, sizeof(line)))
        edge->width = lanes(line);
    if (edge->generation && edge->width)
        edge->gbs = (struct rt_value){ rt_pci_gbs(edge->generation, edge->width), RT_KNOWN };
    if (read_value(sys, folder, busid, "max_link_speed", line, sizeof(line)) && rt_pci_generation(line) > 0)
        rt_graph_attribute(g, edge->b, "pci.max_link_speed", line);
    if (read_value(sys, folder, busid, "max_link_width", line, sizeof(line)) && lanes(line))
        rt_graph_attribute(g, edge->b, "pci.max_link_width", line);
}

/* "200 Gb/sec (4X HDR)" of an RDMA port, "25000" megabits of a network device, "-1" where it does not know. */
static void complete_port(struct rt_graph *g, struct rt_edge *edge, const char *sys)
{
    const char *name = rt_vertex_name(g, edge->a);
    char copy[64], line[128];

    if (strlen(name) >= sizeof(copy) || !*name)
        return;
    strcpy(copy, name); /* attributes may move the names */
    if (read_value(sys, "class/infiniband", copy, "ports/1/rate", line, sizeof(line)) && strtod(line, NULL) > 0)
        edge->gbs = (struct rt_value){ (float)strtod(line, NULL) / 8, RT_KNOWN };
    else if (read_value(sys, "class/net", copy, "speed", line, sizeof(line)) && strtod(line, NULL) > 0)
        edge->gbs = (struct rt_value){ (float)strtod(line, NULL) / 8000, RT_KNOWN };
    if (edge->gbs.value > 100000) /* nonsense of a driver */
        edge->gbs = (struct rt_value){ 0, RT_UNKNOWN };
    if (read_value(sys, "class/net", copy, "mtu", line, sizeof(line)))
        rt_graph_attribute(g, edge->a, "mtu", line);
    if (read_value(sys, "class/infiniband", copy, "ports/1/link_layer", line, sizeof(line)))
        rt_graph_attribute(g, edge->a, "link_layer", line);
    if (read_value(sys, "class/infiniband", copy, "ports/1/state", line, sizeof(line)))
        rt_graph_attribute(g, edge->a, "state", line);
}

void rt_sysfs_complete(struct rt_graph *graph, const char *sys)
{
    for (uint32_t i = 0; i < graph->nedges && !rt_graph_failed(graph); i++) {
        if (graph->edge[i].kind == RT_PCI_LINK)
            complete_link(graph, &graph->edge[i], sys);
        else if (graph->edge[i].kind == RT_NETWORK)
            complete_port(graph, &graph->edge[i], sys);
    }
}

uint32_t rt_interface_mbit(const char *interface)
{
    char line[32]; /* there is none, or -1, where the driver does not know */
    const bool known = read_value("/sys", "class/net", interface, "speed", line, sizeof(line));
    const long mbit = known ? strtol(line, NULL, 10) : 0;

    return mbit > 0 && mbit <= 100000000 ? (uint32_t)mbit : 0;
}
