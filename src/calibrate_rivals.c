/* Transports that compete for the same links: which, between whom they are measured, and what follows. */
#include "calibrate.h"
#include "base/log.h"
#include <stdio.h>
#include <string.h>

const char *rt_measured_name(uint32_t index, char text[32])
{
    if (index < RT_LINK_KINDS) return rt_link_kind_name((enum rt_link_kind)index);
    if (index == RT_FLOW) return snprintf(text, 32, "connection"), text;
    const uint32_t rival = index - RT_LINK_KINDS;
    const enum rt_link_kind kind = rival % RT_DISTANCES == RT_WITHIN ? RT_LINK_LOOPBACK : RT_LINK_NETWORK;
    snprintf(text, 32, "%s-%s", rt_carriers[rival / RT_DISTANCES]->name, rt_link_kind_name(kind));
    return text;
}

static bool are_several(uint32_t carriers)
{
    return (carriers & (carriers - 1)) != 0;
}

void rt_rivals_find(const ringtree_comm *comm, struct rt_rivals *rivals)
{
    memset(rivals, 0, sizeof *rivals);
    if (!rt_carriers_compete(&comm->settings)) return;
    for (uint32_t r = comm->rank + 1; r < comm->nranks; r++) {
        const uint32_t carriers = comm->engine->candidates[r];
        const enum rt_distance d = rt_carrier_distance(comm->engine, r);
        struct rt_rivals one = { { 0 }, { 0 }, { 0 } };
        if (comm->engine->reach[r] == &rt_transport_shm || !are_several(carriers)) continue;
        one.first[d] = comm->rank;
        one.second[d] = r;
        one.carriers[d] = carriers;
        rt_rivals_merge(rivals, &one);
    }
}

void rt_rivals_merge(struct rt_rivals *rivals, const struct rt_rivals *others)
{
    for (int d = 0; d < RT_DISTANCES; d++) {
        if (__builtin_popcount(others->carriers[d]) <= __builtin_popcount(rivals->carriers[d])) continue;
        rivals->first[d] = others->first[d];
        rivals->second[d] = others->second[d];
        rivals->carriers[d] = others->carriers[d];
    }
}

bool rt_rivals_unknown(const struct rt_rivals *rivals, const struct rt_calibration *found)
{
    for (uint32_t t = 0; t < RT_CARRIERS; t++)
        for (int d = 0; d < RT_DISTANCES; d++)
            if (rivals->carriers[d] >> t & 1 && !found->latency_fs[rt_rival(t, (enum rt_distance)d)]) return true;
    return false;
}

static bool measure(ringtree_comm *comm, uint32_t t, uint32_t peer, uint32_t each_ms, uint64_t end_ns,
                    struct rt_trial *trial, struct rt_link_guess *found)
{
    struct rt_error error = { .status = RINGTREE_OK };
    if (rt_trial_run(trial, comm->engine, rt_carriers[t], peer, comm->rank < peer, each_ms * UINT64_C(1000000), end_ns,
                     found, &error) == RINGTREE_OK)
        return true;
    rt_log(RT_LOG_WARN, "%s is not used for such links: %s", rt_carriers[t]->name, error.text);
    return false;
}

static uint64_t femtoseconds(double seconds)
{
    const double fs = seconds * 1e15;
    return fs >= 1 ? (uint64_t)fs : 1;
}

void rt_rivals_measure(ringtree_comm *comm, const struct rt_rivals *rivals, uint32_t each_ms, struct rt_trial *trials,
                       struct rt_calibration *found, uint32_t *failed)
{
    /* All begin together. The k-th trial has until k times as long from here, when both ends are through with those
     * before it, whatever became of them. */
    uint64_t end_ns = rt_now_ns(comm->engine->fabric.clock);
    *failed = 0;
    for (uint32_t d = 0; d < RT_DISTANCES; d++)
        for (uint32_t t = 0; t < RT_CARRIERS; t++) {
            const uint32_t at = rt_rival(t, (enum rt_distance)d), bit = at - RT_LINK_KINDS;
            const bool leads = comm->rank == rivals->first[d];
            struct rt_link_guess cost = { 0, 0 };
            if (!(rivals->carriers[d] >> t & 1)) continue;
            end_ns += (each_ms + RT_TRIAL_CONNECT_MS) * UINT64_C(1000000);
            if (!leads && comm->rank != rivals->second[d]) continue;
            if (!measure(comm, t, leads ? rivals->second[d] : rivals->first[d], each_ms, end_ns, &trials[bit], &cost))
                *failed |= 1u << bit;
            else if (leads) {
                found->latency_fs[at] = femtoseconds(cost.latency);
                found->byte_fs[at] = femtoseconds(cost.byte);
            }
        }
}

ringtree_status rt_rivals_choose(ringtree_comm *comm, const struct rt_calibration *found, uint32_t failed,
                                 struct rt_error *error)
{
    struct rt_carrier_costs *costs = &comm->engine->carriers;
    for (uint32_t t = 0; t < RT_CARRIERS; t++)
        for (uint32_t d = 0; d < RT_DISTANCES; d++) {
            const uint32_t at = rt_rival(t, (enum rt_distance)d);
            costs->failed[t][d] = failed >> (at - RT_LINK_KINDS) & 1;
            if (!found->latency_fs[at]) continue;
            costs->measured[t][d] = true;
            costs->cost[t][d] = (struct rt_link_guess){ (double)found->latency_fs[at] * 1e-15,
                                                        (double)found->byte_fs[at] * 1e-15 };
        }
    return rt_carriers_choose(comm->engine, error);
}
