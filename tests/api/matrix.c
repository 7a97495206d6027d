/*
 * Every collective x type x op x number of ranks x count x in or out of place x kind of link x algorithm, each result
 * compared to the bit (numbers.h) with guard bytes around and the input unchanged.
 *
 *     matrix                     a sample, the same each time (--seed N takes another)
 *     matrix --whole             all of it: hours; narrow it with --ranks N, --place NAME, --algorithm NAME
 *     matrix --negative-control  spoils results on purpose and fails unless each is caught
 */
#include "cell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const uint32_t rank_counts[] = { 1, 2, 3, 4, 5, 7, 8, 13, 16 };

/* Names that RINGTREE_ALGORITHM knows; one that cannot serve a call is refused there, which is counted. */
static const char *const algorithms[] = { "", "ring", "tree", "halving", "doubling", "direct", "pairwise",
                                          "bruck", "linear", "binomial", "hierarchical", "shared" };

enum split { ONE_PROCESS, ALL_PROCESSES, FOUR_PROCESSES };
static const struct place {
    const char *name, *transports, *hosts;
    enum split  split;
    bool        by_name;
} places[] = {
    { "shm-threads", "shm", NULL, ONE_PROCESS },
    { "shm-processes", "shm", NULL, ALL_PROCESSES },
    { "shm-both", "shm", NULL, FOUR_PROCESSES },
    { "tcp-threads", "tcp", NULL, ONE_PROCESS },
    { "tcp-processes", "tcp", NULL, ALL_PROCESSES },
    { "two-hosts", "shm,tcp", "aabb", FOUR_PROCESSES },
    { "two-hosts-interleaved", "shm,tcp", "abababababababab", ALL_PROCESSES },
    { "three-hosts-uneven", "shm,tcp", "abcccccccccccccc", ALL_PROCESSES },
    /* only by name, since not every build has it */
    { "ucx-threads", "ucx", NULL, ONE_PROCESS, true },
    { "ucx-processes", "ucx", NULL, ALL_PROCESSES, true },
    { "ucx-two-hosts", "shm,ucx", "aabb", FOUR_PROCESSES, true },
    { "verbs-processes", "verbs", NULL, ALL_PROCESSES, true },
    { "verbs-two-hosts", "shm,verbs", "aabb", FOUR_PROCESSES, true },
};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct {
    bool        whole;
    uint32_t    ranks; /* 0: all */
    const char *place, *algorithm;
    uint64_t    seed, cells; /* cells per run; 0: chosen */
} wanted = { .seed = 1 };

static struct tally { /* shared by all processes */
    atomic_ullong right, wrong, refused, broken;
} *tally;

struct plan { /* of one run */
    uint64_t       number; /* of the run */
    uint64_t       cells;
    const char    *name;
    enum cell_fault fault;
    struct cell    only; /* with a fault: this cell */
};

