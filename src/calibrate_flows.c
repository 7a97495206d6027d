/*
 * How many connections a link between machines should have. Some networks limit each connection (a cloud's limit of a
 * flow, a bundle of wires that deals flows out): there several together carry more. It is tried with 1, 2, 4, ... as
 * long as twice as many take clearly less for a byte.
 */
#include "calibrate.h"
#include "base/log.h"
#include <stdlib.h>

#define CLEARLY 0.8
#define TRIED   (5u << 20) /* bytes that trying one and two takes */
#define SLOWER  4 /* times the time for measuring links, at most */

struct tried { /* by every rank to all; the leader's counts */
    uint32_t next; /* connections to be tried now; 0: enough */
};

/* Only the leader knows what the link takes. Where a try would take too long one connection will do. */
static bool is_worth_trying(const ringtree_comm *comm, uint32_t peer, uint32_t most_ms,
                            const struct rt_calibration *found)
{
    const uint64_t byte_fs = found->byte_fs[RT_LINK_NETWORK];
    return !comm->settings.number[RT_TCP_SOCKETS] && comm->engine->reach[peer] == &rt_transport_tcp && byte_fs &&
           comm->engine->slot_bytes > RT_COST_SPREAD &&
           (double)byte_fs * TRIED < (double)most_ms * SLOWER * 1e12;
}

/* What a byte takes over so many connections; 0: it could not be measured. */
static double try_one(ringtree_comm *comm, struct rt_trial *trial, bool leads, uint32_t peer, uint32_t most_ms)
{
    struct rt_error error = { .status = RINGTREE_OK };
    uint64_t latency_fs = 0, byte_fs = 0;
    const uint64_t end_ns = rt_now_ns(comm->engine->fabric.clock) + rt_trial_ms(comm, 1) * UINT64_C(1000000);
    const ringtree_status status = rt_trial_run(trial, comm->engine, &rt_transport_tcp, peer, leads,
                                                most_ms * UINT64_C(100000), end_ns, &latency_fs, &byte_fs, &error);
    if (byte_fs)
        rt_log(RT_LOG_INFO, "%u connections: %.2f GB/s one way", trial->connections, 1e6 / (double)byte_fs);
    if (status != RINGTREE_OK)
        rt_log(RT_LOG_INFO, "%u connections were not measured: %s", trial->connections, error.text);
    return status == RINGTREE_OK ? (double)byte_fs : 0;
}

/* After the first try: `taken` is what so many connections take, `before` what half of them take. */
static bool goes_on(uint32_t connections, double taken, double before)
{
    if (!(taken > 0)) return false;
    return connections == 1 || (taken < CLEARLY * before && connections < RT_COST_MOST_CONNECTIONS);
}

ringtree_status rt_flows_measure(ringtree_comm *comm, uint32_t most_ms, struct rt_calibration *found,
                                 struct rt_error *error)
{
    uint32_t first, second;
    if (comm->planner.sites.between != RT_LINK_NETWORK || !rt_calibrate_pair(comm, false, &first, &second))
        return RINGTREE_OK;
    struct tried *all = calloc(comm->nranks, sizeof *all);
    if (!all) return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory to measure links", comm->rank);
    const bool leads = comm->rank == first, takes_part = leads || comm->rank == second;
    const uint32_t peer = leads ? second : first;
    struct tried mine = { leads && is_worth_trying(comm, peer, most_ms, found) };
    double one = 0, least = 0;
    ringtree_status status = rt_control_all_gather(comm->control, &mine, sizeof mine, all, error);
    while (status == RINGTREE_OK && all[first].next) {
        struct rt_trial trial = { .connections = all[first].next };
        const double taken = takes_part ? try_one(comm, &trial, leads, peer, most_ms) : 0;
        mine.next = leads && goes_on(trial.connections, taken, least) ? 2 * trial.connections : 0;
        if (trial.connections == 1) one = least = taken;
        else if (taken > 0 && taken < CLEARLY * least) least = taken;
        status = rt_control_all_gather(comm->control, &mine, sizeof mine, all, error);
        rt_trial_end(&trial);
    }
    free(all);
    if (!leads || !(least > 0) || least == one) return status;
    found->latency_fs[RT_FLOW] = found->latency_fs[RT_LINK_NETWORK];
    found->byte_fs[RT_FLOW] = found->byte_fs[RT_LINK_NETWORK];
    found->byte_fs[RT_LINK_NETWORK] = (uint64_t)((double)found->byte_fs[RT_LINK_NETWORK] * least / one) + 1;
    return status;
}
