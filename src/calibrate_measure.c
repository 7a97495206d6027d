/* A link between two ranks, measured through the library's own send and receive: between which, and by what. */
#include "calibrate.h"
#include "engine/meter.h"
#include <stdlib.h>
#include <string.h>

struct pair {
    ringtree_comm *comm;
    uint32_t       peer;
};

static ringtree_status give(void *context, const void *data, size_t bytes)
{
    const struct pair *pair = context;
    return ringtree_send(pair->comm, data, bytes, RINGTREE_UINT8, pair->peer, NULL);
}

static ringtree_status take(void *context, void *data, size_t bytes)
{
    const struct pair *pair = context;
    return ringtree_recv(pair->comm, data, bytes, RINGTREE_UINT8, pair->peer, NULL);
}

/* Nodes are numbered by first appearance, so a number that is not the next one has appeared before. */
bool rt_calibrate_pair(const ringtree_comm *comm, bool inside, uint32_t *first, uint32_t *second)
{
    uint32_t next = 0;
    for (*second = 0; *second < comm->nranks; ++*second) {
        const uint32_t node = comm->node_of[*second];
        if (node < next ? inside : !inside && node > 0) break;
        next += node == next;
    }
    if (*second == comm->nranks) return false;
    for (*first = 0; inside && comm->node_of[*first] != comm->node_of[*second];) ++*first;
    return true;
}

static ringtree_status measure_pair(ringtree_comm *comm, bool inside, uint32_t most_ms, struct rt_calibration *found)
{
    uint32_t first, second;
    const struct rt_place *places = rt_control_places(comm->control);
    const uint8_t kind = inside ? comm->planner.sites.inside : comm->planner.sites.between;
    if (!rt_calibrate_pair(comm, inside, &first, &second)) return RINGTREE_OK;
    if (comm->rank != first && comm->rank != second) return RINGTREE_OK;
    struct pair pair = { comm, comm->rank == first ? second : first };
    struct rt_meter m = { .give = give, .take = take, .context = &pair, .memory = calloc(1, RT_METER_BYTES),
                          .most_ns = (uint64_t)most_ms * 1000000, .any_speed = kind == RT_LINK_NETWORK,
                          .first_bytes = RT_METER_FIRST,
                          .cores_count = places[first].machine_key == places[second].machine_key };
    if (!m.memory) return rt_fail(&comm->error, RINGTREE_NO_MEMORY, "rank %u: no memory to measure links", comm->rank);
    const ringtree_status status = comm->rank == first ? rt_meter_lead(&m) : rt_meter_follow(&m);
    free(m.memory);
    found->latency_fs[kind] = m.latency_fs;
    found->byte_fs[kind] = m.byte_fs;
    return status;
}

ringtree_status rt_calibrate_measure(ringtree_comm *comm, uint32_t most_ms, bool only_between,
                                     struct rt_calibration *found)
{
    uint32_t first, second;
    const bool both = !only_between && rt_calibrate_pair(comm, true, &first, &second) &&
                      rt_calibrate_pair(comm, false, &first, &second);
    const uint32_t each_ms = both && most_ms > 1 ? most_ms / 2 : most_ms;
    memset(found, 0, sizeof *found);
    ringtree_status status = only_between ? RINGTREE_OK : measure_pair(comm, true, each_ms, found);
    return status == RINGTREE_OK ? measure_pair(comm, false, each_ms, found) : status;
}
