/*
 * Top-K between nodes: 2 nodes of 2, 3 and 1, 4 of 1, and others. What must arrive is worked out from the inputs of
 * all, as docs/compression.md says it: nodes with one rank each select from all of their values; else each
 * leader selects within each range that it leads.
 */
#include "api/ranks.h"
#include "codec/two_shot.h"
#include "test.h"
#include <string.h>

#define UNIT 4096

enum shape { EVEN, LUMPS, SHAPES }; /* LUMPS: a quarter of the blocks is a thousand times as large */

struct job {
    const char *hosts;
    size_t      count;
    float       ratio;
    enum shape  shape;
    uint32_t    flags;
};

static const char *const layouts[] = { "aabb", "aaab", "abcd", "abab", "aabbb", "abbc" };
#define LAYOUTS (sizeof layouts / sizeof *layouts)

/* The links between these nodes are this machine's own. */
static const char *const slow[] = { "RINGTREE_LINK_RATE=1G", NULL };

static void fill(const struct job *job, float *values, uint32_t rank)
{
    uint64_t random = rank * 7919 + 1;
    for (size_t i = 0; i < job->count; i++) {
        const float centred = (float)(int32_t)draw(&random) * 0x1p-31f;
        values[i] = centred * centred * centred;
        if (job->shape == LUMPS && i / 256 % 4 == 1) values[i] *= 1000;
    }
}

/* ---- nodes are numbered by their first rank */

static uint32_t node_of(const char *hosts, uint32_t rank)
{
    uint32_t node = 0;
    for (const char *h = hosts; *h != hosts[rank]; h++) node += strchr(hosts, *h) == h;
    return node;
}

static uint32_t nodes_of(const char *hosts)
{
    uint32_t nodes = 0;
    for (const char *h = hosts; *h; h++) nodes += strchr(hosts, *h) == h;
    return nodes;
}

static uint32_t ranks_in(const char *hosts, uint32_t node)
{
    uint32_t ranks = 0;
    for (uint32_t r = 0; hosts[r]; r++) ranks += node_of(hosts, r) == node;
    return ranks;
}

/* ---- what must arrive */

static float **node_sums(const struct job *job)
{
    float **sums = calloc(nodes_of(job->hosts), sizeof *sums), *own = new_floats(job->count);
    for (uint32_t r = 0; job->hosts[r]; r++) {
        float **sum = &sums[node_of(job->hosts, r)];
        fill(job, own, r);
        if (!*sum) *sum = memcpy(new_floats(job->count), own, job->count * sizeof *own);
        else for (size_t i = 0; i < job->count; i++) (*sum)[i] += own[i];
    }
    free(own);
    return sums;
}

