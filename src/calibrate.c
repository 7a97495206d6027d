/* The planner's costs of a new communicator: table, kept measurement or new one, agreement. */
#include "calibrate.h"
#include "topology/interfaces.h"
#include "base/log.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the table */

#define REMEDY "ringtree-tune -o FILE writes one"

static ringtree_status read_table(struct rt_costs *costs, int fd, const char *path, struct rt_error *error)
{
    char *text = malloc(RT_COST_TEXT_MOST + 1);
    if (!text) return rt_fail(error, RINGTREE_NO_MEMORY, "no memory to read \"%s\" (RINGTREE_TUNE_FILE)", path);
    size_t length = 0;
    ssize_t got = 1;
    while (length <= RT_COST_TEXT_MOST && got > 0) {
        got = read(fd, text + length, RT_COST_TEXT_MOST + 1 - length);
        if (got > 0) length += (size_t)got;
    }
    struct rt_error wrong;
    ringtree_status status;
    if (got < 0)
        status = rt_fail(error, RINGTREE_INVALID_SETTING, "RINGTREE_TUNE_FILE: \"%s\" cannot be read: %s; " REMEDY,
                         path, rt_errno_words(errno));
    else if ((status = rt_costs_read(costs, text, length, path, &wrong)) != RINGTREE_OK)
        rt_fail(error, status, "RINGTREE_TUNE_FILE: %s; " REMEDY, wrong.text);
    free(text);
    return status;
}

static ringtree_status load_table(const ringtree_comm *comm, struct rt_costs *costs, struct rt_error *error)
{
    const char *path = comm->settings.text[RT_TUNE_FILE];
    rt_costs_built_in(costs);
    if (!path[0]) return RINGTREE_OK;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return rt_fail(error, RINGTREE_INVALID_SETTING, "RINGTREE_TUNE_FILE: \"%s\" cannot be opened: %s; "
                       REMEDY, path, rt_errno_words(errno));
    ringtree_status status = read_table(costs, fd, path, error);
    close(fd);
    return status;
}

/* ---- agreement */

struct told { /* by every rank to all; only rank 0's calibration counts, and those of ranks that measured */
    uint64_t              table; /* hash */
    uint32_t              status, known, measures; /* rank 0 says whether links are measured */
    struct rt_rivals      rivals;
    struct rt_losers      losers;
    uint32_t              connections; /* RINGTREE_TCP_SOCKETS */
    uint32_t              mbit; /* of the interface to other machines, as the system tells */
    struct rt_calibration calibration;
    char                  text[400];
};

static ringtree_status compare(const ringtree_comm *comm, const struct told *all, struct rt_error *error)
{
    for (uint32_t r = 0; r < comm->nranks; r++) {
        if (all[r].status)
            return rt_fail(error, (ringtree_status)all[r].status, "rank %u: %.*s", r, (int)sizeof all[r].text - 1,
                           all[r].text);
        for (int d = 0; d < RT_DISTANCES; d++)
            if (all[r].rivals.first[d] >= comm->nranks || all[r].rivals.second[d] >= comm->nranks)
                return rt_fail(error, RINGTREE_MISMATCH, "rank %u tells of links of ranks %u and %u of %u; use one "
                               "build of ringtree on all ranks", r, all[r].rivals.first[d], all[r].rivals.second[d],
                               comm->nranks);
        if (all[r].table != all[0].table)
            return rt_fail(error, RINGTREE_MISMATCH, "ranks 0 and %u have different tables of costs: "
                           "RINGTREE_TUNE_FILE must name files with the same contents on all ranks", r);
    }
    return RINGTREE_OK;
}

static void adapt(struct rt_planner *planner, const struct rt_calibration *c)
{
    struct rt_costs *costs = &planner->costs;
    for (int kind = 0; kind < RT_LINK_KINDS; kind++) {
        if (!c->latency_fs[kind] || !c->byte_fs[kind]) continue;
        const struct rt_link_measured m = { (double)c->latency_fs[kind] * 1e-15, (double)c->byte_fs[kind] * 1e-15 };
        planner->measured[kind] = true;
        rt_costs_adapt(costs, (enum rt_link_kind)kind, &m);
        rt_log(RT_LOG_INFO, "link %s: %.2f us, %.2f GB/s one way; the planner reckons with %.2f us",
               rt_link_kind_name((enum rt_link_kind)kind), m.latency * 1e6, 1e-9 / m.byte,
               costs->link[kind].latency * 1e6);
    }
    if (c->byte_fs[RT_FLOW] && c->byte_fs[RT_LINK_NETWORK])
        rt_costs_narrow(costs, RT_LINK_NETWORK,
                        (double)c->byte_fs[RT_FLOW] / (double)c->byte_fs[RT_LINK_NETWORK]);
}

