/*
 * A machine as a drawing: parts below what they are inside, links by kind as colour and by speed as width, NVSwitches
 * and direct NVLinks under the GPUs, and a line for each channel with the ranks in the order of its ring.
 */
#include "ringtree-topo.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BOX_WIDTH  112
#define BOX_HEIGHT 40
#define THIN_WIDTH 50 /* cores and ports */
#define GAP        14
#define ROW        84
#define LEFT       28
#define TOP        104
#define LANE       40 /* a channel's line */
#define ARC        26

static const char style[] =
    "<style>\n"
    "text{font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1f2733}\n"
    ".title{font-size:20px;font-weight:600}.sub{font-size:12.5px;fill:#5b6675}\n"
    ".name{font-size:12px;font-weight:600;text-anchor:middle}.id{font-size:10.5px;fill:#465162;text-anchor:middle}\n"
    ".rate{font-size:10px;fill:#5b6675;paint-order:stroke;stroke:#f4f6f9;stroke-width:3px}\n"
    ".place{font-size:9.5px;text-anchor:middle;fill:#fff;font-weight:600}\n"
    ".band{fill:#f4f6f9}.paper{fill:#fff}rect{stroke-width:1.2}\n"
    ".cpu{fill:#eceef1;stroke:#a6afba}.pci{fill:#e3eefb;stroke:#7fa8d8}.gpu{fill:#e2f3e6;stroke:#5fa374}\n"
    ".nvswitch{fill:#d3ecd9;stroke:#5fa374}.nic{fill:#fdeedb;stroke:#dba35c}.port{fill:#fff6ea;stroke:#dba35c}\n"
    ".nvlink{stroke:#4f9e68}.pcie{stroke:#5b8cc9}.host{stroke:#98a2b0}.between{stroke:#b07fc7}\n"
    ".network{stroke:#dba35c}\n"
    ".slow{stroke:#d64545}.assumed{stroke-dasharray:5 4}path,line{fill:none}\n"
    "</style>\n";

struct drawing {
    const struct rt_graph *graph;
    FILE     *out;
    uint32_t *x, *y, *width; /* of every vertex: its middle, its top, what it and all inside it need */
    uint32_t  deepest;       /* the lowest row's top */
    uint32_t  machines;
};

static bool is_thin(const struct rt_graph *g, uint32_t v)
{
    return g->vertex[v].kind == RT_CORES || g->vertex[v].kind == RT_PORT;
}

static uint32_t box_width(const struct drawing *d, uint32_t v)
{
    return d->graph->vertex[v].kind == RT_NVSWITCH ? d->width[v] : is_thin(d->graph, v) ? THIN_WIDTH : BOX_WIDTH;
}

/* NVSwitches have a row of their own. */
static bool is_in_tree(const struct rt_graph *g, uint32_t v)
{
    return g->vertex[v].kind != RT_NVSWITCH || rt_edge_up(g, v);
}

static uint32_t measure(struct drawing *d, uint32_t v)
{
    const struct rt_graph *g = d->graph;
    uint32_t inside = 0;

    for (uint32_t i = g->children_from[v]; i < g->children_from[v + 1]; i++)
        if (is_in_tree(g, g->child[i]))
            inside += measure(d, g->child[i]) + (inside ? GAP : 0);
    d->width[v] = is_thin(g, v) ? THIN_WIDTH : BOX_WIDTH;
    if (d->width[v] < inside)
        d->width[v] = inside;
    return d->width[v];
}

static void place(struct drawing *d, uint32_t v, uint32_t left, uint32_t top)
{
    const struct rt_graph *g = d->graph;
    const uint32_t below = g->vertex[v].kind == RT_MACHINE ? top : top + ROW;
    uint32_t inside = 0, x = left;

    d->x[v] = left + d->width[v] / 2;
    d->y[v] = top;
    if (d->deepest < top)
        d->deepest = top;
    for (uint32_t i = g->children_from[v]; i < g->children_from[v + 1]; i++)
        if (is_in_tree(g, g->child[i]))
            inside += d->width[g->child[i]] + (inside ? GAP : 0);
    x += (d->width[v] - inside) / 2;
    for (uint32_t i = g->children_from[v]; i < g->children_from[v + 1]; i++) {
        if (!is_in_tree(g, g->child[i]))
            continue;
        place(d, g->child[i], x, below);
        x += d->width[g->child[i]] + GAP;
    }
}

