/*
 * The two ways of timing. Small: operations back to back in batches; a batch's time is that of its slowest rank, the
 * point's the median over batches, and the percentiles come from operations with a clock reading after each. From
 * DIRTY_BYTES up: every rank rewrites its input, all meet at the board, and one operation is timed; its time is the
 * slowest rank's from the barrier to its own result; the point's is the median over repeats. The root moves on by one
 * rank with each operation, or the ranks that only send would run ahead of the others.
 */
#include "measure.h"
#include "pattern.h"

#include <stdlib.h>
#include <string.h>

#define BATCHES 15u
#define STAMPED 2000u
#define TRIES 3u

struct run {
    struct seat          *seat;
    const struct peer    *peer;
    struct call          *call;
    const struct options *options;
    uint32_t              next_root;
};

static int operate(struct run *run)
{
    run->call->root = run->next_root;
    if (++run->next_root == run->seat->nranks) run->next_root = 0;
    return run->peer->run(run->peer->context, run->call);
}

static void fill(struct run *run, uint32_t seed)
{
    run->call->root = run->next_root;
    pattern_fill(run->call, run->seat->rank, run->seat->nranks, seed);
}

static void check(const struct run *run, uint32_t seed)
{
    const struct seat *seat = run->seat;
    atomic_fetch_add(&seat->board->wrong, pattern_wrong(run->call, seat->rank, seat->nranks, seed));
}

/* What the last operation left there must not pass for this one's result. */
static void spoil(const struct run *run)
{
    const struct call *call = run->call;
    const size_t       count = output_count(call, run->seat->rank, run->seat->nranks);
    if (count) memset(call->output, 0xff, count * sizeof(float));
}

static int run_checked(struct run *run, uint32_t seed)
{
    run->call->root = run->next_root;
    spoil(run);
    fill(run, seed);
    board_barrier(run->seat);
    const int status = operate(run);
    check(run, seed);
    return status;
}

static double *own_samples(const struct run *run)
{
    return run->seat->board->samples[run->seat->rank];
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorted at rank 0 afterwards. */
static const double *slowest(const struct run *run, uint32_t count)
{
    board_slowest(run->seat, count);
    if (run->seat->rank == 0) qsort(run->seat->board->samples[0], count, sizeof(double), by_value);
    return run->seat->board->samples[0];
}

static void percentiles(const double *sorted, uint32_t count, struct point *point)
{
    point->least_us = sorted[0];
    point->p50_us = sorted[count / 2];
    point->p99_us = sorted[(uint32_t)(0.99 * (count - 1) + 0.5)];
}

/* ---- small */

static int time_batch(struct run *run, uint64_t operations, double *us)
{
    board_barrier(run->seat);
    int          status = 0;
    const double start = now_us();
    for (uint64_t i = 0; !status && i < operations; i++)
        status = operate(run);
    *us = (now_us() - start) / (double)operations;
    return status;
}

/* Operations of one batch, so that all batches take half of the budget; found by doubling, which warms up, too. */
static int find_operations(struct run *run, uint64_t *operations, double *us)
{
    const double batch_us = run->options->budget_ms * 500.0 / BATCHES;
    *operations = 1;
    for (;;) {
        const int status = time_batch(run, *operations, us);
        if (status) return status;
        const bool enough = *us * (double)*operations * 2 > batch_us || *operations >= 1u << 20;
        if (board_agree(run->seat, enough)) break;
        *operations *= 2;
    }
    return 0;
}

static int time_stamped(struct run *run, uint32_t count)
{
    board_barrier(run->seat);
    double *samples = own_samples(run), last = now_us();
    int     status = 0;
    for (uint32_t i = 0; !status && i < count; i++) {
        status = operate(run);
        const double now = now_us();
        samples[i] = now - last;
        last = now;
    }
    return status;
}

static int time_small(struct run *run, struct point *point)
{
    uint64_t operations;
    double   us;
    int      status = run_checked(run, 1);
    if (!status) status = find_operations(run, &operations, &us);
    if (status) return status;
    const uint64_t slow = us * BATCHES > run->options->budget_ms * 1000.0;
    const uint32_t batches = board_agree(run->seat, slow) ? run->options->least : BATCHES;
    const double   room = run->options->budget_ms * 250.0 / us;
    const uint32_t stamped = (uint32_t)board_agree(run->seat, room > STAMPED ? STAMPED : (uint64_t)room + 3);
    for (uint32_t i = 0; !status && i < batches; i++)
        status = time_batch(run, operations, &own_samples(run)[i]);
    if (status) return status;
    const double *sorted = slowest(run, batches);
    point->us = sorted[batches / 2];
    point->repeats = batches;
    status = time_stamped(run, stamped);
    if (status) return status;
    percentiles(slowest(run, stamped), stamped, point);
    return run_checked(run, 2);
}

/* ---- dirty */

static int time_once(struct run *run, uint32_t seed, double *us)
{
    fill(run, seed);
    board_barrier(run->seat);
    const double start = now_us();
    const int    status = operate(run);
    *us = now_us() - start;
    return status;
}

static int time_dirty(struct run *run, struct point *point)
{
    double us = 0;
    int    status = run_checked(run, 1);
    const double begin = now_us();
    for (uint32_t i = 0; !status && i < 2; i++)
        status = time_once(run, i, &us);
    if (status) return status;
    uint64_t repeats = (uint64_t)(run->options->budget_ms * 2000.0 / (now_us() - begin));
    if (repeats < run->options->least) repeats = run->options->least;
    if (repeats > STAMPED) repeats = STAMPED;
    repeats = board_agree(run->seat, repeats);
    for (uint32_t i = 0; !status && i < repeats; i++)
        status = time_once(run, i, &own_samples(run)[i]);
    if (status) return status;
    check(run, (uint32_t)repeats - 1);
    percentiles(slowest(run, (uint32_t)repeats), (uint32_t)repeats, point);
    point->us = point->p50_us;
    point->repeats = (uint32_t)repeats;
    return run_checked(run, 2);
}

/* ---- a point */

static int class_of(double line_ns)
{
    return (line_ns > TWIN_NS) + (line_ns > NEAR_NS);
}

int measure_point(struct seat *seat, const struct peer *peer, struct call *call, size_t bytes,
                  const struct options *options, struct point *point)
{
    struct run run = { seat, peer, call, options, 0 };
    *point = (struct point){ .dirty = bytes >= DIRTY_BYTES };
    if (seat->rank == 0) atomic_store(&seat->board->wrong, 0);
    board_barrier(seat);
    for (;;) {
        point->line_ns[0] = board_line_ns(seat);
        const int status = point->dirty ? time_dirty(&run, point) : time_small(&run, point);
        if (status) return status;
        board_barrier(seat);
        point->line_ns[1] = board_line_ns(seat);
        point->tries++;
        if (class_of(point->line_ns[0]) == class_of(point->line_ns[1]) || point->tries == TRIES) break;
    }
    point->wrong = atomic_load(&seat->board->wrong);
    board_barrier(seat);
    return 0;
}
