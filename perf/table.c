/* The table on stdout, column by column as nccl-tests prints it. Lines of words begin with '#'. */
#include "perf.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

void each_setting(void (*visit)(void *context, const char *entry), void *context)
{
    static const char *const hidden[] = { "RINGTREE_ID=",         "RINGTREE_RANK=",       "RINGTREE_SIZE=",
                                          "RINGTREE_LOCAL_RANK=", "RINGTREE_LOCAL_SIZE=", "RINGTREE_SECRET" };
    for (char **entry = environ; *entry; entry++) {
        bool shown = !strncmp(*entry, "RINGTREE_", 9);
        for (size_t i = 0; i < sizeof(hidden) / sizeof(*hidden); i++)
            shown = shown && strncmp(*entry, hidden[i], strlen(hidden[i]));
        if (shown) visit(context, *entry);
    }
}

static void print_setting(void *context, const char *entry)
{
    bool *any = context;
    printf("%s %s", *any ? "," : "# Settings not at their default:", entry);
    *any = true;
}

/* A text of several lines, each as a comment. */
static void print_comment(const char *text)
{
    while (*text) {
        size_t length = strcspn(text, "\n");
        printf("#   %.*s\n", (int)length, text);
        text += length + (text[length] == '\n');
    }
}

#define MUCH_FASTER 1.5

/* A forced algorithm may be much slower than another. */
static void print_better(const struct bench *bench, size_t count, ringtree_type type)
{
    ringtree_way ways[RINGTREE_MOST_WAYS];
    size_t       number = 0, chosen = 0, best = 0;
    if (ringtree_plan_ways(bench->comm, bench->options->collective->kind, count, type, ways, RINGTREE_MOST_WAYS,
                           &number) || number == 0)
        return;
    while (chosen < number - 1 && !ways[chosen].chosen) chosen++;
    best = chosen;
    for (size_t i = 0; i < number; i++)
        if (!ways[i].refusal && ways[i].seconds < ways[best].seconds) best = i;
    if (ways[best].seconds * MUCH_FASTER < ways[chosen].seconds)
        printf("# Note: %s is forced, but %s is predicted to be %.1f times as fast (%.1f us beside %.1f)\n",
               ways[chosen].name, ways[best].name, ways[chosen].seconds / ways[best].seconds, ways[best].seconds * 1e6,
               ways[chosen].seconds * 1e6);
}

/* How the library would run the smallest and the largest row. */
static void print_plans(const struct bench *bench)
{
    const struct options *options = bench->options;
    const ringtree_type   type = options->types[0];
    const size_t          sizes[2] = { options->min_bytes, options->max_bytes };
    const ringtree_op     op = options->ops[0] < OP_MULSUM ? options->ops[0] : RINGTREE_SUM;
    char                  text[4096];
    for (int i = 0; i < (sizes[0] == sizes[1] ? 1 : 2); i++) {
        size_t count = row_count(options, sizes[i], type, bench->nranks);
        printf("# Plan at %zu bytes:\n", sizes[i]);
        if (ringtree_plan_explain(bench->comm, options->collective->kind, count, type, op, text, sizeof(text)))
            snprintf(text, sizeof(text), "%s", ringtree_last_error(bench->comm));
        print_comment(text);
        print_better(bench, count, type);
    }
}

static void print_ranks(const struct bench *bench, const struct rank_info *ranks)
{
    printf("# Using devices\n");
    for (uint32_t r = 0; r < bench->nranks; r++)
        printf("#  Rank %2u Group %2d Pid %6d on %10s device %2u [%s] %u of %u sharing memory\n", r, 0,
               (int)ranks[r].pid, ranks[r].host, ranks[r].local_rank, ranks[r].cpus, ranks[r].local_rank + 1,
               ranks[r].local_size);
}

void table_head(const struct bench *bench, const struct rank_info *ranks)
{
    const struct options *o = bench->options;
    bool settings = false;
    printf("# ringtree version %s on %s, %u ranks, %s memory\n", ringtree_version(), ranks[0].host, bench->nranks,
           o->shared_memory ? "shared (ringtree_mem_alloc)" : "private (malloc)");
    printf("# Collective test starting: %s\n", o->program);
    printf("# nThread %u nGpus %u minBytes %zu maxBytes %zu step: %zu(%s) warmup iters: %u iters: %u agg iters: %u "
           "validation: %u graph: 0 unalign: %u\n",
           o->threads, o->processes, o->min_bytes, o->max_bytes, o->step_factor ? o->step_factor : o->step_bytes,
           o->step_factor ? "factor" : "bytes", o->warmup, o->iterations, o->aggregate, o->checks, o->unalign);
    if (o->blocking == 1) printf("# Blocking Enabled: barrier after each collective\n");
    if (o->blocking == 2) printf("# Blocking Enabled: each collective is started and waited for through a request\n");
    if (o->dirty) printf("# Dirty: each rank rewrites its input before each timed collective, which starts together\n");
    printf("#\n");
    print_ranks(bench, ranks);
    printf("#\n");
    each_setting(print_setting, &settings);
    if (settings) printf("\n");
    print_plans(bench);
    fflush(stdout);
}