/* All NVSwitches of a machine in a row under everything else, each over its share of the width. */
static void place_switches(struct drawing *d, uint32_t machine, uint32_t left, uint32_t top)
{
    const struct rt_graph *g = d->graph;
    uint32_t count = 0, seen = 0;

    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = g->children_from[machine]; i < g->children_from[machine + 1]; i++) {
            const uint32_t v = g->child[i];
            if (is_in_tree(g, v))
                continue;
            if (pass == 0) {
                count++;
                continue;
            }
            const uint32_t share = d->width[machine] / count;
            d->width[v] = share > GAP ? share - GAP : share;
            d->x[v] = left + seen++ * share + share / 2;
            d->y[v] = top;
        }
}

static double thickness(const struct rt_edge *e)
{
    return e->kind == RT_PORT_LINK ? 2 : 1 + sqrt((double)e->gbs.value) / 3;
}

static const char *edge_class(const struct rt_edge *e)
{
    static const char *const classes[RT_EDGE_KINDS] = {
        [RT_NVLINK] = "nvlink", [RT_PCI_LINK] = "pcie", [RT_HOST_LINK] = "host", [RT_INSIDE] = "host",
        [RT_BETWEEN] = "between", [RT_PORT_LINK] = "network", [RT_NETWORK] = "network",
    };
    return e->kind == RT_PCI_LINK && e->generation > 0 && e->generation <= 2 ? "slow" : classes[e->kind];
}

static void begin_edge(const struct drawing *d, const struct rt_edge *e)
{
    fprintf(d->out, "<path class=\"%s%s\" stroke-width=\"%.1f\" d=\"", edge_class(e),
            e->gbs.source == RT_ASSUMED && e->kind != RT_PORT_LINK ? " assumed" : "", thickness(e));
}

static void end_edge(const struct drawing *d, const struct rt_edge *e)
{
    char a[96], b[96], link[40], rate[40];

    fprintf(d->out, "\"><title>%s to %s: %s, %s %s</title></path>\n", rt_vertex_text(d->graph, e->a, a, sizeof(a)),
            rt_vertex_text(d->graph, e->b, b, sizeof(b)), topo_link(e, link, sizeof(link)),
            topo_rate(&e->gbs, rate, sizeof(rate)), rt_source_name(e->gbs.source));
}

static void draw_edge(const struct drawing *d, const struct rt_edge *e)
{
    const struct rt_graph *g = d->graph;
    const uint32_t xa = d->x[e->a], xb = d->x[e->b], bottom = d->y[e->a] + BOX_HEIGHT;
    char rate[40];

    if (e->kind == RT_NETWORK || g->vertex[e->a].kind == RT_MACHINE)
        return;
    begin_edge(d, e);
    if (e->kind == RT_BETWEEN) /* over the processors */
        fprintf(d->out, "M%u %uC%u %u %u %u %u %u", xa, d->y[e->a], xa, d->y[e->a] - ARC, xb, d->y[e->b] - ARC, xb,
                d->y[e->b]);
    else if (e->kind == RT_NVLINK && g->vertex[e->b].kind == RT_GPU) { /* under the GPUs, deeper the farther */
        const uint32_t depth = bottom + 14 + (xa < xb ? xb - xa : xa - xb) / 9;
        fprintf(d->out, "M%u %uC%u %u %u %u %u %u", xa, bottom, xa, depth, xb, depth, xb, d->y[e->b] + BOX_HEIGHT);
    } else if (e->kind == RT_NVLINK) { /* straight down, onto a bar that is wide */
        const uint32_t half = d->width[e->b] / 2, left = d->x[e->b] - half, right = d->x[e->b] + half;
        fprintf(d->out, "M%u %uL%u %u", xa, bottom, xa < left ? left + 6 : xa > right ? right - 6 : xa, d->y[e->b]);
    } else
        fprintf(d->out, "M%u %uL%u %u", xa, bottom, xb, d->y[e->b]);
    end_edge(d, e);
    if (e->kind == RT_PCI_LINK && !is_thin(g, e->b))
        fprintf(d->out, "<text class=\"rate\" x=\"%u\" y=\"%u\">%s</text>\n", xb + 5, d->y[e->b] - 5,
                topo_rate(&e->gbs, rate, sizeof(rate)));
}

static void put_text(const struct drawing *d, const char *text)
{
    for (; *text; text++)
        if (strchr("&<>\"", *text)) fprintf(d->out, "&#%d;", *text);
        else fputc(*text, d->out);
}

