/*
 * The error of a sum by owner is within what rt_codec_error_bound() states, whatever the ranks, the blocks, the
 * inputs.
 */
#include "reduce/reference.h"
#include "two_shot.h"

static const uint32_t rank_counts[] = { 1, 2, 3, 4, 5, 7, 8, 13, 16, 64 };
#define RANK_COUNTS (sizeof rank_counts / sizeof *rank_counts)

static const struct rt_codec codecs[] = {
    { .kind = RT_CODEC_NONE },
    { .kind = RT_CODEC_BF16 },
    { .kind = RT_CODEC_FP16, .block = 64 },
    { .kind = RT_CODEC_Q8 },
    { .kind = RT_CODEC_Q8, .block = 32 },
    { .kind = RT_CODEC_Q8, .block = 4096 },
    { .kind = RT_CODEC_Q8, .rounding = RT_ROUND_STOCHASTIC },
    { .kind = RT_CODEC_Q4 },
    { .kind = RT_CODEC_Q4, .block = 32, .rounding = RT_ROUND_STOCHASTIC },
};
#define CODECS (sizeof codecs / sizeof *codecs)

static double share_of(struct rt_codec codec, uint32_t nranks, size_t count, enum inputs inputs,
                       int (*how)(struct two_shot *), void (*damage)(uint8_t *, size_t))
{
    struct two_shot run = new_two_shot(codec, nranks, count, inputs, nranks);
    run.damage = damage;
    CHECK_EQ(how(&run), 0);
    const double share = worst_share(&run);
    free_two_shot(&run);
    return share;
}

EVERY_PATH(two_roundings_stay_within_the_stated_bound)
{
    for (size_t k = 0; k < RANK_COUNTS; k++)
        for (int inputs = 0; inputs < INPUTS; inputs++) {
            const uint32_t n = rank_counts[k];
            struct two_shot run = new_two_shot(codecs[0], n, n == 64 ? 4357 : 2303 + 17 * n, (enum inputs)inputs, n);
            for (size_t c = 0; c < CODECS; c++) {
                run.codec = codecs[c];
                CHECK_EQ(run_two_shot(&run), 0);
                const double share = worst_share(&run);
                CHECK_THAT(share <= 1, "%s, block %u, %u ranks, %s: %g of what is allowed",
                           rt_codec_name(codecs[c].kind), codecs[c].block, n, input_names[inputs], share);
            }
            free_two_shot(&run);
        }
}

TEST(arrays_of_any_length_stay_within_the_bound)
{
    static const size_t counts[] = { 0,   1,   2,   15,  16,  17,  31,  32,   33,  127,
                                     128, 129, 255, 256, 257, 511, 513, 4095, 4097 };
    for (size_t c = 0; c < CODECS; c++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            const double share = share_of(codecs[c], 3, counts[i], GAUSSIAN, run_two_shot, NULL);
            CHECK_THAT(share <= 1, "%s, %zu elements: %g", rt_codec_name(codecs[c].kind), counts[i], share);
        }
}

TEST(the_bound_of_q8_is_what_half_a_code_of_127_is_worth)
{
    const struct rt_codec q8 = { .kind = RT_CODEC_Q8 };
    for (double peak = 1e-30; peak < 1e30; peak *= 1e5) {
        const double bound = rt_codec_error_bound(&q8, peak);
        CHECK_THAT(bound >= peak / 254 && bound < peak / 253.99, "%g: %g", peak, bound);
    }
}

/* n ranks' roundings and the owner's, each half a code: 2 n max / 254, so 0.79 % of n max, whatever n is. */
TEST(the_error_of_q8_as_a_share_of_n_times_the_largest_does_not_grow_with_n)
{
    for (size_t k = 0; k < RANK_COUNTS; k++) {
        const uint32_t n = rank_counts[k];
        struct two_shot run = new_two_shot((struct rt_codec){ .kind = RT_CODEC_Q8 }, n, 4099, CORRELATED, 3);
        double most = 0, error = 0;
        CHECK_EQ(run_two_shot(&run), 0);
        for (size_t i = 0; i < run.count; i++) {
            double exact = 0;
            for (uint32_t r = 0; r < n; r++) {
                exact += (double)run.inputs[r][i];
                most = fmax(most, fabs((double)run.inputs[r][i]));
            }
            error = fmax(error, fabs((double)run.result[i] - exact));
        }
        CHECK_THAT(error <= 0.0079 * n * most, "%u ranks: %g of %g", n, error, n * most);
        free_two_shot(&run);
    }
}

TEST(a_ring_that_quantises_at_every_hop_breaks_the_bound_so_the_bound_says_something)
{
    const struct rt_codec q8 = { .kind = RT_CODEC_Q8 };
    CHECK(share_of(q8, 64, 20000, CORRELATED, run_two_shot, NULL) <= 1);
    CHECK(share_of(q8, 64, 20000, CORRELATED, run_requantising_ring, NULL) > 1);
}

/* ------------------------------------------------------------------ wrong in one place */

static void one_code_more(uint8_t *bytes, size_t length)
{
    const size_t at = length - 200;
    bytes[at] = (uint8_t)((int8_t)bytes[at] > 0 ? bytes[at] - 2 : bytes[at] + 2);
}

static void scale_two_percent_more(uint8_t *bytes, size_t length)
{
    float scale;
    (void)length;
    memcpy(&scale, bytes, sizeof scale);
    scale *= 1.02f;
    memcpy(bytes, &scale, sizeof scale);
}

