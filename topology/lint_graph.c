/* Lints of the graph: each function looks for one thing. */
#include "lint_say.h"
#include "rates.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT          96
#define MOST_COMPARED 64 /* ports of a machine */
#define MOST_MACHINES 64 /* those that follow are mostly like the first */

void rt_lint_say(struct rt_lint *lint, const char *format, ...)
{
    char sentence[600];
    const size_t begin = (size_t)snprintf(sentence, sizeof(sentence), "%s", lint->where);
    va_list args;

    va_start(args, format);
    vsnprintf(sentence + begin, sizeof(sentence) - begin, format, args);
    va_end(args);
    uint64_t print = UINT64_C(14695981039346656037);
    for (const char *c = sentence + begin; *c; c++)
        print = (print ^ (unsigned char)*c) * UINT64_C(1099511628211);
    for (unsigned i = 0; i < lint->count && i < 64; i++)
        if (lint->said[i] == print)
            return;
    if (lint->count < 64)
        lint->said[lint->count] = print;
    lint->count++;
    lint->say(lint->context, sentence);
}

static unsigned generation_of(const char *speed)
{
    const int generation = speed ? rt_pci_generation(speed) : 0;

    return generation > 0 ? (unsigned)generation : 0;
}

/* The fastest link right below a switch, in GB/s, for the best that its uplink could be expected to run at. */
static const struct rt_edge *fastest_below(const struct rt_graph *g, uint32_t v)
{
    const struct rt_edge *best = NULL;

    for (uint32_t i = g->edges_from[v]; i < g->edges_from[v + 1]; i++) {
        const struct rt_edge *e = &g->edge[g->edge_of[i]];
        if (e->kind == RT_PCI_LINK && e->a == v && e->gbs.source >= RT_KNOWN && (!best ||
                                                                                 best->gbs.value < e->gbs.value))
            best = e;
    }
    return best;
}

enum fault { FAULT_NONE, FAULT_BELOW_OWN, FAULT_BELOW_INSIDE, FAULT_SLOW, FAULTS };

static enum fault fault_of(const struct rt_graph *g, const struct rt_edge *e)
{
    const char *width = rt_attribute(g, e->b, "pci.max_link_width");
    const struct rt_edge *below = g->vertex[e->b].kind == RT_PCI_SWITCH ? fastest_below(g, e->b) : NULL;

    if (e->generation == 0 || e->width == 0)
        return FAULT_NONE;
    if (generation_of(rt_attribute(g, e->b, "pci.max_link_speed")) > e->generation ||
        (width && strtoul(width, NULL, 10) > e->width))
        return FAULT_BELOW_OWN;
    if (below && below->gbs.value > e->gbs.value * 1.01f)
        return FAULT_BELOW_INSIDE;
    const bool card = g->vertex[e->b].kind == RT_GPU || g->vertex[e->b].kind == RT_NIC;
    return card && e->generation <= 2 ? FAULT_SLOW : FAULT_NONE;
}

/* One sentence for all links of the same fault, with the first of them. */
static void say_fault(struct rt_lint *lint, const struct rt_graph *g, enum fault fault, unsigned count,
                      const struct rt_edge *e)
{
    const char *speed = rt_attribute(g, e->b, "pci.max_link_speed"), *width = rt_attribute(g, e->b,
                                                                                           "pci.max_link_width");
    char text[TEXT], more[32] = "";

    rt_vertex_text(g, e->b, text, sizeof(text));
    if (count > 1)
        snprintf(more, sizeof(more), " and %u more", count - 1);
    if (fault == FAULT_BELOW_OWN)
        rt_lint_say(lint, "%s%s: PCIe runs at generation %u x%u, below its own %s x%s: reseat the card, or look at the "
                    "slot, riser and BIOS (a GPU also slows down while idle)", text, more, e->generation, e->width,
                    speed ? speed : "speed", width ? width : "?");
    else if (fault == FAULT_BELOW_INSIDE)
        rt_lint_say(lint, "%s%s: connected at generation %u x%u (%.4g GB/s), slower than what is below "
                    "(%.4g GB/s): the link was trained down, or the file was written while it slept", text, more,
                    e->generation, e->width, (double)e->gbs.value, (double)fastest_below(g, e->b)->gbs.value);
    else
        rt_lint_say(lint, "%s%s: PCIe runs at generation %u x%u (%.4g GB/s), as an idle or badly seated card does",
                    text, more, e->generation, e->width, (double)e->gbs.value);
}

