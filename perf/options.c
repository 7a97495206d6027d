/* The command line: nccl-tests' letters and long names, and some of ringtree's own. */
#include "perf.h"
#include "size.h"

#include <errno.h>
#include <getopt.h>
#include <libgen.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MOST_RANKS 4096

enum own_option { OWN_ALGORITHM = 256, OWN_TRANSPORT, OWN_PERCENTILES, OWN_CSV, OWN_DIRTY, OWN_MEMORY, OWN_LIMITS,
                  OWN_LEAST, OWN_FAULT, OWN_VERSION, OWN_CODEC, OWN_LINK };

static const struct option longs[] = {
    { "nthreads", required_argument, NULL, 't' },       { "ngpus", required_argument, NULL, 'g' },
    { "minbytes", required_argument, NULL, 'b' },       { "maxbytes", required_argument, NULL, 'e' },
    { "stepbytes", required_argument, NULL, 'i' },      { "stepfactor", required_argument, NULL, 'f' },
    { "iters", required_argument, NULL, 'n' },          { "warmup_iters", required_argument, NULL, 'w' },
    { "agg_iters", required_argument, NULL, 'm' },      { "check", required_argument, NULL, 'c' },
    { "op", required_argument, NULL, 'o' },             { "datatype", required_argument, NULL, 'd' },
    { "root", required_argument, NULL, 'r' },           { "average", required_argument, NULL, 'a' },
    { "blocking", required_argument, NULL, 'z' },       { "unalign", required_argument, NULL, 'u' },
    { "output_file", required_argument, NULL, 'J' },    { "timeout", required_argument, NULL, 'T' },
    { "help", no_argument, NULL, 'h' },                 { "algorithm", required_argument, NULL, OWN_ALGORITHM },
    { "transport", required_argument, NULL, OWN_TRANSPORT }, { "percentiles", no_argument, NULL, OWN_PERCENTILES },
    { "csv", required_argument, NULL, OWN_CSV },        { "dirty", no_argument, NULL, OWN_DIRTY },
    { "memory", required_argument, NULL, OWN_MEMORY },  { "limits", no_argument, NULL, OWN_LIMITS },
    { "min-busbw", required_argument, NULL, OWN_LEAST }, { "version", no_argument, NULL, OWN_VERSION },
    { "codec", required_argument, NULL, OWN_CODEC },    { "link-limit", required_argument, NULL, OWN_LINK },
#ifdef RINGTREE_FAULT_SWITCHES
    { "inject-fault", required_argument, NULL, OWN_FAULT },
#endif
    { NULL, 0, NULL, 0 },
};