/* The slowest interface that any rank uses is the network's. A table that somebody measured needs no assumption. */
static void assume(ringtree_comm *comm, const struct told *all)
{
    struct rt_planner *planner = &comm->planner;
    planner->assumed = planner->sites.between == RT_LINK_NETWORK && !planner->measured[RT_LINK_NETWORK] &&
                       !comm->settings.text[RT_TUNE_FILE][0];
    for (uint32_t r = 0; r < comm->nranks; r++)
        if (all[r].mbit && (!planner->mbit || all[r].mbit < planner->mbit)) planner->mbit = all[r].mbit;
    if (planner->assumed) rt_assume_network(&planner->costs, planner->mbit, rt_on_one_machine(comm));
}

/* How many connections links between nodes have from now on, as rank 0 is set to or by costs. */
static void spread(ringtree_comm *comm, uint32_t asked)
{
    struct rt_sites *sites = &comm->planner.sites;
    const bool chooses = !asked && sites->nodes > 1 && sites->between == RT_LINK_NETWORK;
    sites->connections = asked ? asked : 1;
    if (chooses)
        sites->connections = rt_cost_connections(&comm->planner.costs, sites, comm->engine->slot_bytes, NULL);
    comm->engine->fabric.connections = sites->connections;
}

static bool wants(const ringtree_comm *comm, const char *how)
{
    return strcmp(comm->settings.text[RT_CALIBRATE], how) == 0;
}

/* A measured table needs no measurement, unless one is asked for. */
static bool may_measure(const ringtree_comm *comm)
{
    return wants(comm, "always") || (wants(comm, "") && !comm->settings.text[RT_TUNE_FILE][0]);
}

/* The first rank that measured something is believed. */
static void merge(struct told *all, uint32_t n)
{
    for (uint32_t r = 1; r < n; r++) {
        all[0].losers.failed |= all[r].losers.failed;
        all[0].losers.slow |= all[r].losers.slow;
        for (uint32_t i = 0; i < RT_MEASURED; i++) {
            if (all[0].calibration.latency_fs[i]) continue;
            all[0].calibration.latency_fs[i] = all[r].calibration.latency_fs[i];
            all[0].calibration.byte_fs[i] = all[r].calibration.byte_fs[i];
        }
    }
}

/* What all ranks found, in all[0] afterwards. */
static ringtree_status share(ringtree_comm *comm, const struct told *mine, struct told *all, struct rt_error *error)
{
    const ringtree_status status = rt_control_all_gather(comm->control, mine, sizeof *mine, all, error);
    if (status == RINGTREE_OK) merge(all, comm->nranks);
    return status;
}

/* What a link between machines takes over several connections too. */
static ringtree_status share_flows(ringtree_comm *comm, struct told *mine, struct told *all, struct rt_error *error)
{
    const uint32_t ms = (uint32_t)comm->settings.number[RT_CALIBRATE_MS];
    const ringtree_status status = rt_flows_measure(comm, ms, &mine->calibration, error);
    return status == RINGTREE_OK ? share(comm, mine, all, error) : status;
}

/* Transports that compete: their costs are in *mine from here on, and all ranks use those that won. A transport's links
 * may be opened anew only after both ends have closed the old ones, so all wait for that. */
static ringtree_status measure_rivals(ringtree_comm *comm, const struct rt_rivals *rivals, struct told *mine,
                                      struct told *all, struct rt_error *error)
{
    struct rt_trial trials[RT_CARRIERS * RT_DISTANCES] = { { .connections = 0 } };
    const uint32_t ms = (uint32_t)comm->settings.number[RT_CALIBRATE_MS] / RT_CARRIERS;
    rt_rivals_measure(comm, rivals, ms ? ms : 1, trials, &mine->calibration, &mine->losers);
    ringtree_status status = share(comm, mine, all, error);
    for (uint32_t i = 0; i < RT_CARRIERS * RT_DISTANCES; i++) rt_trial_end(&trials[i]);
    if (status != RINGTREE_OK) return status;
    mine->calibration = all[0].calibration;
    mine->losers = all[0].losers;
    mine->status = rt_rivals_choose(comm, &mine->calibration, &mine->losers, error);
    memcpy(mine->text, error->text, sizeof mine->text - 1);
    status = rt_control_all_gather(comm->control, mine, sizeof *mine, all, error);
    return status == RINGTREE_OK ? compare(comm, all, error) : status;
}

static ringtree_status measure(ringtree_comm *comm, const char *what, const struct rt_rivals *rivals, struct told *mine,
                               struct told *all, struct rt_error *error)
{
    struct rt_calibration links;
    ringtree_status status = RINGTREE_OK;
    memset(&mine->calibration, 0, sizeof mine->calibration);
    if (rt_rivals_unknown(rivals, &mine->calibration)) status = measure_rivals(comm, rivals, mine, all, error);
    if (status != RINGTREE_OK) return status;
    status = rt_calibrate_measure(comm, (uint32_t)comm->settings.number[RT_CALIBRATE_MS], false, &links);
    if (status != RINGTREE_OK) return rt_fail(error, status, "%s", comm->error.text);
    memcpy(mine->calibration.latency_fs, links.latency_fs, RT_LINK_KINDS * sizeof *links.latency_fs);
    memcpy(mine->calibration.byte_fs, links.byte_fs, RT_LINK_KINDS * sizeof *links.byte_fs);
    status = share_flows(comm, mine, all, error);
    if (status != RINGTREE_OK) return status;
    if (comm->rank == 0 && !wants(comm, "always") && !all[0].losers.failed)
        rt_calibration_store(&comm->settings, what, &all[0].calibration);
    return RINGTREE_OK;
}

