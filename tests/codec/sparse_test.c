/* Sparse sums: ranges that give every rank as much, agreed by all; volume that does not grow with the ranks. */
#include "codec/sparse.h"
#include "reduce/reference.h"
#include "two_shot.h"

#define COUNT 1000003
#define RANKS_MAX 64

/* Nine tenths of the large elements in a tenth of the tensor, elsewhere on each rank by a little. */
static void fill_skewed(float *values, uint32_t rank)
{
    const size_t begin = 300000 + rank * 1000;
    uint64_t state = rank;
    for (size_t i = 0; i < COUNT; i++) {
        const float centred = (float)(uniform(&state) - 0.5);
        values[i] = centred * centred * centred;
    }
    for (size_t i = begin; i < begin + COUNT / 10; i++) values[i] *= 20;
}

struct load {
    double most, mean; /* kept elements of all ranks per range */
};

static struct load load_of(float **values, const struct rt_cut *cuts, const uint64_t *bounds, uint32_t nranks)
{
    struct load load = { 0, 0 };
    for (uint32_t range = 0; range < nranks; range++) {
        double kept = 0;
        for (uint32_t r = 0; r < nranks; r++)
            for (uint64_t i = bounds[range]; i < bounds[range + 1]; i++) {
                uint32_t bits;
                memcpy(&bits, &values[r][i], sizeof bits);
                kept += (bits & 0x7fffffff) > cuts[r].magnitude;
            }
        load.most = fmax(load.most, kept);
        load.mean += kept / nranks;
    }
    return load;
}

static float *values[RANKS_MAX];
static struct rt_cut cuts[RANKS_MAX];

static void fill_ranks(uint32_t nranks)
{
    for (uint32_t r = 0; r < nranks; r++) {
        if (!values[r]) values[r] = new_floats(COUNT);
        fill_skewed(values[r], r);
        cuts[r] = rt_topk_select(values[r], 0, COUNT, COUNT / 100, NULL);
    }
}

EVERY_PATH(ranges_hold_as_many_kept_elements_each)
{
    static const uint32_t nranks[] = { 1, 2, 3, 5, 8, 16 };
    for (int k = 0; k < 6; k++) {
        const uint32_t n = nranks[k];
        uint64_t wishes[RANKS_MAX * (RANKS_MAX + 1)], bounds[RANKS_MAX + 1], equal[RANKS_MAX + 1];
        fill_ranks(n);
        for (uint32_t r = 0; r < n; r++) rt_sparse_wish(values[r], COUNT, &cuts[r], NULL, n, wishes + r * (n + 1));
        CHECK_EQ(rt_sparse_bounds(wishes, COUNT, n, bounds, NULL), RINGTREE_OK);
        for (uint32_t i = 0; i <= n; i++) equal[i] = (uint64_t)COUNT * i / n;
        const struct load balanced = load_of(values, cuts, bounds, n), plain = load_of(values, cuts, equal, n);
        CHECK_THAT(balanced.most <= balanced.mean * 1.5 + 200, "%u ranks: %g, mean %g", n, balanced.most,
                   balanced.mean);
        if (n > 3) CHECK_THAT(plain.most > balanced.most * 1.5, "%u ranks: equal ranges %g", n, plain.most);
    }
}

TEST(bounds_are_ranges_whatever_the_inputs)
{
    for (uint32_t n = 1; n <= 9; n++)
        for (int inputs = 0; inputs < INPUTS; inputs++)
            for (size_t count = 0; count < 60000; count = count * 7 + 1) {
                uint64_t wishes[9 * 10], bounds[10];
                for (uint32_t r = 0; r < n; r++) {
                    fill_inputs(values[0], count, (enum inputs)inputs, r, 1);
                    const struct rt_cut cut = rt_topk_select(values[0], 0, count, count / 100 + 1, NULL);
                    rt_sparse_wish(values[0], count, &cut, NULL, n, wishes + r * (n + 1));
                }
                CHECK_EQ(rt_sparse_bounds(wishes, count, n, bounds, NULL), RINGTREE_OK);
                CHECK(bounds[0] == 0 && bounds[n] == count);
                for (uint32_t i = 0; i < n; i++)
                    CHECK(bounds[i] <= bounds[i + 1] && (bounds[i] % RT_TOPK_GROUP == 0 || bounds[i] == count));
            }
}

