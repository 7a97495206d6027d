/* Tables and measurements of links: what is believed, what is not, and that all ranks plan by the same. */
#include "cache.h"
#include "ranks.h"
#include <sys/stat.h>
#include <unistd.h>

#define IS(call, wanted) CHECK_EQ(call, wanted)

static void write_text(const char *path, const char *text)
{
    FILE *out = fopen(path, "w");
    CHECK(out && fputs(text, out) >= 0);
    if (out) fclose(out);
    chmod(path, 0600);
}

static void read_text(const char *path, char text[MOST])
{
    FILE *in = fopen(path, "r");
    text[in ? fread(text, 1, MOST - 1, in) : 0] = '\0';
    if (in) fclose(in);
}

static void explain(struct rank *self)
{
    char text[MOST];
    IS(ringtree_plan_explain(self->comm, RINGTREE_ALL_REDUCE, 1000, RINGTREE_FLOAT32, RINGTREE_SUM, text, sizeof text),
       RINGTREE_OK);
    const char *line = strstr(text, "slowest link");
    if (line) snprintf(self->shared->text + 1024 * self->rank, 1024, "%.*s", (int)strcspn(line, "\n"), line);
    ranks_meet(self);
    CHECK_EQ(strcmp(self->shared->text, self->shared->text + 1024 * self->rank), 0);
    CHECK_HAS(self->shared->text, self->argument ? (const char *)self->argument : "slowest link");
}

static void start(const char *how, const char *expected)
{
    char calibrate[64];
    snprintf(calibrate, sizeof calibrate, "RINGTREE_CALIBRATE=%s", how);
    const char *const settings[] = { cache_setting, calibrate, NULL };
    RANKS(explain, .ranks = 3, .processes = 3, .transports = "tcp", .settings = settings,
          .argument = (void *)(uintptr_t)expected);
}

/* Replaces a kept measurement by one that can be recognised: a link of 1 ms and 1 MB/s. */
static void spoil(char path[MOST], const char *link_line)
{
    char text[MOST], changed[2 * MOST];
    read_text(path, text);
    char *line = strstr(text, "link ");
    CHECK(line != NULL);
    if (!line) return;
    *line = '\0';
    snprintf(changed, sizeof changed, "%s%send\n", text, link_line);
    write_text(path, changed);
}

/* Nothing is kept while the two ranks share a core, so several times. */
static bool measure(char path[MOST])
{
    for (int i = 0; i < 30 && !find_file(path); i++) start("", NULL);
    return find_file(path);
}

TEST(a_measurement_is_kept_and_used_at_the_next_start)
{
    char path[MOST];
    make_directory();
    if (!measure(path)) SKIP("the ranks shared a core all the time, so nothing was measured");
    spoil(path, "link loopback 211200000000 7616000\n"); /* 64 times the built-in reference */
    start("cached", "256.00 us");
    start("", "256.00 us");
    start("off", "4.00 us");
}

TEST(a_measurement_that_was_tampered_with_is_not_believed)
{
    static const char *const lines[] = {
        "link loopback 185600000000\n", "link loopback 0 6912000\n", "link loopback 99999999999999999999999 1\n",
        "link elsewhere 1 1\n", "link loopback 1 1\nlink loopback 1 1\n", "link loopback -1 1\n", "surprise\n",
    };
    char path[MOST], text[MOST];
    make_directory();
    if (!measure(path)) SKIP("the ranks shared a core all the time, so nothing was measured");
    read_text(path, text);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        write_text(path, text);
        spoil(path, lines[i]);
        start("cached", "4.00 us");
    }
    write_text(path, text);
    spoil(path, "link loopback 211200000000 7616000\n");
    CHECK_EQ(chmod(path, 0622), 0);
    start("cached", "4.00 us");
    CHECK_EQ(chmod(path, 0600), 0);
    start("cached", "256.00 us");
    CHECK_EQ(unlink(path), 0);
    CHECK_EQ(symlink("/etc/passwd", path), 0);
    start("cached", "4.00 us");
}

TEST(a_cache_that_cannot_be_written_does_no_harm)
{
    make_directory();
    snprintf(cache_setting, sizeof cache_setting, "RINGTREE_CACHE_DIR=/proc/nowhere");
    start("", NULL);
}