static void expect_range(const struct job *job, float **sums, size_t begin, size_t end, float *result)
{
    const struct rt_codec codec = { .kind = RT_CODEC_TOPK, .ratio = job->ratio };
    const uint32_t nodes = nodes_of(job->hosts);
    const size_t count = end - begin;
    if (!count) return;
    struct two_shot run = new_two_shot(codec, nodes, count, GAUSSIAN, 1);
    run.slices = 1;
    run.cuts = calloc(nodes, sizeof *run.cuts);
    for (uint32_t g = 0; g < nodes; g++) {
        memcpy(run.inputs[g], sums[g] + begin, count * sizeof(float));
        run.cuts[g] = rt_topk_select(run.inputs[g], 0, count, rt_topk_kept(&codec, count), NULL);
    }
    CHECK_EQ(run_two_shot(&run), 0);
    memcpy(result + begin, run.result, count * sizeof(float));
    free_two_shot(&run);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Equal parts for nodes and, within them, for ranks; in whole units. */
static float *expected(const struct job *job)
{
    const uint32_t nodes = nodes_of(job->hosts);
    const size_t units = (job->count + UNIT - 1) / UNIT;
    float **sums = node_sums(job), *result = new_floats(job->count);
    if (nodes == strlen(job->hosts)) expect_range(job, sums, 0, job->count, result);
    else for (uint32_t g = 0; g < nodes; g++) {
        const size_t first = units * g / nodes, all = units * (g + 1) / nodes - first, ranks = ranks_in(job->hosts, g);
        for (size_t i = 0; i < ranks; i++)
            expect_range(job, sums, least((first + all * i / ranks) * UNIT, job->count),
                         least((first + all * (i + 1) / ranks) * UNIT, job->count), result);
    }
    for (uint32_t g = 0; g < nodes; g++) free(sums[g]);
    free(sums);
    return result;
}

/* ---- the calls */

static ringtree_codec codec_of(const struct job *job)
{
    ringtree_codec codec = RINGTREE_CODEC_DEFAULT;
    codec.kind = RINGTREE_CODEC_TOPK;
    codec.ratio = job->ratio;
    codec.flags = job->flags;
    return codec;
}

static ringtree_codec_report reduce(struct rank *self, const float *in, float *out, ringtree_codec_state *state)
{
    const struct job *job = self->argument;
    const ringtree_codec codec = codec_of(job);
    ringtree_codec_report report = { .size = sizeof report };
    CHECK_THAT(ringtree_all_reduce_compressed(self->comm, in, out, job->count, RINGTREE_FLOAT32, RINGTREE_SUM, &codec,
                                              state, NULL) == RINGTREE_OK, "%s", ringtree_last_error(self->comm));
    CHECK_EQ(ringtree_codec_state_report(state, &report), RINGTREE_OK);
    return report;
}

static void check_same(struct rank *self, const float *out, size_t count)
{
    float *first = new_floats(count);
    memcpy(first, out, count * sizeof *out);
    CHECK_EQ(ringtree_broadcast(self->comm, first, first, count, RINGTREE_FLOAT32, 0, NULL), RINGTREE_OK);
    CHECK(memcmp(first, out, count * sizeof *out) == 0);
    free(first);
}

/* Rank 0 works it out, the others have what it has. */
static void check_result(struct rank *self, const struct job *job, const float *out)
{
    check_same(self, out, job->count);
    if (self->rank) return;
    float *expect = expected(job);
    size_t at = 0;
    while (at < job->count && !memcmp(&out[at], &expect[at], sizeof *out)) at++;
    CHECK_THAT(at == job->count, "%s, %zu: element %zu is %g, not %g", job->hosts, job->count, at, (double)out[at],
               (double)expect[at]);
    free(expect);
}

static double total(struct rank *self, double mine)
{
    double all;
    CHECK_EQ(ringtree_all_reduce(self->comm, &mine, &all, 1, RINGTREE_FLOAT64, RINGTREE_SUM, NULL), RINGTREE_OK);
    return all;
}

static void run_layouts(void (*body)(struct rank *), struct job job)
{
    for (size_t i = 0; i < LAYOUTS; i++) {
        const uint32_t n = (uint32_t)strlen(job.hosts = layouts[i]);
        RANKS(body, .ranks = n, .processes = n, .hosts = job.hosts, .argument = &job, .settings = slow);
    }
}

static void exact_bits(struct rank *self)
{
    struct job job = *(const struct job *)self->argument;
    static const size_t counts[] = { 5, 1027, 12 * UNIT, 30011 };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        job.count = counts[i];
        self->argument = &job;
        ringtree_codec codec = codec_of(&job);
        ringtree_codec_state *state;
        CHECK_EQ(ringtree_codec_state_create(&state, job.count, &codec), RINGTREE_OK);
        float *in = new_floats(job.count), *out = new_floats(job.count);
        fill(&job, in, self->rank);
        const ringtree_codec_report report = reduce(self, in, out, state);
        check_result(self, &job, out);
        if (job.shape == LUMPS && job.count > UNIT) { /* its blocks are shorter dense */
            const double wanted = job.ratio * (double)job.count * nodes_of(job.hosts);
            CHECK_THAT(total(self, (double)report.kept) < wanted / 2, "as values and places: %g",
                       total(self, (double)report.kept));
        }
        ringtree_codec_state_free(state);
        free(in);
        free(out);
    }
}

