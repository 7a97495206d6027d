/* ringtree-limits: the command line, and the meters one after the other. */
#include "limits.h"
#include "../size.h"

#include <getopt.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define MOST_MEMORY ((size_t)64 << 30)

enum ended { ENDED_GOOD, ENDED_UNMEASURED, ENDED_USAGE, ENDED_UNWRITTEN };

static const struct meter {
    const char *name, *what;
    void      (*run)(struct limits *limits);
} meters[] = {
    { "line", "a cache line between two cores, one way and exchanged at once (ns)", meter_line },
    { "fresh", "copying what the other core has just written, by size (GB/s)", meter_fresh },
    { "wake", "waking a sleeper by futex and eventfd, same core and across (us)", meter_wake },
    { "yield", "handing the core over by sched_yield() (us)", meter_yield },
    { "tcp", "4 bytes over loopback TCP one way, busy-polled and blocking (us)", meter_tcp },
    { "duplex", "both directions of loopback TCP at once, by size and connections (GB/s each way)", meter_duplex },
    { "copy", "memcpy() and non-temporal copies, cache and memory, one core and both (GB/s per core)", meter_copy },
    { "vm-read", "process_vm_readv(), few bytes (us) and many (GB/s), small and huge pages", meter_vm_read },
    { "fault", "the first touch of memory, anonymous, shared and huge (us per 4 KiB)", meter_fault },
};
#define METERS (sizeof(meters) / sizeof(*meters))

struct options {
    bool        wanted[METERS];
    const char *json;
    bool        quiet;
};

static void print_help(FILE *out)
{
    fputs("Usage: ringtree-limits [OPTIONS]\n"
          "\n"
          "Measures what two cores of this machine can do without any library, so that what a library takes can be\n"
          "compared with it. Prints a table, each figure with its unit: median, least and most of the repeats.\n"
          "GB/s are 10^9 bytes per second. Run it on an idle machine.\n"
          "\n"
          "      --only NAME,...   only these meters\n"
          "      --json FILE       also as JSON; - is standard output, instead of the table\n"
          "      --repeats N       of each figure, 1 to 101 (default 7)\n"
          "      --cores A,B       the two cores (default: the first two that this process may use)\n"
          "      --memory BYTES    one buffer of the copies from memory, also with K, M or G (default: twice the\n"
          "                        last cache, 64 MiB at least, 1/16 of the memory at most)\n"
          "      --help            this text\n"
          "\n"
          "Meters:\n", out);
    for (size_t i = 0; i < METERS; i++)
        fprintf(out, "  %-8s %s\n", meters[i].name, meters[i].what);
    fputs("\n"
          "The time of a cache line depends on where the host has put the two cores. It is probed before and after\n"
          "all meters and printed as a class, near (up to 150 ns one way) or far: compare within a class only.\n"
          "\n"
          "Exit status: 0 all was measured; 1 a meter could not be measured (it is in the output, with the reason);\n"
          "2 bad command line; 3 the output could not be written.\n"
          "\n"
          "Examples:\n"
          "  ringtree-limits\n"
          "  ringtree-limits --only line,tcp --json - | jq '.figures[] | {name, median, unit}'\n", out);
}

static bool complain(const char *option, const char *value)
{
    fprintf(stderr, "ringtree-limits: %s \"%s\" is not possible here. See ringtree-limits --help\n", option, value);
    return false;
}

static bool read_only(const char *text, bool wanted[METERS])
{
    memset(wanted, 0, METERS * sizeof(*wanted));
    while (*text) {
        const size_t length = strcspn(text, ",");
        size_t       i = 0;
        while (i < METERS && (strlen(meters[i].name) != length || strncmp(meters[i].name, text, length))) i++;
        if (i == METERS) return complain("--only", text);
        wanted[i] = true;
        text += length + (text[length] == ',');
    }
    return true;
}

/* 0: complained, as no number may be 0. */
static size_t read_number(const char *option, const char *text, size_t least, size_t most)
{
    size_t number;
    if (size_parse(text, least, most, &number)) return number;
    complain(option, text);
    return 0;
}

static bool read_cores(const char *text, int cores[2])
{
    cpu_set_t set;
    int       used = 0;
    if (sched_getaffinity(0, sizeof(set), &set)) CPU_ZERO(&set);
    if (sscanf(text, "%d,%d%n", &cores[0], &cores[1], &used) != 2 || text[used]) return complain("--cores", text);
    for (int i = 0; i < 2; i++)
        if (cores[i] < 0 || cores[i] >= CPU_SETSIZE || !CPU_ISSET(cores[i], &set)) return complain("--cores", text);
    return true;
}

