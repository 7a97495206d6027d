/*
 * Values that go wrong first: NaN, infinity, subnormals, zeros, the largest float; and the same bits from every
 * path.
 */
#include "reduce/reference.h"
#include "two_shot.h"

static const struct rt_codec codecs[] = {
    { .kind = RT_CODEC_NONE },
    { .kind = RT_CODEC_BF16 },
    { .kind = RT_CODEC_FP16 },
    { .kind = RT_CODEC_Q8 },
    { .kind = RT_CODEC_Q8, .block = 32, .rounding = RT_ROUND_STOCHASTIC },
    { .kind = RT_CODEC_Q8, .block = 4096 },
    { .kind = RT_CODEC_Q4 },
    { .kind = RT_CODEC_Q4, .block = 64, .rounding = RT_ROUND_STOCHASTIC },
    { .kind = RT_CODEC_TOPK, .ratio = 0.01f },
    { .kind = RT_CODEC_TOPK, .ratio = 0.1f, .values = RT_VALUES_INT8 },
};
#define CODECS (sizeof codecs / sizeof *codecs)
#define COUNT 10007

struct coded {
    uint8_t bytes[COUNT * 4 + 4096];
    size_t  length;
    float   decoded[COUNT], residual[COUNT];
    struct rt_codec_report report;
};

/* As a sender does it: the cut of the whole, one part. */
static void code(struct coded *coded, const struct rt_codec *codec, const float *values, size_t count)
{
    struct rt_part part = { .count = count, .step = 3, .rank = 1 };
    struct rt_error error = { 0 };
    if (codec->kind == RT_CODEC_TOPK) part.cut = rt_topk_select(values, 0, count, rt_topk_kept(codec, count), NULL);
    memset(coded, 0, sizeof *coded);
    coded->length = rt_codec_encode(codec, &part, values, coded->residual, coded->bytes, &coded->report);
    CHECK(coded->length <= rt_codec_max_bytes(codec, count));
    const ringtree_status status = rt_codec_decode(codec, coded->decoded, count, coded->bytes, coded->length, &error);
    CHECK_THAT(!status, "%s", error.text);
}

static float of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float values[COUNT];
static struct coded coded, other;

TEST(nan_and_infinity_arrive_where_they_were_and_nowhere_else)
{
    for (size_t c = 0; c < CODECS; c++) {
        fill_inputs(values, COUNT, STUDENT, 0, 1);
        values[0] = NAN, values[300] = INFINITY, values[301] = -INFINITY, values[5000] = of_bits(0x7fc12345);
        values[COUNT - 1] = -NAN;
        code(&coded, &codecs[c], values, COUNT);
        uint32_t wrong = 0;
        for (size_t i = 0; i < COUNT; i++) {
            if (isfinite(values[i])) wrong += !isfinite(coded.decoded[i]);
            else wrong += isnan(values[i]) ? !isnan(coded.decoded[i]) : coded.decoded[i] != values[i];
        }
        CHECK_THAT(!wrong, "%s: %u elements", rt_codec_name(codecs[c].kind), wrong);
    }
}

TEST(blocks_with_nan_or_infinity_are_counted_and_leave_no_residual)
{
    for (size_t c = 1; c < CODECS; c++) {
        const size_t block = codecs[c].block ? codecs[c].block : RT_BLOCK;
        fill_inputs(values, COUNT, GAUSSIAN, 0, 1);
        values[5] = NAN, values[6] = NAN, values[COUNT - 1] = INFINITY;
        code(&coded, &codecs[c], values, COUNT);
        CHECK_EQ(coded.report.nonfinite_blocks, 2);
        uint32_t left = 0;
        for (size_t i = 0; i < block; i++) left += coded.residual[i] != 0;
        for (size_t i = (COUNT - 1) / block * block; i < COUNT; i++) left += coded.residual[i] != 0;
        CHECK_THAT(!left, "%s: %u residuals", rt_codec_name(codecs[c].kind), left);
        CHECK(coded.decoded[7] == values[7]); /* raw */
        for (size_t i = 0; i < COUNT; i++) left += !isfinite(coded.residual[i]);
        CHECK_EQ(left, 0);
    }
}