/* Both within a factor of 1.5; what could not be measured is no news. */
static bool is_near(uint64_t kept, uint64_t found)
{
    return !found || (kept * 3 >= found * 2 && found * 3 >= kept * 2);
}

/* A link between machines may have changed since it was measured; small differences are noise. */
static ringtree_status look_again(ringtree_comm *comm, const char *what, struct told *mine, struct told *all,
                                  struct rt_error *error)
{
    const int k = RT_LINK_NETWORK;
    struct rt_calibration kept = all[0].calibration;
    if (!kept.latency_fs[k]) return RINGTREE_OK;
    memset(&mine->calibration, 0, sizeof mine->calibration);
    ringtree_status status =
        rt_calibrate_measure(comm, (uint32_t)comm->settings.number[RT_CALIBRATE_MS], true, &mine->calibration);
    if (status != RINGTREE_OK) return rt_fail(error, status, "%s", comm->error.text);
    status = share(comm, mine, all, error);
    if (status != RINGTREE_OK) return status;
    const struct rt_calibration *found = &all[0].calibration;
    const uint64_t kept_fs = kept.byte_fs[kept.byte_fs[RT_FLOW] ? RT_FLOW : k]; /* over one connection, as was found */
    if (!is_near(kept.latency_fs[k], found->latency_fs[k]) || !is_near(kept_fs, found->byte_fs[k])) {
        status = share_flows(comm, mine, all, error);
        if (status != RINGTREE_OK) return status;
        kept.latency_fs[k] = found->latency_fs[k];
        kept.byte_fs[k] = found->byte_fs[k];
        kept.latency_fs[RT_FLOW] = found->latency_fs[RT_FLOW];
        kept.byte_fs[RT_FLOW] = found->byte_fs[RT_FLOW];
        if (comm->rank == 0) rt_calibration_store(&comm->settings, what, &kept);
    }
    all[0].calibration = kept;
    return RINGTREE_OK;
}

static ringtree_status agree(ringtree_comm *comm, const struct rt_error *local, struct told *all,
                             struct rt_error *error)
{
    char what[RT_FINGERPRINT_MOST];
    struct told mine = { .table = rt_costs_hash(&comm->planner.costs), .status = local->status };
    mine.measures = may_measure(comm);
    mine.connections = (uint32_t)comm->settings.number[RT_TCP_SOCKETS];
    if (comm->planner.sites.between == RT_LINK_NETWORK)
        mine.mbit = rt_interface_mbit(rt_control_places(comm->control)[comm->rank].address[0].interface);
    memcpy(mine.text, local->text, sizeof mine.text - 1);
    rt_fingerprint(comm, what);
    rt_rivals_find(comm, &mine.rivals);
    if (comm->rank == 0 && (wants(comm, "cached") || (wants(comm, "") && may_measure(comm))))
        mine.known = rt_calibration_load(&comm->settings, what, &mine.calibration);
    ringtree_status status = rt_control_all_gather(comm->control, &mine, sizeof mine, all, error);
    if (status == RINGTREE_OK) status = compare(comm, all, error);
    if (status != RINGTREE_OK) return status;
    struct rt_rivals rivals = all[0].rivals;
    for (uint32_t r = 1; r < comm->nranks; r++) rt_rivals_merge(&rivals, &all[r].rivals);
    const bool measures = all[0].measures;
    const bool knows = all[0].known && !rt_rivals_unknown(&rivals, &all[0].calibration);
    if (!knows && measures) status = measure(comm, what, &rivals, &mine, all, error);
    else status = rt_rivals_choose(comm, &all[0].calibration, NULL, error);
    if (status == RINGTREE_OK && knows && measures) status = look_again(comm, what, &mine, all, error);
    if (status != RINGTREE_OK) return status;
    adapt(&comm->planner, &all[0].calibration);
    assume(comm, all);
    spread(comm, all[0].connections);
    return status;
}

ringtree_status rt_calibrate(ringtree_comm *comm, struct rt_error *error)
{
    struct rt_error local = { .status = RINGTREE_OK };
    ringtree_status status = load_table(comm, &comm->planner.costs, &local);
    if (comm->nranks == 1) return status == RINGTREE_OK ? status : rt_fail(error, status, "%s", local.text);
    struct told *all = calloc(comm->nranks, sizeof *all);
    if (!all) return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory to agree on costs", comm->rank);
    status = agree(comm, &local, all, error);
    free(all);
    rt_plan_forget(comm);
    if (status == RINGTREE_OK) rt_plan_warm(comm);
    return status;
}
