/*
 * explain: the time that the planner predicts for every way of a collective by every transport, on this machine or one
 * that is only described, for up to 65,536 ranks. Where the machine has GPUs they are the ranks, and their links are
 * the graph's; of cores the links within a machine are the table's.
 */
#include "ringtree-topo.h"
#include "calibrate.h"
#include "topology/cores.h"
#include <stdlib.h>
#include <string.h>

#define SLOT (256 << 10)

/* What may carry the links between nodes, or all links where there is one node; why, or why not. */
struct carrier {
    const char         *name, *why, *refusal;
    struct rt_link_cost between;
};
#define MOST_CARRIERS 2

struct world {
    const char      *inside; /* what carries links within a node: "shm", "nvlink", "pcie" */
    struct carrier   carrier[MOST_CARRIERS];
    uint32_t         carriers;
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
    world->inside = gbs > 0 ? "nvlink" : "pcie";
    if (gbs <= 0) gbs = gbs_at(graph, gpu, RT_PCI_LINK, &us);
    if (gbs <= 0) gbs = 12;
    link->latency = 2 * us * 1e-6;
    link->message = us * 1e-6;
    link->byte = 1e-9 / gbs;
    link->crowded = 0;
    world->costs.add = 0; /* memory of GPUs is many times as fast as their links */
    world->sites.cores = world->sites.crowd = world->sites.local;
}

/* Does any port of the machine say what kind it is, and is one of them RDMA? */
static const char *rdma_of(const struct rt_graph *graph, uint32_t machine, bool *refused)
{
    bool told = false;
    for (uint32_t v = 0; v < graph->nvertices; v++) {
        const char *kind = is_in(graph, v, RT_PORT, machine) ? rt_attribute(graph, v, "kind") : NULL;
        if (kind && !strcmp(kind, "rdma")) return "its ports are RDMA devices";
        told |= kind != NULL;
    }
    *refused = told;
    return told ? "no port of it is an RDMA device" : "RDMA assumed of its ports, nothing tells";
}

/* By RDMA a core only says what is to be sent, and takes what has come; GPUs are written to directly. */
static void add_verbs(struct world *world, const struct rt_graph *graph, uint32_t machine, double gbs, double us)
{
    struct carrier *c = &world->carrier[world->carriers++];
    const bool gpus = count_in(graph, RT_GPU, machine) > 0;
    bool refused = false;
    *c = (struct carrier){ "verbs", rdma_of(graph, machine, &refused), NULL, world->costs.link[RT_LINK_NETWORK] };
    if (refused) c->refusal = c->why;
    c->between.wire_byte = 1e-9 / gbs;
    c->between.latency = 2 * us * 1e-6 + world->costs.link[RT_LINK_SHM].latency;
    c->between.message = us * 1e-6;
    c->between.byte = gpus ? world->costs.link[RT_LINK_SHM].byte : rt_transport_verbs.guess[1].byte;
    c->between.crowded = 0;
}

/* What cores take for TCP is the table's, whatever the port. */
static void add_tcp(struct world *world, double gbs)
{
    struct carrier *c = &world->carrier[world->carriers++];
    struct rt_costs assumed = world->costs;
    rt_assume_network(&assumed, (uint32_t)(gbs * 8000), false);
    *c = (struct carrier){ "tcp", "latency assumed of ports of that speed", NULL, assumed.link[RT_LINK_NETWORK] };
}

/* All ports of a machine together are its wire. */
static void take_network(struct world *world, const struct rt_graph *graph, uint32_t machine)
{
    double gbs = 0, us = 0;
    for (uint32_t v = 0; v < graph->nvertices; v++)
        if (is_in(graph, v, RT_PORT, machine)) gbs += gbs_at(graph, v, RT_NETWORK, &us);
    if (world->sites.nodes == 1) return;
    if (gbs > 0) add_verbs(world, graph, machine, gbs, us);
    add_tcp(world, gbs > 0 ? gbs : 1.25);
    if (gbs <= 0) world->carrier[0].why = "no port is described, 10 Gbit/s assumed";
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
    if (tcp)
        world->carrier[world->carriers++] = (struct carrier){
            "tcp", "over loopback, as the table has it; ucx is left out unless RINGTREE_TRANSPORTS asks for it", NULL,
            world->costs.link[RT_LINK_LOOPBACK] };
    return true;
}

/* ---- what is predicted */

struct answer {
    const char          *name, *refusal, *transport;
    uint32_t             lanes;
    struct rt_prediction prediction;
};
#define MOST_ANSWERS (MOST_CARRIERS * RINGTREE_MOST_WAYS)

/* Every way over one transport between nodes. */
static uint32_t predict_by(struct world *world, const struct carrier *carrier, ringtree_collective collective,
                           size_t bytes, struct answer *answers)
{
    const struct rt_shape shape = { .nranks = world->sites.ranks, .layout = &world->layout };
    uint32_t count = 0;
    if (world->sites.nodes > 1) world->costs.link[world->sites.between] = carrier->between;
    for (uint32_t i = 0; i < rt_algorithm_count && count < RINGTREE_MOST_WAYS - 1; i++) {
        const struct rt_algorithm *a = rt_algorithms[i];
        if (a->collective != collective) continue;
        struct answer *answer = &answers[count++];
        *answer = (struct answer){ a->name, a->refuses ? a->refuses(&shape) : NULL, carrier->name, 1, { 0 } };
        if (!answer->refusal) answer->refusal = carrier->refusal;
        if (!answer->refusal) answer->lanes = a->lanes(&shape);
        rt_cost_predict(&world->costs, &world->sites, collective, a, bytes, SLOT, 0, &answer->prediction);
    }
    return count;
}

