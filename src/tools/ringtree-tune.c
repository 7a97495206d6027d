/* ringtree-tune: the planner's table for this machine, from measurements, and how good it is. */
#include "ringtree-tune.h"
#include "tool.h"
#include "base/settings.h"
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_FINE, EXIT_LATE, EXIT_FAILED = 3, EXIT_MORE };

static const char help[] =
    "Usage: ringtree-tune [OPTION]...\n"
    "       ringtree-tune --check [OPTION]...\n"
    "Measure every algorithm of every collective on this machine and write the table that the planner predicts by,\n"
    "or check the planner's predictions against measurements. Load a table with RINGTREE_TUNE_FILE=FILE.\n"
    "\n"
    "  -o, --output FILE        write the table, or the comparison, into FILE (standard output)\n"
    "  -c, --check              measure, and print prediction beside measurement instead of a table\n"
    "  -n, --ranks LIST         numbers of ranks, each as processes of this machine (2,4,8)\n"
    "  -l, --launched           measure among the ranks that a launcher started with this very command, by the links\n"
    "                           that they have, instead of -n and -t; rank 0 writes\n"
    "  -t, --transports LIST    shm, tcp or both (shm,tcp)\n"
    "  -C, --collectives LIST   (all_reduce,reduce,broadcast,reduce_scatter,all_gather,all_to_all,gather,scatter)\n"
    "  -b, --least BYTES        smallest array (8; a table needs 8 times a power of 8)\n"
    "  -e, --most BYTES         largest array, or all blocks of one together (16M)\n"
    "  -f, --factor N           each size is N times the one before (8)\n"
    "  -r, --rounds N           rounds; each measures all algorithms in turn, the median counts (7)\n"
    "  -s, --milliseconds N     of each algorithm in each round, at least one call (2)\n"
    "  -k, --keep FILE          add what is measured to FILE, as lines of CSV, and take from it what is there already\n"
    "  -m, --minutes N          measure no longer than about so long; the next run with --keep goes on (status 4)\n"
    "  -j, --json               the comparison as JSON\n"
    "  -p, --progress           say what is measured on standard error (so too where that is a terminal)\n"
    "  -h, --help               this text\n"
    "  -V, --version            the version\n"
    "\n"
    "Exit status: 0 fine, 1 --check found a choice over 15 % slower than the best or a median error over 25 %,\n"
    "2 wrong usage, 3 it could not be measured or written, 4 --minutes are over and more is to be measured.\n";

struct arguments {
    struct tune_job job;
    const char     *ranks, *transports, *collectives, *output, *keep;
    double          minutes; /* 0: as long as it takes */
    bool            check, json, progress, launched;
};

static uint32_t collectives_of(const char *list)
{
    uint32_t bits = 0;
    char name[32];
    for (uint32_t i = 0; rt_list_item(list, i, name, sizeof name); i++) {
        uint32_t c = 0;
        while (c < RINGTREE_BARRIER && strcmp(ringtree_collective_name((ringtree_collective)c), name)) c++;
        if (c == RINGTREE_BARRIER) tool_fail(EXIT_USAGE, "there is no collective \"%s\" to tune", name);
        bits |= 1u << c;
    }
    if (!bits) tool_fail(EXIT_USAGE, "--collectives names none");
    return bits;
}

static void take_option(int option, struct arguments *a)
{
    switch (option) {
    case 'o': a->output = optarg; return;
    case 'c': a->check = true; return;
    case 'n': a->ranks = optarg; return;
    case 'l': a->launched = true; return;
    case 't': a->transports = optarg; return;
    case 'C': a->job.collectives = collectives_of(optarg); return;
    case 'b': a->job.least = tool_number(optarg, "--least", 4, 1 << 30); return;
    case 'e': a->job.most = tool_number(optarg, "--most", 4, UINT64_C(1) << 34); return;
    case 'f': a->job.step = tool_number(optarg, "--factor", 2, 1024); return;
    case 'r': a->job.rounds = (uint32_t)tool_number(optarg, "--rounds", 1, TUNE_MOST_ROUNDS); return;
    case 's': a->job.seconds = (double)tool_number(optarg, "--milliseconds", 0, 10000) / 1000; return;
    case 'k': a->keep = optarg; return;
    case 'm': a->minutes = strtod(optarg, NULL); return;
    case 'j': a->json = true; return;
    case 'p': a->progress = true; return;
    case 'h': fputs(help, stdout); exit(EXIT_FINE);
    case 'V': printf("ringtree-tune %s\n", ringtree_version()); exit(EXIT_FINE);
    default: tool_fail(EXIT_USAGE, "wrong usage");
    }
}

static void take_arguments(int argc, char **argv, struct arguments *a)
{
    static const struct option options[] = {
        { "output", required_argument, NULL, 'o' },      { "check", no_argument, NULL, 'c' },
        { "ranks", required_argument, NULL, 'n' },       { "transports", required_argument, NULL, 't' },
        { "launched", no_argument, NULL, 'l' },          { "keep", required_argument, NULL, 'k' },
        { "minutes", required_argument, NULL, 'm' },
        { "collectives", required_argument, NULL, 'C' }, { "least", required_argument, NULL, 'b' },
        { "most", required_argument, NULL, 'e' },        { "factor", required_argument, NULL, 'f' },
        { "rounds", required_argument, NULL, 'r' },      { "milliseconds", required_argument, NULL, 's' },
        { "json", no_argument, NULL, 'j' },              { "progress", no_argument, NULL, 'p' },
        { "help", no_argument, NULL, 'h' },              { "version", no_argument, NULL, 'V' },
        { NULL, 0, NULL, 0 },
    };
    for (int option; (option = getopt_long(argc, argv, "o:cn:lt:C:b:e:f:r:s:k:m:jphV", options, NULL)) != -1;)
        take_option(option, a);
    if (optind < argc) tool_fail(EXIT_USAGE, "\"%s\" is no option", argv[optind]);
    if (!(a->minutes >= 0) || (a->minutes > 0 && !a->keep))
        tool_fail(EXIT_USAGE, "--minutes takes a number, and needs --keep FILE");
    if (a->launched && a->keep) tool_fail(EXIT_USAGE, "--keep is not for --launched");
    a->job.uncorrected = !a->check;
    a->progress |= isatty(2) != 0;
}

