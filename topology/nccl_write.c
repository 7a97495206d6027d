/* Writes a machine as NCCL's topology XML: what NCCL dumps and reads back as NCCL_TOPO_FILE. */
#include "nccl.h"
#include "rates.h"
#include <string.h>

struct writer {
    const struct rt_graph *graph;
    FILE                  *out;
};

void rt_xml_write_text(const char *text, FILE *out)
{
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c < ' ' || strchr("&<>\"'", c))
            fprintf(out, "&#%u;", c);
        else
            fputc(c, out);
    }
}

static void indent(const struct writer *w, unsigned depth)
{
    fprintf(w->out, "%*s", (int)(2 * depth), "");
}

static void write_attribute(const struct writer *w, const char *key, const char *value)
{
    fprintf(w->out, " %s=\"", key);
    rt_xml_write_text(value, w->out);
    fputc('"', w->out);
}

/* Those whose key has the prefix, or those without "pci." where it is "". */
static void write_kept(const struct writer *w, uint32_t v, const char *prefix)
{
    const char *key, *value;

    for (uint32_t i = 0; rt_attribute_at(w->graph, v, i, &key, &value); i++) {
        const bool of_pci = strncmp(key, "pci.", 4) == 0;
        if (of_pci == (*prefix != '\0') && strcmp(key, "gpu") != 0 && strcmp(key, "implied") != 0)
            write_attribute(w, key + strlen(prefix), value);
    }
}

/* The PCI function under the processor that leads to the GPU: what NCCL names for a link to the processor. */
static uint64_t root_busid(const struct rt_graph *graph, uint32_t v)
{
    uint64_t busid = graph->vertex[v].busid;

    for (; v != 0; v = graph->vertex[v].parent)
        if (graph->vertex[v].busid != RT_NO_BUSID)
            busid = graph->vertex[v].busid;
    return busid;
}

static void write_nvlink(const struct writer *w, uint32_t gpu, const struct rt_edge *edge, unsigned depth)
{
    const uint32_t other = rt_edge_other(edge, gpu);
    const struct rt_vertex *v = &w->graph->vertex[other];
    const bool processor = v->kind <= RT_CORES;
    const uint64_t busid = processor ? root_busid(w->graph, gpu) : v->busid;
    char text[24];

    indent(w, depth);
    fprintf(w->out, "<nvlink target=\"%s\" count=\"%u\" tclass=\"0x%06x\"/>\n",
            busid == RT_NO_BUSID ? "fffffff:ffff:ff" : rt_busid_text(busid, text), edge->count,
            processor ? 0x060400 : v->pci_class);
}

static void write_gpu(const struct writer *w, uint32_t v, unsigned depth)
{
    const struct rt_graph *g = w->graph;
    bool nvlinks = false;

    for (uint32_t i = g->edges_from[v]; i < g->edges_from[v + 1]; i++)
        nvlinks |= g->edge[g->edge_of[i]].kind == RT_NVLINK;
    if (!nvlinks && !rt_attribute(g, v, "gpu") && !rt_attribute(g, v, "sm"))
        return;
    indent(w, depth);
    fprintf(w->out, "<gpu dev=\"%d\"", g->vertex[v].number);
    write_kept(w, v, "");
    fputs(nvlinks ? ">\n" : "/>\n", w->out);
    for (uint32_t i = g->edges_from[v]; i < g->edges_from[v + 1]; i++)
        if (g->edge[g->edge_of[i]].kind == RT_NVLINK)
            write_nvlink(w, v, &g->edge[g->edge_of[i]], depth + 1);
    if (!nvlinks)
        return;
    indent(w, depth);
    fputs("</gpu>\n", w->out);
}

static const struct rt_edge *network_edge(const struct rt_graph *g, uint32_t port)
{
    for (uint32_t i = g->edges_from[port]; i < g->edges_from[port + 1]; i++)
        if (g->edge[g->edge_of[i]].kind == RT_NETWORK)
            return &g->edge[g->edge_of[i]];
    return NULL;
}

static void write_port(const struct writer *w, uint32_t v, unsigned depth)
{
    const struct rt_edge *edge = network_edge(w->graph, v);
    const char *name = rt_vertex_name(w->graph, v);
    char made[24];

    snprintf(made, sizeof(made), "net%d", w->graph->vertex[v].number);
    indent(w, depth);
    fputs("<net", w->out);
    write_attribute(w, "name", *name ? name : made);
    fprintf(w->out, " dev=\"%d\" speed=\"%.0f\"", w->graph->vertex[v].number,
            edge && edge->gbs.source >= RT_KNOWN ? (double)edge->gbs.value * 8000 : 0.0);
    write_kept(w, v, "");
    fputs("/>\n", w->out);
}

