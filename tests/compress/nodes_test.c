/*
 * Between nodes: the ranks of a node add exactly, nodes exchange codes, all decode the same. Every rank works out what
 * must arrive, from the inputs of all, as if each node were one rank that gives its sum.
 */
#include "api/ranks.h"
#include "codec/two_shot.h"
#include "test.h"

#define BLOCK_ELEMENTS ((size_t)5 * 4096)

struct job {
    const char *hosts; /* of each rank */
    size_t      count; /* of a block */
};

static uint32_t node_of(const char *hosts, uint32_t rank)
{
    uint32_t node = 0;
    for (uint32_t r = 0; r < rank; r++) {
        if (hosts[r] == hosts[rank]) return node_of(hosts, r);
        node += strchr(hosts, hosts[r]) == hosts + r;
    }
    return node;
}

static uint32_t nodes_of(const char *hosts)
{
    uint32_t nodes = 0;
    for (uint32_t r = 0; hosts[r]; r++)
        if (node_of(hosts, r) >= nodes) nodes = node_of(hosts, r) + 1;
    return nodes;
}

static void fill(float *values, size_t count, uint32_t rank)
{
    uint64_t random = rank * 7919 + 1;
    for (size_t i = 0; i < count; i++)
        values[i] = (float)((int64_t)(draw(&random) >> 24) - (INT64_C(1) << 39)) * 1e-12f;
}

/* The nodes' sums, in the order of ranks, then the sum by owner. */
static struct two_shot expected(const char *hosts, enum rt_codec_kind kind, size_t count)
{
    const struct rt_codec codec = { .kind = kind };
    struct two_shot run = new_two_shot(codec, nodes_of(hosts), count, SPARSE, 1);
    float *own = new_floats(count);
    bool begun[RANKS_MOST] = { false };
    for (uint32_t r = 0; hosts[r]; r++) {
        float *sum = run.inputs[node_of(hosts, r)];
        fill(own, count, r);
        for (size_t i = 0; i < count; i++) sum[i] = begun[node_of(hosts, r)] ? sum[i] + own[i] : own[i];
        begun[node_of(hosts, r)] = true;
    }
    free(own);
    CHECK_EQ(run_two_shot(&run), 0);
    return run;
}

/* What a tensor becomes that is encoded once. */
static void once(enum rt_codec_kind kind, float *values, size_t count)
{
    const struct rt_codec codec = { .kind = kind };
    const struct rt_part part = { .count = count };
    uint8_t *bytes = malloc(rt_codec_max_bytes(&codec, count) + 1);
    const size_t length = rt_codec_encode(&codec, &part, values, NULL, bytes, NULL);
    CHECK_EQ(rt_codec_decode(&codec, values, count, bytes, length, NULL), RINGTREE_OK);
    free(bytes);
}

static void check_same(struct rank *self, const char *what, const float *got, const float *expect, size_t count)
{
    const struct job *job = self->argument;
    size_t i = 0;
    while (i < count && memcmp(&got[i], &expect[i], sizeof *got) == 0) i++;
    CHECK_THAT(i == count, "%s on %s, rank %u: element %zu is %g, not %g", what, job->hosts, self->rank, i,
               (double)got[i], (double)expect[i]);
}

static void check_call(struct rank *self, ringtree_status status)
{
    CHECK_THAT(status == RINGTREE_OK, "rank %u: %s", self->rank, ringtree_last_error(self->comm));
}

static void sums(struct rank *self, const ringtree_codec *codec, ringtree_op op)
{
    const struct job *job = self->argument;
    const uint32_t n = self->size, me = self->rank;
    const size_t block = job->count, all = n * block;
    struct two_shot run = expected(job->hosts, (enum rt_codec_kind)codec->kind, all);
    float *in = new_floats(all), *out = new_floats(all);
    for (size_t i = 0; op == RINGTREE_AVG && i < all; i++) {
        run.result[i] /= (float)n;
        run.sum[i] /= (float)n;
    }
    fill(in, all, me);
    check_call(self, ringtree_all_reduce_compressed(self->comm, in, out, all, RINGTREE_FLOAT32, op, codec, NULL, NULL));
    check_same(self, "all_reduce", out, run.result, all);
    memcpy(out, in, all * sizeof *in);
    check_call(self, ringtree_all_reduce_compressed(self->comm, out, out, all, RINGTREE_FLOAT32, op, codec, NULL,
                                                    NULL));
    check_same(self, "all_reduce in place", out, run.result, all);
    if (block % 256 == 0) { /* else blocks are anchored to each rank's part */
        check_call(self, ringtree_reduce_scatter_compressed(self->comm, in, in + me * block, block, RINGTREE_FLOAT32,
                                                            op, codec, NULL, NULL));
        check_same(self, "reduce_scatter in place", in + me * block, run.sum + me * block, block);
    }
    if (block % 256 == 0 && op == RINGTREE_SUM) {
        check_call(self, ringtree_all_gather_compressed(self->comm, in + me * block, in, block, RINGTREE_FLOAT32, codec,
                                                        NULL, NULL));
        check_same(self, "reduce_scatter and all_gather in place", in, run.result, all);
    }
    free(in);
    free(out);
    free_two_shot(&run);
}