static bool transport_is_tcp(const char *name)
{
    if (strcmp(name, "shm") && strcmp(name, "tcp")) tool_fail(EXIT_USAGE, "there is no transport \"%s\" to tune", name);
    return !strcmp(name, "tcp");
}

/* A job of one collective: from the file, or measured and kept there. */
static void measure_one(const struct arguments *a, const struct tune_job *job, struct tune_point **points,
                        size_t *count)
{
    static double begun;
    struct timespec t;
    char key[256], why[RT_ERROR_TEXT];
    const size_t before = *count;
    tune_job_key(job, key, sizeof key);
    if (a->keep && tune_kept(a->keep, key, points, count)) return;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const double now = (double)t.tv_sec + (double)t.tv_nsec / 1e9;
    if (!(begun > 0)) begun = now;
    if (a->minutes > 0 && now - begun > 60 * a->minutes) exit(EXIT_MORE);
    if (a->progress) fputs(key + strlen("# "), stderr);
    if (!tune_run(job, points, count, why, sizeof why)) tool_fail(EXIT_FAILED, "%s", why);
    if (a->keep && !tune_keep(a->keep, key, *points + before, *count - before))
        tool_fail(EXIT_FAILED, "cannot write %s: %s", a->keep, strerror(errno));
}

static void measure_all(const struct arguments *a, struct tune_point **points, size_t *count)
{
    char transport[16], ranks[16];
    for (uint32_t t = 0; rt_list_item(a->transports, t, transport, sizeof transport); t++)
        for (uint32_t i = 0; rt_list_item(a->ranks, i, ranks, sizeof ranks); i++) {
            struct tune_job job = a->job;
            job.tcp = transport_is_tcp(transport);
            job.ranks = (uint32_t)tool_number(ranks, "--ranks", 2, 1024);
            for (uint32_t c = 0; c < RINGTREE_BARRIER; c++) {
                job.collectives = a->job.collectives & 1u << c;
                if (job.collectives) measure_one(a, &job, points, count);
            }
        }
}

struct taken {
    struct tune_point **points;
    size_t             *count;
};

static void keep_point(const struct tune_point *point, void *context)
{
    const struct taken *taken = context;
    struct tune_point *more = realloc(*taken->points, (*taken->count + 1) * sizeof *more);
    if (!more) tool_fail(EXIT_FAILED, "no memory");
    more[(*taken->count)++] = *point;
    *taken->points = more;
}

/* Returns this rank's number. */
static uint32_t measure_launched(const struct arguments *a, struct tune_point **points, size_t *count)
{
    ringtree_comm *comm = NULL;
    struct taken taken = { points, count };
    if (a->job.uncorrected) setenv("RINGTREE_CALIBRATE", "off", 1);
    ringtree_status status = ringtree_init(&comm);
    if (status == RINGTREE_OK && ringtree_size(comm) < 2) tool_fail(EXIT_USAGE, "--launched: there is only one rank");
    const uint32_t rank = status == RINGTREE_OK ? ringtree_rank(comm) : 0;
    if (status == RINGTREE_OK) status = tune_measure(comm, &a->job, keep_point, &taken);
    if (status != RINGTREE_OK) tool_fail(EXIT_FAILED, "%s", ringtree_last_error(comm));
    ringtree_destroy(comm);
    return rank;
}

static bool write_output(const struct arguments *a, const struct tune_point *points, size_t count, FILE *out)
{
    static struct rt_costs costs;
    if (a->check && a->json) tune_print_json(points, count, out);
    else if (a->check) tune_print(points, count, out);
    if (a->check) return fflush(out) == 0 && !ferror(out);
    rt_costs_built_in(&costs);
    tune_fit(&costs, points, count);
    return rt_costs_write(&costs, true, out);
}

int main(int argc, char **argv)
{
    struct arguments a = { .ranks = "2,4,8", .transports = "shm,tcp",
                           .job = { .collectives = (1u << RINGTREE_BARRIER) - 1, .least = 8, .most = 16 << 20,
                                    .step = 8, .rounds = 7, .seconds = 0.002 } };
    struct tune_point *points = NULL;
    size_t count = 0;
    take_arguments(argc, argv, &a);
    if (a.launched && measure_launched(&a, &points, &count) != 0) return EXIT_FINE;
    FILE *out = a.output ? fopen(a.output, "w") : stdout;
    if (!out) tool_fail(EXIT_FAILED, "cannot write %s: %s", a.output, strerror(errno));
    if (!a.launched) measure_all(&a, &points, &count);
    if (!count) tool_fail(EXIT_USAGE, "nothing was measured: are --ranks, --transports, --least and --most right?");
    if (!write_output(&a, points, count, out) || (out != stdout && fclose(out)))
        tool_fail(EXIT_FAILED, "cannot write %s: %s", a.output ? a.output : "the output", strerror(errno));
    const struct tune_quality q = tune_quality(points, count);
    free(points);
    return a.check && (q.late_choices || q.median_error > 0.25) ? EXIT_LATE : EXIT_FINE;
}