static const char help_text[] =
    "Sizes are bytes of the whole array and take K, M, G (powers of 1024); times are microseconds, bandwidths GB/s\n"
    "(10^9 bytes). algbw = size / time; busbw = algbw times the factor of nccl-tests' PERFORMANCE.md.\n"
    "\n"
    "Ranks (without a launcher; ringtree-run, mpirun, srun and torchrun are recognised)\n"
    "  -g, --ngpus N          processes to start here (default: one per core, at least 2; 1 if -t is given)\n"
    "  -t, --nthreads N       threads in each process, every one a rank (default 1)\n"
    "Sizes\n"
    "  -b, --minbytes SIZE    first (default 32M)\n"
    "  -e, --maxbytes SIZE    last (default 32M)\n"
    "  -i, --stepbytes SIZE   add this each time (default 1M)\n"
    "  -f, --stepfactor N     or multiply by this\n"
    "What is called\n"
    "  -o, --op OP            sum prod min max avg mulsum all (default sum)\n"
    "  -d, --datatype TYPE    int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2 all,\n"
    "                         or ringtree's names (float32 ...) (default float)\n"
    "  -r, --root N           rank, or all (default 0)\n"
    "      --algorithm NAME   force one, as RINGTREE_ALGORITHM does (default: chosen)\n"
    "      --transport LIST   shm, tcp or a list of them, as RINGTREE_TRANSPORTS does (default: best first)\n"
    "      --memory KIND      private: malloc, as most programs use (default). shared: ringtree_mem_alloc\n"
    "      --codec CODEC      all_reduce of float with q8, q4, bf16, fp16, topk:0.01, auto, beside the exact one;\n"
    "                         more words after commas: stochastic, int8 (values of topk), feedback, reselect, and\n"
    "                         for comparison ring, tree. Prints bytes on the wire, errors and their bound\n"
    "      --link-limit RATE  each process in a network namespace, links limited by tc tbf: 1gbit (needs root)\n"
    "  -u, --unalign N        index of the first element: shifts both buffers (default 0)\n"
    "Timing\n"
    "  -n, --iters N          timed calls per row (default 20)\n"
    "  -w, --warmup_iters N   untimed ones before (default 5)\n"
    "  -m, --agg_iters N      calls in one group per iteration (default 1)\n"
    "  -a, --average N        time over ranks: 0 rank 0, 1 mean, 2 least, 3 most (default 1)\n"
    "  -z, --blocking N       0 back to back, 1 a barrier after each, 2 each through a request (default 0)\n"
    "      --dirty            each rank rewrites its input before every timed call; they start together\n"
    "      --percentiles      add min, p50 and p99 of single calls (slowest rank of each)\n"
    "      --limits           after each row: memcpy and plain sockets at that size, and busbw as a part of them\n"
    "  -T, --timeout S        longest wait for another rank, seconds (default: RINGTREE_TIMEOUT_MS)\n"
    "Checking\n"
    "  -c, --check N          checked calls per row, every element compared; 0: none (default 1). Exact to the\n"
    "                         bit, but float8 avg on 9, 11, 13 ... ranks: within its rounding bound\n"
    "      --min-busbw X      fail when the mean busbw is below X GB/s\n"
    "Output\n"
    "  -J, --output_file F    JSON with nccl-tests' keys; an existing file is kept, a number is appended\n"
    "      --csv FILE         one line per row\n"
    "  -h, --help             this text\n"
    "      --version          the library's version\n"
    "\n"
    "Exit status: 0 all right; 1 wrong elements, or slower than --min-busbw; 2 bad command line; 3 the library\n"
    "reported an error (said by those who found it); 4 a timeout; 128 + number: a rank was killed by that signal.\n"
    "\n";

void options_help(const struct options *options, FILE *out)
{
    const char *name = options->program;
    fprintf(out, "Usage: %s [options]\n\nMeasures and checks %s between ranks. The table is that of nccl-tests.\n\n",
            name, ringtree_collective_name(options->collective->kind));
    fputs(help_text, out);
    fprintf(out, "Examples:\n  %s -b 8 -e 64M -f 2                     all sizes, one rank per core\n"
                 "  %s -g 4 --transport tcp -b 1M -e 1M     four ranks over TCP\n"
                 "  ringtree-run -n 4 --no-prefix %s -d all -b 4K -e 4K\n",
            name, name, name);
}

/* ---- values */

static int usage(const struct options *options, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int usage(const struct options *options, const char *format, ...)
{
    char    text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "%s: %s. See %s --help\n", options->program, text, options->program);
    return EXIT_USAGE;
}

#define MOST_BYTES ((size_t)1 << 60)

static bool parse_size(const char *text, size_t *size)
{
    return size_parse(text, 0, MOST_BYTES, size);
}

/* What the last number that was read may be, for the sentence about a wrong one. */
static struct { uint32_t least, most; } number_range;

static bool parse_number(const char *text, uint32_t least, uint32_t most, uint32_t *number)
{
    char *end;
    errno = 0;
    number_range.least = least;
    number_range.most = most;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < least || value > most) return false;
    *number = (uint32_t)value;
    return true;
}

static bool parse_types(struct options *options, const char *text)
{
    options->type_count = 0;
    for (uint32_t t = 0; t < RINGTREE_TYPE_COUNT; t++)
        if (!strcmp(text, "all") || !strcmp(text, type_names[t]) || !strcmp(text, ringtree_type_name((ringtree_type)t)))
            options->types[options->type_count++] = (ringtree_type)t;
    return options->type_count > 0;
}