static void default_cores(int cores[2])
{
    cpu_set_t set;
    int       found = 0;
    cores[0] = cores[1] = 0;
    if (sched_getaffinity(0, sizeof(set), &set)) return;
    for (int i = 0; i < CPU_SETSIZE && found < 2; i++)
        if (CPU_ISSET(i, &set)) cores[found++] = i;
    if (found == 1) cores[1] = cores[0];
}

static size_t default_memory(const struct machine *machine)
{
    const size_t least = (size_t)64 << 20, most = machine->memory_bytes / 16, wanted = 2 * machine->l3_bytes;
    return wanted < least ? least : most && wanted > most ? most / 4096 * 4096 : wanted / 4096 * 4096;
}

/* -1: go on, else the status to end with */
static int read_options(int argc, char **argv, struct options *options, struct limits *limits)
{
    static const struct option names[] = {
        { "only", required_argument, NULL, 'o' },  { "json", required_argument, NULL, 'j' },
        { "repeats", required_argument, NULL, 'r' }, { "cores", required_argument, NULL, 'c' },
        { "memory", required_argument, NULL, 'm' }, { "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 },
    };
    bool good = true;
    for (int option; good && (option = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        switch (option) {
        case 'o': good = read_only(optarg, options->wanted); break;
        case 'j': options->json = optarg; break;
        case 'r': good = (limits->repeats = (uint32_t)read_number("--repeats", optarg, 1, MOST_REPEATS)) > 0; break;
        case 'c': good = read_cores(optarg, limits->cores); break;
        case 'm': good = (limits->beyond_caches = read_number("--memory", optarg, 1 << 20, MOST_MEMORY)) > 0; break;
        case 'h': return print_help(stdout), ENDED_GOOD;
        default:  return fputs("See ringtree-limits --help\n", stderr), ENDED_USAGE;
        }
    }
    if (good && optind < argc) good = complain("the argument", argv[optind]);
    return good ? -1 : ENDED_USAGE;
}

static void run_meters(const struct options *options, struct limits *limits)
{
    for (size_t m = 0, shown = 0; m < METERS; m++) {
        if (!options->wanted[m]) continue;
        meters[m].run(limits);
        for (; shown < limits->figure_count; shown++)
            if (!options->quiet) report_row(&limits->figures[shown], stdout);
    }
}

static bool write_json(const char *path, const struct limits *limits, const struct machine *machine,
                       const double line_ns[2])
{
    const bool to_stdout = !strcmp(path, "-");
    FILE      *file = to_stdout ? stdout : fopen(path, "we");
    bool       good = file && report_json(limits, machine, line_ns, file);
    if (file && !to_stdout) good = !fclose(file) && good;
    if (!good) fprintf(stderr, "ringtree-limits: cannot write %s\n", path);
    return good;
}

static int judge(const struct limits *limits)
{
    for (size_t i = 0; i < limits->figure_count; i++)
        if (!limits->figures[i].repeats) return ENDED_UNMEASURED;
    return ENDED_GOOD;
}

int main(int argc, char **argv)
{
    static struct limits limits = { .repeats = 7 };
    struct options       options = { .json = NULL };
    struct machine       machine;
    double               line_ns[2];
    machine_look(&machine);
    default_cores(limits.cores);
    limits.beyond_caches = default_memory(&machine);
    for (size_t i = 0; i < METERS; i++)
        options.wanted[i] = true;
    const int ended = read_options(argc, argv, &options, &limits);
    if (ended >= 0) return ended;
    options.quiet = options.json && !strcmp(options.json, "-");
    if (!options.quiet) report_head(&limits, &machine, stdout);
    line_ns[0] = line_one_way_ns(&limits);
    run_meters(&options, &limits);
    line_ns[1] = line_one_way_ns(&limits);
    if (!options.quiet && line_ns[0] > 0)
        printf("# cache line one way: %.0f ns before, %.0f ns after: %s, %s\n", line_ns[0], line_ns[1],
               class_of(line_ns[0]), class_of(line_ns[1]));
    bool written = !options.json || write_json(options.json, &limits, &machine, line_ns);
    written = !fflush(stdout) && !ferror(stdout) && written;
    return written ? judge(&limits) : ENDED_UNWRITTEN;
}
