/*
 * Random sequences of calls, checked to the bit on every rank. A seed stands for the calls, the number of ranks,
 * threads or processes, pretended hosts and the settings, so that a run that failed is made again from its seed. Each
 * seed runs in processes of its own.
 *
 *     api_stress 27                        one seed
 *     api_stress --from 1 --to 30          several
 *     api_stress 27 --threads              its ranks are threads, whatever the seed says
 *     api_stress 7 --operations 60 --most 250000
 *     api_stress 7 --negative-control      spoils rank 1's results and fails unless that is seen
 */
#include "stress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SETTINGS_MOST = 8, HOSTS_MOST = 3 };

static struct {
    uint64_t from, to, most_elements;
    uint32_t operations;
    bool     threads, negative_control;
} wanted = { .from = 1, .to = 1, .most_elements = 20000, .operations = 150 };

/* Tiny slots make many slices; a slice smaller than that, of no round size, makes more. */
static void choose_settings(uint64_t seed, const char *settings[SETTINGS_MOST])
{
    static const char *const one_in_five[5][5] = {
        { NULL },
        { "RINGTREE_SLICE_BYTES=4K", "RINGTREE_SHM_SLOT_BYTES=4K", "RINGTREE_TCP_SLOT_BYTES=4K",
          "RINGTREE_SHM_SLOTS=2" },
        { "RINGTREE_TRANSPORTS=tcp" },
        { "RINGTREE_DIRECT=0" },
        { "RINGTREE_PROGRESS_THREAD=1" },
    };
    size_t count = 0;
    for (size_t i = 0; one_in_five[seed % 5][i]; i++) settings[count++] = one_in_five[seed % 5][i];
    if (seed % 11 == 4) settings[count++] = "RINGTREE_SLICE_BYTES=100";
    if (wanted.negative_control) settings[count++] = "RINGTREE_FAULT=corrupt:1";
    settings[count] = NULL;
}

static void describe(uint64_t seed, const struct ranks_layout *layout)
{
    fprintf(stderr, "seed %llu FAILED: %u ranks as %s, hosts %s,", (unsigned long long)seed, layout->ranks,
            layout->processes > 1 ? "processes" : "threads", layout->hosts ? layout->hosts : "not pretended");
    for (size_t i = 0; layout->settings[i]; i++) fprintf(stderr, " %s", layout->settings[i]);
    fprintf(stderr, "\n");
}

static bool run(uint64_t seed, atomic_uint *wrong)
{
    const char        *settings[SETTINGS_MOST];
    char               hosts[RANKS_MOST + 1] = "";
    const uint32_t     ranks = (uint32_t)(seed % 7) + 2, pretended = (uint32_t)(seed / 6 % HOSTS_MOST) + 1;
    const bool         processes = seed % 3 == 0 && !wanted.threads;
    struct stress_plan plan = { seed, wanted.operations, wanted.most_elements, wrong };
    atomic_int         failures = 0;
    choose_settings(seed, settings);
    for (uint32_t r = 0; r < ranks; r++) hosts[r] = (char)('a' + r % pretended);
    const struct ranks_layout layout = { .ranks = ranks, .processes = processes ? ranks : 1, .settings = settings,
                                         .hosts = processes && seed % 2 == 0 ? hosts : NULL, .timeout_ms = 20000,
                                         .wait_s = 100, .argument = &plan };
    const bool right = ranks_run(&layout, stress_run, &failures) == 0 && atomic_load(&failures) == 0;
    if (!right && !wanted.negative_control) describe(seed, &layout);
    return right;
}

static bool read_arguments(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (name[0] >= '0' && name[0] <= '9')              wanted.from = wanted.to = strtoull(name, NULL, 10);
        else if (strcmp(name, "--threads") == 0)           wanted.threads = true;
        else if (strcmp(name, "--negative-control") == 0)  wanted.negative_control = true;
        else if (!value)                                   return false;
        else if (strcmp(name, "--from") == 0)              wanted.from = strtoull(value, NULL, 10), i++;
        else if (strcmp(name, "--to") == 0)                wanted.to = strtoull(value, NULL, 10), i++;
        else if (strcmp(name, "--operations") == 0)        wanted.operations = (uint32_t)strtoul(value, NULL, 10), i++;
        else if (strcmp(name, "--most") == 0)              wanted.most_elements = strtoull(value, NULL, 10), i++;
        else                                               return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    uint32_t     failed = 0;
    atomic_uint *wrong = mmap(NULL, sizeof(*wrong), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!read_arguments(argc, argv)) {
        fprintf(stderr, "usage: api_stress SEED | --from A --to B  [--threads] [--operations N] [--most ELEMENTS] "
                        "[--negative-control]\n");
        return 2;
    }
    if (wrong == MAP_FAILED) return 2;
    for (uint64_t seed = wanted.from; seed <= wanted.to; seed++) {
        atomic_store(wrong, 0);
        bool right = run(seed, wrong);
        if (wanted.negative_control) right = !right && atomic_load(wrong) > 0;
        failed += !right;
    }
    if (wanted.negative_control) puts(failed ? "a spoilt result was NOT seen" : "the spoilt results were seen");
    return failed ? 1 : 0;
}
