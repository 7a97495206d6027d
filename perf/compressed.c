/*
 * Rows with --codec: the exact call and the one with the codec in turn, on the same bell-shaped values; then one call
 * whose every element is compared with the exact sum, each rank looking at a part. Times are medians over iterations
 * of the slowest rank's. Effective busbw counts float32 bytes, as if they had all travelled.
 */
#include "perf.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 256

/* ---- values */

static float value_of(uint32_t rank, size_t i)
{
    uint64_t x = ((uint64_t)rank << 40) + i + 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    x ^= x >> 31;
    const uint32_t sum = (uint32_t)(x & 0xffff) + (uint32_t)(x >> 16 & 0xffff) + (uint32_t)(x >> 32 & 0xffff) +
                         (uint32_t)(x >> 48);
    return ((float)sum - 131070) * 0x1p-20f;
}

static void fill(const struct bench *bench, size_t count)
{
    float *input = (float *)bench->block[0];
    for (size_t i = 0; i < count; i++) input[i] = value_of(bench->rank, i);
}

/* ---- errors */

struct error_sums {
    double worst, squares, share, bound; /* share: of the bound, at most 1; bound: the largest of all elements */
};

/* Elements begin to end, at most a block. */
static void look(const struct bench *bench, const ringtree_codec *codec, size_t begin, size_t end,
                 struct error_sums *sums)
{
    const float *output = (const float *)bench->block[1];
    double exact[BLOCK] = { 0 }, magnitudes[BLOCK] = { 0 }, allowed = 0, peak = 0;
    for (uint32_t r = 0; r < bench->nranks; r++) {
        double own = 0;
        for (size_t i = begin; i < end; i++) {
            const double value = (double)value_of(r, i);
            exact[i - begin] += value;
            magnitudes[i - begin] += fabs(value);
            own = fmax(own, fabs(value));
        }
        allowed += ringtree_codec_bound(codec, own);
    }
    for (size_t i = begin; i < end; i++) peak = fmax(peak, fabs(exact[i - begin]));
    allowed += ringtree_codec_bound(codec, peak + allowed);
    for (size_t i = begin; i < end; i++) {
        const double error = fabs((double)output[i] - exact[i - begin]);
        const double most = allowed + (magnitudes[i - begin] + allowed) * bench->nranks * 0x1p-24;
        sums->worst = fmax(sums->worst, error);
        sums->squares += error * error;
        sums->bound = fmax(sums->bound, most);
        sums->share = fmax(sums->share, error / (most + DBL_MIN));
    }
}

static bool has_bound(const ringtree_codec *codec)
{
    const uint32_t hops = RINGTREE_CODEC_BY_RING | RINGTREE_CODEC_BY_TREE;
    return codec->kind != RINGTREE_CODEC_TOPK && !(codec->flags & (hops | RINGTREE_CODEC_FEEDBACK));
}

static ringtree_status compare(struct bench *bench, const ringtree_codec *codec, size_t count, struct coded *coded)
{
    const size_t blocks = (count + BLOCK - 1) / BLOCK;
    const size_t first = blocks * bench->rank / bench->nranks, last = blocks * (bench->rank + 1) / bench->nranks;
    struct error_sums sums = { 0 }, *all = calloc(bench->nranks, sizeof(*all));
    if (!all) return fail(bench, RINGTREE_NO_MEMORY, "out of memory");
    for (size_t b = first; b < last; b++)
        look(bench, codec, b * BLOCK, b * BLOCK + BLOCK < count ? b * BLOCK + BLOCK : count, &sums);
    ringtree_status status = gather_all(bench, &sums, all, sizeof(sums));
    double squares = 0, share = 0;
    for (uint32_t r = 0; r < bench->nranks; r++) {
        coded->max_error = fmax(coded->max_error, all[r].worst);
        coded->bound = fmax(coded->bound, all[r].bound);
        share = fmax(share, all[r].share);
        squares += all[r].squares;
    }
    coded->rms_error = sqrt(squares / (double)count);
    coded->bounded = has_bound(codec);
    coded->within = !coded->bounded || share <= 1;
    free(all);
    return status;
}

