/* In a rank: every way of a call, forced by the tuner, in turn, round after round; the median of the rounds. */
#include "ringtree-tune.h"
#include "calibrate.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>


static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

struct meter {
    ringtree_comm      *comm;
    ringtree_collective collective;
    size_t              count; /* float32 */
    float              *in, *out;
    uint32_t            root;
    uint8_t             place; /* enum rt_cost_case */
};

struct wish {
    ringtree_collective collective;
    uint32_t            way;
};

/* Other calls, as the barriers between, go as they would. */
static uint32_t force(void *context, ringtree_collective collective, size_t bytes, const ringtree_way *ways,
                      uint32_t number, uint32_t predicted)
{
    (void)bytes, (void)ways, (void)number;
    const struct wish *wish = context;
    return collective == wish->collective ? wish->way : predicted;
}

static ringtree_status call(struct meter *m)
{
    const size_t n = m->count;
    const ringtree_type type = RINGTREE_FLOAT32;
    const uint32_t root = m->root++ % ringtree_size(m->comm);
    switch (m->collective) {
    case RINGTREE_ALL_REDUCE: return ringtree_all_reduce(m->comm, m->in, m->out, n, type, RINGTREE_SUM, NULL);
    case RINGTREE_REDUCE: return ringtree_reduce(m->comm, m->in, m->out, n, type, RINGTREE_SUM, root, NULL);
    case RINGTREE_BROADCAST: return ringtree_broadcast(m->comm, m->in, m->out, n, type, root, NULL);
    case RINGTREE_REDUCE_SCATTER:
        return ringtree_reduce_scatter(m->comm, m->in, m->out, n, type, RINGTREE_SUM, NULL);
    case RINGTREE_ALL_GATHER: return ringtree_all_gather(m->comm, m->in, m->out, n, type, NULL);
    case RINGTREE_ALL_TO_ALL: return ringtree_all_to_all(m->comm, m->in, m->out, n, type, NULL);
    case RINGTREE_GATHER: return ringtree_gather(m->comm, m->in, m->out, n, type, root, NULL);
    case RINGTREE_SCATTER: return ringtree_scatter(m->comm, m->in, m->out, n, type, root, NULL);
    default: return RINGTREE_INVALID_ARGUMENT;
    }
}

static bool has_root(ringtree_collective collective)
{
    return collective == RINGTREE_REDUCE || collective == RINGTREE_BROADCAST || collective == RINGTREE_GATHER ||
           collective == RINGTREE_SCATTER;
}

/* Seconds of a call. Roots take turns, so that a call cannot run ahead of the one before for long. */
static ringtree_status time_calls(struct meter *m, uint32_t calls, double *seconds)
{
    ringtree_status status = ringtree_barrier(m->comm, NULL);
    const double start = now();
    m->root = 0;
    for (uint32_t i = 0; i < calls && status == RINGTREE_OK; i++) status = call(m);
    *seconds = (now() - start) / calls;
    return status;
}

/* As rank 0 has it, by the planner's ways: the tuner is off meanwhile. */
static ringtree_status agree(ringtree_comm *comm, uint32_t *number)
{
    ringtree_set_tuner(comm, NULL, NULL);
    return ringtree_broadcast(comm, number, number, 1, RINGTREE_UINT32, 0, NULL);
}

