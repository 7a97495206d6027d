/* One rank's part: flags, jobs, buffers, and the lines of JSON. */
#include "protocol.h"
#include "measure.h"
#include "pattern.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const char *const names[COLLECTIVES] = { "all_reduce",     "reduce",     "broadcast",  "reduce_scatter",
                                                "all_gather",     "all_to_all", "gather",     "scatter",
                                                "barrier",        "send_recv" };

/* ---- flags */

/* What launchers call the rank, looked at before the library is opened: it must find itself on its core. */
static uint32_t rank_from_environment(void)
{
    static const char *const known[] = { "RINGTREE_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "RANK" };
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (getenv(known[i])) return (uint32_t)atoi(getenv(known[i]));
    return 0;
}

bool protocol_options(struct options *options, int argc, char **argv)
{
    static const struct option flags[] = {
        { "board", required_argument, NULL, 'b' }, { "out", required_argument, NULL, 'o' },
        { "jobs", required_argument, NULL, 'j' },  { "ranks", required_argument, NULL, 'n' },
        { "threads", no_argument, NULL, 't' },     { "budget-ms", required_argument, NULL, 'm' },
        { "least", required_argument, NULL, 'l' }, { NULL, 0, NULL, 0 },
    };
    *options = (struct options){ .rank = rank_from_environment(), .budget_ms = 40, .least = 5 };
    for (int flag; (flag = getopt_long(argc, argv, "", flags, NULL)) != -1;) {
        switch (flag) {
        case 'b': options->board = optarg; break;
        case 'o': options->out = optarg; break;
        case 'j': options->jobs = optarg; break;
        case 'n': options->nranks = (uint32_t)atoi(optarg); break;
        case 't': options->threads = 1; break;
        case 'm': options->budget_ms = (uint32_t)atoi(optarg); break;
        case 'l': options->least = (uint32_t)atoi(optarg); break;
        default: return false;
        }
    }
    if (optind < argc) return fprintf(stderr, "%s is no flag\n", argv[optind]), false;
    if (options->board && options->out && options->jobs && options->nranks && options->least) return true;
    fprintf(stderr, "--board, --out, --jobs and --ranks are needed\n");
    return false;
}

/* ---- buffers */

struct worker {
    const struct options *options;
    const struct peer    *peer;
    struct seat           seat;
};

/* Odd pages before the bytes that are used: two buffers a power of two apart share cache sets. */
static void *private_memory(size_t bytes)
{
    static _Atomic uint32_t turn;
    const size_t page = 4096, pad = page * (2 * (atomic_fetch_add(&turn, 1) % 8) + 1);
    char *start = mmap(NULL, bytes + pad, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return start == MAP_FAILED ? NULL : start + pad;
}

static size_t most(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The most that any root asks for. */
static void find_room(const struct worker *worker, struct call call, size_t *input, size_t *output)
{
    *input = *output = 1;
    for (call.root = 0; call.root < worker->seat.nranks; call.root++) {
        *input = most(*input, input_count(&call, worker->seat.rank, worker->seat.nranks));
        *output = most(*output, output_count(&call, worker->seat.rank, worker->seat.nranks));
    }
}

static void place(const struct worker *worker, struct call *call, float *input, float *output)
{
    const uint32_t rank = worker->seat.rank;
    call->input = input;
    call->output = output;
    if (!call->in_place) return;
    call->input = call->output;
    if (call->collective == ALL_GATHER) call->input = call->output + rank * call->count;
    if (call->collective == REDUCE_SCATTER && !worker->peer->first_block) call->output += rank * call->count;
}

/* Buffers of the largest size serve all sizes of a job, at the size of a row's own. */
static bool get_memory(const struct worker *worker, struct call largest, bool shared, float **input, float **output)
{
    size_t in, out;
    find_room(worker, largest, &in, &out);
    if (largest.in_place) out = most(in, out);
    const struct peer *peer = worker->peer;
    if (shared && !peer->shared) return fprintf(stderr, "no memory of its own\n"), false;
    *input = shared ? peer->shared(peer->context, in * sizeof(float)) : private_memory(in * sizeof(float));
    *output = shared ? peer->shared(peer->context, out * sizeof(float)) : private_memory(out * sizeof(float));
    if (*input && *output) return true;
    fprintf(stderr, "no memory for %zu and %zu elements\n", in, out);
    return false;
}

/* ---- rows */

static bool has_blocks(uint32_t collective)
{
    return collective >= REDUCE_SCATTER && collective <= SCATTER;
}

/* A row's bytes are those of the largest buffer: all blocks together where there are blocks, one element at least. */
static size_t count_of(const struct worker *worker, uint32_t collective, size_t *bytes)
{
    const size_t blocks = has_blocks(collective) ? worker->seat.nranks : 1;
    size_t       count = *bytes / sizeof(float) / blocks;
    if (!count && collective != BARRIER) count = 1;
    *bytes = count * sizeof(float) * blocks;
    return count;
}

static bool write_row(const struct worker *worker, const struct call *call, bool shared, size_t bytes,
                      const struct point *point)
{
    const double part = call->collective == SEND_RECV ? 0.5 : 1;
    FILE *out = fopen(worker->options->out, "a");
    if (!out) return fprintf(stderr, "%s: %s\n", worker->options->out, strerror(errno)), false;
    fprintf(out,
            "{\"collective\": \"%s\", \"place\": \"%s\", \"memory\": \"%s\", \"bytes\": %zu, \"us\": %.4f, "
            "\"p50_us\": %.4f, \"p99_us\": %.4f, \"least_us\": %.4f, \"line_ns\": [%.1f, %.1f], \"repeats\": %u, "
            "\"tries\": %u, \"dirty\": %s, \"wrong\": %llu}\n",
            names[call->collective], call->in_place ? "in" : "out", shared ? "shared" : "private", bytes,
            point->us * part, point->p50_us * part, point->p99_us * part, point->least_us * part, point->line_ns[0],
            point->line_ns[1], point->repeats, point->tries, point->dirty ? "true" : "false",
            (unsigned long long)point->wrong);
    return fclose(out) == 0;
}

static int measure_row(struct worker *worker, struct call call, bool shared, size_t bytes, float *input, float *output)
{
    struct point point;
    call.count = count_of(worker, call.collective, &bytes);
    place(worker, &call, input, output);
    const int status = measure_point(&worker->seat, worker->peer, &call, bytes, worker->options, &point);
    if (status || worker->seat.rank) return status;
    return !write_row(worker, &call, shared, bytes, &point);
}

static int measure_sizes(struct worker *worker, struct call call, bool shared, const char *sizes)
{
    size_t largest = 0;
    float *input, *output;
    for (const char *at = sizes; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        largest = most(largest, strtoull(at, NULL, 10));
    call.count = count_of(worker, call.collective, &largest);
    if (!get_memory(worker, call, shared, &input, &output)) return 1;
    int status = 0;
    for (const char *at = sizes; at && !status; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        status = measure_row(worker, call, shared, strtoull(at, NULL, 10), input, output);
    return status;
}

static int measure_job(struct worker *worker, char *job)
{
    char       *rest = NULL;
    const char *name = strtok_r(job, ":", &rest), *where = strtok_r(NULL, ":", &rest);
    const char *memory = strtok_r(NULL, ":", &rest), *sizes = strtok_r(NULL, ":", &rest);
    struct call call = { .collective = 0 };
    if (!sizes) return fprintf(stderr, "a job is COLLECTIVE:in|out:private|shared:SIZES\n"), 2;
    while (call.collective < COLLECTIVES && strcmp(names[call.collective], name))
        call.collective++;
    if (call.collective == COLLECTIVES) return fprintf(stderr, "%s is no collective\n", name), 2;
    call.in_place = !strcmp(where, "in") || call.collective == BROADCAST;
    return measure_sizes(worker, call, !strcmp(memory, "shared"), sizes);
}

static int measure_jobs(struct worker *worker)
{
    char *jobs = strdup(worker->options->jobs), *rest = NULL;
    int   status = jobs ? 0 : 1;
    for (char *job = jobs ? strtok_r(jobs, "+", &rest) : NULL; job && !status; job = strtok_r(NULL, "+", &rest))
        status = measure_job(worker, job);
    free(jobs);
    return status;
}

int protocol_rank(const struct options *options, const struct peer *peer, uint32_t rank)
{
    struct worker worker = { .options = options, .peer = peer };
    if (!board_open(&worker.seat, options->board, rank, options->nranks))
        return fprintf(stderr, "%s: %s\n", options->board, strerror(errno)), 1;
    board_pin(&worker.seat);
    int status = peer->open(peer->context, rank, options->nranks);
    if (status) return status;
    status = measure_jobs(&worker);
    if (!status) peer->close(peer->context);
    return status;
}
