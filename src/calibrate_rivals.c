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

#define TRIAL_MS 3000

uint64_t rt_trial_ms(const ringtree_comm *comm, uint32_t trials)
{
    const uint64_t most = comm->timeout_ms / (2 * (trials ? trials : 1));
    return most < TRIAL_MS ? most : TRIAL_MS;
}

static uint32_t count_trials(const struct rt_rivals *rivals)
{
    uint32_t trials = 0;
    for (uint32_t d = 0; d < RT_DISTANCES; d++) trials += (uint32_t)__builtin_popcount(rivals->carriers[d]);
    return trials;
}

static bool measure(ringtree_comm *comm, uint32_t t, uint32_t peer, uint32_t each_ms, uint64_t end_ns,
                    struct rt_trial *trial, uint64_t *latency_fs, uint64_t *byte_fs)
{
    struct rt_error error = { .status = RINGTREE_OK };
    if (rt_trial_run(trial, comm->engine, rt_carriers[t], peer, comm->rank < peer, each_ms * UINT64_C(1000000), end_ns,
                     latency_fs, byte_fs, &error) == RINGTREE_OK)
        return true;
    rt_log(RT_LOG_WARN, "%s is not used for such links: %s", rt_carriers[t]->name, error.text);
    return false;
}

void rt_rivals_measure(ringtree_comm *comm, const struct rt_rivals *rivals, uint32_t each_ms, struct rt_trial *trials,
                       struct rt_calibration *found, struct rt_losers *losers)
{
    /* All begin together. The k-th trial has until k times as long from here, when both ends are through with those
     * before it, whatever became of them. */
    uint64_t end_ns = rt_now_ns(comm->engine->fabric.clock);
    const uint64_t each_ns = (each_ms + rt_trial_ms(comm, count_trials(rivals))) * UINT64_C(1000000);
    memset(losers, 0, sizeof *losers);
    for (uint32_t d = 0; d < RT_DISTANCES; d++)
        for (uint32_t t = 0; t < RT_CARRIERS; t++) {
            const uint32_t at = rt_rival(t, (enum rt_distance)d), bit = at - RT_LINK_KINDS;
            const bool leads = comm->rank == rivals->first[d];
            uint64_t latency_fs = 0, byte_fs = 0;
            if (!(rivals->carriers[d] >> t & 1)) continue;
            end_ns += each_ns;
            if (!leads && comm->rank != rivals->second[d]) continue;
            if (!measure(comm, t, leads ? rivals->second[d] : rivals->first[d], each_ms, end_ns, &trials[bit],
                         &latency_fs, &byte_fs)) {
                losers->failed |= 1u << bit;
                losers->slow |= (uint32_t)trials[bit].opened << bit;
            } else if (leads) {
                found->latency_fs[at] = latency_fs;
                found->byte_fs[at] = byte_fs;
            }
        }
}

ringtree_status rt_rivals_choose(ringtree_comm *comm, const struct rt_calibration *found,
                                 const struct rt_losers *losers, struct rt_error *error)
{
    struct rt_carrier_costs *costs = &comm->engine->carriers;
    for (uint32_t t = 0; t < RT_CARRIERS; t++)
        for (uint32_t d = 0; d < RT_DISTANCES; d++) {
            const uint32_t at = rt_rival(t, (enum rt_distance)d), bit = at - RT_LINK_KINDS;
            const bool failed = losers && losers->failed >> bit & 1;
            costs->tried[t][d] = !failed ? RT_TRIED_WELL : losers->slow >> bit & 1 ? RT_TRIED_SLOW : RT_TRIED_MUTE;
            if (!found->latency_fs[at]) continue;
            costs->measured[t][d] = true;
            costs->cost[t][d] = (struct rt_link_guess){ (double)found->latency_fs[at] * 1e-15,
                                                        (double)found->byte_fs[at] * 1e-15 };
        }
    return rt_carriers_choose(comm->engine, error);
}
