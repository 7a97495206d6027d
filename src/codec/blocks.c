/*
 * bf16, fp16, q8 and q4: every block becomes a head and codes of a fixed size, so a part is
 *
 *     heads   one per block: q8 and q4 a float32 scale, bf16 and fp16 a byte 0; RAW_SCALE or RAW_BYTE mark a raw block
 *     codes   of each block in turn: int8, two 4-bit numbers a byte, or 16-bit floats
 *     tail    of each raw block in turn, what of its float32 values did not fit in the place of its codes
 *
 * The last block of a tensor may be short. It is encoded as if zeros followed, which are not sent.
 *
 * A scale is never below FLT_MIN, so that neither it nor its inverse is subnormal or infinite: what is under
 * FLT_MIN / 2 becomes 0 whatever the CPU's mode for subnormals is. Nor above what times the largest code is finite.
 */
#include "families.h"
#include "kernels.h"
#include "reduce/reduce.h"
#include <float.h>
#include <string.h>

#define RAW_SCALE 0xffffffffu
#define RAW_BYTE 0xffu
#define ROUNDS_UP_BF16 0x7f7f8000u /* the first magnitude that would become infinite */
#define ROUNDS_UP_FP16 0x477ff000u /* 65520 */

/* Where the next block's three pieces are. */
struct place {
    unsigned char *head, *codes, *tail;
};

static enum rt_codes format_of(const struct rt_codec *codec)
{
    switch (codec->kind) {
    case RT_CODEC_Q8:   return RT_CODES_INT8;
    case RT_CODEC_Q4:   return RT_CODES_INT4;
    case RT_CODEC_BF16: return RT_CODES_BF16;
    default:            return RT_CODES_FP16;
    }
}

static bool has_scale(enum rt_codes format)
{
    return format == RT_CODES_INT8 || format == RT_CODES_INT4;
}

static size_t head_bytes(enum rt_codes format)
{
    return has_scale(format) ? sizeof(float) : 1;
}

/* Of one block of `count` elements. A short block of 4-bit numbers has its first ones in lower halves alone. */
static size_t code_bytes(const struct rt_codec *codec, size_t count)
{
    const enum rt_codes format = format_of(codec);
    const size_t half = rt_codec_block(codec) / 2;
    if (format == RT_CODES_INT8) return count;
    if (format == RT_CODES_INT4) return count < half ? count : half;
    return 2 * count;
}

size_t rt_blocks_head_bytes(const struct rt_codec *codec, size_t count)
{
    const size_t block = rt_codec_block(codec);
    return (count / block + (count % block != 0)) * head_bytes(format_of(codec));
}

size_t rt_blocks_code_bytes(const struct rt_codec *codec, size_t count)
{
    const size_t block = rt_codec_block(codec);
    return count / block * code_bytes(codec, block) + code_bytes(codec, count % block);
}

static struct place place_of(const struct rt_codec *codec, size_t count, const unsigned char *bytes)
{
    struct place place = { .head = (unsigned char *)(uintptr_t)bytes };
    place.codes = place.head + rt_blocks_head_bytes(codec, count);
    place.tail = place.codes + rt_blocks_code_bytes(codec, count);
    return place;
}

static void next_block(const struct rt_codec *codec, struct place *place, size_t count, bool raw)
{
    const size_t codes = code_bytes(codec, count);
    place->head += head_bytes(format_of(codec));
    place->codes += codes;
    if (raw) place->tail += count * sizeof(float) - codes;
}

/* ------------------------------------------------------------------ encode */

/* From which largest magnitude on a block must be raw. */
static uint32_t raw_from(enum rt_codes format)
{
    if (format == RT_CODES_BF16) return ROUNDS_UP_BF16;
    return format == RT_CODES_FP16 ? ROUNDS_UP_FP16 : RT_INFINITE;
}

/* The seed of one block: a mixer of 64 bits over what names it. */
static struct rt_dice dice_of(const struct rt_part *part, uint64_t block)
{
    uint64_t x = part->step;
    const uint64_t words[2] = { part->rank, block };
    for (int i = 0; i < 2; i++) {
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 27) * 0x94d049bb133111ebu;
        x = (x ^ x >> 31) + words[i] * 0x9e3779b97f4a7c15u;
    }
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    return (struct rt_dice){ { (uint32_t)x, (uint32_t)(x >> 32) } };
}