static uint32_t predict(struct world *world, ringtree_collective collective, size_t bytes,
                        struct answer answers[MOST_ANSWERS])
{
    const struct carrier within = { .name = world->inside };
    uint32_t count = 1;
    const char *refusal = world->sites.direct ? NULL : "not all ranks share memory";
    answers[0] = (struct answer){ "shared", refusal, "shm", 1, { 0 } };
    rt_cost_predict(&world->costs, &world->sites, collective, NULL, bytes, SLOT, 0, &answers[0].prediction);
    if (world->sites.nodes == 1) return count + predict_by(world, &within, collective, bytes, answers + count);
    for (uint32_t c = 0; c < world->carriers; c++)
        count += predict_by(world, &world->carrier[c], collective, bytes, answers + count);
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
    fprintf(out, "  %-13s %-9s %5s %14s\n", "way", "transport", "lanes", "predicted");
    for (uint32_t i = 0; i < count; i++) {
        const struct answer *a = &answers[i];
        const struct rt_prediction *p = &a->prediction;
        fprintf(out, "%c %-13s %-9s", a == best ? '*' : ' ', a->name, a->transport);
        if (a->refusal) fprintf(out, "       impossible: %s\n", a->refusal);
        else
            fprintf(out, " %5u %12.3e s, most of it %s; %.10g rounds, %.0f bytes a rank\n", a->lanes, p->seconds,
                    rt_dominant_name((enum rt_dominant)p->dominant), p->rounds, p->bytes);
    }
}

static void print_sizes(struct world *world, ringtree_collective collective, FILE *out)
{
    struct answer answers[MOST_ANSWERS];
    fprintf(out, "%12s  %-13s %-9s %5s %12s  most of it\n", "bytes", "best", "transport", "lanes", "seconds");
    for (size_t bytes = 8; bytes <= (size_t)1 << 30; bytes *= 4) {
        const struct answer *best = least_of(answers, predict(world, collective, bytes, answers));
        if (!best) continue;
        fprintf(out, "%12zu  %-13s %-9s %5u %12.3e  %s\n", bytes, best->name, best->transport, best->lanes,
                best->prediction.seconds, rt_dominant_name((enum rt_dominant)best->prediction.dominant));
    }
}

/* What lanes are cut into: connections, of which a measurement may say that several carry more. */
static void print_connections(const struct world *world, FILE *out)
{
    double seconds[RT_COST_SPREADS];
    const uint32_t chosen = rt_cost_connections(&world->costs, &world->sites, SLOT, seconds);
    fprintf(out, "connections of a lane, all_reduce of 64 MiB by %s:", world->carrier[world->carriers - 1].name);
    for (uint32_t i = 0; i < RT_COST_SPREADS; i++) fprintf(out, "%s %u %.3e s", i ? "," : "", 1u << i, seconds[i]);
    fprintf(out, "; %u: no measurement says that more carry more\n", chosen);
}

static void print_links(const struct world *world, FILE *out)
{
    const struct rt_sites *s = &world->sites;
    const struct rt_link_cost *in = &world->costs.link[s->inside];
    fprintf(out, "%u ranks on %u node%s, at most %u on one", s->ranks, s->nodes, s->nodes == 1 ? "" : "s", s->local);
    if (s->local > 1)
        fprintf(out, "; inside %s %.2f us, %.2f GB/s", world->inside, in->latency * 1e6, 1e-9 / in->byte);
    fputc('\n', out);
    for (uint32_t c = 0; c < world->carriers; c++) {
        const struct rt_link_cost *between = &world->carrier[c].between;
        const double byte = between->wire_byte > 0 ? between->wire_byte : between->byte;
        fprintf(out, "between nodes by %s: %.2f us, %.2f GB/s of a node, a core takes %.2f; %s\n",
                world->carrier[c].name, between->latency * 1e6, 1e-9 / byte, 1e-9 / between->byte,
                world->carrier[c].why);
    }
}

/* Bytes a second between nodes, by the fastest that can carry them. */
static double link_rate(const struct world *world)
{
    double rate = world->sites.nodes > 1 ? 0 : 1 / world->costs.link[world->sites.inside].byte;
    for (uint32_t c = 0; c < world->carriers && world->sites.nodes > 1; c++) {
        const struct rt_link_cost *link = &world->carrier[c].between;
        const double byte = link->wire_byte > link->byte ? link->wire_byte : link->byte;
        if (!world->carrier[c].refusal && 1 / byte > rate) rate = 1 / byte;
    }
    return rate;
}

const char *topo_explain(const struct topo_question *q, const struct rt_graph *graph, FILE *out)
{
    static struct world world;
    struct answer answers[MOST_ANSWERS];
    world = (struct world){ .inside = "shm" };
    rt_costs_built_in(&world.costs);
    if (!(graph ? take_described(&world, graph, q->ranks) : take_live(&world, q->ranks, q->tcp))) return "no memory";
    fprintf(out, "%s", ringtree_collective_name(q->collective));
    if (q->bytes) fprintf(out, " of %zu bytes", q->bytes);
    fputs(" among ", out);
    print_links(&world, out);
    if (q->bytes) print_table(answers, predict(&world, q->collective, q->bytes, answers), out);
    else print_sizes(&world, q->collective, out);
    if (world.sites.nodes > 1 && q->bytes) print_connections(&world, out);
    free(world.node_of);
    if (!q->coded) return NULL;
    return topo_explain_codec(q, world.sites.ranks, world.sites.nodes, link_rate(&world), out);
}