/* How many calls of this way take about the time wanted: as rank 0 finds. */
static ringtree_status count_calls(struct meter *m, double wanted, uint32_t *calls)
{
    const uint32_t least = has_root(m->collective) ? ringtree_size(m->comm) : 1;
    double seconds = 0;
    ringtree_status status = time_calls(m, least, &seconds);
    if (status == RINGTREE_OK) status = time_calls(m, 2 * least, &seconds);
    const double fit = seconds > 0 ? wanted / seconds / least : 1000;
    *calls = least * (uint32_t)(fit < 1 ? 1 : fit > 2000 ? 2000 : fit);
    if (status == RINGTREE_OK) status = agree(m->comm, calls);
    return status;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct trial {
    ringtree_way ways[RINGTREE_MOST_WAYS];
    size_t       number;
    uint32_t     calls[RINGTREE_MOST_WAYS];
    double       seconds[RINGTREE_MOST_WAYS][3 * TUNE_MOST_ROUNDS], median[RINGTREE_MOST_WAYS];
};

/* `which`: a bit for each way. */
static ringtree_status go_through(struct meter *m, uint32_t which, uint32_t rounds, double seconds,
                                  struct trial *trial)
{
    ringtree_status status = RINGTREE_OK;
    for (uint32_t round = 0; round <= rounds; round++) {
        for (uint32_t way = 0; way < trial->number && status == RINGTREE_OK; way++) {
            if (!(which >> way & 1)) continue;
            struct wish wish = { m->collective, way };
            status = ringtree_set_tuner(m->comm, force, &wish);
            if (status == RINGTREE_OK && round == 0) status = count_calls(m, seconds, &trial->calls[way]);
            else if (status == RINGTREE_OK)
                status = time_calls(m, trial->calls[way], &trial->seconds[way][round - 1]);
        }
    }
    ringtree_set_tuner(m->comm, NULL, NULL);
    for (uint32_t way = 0; way < trial->number; way++) {
        if (!(which >> way & 1)) continue;
        qsort(trial->seconds[way], rounds, sizeof(double), by_value);
        trial->median[way] = trial->seconds[way][rounds / 2];
    }
    return status;
}

/* The chosen way and those that took clearly less, as rank 0 has it; 0: none did. */
static ringtree_status find_doubtful(struct meter *m, const struct trial *trial, uint32_t possible, uint32_t *doubtful)
{
    uint32_t chosen = 0;
    *doubtful = 0;
    while (chosen < trial->number && !trial->ways[chosen].chosen) chosen++;
    for (uint32_t way = 0; way < trial->number && chosen < trial->number; way++)
        if ((possible >> way & 1) && trial->median[way] * TUNE_LATE < trial->median[chosen])
            *doubtful |= 1u << way | 1u << chosen;
    return agree(m->comm, doubtful);
}

/*
 * Every way in turn, round after round. Of many ways the least median is often an accident, so where the choice looks
 * wrong by it, it and those that looked better are measured again, more often and beside one another: that counts.
 */
static ringtree_status try_ways(struct meter *m, const struct tune_job *job, struct trial *trial)
{
    uint32_t possible = 0, doubtful = 0;
    for (uint32_t way = 0; way < trial->number; way++) possible |= (uint32_t)!trial->ways[way].refusal << way;
    ringtree_status status = go_through(m, possible, job->rounds, job->seconds, trial);
    if (status != RINGTREE_OK || job->uncorrected) return status;
    status = find_doubtful(m, trial, possible, &doubtful);
    if (status != RINGTREE_OK || !doubtful) return status;
    return go_through(m, doubtful, 3 * job->rounds, 2 * job->seconds, trial);
}

static ringtree_status measure_one(struct meter *m, const struct tune_job *job, tune_take *take, void *context)
{
    static struct trial trial;
    ringtree_status status = ringtree_plan_ways(m->comm, m->collective, m->count, RINGTREE_FLOAT32, trial.ways,
                                                RINGTREE_MOST_WAYS, &trial.number);
    if (status == RINGTREE_OK) status = try_ways(m, job, &trial);
    for (uint32_t way = 0; way < trial.number && status == RINGTREE_OK && ringtree_rank(m->comm) == 0; way++) {
        if (trial.ways[way].refusal) continue;
        struct tune_point point = { (uint8_t)m->collective, m->place, (uint8_t)trial.ways[way].chosen,
                                    ringtree_size(m->comm), m->count * sizeof(float), "", trial.ways[way].seconds, 0 };
        snprintf(point.way, sizeof point.way, "%s", trial.ways[way].name);
        point.measured = trial.median[way];
        take(&point, context);
    }
    return status;
}

/* The scheduler needs some time to find a core for each rank. */
static ringtree_status warm_up(ringtree_comm *comm)
{
    const double end = now() + 0.1;
    ringtree_status status = RINGTREE_OK;
    for (uint32_t more = 1; more && status == RINGTREE_OK; status = status ? status : agree(comm, &more)) {
        for (int i = 0; i < 100 && status == RINGTREE_OK; i++) status = ringtree_barrier(comm, NULL);
        more = now() < end;
    }
    return status;
}

static bool has_blocks(ringtree_collective collective)
{
    return collective != RINGTREE_ALL_REDUCE && collective != RINGTREE_REDUCE && collective != RINGTREE_BROADCAST;
}

/* What later measurements are compared with. */
static ringtree_status measure_link(ringtree_comm *comm, tune_take *take, void *context)
{
    struct rt_calibration found;
    const ringtree_status status = rt_calibrate_measure(comm, 1000, false, &found);
    const struct rt_sites *s = &comm->planner.sites;
    const uint8_t kind = s->nodes > 1 ? s->between : s->inside;
    if (status == RINGTREE_OK && ringtree_rank(comm) == 0 && found.latency_fs[kind]) {
        const struct tune_point point = { .place = (uint8_t)rt_cost_case_of(s), .ranks = s->ranks,
                                          .measured = (double)found.latency_fs[kind] * 1e-15,
                                          .predicted = (double)found.byte_fs[kind] * 1e-15 };
        take(&point, context);
    }
    return status;
}

ringtree_status tune_measure(ringtree_comm *comm, const struct tune_job *job, tune_take *take, void *context)
{
    const uint32_t n = ringtree_size(comm);
    struct meter m = { .comm = comm, .place = (uint8_t)rt_cost_case_of(&comm->planner.sites),
                       .in = malloc(job->most + 4096), .out = malloc(job->most + 4096) };
    ringtree_status status = m.in && m.out ? RINGTREE_OK : RINGTREE_NO_MEMORY;
    if (status == RINGTREE_OK) {
        memset(m.in, 0, job->most + 4096);
        memset(m.out, 0, job->most + 4096);
        status = warm_up(comm);
    }
    if (job->uncorrected) rt_costs_uncorrect(&comm->planner.costs);
    rt_plan_forget(comm);
    if (job->uncorrected && status == RINGTREE_OK) status = measure_link(comm, take, context);
    for (uint32_t c = 0; c < RINGTREE_BARRIER; c++) {
        m.collective = (ringtree_collective)c;
        if (!(job->collectives >> c & 1)) continue;
        const uint64_t most = has_blocks(m.collective) ? job->most / n : job->most;
        for (uint64_t bytes = job->least; bytes <= most && status == RINGTREE_OK; bytes *= job->step) {
            m.count = bytes / sizeof(float);
            status = measure_one(&m, job, take, context);
        }
    }
    free(m.in);
    free(m.out);
    return status;
}
