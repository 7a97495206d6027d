/*
 * overlap_perf: how much of an all_reduce hides behind computing, with and without the progress thread.
 *
 * Two communicators over the same ranks, one with the thread. Each repeat times, one after the other: the operation
 * alone (A, without the thread), computing alone (C), and start, compute, wait on either communicator (T). The time of
 * a repeat is that of its slowest rank; medians over the repeats are reported. Computing is a chain of multiplications
 * in registers, so it takes from the operation its core and nothing else.
 */
#include "size.h"

#include <getopt.h>
#include <ringtree/ringtree.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_SIZES   16
#define MOST_REPEATS 1001
#define TRIAL_STEPS  2000000 /* some milliseconds: the speed of computing */

enum ended { ENDED_GOOD, ENDED_WRONG, ENDED_USAGE, ENDED_LIBRARY, ENDED_UNWRITTEN };
enum timed { ALONE, COMPUTE, PLAIN, THREAD, TIMED };

struct options {
    size_t      bytes[MOST_SIZES];
    uint32_t    sizes, repeats, computing; /* computing 0: all */
    const char *json;
    bool        spoil;
};

struct bench {
    const struct options *options;
    ringtree_comm        *plain, *threaded;
    uint32_t              rank, nranks;
    float                *input, *output;
    uint64_t              wrong; /* elements, this rank's */
    long                  steps;
};

struct row {
    size_t bytes;
    double us[TIMED]; /* medians */
};

static void print_help(FILE *out)
{
    fputs("Usage: ringtree-run -n N overlap_perf [OPTIONS]\n"
          "\n"
          "Measures how much of an all_reduce (float32, sum) hides behind computing that takes as long, with and\n"
          "without the progress thread (RINGTREE_PROGRESS_THREAD). Columns, in us, medians of the slowest rank:\n"
          "  alone     A: the operation by itself, without the thread\n"
          "  compute   C: the computing by itself, made as long as A in a first trial\n"
          "  plain     T: start, compute, wait, without the thread\n"
          "  thread    T: the same with it\n"
          "and for both T: hidden, (A + C - T) / min(A, C) in %, which is 100 when the shorter is free; and cost,\n"
          "T / (A + C) - 1 in %, which is above 0 when starting early is slower than one after the other.\n"
          "Every result is checked, outside of the time.\n"
          "\n"
          "  -b, --bytes N,...     sizes, also with K, M or G (default 1M,16M)\n"
          "  -n, --repeats N       1 to 1001 (default 11)\n"
          "  -c, --computing N     only the first N ranks compute, the others wait at once (default: all)\n"
          "      --json FILE       also one line of JSON; - is standard output, instead of the table\n"
          "      --spoil           alters one element of one result, to see that it is found\n"
          "      --help            this text\n"
          "\n"
          "Exit status: 0 good; 1 a result was wrong; 2 bad command line; 3 the library failed; 4 the output could\n"
          "not be written.\n"
          "\n"
          "Examples:\n"
          "  RINGTREE_TRANSPORTS=tcp ringtree-run -n 2 --bind --no-prefix overlap_perf\n"
          "  RINGTREE_TRANSPORTS=tcp ringtree-run -n 2 --no-prefix overlap_perf -b 16M -c 1 --json -\n", out);
}

/* ---- the command line */

static bool complain(const char *option, const char *value)
{
    fprintf(stderr, "overlap_perf: %s \"%s\" is not possible. See overlap_perf --help\n", option, value);
    return false;
}

static bool read_count(const char *option, const char *text, size_t most, uint32_t *count)
{
    size_t number;
    if (!size_parse(text, 1, most, &number)) return complain(option, text);
    *count = (uint32_t)number;
    return true;
}

static bool read_sizes(const char *text, struct options *options)
{
    const char *at = text;
    for (options->sizes = 0; options->sizes < MOST_SIZES;) {
        size_t bytes;
        if (!size_take(&at, (size_t)16 << 30, &bytes) || !bytes || bytes % sizeof(float)) break;
        options->bytes[options->sizes++] = bytes;
        if (!*at) return true;
        if (*at++ != ',') break;
    }
    return complain("--bytes", text);
}

