/* What each launcher's environment means, and which contradictions are refused. */
#include "ranks.h"
#include "bootstrap/launch.h"
#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>

static const char *const names[] = {
    "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_ID", "SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_NODELIST", "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS",
    "TORCHELASTIC_RUN_ID",
};
static struct rt_settings settings;
static struct rt_launch launch;
static struct rt_error error;

/* "NAME=value" pairs until NULL; every other launcher's variable is unset. RINGTREE_ ones go into the settings. */
static ringtree_status find(const char *const *pairs)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        unsetenv(names[i]);
    rank_settings(&settings, 2000);
    rt_error_clear(&error);
    for (; *pairs; pairs++) {
        char name[64];
        const char *value = strchr(*pairs, '=') + 1;
        snprintf(name, sizeof(name), "%.*s", (int)(value - 1 - *pairs), *pairs);
        if (strncmp(name, "RINGTREE_", 9)) {
            setenv(name, value, 1);
            continue;
        }
        enum rt_setting setting = rt_setting_find(name);
        CHECK_THAT(rt_setting_set(&settings, setting, value, "environment", &error) == RINGTREE_OK, "%s", error.text);
        settings.given[setting] = 2;
    }
    return rt_launch_find(&launch, &settings, &error);
}
#define FIND(...) find((const char *const[]){ __VA_ARGS__, NULL })

static void refused(ringtree_status status, const char *part)
{
    CHECK_THAT(status == RINGTREE_INVALID_SETTING, "%s", part);
    CHECK_HAS(error.text, part);
}

TEST(without_a_launcher_there_is_one_rank)
{
    CHECK_EQ(find((const char *const[]){ NULL }), RINGTREE_OK);
    CHECK_EQ(launch.nranks, 1);
    CHECK_EQ(strcmp(launch.launcher, "none"), 0);
    CHECK_EQ(FIND("SLURM_PROCID=0", "SLURM_NTASKS=4"), RINGTREE_OK); /* a batch script, not a step */
    CHECK_EQ(launch.nranks, 1);
}