static float most_scale(enum rt_codes format)
{
    return format == RT_CODES_INT8 ? RT_MOST_SCALE8 : RT_MOST_SCALE4;
}

static float scale_of(enum rt_codes format, uint32_t peak_bits, float *inverse)
{
    const float levels = format == RT_CODES_INT8 ? 127 : 7, least = FLT_MIN * levels;
    float peak;
    memcpy(&peak, &peak_bits, sizeof peak);
    if (peak < least) peak = least;
    *inverse = levels / peak;
    const float scale = peak / levels;
    return scale > most_scale(format) ? most_scale(format) : scale;
}

/* Codes of a whole block, and its head. */
static void encode_whole(const struct rt_codec *codec, const struct rt_part *part, uint64_t block, struct place place,
                         const unsigned char *values, uint32_t peak)
{
    const struct rt_codec_kernels *kernels = rt_codec_kernels();
    const enum rt_codes format = format_of(codec);
    const size_t count = rt_codec_block(codec);
    float inverse = 0;
    *place.head = 0;
    if (has_scale(format)) {
        const float scale = scale_of(format, peak, &inverse);
        memcpy(place.head, &scale, sizeof scale);
    }
    if (has_scale(format) && codec->rounding == RT_ROUND_STOCHASTIC)
        kernels->stochastic[format](place.codes, values, count, inverse, dice_of(part, block));
    else kernels->nearest[format](place.codes, values, count, inverse);
}

static void write_raw(const struct rt_codec *codec, struct place place, const unsigned char *values, size_t count)
{
    const size_t in_codes = code_bytes(codec, count);
    memset(place.head, 0xff, head_bytes(format_of(codec)));
    memcpy(place.codes, values, in_codes);
    memcpy(place.tail, values + in_codes, count * sizeof(float) - in_codes);
}

/* Returns whether it became raw. */
static bool encode_block(const struct rt_codec *codec, const struct rt_part *part, uint64_t block, struct place place,
                         const unsigned char *values, size_t count, struct rt_codec_report *report)
{
    const size_t whole = rt_codec_block(codec);
    float padded[RT_BLOCK_MAX];
    unsigned char codes[2 * RT_BLOCK_MAX];
    const unsigned char *from = values;
    struct place to = place;
    if (count < whole) {
        memset(padded, 0, whole * sizeof(float));
        from = memcpy(padded, values, count * sizeof(float));
        to.codes = codes;
    }
    const uint32_t peak = rt_codec_kernels()->peak(from, whole);
    report->nonfinite_blocks += peak >= RT_INFINITE;
    if (peak >= raw_from(format_of(codec))) {
        write_raw(codec, place, values, count);
        return true;
    }
    encode_whole(codec, part, block, to, from, peak);
    if (count < whole) memcpy(place.codes, codes, code_bytes(codec, count));
    return false;
}

static void decode_block(const struct rt_codec *codec, unsigned char *target, size_t count, struct place place,
                         bool add);

/* residual = values - what the block at `place` decodes to. */
static void keep_rest(const struct rt_codec *codec, struct place place, const unsigned char *values,
                      unsigned char *residual, size_t count)
{
    float sent[RT_BLOCK_MAX], value;
    decode_block(codec, (unsigned char *)sent, count, place, false);
    for (size_t i = 0; i < count; i++) {
        memcpy(&value, values + i * sizeof value, sizeof value);
        value -= sent[i];
        memcpy(residual + i * sizeof value, &value, sizeof value);
    }
}

size_t rt_blocks_encode(const struct rt_codec *codec, const struct rt_part *part, const unsigned char *values,
                        unsigned char *residual, unsigned char *bytes, struct rt_codec_report *report)
{
    const size_t block = rt_codec_block(codec);
    struct place place = place_of(codec, part->count, bytes);
    for (size_t i = 0; i < part->count; i += block) {
        const size_t count = part->count - i < block ? part->count - i : block;
        const unsigned char *from = values + i * sizeof(float);
        const bool raw = encode_block(codec, part, (part->first + i) / block, place, from, count, report);
        if (residual && raw) memset(residual + i * sizeof(float), 0, count * sizeof(float));
        else if (residual) keep_rest(codec, place, from, residual + i * sizeof(float), count);
        next_block(codec, &place, count, raw);
    }
    return (size_t)(place.tail - bytes);
}

