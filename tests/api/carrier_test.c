/* Which transport carries a link: by cost, by the order of a list, by what both ends have; and that all ranks agree. */
#include "cache.h"
#include "entries.h"
#include "ranks.h"
#include <sys/stat.h>
#include <unistd.h>

/* LeakSanitizer's tracer crashes at times in processes whose UCX has no way to others (gcc 12). */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    const char *ways = getenv("UCX_TLS");
    return ways && !strcmp(ways, "self");
}

/* The first two links that the plan explains, and that they work. The argument is what every rank has to say. */
static void explain(struct rank *self)
{
    static float values[20000];
    char text[MOST];
    CHECK_EQ(ringtree_plan_explain(self->comm, RINGTREE_ALL_REDUCE, 1000, RINGTREE_FLOAT32, RINGTREE_SUM, text,
                                   sizeof text), RINGTREE_OK);
    if (self->rank == 0) snprintf(self->shared->text, MOST, "%s", text);
    if (self->argument) CHECK_HAS(text, (const char *)self->argument);
    for (int i = 0; i < 20000; i++) values[i] = 1;
    CHECK_EQ(ringtree_all_reduce(self->comm, values, values, 20000, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_OK);
    CHECK_EQ(values[19999], self->size);
}

static void start(const char *transports, const char *calibrate, const char *fault, const char *expected)
{
    char how[64], broken[64];
    snprintf(how, sizeof how, "RINGTREE_CALIBRATE=%s", calibrate);
    snprintf(broken, sizeof broken, "RINGTREE_FAULT=%s", fault ? fault : "");
    const char *const settings[] = { cache_setting, how, broken, NULL };
    CHECK_EQ(RANKS(explain, .ranks = 3, .processes = 3, .transports = transports, .settings = settings,
                   .argument = (void *)(uintptr_t)expected), 0);
}

static bool has_ucx(void)
{
    static int known = -1;
    if (known < 0) known = system("ldconfig -p 2>/dev/null | grep -q libucp.so.0") == 0 && WITH_UCX;
    return known;
}

/* Replaces what was measured of tcp and ucx by something that leaves no doubt; in fs and fs a byte. */
static void set_costs(const char *path, unsigned long long tcp, unsigned long long ucx)
{
    char text[MOST] = "", line[256];
    FILE *in = fopen(path, "r");
    size_t used = 0;
    CHECK(in != NULL);
    while (in && fgets(line, sizeof line, in)) {
        if (!strncmp(line, "link tcp-loopback ", 18))
            snprintf(line, sizeof line, "link tcp-loopback %llu %llu\n", tcp, tcp / 10000);
        if (!strncmp(line, "link ucx-loopback ", 18))
            snprintf(line, sizeof line, "link ucx-loopback %llu %llu\n", ucx, ucx / 10000);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s", line);
    }
    if (in) fclose(in);
    CHECK_HAS(text, "tcp-loopback");
    CHECK_HAS(text, "ucx-loopback");
    FILE *out = fopen(path, "w");
    CHECK(out && fputs(text, out) >= 0);
    if (out) fclose(out);
    chmod(path, 0600);
}

TEST(the_transport_of_the_least_cost_carries_and_the_losers_costs_are_told)
{
    char path[MOST];
    if (!has_ucx()) SKIP("there is no UCX here to compete with tcp");
    make_directory();
    start("^shm", "", NULL, "(measured)");
    if (!find_file(path)) return CHECK(!"nothing was kept");
    set_costs(path, 90000000000, 2000000000); /* 90 us against 2 us */
    start("^shm", "", NULL, "to rank ");
    start("^shm", "cached", NULL, ": ucx, the least cost: 8 B 2.0 us");
    start("^shm", "cached", NULL, "tcp: 8 B 90.1 us");
    set_costs(path, 2000000000, 90000000000);
    start("^shm", "cached", NULL, ": tcp, the least cost: 8 B 2.0 us");
    set_costs(path, 2100000000, 2000000000); /* no clear gain: the one that comes first */
    start("^shm", "cached", NULL, ": tcp, the least cost: 8 B 2.1 us");
}

TEST(a_list_is_obeyed_in_its_order)
{
    make_directory();
    if (!has_ucx()) SKIP("there is no UCX here");
    start("ucx,tcp", "off", NULL, ": ucx, the first of RINGTREE_TRANSPORTS");
    start("tcp,ucx", "off", NULL, ": tcp, the first of RINGTREE_TRANSPORTS");
}

TEST(what_is_excluded_carries_nothing)
{
    make_directory();
    start("^shm,ucx", "off", NULL, ": tcp, the least cost");
    start("^shm,ucx", "off", NULL, "ucx: RINGTREE_TRANSPORTS leaves it out");
    start("^ucx", "off", NULL, ": shm, which comes before all others");
}

TEST(a_transport_that_one_end_cannot_use_is_used_by_neither)
{
    make_directory();
    if (!has_ucx()) SKIP("there is no UCX here");
    start("ucx,tcp", "off", "blind:ucx", ": tcp, the first of"); /* rank 2 is the blind one */
    start("ucx,tcp", "off", NULL, ": ucx, the first of");        /* the control */
    start("^shm", "", "blind:ucx", "to rank");
}

TEST(a_transport_that_carries_nothing_when_it_is_tried_loses)
{
    make_directory();
    if (!has_ucx()) SKIP("there is no UCX here");
    setenv("UCX_TLS", "self", 1); /* UCX finds no way to another process */
    start("^shm", "", NULL, "ucx: it was tried at the start and carried nothing");
    unsetenv("UCX_TLS");
}

#define TIMEOUT_MS 1600

static void starts_by(struct rank *self)
{
    ringtree_comm *comm = NULL;
    char text[MOST] = "";
    if (self->rank == 0) CHECK_EQ(ringtree_id_create(&self->shared->id), RINGTREE_OK);
    ranks_meet(self);
    const uint64_t begun = ranks_now_ms();
    const ringtree_status status = ringtree_init_id(&comm, &self->shared->id, self->size, self->rank, NULL);
    const uint64_t took = ranks_now_ms() - begun;
    if (comm)
        CHECK_EQ(ringtree_plan_explain(comm, RINGTREE_ALL_REDUCE, 1000, RINGTREE_FLOAT32, RINGTREE_SUM, text,
                                       sizeof text), RINGTREE_OK);
    else {
        CHECK_EQ(status, RINGTREE_UNREACHABLE);
        snprintf(text, sizeof text, "%s", ringtree_last_error(NULL));
    }
    CHECK_HAS(text, (const char *)self->argument);
    CHECK_THAT(took > TIMEOUT_MS / 4 && took < TIMEOUT_MS, "%" PRIu64 " ms, of %d", took, TIMEOUT_MS);
    ringtree_destroy(comm);
}

static void start_by(const char *fault, const char *log, const char *expected)
{
    char broken[64], file[MOST], timeout[64];
    snprintf(broken, sizeof broken, "RINGTREE_FAULT=%s", fault);
    snprintf(file, sizeof file, "RINGTREE_LOG_FILE=%s", log);
    snprintf(timeout, sizeof timeout, "RINGTREE_TIMEOUT_MS=%d", TIMEOUT_MS);
    const char *const settings[] = { cache_setting, "RINGTREE_CALIBRATE=", "RINGTREE_LOG=warn", broken, file, timeout,
                                     NULL };
    CHECK_EQ(RANKS(starts_by, .ranks = 2, .processes = 2, .bare = true, .transports = "^shm", .settings = settings,
                   .argument = (void *)(uintptr_t)expected), 0);
}

/* A link that says nothing takes its whole time; all trials together stay well within the time that all ranks have. */
TEST(a_trial_that_fails_says_how_and_ends_well_before_the_timeout)
{
    char log[MOST], text[MOST] = "";
    make_directory();
    if (!has_ucx()) SKIP("there is no UCX here to compete with tcp");
    snprintf(log, sizeof log, "%s/log", directory);
    start_by("mute:ucx", log, "ucx: it was tried at the start and carried nothing");
    FILE *in = fopen(log, "r");
    CHECK(in && fread(text, 1, sizeof text - 1, in) > 0);
    if (in) fclose(in);
    CHECK_HAS(text, "nothing came from rank 1 (host ");
    CHECK_HAS(text, "nothing came from rank 0 (host ");
    CHECK_HAS(text, " ms: look at firewalls");
    start_by("slow:ucx", log, "ucx: it was tried at the start and was too slow to be measured");
    start_by("slow:all", log, ": tcp, the least cost: it was tried at the start and was too slow to be measured");
    start_by("mute:all", log, "tcp: it was tried at the start and carried nothing. ucx: it was tried at the start and "
             "carried nothing.");
}

static void split_apart(struct rank *self)
{
    float one = 1;
    ringtree_comm *part = self->comm;
    CHECK_EQ(ringtree_all_reduce(self->comm, &one, &one, 1, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_OK);
    const int entries = count_entries("/proc/self/fd"), threads = count_entries("/proc/self/task");
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(ringtree_split(self->comm, 0, 0, &part), RINGTREE_UNREACHABLE);
        CHECK(!part);
        CHECK_HAS(ringtree_last_error(self->comm), "cannot reach rank");
    }
    CHECK_EQ(count_entries("/proc/self/fd"), entries);
    CHECK_EQ(count_entries("/proc/self/task"), threads);
    CHECK_EQ(ringtree_all_reduce(self->comm, &one, &one, 1, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_OK);
    CHECK_EQ(one, 9);
}

TEST(a_split_whose_parts_no_transport_connects_fails_and_leaves_nothing_behind)
{
    const char *const settings[] = { "RINGTREE_FAULT=split", NULL };
    CHECK_EQ(RANKS(split_apart, .ranks = 3, .processes = 3, .transports = "tcp", .settings = settings), 0);
}

static void refused(struct rank *self)
{
    ringtree_comm *comm = NULL;
    CHECK_EQ(ringtree_init(&comm), RINGTREE_INVALID_SETTING);
    CHECK_HAS(ringtree_last_error(NULL), (const char *)self->argument);
    CHECK_HAS(ringtree_last_error(NULL), "this build has: shm, verbs, tcp, ucx");
}

TEST(unknown_names_and_empty_choices_are_refused_with_the_valid_names)
{
    RANKS(refused, .ranks = 1, .bare = true, .transports = "^pigeon", .argument = (void *)"no transport \"pigeon\"");
    RANKS(refused, .ranks = 1, .bare = true, .transports = "shm,pigeon", .argument = (void *)"no transport \"pigeon\"");
    RANKS(refused, .ranks = 1, .bare = true, .transports = "^shm,tcp,ucx,verbs",
          .argument = (void *)"leaves no transport");
    RANKS(refused, .ranks = 1, .bare = true, .transports = ",", .argument = (void *)"leaves no transport");
}

TEST_MAIN