/* ---- tables */

struct tables {
    const char *text[2];
    ringtree_status wanted;
    const char *words;
};

/* Rank r loads text[r]. */
static void load(struct rank *self)
{
    const struct tables *tables = self->argument;
    ringtree_comm *comm = NULL;
    char path[80];
    snprintf(path, sizeof path, "%s/table-%u", directory, self->rank);
    if (tables->text[self->rank]) write_text(path, tables->text[self->rank]);
    setenv("RINGTREE_TUNE_FILE", path, 1);
    if (self->rank == 0) IS(ringtree_id_create(&self->shared->id), RINGTREE_OK);
    ranks_meet(self);
    IS(ringtree_init_id(&comm, &self->shared->id, self->size, self->rank, NULL), tables->wanted);
    if (tables->words) CHECK_HAS(ringtree_last_error(NULL), tables->words);
    ringtree_destroy(comm);
    ranks_meet(self);
}

static void check_tables(struct tables tables)
{
    make_directory();
    RANKS(load, .ranks = 2, .processes = 2, .bare = true, .argument = &tables);
}

TEST(tables_must_be_whole_and_equal_on_all_ranks)
{
    static const char good[] = "ringtree costs 1\nadd 60000\nend\n", other[] = "ringtree costs 1\nadd 60001\nend\n";
    check_tables((struct tables){ { good, good }, RINGTREE_OK, NULL });
    check_tables((struct tables){ { good, other }, RINGTREE_MISMATCH, "RINGTREE_TUNE_FILE" });
    check_tables((struct tables){ { good, "ringtree costs 1\nadd x\nend\n" }, RINGTREE_INVALID_SETTING, "line 2" });
    check_tables((struct tables){ { good, NULL }, RINGTREE_INVALID_SETTING, "rank 1" });
    check_tables((struct tables){ { good, "x" }, RINGTREE_INVALID_SETTING, "ringtree-tune -o FILE writes one" });
}

/* ---- plans are reviewed while the program runs */

static void review(struct rank *self)
{
    float in[1000], out[1000];
    for (int i = 0; i < 1000; i++) in[i] = (float)self->rank + 1;
    CHECK_EQ(strcmp(rank_chosen_way(self), "ring"), 0);
    for (int i = 0; i < 100; i++) {
        ringtree_request *request = NULL;
        const bool started = i % 10 == 9; /* some calls are started and waited for, and cross the reviews too */
        IS(ringtree_all_reduce(self->comm, in, out, 1000, RINGTREE_FLOAT32, RINGTREE_SUM, started ? &request : NULL),
           RINGTREE_OK);
        if (started) IS(ringtree_wait(&request), RINGTREE_OK);
        CHECK(out[0] == 6 && out[999] == 6);
    }
    const char *name = rank_chosen_way(self);
    snprintf(self->shared->text + 1024 * self->rank, 1024, "%s", name);
    ranks_meet(self);
    CHECK_EQ(strcmp(self->shared->text, name), 0);
    CHECK_EQ(strcmp(name, "ring") != 0, self->argument != NULL);
}

TEST(a_prediction_that_is_far_off_is_corrected_on_all_ranks_when_a_review_is_asked_for)
{
    char file[128], text[MOST];
    make_directory();
    snprintf(file, sizeof file, "RINGTREE_TUNE_FILE=%s/table", directory);
    size_t used = (size_t)snprintf(text, sizeof text, "ringtree costs 1\n");
    for (int n = 2; n <= 8; n *= 2) /* it claims that a ring takes a hundredth of its time */
        used += (size_t)snprintf(text + used, sizeof text - used, "correction tcp all_reduce ring %d 10 10 10 10 10 10 "
                                                                  "10 10 10\n", n);
    snprintf(text + used, sizeof text - used, "end\n");
    write_text(file + strlen("RINGTREE_TUNE_FILE="), text);
    const char *const with[] = { file, "RINGTREE_REVIEW_EVERY=20", NULL }, *const without[] = { file, NULL };
    RANKS(review, .ranks = 3, .processes = 3, .transports = "tcp", .settings = with, .argument = file);
    RANKS(review, .ranks = 3, .processes = 3, .transports = "tcp", .settings = without);
}

TEST_MAIN