TEST(a_wish_that_is_none_is_refused_and_its_rank_named)
{
    static const uint64_t wrong[][3] = { { 4096, 4096, 10000 }, { 0, 5000, 10000 }, { 0, 12288, 10000 },
                                         { 0, 4096, 9999 } };
    for (int i = 0; i < 4; i++) {
        struct rt_error error = { 0 };
        uint64_t wishes[6] = { 0, 4096, 10000, wrong[i][0], wrong[i][1], wrong[i][2] }, bounds[3];
        CHECK_EQ(rt_sparse_bounds(wishes, 10000, 2, bounds, &error), RINGTREE_MISMATCH);
        CHECK_HAS(error.text, "rank 1");
    }
}

/* ------------------------------------------------------------------ volume */

struct volume {
    size_t received, result; /* the most bytes that an owner receives; the bytes of all ranges' sums */
};

/* An owner sums its range and sends the sum: all of it, or with `owned` what a selection of its share keeps. */
static struct volume sum_ranges(uint32_t n, const uint64_t *bounds, float *owned)
{
    const struct rt_codec codec = { .kind = RT_CODEC_TOPK, .ratio = 0.01f };
    uint8_t *bytes = malloc(rt_codec_max_bytes(&codec, COUNT));
    float *sum = new_floats(COUNT);
    struct volume volume = { 0, 0 };
    for (uint32_t range = 0; range < n; range++) {
        const size_t begin = (size_t)bounds[range], count = (size_t)bounds[range + 1] - begin;
        size_t received = 0;
        for (uint32_t r = 0; r < n; r++) {
            const struct rt_part part = { .first = begin, .count = count, .rank = r, .cut = cuts[r] };
            const size_t length = rt_codec_encode(&codec, &part, values[r] + begin, NULL, bytes, NULL);
            CHECK_EQ((r ? rt_codec_decode_add : rt_codec_decode)(&codec, sum, count, bytes, length, NULL), RINGTREE_OK);
            received += length;
        }
        struct rt_part part = { .first = begin, .count = count, .rank = RT_OWNER(range) };
        if (owned && count) {
            rt_codec_prepare(sum, owned + begin, count);
            memcpy(sum, owned + begin, count * sizeof *sum);
            part.cut = rt_topk_select(sum, begin, count, COUNT / 100 / n, NULL);
        }
        volume.result += rt_codec_encode(&codec, &part, sum, owned ? owned + begin : NULL, bytes, NULL);
        volume.received = received > volume.received ? received : volume.received;
    }
    free(bytes);
    free(sum);
    return volume;
}

TEST(with_selection_by_the_owner_each_rank_receives_two_arrays_worth_whatever_the_ranks)
{
    static const uint32_t nranks[] = { 2, 4, 8, 16 };
    for (int k = 0; k < 4; k++) {
        const uint32_t n = nranks[k];
        uint64_t wishes[16 * 17], bounds[17];
        float *owned = new_floats(COUNT);
        fill_ranks(n);
        for (uint32_t r = 0; r < n; r++) rt_sparse_wish(values[r], COUNT, &cuts[r], NULL, n, wishes + r * (n + 1));
        CHECK_EQ(rt_sparse_bounds(wishes, COUNT, n, bounds, NULL), RINGTREE_OK);
        const struct volume all = sum_ranges(n, bounds, NULL), selected = sum_ranges(n, bounds, owned);
        const double one = COUNT / 100 * 5.5 + COUNT / 256 + 100; /* bytes of one rank's kept elements */
        CHECK_THAT((double)selected.result <= one, "%u ranks: %zu bytes of sums", n, selected.result);
        CHECK_THAT((double)selected.received <= 1.7 * one, "%u ranks: %zu bytes for one owner", n, selected.received);
        if (n > 4) CHECK_THAT((double)all.result > 2 * one, "%u ranks: %zu bytes without selection", n, all.result);
        free(owned);
    }
}

TEST_MAIN