static const char *box_class(enum rt_vertex_kind kind)
{
    switch (kind) {
    case RT_GPU:      return "gpu";
    case RT_NVSWITCH: return "nvswitch";
    case RT_NIC:      return "nic";
    case RT_PORT:     return "port";
    default:          return kind <= RT_CORES ? "cpu" : "pci";
    }
}

static void draw_box(const struct drawing *d, uint32_t v)
{
    const struct rt_vertex *vertex = &d->graph->vertex[v];
    const uint32_t width = box_width(d, v), x = d->x[v] - width / 2;
    const char *name = rt_vertex_name(d->graph, v);
    char id[24] = "", number[16] = "";

    if (vertex->number >= 0)
        snprintf(number, sizeof number, " %d", vertex->number);
    if (vertex->busid != RT_NO_BUSID)
        rt_busid_text(vertex->busid, id);
    else if (vertex->count > 1)
        snprintf(id, sizeof id, "%u cores", vertex->count);
    for (uint32_t i = d->graph->edges_from[v]; i < d->graph->edges_from[v + 1] && vertex->kind == RT_PORT; i++)
        if (d->graph->edge[d->graph->edge_of[i]].kind == RT_NETWORK)
            snprintf(id, sizeof id, "%.4g", (double)d->graph->edge[d->graph->edge_of[i]].gbs.value * 8);
    fprintf(d->out, "<rect class=\"%s\" x=\"%u\" y=\"%u\" width=\"%u\" height=\"%d\" rx=\"6\"/>\n",
            box_class(vertex->kind), x,
            d->y[v], width, BOX_HEIGHT);
    fprintf(d->out, "<text class=\"name\" x=\"%u\" y=\"%u\">%s%s</text>\n", d->x[v], d->y[v] + 17,
            vertex->kind == RT_CORES ? "core" : rt_vertex_kind_name(vertex->kind), number);
    fprintf(d->out, "<text class=\"id\" x=\"%u\" y=\"%u\">", d->x[v], d->y[v] + 32);
    put_text(d, *name ? name : id);
    fputs("</text>\n", d->out);
}

/* A line for a channel: each rank is a dot under its box with its place in the ring; arcs lead from one to the next. */
static void draw_channel(const struct drawing *d, const struct rt_search *s, uint32_t machine, uint32_t c, uint32_t y)
{
    const struct rt_rings *rings = s->rings[s->rings_of[machine]];
    const struct rt_channel *channel = &rings->channel[c];
    const uint32_t *seat = s->seat + s->seat_from[machine], n = rings->nseats, hue = (c * 137 + 210) % 360;

    for (uint32_t i = 0; i < n; i++) {
        const uint32_t from = d->x[seat[channel->seat[i]]], to = d->x[seat[channel->seat[(i + 1) % n]]];
        const int bend = to > from ? -ARC / 2 - 4 : ARC / 2 + 4;
        if (i + 1 == n && s->nmachines > 1)
            break;
        fprintf(d->out, "<path stroke=\"hsl(%u,55%%,50%%)\" stroke-opacity=\".65\" stroke-width=\"1.6\" "
                "d=\"M%u %uC%u %d %u %d %u %u\"/>\n", hue, from, y, from, (int)y + bend, to, (int)y + bend, to, y);
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t x = d->x[seat[channel->seat[i]]];
        fprintf(d->out, "<circle cx=\"%u\" cy=\"%u\" r=\"8.5\" fill=\"hsl(%u,55%%,45%%)\"/>"
                "<text class=\"place\" x=\"%u\" y=\"%u\">%u</text>\n", x, y, hue, x, y + 3, i + 1);
    }
    if (channel->port_in == RT_NO_VERTEX)
        return;
    const uint32_t port = s->port[s->port_from[machine] + channel->port_in];
    fprintf(d->out, "<rect x=\"%u\" y=\"%u\" width=\"18\" height=\"14\" rx=\"3\" fill=\"hsl(%u,55%%,45%%)\"/>"
            "<text class=\"place\" x=\"%u\" y=\"%u\">%d</text>\n", d->x[port] - 9, y - 7, hue, d->x[port], y + 3,
            d->graph->vertex[port].number);
}

