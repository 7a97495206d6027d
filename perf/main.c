/* all_reduce_perf and its eight other names: each rank's life, from its communicator to its exit status. */
#include "perf.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What rank 0 writes to, beside stdout. */
struct outputs {
    struct report *report;
    FILE          *csv;
    double         busbw_sum;
    uint32_t       busbw_count;
};

/* ---- memory */

static ringtree_status open_memory(struct bench *bench)
{
    const struct options *options = bench->options;
    bench->capacity = options->max_bytes + 8 * (size_t)options->unalign;
    const size_t bytes = bench->capacity + 2 * GUARD;
    bench->times = malloc(((size_t)bench->nranks + 1) * options->iterations * sizeof(double) +
                          bench->nranks * sizeof(double));
    if (!bench->times) return fail(bench, RINGTREE_NO_MEMORY, "no memory for %u times", options->iterations);
    for (int i = 0; i < 2; i++) {
        void *memory = NULL;
        if (options->shared_memory) {
            ringtree_status status = ringtree_mem_alloc(bench->comm, bytes, &memory);
            if (status) return status;
        } else {
            memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
            if (!memory) return fail(bench, RINGTREE_NO_MEMORY, "no memory for %zu bytes; lower -e", bytes);
        }
        bench->block[i] = memory;
        memset(memory, 0, bytes); /* touched before anything is timed */
    }
    return RINGTREE_OK;
}

static void close_memory(struct bench *bench)
{
    for (int i = 0; i < 2; i++) {
        if (bench->options->shared_memory) ringtree_mem_free(bench->comm, bench->block[i]);
        else free(bench->block[i]);
    }
    free(bench->times);
}

/* ---- who takes part */

static void describe_cpus(char *text, size_t capacity)
{
    cpu_set_t allowed;
    int first = -1, last = -1, count = 0;
    if (!sched_getaffinity(0, sizeof(allowed), &allowed))
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &allowed)) {
                first = count++ ? first : cpu;
                last = cpu;
            }
    if (count == 1) snprintf(text, capacity, "cpu %d", first);
    else snprintf(text, capacity, "%d cpus %d-%d", count, first, last);
}

static ringtree_status write_head(struct bench *bench, struct outputs *outputs)
{
    struct rank_info  mine = { .pid = getpid(), .local_rank = ringtree_local_rank(bench->comm),
                               .local_size = ringtree_local_size(bench->comm) };
    struct rank_info *all = calloc(bench->nranks, sizeof(*all));
    if (!all) return fail(bench, RINGTREE_NO_MEMORY, "out of memory");
    gethostname(mine.host, sizeof(mine.host) - 1);
    describe_cpus(mine.cpus, sizeof(mine.cpus));
    ringtree_status status = gather_all(bench, &mine, all, sizeof(mine));
    if (!status && bench->rank == 0) {
        table_head(bench, all);
        if (outputs->report) json_head(outputs->report, bench, all);
    }
    free(all);
    return status;
}

/* ---- rows */

static void add_busbw(struct outputs *outputs, const struct result *side)
{
    if (!side->measured) return;
    outputs->busbw_sum += side->busbw;
    outputs->busbw_count++;
}

static void write_row(const struct bench *bench, struct outputs *outputs, const struct row *row,
                      const struct limit *limit, const struct result sides[2])
{
    table_row_end(bench->options, limit, sides);
    if (outputs->report) json_row(outputs->report, bench, row, sides);
    if (outputs->csv) csv_row(outputs->csv, bench, row, sides);
}

static ringtree_status run_row(struct bench *bench, struct outputs *outputs, const struct row *row)
{
    const bool    writes = bench->rank == 0, limits = bench->options->limits;
    const size_t  bytes = row_bytes(bench->options, row, bench->nranks);
    struct limit  limit = { 0, 0 };
    struct result sides[2];
    if (writes) {
        table_progress(bench->options, row, bytes);
        table_row_begin(bench, row);
    }
    ringtree_status status = limits ? limits_measure(bench, bytes, &limit) : RINGTREE_OK;
    for (int i = 0; !status && i < 2; i++) {
        status = measure(bench, row, i == 1, &sides[i]);
        if (status) break;
        add_busbw(outputs, &sides[i]);
        if (writes) table_row_side(bench->options, &sides[i]);
    }
    if (!status && limits) status = limits_measure(bench, bytes, &limit);
    if (writes) {
        table_progress(bench->options, NULL, 0);
        if (status) printf("\n"), fflush(stdout);
        else write_row(bench, outputs, row, &limit, sides);
    }
    return status;
}

static ringtree_status run_coded_row(struct bench *bench, struct outputs *outputs, const struct row *row)
{
    struct coded    coded;
    ringtree_status status = measure_codec(bench, row, &coded);
    if (status || bench->rank) return status;
    add_busbw(outputs, &(struct result){ .measured = true, .busbw = coded.busbw });
    coded_row(bench, row, &coded);
    if (outputs->report) json_coded(outputs->report, bench, row, &coded);
    if (outputs->csv) csv_coded(outputs->csv, bench, row, &coded);
    return status;
}

static size_t next_size(const struct options *options, size_t bytes)
{
    return options->step_factor ? bytes * options->step_factor : bytes + options->step_bytes;
}

static ringtree_status run_sizes(struct bench *bench, struct outputs *outputs, struct row row)
{
    const struct options *options = bench->options;
    ringtree_status       status = RINGTREE_OK;
    for (size_t bytes = options->min_bytes; !status && bytes <= options->max_bytes; bytes = next_size(options, bytes)) {
        row.count = row_count(options, bytes, row.type, bench->nranks);
        status = options->coded ? run_coded_row(bench, outputs, &row) : run_row(bench, outputs, &row);
    }
    return status;
}