static void lint_links(struct rt_lint *lint, const struct rt_graph *g)
{
    unsigned unknown = 0, links = 0, count[FAULTS] = { 0 };
    const struct rt_edge *first[FAULTS] = { NULL };

    for (uint32_t i = 0; i < g->nedges; i++) {
        const struct rt_edge *e = &g->edge[i];
        if (e->kind != RT_PCI_LINK)
            continue;
        links++;
        unknown += e->gbs.source == RT_ASSUMED;
        const enum fault fault = fault_of(g, e);
        if (count[fault]++ == 0)
            first[fault] = e;
    }
    for (enum fault fault = FAULT_NONE + 1; fault < FAULTS; fault++)
        if (count[fault])
            say_fault(lint, g, fault, count[fault], first[fault]);
    if (unknown)
        rt_lint_say(lint, "the speed of %u of %u PCIe links is not known and was assumed: the system does not tell it, "
                    "as in many virtual machines, or the file does not: complete it on the machine itself (--complete)",
                    unknown, links);
}

static uint32_t processor_of(const struct rt_graph *g, uint32_t v)
{
    while (g->vertex[v].kind > RT_CORES)
        v = g->vertex[v].parent;
    return v;
}

static bool has_nic(const struct rt_graph *g, uint32_t machine, uint32_t processor, uint32_t *some)
{
    bool near = false;

    for (uint32_t v = machine; v < g->nvertices; v++)
        if (g->vertex[v].machine == machine && g->vertex[v].kind == RT_NIC) {
            *some = v;
            near |= processor_of(g, v) == processor;
        }
    return near;
}

static void lint_distances(struct rt_lint *lint, const struct rt_graph *g, uint32_t machine)
{
    unsigned far = 0, gpus = 0;
    uint32_t nic = RT_NO_VERTEX, example = RT_NO_VERTEX;
    char text[TEXT];

    for (uint32_t v = machine; v < g->nvertices; v++) {
        if (g->vertex[v].machine != machine || g->vertex[v].kind != RT_GPU)
            continue;
        gpus++;
        if (!has_nic(g, machine, processor_of(g, v), &nic))
            example = v, far++;
    }
    if (gpus && nic != RT_NO_VERTEX && far)
        rt_lint_say(lint, "%u of %u GPUs (such as %s) have no NIC at their own NUMA domain: their traffic to other "
                    "machines crosses the link between processors, or goes through another GPU", far, gpus,
                    rt_vertex_text(g, example, text, sizeof(text)));
}

static void lint_numa(struct rt_lint *lint, const struct rt_graph *g, uint32_t machine)
{
    unsigned packages = 0, numa = 0, unnumbered = 0;

    for (uint32_t v = machine; v < g->nvertices; v++) {
        if (g->vertex[v].machine != machine)
            continue;
        packages += g->vertex[v].kind == RT_PACKAGE;
        numa += g->vertex[v].kind == RT_NUMA;
        unnumbered += g->vertex[v].kind == RT_NUMA && g->vertex[v].number < 0;
    }
    if (packages > 1 && numa == 1)
        rt_lint_say(lint, "%u processors share one NUMA domain: NUMA is off in the BIOS, or the virtual machine hides "
                    "it; nothing can be placed near its memory", packages);
    if (unnumbered)
        rt_lint_say(lint, "%u NUMA domains have no number (-1): the firmware does not say where devices are",
                    unnumbered);
}

/* Several devices, all of them right below the processor: real servers with that many have switches or many bridges. */
static void lint_flatness(struct rt_lint *lint, const struct rt_graph *g, uint32_t machine)
{
    unsigned devices = 0, deep = 0;

    for (uint32_t v = machine; v < g->nvertices; v++) {
        const uint8_t kind = g->vertex[v].kind;
        if (g->vertex[v].machine != machine || (kind != RT_GPU && kind != RT_NIC && kind != RT_PCI_DEVICE))
            continue;
        devices++;
        deep += g->vertex[g->vertex[v].parent].kind == RT_PCI_SWITCH;
    }
    if (devices >= 4 && deep == 0)
        rt_lint_say(lint, "all %u devices are right below the processor: a virtual machine that hides its PCI "
                    "switches, or a file of bus ids only; which devices share a link cannot be seen. The cloud's own "
                    "topology file (--file) tells", devices);
}

static void lint_nvlinks(struct rt_lint *lint, const struct rt_graph *g, uint32_t machine)
{
    unsigned least = UINT32_MAX, most = 0;
    uint32_t worst = RT_NO_VERTEX;
    char text[TEXT];

    for (uint32_t v = machine; v < g->nvertices; v++) {
        if (g->vertex[v].machine != machine || g->vertex[v].kind != RT_GPU)
            continue;
        unsigned links = 0;
        for (uint32_t i = g->edges_from[v]; i < g->edges_from[v + 1]; i++)
            if (g->edge[g->edge_of[i]].kind == RT_NVLINK)
                links += g->edge[g->edge_of[i]].count;
        if (links < least)
            least = links, worst = v;
        if (links > most)
            most = links;
    }
    if (most > 0 && least < most)
        rt_lint_say(lint, "%s has %u NVLinks up, another GPU %u: links are down (nvidia-smi nvlink -s)",
                    rt_vertex_text(g, worst, text, sizeof(text)), least, most);
}