static uint64_t hash(uint64_t a, uint64_t b)
{
    uint64_t x = (a + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u ^ (b + 1) * 0x94d049bb133111ebu;
    x = (x ^ (x >> 29)) * 0xd6e8feb86659fd93u;
    return x ^ (x >> 32);
}

/* A sample leaves out what would fill the memory of a small machine. */
static bool too_large(const struct cell *cell, uint32_t n)
{
    const uint64_t bytes = (uint64_t)cell->count * ringtree_type_size((ringtree_type)cell->type) * n;
    const bool     blocks = cell->collective != RINGTREE_ALL_REDUCE && cell->collective != RINGTREE_BROADCAST &&
                        cell->collective != RINGTREE_REDUCE && cell->collective != RINGTREE_SEND_RECV;
    return bytes * (blocks ? n : 1) > (64u << 20);
}

static void report(struct rank *self, const struct plan *plan, const struct cell *cell, const char *why)
{
    char text[256];
    cell_text(cell, text, sizeof(text));
    fprintf(stderr, "%s, rank %u of %u: %s: %s\n", plan->name, self->rank, self->size, text, why);
}

static void run_cells(struct rank *self)
{
    const struct plan *plan = self->argument;
    uint32_t           told = 0;
    char               why[1200];
    for (uint64_t i = 0; i < plan->cells; i++) {
        uint64_t    number = wanted.whole ? i : hash(hash(wanted.seed, plan->number), i) % cell_total();
        struct cell cell = cell_at(number, self->size);
        if (plan->fault) {
            cell = plan->only;
            if (self->rank == self->size - 1) cell.fault = plan->fault;
        } else if (!wanted.whole && too_large(&cell, self->size))
            cell.count = cell_counts[5];
        switch (cell_run(self, &cell, why, sizeof(why))) {
        case CELL_RIGHT:   atomic_fetch_add(&tally->right, 1); break;
        case CELL_REFUSED: atomic_fetch_add(&tally->refused, 1); break;
        case CELL_WRONG:
            atomic_fetch_add(&tally->wrong, 1);
            if (!plan->fault && told++ < 3) report(self, plan, &cell, why);
            break;
        case CELL_BROKEN:
            atomic_fetch_add(&tally->broken, 1);
            report(self, plan, &cell, why);
            return;
        }
    }
}

static uint32_t processes_of(const struct place *place, uint32_t n)
{
    if (place->split == ONE_PROCESS) return 1;
    return place->split == ALL_PROCESSES || n < 4 ? n : 4;
}

static bool run(const struct place *place, const char *algorithm, uint32_t n, struct plan *plan)
{
    char                name[128];
    atomic_int          failures = 0;
    const struct ranks_layout layout = {
        .ranks = n, .processes = processes_of(place, n), .hosts = place->hosts, .transports = place->transports,
        .algorithm = algorithm[0] ? algorithm : NULL, .wait_s = wanted.whole ? 7200 : 120, .timeout_ms = 60000,
        .argument = plan
    };
    snprintf(name, sizeof(name), "%s, %u ranks, %s", place->name, n, algorithm[0] ? algorithm : "chosen");
    plan->name = name;
    if (wanted.whole) printf("%s ... ", name), fflush(stdout);
    uint32_t bad = ranks_run(&layout, run_cells, &failures);
    if (bad) fprintf(stderr, "%s: %u processes failed\n", name, bad);
    if (wanted.whole) printf("%s\n", bad ? "FAILED" : "done");
    return bad == 0;
}

/* A sample takes every number of ranks in every place with the chosen algorithm, and a part of the forced ones. */
static bool taken(const struct place *place, const char *algorithm, uint32_t n, uint64_t number)
{
    if (wanted.ranks && wanted.ranks != n) return false;
    if (wanted.place ? strcmp(wanted.place, place->name) != 0 : place->by_name) return false;
    if (wanted.algorithm && strcmp(wanted.algorithm, algorithm) != 0) return false;
    if (place->hosts && n == 1) return false;
    if (wanted.whole || wanted.algorithm || wanted.place) return true;
    return algorithm[0] ? hash(wanted.seed, number) % 6 == 0 : true;
}

static int run_matrix(void)
{
    uint64_t number = 0, runs = 0, failed = 0;
    for (size_t i = 0; i < COUNT(rank_counts); i++)
        for (size_t p = 0; p < COUNT(places); p++)
            for (size_t a = 0; a < COUNT(algorithms); a++, number++) {
                const uint32_t n = rank_counts[i];
                struct plan    plan = { .number = number };
                if (!taken(&places[p], algorithms[a], n, number)) continue;
                plan.cells = wanted.whole ? cell_total() : wanted.cells ? wanted.cells : n > 8 ? 16 : 32;
                runs++;
                failed += !run(&places[p], algorithms[a], n, &plan);
            }
    printf("%llu communicators, %llu results right, %llu wrong, %llu calls refused (algorithm not for them), "
           "%llu failed; %llu communicators failed\n",
           (unsigned long long)runs, (unsigned long long)atomic_load(&tally->right),
           (unsigned long long)atomic_load(&tally->wrong), (unsigned long long)atomic_load(&tally->refused),
           (unsigned long long)atomic_load(&tally->broken), (unsigned long long)failed);
    return failed || atomic_load(&tally->wrong) || atomic_load(&tally->broken) || !atomic_load(&tally->right);
}

static int run_negative_control(void)
{
    int missed = 0;
    for (int fault = CELL_FIRST_BIT; fault < CELL_FAULTS; fault++)
        for (uint32_t type = 0; type < RINGTREE_TYPE_COUNT; type++) {
            struct plan plan = { .cells = 1, .fault = (enum cell_fault)fault,
                                 .only = { .collective = RINGTREE_ALL_REDUCE, .type = type, .count = 1000 } };
            atomic_store(&tally->wrong, 0);
            run(&places[0], "", 3, &plan);
            if (atomic_load(&tally->wrong) == 1) continue;
            printf("fault %d with type %u was not caught\n", fault, type);
            missed++;
        }
    printf("%d spoilt results not caught\n", missed);
    return missed != 0;
}

int main(int argc, char **argv)
{
    bool control = false;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--whole")) wanted.whole = true;
        else if (!strcmp(argv[i], "--negative-control")) control = true;
        else if (!strcmp(argv[i], "--ranks")) wanted.ranks = (uint32_t)atoi(value), i++;
        else if (!strcmp(argv[i], "--seed")) wanted.seed = strtoull(value, NULL, 10), i++;
        else if (!strcmp(argv[i], "--cells")) wanted.cells = strtoull(value, NULL, 10), i++;
        else if (!strcmp(argv[i], "--place")) wanted.place = value, i++;
        else if (!strcmp(argv[i], "--algorithm")) wanted.algorithm = value, i++;
        else return fprintf(stderr, "matrix [--whole] [--ranks N] [--place NAME] [--algorithm NAME] [--seed N] "
                                    "[--cells N] | --negative-control\n"), 2;
    }
    tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tally == MAP_FAILED) return 1;
    return control ? run_negative_control() : run_matrix();
}
