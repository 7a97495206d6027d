/*
 * explain: the time that the planner predicts for every way of a collective, on this machine or one that is only
 * described, for up to 65,536 ranks. Where the machine has GPUs they are the ranks, and their links are the graph's;
 * of cores the links within a machine are the table's.
 */
#include "ringtree-topo.h"
#include "cost/table.h"
#include "topology/cores.h"
#include <stdlib.h>
#include <string.h>

#define SLOT (256 << 10)

struct world {
    struct rt_costs  costs;
    struct rt_sites  sites;
    struct rt_layout layout;
    uint32_t        *node_of;
};

/* ---- the machine */

static bool is_in(const struct rt_graph *graph, uint32_t vertex, enum rt_vertex_kind kind, uint32_t machine)
{
    return graph->vertex[vertex].kind == kind && graph->vertex[vertex].machine == machine;
}

static uint32_t count_in(const struct rt_graph *graph, enum rt_vertex_kind kind, uint32_t machine)
{
    uint32_t count = 0;
    for (uint32_t v = 0; v < graph->nvertices; v++)
        if (is_in(graph, v, kind, machine)) count += kind == RT_CORES && graph->vertex[v].count
                                                         ? graph->vertex[v].count
                                                         : 1;
    return count;
}

/* GB/s of all edges of a kind at a vertex, and the latency of one. */
static double gbs_at(const struct rt_graph *graph, uint32_t vertex, enum rt_edge_kind kind, double *us)
{
    double gbs = 0;
    for (uint32_t i = graph->edges_from[vertex]; i < graph->edges_from[vertex + 1]; i++) {
        const struct rt_edge *edge = &graph->edge[graph->edge_of[i]];
        if (edge->kind != kind) continue;
        gbs += (double)edge->gbs.value;
        *us = (double)edge->us.value;
    }
    return gbs;
}

/* Two hops through what the GPUs have in common; each GPU does its own copying. */
static void take_gpus(struct world *world, const struct rt_graph *graph, uint32_t machine)
{
    struct rt_link_cost *link = &world->costs.link[RT_LINK_SHM];
    double us = 1;
    uint32_t gpu = 0;
    while (gpu < graph->nvertices && !is_in(graph, gpu, RT_GPU, machine)) gpu++;
    double gbs = gbs_at(graph, gpu, RT_NVLINK, &us);
    if (gbs <= 0) gbs = gbs_at(graph, gpu, RT_PCI_LINK, &us);
    if (gbs <= 0) gbs = 12;
    link->latency = 2 * us * 1e-6;
    link->message = us * 1e-6;
    link->byte = 1e-9 / gbs;
    link->crowded = 0;
    world->costs.add = 0; /* memory of GPUs is many times as fast as their links */
    world->sites.cores = world->sites.crowd = world->sites.local;
}

/* All ports of a machine together are its wire. */
static void take_network(struct world *world, const struct rt_graph *graph, uint32_t machine)
{
    struct rt_link_cost *link = &world->costs.link[RT_LINK_NETWORK];
    double gbs = 0, us = 0;
    for (uint32_t v = 0; v < graph->nvertices; v++)
        if (is_in(graph, v, RT_PORT, machine)) gbs += gbs_at(graph, v, RT_NETWORK, &us);
    if (gbs <= 0) return;
    link->wire_byte = 1e-9 / gbs;
    link->latency = 2 * us * 1e-6 + world->costs.link[RT_LINK_SHM].latency;
    if (count_in(graph, RT_GPU, machine)) {
        link->message = us * 1e-6;
        link->byte = world->costs.link[RT_LINK_SHM].byte;
        link->crowded = 0;
    }
}

static bool place_ranks(struct world *world, uint32_t ranks, uint32_t seats)
{
    world->node_of = calloc(ranks, sizeof *world->node_of);
    if (!world->node_of) return false;
    for (uint32_t r = 0; r < ranks; r++) world->node_of[r] = r / seats;
    world->sites = rt_sites_of(ranks, world->node_of);
    world->layout = (struct rt_layout){ world->sites.nodes, world->node_of };
    return true;
}

/* A described machine is repeated until all ranks have a seat. */
static bool take_described(struct world *world, const struct rt_graph *graph, uint32_t ranks)
{
    const uint32_t machine = graph->machine[0], gpus = count_in(graph, RT_GPU, machine);
    const uint32_t cores = count_in(graph, RT_CORES, machine), seats = gpus ? gpus : cores ? cores : 1;
    if (!ranks) ranks = seats * graph->nmachines < TOPO_MOST_RANKS ? seats * graph->nmachines : TOPO_MOST_RANKS;
    if (!place_ranks(world, ranks, seats)) return false;
    rt_costs_uncorrect(&world->costs); /* they are of a machine, not of its description */
    if (!gpus && count_in(graph, RT_PACKAGE, machine) > 1) world->sites.inside = RT_LINK_SHM_FAR;
    world->sites.direct = !gpus && world->sites.nodes == 1;
    if (gpus) take_gpus(world, graph, machine);
    take_network(world, graph, machine);
    return true;
}

