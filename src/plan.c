/*
 * The planner: predicts the time of every valid way and takes the least. What a way costs is told in cost/cost.h; the
 * same table and the same places on all ranks make all choose alike.
 */
#include "comm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- where the ranks are */

struct machine {
    uint64_t               key;
    const struct rt_place *place;
};

static int by_key(const void *a, const void *b)
{
    const struct machine *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

/* The machine with the most ranks to a core. Network namespaces on one machine have its cores in common. */
static void find_crowd(struct rt_sites *sites, struct machine *machines)
{
    const uint32_t n = sites->ranks;
    qsort(machines, n, sizeof *machines, by_key);
    sites->crowd = 0;
    for (uint32_t first = 0, end; first < n; first = end) {
        struct rt_core_count count = { 0 };
        for (end = first; end < n && machines[end].key == machines[first].key; end++)
            rt_core_count_add(&count, machines[end].place);
        const uint32_t cores = rt_core_count_total(&count);
        if (sites->crowd && (uint64_t)(end - first) * sites->cores <= (uint64_t)sites->crowd * cores) continue;
        sites->crowd = end - first;
        sites->cores = cores;
    }
}

static bool on_one_machine(const struct rt_place *places, uint32_t n)
{
    for (uint32_t r = 1; r < n; r++)
        if (places[r].host_key != places[0].host_key) return false;
    return true;
}

ringtree_status rt_planner_open(ringtree_comm *comm, struct rt_error *error)
{
    const struct rt_place *places = rt_control_places(comm->control);
    struct rt_sites *sites = &comm->planner.sites;
    struct machine *machines = calloc(comm->nranks, sizeof *machines);
    if (!machines) return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory for the planner", comm->rank);
    *sites = rt_sites_of(comm->nranks, comm->node_of);
    for (uint32_t r = 0; r < comm->nranks; r++)
        machines[r] = (struct machine){ places[r].machine_key, &places[r] };
    find_crowd(sites, machines);
    free(machines);
    if (on_one_machine(places, comm->nranks)) sites->between = RT_LINK_LOOPBACK;
    sites->direct = comm->engine->exchange != NULL;
    return RINGTREE_OK;
}

struct rt_plan_link rt_plan_link(const ringtree_comm *comm)
{
    const struct rt_sites *sites = &comm->planner.sites;
    const uint8_t kind = sites->nodes > 1 ? sites->between : sites->inside;
    const struct rt_link_cost *cost = &comm->planner.costs.link[kind];
    const double byte = cost->wire_byte > cost->byte ? cost->wire_byte : cost->byte;
    return (struct rt_plan_link){ (enum rt_link_kind)kind, cost->latency, 1 / byte, cost->wire_byte > 0 };
}

/* ---- the options */

/* The forced name for this collective from RINGTREE_ALGORITHM ("ring" or "all_reduce=ring,broadcast=tree"). */
static bool forced_name(const char *setting, ringtree_collective collective, char *name, size_t capacity)
{
    const char *wanted = ringtree_collective_name(collective);
    while (*setting) {
        const size_t length = strcspn(setting, ",");
        const char *equals = memchr(setting, '=', length);
        const bool applies = !equals || ((size_t)(equals - setting) == strlen(wanted) &&
                                         strncmp(setting, wanted, strlen(wanted)) == 0);
        const char *value = equals ? equals + 1 : setting;
        const size_t size = length - (size_t)(value - setting);
        if (applies && size && size < capacity) {
            memcpy(name, value, size);
            name[size] = '\0';
            return true;
        }
        setting += length + (setting[length] == ',');
    }
    return false;
}

uint32_t rt_plan_options(const ringtree_comm *comm, ringtree_collective collective, size_t bytes, uint32_t root,
                         struct rt_option *options)
{
    const struct rt_planner *planner = &comm->planner;
    const struct rt_shape shape = { .nranks = comm->nranks, .rank = comm->rank, .root = root,
                                    .layout = &comm->engine->layout };
    uint32_t count = 0;
    collective = rt_plan_carrier(collective);
    if (rt_direct_serves(collective))
        options[count++] = (struct rt_option){ "shared", NULL,
                                               planner->sites.direct ? NULL
                                                                     : "not all ranks share memory (shm on one "
                                                                       "machine, RINGTREE_DIRECT=1)", { 0 } };
    for (uint32_t i = 0; i < rt_algorithm_count && count < RT_MOST_OPTIONS; i++) {
        const struct rt_algorithm *a = rt_algorithms[i];
        if (a->collective != collective) continue;
        options[count++] = (struct rt_option){ a->name, a, a->refuses ? a->refuses(&shape) : NULL, { 0 } };
    }
    for (uint32_t i = 0; i < count; i++)
        rt_cost_predict(&planner->costs, &planner->sites, collective, options[i].algorithm, bytes,
                        comm->engine->slot_bytes, comm->settings.number[RT_SLICE_BYTES], &options[i].prediction);
    return count;
}

/* ---- the choice */

static ringtree_status refuse(ringtree_collective collective, const char *name, const struct rt_option *options,
                              uint32_t count, struct rt_error *error)
{
    char possible[200] = "";
    size_t used = 0;
    const char *why = "there is no such algorithm";
    for (uint32_t i = 0; i < count; i++) {
        if (!strcmp(options[i].name, name)) why = options[i].refusal;
        if (options[i].refusal) continue;
        const int n = snprintf(possible + used, sizeof possible - used, "%s%s", used ? ", " : "", options[i].name);
        if (n > 0 && (size_t)n < sizeof possible - used) used += (size_t)n;
    }
    return rt_fail(error, RINGTREE_INVALID_SETTING, "RINGTREE_ALGORITHM asks for \"%s\" for %s: %s. Possible here: %s",
                   name, ringtree_collective_name(collective), why, possible);
}

struct rt_plan rt_plan_of(const struct rt_option *option)
{
    return (struct rt_plan){ option->algorithm ? RT_BY_PROGRAM : RT_BY_DIRECT, option->algorithm,
                             option->prediction.slice, option->prediction.seconds, 0 };
}

/*
 * The direct paths open no links: they are left for a gain that is more than noise. And a call of 8 KiB to 8 MiB with
 * arrays of ringtree_mem_alloc() takes half of what it takes by them with private ones, which the prediction is for, or
 * by any other way; which kind they are is not known to all ranks. So there, with rt_cost_beats(), private ones may
 * lose up to 15 %.
 */
static double favour(const struct rt_option *option, size_t bytes)
{
    if (option->algorithm) return 1;
    return bytes < ((size_t)8 << 10) || bytes > ((size_t)8 << 20) ? 0.95 : 0.90;
}

static const struct rt_option *least_of(const struct rt_option *options, uint32_t count, size_t bytes,
                                        const char *forced)
{
    const struct rt_option *best = NULL;
    double least = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (options[i].refusal) continue;
        const double seconds = options[i].prediction.seconds * favour(&options[i], bytes);
        if (forced ? strcmp(options[i].name, forced) != 0 : best && !rt_cost_beats(seconds, least)) continue;
        best = &options[i];
        least = seconds;
    }
    return best;
}