/* ---- times */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median over iterations of the slowest rank's time. */
static ringtree_status median(struct bench *bench, const double *mine, double *value)
{
    const uint32_t n = bench->options->iterations;
    double *all = calloc((size_t)n * bench->nranks, sizeof(*all));
    if (!all) return fail(bench, RINGTREE_NO_MEMORY, "out of memory");
    ringtree_status status = gather_all(bench, mine, all, n * sizeof(double));
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t r = 1; r < bench->nranks; r++) all[i] = fmax(all[i], all[(size_t)r * n + i]);
    qsort(all, n, sizeof(double), by_value);
    *value = (all[(n - 1) / 2] + all[n / 2]) / 2;
    free(all);
    return status;
}

static ringtree_status call(const struct bench *bench, const ringtree_codec *codec, ringtree_codec_state *state,
                            size_t count)
{
    const void *input = bench->block[0];
    void       *output = bench->block[1];
    if (!codec) return ringtree_all_reduce(bench->comm, input, output, count, RINGTREE_FLOAT32, RINGTREE_SUM, NULL);
    return ringtree_all_reduce_compressed(bench->comm, input, output, count, RINGTREE_FLOAT32, RINGTREE_SUM, codec,
                                          state, NULL);
}

static ringtree_status time_call(struct bench *bench, const ringtree_codec *codec, ringtree_codec_state *state,
                                 size_t count, double *us)
{
    ringtree_status status = ringtree_barrier(bench->comm, NULL);
    const double    begun = now_us();
    if (!status) status = call(bench, codec, state, count);
    *us = now_us() - begun;
    return status;
}

static ringtree_status time_both(struct bench *bench, const ringtree_codec *codec, ringtree_codec_state *state,
                                 size_t count, struct coded *coded)
{
    const uint32_t n = bench->options->iterations, warmup = bench->options->warmup;
    double *times = calloc((size_t)2 * n, sizeof(*times)), unread;
    if (!times) return fail(bench, RINGTREE_NO_MEMORY, "out of memory");
    ringtree_status status = RINGTREE_OK;
    for (uint32_t i = 0; i < warmup + n && !status; i++) {
        double *exact = i >= warmup ? &times[i - warmup] : &unread, *coded_us = i >= warmup ? exact + n : &unread;
        if (i % 2) status = time_call(bench, codec, state, count, coded_us); /* each is first as often as the other */
        if (!status) status = time_call(bench, NULL, NULL, count, exact);
        if (i % 2 == 0 && !status) status = time_call(bench, codec, state, count, coded_us);
    }
    if (!status) status = median(bench, times, &coded->exact_us);
    if (!status) status = median(bench, times + n, &coded->time_us);
    free(times);
    return status;
}

/* Of all ranks, for each time that an element travels: 2 (n - 1) times in an all_reduce. */
static ringtree_status find_wire(struct bench *bench, const ringtree_codec_state *state, size_t count,
                                 struct coded *coded)
{
    ringtree_codec_report report = { .size = sizeof(report) };
    ringtree_status status = ringtree_codec_state_report(state, &report);
    double mine = report.calls ? (double)report.sent_bytes / (double)report.calls : 0, all = 0;
    if (!status)
        status = ringtree_all_reduce(bench->comm, &mine, &all, 1, RINGTREE_FLOAT64, RINGTREE_SUM, NULL);
    coded->kind = report.last_kind;
    coded->wire_bytes = all / (2.0 * (bench->nranks - 1) * (double)count);
    if (coded->kind == RINGTREE_CODEC_NONE) coded->wire_bytes = sizeof(float);
    return status;
}

/* Ranks that share memory compress only if they are made to. */
static ringtree_codec codec_here(const struct bench *bench)
{
    ringtree_codec codec = bench->options->codec;
    const bool shares = ringtree_local_size(bench->comm) == bench->nranks;
    if (codec.kind != RINGTREE_CODEC_AUTO && shares) codec.flags |= RINGTREE_CODEC_FORCE;
    return codec;
}