static bool take_live(struct world *world, uint32_t ranks, bool tcp)
{
    uint64_t mask;
    if (!ranks) ranks = 4;
    if (!place_ranks(world, ranks, tcp ? 1 : ranks)) return false;
    world->sites.crowd = ranks;
    world->sites.cores = rt_cores_allowed(&mask);
    world->sites.between = RT_LINK_LOOPBACK;
    world->sites.direct = !tcp;
    return true;
}

/* ---- what is predicted */

struct answer {
    const char          *name, *refusal;
    struct rt_prediction prediction;
};

static uint32_t predict(const struct world *world, ringtree_collective collective, size_t bytes,
                        struct answer answers[RINGTREE_MOST_WAYS])
{
    const struct rt_shape shape = { .nranks = world->sites.ranks, .layout = &world->layout };
    uint32_t count = 0;
    answers[count] = (struct answer){ "shared", world->sites.direct ? NULL : "not all ranks share memory", { 0 } };
    rt_cost_predict(&world->costs, &world->sites, collective, NULL, bytes, SLOT, 0, &answers[count++].prediction);
    for (uint32_t i = 0; i < rt_algorithm_count && count < RINGTREE_MOST_WAYS; i++) {
        const struct rt_algorithm *a = rt_algorithms[i];
        if (a->collective != collective) continue;
        answers[count] = (struct answer){ a->name, a->refuses ? a->refuses(&shape) : NULL, { 0 } };
        rt_cost_predict(&world->costs, &world->sites, collective, a, bytes, SLOT, 0, &answers[count++].prediction);
    }
    return count;
}

static const struct answer *least_of(const struct answer *answers, uint32_t count)
{
    const struct answer *best = NULL;
    for (uint32_t i = 0; i < count; i++)
        if (!answers[i].refusal && (!best || rt_cost_beats(answers[i].prediction.seconds, best->prediction.seconds)))
            best = &answers[i];
    return best;
}

static void print_table(const struct answer *answers, uint32_t count, FILE *out)
{
    const struct answer *best = least_of(answers, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct rt_prediction *p = &answers[i].prediction;
        fprintf(out, "%c %-13s", &answers[i] == best ? '*' : ' ', answers[i].name);
        if (answers[i].refusal) fprintf(out, " impossible: %s\n", answers[i].refusal);
        else
            fprintf(out, " %12.3e s, most of it %s; %.10g rounds, %.0f bytes a rank\n", p->seconds,
                    rt_dominant_name((enum rt_dominant)p->dominant), p->rounds, p->bytes);
    }
}

static void print_sizes(const struct world *world, ringtree_collective collective, FILE *out)
{
    struct answer answers[RINGTREE_MOST_WAYS];
    fprintf(out, "%12s  %-13s %12s  most of it\n", "bytes", "best", "seconds");
    for (size_t bytes = 8; bytes <= (size_t)1 << 30; bytes *= 4) {
        const struct answer *best = least_of(answers, predict(world, collective, bytes, answers));
        if (!best) continue;
        fprintf(out, "%12zu  %-13s %12.3e  %s\n", bytes, best->name, best->prediction.seconds,
                rt_dominant_name((enum rt_dominant)best->prediction.dominant));
    }
}

static void print_links(const struct world *world, FILE *out)
{
    const struct rt_sites *s = &world->sites;
    const struct rt_link_cost *in = &world->costs.link[s->inside], *between = &world->costs.link[s->between];
    fprintf(out, "%u ranks on %u node%s, at most %u on one", s->ranks, s->nodes, s->nodes == 1 ? "" : "s", s->local);
    if (s->local > 1) fprintf(out, "; inside %.2f us, %.2f GB/s", in->latency * 1e6, 1e-9 / in->byte);
    if (s->nodes > 1) {
        const double byte = between->wire_byte > 0 ? between->wire_byte : between->byte;
        fprintf(out, "; between nodes %.2f us, %.2f GB/s of a node", between->latency * 1e6, 1e-9 / byte);
    }
    fputc('\n', out);
}

const char *topo_explain(const struct topo_question *q, const struct rt_graph *graph, FILE *out)
{
    static struct world world;
    struct answer answers[RINGTREE_MOST_WAYS];
    rt_costs_built_in(&world.costs);
    if (!(graph ? take_described(&world, graph, q->ranks) : take_live(&world, q->ranks, q->tcp))) return "no memory";
    fprintf(out, "%s", ringtree_collective_name(q->collective));
    if (q->bytes) fprintf(out, " of %zu bytes", q->bytes);
    fputs(" among ", out);
    print_links(&world, out);
    if (q->bytes) print_table(answers, predict(&world, q->collective, q->bytes, answers), out);
    else print_sizes(&world, q->collective, out);
    free(world.node_of);
    return NULL;
}