static ringtree_status choose(ringtree_comm *comm, ringtree_collective collective, size_t bytes, uint32_t root,
                              struct rt_plan *plan, struct rt_error *error)
{
    struct rt_option options[RT_MOST_OPTIONS];
    char name[32];
    const bool forced = collective != RINGTREE_BARRIER &&
                        forced_name(comm->settings.text[RT_ALGORITHM], collective, name, sizeof name);
    const uint32_t count = rt_plan_options(comm, collective, bytes, root, options);
    const struct rt_option *best = least_of(options, count, bytes, forced ? name : NULL);
    if (!best && forced) return refuse(collective, name, options, count, error);
    if (!best)
        return rt_fail(error, RINGTREE_UNSUPPORTED, "no algorithm for %s", ringtree_collective_name(collective));
    *plan = rt_plan_of(best);
    if (comm->settings.number[RT_REVIEW_EVERY]) plan->told = (uint8_t)(1 + (best - options));
    if (!forced && comm->planner.tuner) return rt_plan_ask_tuner(comm, collective, bytes, options, count, plan, error);
    return RINGTREE_OK;
}

struct rt_kept_plan *rt_plan_kept(ringtree_comm *comm, ringtree_collective collective, size_t bytes, uint32_t root)
{
    const uint64_t mixed = (bytes + root) * UINT64_C(0x9e3779b97f4a7c15);
    return &comm->planner.kept[collective][mixed >> 32 & (RT_PLANS_KEPT - 1)];
}

void rt_plan_warm(const ringtree_comm *comm)
{
    struct rt_option options[RT_MOST_OPTIONS];
    for (uint32_t c = 0; c <= RINGTREE_SCATTER; c++)
        rt_plan_options(comm, (ringtree_collective)c, 1 << 20, 0, options);
}

void rt_plan_forget(ringtree_comm *comm)
{
    memset(comm->planner.kept, 0, sizeof comm->planner.kept);
    memset(comm->again, 0, sizeof comm->again);
}

ringtree_status rt_plan_choose(ringtree_comm *comm, ringtree_collective collective, size_t bytes, uint32_t root,
                               const struct rt_plan **plan, struct rt_error *error)
{
    struct rt_kept_plan *kept = rt_plan_kept(comm, collective, bytes, root);
    if (!kept->known || kept->bytes != bytes || kept->root != root) {
        struct rt_plan made;
        ringtree_status status = choose(comm, collective, bytes, root, &made, error);
        if (status != RINGTREE_OK) return status;
        *kept = (struct rt_kept_plan){ true, bytes, root, made, 0, 0 };
    }
    *plan = &kept->plan;
    return RINGTREE_OK;
}
