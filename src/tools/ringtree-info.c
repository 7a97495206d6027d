/* ringtree-info: what this build of ringtree is, what it sees on this machine, and every setting. */
#include "ringtree-info.h"
#include "tool.h"
#include "engine/carrier.h"
#include "reduce/reduce.h"
#include "topology/cores.h"
#include "ucx/summary.h"
#include "verbs/summary.h"
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: ringtree-info [--settings | --memory [-n RANKS]] [--json]\n"
    "\n"
    "Prints the build of ringtree, what it sees on this machine, the network addresses in the order in which\n"
    "they would be used, and every setting with its value, where that comes from, and what it does.\n"
    "\n"
    "      --settings   only the settings\n"
    "      --memory     what a communicator costs each of its ranks in memory, in bytes\n"
    "  -n, --ranks N    ... of N ranks, 1 to 65536 (default 2)\n"
    "      --json       as JSON\n"
    "      --help       this text\n"
    "      --version    the library's version\n"
    "\n"
    "Names, ranges and the form of RINGTREE_ALGORITHM are checked here. Not checked: whether an algorithm,\n"
    "a transport or RINGTREE_ROOT is one that exists; ringtree_init() refuses these, an algorithm that cannot\n"
    "serve a call is refused by that call.\n"
    "\n"
    "Exit status: 0 all is well; 1 a setting is wrong (the sentence is on standard error; what is printed then\n"
    "shows the defaults); 2 bad command line.\n"
    "\n"
    "Examples:\n"
    "  ringtree-info                                     what would ringtree do here?\n"
    "  RINGTREE_INTERFACE=^docker ringtree-info          which addresses are left?\n"
    "  RINGTREE_CONFIG=./my.conf ringtree-info --settings   is this settings file right?\n"
    "  ringtree-info --json | jq '.settings.RINGTREE_TIMEOUT_MS.value'\n";

static const char *compiled_for(void)
{
#if defined(__x86_64__)
    return "x86-64";
#elif defined(__aarch64__)
    return "arm64";
#else
    return "another processor";
#endif
}

static const char *fault_switches(void)
{
    return rt_setting_available(RT_FAULT) ? "yes: a build for tests" : "no";
}

/* Appends a line; the caller's array has room for INFO_LINES. */
static void add(struct info_line *lines, size_t *count, const char *name, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void add(struct info_line *lines, size_t *count, const char *name, const char *format, ...)
{
    struct info_line *line = &lines[(*count)++];
    va_list args;

    line->name = name;
    va_start(args, format);
    vsnprintf(line->value, sizeof(line->value), format, args);
    va_end(args);
}

size_t info_build(const struct info *info, struct info_line *lines)
{
    size_t count = 0;

    add(lines, &count, "version", "%s", ringtree_version());
    add(lines, &count, "compiler", "%s", RINGTREE_BUILD_COMPILER);
    add(lines, &count, "build", "%s for %s", RINGTREE_BUILD_TYPE, compiled_for());
    add(lines, &count, "sanitizers", "%s", RINGTREE_BUILD_SANITIZE[0] ? RINGTREE_BUILD_SANITIZE : "none");
    add(lines, &count, "fault switches", "%s", fault_switches());
    add(lines, &count, "transports", "%s", RINGTREE_BUILD_TRANSPORTS[0] ? RINGTREE_BUILD_TRANSPORTS : "none");
    add(lines, &count, "reduction", "%s", info->reduction);
    return count;
}

/* "0 (cores 0-3), 1 (cores 4-7)" */
static void add_domains(const struct rt_near *near, struct info_line *lines, size_t *count)
{
    char text[200] = "", cores[64];
    size_t length = 0;

    for (uint32_t d = 0; d < near->ndomains && length + 96 < sizeof(text); d++)
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%" PRId32 " (cores %s)", d ? ", " : "",
                                   near->domain[d].number,
                                   rt_cpus_text(&near->domain[d].cpus, cores, sizeof(cores)));
    if (near->ndomains)
        add(lines, count, "NUMA domains", "%" PRIu32 ": %s", near->ndomains, text);
}

static void add_binding(const struct info *info, struct info_line *lines, size_t *count)
{
    if (!info->settings.number[RT_BIND])
        add(lines, count, "binding", "none: RINGTREE_BIND is 0");
    else if (info->near.why[0])
        add(lines, count, "binding", "none: %s", info->near.why);
    else
        add(lines, count, "binding", "each of several ranks keeps to its share of the NUMA domains");
}

/* What its links cost unless they were measured. */
static const char *carrier_text(const struct info *info, const struct rt_transport *carrier, char *text,
                                size_t capacity)
{
    char within[48], across[48];

    rt_carrier_cost_text(&carrier->guess[RT_WITHIN], within, sizeof(within));
    rt_carrier_cost_text(&carrier->guess[RT_ACROSS], across, sizeof(across));
    snprintf(text, capacity, "%sa guess: within a machine %s%s%s",
             rt_list_allows(info->settings.text[RT_TRANSPORTS], carrier->name) ? "" : "left out; ",
             within, carrier == &rt_transport_shm ? "" : "; between machines ",
             carrier == &rt_transport_shm ? "" : across);
    return text;
}