static bool parse_ops(struct options *options, const char *text)
{
    options->op_count = 0;
    for (uint32_t op = 0; op < OP_COUNT; op++)
        if (!strcmp(text, "all") || !strcmp(text, op_names[op]) || (op == OP_MULSUM && !strcmp(text, "premul_sum")))
            options->ops[options->op_count++] = op;
    return options->op_count > 0;
}

#ifdef RINGTREE_FAULT_SWITCHES
/* kind:rank */
static bool parse_fault(struct options *options, const char *text)
{
    static const char *const kinds[] = { "none", "flip", "canary", "input", "die", "mismatch" };
    const char *colon = strchr(text, ':');
    for (size_t i = 0; colon && i < sizeof(kinds) / sizeof(*kinds); i++)
        if (strlen(kinds[i]) == (size_t)(colon - text) && !strncmp(text, kinds[i], (size_t)(colon - text))) {
            options->fault = (enum fault)i;
            return parse_number(colon + 1, 0, MOST_RANKS, &options->fault_rank);
        }
    return false;
}
#endif

/* ---- options */

static bool take_size(struct options *o, int letter)
{
    size_t factor = 0;
    switch (letter) {
    case 'b': return parse_size(optarg, &o->min_bytes);
    case 'e': return parse_size(optarg, &o->max_bytes);
    case 'i': return parse_size(optarg, &o->step_bytes) && o->step_bytes > 0;
    default:
        if (!parse_size(optarg, &factor) || factor < 2) return false;
        o->step_factor = factor;
        return true;
    }
}

static bool take_number(struct options *o, int letter)
{
    switch (letter) {
    case 'g': return o->processes_given = true, parse_number(optarg, 1, MOST_RANKS, &o->processes);
    case 't': return parse_number(optarg, 1, MOST_RANKS, &o->threads);
    case 'n': return parse_number(optarg, 1, 100000000, &o->iterations);
    case 'w': return parse_number(optarg, 0, 100000000, &o->warmup);
    case 'm': return parse_number(optarg, 1, 4096, &o->aggregate);
    case 'c': return parse_number(optarg, 0, 1000000, &o->checks);
    case 'a': return parse_number(optarg, 0, 3, &o->average);
    case 'z': return parse_number(optarg, 0, 2, &o->blocking);
    case 'u': return parse_number(optarg, 0, 1 << 20, &o->unalign);
    case 'T': return parse_number(optarg, 1, 4000000, &o->timeout_s);
    default:
        o->all_roots = !strcmp(optarg, "all");
        return o->all_roots || parse_number(optarg, 0, MOST_RANKS - 1, &o->root);
    }
}

/* 1gbit, 100mbit: it becomes a word of a command, so nothing else may be in it. */
static bool is_rate(const char *text)
{
    const size_t digits = strspn(text, "0123456789.");
    return digits && strspn(text + digits, "bitkmgps") == strlen(text + digits);
}

static bool take_own(struct options *o, int letter)
{
    char *end;
    switch (letter) {
    case OWN_ALGORITHM: return o->algorithm = optarg, true;
    case OWN_TRANSPORT: return o->transport = optarg, true;
    case OWN_PERCENTILES: return o->percentiles = true;
    case OWN_CSV: return o->csv_file = optarg, true;
    case OWN_DIRTY: return o->dirty = true;
    case OWN_CODEC: return o->coded = true, ringtree_codec_parse(&o->codec, optarg) == RINGTREE_OK;
    case OWN_LINK: return o->link = optarg, is_rate(optarg);
    case OWN_LIMITS: return o->limits = true;
    case OWN_MEMORY:
        o->shared_memory = !strcmp(optarg, "shared");
        return o->shared_memory || !strcmp(optarg, "private");
    case OWN_LEAST:
        o->least_busbw = strtod(optarg, &end);
        return end != optarg && !*end && o->least_busbw >= 0;
#ifdef RINGTREE_FAULT_SWITCHES
    case OWN_FAULT: return parse_fault(o, optarg);
#endif
    default: return o->json_file = optarg, true;
    }
}

static bool take(struct options *options, int letter)
{
    if (strchr("beif", letter) && letter < 256) return take_size(options, letter);
    if (letter == 'd') return parse_types(options, optarg);
    if (letter == 'o') return parse_ops(options, optarg);
    if (letter < 256 && letter != 'J') return take_number(options, letter);
    return take_own(options, letter);
}