static void two_scales_swapped(uint8_t *bytes, size_t length)
{
    float scales[2];
    (void)length;
    memcpy(scales, bytes, sizeof scales);
    memcpy(bytes, &scales[1], sizeof *scales);
    memcpy(bytes + sizeof *scales, &scales[0], sizeof *scales);
}

TEST(damaged_codes_and_scales_are_seen_by_the_bound)
{
    static void (*const damages[])(uint8_t *, size_t) = { one_code_more, scale_two_percent_more, two_scales_swapped };
    const struct rt_codec q8 = { .kind = RT_CODEC_Q8 };
    CHECK(share_of(q8, 1, 4096, STUDENT, run_two_shot, NULL) <= 1);
    for (size_t i = 0; i < 3; i++) {
        const double share = share_of(q8, 1, 4096, STUDENT, run_two_shot, damages[i]);
        CHECK_THAT(share > 1, "damage %zu: %g", i, share);
    }
}

/* ------------------------------------------------------------------ slices */

EVERY_PATH(results_do_not_depend_on_how_the_tensor_is_cut)
{
    static const uint32_t slices[] = { 1, 2, 3, 5, 40 };
    for (size_t c = 0; c < CODECS; c++) {
        struct two_shot run = new_two_shot(codecs[c], 3, 23456, STUDENT, 5);
        float *first = new_floats(run.count);
        for (size_t s = 0; s < 5; s++) {
            run.slices = slices[s];
            CHECK_EQ(run_two_shot(&run), 0);
            if (!s) memcpy(first, run.result, run.count * sizeof *first);
            CHECK_THAT(!memcmp(first, run.result, run.count * sizeof *first), "%s in %u slices",
                       rt_codec_name(codecs[c].kind), slices[s]);
        }
        free(first);
        free_two_shot(&run);
    }
}

TEST(stochastic_rounding_depends_on_step_rank_and_block_and_nothing_else)
{
    const struct rt_codec codec = { .kind = RT_CODEC_Q8, .rounding = RT_ROUND_STOCHASTIC };
    const struct rt_part parts[] = { { 0, 512, 9, 1, { 0 } }, { 0, 512, 9, 1, { 0 } }, { 0, 512, 9, 2, { 0 } },
                                     { 0, 512, 10, 1, { 0 } }, { 256, 512, 9, 1, { 0 } } };
    uint8_t bytes[5][4096];
    float values[512];
    fill_inputs(values, 512, GAUSSIAN, 0, 1);
    for (int i = 0; i < 5; i++) rt_codec_encode(&codec, &parts[i], values, NULL, bytes[i], NULL);
    CHECK(!memcmp(bytes[0], bytes[1], 520));
    for (int i = 2; i < 5; i++) CHECK_THAT(memcmp(bytes[0], bytes[i], 520), "part %d", i);
}

TEST(equal_elements_of_a_block_are_rounded_apart)
{
    for (enum rt_codec_kind kind = RT_CODEC_Q8; kind <= RT_CODEC_Q4; kind++) {
        const struct rt_codec codec = { .kind = kind, .rounding = RT_ROUND_STOCHASTIC };
        const struct rt_part part = { .count = 256 };
        float values[256], decoded[256];
        uint8_t bytes[2048];
        for (int i = 0; i < 256; i++) values[i] = i ? 3.5f : kind == RT_CODEC_Q8 ? 127 : 7;
        const size_t length = rt_codec_encode(&codec, &part, values, NULL, bytes, NULL);
        CHECK_EQ(rt_codec_decode(&codec, decoded, 256, bytes, length, NULL), RINGTREE_OK);
        int alike = 0;
        for (int i = 1; i < 128; i++) alike += decoded[i] == decoded[i + 128];
        CHECK_THAT(alike > 30 && alike < 97, "%s: %d of 127 pairs", rt_codec_name(kind), alike);
    }
}

/* The mean of many roundings is the value: 4 standard deviations of the mean are allowed. */
EVERY_PATH(stochastic_rounding_is_unbiased)
{
    for (enum rt_codec_kind kind = RT_CODEC_Q8; kind <= RT_CODEC_Q4; kind++) {
        const struct rt_codec codec = { .kind = kind, .rounding = RT_ROUND_STOCHASTIC };
        float values[256], decoded[256];
        double mean[256] = { 0 };
        uint8_t bytes[4096];
        const int rounds = 4096;
        fill_inputs(values, 256, GAUSSIAN, 0, 7);
        for (int s = 0; s < rounds; s++) {
            const struct rt_part part = { .count = 256, .step = (uint64_t)s };
            const size_t length = rt_codec_encode(&codec, &part, values, NULL, bytes, NULL);
            CHECK_EQ(rt_codec_decode(&codec, decoded, 256, bytes, length, NULL), RINGTREE_OK);
            for (int i = 0; i < 256; i++) mean[i] += (double)decoded[i] / rounds;
        }
        double peak = 0;
        for (int i = 0; i < 256; i++) peak = fmax(peak, fabs((double)values[i]));
        const double allowed = 4.5 * 0.5 * rt_codec_error_bound(&codec, peak) / sqrt(rounds);
        for (int i = 0; i < 256; i++)
            CHECK_THAT(fabs(mean[i] - (double)values[i]) < allowed, "%s, element %d: %g, not %g",
                       rt_codec_name(kind), i, mean[i], (double)values[i]);
    }
}

TEST_MAIN
