/*
 * What a call would take if another transport carried the links between nodes. Which one does is chosen once for a
 * communicator (engine/carrier.h), since links are opened once; here it is told what the choice is worth to a call.
 */
#include "comm.h"
#include "base/text.h"

/* A rank on another node whose links shared memory does not carry; RT_NONE: there is none. */
static uint32_t far_rank(const ringtree_comm *comm)
{
    for (uint32_t r = 0; r < comm->nranks; r++)
        if (r != comm->rank && comm->node_of[r] != comm->node_of[comm->rank]) return r;
    return RT_NONE;
}

static uint32_t carrier_of(const struct rt_transport *transport)
{
    uint32_t t = 0;
    while (t < RT_CARRIERS && rt_carriers[t] != transport) t++;
    return t;
}

/* The planner's costs if the link were as much slower or faster as the other transport is. */
static struct rt_link_cost scaled(const struct rt_link_cost *link, const struct rt_link_guess *now,
                                  const struct rt_link_guess *then)
{
    struct rt_link_cost other = *link;
    const double byte = then->byte / now->byte;
    other.latency *= then->latency / now->latency;
    if (link->wire_byte > 0) other.wire_byte *= byte;
    else other.byte *= byte;
    return other;
}

/* The least predicted, into *least; its name. */
static const char *best_way(const ringtree_comm *comm, const struct rt_costs *costs, ringtree_collective collective,
                            size_t bytes, uint32_t root, double *least)
{
    struct rt_option options[RT_MOST_OPTIONS];
    const uint32_t count = rt_plan_options(comm, collective, bytes, root, options);
    const char *name = NULL;
    for (uint32_t i = 0; i < count; i++) {
        struct rt_prediction p;
        if (options[i].refusal) continue;
        rt_cost_predict(costs, &comm->planner.sites, rt_plan_carrier(collective), options[i].algorithm, bytes,
                        comm->engine->slot_bytes, comm->settings.number[RT_SLICE_BYTES], &p);
        if (name && !rt_cost_beats(p.seconds, *least)) continue;
        name = options[i].name;
        *least = p.seconds;
    }
    return name;
}

void rt_plan_say_rivals(const ringtree_comm *comm, ringtree_collective collective, size_t bytes, uint32_t root,
                        char *text, size_t capacity)
{
    const struct rt_carrier_costs *carriers = &comm->engine->carriers;
    const uint32_t peer = far_rank(comm);
    text[0] = '\0';
    if (peer == RT_NONE) return;
    const enum rt_distance d = rt_carrier_distance(comm->engine, peer);
    const uint32_t now = carrier_of(comm->engine->reach[peer]);
    for (uint32_t t = 0; t < RT_CARRIERS; t++) {
        struct rt_costs costs = comm->planner.costs;
        double seconds = 0;
        if (t == now || !(comm->engine->candidates[peer] >> t & 1) || carriers->tried[t][d] != RT_TRIED_WELL) continue;
        costs.link[comm->planner.sites.between] =
            scaled(&costs.link[comm->planner.sites.between], &carriers->cost[now][d], &carriers->cost[t][d]);
        const char *name = best_way(comm, &costs, collective, bytes, root, &seconds);
        if (name)
            rt_append(text, capacity, "by %s instead: %s, %.1f us predicted (%s)\n", rt_carriers[t]->name, name,
                      seconds * 1e6, carriers->measured[t][d] ? "measured" : "a guess");
    }
}