static int bad_value(const struct options *options, int letter, const char *option)
{
    const char *name = option[0] == '-' ? option : "the option";
    char        text[64];
    if (letter >= 256 || !strchr("gtnwmcazuTr", letter))
        return usage(options, "\"%s\" is no value for %s", optarg, name);
    if (name[1] != '-') { /* -g0 is one word */
        snprintf(text, sizeof(text), "-%c", letter);
        name = text;
    }
    return usage(options, "%.40s takes a number from %u to %u%s, not \"%s\"", name, number_range.least,
                 number_range.most, letter == 'r' ? ", or all" : "", optarg);
}

static uint32_t cores(void)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed)) return 1;
    return (uint32_t)CPU_COUNT(&allowed);
}

static bool find_collective(struct options *options, char *name)
{
    for (size_t i = 0; i < collective_count; i++)
        if (!strcmp(basename(name), collectives[i].program)) {
            options->collective = &collectives[i];
            options->program = collectives[i].program;
        }
    if (options->collective) return true;
    fprintf(stderr, "call this program by one of its names: ");
    for (size_t i = 0; i < collective_count; i++)
        fprintf(stderr, "%s%s", collectives[i].program, i + 1 < collective_count ? ", " : "\n");
    return false;
}

static int finish(struct options *options)
{
    if (options->min_bytes > options->max_bytes)
        return usage(options, "-b is %zu, above -e, %zu", options->min_bytes, options->max_bytes);
    if (options->step_factor && !options->min_bytes) return usage(options, "-f never leaves size 0: raise -b");
    if (options->json_file && !json_available())
        return usage(options, "-J is not in this build: libjansson-dev was not found");
    if (!options->collective->reduces) {
        options->ops[0] = OP_NONE;
        options->op_count = 1;
    }
    if (options->coded && (options->collective->kind != RINGTREE_ALL_REDUCE || options->types[0] != RINGTREE_FLOAT32 ||
                           options->type_count > 1 || options->op_count > 1 || options->ops[0] != RINGTREE_SUM))
        return usage(options, "--codec is for all_reduce_perf with float and sum");
    if (options->link && options->threads > 1) return usage(options, "--link-limit is for processes: leave -t out");
    if (!options->processes) options->processes = options->threads > 1 ? 1 : cores() > 2 ? cores() : 2;
    if ((uint64_t)options->processes * options->threads > MOST_RANKS)
        return usage(options, "-g times -t is above %d ranks", MOST_RANKS);
    return -1;
}

static int print_and_leave(const struct options *options, int letter)
{
    if (letter == 'h') options_help(options, stdout);
    else printf("%s, ringtree %s\n", options->program, ringtree_version());
    return fflush(stdout) || ferror(stdout) ? EXIT_WRONG : EXIT_GOOD;
}

int options_read(struct options *options, int argc, char **argv)
{
    *options = (struct options){ .min_bytes = 32 << 20, .max_bytes = 32 << 20, .step_bytes = 1 << 20, .iterations = 20,
                                 .warmup = 5, .aggregate = 1, .checks = 1, .types = { RINGTREE_FLOAT32 },
                                 .type_count = 1, .ops = { RINGTREE_SUM }, .op_count = 1, .average = 1, .threads = 1,
                                 .argc = argc, .argv = argv };
    if (!find_collective(options, argv[0])) return EXIT_USAGE;
    opterr = 0;
    for (int at = optind, letter; (letter = getopt_long(argc, argv, ":t:g:b:e:i:f:n:w:m:c:o:d:r:a:z:u:J:T:h", longs,
                                                        NULL)) != -1; at = optind) {
        if (letter == 'h' || letter == OWN_VERSION) return print_and_leave(options, letter);
        if (letter == ':') return usage(options, "%s takes a value", argv[at]);
        if (letter == '?') return usage(options, "%s is not an option", argv[at]);
        if (!take(options, letter)) return bad_value(options, letter, argv[at]);
    }
    if (optind < argc) return usage(options, "%s is not an option", argv[optind]);
    return finish(options);
}
