/*
 * The machines that the ranks of a communicator live on, as one graph. The first rank on each machine looks at it and
 * sends it to all, packed. That takes hwloc some 20 ms, so it is done for whoever asks first and not at the start.
 */
#include "comm.h"
#include "topology/load.h"
#include "topology/pack.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_BYTES (UINT64_C(256) << 20) /* of all machines, packed: a thousand times what 64 take */

struct notice { /* what each rank tells first */
    uint32_t length; /* of its packed machine; 0: another rank tells it */
    uint32_t status; /* of looking at it */
    uint32_t teller; /* the first rank on its machine */
    int32_t  domain; /* the NUMA domain it runs in; -1: several */
};

static uint32_t find_teller(const struct rt_place *places, uint32_t rank)
{
    uint32_t r = 0;
    while (places[r].host_key != places[rank].host_key) r++;
    return r;
}

/* "0-3,8" and 9 become "0-3,8-9". What has no more room ends with dots. */
static void append_rank(char *text, size_t capacity, uint32_t rank)
{
    const size_t length = strlen(text);
    const char *comma = strrchr(text, ','), *last = comma ? comma + 1 : text, *dash = strchr(last, '-');
    const bool follows = *last && strtoul(dash ? dash + 1 : last, NULL, 10) + 1 == rank;
    if (length + 24 > capacity) {
        if (length > 0 && text[length - 1] != '.') strcpy(text + length, ",...");
        return;
    }
    const size_t from = follows && dash ? (size_t)(dash - text) : length;
    snprintf(text + from, capacity - from, follows ? "-%u" : length ? ",%u" : "%u", rank);
}

/* The ranks that live where this one does. */
static void name_ranks(const ringtree_comm *comm, char *text, size_t capacity)
{
    const struct rt_place *places = rt_control_places(comm->control);
    text[0] = '\0';
    for (uint32_t r = 0; r < comm->nranks; r++)
        if (places[r].host_key == places[comm->rank].host_key) append_rank(text, capacity, r);
}

/* Where this one cannot be looked at: its cores, and why there is no more. */
static ringtree_status make_bare(struct rt_graph **graph, uint32_t cores, const struct rt_error *why,
                                 struct rt_error *error)
{
    struct rt_graph *g = rt_graph_new();
    if (!g) return rt_fail(error, RINGTREE_NO_MEMORY, "no memory for this machine's parts");
    const uint32_t machine = rt_graph_add(g, RT_MACHINE, 0);
    const uint32_t group = rt_graph_attach(g, RT_CORES, machine, RT_INSIDE, NULL);
    if (group != RT_NO_VERTEX) {
        g->vertex[group].number = 0;
        g->vertex[group].count = cores;
        rt_graph_attribute(g, machine, "unseen", why->text);
    }
    const ringtree_status status = rt_graph_finish(g, error);
    if (status == RINGTREE_OK) *graph = g;
    else rt_graph_free(g);
    return status;
}

static ringtree_status look(ringtree_comm *comm, struct rt_graph **graph)
{
    const char *source = comm->settings.text[RT_TOPOLOGY];
    struct rt_error why;
    ringtree_status status = rt_machine_load(graph, source, access(source, F_OK) == 0, &why);
    if (status == RINGTREE_UNSUPPORTED && !source[0])
        return make_bare(graph, rt_control_places(comm->control)[comm->rank].cores, &why, &comm->error);
    if (status == RINGTREE_OK && (*graph)->nmachines > 1) {
        status = rt_fail(&why, RINGTREE_INVALID_SETTING, "these are %u machines, but it names the one of this rank",
                         (*graph)->nmachines);
        rt_graph_free(*graph);
    }
    if (status == RINGTREE_OK) return status;
    if (!source[0]) return rt_fail(&comm->error, status, "rank %u: %s", comm->rank, why.text);
    return rt_fail(&comm->error, status == RINGTREE_NO_MEMORY ? status : RINGTREE_INVALID_SETTING,
                   "rank %u: RINGTREE_TOPOLOGY: %s", comm->rank, why.text);
}

/* This rank's machine in bytes, if it is the one to tell it; they are the caller's to free. */
static struct notice describe(ringtree_comm *comm, uint8_t **bytes)
{
    const struct rt_place *places = rt_control_places(comm->control);
    struct notice notice = { 0, RINGTREE_OK, find_teller(places, comm->rank), comm->domain };
    struct rt_graph *graph;
    char ranks[1024];
    size_t length = 0;

    if (notice.teller != comm->rank) return notice;
    notice.status = look(comm, &graph);
    if (notice.status != RINGTREE_OK) return notice;
    name_ranks(comm, ranks, sizeof ranks);
    rt_graph_name(graph, graph->machine[0], places[comm->rank].host);
    rt_graph_attribute(graph, graph->machine[0], "ranks", ranks);
    if (rt_graph_failed(graph)) notice.status = rt_fail(&comm->error, RINGTREE_NO_MEMORY, "no memory to name ranks");
    else notice.status = rt_graph_pack(graph, graph->machine[0], bytes, &length, &comm->error);
    notice.length = (uint32_t)length;
    rt_graph_free(graph);
    return notice;
}