TEST(a_root_without_rank_and_size_is_refused_unless_a_launcher_gives_them)
{
    refused(FIND("RINGTREE_ROOT=127.0.0.1:4000"), "set RINGTREE_RANK and RINGTREE_SIZE too");
    refused(FIND("RINGTREE_ROOT=127.0.0.1:4000", "SLURM_PROCID=0", "SLURM_NTASKS=4"), "set RINGTREE_RANK");
    CHECK_EQ(FIND("RINGTREE_ROOT=127.0.0.1:4000", "RANK=0", "WORLD_SIZE=1"), RINGTREE_OK);
    CHECK_EQ(FIND("RINGTREE_ROOT=127.0.0.1:4000", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"), RINGTREE_OK);
    CHECK_EQ(FIND("RINGTREE_ROOT=127.0.0.1:4000", "PMI_RANK=1", "PMI_SIZE=2"), RINGTREE_OK);
    CHECK_EQ(FIND("RINGTREE_ROOT=127.0.0.1:4000", "SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_STEP_ID=0"), RINGTREE_OK);
    CHECK_EQ(launch.rank, 1);
}

static bool log_has(const char *path, const char *words)
{
    char text[4096] = "";
    FILE *file = fopen(path, "r");

    if (file) {
        text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
        fclose(file);
        unlink(path);
    }
    return strstr(text, words) != NULL;
}

TEST(the_log_says_that_slurm_is_ignored_and_that_there_is_no_secret)
{
    char path[] = "/tmp/ringtree-launch-XXXXXX", pair[80];

    close(mkstemp(path));
    snprintf(pair, sizeof(pair), "RINGTREE_LOG_FILE=%s", path);
    CHECK_EQ(FIND(pair, "RINGTREE_LOG=info", "SLURM_PROCID=0", "SLURM_NTASKS=4"), RINGTREE_OK);
    CHECK(log_has(path, "info: SLURM_PROCID is set and not used: this is the batch script"));
    CHECK_EQ(FIND(pair, "RINGTREE_LOG=info", "SLURM_PROCID=0", "RANK=0", "WORLD_SIZE=1"), RINGTREE_OK);
    CHECK(log_has(path, "another launcher's variables come first; rank 0 of 1 (launcher: torchrun)"));
    CHECK_EQ(FIND(pair, "RINGTREE_LOG=info", "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2",
                  "OMPI_COMM_WORLD_LOCAL_SIZE=2"), RINGTREE_OK);
    CHECK(log_has(path, "rank 1 warn: no secret"));
    CHECK_EQ(FIND(pair, "RINGTREE_LOG=info"), RINGTREE_OK);
    CHECK(!log_has(path, "secret"));
}

TEST(an_id_with_rank_and_size_comes_first)
{
    struct rt_meeting meeting = { .secret = { 1, 2, 3 }, .number = 42 };
    ringtree_id id;
    char pair[600] = "RINGTREE_ID=";

    CHECK(sodium_init() >= 0);
    rt_meeting_to_id(&meeting, &id);
    sodium_bin2hex(pair + 12, sizeof(pair) - 12, id.bytes, sizeof(id.bytes));
    CHECK_EQ(FIND(pair, "RINGTREE_RANK=1", "RINGTREE_SIZE=4", "RANK=9", "WORLD_SIZE=3"), RINGTREE_OK);
    CHECK_EQ(launch.rank, 1);
    CHECK_EQ(launch.nranks, 4);
    CHECK_EQ(launch.meeting.number, 42);
    refused(FIND(pair, "RINGTREE_RANK=1"), "RINGTREE_SIZE is not");
    pair[20] = pair[20] == 'a' ? 'b' : 'a';
    refused(FIND(pair, "RINGTREE_RANK=1", "RINGTREE_SIZE=4"), "RINGTREE_ID");
    refused(FIND("RINGTREE_ID=zz", "RINGTREE_RANK=1", "RINGTREE_SIZE=4"), "in hex");
}

TEST(contradictions_and_garbage_name_their_variables)
{
    refused(FIND("RINGTREE_RANK=1"), "RINGTREE_SIZE is not");
    refused(FIND("RINGTREE_RANK=1", "RINGTREE_SIZE=2"), "RINGTREE_ROOT");
    refused(FIND("RINGTREE_RANK=2", "RINGTREE_SIZE=2", "RINGTREE_ROOT=h:1"), "RINGTREE_RANK is 2");
    refused(FIND("RINGTREE_RANK=1", "RINGTREE_SIZE=2", "RINGTREE_ROOT=h"), "host:port");
    refused(FIND("RINGTREE_RANK=1", "RINGTREE_SIZE=2", "RINGTREE_ROOT=::1:70"), "[fd00::1]:29500");
    refused(FIND("RINGTREE_RANK=1", "RINGTREE_SIZE=2", "RINGTREE_ROOT=h:70000"), "host:port");
    refused(FIND("RANK=x", "WORLD_SIZE=2"), "RANK is \"x\"");
    refused(FIND("RANK=-1", "WORLD_SIZE=2"), "RANK is \"-1\"");
    refused(FIND("RANK=2", "WORLD_SIZE=2"), "WORLD_SIZE is 2");
    refused(FIND("RANK=99999999999999999999", "WORLD_SIZE=2"), "RANK is");
    refused(FIND("RANK=0", "WORLD_SIZE=2"), "MASTER_ADDR");
    refused(FIND("RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=localhost"), "MASTER_PORT");
    refused(FIND("SLURM_PROCID=0", "SLURM_STEP_ID=0"), "SLURM_NTASKS is not");
    refused(FIND("SLURM_PROCID=1", "SLURM_STEP_ID=0", "SLURM_NTASKS=2", "SLURM_NODELIST=a[b"), "SLURM_STEP_NODELIST");
    refused(FIND("OMPI_COMM_WORLD_RANK=0"), "OMPI_COMM_WORLD_SIZE is not");
    refused(FIND("OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=2"),
            "RINGTREE_ROOT=host:port");
    refused(FIND("PMI_RANK=0", "PMI_SIZE=4", "MPI_LOCALNRANKS=2"), "RINGTREE_ROOT=host:port");
}

TEST(torchruns_own_store_keeps_its_port)
{
    CHECK_EQ(FIND("RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29500"), RINGTREE_OK);
    CHECK_EQ(launch.meeting.address[0].port, 29501);
    CHECK_EQ(strcmp(launch.launcher, "torchrun"), 0);
    CHECK_EQ(FIND("RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=::1", "MASTER_PORT=29500", "RINGTREE_PORT=777"), RINGTREE_OK);
    CHECK_EQ(launch.meeting.address[0].port, 777);
    CHECK_EQ(launch.meeting.address[0].family, AF_INET6);
}

TEST(slurms_first_node_is_found_in_its_list)
{
    static const struct { const char *list, *first; } lists[] = {
        { "n1", "n1" }, { "n1,n2", "n1" }, { "node[07-09,12],login", "node07" }, { "r[1-2]n[3,5]-ib", "r1n3-ib" },
        { "a-b.c_d[12]", "a-b.c_d12" }, { "", NULL }, { "[", NULL }, { "a[", NULL }, { "a[x]", NULL }, { "a[1", NULL },
        { "a b", NULL }, { "a[1;rm]", NULL },
    };
    char host[32];

    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
        bool good = rt_slurm_first_host(lists[i].list, host, sizeof(host));
        CHECK_THAT(good == (lists[i].first != NULL) && (!good || strcmp(host, lists[i].first) == 0), "%s gives %s",
                   lists[i].list, good ? host : "nothing");
    }
    CHECK_EQ(rt_slurm_first_host("a-very-long-name-that-does-not-fit-in-there", host, sizeof(host)), false);
    CHECK_EQ(FIND("SLURM_PROCID=1", "SLURM_STEP_ID=0", "SLURM_JOB_ID=7", "SLURM_NTASKS=2", "SLURM_NODELIST=localhost"),
             RINGTREE_OK);
    CHECK(launch.meeting.address[0].port >= 20000 && launch.meeting.address[0].port < 30000);
}

TEST(a_secret_file_must_be_private_and_long_enough)
{
    char path[] = "/tmp/ringtree-secret-XXXXXX", pair[80];
    int fd = mkstemp(path);

    snprintf(pair, sizeof(pair), "RINGTREE_SECRET_FILE=%s", path);
#define ROOTED "RINGTREE_RANK=1", "RINGTREE_SIZE=2", "RINGTREE_ROOT=127.0.0.1:4000"
    CHECK_EQ(write(fd, "short", 5), 5);
    refused(FIND(ROOTED, pair), "less than 16 bytes");
    CHECK_EQ(write(fd, "and now it is long enough", 25), 25);
    CHECK_EQ(FIND(ROOTED, pair), RINGTREE_OK);
    struct rt_meeting with_file = launch.meeting;
    CHECK_EQ(FIND(ROOTED), RINGTREE_OK);
    CHECK(memcmp(with_file.secret, launch.meeting.secret, 16) != 0);
    fchmod(fd, 0640);
    refused(FIND(ROOTED, pair), "chmod 600");
    close(fd);
    unlink(path);
    refused(FIND(ROOTED, pair), "No such file");
}

static void leave(struct rank_case *c)
{
    rt_control_close(c->control, 5000);
}

/* Forks `n` processes with the variables that `describe` sets for each; all must meet. */
static void start_by(void (*describe)(uint32_t rank, uint32_t n, const char **pairs, char text[8][80]), uint32_t n)
{
    pid_t pids[16];

    fflush(NULL);
    for (uint32_t r = 0; r < n; r++) {
        if ((pids[r] = fork()) != 0)
            continue;
        atomic_store(&test_failures, 0);
        const char *pairs[9] = { NULL };
        char text[8][80];
        describe(r, n, pairs, text);
        CHECK_THAT(find(pairs) == RINGTREE_OK, "%s", error.text);
        struct rank_case c = { .meeting = launch.meeting, .settings = settings, .rank = launch.rank,
                               .nranks = launch.nranks, .timeout_ms = 5000 };
        rank_open(&c);
        CHECK_THAT(c.status == RINGTREE_OK, "%s", c.error.text);
        if (!c.status)
            leave(&c);
        _exit(atomic_load(&test_failures) ? 1 : 0);
    }
    rank_reap(pids, n, RT_NONE);
}

static void as_open_mpi(uint32_t rank, uint32_t n, const char **pairs, char text[8][80])
{
    snprintf(text[0], 80, "OMPI_COMM_WORLD_RANK=%u", rank);
    snprintf(text[1], 80, "OMPI_COMM_WORLD_SIZE=%u", n);
    snprintf(text[2], 80, "OMPI_COMM_WORLD_LOCAL_SIZE=%u", n);
    for (int i = 0; i < 3; i++)
        pairs[i] = text[i];
}

static void as_torchrun(uint32_t rank, uint32_t n, const char **pairs, char text[8][80])
{
    snprintf(text[0], 80, "RANK=%u", rank);
    snprintf(text[1], 80, "WORLD_SIZE=%u", n);
    snprintf(text[2], 80, "MASTER_ADDR=localhost");
    snprintf(text[3], 80, "MASTER_PORT=%u", 30000 + (unsigned)getppid() % 2000);
    for (int i = 0; i < 4; i++)
        pairs[i] = text[i];
}

static void as_root(uint32_t rank, uint32_t n, const char **pairs, char text[8][80])
{
    snprintf(text[0], 80, "RINGTREE_RANK=%u", rank);
    snprintf(text[1], 80, "RINGTREE_SIZE=%u", n);
    snprintf(text[2], 80, "RINGTREE_ROOT=[::1]:%u", 28000 + (unsigned)getppid() % 2000);
    for (int i = 0; i < 3; i++)
        pairs[i] = text[i];
}

TEST(processes_started_by_each_launcher_meet)
{
    start_by(as_open_mpi, 4);
    start_by(as_torchrun, 4);
    start_by(as_root, 4);
}

TEST_MAIN
