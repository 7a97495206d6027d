/* A machine as a tree in the terminal: each part with the link that leads to it and what that is worth. */
#include "ringtree-topo.h"
#include <string.h>

#define MOST_NAMED 16 /* machines that are like another one */

const char *topo_rate(const struct rt_value *value, char *text, size_t capacity)
{
    static const char *const marks[] = { "?", "~", "", "*" };

    snprintf(text, capacity, "%s%.4g GB/s", marks[value->source], (double)value->value);
    return text;
}

const char *topo_link(const struct rt_edge *edge, char *text, size_t capacity)
{
    if (edge->kind == RT_NVLINK)
        snprintf(text, capacity, "%u NVLink%s", edge->count, edge->count == 1 ? "" : "s");
    else if (edge->kind != RT_PCI_LINK)
        snprintf(text, capacity, "%s", rt_edge_kind_name(edge->kind));
    else if (edge->generation && edge->width)
        snprintf(text, capacity, "PCIe %u.0 x%u", edge->generation, edge->width);
    else
        snprintf(text, capacity, "PCIe");
    return text;
}

static void show_attribute(const struct rt_graph *g, uint32_t v, const char *key, const char *words, FILE *out)
{
    const char *value = rt_attribute(g, v, key);

    if (value && *value)
        fprintf(out, ", %s%s", words, value);
}

static bool is_up(const struct rt_graph *g, uint32_t v, const struct rt_edge *edge)
{
    return rt_edge_other(edge, v) == g->vertex[v].parent;
}

/* Links that do not lead to what the part is inside: NVLink, network, other processors; each is told once. */
static void show_links(const struct rt_graph *g, uint32_t v, FILE *out)
{
    char link[40], rate[40], other[96];

    for (uint32_t i = g->edges_from[v]; i < g->edges_from[v + 1]; i++) {
        const struct rt_edge *e = &g->edge[g->edge_of[i]];
        const uint32_t end = rt_edge_other(e, v);
        if (is_up(g, v, e) || g->vertex[end].parent == v || (e->kind == RT_BETWEEN && end < v) ||
            (e->kind == RT_NVLINK && g->vertex[v].kind != RT_GPU) ||
            (e->kind == RT_NVLINK && g->vertex[end].kind == RT_GPU && end < v))
            continue;
        fprintf(out, e->kind == RT_NETWORK ? ", %s" : "; %s", topo_rate(&e->gbs, rate, sizeof(rate)));
        if (e->kind != RT_NETWORK)
            fprintf(out, " by %s to %s", topo_link(e, link, sizeof(link)), rt_vertex_text(g, end, other,
                                                                                          sizeof(other)));
    }
}

static void show_part(const struct rt_graph *g, uint32_t v, FILE *out)
{
    const struct rt_edge *up = rt_edge_up(g, v);
    const char *ranks = rt_attribute(g, v, "ranks");
    char text[128], link[40], rate[40];

    fputs(rt_vertex_text(g, v, text, sizeof(text)), out);
    if (g->vertex[v].count)
        fprintf(out, ", %u core%s", g->vertex[v].count, g->vertex[v].count == 1 ? "" : "s");
    show_attribute(g, v, "ranks", ranks && strpbrk(ranks, "-,") ? "ranks " : "rank ", out);
    show_attribute(g, v, "unseen", "", out);
    show_attribute(g, v, "sm", "sm ", out);
    show_attribute(g, v, "model", "", out);
    show_attribute(g, v, "mtu", "MTU ", out);
    if (up && up->kind == RT_PCI_LINK)
        fprintf(out, ", %s, %s", topo_link(up, link, sizeof(link)), topo_rate(&up->gbs, rate, sizeof(rate)));
    show_links(g, v, out);
    fputc('\n', out);
}