/* -1: go on, else the status to end with */
static int read_options(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {
        { "bytes", required_argument, NULL, 'b' },     { "repeats", required_argument, NULL, 'n' },
        { "computing", required_argument, NULL, 'c' }, { "json", required_argument, NULL, 'j' },
        { "spoil", no_argument, NULL, 's' },           { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 },
    };
    bool good = true;
    for (int option; good && (option = getopt_long(argc, argv, "b:n:c:", names, NULL)) != -1;) {
        switch (option) {
        case 'b': good = read_sizes(optarg, options); break;
        case 'n': good = read_count("--repeats", optarg, MOST_REPEATS, &options->repeats); break;
        case 'c': good = read_count("--computing", optarg, UINT32_MAX, &options->computing); break;
        case 'j': options->json = optarg; break;
        case 's': options->spoil = true; break;
        case 'h': return print_help(stdout), ENDED_GOOD;
        default: return fputs("See overlap_perf --help\n", stderr), ENDED_USAGE;
        }
    }
    if (good && optind < argc) good = complain("argument", argv[optind]);
    return good ? -1 : ENDED_USAGE;
}

/* ---- what is timed */

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static volatile double kept; /* so that the compiler does not drop the computing */

static void compute(long steps)
{
    double x = 1;
    for (long i = 0; i < steps; i++) x = x * 1.0000001 + 1e-9;
    kept = x;
}

static ringtree_status all_reduce(struct bench *bench, ringtree_comm *comm, size_t count, ringtree_request **request)
{
    return ringtree_all_reduce(comm, bench->input, bench->output, count, RINGTREE_FLOAT32, RINGTREE_SUM, request);
}

static ringtree_status overlapped(struct bench *bench, ringtree_comm *comm, size_t count)
{
    ringtree_request *request;
    ringtree_status   status = all_reduce(bench, comm, count, &request);
    if (status) return status;
    compute(bench->steps);
    return ringtree_wait(&request);
}

static ringtree_status timed(struct bench *bench, enum timed what, size_t count, double *us)
{
    ringtree_status status = ringtree_barrier(bench->plain, NULL);
    if (status) return status;
    const double begin = now_us();
    switch (what) {
    case ALONE: status = all_reduce(bench, bench->plain, count, NULL); break;
    case COMPUTE: compute(bench->steps); break;
    case PLAIN: status = overlapped(bench, bench->plain, count); break;
    default: status = overlapped(bench, bench->threaded, count); break;
    }
    *us = now_us() - begin;
    return status;
}

/* ---- whether it is right */

/* Small whole numbers, whose sum is exact. */
static float input_of(uint32_t rank, size_t i)
{
    return (float)((i + rank) % 13);
}

static void fill(struct bench *bench, size_t count)
{
    for (size_t i = 0; i < count; i++) bench->input[i] = input_of(bench->rank, i);
    memset(bench->output, 0xff, count * sizeof(float));
}

static void check(struct bench *bench, size_t count)
{
    float sums[13] = { 0 };
    for (size_t i = 0; i < 13; i++)
        for (uint32_t r = 0; r < bench->nranks; r++) sums[i] += input_of(r, i);
    if (bench->options->spoil && bench->rank == 0) bench->output[count / 2] += 1;
    for (size_t i = 0; i < count; i++) bench->wrong += bench->output[i] != sums[i % 13];
    memset(bench->output, 0xff, count * sizeof(float));
}

/* ---- one size */

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Computing as long as the operation: of one length on all ranks, since their cores may differ in speed. */
static ringtree_status calibrate(struct bench *bench, size_t count)
{
    double          us[3], begin, steps;
    ringtree_status status = RINGTREE_OK;
    for (int i = 0; i < 3 && !status; i++) status = timed(bench, ALONE, count, &us[i]);
    if (status) return status;
    qsort(us, 3, sizeof(*us), compare_doubles);
    compute(TRIAL_STEPS);
    begin = now_us();
    compute(TRIAL_STEPS);
    steps = TRIAL_STEPS * us[1] / (now_us() - begin);
    status = ringtree_all_reduce(bench->plain, &steps, &steps, 1, RINGTREE_FLOAT64, RINGTREE_AVG, NULL);
    const uint32_t computing = bench->options->computing;
    bench->steps = computing && bench->rank >= computing ? 0 : (long)steps;
    return status;
}