TEST(a_sum_has_nan_and_infinity_where_the_exact_sum_has_them)
{
    for (size_t c = 1; c < 8; c++) {
        struct two_shot run = new_two_shot(codecs[c], 3, COUNT, GAUSSIAN, 3);
        run.inputs[0][7] = INFINITY, run.inputs[1][7] = -INFINITY; /* a NaN is born */
        run.inputs[2][900] = INFINITY, run.inputs[1][COUNT - 1] = NAN;
        run.inputs[0][2000] = run.inputs[1][2000] = FLT_MAX; /* an infinity is born */
        CHECK_EQ(run_two_shot(&run), 0);
        uint32_t wrong = 0;
        for (size_t i = 0; i < COUNT; i++) {
            const float exact = run.inputs[0][i] + run.inputs[1][i] + run.inputs[2][i];
            wrong += isnan(exact) != isnan(run.result[i]) || isinf(exact) != isinf(run.result[i]);
        }
        CHECK_THAT(!wrong, "%s: %u elements", rt_codec_name(codecs[c].kind), wrong);
        free_two_shot(&run);
    }
}

/* Each in a block of its own kind, so that the largest of the block is what it says. */
static void check_block_of(float value, const char *what)
{
    for (size_t c = 0; c < 8; c++) {
        for (size_t i = 0; i < COUNT; i++) values[i] = i % 3 ? value : -value;
        code(&coded, &codecs[c], values, COUNT);
        const double allowed = rt_codec_error_bound(&codecs[c], fabs((double)value));
        uint32_t wrong = 0;
        for (size_t i = 0; i < COUNT; i++)
            wrong += !(fabs((double)coded.decoded[i] - (double)values[i]) <= allowed);
        CHECK_THAT(!wrong, "%s of %s: %u elements, %g became %g", rt_codec_name(codecs[c].kind), what, wrong,
                   (double)values[0], (double)coded.decoded[0]);
        CHECK_EQ(coded.report.nonfinite_blocks, 0);
    }
}

EVERY_PATH(zeros_subnormals_and_the_largest_floats_stay_within_the_bound)
{
    check_block_of(0, "zeros");
    check_block_of(FLT_TRUE_MIN, "the least subnormal");
    check_block_of(FLT_MIN / 3, "a subnormal");
    check_block_of(FLT_MIN, "the least normal");
    check_block_of(FLT_MIN * 100, "small normals");
    check_block_of(65504, "the largest float16");
    check_block_of(65520, "the first that is no float16");
    check_block_of(of_bits(0x7f7f7fff), "the largest that rounds to a bfloat16");
    check_block_of(of_bits(0x7f7f8000), "the first that does not");
    check_block_of(FLT_MAX, "the largest float");
}

TEST(a_block_of_zeros_of_either_sign_decodes_to_zeros)
{
    for (size_t c = 0; c < CODECS; c++) {
        for (size_t i = 0; i < COUNT; i++) values[i] = i % 2 ? -0.0f : 0.0f;
        code(&coded, &codecs[c], values, COUNT);
        uint32_t wrong = 0;
        for (size_t i = 0; i < COUNT; i++) wrong += coded.decoded[i] != 0 || coded.residual[i] != 0;
        CHECK_THAT(!wrong, "%s: %u elements", rt_codec_name(codecs[c].kind), wrong);
    }
}

/* Random bit patterns: all exponents at once, NaN among them. */
static void fill_bits(uint64_t seed, bool finite)
{
    for (size_t i = 0; i < COUNT; i++) {
        uint32_t bits = (uint32_t)draw(&seed);
        if (finite && (bits & 0x7f800000) == 0x7f800000) bits ^= 0x20000000;
        memcpy(&values[i], &bits, sizeof bits);
    }
}