ringtree_status measure_codec(struct bench *bench, const struct row *row, struct coded *coded)
{
    const ringtree_codec  codec = codec_here(bench);
    ringtree_codec_state *state;
    ringtree_status       status = ringtree_codec_state_create(&state, row->count, &codec);
    *coded = (struct coded){ .time_us = 0 };
    if (status) return fail(bench, status, "%s", ringtree_last_error(NULL));
    fill(bench, row->count);
    status = time_both(bench, &codec, state, row->count, coded);
    if (!status) status = find_wire(bench, state, row->count, coded);
    ringtree_codec_state_reset(state);
    if (!status && bench->options->checks) status = call(bench, &codec, state, row->count);
    if (bench->options->fault == FAULT_FLIP && bench->rank == bench->options->fault_rank)
        for (size_t i = 0; i < row->count; i++) ((float *)bench->block[1])[i] += 1;
    ringtree_codec taken = codec; /* auto has chosen one */
    taken.kind = coded->kind;
    if (!status && bench->options->checks) status = compare(bench, &taken, row->count, coded);
    if (!status && bench->options->checks) bench->wrong += !coded->within;
    coded->busbw = (double)row->count * sizeof(float) / coded->time_us / 1e3 *
                   bench->options->collective->factor(bench->nranks);
    ringtree_codec_state_free(state);
    return status;
}

/* ---- what is written */

static void print_line(const char *a, const char *b, const char *c, const char *d, const char *e, const char *f,
                       const char *g, const char *h, const char *i, const char *j, const char *k)
{
    printf("#%12s  %12s  %5s  %9s  %9s  %7s  %7s  %9s  %9s  %9s  %9s\n", a, b, c, d, e, f, g, h, i, j, k);
}

/* What the library would do with the largest row. */
ringtree_status coded_explain(struct bench *bench)
{
    const ringtree_codec codec = codec_here(bench);
    const size_t count = row_count(bench->options, bench->options->max_bytes, RINGTREE_FLOAT32, bench->nranks);
    char text[1024], *save = NULL;
    ringtree_status status =
        ringtree_codec_explain(bench->comm, RINGTREE_ALL_REDUCE, count, &codec, text, sizeof(text));
    if (status || bench->rank) return status;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) printf("# %s\n", line);
    return status;
}

void coded_columns(const struct bench *bench)
{
    const ringtree_codec codec = codec_here(bench);
    printf("# codec %s%s\n#\n", ringtree_codec_name(codec.kind),
           codec.flags & RINGTREE_CODEC_FORCE ? ", forced: these ranks share memory" : "");
    print_line("size", "count", "codec", "exact", "coded", "times", "busbw", "wire", "max", "RMS", "bound");
    print_line("(B)", "(elements)", "", "(us)", "(us)", "faster", "(GB/s)", "(B/elem)", "error", "error", "");
    fflush(stdout);
}

void coded_row(const struct bench *bench, const struct row *row, const struct coded *coded)
{
    printf(" %12zu  %12zu  %5s  %9.1f  %9.1f  %7.2f  %7.3f  %9.4f", row_bytes(bench->options, row, bench->nranks),
           row->count, ringtree_codec_name(coded->kind), coded->exact_us, coded->time_us,
           coded->exact_us / coded->time_us, coded->busbw, coded->wire_bytes);
    if (!bench->options->checks) printf("  %9s  %9s  %9s\n", "N/A", "N/A", "N/A");
    else if (!coded->bounded) printf("  %9.2e  %9.2e  %9s\n", coded->max_error, coded->rms_error, "none");
    else printf("  %9.2e  %9.2e  %9.2e%s\n", coded->max_error, coded->rms_error, coded->bound,
                coded->within ? "" : " EXCEEDED");
    fflush(stdout);
}