/* `lead` is what stands before the part's own branch: "│  ", one piece for each level. */
static void show_inside(const struct rt_graph *g, uint32_t v, char *lead, size_t capacity, FILE *out)
{
    const size_t used = strlen(lead);

    for (uint32_t i = g->children_from[v]; i < g->children_from[v + 1]; i++) {
        const bool last = i + 1 == g->children_from[v + 1];
        fprintf(out, "%s%s", lead, last ? "└─ " : "├─ ");
        show_part(g, g->child[i], out);
        if (used + 8 < capacity) {
            strcpy(lead + used, last ? "   " : "│  ");
            show_inside(g, g->child[i], lead, capacity, out);
            lead[used] = '\0';
        }
    }
}

/* How many machines from `first` on, one after the other, are of its kind. */
static uint32_t count_alike(const struct rt_graph *g, const struct rt_search *s, uint32_t first)
{
    uint32_t count = 1;

    while (s && first + count < g->nmachines && s->rings_of[first + count] == s->rings_of[first])
        count++;
    return count;
}

static void show_alike(const struct rt_graph *g, uint32_t first, uint32_t count, FILE *out)
{
    fprintf(out, "and %u more machine%s like it", count, count == 1 ? "" : "s");
    for (uint32_t i = 0; i < count && rt_attribute(g, g->machine[first + i], "ranks"); i++) {
        if (i == MOST_NAMED) {
            fputs(", ...", out);
            break;
        }
        fprintf(out, "%s %s (ranks %s)", i ? "," : ":", rt_vertex_name(g, g->machine[first + i]),
                rt_attribute(g, g->machine[first + i], "ranks"));
    }
    fputc('\n', out);
}

void topo_show(const struct rt_graph *g, const struct rt_search *s, FILE *out)
{
    char lead[512] = "";

    for (uint32_t i = 0, shown = 0; i < g->nmachines; shown++) {
        if (shown == TOPO_MOST_SHOWN) {
            fprintf(out, "and %u more machines\n", g->nmachines - i);
            break;
        }
        const uint32_t alike = count_alike(g, s, i);
        show_part(g, g->machine[i], out);
        show_inside(g, g->machine[i], lead, sizeof(lead), out);
        if (alike > 1)
            show_alike(g, i + 1, alike - 1, out);
        i += alike;
    }
    fputs("Each direction of a link; ~ is assumed, * measured, others known from generation, width and count.\n", out);
}

static void show_channel(const struct rt_search *s, const struct rt_rings *rings, uint32_t c, FILE *out)
{
    const struct rt_channel *channel = &rings->channel[c];

    fprintf(out, "  %2u:", c);
    if (channel->port_in != RT_NO_VERTEX)
        fprintf(out, " port %d >", s->graph->vertex[s->port[channel->port_in]].number);
    for (uint32_t i = 0; i < rings->nseats; i++)
        fprintf(out, " %u", channel->seat[i]);
    if (channel->port_out != RT_NO_VERTEX)
        fprintf(out, " > port %d", s->graph->vertex[s->port[channel->port_out]].number);
    fputc('\n', out);
}

void topo_show_rings(const struct rt_graph *g, const struct rt_search *s, const char *why, FILE *out)
{
    if (!s) {
        fprintf(out, "No rings: %s\n", why);
        return;
    }
    const struct rt_rings *rings = s->rings[0];
    if (s->nseats < 2) {
        fprintf(out, "One place for ranks: no rings.\n");
        return;
    }
    if (rt_attribute(g, g->machine[0], "ranks"))
        fputs("With a rank at each place for one: ", out);
    fprintf(out, "%u rank%s on %u machine%s: %u channel%s of %.4g GB/s, together %.4g GB/s; between ranks %s",
            s->nseats,
            s->nseats == 1 ? "" : "s", g->nmachines, g->nmachines == 1 ? "" : "s", s->nchannels,
            s->nchannels == 1 ? "" : "s", (double)s->gbs, (double)rt_search_gbs(s), rt_path_name(rings->within));
    fprintf(out, g->nmachines > 1 ? ", to the ports %s\n" : "\n", rt_path_name(rings->to_port));
    if (s->nseats <= s->nmachines)
        return;
    fprintf(out, "Rings through the ranks of %s:\n", s->nrings > 1 ? "the first kind of machine" : "a machine");
    for (uint32_t c = 0; c < rings->nchannels; c++)
        show_channel(s, rings, c, out);
}