size_t info_machine(const struct info *info, struct info_line *lines)
{
    size_t count = 0;
    char text[200];

    add(lines, &count, "host", "%s", info->system.nodename);
    if (info->settings.text[RT_HOST][0])
        add(lines, &count, "pretended host", "%.200s", info->settings.text[RT_HOST]);
    add(lines, &count, "kernel", "%.60s %.60s %.60s", info->system.sysname, info->system.release, info->system.machine);
    if (info->quota < info->cores)
        add(lines, &count, "cores", "%" PRIu32 " (%" PRIu32 " allowed, limited by the control group's quota)",
            info->quota, info->cores);
    else
        add(lines, &count, "cores", "%" PRIu32, info->cores);
    add(lines, &count, "RDMA", "%s", rt_verbs_summary(text, sizeof(text)));
    add(lines, &count, "UCX", "%s", rt_ucx_summary(text, sizeof(text)));
    for (uint32_t t = 0; t < RT_CARRIERS; t++)
        add(lines, &count, rt_carriers[t]->name, "%s", carrier_text(info, rt_carriers[t], text, sizeof(text)));
    add_domains(&info->near, lines, &count);
    add_binding(info, lines, &count);
    return count;
}

const char *info_origin(const struct info *info, int setting)
{
    static const char *const names[] = { "default", "file", "environment" };

    return names[info->settings.given[setting]];
}

const char *info_value(const struct info *info, int setting)
{
    const char *text = info->settings.text[setting];

    return rt_setting_table[setting].hidden && text[0] ? "(hidden)" : text;
}

static void gather(struct info *info)
{
    uint64_t mask;

    memset(info, 0, sizeof(*info));
    if (rt_settings_load(&info->settings, &info->settings_error))
        rt_settings_defaults(&info->settings);
    if (rt_interfaces_find(&info->interfaces, info->settings.text[RT_INTERFACE], &info->interfaces_error)) {
        struct rt_error second;
        rt_interfaces_find(&info->interfaces, "", &second); /* lists nothing if it fails: the first sentence says why */
    }
    uname(&info->system);
    info->cores = rt_cores_allowed(&mask);
    info->quota = rt_cores_quota("/proc/self/cgroup", "/sys/fs/cgroup");
    info->reduction = rt_reduce_path();
    struct rt_cpus allowed;
    rt_cpus_allowed(&allowed);
    rt_near_find(&info->near, &RT_NEAR_HERE, &allowed);
}

static bool complain(const struct rt_error *error)
{
    if (error->status)
        fprintf(stderr, "ringtree-info: %s\n", error->text);
    return error->status != RINGTREE_OK;
}

struct wanted {
    bool     settings_only, json;
    uint32_t memory_of; /* ranks; 0: not the memory */
};

static int print_json(const struct info *info, const struct wanted *wanted)
{
#ifdef RINGTREE_JSON
    if (wanted->memory_of)
        return info_print_memory_json(info, wanted->memory_of);
    return info_print_json(info, wanted->settings_only);
#else
    (void)info;
    (void)wanted;
    return 0;
#endif
}

static int print(const struct wanted *wanted)
{
    static struct info info;
    int failed = 0;

    gather(&info);
#ifndef RINGTREE_JSON
    if (wanted->json)
        return fputs("ringtree-info: this build has no JSON: libjansson-dev was not there\n", stderr), 2;
#endif
    if (wanted->json)
        failed = print_json(&info, wanted);
    else if (wanted->memory_of)
        info_print_memory(&info, wanted->memory_of);
    else
        info_print_text(&info, wanted->settings_only);
    failed |= fflush(stdout) != 0;
    failed |= complain(&info.settings_error);
    failed |= complain(&info.interfaces_error);
    rt_interfaces_free(&info.interfaces);
    return failed ? 1 : 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "settings", no_argument, NULL, 's' }, { "json", no_argument, NULL, 'j' },
        { "memory", no_argument, NULL, 'm' },   { "ranks", required_argument, NULL, 'n' },
        { "help", no_argument, NULL, 'h' },     { "version", no_argument, NULL, 'v' }, { NULL, 0, NULL, 0 },
    };
    struct wanted wanted = { .settings_only = false };
    bool memory = false;
    uint32_t ranks = 2;

    for (int option; (option = getopt_long(argc, argv, "n:", options, NULL)) != -1;) {
        switch (option) {
        case 's': wanted.settings_only = true; break;
        case 'j': wanted.json = true; break;
        case 'm': memory = true; break;
        case 'n': ranks = (uint32_t)tool_number(optarg, "--ranks", 1, 65536); break;
        case 'h': return fputs(help, stdout) < 0;
        case 'v': return printf("ringtree-info %s\n", ringtree_version()) < 0;
        default:  return fputs("See ringtree-info --help\n", stderr), 2;
        }
    }
    if (optind < argc)
        return fprintf(stderr, "ringtree-info: unexpected \"%s\". See ringtree-info --help\n", argv[optind]), 2;
    wanted.memory_of = memory ? ranks : 0;
    return print(&wanted);
}