/* ------------------------------------------------------------------ decode */

static bool is_raw(enum rt_codes format, const unsigned char *head)
{
    uint32_t scale;
    if (!has_scale(format)) return *head == RAW_BYTE;
    memcpy(&scale, head, sizeof scale);
    return scale == RAW_SCALE;
}

static void decode_whole(const struct rt_codec *codec, unsigned char *target, struct place place, bool add)
{
    const struct rt_codec_kernels *kernels = rt_codec_kernels();
    const enum rt_codes format = format_of(codec);
    float scale = 0;
    if (has_scale(format)) memcpy(&scale, place.head, sizeof scale);
    (add ? kernels->decode_add : kernels->decode)[format](target, place.codes, rt_codec_block(codec), scale);
}

/* A short block is made whole by zeros. */
static void decode_short(const struct rt_codec *codec, unsigned char *target, size_t count, struct place place,
                         bool add)
{
    float padded[RT_BLOCK_MAX] = { 0 };
    unsigned char codes[2 * RT_BLOCK_MAX] = { 0 };
    if (add) memcpy(padded, target, count * sizeof(float));
    place.codes = memcpy(codes, place.codes, code_bytes(codec, count));
    decode_whole(codec, (unsigned char *)padded, place, add);
    memcpy(target, padded, count * sizeof(float));
}

static void decode_raw(const struct rt_codec *codec, unsigned char *target, size_t count, struct place place, bool add)
{
    const size_t in_codes = code_bytes(codec, count);
    unsigned char values[RT_BLOCK_MAX * sizeof(float)];
    memcpy(values, place.codes, in_codes);
    memcpy(values + in_codes, place.tail, count * sizeof(float) - in_codes);
    if (add) rt_reduce(target, target, values, count, RINGTREE_FLOAT32, RINGTREE_SUM);
    else memcpy(target, values, count * sizeof(float));
}

static void decode_block(const struct rt_codec *codec, unsigned char *target, size_t count, struct place place,
                         bool add)
{
    if (is_raw(format_of(codec), place.head)) decode_raw(codec, target, count, place, add);
    else if (count < rt_codec_block(codec)) decode_short(codec, target, count, place, add);
    else decode_whole(codec, target, place, add);
}

void rt_blocks_decode(const struct rt_codec *codec, unsigned char *target, size_t count, const unsigned char *bytes,
                      bool add)
{
    const size_t block = rt_codec_block(codec);
    struct place place = place_of(codec, count, bytes);
    for (size_t i = 0; i < count; i += block) {
        const size_t now = count - i < block ? count - i : block;
        decode_block(codec, target + i * sizeof(float), now, place, add);
        next_block(codec, &place, now, is_raw(format_of(codec), place.head));
    }
}

/* ------------------------------------------------------------------ inspect */

static const char *wrong_with_block(const struct rt_codec *codec, struct place place, size_t count)
{
    const enum rt_codes format = format_of(codec);
    float scale;
    if (is_raw(format, place.head)) return NULL;
    if (!has_scale(format) && *place.head) return "a block's head is neither 0 nor 255";
    if (has_scale(format)) {
        memcpy(&scale, place.head, sizeof scale);
        if (!(scale >= FLT_MIN && scale <= most_scale(format)))
            return "a scale is NaN, negative, too small or too large";
    }
    const bool wrong = rt_codec_kernels()->has_unused[format](place.codes, code_bytes(codec, count));
    return wrong ? "a code is one that is not used" : NULL;
}

ringtree_status rt_blocks_inspect(const struct rt_codec *codec, size_t count, const unsigned char *bytes, size_t length,
                                  struct rt_error *error)
{
    const size_t block = rt_codec_block(codec);
    struct place place = place_of(codec, count, bytes);
    if (length < (size_t)(place.tail - bytes))
        return rt_codec_bad(error, codec, count, length, "too few for their scales and codes");
    for (size_t i = 0; i < count; i += block) {
        const size_t now = count - i < block ? count - i : block;
        const char *wrong = wrong_with_block(codec, place, now);
        if (wrong) return rt_codec_bad(error, codec, count, length, wrong);
        next_block(codec, &place, now, is_raw(format_of(codec), place.head));
    }
    if (length != (size_t)(place.tail - bytes))
        return rt_codec_bad(error, codec, count, length, "the blocks that travel raw make another length");
    return RINGTREE_OK;
}
