/*
 * The timed loops, as nccl-tests has them: a barrier, `iterations` calls back to back, the mean; then the mean (or
 * rank 0's, the least, the most) over the ranks. Checked iterations come after and are not timed.
 */
#include "perf.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

ringtree_status fail(struct bench *bench, ringtree_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(bench->words, sizeof(bench->words), format, args);
    va_end(args);
    return status;
}

ringtree_status gather_all(struct bench *bench, const void *mine, void *all, size_t bytes)
{
    return ringtree_all_gather(bench->comm, mine, all, bytes, RINGTREE_UINT8, NULL);
}

/* ---- one iteration: `aggregate` calls */

static ringtree_status run_through_request(const struct call *call, const struct options *options)
{
    ringtree_request *request = NULL;
    ringtree_status   status = options->collective->start(call, &request);
    return status ? status : ringtree_wait(&request);
}

/* sendrecv is a group of its own, and groups do not nest: its calls follow one another. */
static bool fuses(const struct options *options, uint32_t calls)
{
    return calls > 1 && options->collective->kind != RINGTREE_SEND_RECV;
}

static ringtree_status run_calls(const struct call *call, const struct options *options, uint32_t calls)
{
    const bool      group = fuses(options, calls);
    ringtree_status status = group ? ringtree_group_begin(call->comm) : RINGTREE_OK;
    for (uint32_t i = 0; !status && i < calls; i++) {
        if (options->blocking == 2 && !group) status = run_through_request(call, options);
        else status = options->collective->start(call, NULL);
    }
    if (group) {
        ringtree_status ended = ringtree_group_end(call->comm, NULL);
        if (!status) status = ended;
    }
    if (!status && options->blocking == 1) status = ringtree_barrier(call->comm, NULL);
    return status;
}

/* ---- faults, so that tests can see the checks fail */

#ifdef RINGTREE_FAULT_SWITCHES
static void inject_fault(const struct bench *bench, const struct layout *layout)
{
    if (bench->rank != bench->options->fault_rank) return;
    const size_t middle = layout->region_bytes[1] / 2;
    switch (bench->options->fault) {
    case FAULT_FLIP:
        if (layout->region_bytes[1]) layout->region[1][middle] ^= 1;
        break;
    case FAULT_CANARY: layout->region[1][layout->region_bytes[1]] ^= 1; break;
    case FAULT_INPUT:
        if (layout->region[0] && layout->region_bytes[0]) layout->region[0][layout->region_bytes[0] / 2] ^= 1;
        break;
    case FAULT_DIE: raise(SIGKILL); break;
    default: break;
    }
}

/* A rank that calls with another count than the others. */
static void skew_call(const struct bench *bench, struct call *call)
{
    if (bench->options->fault == FAULT_MISMATCH && bench->rank == bench->options->fault_rank && call->row.count)
        call->row.count--;
}
#else
#define inject_fault(bench, layout) ((void)(layout))
#define skew_call(bench, call) ((void)0)
#endif

/* ---- timing */

static ringtree_status time_dirty(struct bench *bench, const struct call *call, const struct layout *layout,
                                  double *total)
{
    const struct options *options = bench->options;
    *total = 0;
    for (uint32_t i = 0; i < options->iterations; i++) {
        layout_fill(layout, bench, &call->row, i);
        ringtree_status status = ringtree_barrier(bench->comm, NULL);
        const double    start = now_us();
        if (!status) status = run_calls(call, options, options->aggregate);
        if (status) return status;
        bench->times[i] = now_us() - start;
        *total += bench->times[i];
    }
    return RINGTREE_OK;
}

static ringtree_status time_back_to_back(struct bench *bench, const struct call *call, double *total)
{
    const struct options *options = bench->options;
    ringtree_status       status = ringtree_barrier(bench->comm, NULL);
    const double          start = now_us();
    double                last = start;
    for (uint32_t i = 0; !status && i < options->iterations; i++) {
        status = run_calls(call, options, options->aggregate);
        if (!options->percentiles) continue;
        const double now = now_us();
        bench->times[i] = now - last;
        last = now;
    }
    *total = now_us() - start;
    return status;
}

static ringtree_status check(struct bench *bench, const struct call *call, const struct layout *layout,
                             struct result *mine)
{
    for (uint32_t i = 0; i < bench->options->checks; i++) {
        layout_poison(layout);
        layout_fill(layout, bench, &call->row, i + 1);
        ringtree_status status = run_calls(call, bench->options, 1);
        if (status) return status;
        inject_fault(bench, layout);
        mine->wrong += layout_wrong(layout, bench, &call->row, i + 1);
        mine->outside += layout_outside(layout);
    }
    return RINGTREE_OK;
}