/* A port that stands for what a skeleton does not name. */
static bool is_implied(const struct rt_graph *g, uint32_t port)
{
    const char *implied = rt_attribute(g, port, "implied");

    return implied && *implied;
}

/* A <nic> around the ports of a NIC, or of a processor. */
static void write_ports(const struct writer *w, uint32_t v, unsigned depth)
{
    const struct rt_graph *g = w->graph;
    bool open = false;

    for (uint32_t i = g->children_from[v]; i < g->children_from[v + 1]; i++) {
        const uint32_t port = g->child[i];
        if (g->vertex[port].kind != RT_PORT || is_implied(g, port))
            continue;
        if (!open) {
            indent(w, depth);
            fputs("<nic", w->out);
            if (g->vertex[v].kind == RT_NIC)
                write_kept(w, v, "");
            fputs(">\n", w->out);
        }
        open = true;
        write_port(w, port, depth + 1);
    }
    if (!open)
        return;
    indent(w, depth);
    fputs("</nic>\n", w->out);
}

static void write_inside(const struct writer *w, uint32_t v, unsigned depth);

static void write_function(const struct writer *w, uint32_t v, unsigned depth)
{
    const struct rt_vertex *vertex = &w->graph->vertex[v];
    const struct rt_edge *up = rt_edge_up(w->graph, v);
    char text[24];

    indent(w, depth);
    fprintf(w->out, "<pci busid=\"%s\"", rt_busid_text(vertex->busid, text));
    if (vertex->pci_class)
        fprintf(w->out, " class=\"0x%06x\"", vertex->pci_class);
    write_kept(w, v, "pci.");
    if (up && up->generation)
        write_attribute(w, "link_speed", rt_pci_speed_text(up->generation));
    if (up && up->width)
        fprintf(w->out, " link_width=\"%u\"", up->width);
    fputs(">\n", w->out);
    if (vertex->kind == RT_GPU)
        write_gpu(w, v, depth + 1);
    write_ports(w, v, depth + 1);
    write_inside(w, v, depth + 1);
    indent(w, depth);
    fputs("</pci>\n", w->out);
}

/* Functions inside, through what NCCL's form leaves out. */
static void write_inside(const struct writer *w, uint32_t v, unsigned depth)
{
    const struct rt_graph *g = w->graph;

    for (uint32_t i = g->children_from[v]; i < g->children_from[v + 1]; i++) {
        const uint32_t child = g->child[i];
        const struct rt_vertex *c = &g->vertex[child];
        if (c->kind >= RT_PCI_SWITCH && c->kind != RT_PORT && c->busid != RT_NO_BUSID && rt_edge_up(g, child))
            write_function(w, child, depth);
        else if (c->kind == RT_HOST_BRIDGE || c->kind == RT_CORES)
            write_inside(w, child, depth);
    }
}

static bool has_processors(const struct rt_graph *g, uint32_t v)
{
    for (uint32_t i = g->children_from[v]; i < g->children_from[v + 1]; i++)
        if (g->vertex[g->child[i]].kind == RT_NUMA || g->vertex[g->child[i]].kind == RT_PACKAGE)
            return true;
    return false;
}

/* Every NUMA domain is a <cpu>, and so is whatever has devices without being divided into domains. */
static void write_processors(const struct writer *w, uint32_t v, int *number)
{
    const struct rt_graph *g = w->graph;

    if (has_processors(g, v)) {
        for (uint32_t i = g->children_from[v]; i < g->children_from[v + 1]; i++)
            if (g->vertex[g->child[i]].kind == RT_NUMA || g->vertex[g->child[i]].kind == RT_PACKAGE)
                write_processors(w, g->child[i], number);
        return;
    }
    const int32_t known = g->vertex[v].kind == RT_NUMA ? g->vertex[v].number : *number;
    fprintf(w->out, "  <cpu numaid=\"%d\"", known);
    if (g->vertex[v].kind != RT_MACHINE)
        write_kept(w, v, "");
    fputs(">\n", w->out);
    write_ports(w, v, 2);
    write_inside(w, v, 2);
    fputs("  </cpu>\n", w->out);
    (*number)++;
}

bool rt_nccl_write(const struct rt_graph *graph, uint32_t machine, FILE *out)
{
    const struct writer w = { graph, out };
    int number = 0;

    fputs("<system version=\"1\">\n", out);
    write_processors(&w, machine, &number);
    fputs("</system>\n", out);
    return !ferror(out);
}