static const struct rt_edge *network_of(const struct rt_graph *g, uint32_t port)
{
    for (uint32_t i = g->edges_from[port]; i < g->edges_from[port + 1]; i++)
        if (g->edge[g->edge_of[i]].kind == RT_NETWORK)
            return &g->edge[g->edge_of[i]];
    return NULL;
}

/* On the same network, as far as is known: as fast, or of the same name on another machine. */
static bool are_peers(const struct rt_graph *g, uint32_t a, uint32_t b)
{
    const struct rt_edge *one = network_of(g, a), *two = network_of(g, b);

    if (one && two && one->gbs.source >= RT_KNOWN && two->gbs.source >= RT_KNOWN)
        return one->gbs.value == two->gbs.value;
    return g->vertex[a].machine != g->vertex[b].machine && strcmp(rt_vertex_name(g, a), rt_vertex_name(g, b)) == 0;
}

static bool differs(const struct rt_graph *g, uint32_t a, uint32_t b)
{
    const char *one = rt_attribute(g, a, "mtu"), *two = rt_attribute(g, b, "mtu");

    return one && two && strcmp(one, two) != 0 && are_peers(g, a, b);
}

/* Each port against those of the first machine, which are at most MOST_COMPARED. */
static void lint_mtu(struct rt_lint *lint, const struct rt_graph *g)
{
    uint32_t compared[MOST_COMPARED], ncompared = 0, odd = 0, example = 0, other = 0;
    char one[TEXT], two[TEXT], more[32] = "";

    for (uint32_t v = 0; v < g->nvertices; v++) {
        if (g->vertex[v].kind != RT_PORT || !rt_attribute(g, v, "mtu"))
            continue;
        for (uint32_t i = 0; i < ncompared; i++) {
            if (!differs(g, compared[i], v))
                continue;
            if (odd++ == 0)
                example = v, other = compared[i];
            break;
        }
        if (ncompared < MOST_COMPARED && (ncompared == 0 || g->vertex[compared[0]].machine == g->vertex[v].machine))
            compared[ncompared++] = v;
    }
    if (odd == 0)
        return;
    if (odd > 1)
        snprintf(more, sizeof(more), " (and %" PRIu32 " more)", odd - 1);
    rt_lint_say(lint, "%s has MTU %s%s, but %s has %s: large packets between them are lost or cut; set the same on all",
                rt_vertex_text(g, example, one, sizeof(one)), rt_attribute(g, example, "mtu"), more,
                rt_vertex_text(g, other, two, sizeof(two)), rt_attribute(g, other, "mtu"));
}

static void lint_ports(struct rt_lint *lint, const struct rt_graph *g)
{
    char text[TEXT];

    for (uint32_t v = 0; v < g->nvertices; v++) {
        const char *state = g->vertex[v].kind == RT_PORT ? rt_attribute(g, v, "state") : NULL;
        if (state && !strstr(state, "ACTIVE"))
            rt_lint_say(lint, "%s is %s, not ACTIVE", rt_vertex_text(g, v, text, sizeof(text)), state);
    }
}

void rt_lint_graph(struct rt_lint *lint, const struct rt_graph *graph)
{
    const char *ignored = rt_attribute(graph, 0, "ignored");

    if (ignored)
        rt_lint_say(lint, "the file has elements that ringtree does not know and left out: %s", ignored);
    lint_links(lint, graph);
    lint_ports(lint, graph);
    lint_mtu(lint, graph);
    for (uint32_t i = 0; i < graph->nmachines && i < MOST_MACHINES; i++) {
        const uint32_t machine = graph->machine[i];
        const char *name = graph->nmachines > 1 ? rt_vertex_name(graph, machine) : "";
        snprintf(lint->where, sizeof(lint->where), *name ? "%.64s: " : "%s", name);
        const char *absent = rt_attribute(graph, machine, "absent");
        if (absent && strcmp(absent, "0") != 0)
            rt_lint_say(lint, "%s devices of the file are not in this machine: is it the file of another kind of "
                        "instance?", absent);
        lint_numa(lint, graph, machine);
        lint_flatness(lint, graph, machine);
        lint_distances(lint, graph, machine);
        lint_nvlinks(lint, graph, machine);
        rt_lint_facts(lint, graph, machine);
    }
    lint->where[0] = '\0';
}