/* ---- over the ranks */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(const double *sorted, uint32_t count, double part)
{
    const uint32_t at = (uint32_t)ceil(part * count);
    return sorted[at ? at - 1 : 0];
}

/* An operation takes as long as on its slowest rank. */
static ringtree_status find_percentiles(struct bench *bench, struct result *result)
{
    const uint32_t n = bench->options->iterations;
    double        *all = bench->times + n;
    ringtree_status status = gather_all(bench, bench->times, all, n * sizeof(double));
    if (status) return status;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t r = 1; r < bench->nranks; r++)
            all[i] = fmax(all[i], all[(size_t)r * n + i]);
    qsort(all, n, sizeof(double), by_value);
    const uint32_t calls = bench->options->aggregate;
    result->min_us = all[0] / calls;
    result->p50_us = percentile(all, n, 0.5) / calls;
    result->p99_us = percentile(all, n, 0.99) / calls;
    return RINGTREE_OK;
}

static double over_ranks(const struct result *all, uint32_t nranks, uint32_t average)
{
    double value = all[0].time_us;
    for (uint32_t r = 1; average && r < nranks; r++) {
        if (average == 1) value += all[r].time_us;
        else value = average == 2 ? fmin(value, all[r].time_us) : fmax(value, all[r].time_us);
    }
    return average == 1 ? value / nranks : value;
}

static ringtree_status combine(struct bench *bench, const struct row *row, struct result *result)
{
    const struct options *options = bench->options;
    struct result *all = calloc(bench->nranks, sizeof(*all));
    if (!all) return fail(bench, RINGTREE_NO_MEMORY, "out of memory");
    ringtree_status status = gather_all(bench, result, all, sizeof(*result));
    if (!status) {
        bench->own_wrong += result->wrong + result->outside;
        result->wrong = result->outside = 0;
        result->time_us = over_ranks(all, bench->nranks, options->average);
        for (uint32_t r = 0; r < bench->nranks; r++) {
            result->wrong += all[r].wrong;
            result->outside += all[r].outside;
        }
        result->algbw = (double)row_bytes(options, row, bench->nranks) / result->time_us / 1e3;
        result->busbw = result->algbw * options->collective->factor(bench->nranks);
        result->measured = true;
        bench->wrong += result->wrong;
        bench->outside += result->outside;
    }
    free(all);
    return status;
}

static ringtree_status make_op(struct bench *bench, const struct row *row, ringtree_op *op)
{
    *op = row->op;
    if (row->op != OP_MULSUM) return RINGTREE_OK;
    unsigned char scalar[8];
    number_store(scalar, row->type, exact_scalar(bench->rank));
    return ringtree_op_premul_sum(bench->comm, scalar, row->type, op);
}

static ringtree_status time_and_check(struct bench *bench, struct call *call, const struct layout *layout,
                                      struct result *result)
{
    const struct options *options = bench->options;
    ringtree_status       status = RINGTREE_OK;
    double                total = 0;
    layout_poison(layout);
    layout_fill(layout, bench, &call->row, 0);
    skew_call(bench, call);
    for (uint32_t i = 0; !status && i < options->warmup; i++)
        status = run_calls(call, options, options->aggregate);
    if (status) return status;
    status = options->dirty ? time_dirty(bench, call, layout, &total) : time_back_to_back(bench, call, &total);
    if (status) return status;
    result->time_us = total / options->iterations / options->aggregate;
    return check(bench, call, layout, result);
}

ringtree_status measure(struct bench *bench, const struct row *row, bool in_place, struct result *result)
{
    struct layout layout;
    *result = (struct result){ .measured = false };
    if (in_place && !bench->options->collective->in_place) return RINGTREE_OK;
    layout_make(&layout, bench, row, in_place);
    struct call call = { .comm = bench->comm, .input = layout.input, .output = layout.output, .row = *row };
    ringtree_status status = make_op(bench, row, &call.op);
    if (status) return status;
    status = time_and_check(bench, &call, &layout, result);
    if (!status) status = combine(bench, row, result);
    if (!status && bench->options->percentiles) status = find_percentiles(bench, result);
    if (!status && row->op == OP_MULSUM) status = ringtree_op_free(bench->comm, call.op);
    return status;
}
