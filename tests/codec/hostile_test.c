/* Bytes that no encoder wrote: a clear error, and the target stays as it was. */
#include "reduce/reference.h"
#include "two_shot.h"

#define COUNT 9001

static float values[COUNT], target[COUNT];
static uint8_t bytes[COUNT * 4 + 4096], damaged[COUNT * 4 + 8192];

static size_t encode(const struct rt_codec *codec)
{
    struct rt_part part = { .count = COUNT };
    fill_inputs(values, COUNT, GAUSSIAN, 0, 1);
    values[700] = NAN; /* a raw block, the third of 256 */
    if (codec->kind == RT_CODEC_TOPK) part.cut = rt_topk_select(values, 0, COUNT, rt_topk_kept(codec, COUNT), NULL);
    const size_t length = rt_codec_encode(codec, &part, values, NULL, bytes, NULL);
    memset(damaged, 0, sizeof damaged);
    memcpy(damaged, bytes, length);
    return length;
}

static void check_refused(const struct rt_codec *codec, size_t count, size_t length, const char *says)
{
    struct rt_error error = { 0 };
    uint8_t *exact = malloc(length + 1); /* so that the sanitizer sees a read past the end */
    memcpy(exact, damaged, length);
    for (size_t i = 0; i < COUNT; i++) target[i] = 5;
    CHECK_EQ(rt_codec_decode(codec, target, count, exact, length, &error), RINGTREE_MISMATCH);
    CHECK_HAS(error.text, says);
    CHECK_HAS(error.text, rt_codec_name(codec->kind));
    CHECK_EQ(rt_codec_decode_add(codec, target, count, exact, length, &error), RINGTREE_MISMATCH);
    size_t written = 0;
    for (size_t i = 0; i < COUNT; i++) written += target[i] != 5;
    CHECK_EQ(written, 0);
    free(exact);
}

static const struct rt_codec bf16 = { .kind = RT_CODEC_BF16 }, q8 = { .kind = RT_CODEC_Q8 },
                             q4 = { .kind = RT_CODEC_Q4 }, topk = { .kind = RT_CODEC_TOPK, .ratio = 0.1f },
                             topk8 = { .kind = RT_CODEC_TOPK, .ratio = 0.1f, .values = RT_VALUES_INT8 };

TEST(any_other_length_is_refused)
{
    const struct rt_codec *const all[] = { &(struct rt_codec){ 0 }, &bf16, &q8, &q4, &topk, &topk8 };
    for (int c = 0; c < 6; c++) {
        const size_t length = encode(all[c]);
        for (size_t cut = 0; cut < length; cut += cut < 300 || cut > length - 300 ? 1 : 97)
            check_refused(all[c], COUNT, cut, "encoding of 9001 elements");
        check_refused(all[c], COUNT, length + 1, "encoding of 9001 elements");
        check_refused(all[c], COUNT, length + 3 * 1024, "encoding of 9001 elements");
        check_refused(all[c], COUNT - 600, length, "elements");
        check_refused(all[c], 0, length, "0 elements are 0 bytes");
    }
}

static void check_scale(const struct rt_codec *codec, size_t at, float scale)
{
    const size_t length = encode(codec);
    memcpy(damaged + at, &scale, sizeof scale);
    check_refused(codec, COUNT, length, "a scale is NaN, negative, too small or too large");
}

TEST(scales_that_are_no_scales_are_refused)
{
    static const float scales[] = { NAN, INFINITY, -INFINITY, -1, 0, -0.0f, FLT_TRUE_MIN, FLT_MAX, FLT_MAX / 6 };
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        check_scale(&q8, 4, scales[i]);
        check_scale(&q4, 4, scales[i]);
        check_scale(&topk8, (COUNT + 255) / 256 + 4, scales[i]);
    }
}

TEST(a_raw_mark_that_the_length_does_not_bear_is_refused)
{
    const size_t length = encode(&q8);
    memset(damaged, 0xff, 4);
    check_refused(&q8, COUNT, length, "raw make another length");
    const size_t length16 = encode(&bf16);
    damaged[0] = 255;
    check_refused(&bf16, COUNT, length16, "raw make another length");
}

TEST(heads_and_codes_that_are_not_used_are_refused)
{
    size_t length = encode(&bf16);
    damaged[1] = 7;
    check_refused(&bf16, COUNT, length, "head is neither");
    encode(&bf16);
    damaged[36 + 8] = 0x80, damaged[36 + 9] = 0xff;
    check_refused(&bf16, COUNT, length, "not used");
    length = encode(&q8);
    damaged[4 * 36 + 9] = 0x80;
    check_refused(&q8, COUNT, length, "not used");
    length = encode(&q4);
    damaged[4 * 36 + 9] = 0x04;
    check_refused(&q4, COUNT, length, "not used");
    damaged[4 * 36 + 9] = 0x40;
    check_refused(&q4, COUNT, length, "not used");
}

TEST(places_counts_and_values_that_cannot_be_are_refused)
{
    const size_t blocks = (COUNT + 255) / 256;
    size_t length = encode(&topk);
    damaged[blocks + 1] = damaged[blocks];
    check_refused(&topk, COUNT, length, "places do not rise");
    encode(&topk);
    damaged[blocks - 1] = 200; /* the last block has 41 elements */
    check_refused(&topk, COUNT, length, "more than it has");
    encode(&topk);
    damaged[0] = 254;
    check_refused(&topk, COUNT, length, "");
    encode(&topk);
    memset(damaged + blocks + bytes[0], 0xff, 4);
    check_refused(&topk, COUNT, length, "NaN or infinity outside a raw block");
    length = encode(&topk8);
    damaged[blocks + 4 * 3 + bytes[0]] = 0x80;
    check_refused(&topk8, COUNT, length, "not used");
    length = encode(&topk);
    damaged[length - 5 * bytes[blocks - 1] + bytes[blocks - 1] - 1] = 60; /* a place */
    check_refused(&topk, COUNT, length, "outside its block");
}

TEST(another_ranks_codec_is_told_by_its_length)
{
    const size_t length = encode(&q8);
    check_refused(&q4, COUNT, length, "same codec, block and values");
    check_refused(&bf16, COUNT, length, "same codec, block and values");
    check_refused(&(struct rt_codec){ .kind = RT_CODEC_Q8, .block = 64 }, COUNT, length, "q8");
}

TEST_MAIN