/* What all ranks announced, before any of it is believed; the number of machines goes to *count. */
static ringtree_status check_notices(ringtree_comm *comm, const struct notice *all, uint32_t *count, size_t *bytes)
{
    uint64_t sum = 0;
    *count = 0;
    for (uint32_t r = 0; r < comm->nranks; r++) {
        const char *host = rt_control_places(comm->control)[r].host;
        if (all[r].status != RINGTREE_OK && r == comm->rank) return comm->error.status;
        if (all[r].status != RINGTREE_OK)
            return rt_fail(&comm->error, (ringtree_status)all[r].status,
                           "rank %u (host %s) could not describe its machine; its own error says why", r, host);
        if (all[r].length > RT_PACKED_MOST_BYTES)
            return rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT,
                           "rank %u (host %s) says that its machine takes %u bytes, over %u", r, host, all[r].length,
                           RT_PACKED_MOST_BYTES);
        *count += all[r].length > 0;
        sum += all[r].length;
    }
    *bytes = (size_t)sum;
    if (*count > 0 && sum <= MOST_BYTES) return RINGTREE_OK;
    return rt_fail(&comm->error, RINGTREE_UNSUPPORTED, "the %u machines of %u ranks take %" PRIu64 " bytes", *count,
                   comm->nranks, sum);
}

/* Each machine from the rank that tells it, one after the other into `bytes`. */
static ringtree_status exchange(ringtree_comm *comm, const struct notice *all, const uint8_t *mine, uint8_t *bytes,
                                struct rt_packed *packed)
{
    ringtree_status status = RINGTREE_OK;
    for (uint32_t r = 0; r < comm->nranks && status == RINGTREE_OK; r++) {
        if (all[r].length == 0) continue;
        if (r == comm->rank) memcpy(bytes, mine, all[r].length);
        status = ringtree_broadcast(comm, bytes, bytes, all[r].length, RINGTREE_UINT8, r, NULL);
        *packed++ = (struct rt_packed){ bytes, all[r].length, r, rt_control_places(comm->control)[r].host };
        bytes += all[r].length;
    }
    return status;
}

static uint32_t find_domain(const struct rt_graph *g, uint32_t machine, int32_t number)
{
    const uint32_t end = machine + 1 < g->nmachines ? g->machine[machine + 1] : g->nvertices;
    for (uint32_t v = g->machine[machine]; v < end && number >= 0; v++)
        if (g->vertex[v].kind == RT_NUMA && g->vertex[v].number == number) return v;
    return RT_NO_VERTEX;
}

/* Each NUMA domain gets the ranks that keep to it, as its attribute "ranks". */
static void seat_ranks(ringtree_comm *comm, const struct notice *all)
{
    uint32_t *machine_of = calloc(comm->nranks, sizeof *machine_of);
    for (uint32_t r = 0, next = 0; r < comm->nranks && machine_of; r++) {
        const uint32_t teller = all[r].teller < r ? all[r].teller : r;
        machine_of[r] = all[r].length ? next++ : machine_of[teller];
        const uint32_t v = find_domain(comm->machines, machine_of[r], all[r].domain);
        if (v == RT_NO_VERTEX) continue;
        char text[256] = "";
        const char *before = rt_attribute(comm->machines, v, "ranks");
        if (before) snprintf(text, sizeof text, "%s", before);
        append_rank(text, sizeof text, r);
        rt_graph_attribute(comm->machines, v, "ranks", text);
    }
    free(machine_of);
}

static ringtree_status unite(ringtree_comm *comm, const struct notice *all, const uint8_t *mine)
{
    uint32_t count;
    size_t length = 0;
    ringtree_status status = check_notices(comm, all, &count, &length);
    if (status != RINGTREE_OK) return status;
    uint8_t *bytes = malloc(length);
    struct rt_packed *packed = calloc(count, sizeof *packed);
    if (!bytes || !packed)
        status = rt_fail(&comm->error, RINGTREE_NO_MEMORY, "rank %u: no memory for %u machines", comm->rank, count);
    else
        status = exchange(comm, all, mine, bytes, packed);
    if (status == RINGTREE_OK) status = rt_graph_unite(&comm->machines, packed, count, &comm->error);
    if (status == RINGTREE_OK) seat_ranks(comm, all);
    free(packed);
    free(bytes);
    return status;
}

ringtree_status rt_comm_machines(ringtree_comm *comm, const struct rt_graph **machines)
{
    *machines = NULL;
    ringtree_status status = rt_comm_check(comm, "the machines of a communicator");
    if (status != RINGTREE_OK) return status;
    if (comm->grouping)
        return rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT, "rank %u: machines are not exchanged inside a group",
                       comm->rank);
    if (!comm->machines) {
        struct notice *all = calloc(comm->nranks, sizeof *all);
        uint8_t *mine = NULL;
        if (!all) return rt_fail(&comm->error, RINGTREE_NO_MEMORY, "rank %u: no memory for its peers", comm->rank);
        const struct notice notice = describe(comm, &mine);
        const struct rt_error own = comm->error;
        status = ringtree_all_gather(comm, &notice, all, sizeof notice, RINGTREE_UINT8, NULL);
        if (status == RINGTREE_OK && notice.status != RINGTREE_OK) comm->error = own;
        if (status == RINGTREE_OK) status = unite(comm, all, mine);
        free(mine);
        free(all);
    }
    *machines = comm->machines;
    return status;
}
