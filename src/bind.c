/*
 * Where a rank runs: its thread is bound to its share of the machine's NUMA domains, and the progress thread to those
 * near the network. That is done before memory is shared, and the kernel puts a page where it is first touched, so
 * slots and ringtree_mem_alloc() are near whoever writes them.
 */
#include "bind.h"
#include "base/log.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* This rank's place among those of its machine. false: they may use different cores, so each keeps to its own. */
static bool find_self(const ringtree_comm *comm, uint32_t *index, uint32_t *size)
{
    const struct rt_place *places = rt_control_places(comm->control), *self = &places[comm->rank];
    bool alike = true;
    *index = *size = 0;
    for (uint32_t r = 0; r < comm->nranks; r++) {
        if (places[r].host_key != self->host_key) continue;
        *index += r < comm->rank;
        *size += 1;
        alike &= places[r].core_mask == self->core_mask && places[r].cores == self->cores;
    }
    return alike;
}

struct rt_near *rt_bind_rank(ringtree_comm *comm)
{
    struct rt_cpus allowed, cpus;
    uint32_t index, size;
    const char *why;
    char text[128];

    comm->domain = -1;
    struct rt_near *near = malloc(sizeof *near);
    if (!near || !rt_cpus_allowed(&allowed)) {
        free(near);
        return NULL;
    }
    rt_near_find(near, &RT_NEAR_HERE, &allowed);
    if (!find_self(comm, &index, &size) && !near->why[0])
        snprintf(near->why, sizeof near->why, "the ranks on this machine may use different cores");
    const bool on = comm->settings.number[RT_BIND], share = rt_near_share(near, index, size, &cpus, &why);
    if (on && share && rt_cpus_bind(&cpus)) {
        rt_log(RT_LOG_INFO, "bound to cores %s, the share of rank %u of %u on this machine",
               rt_cpus_text(&cpus, text, sizeof text), index, size);
        comm->domain = rt_near_domain(near, &cpus);
        return near;
    }
    rt_log(RT_LOG_INFO, "not bound to cores: %s", !on ? "RINGTREE_BIND is 0" : share ? strerror(errno) : why);
    comm->domain = rt_near_domain(near, &allowed);
    return near;
}

ringtree_status rt_bind_progress(ringtree_comm *comm, const struct rt_near *near, struct rt_error *error)
{
    struct rt_cpus own, cpus;
    bool moved = near && !near->why[0] && comm->settings.number[RT_BIND] && rt_cpus_allowed(&own);

    if (moved) { /* a thread begins where its maker runs */
        cpus = own;
        rt_near_interface(near, "/sys", rt_control_places(comm->control)[comm->rank].address[0].interface, &cpus);
        moved = memcmp(&cpus, &own, sizeof own) != 0 && rt_cpus_bind(&cpus);
    }
    const ringtree_status status = rt_progress_start(comm->engine, error);
    if (moved) rt_cpus_bind(&own);
    return status;
}