static void moves(struct rank *self, const ringtree_codec *codec)
{
    const struct job *job = self->argument;
    const uint32_t n = self->size, me = self->rank;
    const size_t block = job->count, all = n * block;
    float *in = new_floats(all), *out = new_floats(all), *expect = new_floats(all);
    for (uint32_t r = 0; r < n; r++) {
        fill(expect + r * block, block, r);
        once((enum rt_codec_kind)codec->kind, expect + r * block, block);
    }
    fill(in, block, me);
    check_call(self, ringtree_all_gather_compressed(self->comm, in, out, block, RINGTREE_FLOAT32, codec, NULL, NULL));
    check_same(self, "all_gather", out, expect, all);
    for (uint32_t root = 0; root < n; root++) {
        fill(expect, all, root);
        once((enum rt_codec_kind)codec->kind, expect, all);
        if (me == root) fill(out, all, root);
        check_call(self, ringtree_broadcast_compressed(self->comm, out, out, all, RINGTREE_FLOAT32, root, codec, NULL,
                                                       NULL));
        check_same(self, "broadcast", out, expect, all);
    }
    free(in);
    free(out);
    free(expect);
}

static void collectives(struct rank *self)
{
    static const enum rt_codec_kind kinds[] = { RT_CODEC_BF16, RT_CODEC_Q8, RT_CODEC_Q4 };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        ringtree_codec codec = RINGTREE_CODEC_DEFAULT;
        codec.kind = (ringtree_codec_kind)kinds[k];
        sums(self, &codec, RINGTREE_SUM);
        moves(self, &codec);
        if (kinds[k] == RT_CODEC_Q8) sums(self, &codec, RINGTREE_AVG);
    }
}

/* Whatever was measured of this machine's loopback. */
#define SLOW "RINGTREE_LINK_RATE=1G"

TEST(nodes_exchange_codes_of_exact_sums)
{
    static const char *const settings[] = { SLOW, NULL };
    static const char *const hosts[] = { "ab", "abc", "abab", "aaab", "abbc", "aabbcc" };
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        for (int odd = 0; odd < 2; odd++) {
            struct job job = { hosts[i], odd ? 5003 : BLOCK_ELEMENTS };
            const uint32_t n = (uint32_t)strlen(hosts[i]);
            RANKS(collectives, .ranks = n, .processes = n, .hosts = hosts[i], .argument = &job, .settings = settings);
        }
}

/* With a slot that holds one block of topk only, everything is in many pieces and every link is full. */
TEST(small_slots_change_nothing)
{
    static const char *const settings[] = { "RINGTREE_TCP_SLOT_BYTES=20K", "RINGTREE_SHM_SLOT_BYTES=20K",
                                            "RINGTREE_SHM_SLOTS=2", SLOW, NULL };
    struct job job = { "aabab", BLOCK_ELEMENTS };
    RANKS(collectives, .ranks = 5, .processes = 5, .hosts = job.hosts, .argument = &job, .settings = settings);
}

/* Where all share memory nothing is rounded. */
static void exact(struct rank *self)
{
    ringtree_codec codec = RINGTREE_CODEC_DEFAULT;
    float in[5000], plain[5000], out[5000];
    codec.kind = RINGTREE_CODEC_Q8;
    fill(in, 5000, self->rank);
    check_call(self, ringtree_all_reduce(self->comm, in, plain, 5000, RINGTREE_FLOAT32, RINGTREE_SUM, NULL));
    check_call(self, ringtree_all_reduce_compressed(self->comm, in, out, 5000, RINGTREE_FLOAT32, RINGTREE_SUM, &codec,
                                                    NULL, NULL));
    CHECK(memcmp(plain, out, sizeof out) == 0);
}

TEST(ranks_that_share_memory_are_exact)
{
    RANKS(exact, .ranks = 3, .processes = 3);
}

TEST(links_that_are_fast_enough_are_exact)
{
    static const char *const settings[] = { "RINGTREE_LINK_RATE=8G", NULL };
    RANKS(exact, .ranks = 3, .processes = 3, .hosts = "aab", .settings = settings);
}

TEST_MAIN