TEST(sums_are_those_of_what_nodes_select_to_the_bit)
{
    run_layouts(exact_bits, (struct job){ .ratio = 0.01f, .flags = RINGTREE_CODEC_SMALL });
    run_layouts(exact_bits, (struct job){ .ratio = 0.2f, .flags = RINGTREE_CODEC_SMALL });
}

TEST(blocks_turn_dense_between_nodes_too)
{
    run_layouts(exact_bits, (struct job){ .ratio = 0.25f, .shape = LUMPS, .flags = RINGTREE_CODEC_SMALL });
}

/* ---- what owners leave out */

struct outcome {
    double sent, nonzero; /* bytes of all ranks in the last call, elements of the result */
};

/* What went in is in the results and the residuals, and all ranks have the same result. */
static struct outcome keep_books(struct rank *self, uint32_t more)
{
    struct job job = *(const struct job *)self->argument;
    job.flags |= more;
    self->argument = &job;
    const ringtree_codec codec = codec_of(&job);
    float *in = new_floats(job.count), *out = new_floats(job.count);
    double *gave = calloc(2 * job.count, sizeof *gave), *all = calloc(2 * job.count, sizeof *all), before = 0;
    struct outcome outcome = { 0, 0 };
    ringtree_codec_state *state;
    CHECK_EQ(ringtree_codec_state_create(&state, job.count, &codec), RINGTREE_OK);
    for (int step = 0; step < 3; step++) {
        fill(&job, in, self->rank + (uint32_t)step * 16);
        const double sent = (double)reduce(self, in, out, state).sent_bytes;
        outcome.sent = sent - before;
        before = sent;
        check_same(self, out, job.count);
        for (size_t i = 0; i < job.count; i++) {
            gave[i] += (double)in[i] - (self->rank ? 0 : (double)out[i]);
            gave[job.count + i] += fabs((double)in[i]);
        }
    }
    for (size_t i = 0; i < job.count; i++) outcome.nonzero += out[i] != 0;
    char *saved = malloc(ringtree_codec_state_bytes(state));
    CHECK_EQ(ringtree_codec_state_save(state, saved, ringtree_codec_state_bytes(state)), RINGTREE_OK);
    memcpy(in, saved + 48, job.count * sizeof *in); /* the residual */
    for (size_t i = 0; i < job.count; i++) gave[i] -= (double)in[i];
    CHECK_EQ(ringtree_all_reduce(self->comm, gave, all, 2 * job.count, RINGTREE_FLOAT64, RINGTREE_SUM, NULL),
             RINGTREE_OK);
    double worst = 0;
    for (size_t i = 0; i < job.count; i++) worst = fmax(worst, fabs(all[i]) / (all[job.count + i] * 0x1p-20));
    CHECK_THAT(worst < 1, "%s, %zu: lost %g times what float32 rounds", job.hosts, job.count, worst);
    outcome.sent = total(self, outcome.sent);
    ringtree_codec_state_free(state);
    free(saved);
    free(in);
    free(out);
    free(gave);
    free(all);
    self->argument = NULL;
    return outcome;
}

/* The largest of each piece's sum go out: pieces end with a slot and with a range. */
static void reselect(struct rank *self)
{
    struct job *job = self->argument;
    const struct outcome all = keep_books(self, 0);
    self->argument = job;
    const struct outcome selected = keep_books(self, RINGTREE_CODEC_RESELECT);
    const double most = job->ratio * (double)job->count + 40;
    CHECK_THAT(selected.nonzero <= most && all.nonzero > most, "%s, %zu: %g of at most %g elements, else %g",
               job->hosts, job->count, selected.nonzero, most, all.nonzero);
    CHECK_THAT(selected.sent < all.sent, "%s: %g bytes, else %g", job->hosts, selected.sent, all.sent);
}

TEST(owners_that_select_again_send_no_more_than_the_ratio_and_lose_nothing)
{
    static const size_t counts[] = { 30011, 12 * UNIT };
    for (int i = 0; i < 2; i++)
        run_layouts(reselect, (struct job){ .count = counts[i], .ratio = 0.01f, .flags = RINGTREE_CODEC_FEEDBACK });
}

TEST_MAIN