static ringtree_status repeat(struct bench *bench, size_t count, double us[TIMED])
{
    for (enum timed what = 0; what < TIMED; what++) {
        const ringtree_status status = timed(bench, what, count, &us[what]);
        if (status) return status;
        if (what != COMPUTE) check(bench, count);
    }
    return ringtree_all_reduce(bench->plain, us, us, TIMED, RINGTREE_FLOAT64, RINGTREE_MAX, NULL);
}

static ringtree_status measure(struct bench *bench, struct row *row)
{
    const uint32_t  repeats = bench->options->repeats;
    const size_t    count = row->bytes / sizeof(float);
    double          us[TIMED], all[TIMED][MOST_REPEATS];
    fill(bench, count);
    ringtree_status status = overlapped(bench, bench->threaded, count); /* its connections */
    if (!status) status = calibrate(bench, count);
    for (uint32_t i = 0; i < repeats && !status; i++) {
        status = repeat(bench, count, us);
        for (int what = 0; what < TIMED; what++) all[what][i] = us[what];
    }
    for (int what = 0; what < TIMED && !status; what++) {
        qsort(all[what], repeats, sizeof(double), compare_doubles);
        row->us[what] = all[what][repeats / 2];
    }
    return status;
}

/* ---- what is written, by rank 0 */

static double hidden(const struct row *row, enum timed together)
{
    const double least = row->us[ALONE] < row->us[COMPUTE] ? row->us[ALONE] : row->us[COMPUTE];
    return 100 * (row->us[ALONE] + row->us[COMPUTE] - row->us[together]) / least;
}

static double cost(const struct row *row, enum timed together)
{
    return 100 * (row->us[together] / (row->us[ALONE] + row->us[COMPUTE]) - 1);
}

static void write_table(const struct row *rows, uint32_t count)
{
    printf("#%12s %10s %10s | %10s %8s %8s | %10s %8s %8s\n", "", "alone", "compute", "plain", "hidden", "cost",
           "thread", "hidden", "cost");
    printf("#%12s %10s %10s | %10s %8s %8s | %10s %8s %8s\n", "bytes", "us", "us", "us", "%", "%", "us", "%", "%");
    for (const struct row *row = rows; row < rows + count; row++)
        printf(" %12zu %10.1f %10.1f | %10.1f %8.1f %8.1f | %10.1f %8.1f %8.1f\n", row->bytes, row->us[ALONE],
               row->us[COMPUTE], row->us[PLAIN], hidden(row, PLAIN), cost(row, PLAIN), row->us[THREAD],
               hidden(row, THREAD), cost(row, THREAD));
}

static void write_json(const struct bench *bench, const struct row *rows, uint32_t count, uint64_t wrong, FILE *out)
{
    fprintf(out, "{\"program\": \"overlap_perf\", \"ranks\": %u, \"computing\": %u, \"repeats\": %u, \"wrong\": %llu, "
            "\"rows\": [", bench->nranks, bench->options->computing ? bench->options->computing : bench->nranks,
            bench->options->repeats, (unsigned long long)wrong);
    for (const struct row *row = rows; row < rows + count; row++)
        fprintf(out, "%s{\"bytes\": %zu, \"alone_us\": %.1f, \"compute_us\": %.1f, \"plain_us\": %.1f, "
                "\"plain_hidden_percent\": %.1f, \"plain_cost_percent\": %.1f, \"thread_us\": %.1f, "
                "\"thread_hidden_percent\": %.1f, \"thread_cost_percent\": %.1f}", row == rows ? "" : ", ", row->bytes,
                row->us[ALONE], row->us[COMPUTE], row->us[PLAIN], hidden(row, PLAIN), cost(row, PLAIN), row->us[THREAD],
                hidden(row, THREAD), cost(row, THREAD));
    fprintf(out, "]}\n");
}