static ringtree_status run_rows(struct bench *bench, struct outputs *outputs)
{
    const struct options *options = bench->options;
    const bool     all_roots = options->all_roots && options->collective->rooted;
    const uint32_t first = all_roots ? 0 : options->root, last = all_roots ? bench->nranks - 1 : options->root;
    ringtree_status status = RINGTREE_OK;
    for (uint32_t t = 0; t < options->type_count; t++)
        for (uint32_t o = 0; o < options->op_count; o++)
            for (uint32_t root = first; !status && root <= last; root++)
                status = run_sizes(bench, outputs, (struct row){ 0, options->types[t], options->ops[o], root });
    return status;
}

/* ---- the whole */

static ringtree_status run_benchmark(struct bench *bench, struct outputs *outputs)
{
    ringtree_status status = open_memory(bench);
    if (!status) status = write_head(bench, outputs);
    if (!status && bench->options->limits) status = limits_open(bench);
    if (!status && bench->options->coded) status = coded_explain(bench);
    if (!status && bench->rank == 0) (bench->options->coded ? coded_columns(bench) : table_columns(bench->options));
    if (!status) status = run_rows(bench, outputs);
    limits_close(bench);
    return status;
}

static int say_failure(struct bench *bench, struct outputs *outputs, ringtree_status status)
{
    char text[1536];
    snprintf(text, sizeof(text), "rank %u: %s: %s", bench->rank, ringtree_status_name(status),
             *bench->words ? bench->words : ringtree_last_error(bench->comm));
    /* Whoever called ringtree_abort() has said why. */
    if (status != RINGTREE_ABORTED || *bench->words) fprintf(stderr, "%s%s\n", isatty(2) ? "\r\033[K" : "", text);
    if (outputs->report) json_error(outputs->report, text);
    ringtree_abort(bench->comm, text); /* where only this rank failed, the others must not wait */
    if (status == RINGTREE_INVALID_SETTING) return EXIT_USAGE;
    return status == RINGTREE_TIMEOUT ? EXIT_TIMEOUT : EXIT_LIBRARY;
}

static bool open_outputs(const struct options *options, struct outputs *outputs)
{
    char why[4200];
    if (options->json_file && !(outputs->report = json_open(options, why, sizeof(why))))
        return fprintf(stderr, "%s: %s\n", options->program, why), false;
    if (options->csv_file && !(outputs->csv = csv_open(options)))
        return fprintf(stderr, "%s: cannot write %s\n", options->program, options->csv_file), false;
    return true;
}

/* Rank 0 opens the files; the others learn whether it could, and end quietly with it if not. */
static ringtree_status agree_on_outputs(struct bench *bench, struct outputs *outputs, bool *good)
{
    unsigned char opened = bench->rank == 0 && open_outputs(bench->options, outputs);
    ringtree_status status = ringtree_broadcast(bench->comm, &opened, &opened, 1, RINGTREE_UINT8, 0, NULL);
    *good = opened;
    return status;
}

static int close_outputs(const struct bench *bench, struct outputs *outputs, int ended)
{
    const struct options *options = bench->options;
    const double busbw = outputs->busbw_count ? outputs->busbw_sum / outputs->busbw_count : 0;
    if (ended == EXIT_GOOD) {
        table_foot(bench, busbw);
        if (busbw < options->least_busbw) ended = EXIT_WRONG;
    }
    bool written = !outputs->report || json_close(outputs->report, bench, busbw);
    written = (!outputs->csv || !fclose(outputs->csv)) && written;
    written = !fflush(stdout) && !ferror(stdout) && written;
    if (!written) fprintf(stderr, "%s: the results could not all be written: %s\n", options->program, strerror(errno));
    return ended == EXIT_GOOD && !written ? EXIT_WRONG : ended;
}

int run_rank(const struct options *options, ringtree_comm *comm)
{
    struct bench   bench = { .options = options, .comm = comm, .rank = ringtree_rank(comm),
                             .nranks = ringtree_size(comm) };
    struct outputs outputs = { .report = NULL };
    int            ended = EXIT_GOOD;
    bool           good = false;
    if (options->root >= bench.nranks) {
        if (bench.rank == 0)
            fprintf(stderr, "%s: there is no root %u among %u ranks\n", options->program, options->root, bench.nranks);
        return ringtree_destroy(comm), EXIT_USAGE;
    }
    ringtree_status status = agree_on_outputs(&bench, &outputs, &good);
    if (!status && !good) return ringtree_destroy(comm), EXIT_USAGE;
    if (!status) status = run_benchmark(&bench, &outputs);
    if (status) ended = say_failure(&bench, &outputs, status);
    if (bench.rank == 0) ended = close_outputs(&bench, &outputs, ended);
    close_memory(&bench);
    status = ringtree_destroy(comm);
    if (!ended && status) {
        fprintf(stderr, "rank %u: %s: %s\n", bench.rank, ringtree_status_name(status), ringtree_last_error(NULL));
        ended = EXIT_LIBRARY;
    }
    return ended == EXIT_GOOD && (bench.wrong || bench.outside || bench.own_wrong) ? EXIT_WRONG : ended;
}

int main(int argc, char **argv)
{
    struct options options;
    int ended = options_read(&options, argc, argv);
    return ended >= 0 ? ended : start_ranks(&options);
}