static bool same_from_every_path(const struct rt_codec *codec)
{
    bool same = true;
    rt_reduce_use("scalar");
    code(&coded, codec, values, COUNT);
    for (int p = 1; p < 3; p++) {
        if (!rt_reduce_use(path_names[p])) continue;
        code(&other, codec, values, COUNT);
        same &= coded.length == other.length && !memcmp(coded.bytes, other.bytes, coded.length);
        same &= !memcmp(coded.decoded, other.decoded, sizeof coded.decoded);
        same &= !memcmp(coded.residual, other.residual, sizeof coded.residual);
        CHECK_EQ(rt_codec_decode_add(codec, other.decoded, COUNT, other.bytes, other.length, NULL), RINGTREE_OK);
        rt_reduce_use("scalar");
        CHECK_EQ(rt_codec_decode_add(codec, coded.decoded, COUNT, coded.bytes, coded.length, NULL), RINGTREE_OK);
        same &= !memcmp(coded.decoded, other.decoded, sizeof coded.decoded);
        code(&coded, codec, values, COUNT);
    }
    return same;
}

TEST(every_path_gives_the_same_bits)
{
    if (!rt_reduce_use("avx2")) SKIP("this CPU has the scalar path only");
    for (size_t c = 0; c < CODECS; c++)
        for (uint64_t seed = 0; seed < 24; seed++) {
            if (seed % 4 == 0) fill_bits(seed, false);
            else if (seed % 4 == 1) fill_bits(seed, true);
            else fill_inputs(values, COUNT, seed % 4 == 2 ? STUDENT : ADVERSARIAL, 0, seed);
            CHECK_THAT(same_from_every_path(&codecs[c]), "%s, seed %d", rt_codec_name(codecs[c].kind), (int)seed);
        }
}

/* ------------------------------------------------------------------ settings and sizes */

TEST(wrong_codecs_are_refused_with_what_is_wrong)
{
    static const struct { struct rt_codec codec; const char *says; } cases[] = {
        { { .kind = (enum rt_codec_kind)9 }, "kind 9" },
        { { .kind = RT_CODEC_Q8, .block = 100 }, "block 100" },
        { { .kind = RT_CODEC_Q8, .block = 16 }, "block 16" },
        { { .kind = RT_CODEC_Q4, .block = 8192 }, "block 8192" },
        { { .kind = RT_CODEC_Q8, .rounding = (enum rt_codec_rounding)2 }, "rounding 2" },
        { { .kind = RT_CODEC_TOPK }, "ratio 0" },
        { { .kind = RT_CODEC_TOPK, .ratio = NAN }, "ratio nan" },
        { { .kind = RT_CODEC_TOPK, .ratio = 0.5f }, "ratio 0.5" },
        { { .kind = RT_CODEC_TOPK, .ratio = 0.01f, .block = 64 }, "256" },
        { { .kind = RT_CODEC_TOPK, .ratio = 0.01f, .values = (enum rt_codec_values)2 }, "values 2" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rt_error error = { 0 };
        CHECK_EQ(rt_codec_check(&cases[i].codec, &error), RINGTREE_INVALID_ARGUMENT);
        CHECK_HAS(error.text, cases[i].says);
    }
    for (size_t c = 0; c < CODECS; c++) CHECK_EQ(rt_codec_check(&codecs[c], NULL), RINGTREE_OK);
}

TEST(finite_arrays_become_as_many_bytes_as_is_said)
{
    for (size_t c = 0; c < 8; c++)
        for (size_t count = 0; count < COUNT; count = count * 3 + 1) {
            fill_inputs(values, count, GAUSSIAN, 0, count);
            code(&coded, &codecs[c], values, count);
            CHECK_EQ(coded.length, rt_codec_usual_bytes(&codecs[c], count));
        }
    CHECK_EQ(rt_codec_usual_bytes(&codecs[3], 1 << 20), (1 << 20) + (4 << 12));
    CHECK_EQ(rt_codec_usual_bytes(&codecs[6], 1 << 20), (1 << 19) + (4 << 12));
}

TEST_MAIN