static bool write_all(const struct bench *bench, const struct row *rows, uint64_t wrong)
{
    const struct options *options = bench->options;
    const bool            to_stdout = options->json && !strcmp(options->json, "-");
    FILE                 *file = to_stdout ? stdout : options->json ? fopen(options->json, "w") : NULL;
    bool                  written = file || !options->json;
    if (!to_stdout) write_table(rows, options->sizes);
    if (file) write_json(bench, rows, options->sizes, wrong, file);
    if (file && file != stdout) written = !fclose(file);
    written = !fflush(stdout) && !ferror(stdout) && written;
    if (!written)
        fprintf(stderr, "overlap_perf: cannot write %s\n", options->json ? options->json : "to standard output");
    return written;
}

/* ---- the whole */

/* The same ranks once more, with a progress thread. */
static ringtree_status open_threaded(struct bench *bench)
{
    const ringtree_options with = { sizeof(with), .progress_thread = 1 };
    ringtree_id            id;
    ringtree_status        status = bench->rank == 0 ? ringtree_id_create(&id) : RINGTREE_OK;
    if (status) ringtree_abort(bench->plain, "rank 0 could not make an id");
    if (!status) status = ringtree_broadcast(bench->plain, &id, &id, sizeof(id), RINGTREE_UINT8, 0, NULL);
    return status ? status : ringtree_init_id(&bench->threaded, &id, bench->nranks, bench->rank, &with);
}

static ringtree_status run(struct bench *bench, struct row *rows, uint64_t *wrong)
{
    ringtree_status status = open_threaded(bench);
    for (uint32_t i = 0; i < bench->options->sizes && !status; i++) {
        rows[i] = (struct row){ .bytes = bench->options->bytes[i] };
        status = measure(bench, &rows[i]);
    }
    if (!status)
        status = ringtree_all_reduce(bench->plain, &bench->wrong, wrong, 1, RINGTREE_UINT64, RINGTREE_SUM, NULL);
    return status;
}

static int say_failure(const struct bench *bench, ringtree_status status)
{
    const char *why = ringtree_last_error(bench->plain);
    if (bench->threaded && !*why) why = ringtree_last_error(bench->threaded);
    fprintf(stderr, "overlap_perf: rank %u: %s: %s\n", bench->rank, ringtree_status_name(status),
            *why ? why : ringtree_last_error(NULL));
    ringtree_abort(bench->plain, why);
    return ENDED_LIBRARY;
}

static bool allocate(struct bench *bench)
{
    size_t most = 0;
    for (uint32_t i = 0; i < bench->options->sizes; i++)
        if (bench->options->bytes[i] > most) most = bench->options->bytes[i];
    bench->input = malloc(most);
    bench->output = malloc(most);
    return bench->input && bench->output;
}

static int run_all(struct bench *bench)
{
    struct row            rows[MOST_SIZES];
    uint64_t              wrong = 0;
    const ringtree_status status = run(bench, rows, &wrong);
    if (status) return say_failure(bench, status);
    int ended = wrong ? ENDED_WRONG : ENDED_GOOD;
    if (bench->rank != 0) return ended;
    if (wrong) fprintf(stderr, "overlap_perf: %llu elements are wrong\n", (unsigned long long)wrong);
    return write_all(bench, rows, wrong) || ended ? ended : ENDED_UNWRITTEN;
}

int main(int argc, char **argv)
{
    struct options options = { .bytes = { 1 << 20, 16 << 20 }, .sizes = 2, .repeats = 11 };
    struct bench   bench = { .options = &options };
    int            ended = read_options(argc, argv, &options);
    if (ended >= 0) return ended;
    if (!allocate(&bench)) {
        fputs("overlap_perf: no memory for the buffers; lower --bytes\n", stderr);
        return ENDED_LIBRARY;
    }
    const ringtree_status status = ringtree_init(&bench.plain);
    if (status) return say_failure(&bench, status);
    bench.rank = ringtree_rank(bench.plain);
    bench.nranks = ringtree_size(bench.plain);
    ended = run_all(&bench);
    ringtree_destroy(bench.threaded);
    ringtree_destroy(bench.plain);
    free(bench.input);
    free(bench.output);
    return ended;
}