/* ---- columns */

static void head_line(const struct options *options, const char *const left[5], const char *const side[7])
{
    printf("# %10s  %12s  %8s  %6s  %6s", left[0], left[1], left[2], left[3], left[4]);
    for (int i = 0; i < 2; i++) {
        printf("  %7s  %6s  %6s  %6s", side[0], side[1], side[2], side[3]);
        if (options->percentiles) printf("  %7s  %7s  %7s", side[4], side[5], side[6]);
    }
    printf(" \n");
}

void table_columns(const struct options *options)
{
    static const char *const names[5] = { "size", "count", "type", "redop", "root" };
    static const char *const units[5] = { "(B)", "(elements)", "", "", "" };
    static const char *const side_names[7] = { "time", "algbw", "busbw", "#wrong", "min", "p50", "p99" };
    static const char *const side_units[7] = { "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(us)", "(us)" };
    printf("#\n");
    if (options->percentiles)
        printf("# %10s  %12s  %8s  %6s  %6s %41s %54s %15s\n", "", "", "", "", "", "out-of-place", "in-place", "");
    else
        printf("# %10s  %12s  %8s  %6s  %6s           out-of-place                       in-place          \n", "", "",
               "", "", "");
    head_line(options, names, side_names);
    head_line(options, units, side_units);
    fflush(stdout);
}

/* As many decimals, up to two, as fit. */
static void print_fitted(double value, int width)
{
    char text[64];
    for (int decimals = 2; decimals >= 0; decimals--)
        if (snprintf(text, sizeof(text), "%*.*f", width, decimals, value) <= width) {
            printf("  %s", text);
            return;
        }
    printf("  %*.*e", width, width >= 7 ? 1 : 0, value);
}

static const char *colour(const char *code)
{
    const char *off = getenv("NO_COLOR");
    return isatty(1) && !(off && *off) ? code : "";
}

#define RED   colour("\033[31m")
#define PLAIN colour("\033[0m")

/* A row leaves when it is whole: what other ranks say on stderr meanwhile stands between rows, not in one. */
void table_row_begin(const struct bench *bench, const struct row *row)
{
    const struct options *options = bench->options;
    printf("%12zu  %12zu  %8s  %6s  %6d", row_bytes(options, row, bench->nranks), row->count, type_names[row->type],
           op_names[row->op], options->collective->rooted ? (int)row->root : -1);
}

void table_row_side(const struct options *options, const struct result *result)
{
    if (!result->measured) {
        printf("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
        if (options->percentiles) printf("  %7s  %7s  %7s", "N/A", "N/A", "N/A");
        return;
    }
    print_fitted(result->time_us, 7);
    print_fitted(result->algbw, 6);
    print_fitted(result->busbw, 6);
    if (!options->checks) printf("     N/A");
    else printf("  %s%6g%s", result->wrong ? RED : "", (double)result->wrong, result->wrong ? PLAIN : "");
    if (options->percentiles) {
        print_fitted(result->min_us, 7);
        print_fitted(result->p50_us, 7);
        print_fitted(result->p99_us, 7);
    }
}

void table_row_end(const struct options *options, const struct limit *limit, const struct result *sides)
{
    printf("\n");
    if (options->limits && limit->memcpy_gbs > 0) {
        printf("#   limits: memcpy %.2f GB/s, busbw is %.2f of it", limit->memcpy_gbs,
               sides[0].busbw / limit->memcpy_gbs);
        if (limit->socket_gbs > 0)
            printf("; sockets %.2f GB/s, busbw is %.2f of it", limit->socket_gbs, sides[0].busbw / limit->socket_gbs);
        printf("\n");
    }
    fflush(stdout);
}

static const char *verdict(bool good)
{
    return good ? "OK" : "FAILED";
}

void table_foot(const struct bench *bench, double busbw)
{
    const struct options *options = bench->options;
    const uint64_t errors = bench->wrong + bench->outside;
    const bool     fast = busbw >= options->least_busbw;
    printf("# %-20s : %llu %s%s%s\n", "Out of bounds values", (unsigned long long)errors, errors ? RED : "",
           verdict(!errors), errors ? PLAIN : "");
    if (bench->outside)
        printf("# %-20s : %llu bytes beside the buffers were overwritten\n", "Of these outside",
               (unsigned long long)bench->outside);
    printf("# %-20s : %g %s\n", "Avg bus bandwidth", busbw, options->least_busbw > 0 ? verdict(fast) : "");
    printf("#\n# Collective test concluded: %s\n#\n", options->program);
    fflush(stdout);
}

/* For those who look at a terminal: rows come whole, and a file shows nothing there. */
void table_progress(const struct options *options, const struct row *row, size_t bytes)
{
    if (!isatty(2)) return;
    if (row) fprintf(stderr, "\r\033[K%s: %zu bytes, %s %s", options->program, bytes, type_names[row->type],
                     op_names[row->op]);
    else fprintf(stderr, "\r\033[K");
}