static void draw_machine(struct drawing *d, const struct rt_search *s, uint32_t index, uint32_t bottom)
{
    const struct rt_graph *g = d->graph;
    const uint32_t machine = g->machine[index];
    char text[96];

    fprintf(d->out, "<rect class=\"band\" x=\"%u\" y=\"62\" width=\"%u\" height=\"%u\" rx=\"12\"/>\n",
            d->x[machine] - d->width[machine] / 2 - 12, d->width[machine] + 24, bottom - 62);
    fprintf(d->out, "<text class=\"sub\" x=\"%u\" y=\"78\">", d->x[machine] - d->width[machine] / 2);
    put_text(d, rt_vertex_text(g, machine, text, sizeof text));
    fputs("</text>\n", d->out);
    for (uint32_t i = 0; i < g->nedges; i++)
        if (g->vertex[g->edge[i].b].machine == machine)
            draw_edge(d, &g->edge[i]);
    for (uint32_t v = machine + 1; v < g->nvertices; v++)
        if (g->vertex[v].machine == machine)
            draw_box(d, v);
    for (uint32_t c = 0; s && c < s->nchannels; c++)
        draw_channel(d, s, index, c, d->deepest + ROW + c * LANE + LANE / 2);
}

static void draw_head(const struct drawing *d, const struct rt_search *s, uint32_t width, uint32_t height)
{
    fprintf(d->out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %u %u\" width=\"%u\" height=\"%u\">\n",
            width,
            height, width, height);
    fprintf(d->out, "%s<rect class=\"paper\" width=\"%u\" height=\"%u\"/>\n", style, width, height);
    fprintf(d->out, "<text class=\"title\" x=\"%u\" y=\"30\">%u machine%s", LEFT, d->graph->nmachines,
            d->graph->nmachines == 1 ? "" : "s");
    if (s)
        fprintf(d->out, ", %u ranks, %u channels of %.4g GB/s", s->nseats, s->nchannels, (double)s->gbs);
    fprintf(d->out, "</text>\n<text class=\"sub\" x=\"%u\" y=\"50\">width of a line is its speed, dashed is assumed, "
                    "red is "
            "generation 1 or 2, ports in Gbit/s; below, a line for each channel with the place of each rank in its "
            "ring; the tree is the ring opened before 1</text>\n", LEFT);
}

static void draw_all(struct drawing *d, const struct rt_search *s)
{
    const struct rt_graph *g = d->graph;
    uint32_t left = LEFT, direct = 0, switches = 0;

    for (uint32_t m = 0; m < d->machines; m++) {
        measure(d, g->machine[m]);
        place(d, g->machine[m], left, TOP);
        left += d->width[g->machine[m]] + 3 * GAP;
    }
    for (uint32_t i = 0; i < g->nedges; i++)
        if (g->edge[i].kind == RT_NVLINK && g->vertex[g->edge[i].b].kind == RT_GPU)
            direct = ROW / 2;
    d->deepest += direct;
    for (uint32_t m = 0, at = LEFT; m < d->machines; at += d->width[g->machine[m]] + 3 * GAP, m++)
        place_switches(d, g->machine[m], at, d->deepest + ROW);
    for (uint32_t v = 0; v < g->nvertices; v++)
        switches |= !is_in_tree(g, v);
    d->deepest += switches ? ROW : 0;
    const uint32_t bottom = d->deepest + BOX_HEIGHT + 40 + (s ? s->nchannels * LANE + 8 : 0);
    draw_head(d, s, left < 900 ? 900 : left, bottom + 20);
    for (uint32_t m = 0; m < d->machines; m++)
        draw_machine(d, s, m, bottom);
    if (g->nmachines > d->machines)
        fprintf(d->out, "<text class=\"sub\" x=\"%u\" y=\"%u\">and %u more machines</text>\n", LEFT, bottom + 16,
                g->nmachines - d->machines);
    fputs("</svg>\n", d->out);
}

bool topo_draw(const struct rt_graph *graph, const struct rt_search *search, FILE *out)
{
    uint32_t *numbers = calloc(3 * (size_t)graph->nvertices, sizeof *numbers);
    struct drawing d = { .graph = graph, .out = out };

    if (!numbers)
        return false;
    d.x = numbers;
    d.y = numbers + graph->nvertices;
    d.width = d.y + graph->nvertices;
    d.machines = graph->nmachines < TOPO_MOST_DRAWN ? graph->nmachines : TOPO_MOST_DRAWN;
    draw_all(&d, search);
    free(numbers);
    return true;
}
