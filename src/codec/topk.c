/*
 * topk: the elements that a cut keeps, as values and places. A part is
 *
 *     counts   one byte per block of 256: how many follow, or RAW: the block travels as it is
 *     scales   with int8 values, one float32 per group of 16 blocks (4096 elements)
 *     blocks   in turn: the places in the block (a byte each, rising), then the values; or the block's float32 values
 *
 * A block is raw when it holds NaN or infinity, and when that is shorter. So a part is at most its heads longer than
 * float32, however many are kept: a sum of sparse arrays turns dense, block by block, where that is smaller.
 */
#include "families.h"
#include "kernels.h"
#include "reduce/reduce.h"
#include <float.h>
#include <string.h>

#define RAW 255
#define BLOCKS (RT_TOPK_GROUP / RT_BLOCK) /* of a group */
#define LEVELS 127.0f

/* The group that is being encoded: what is kept, and which blocks are raw. */
struct group {
    const unsigned char *values; /* a whole group: the tensor's last one in `padded`, zeros after its end */
    size_t               count;
    uint32_t             begin[BLOCKS + 1]; /* block b keeps kept[begin[b]] up to kept[begin[b + 1]] */
    uint32_t             kept[RT_TOPK_GROUP + 64], places[RT_TOPK_GROUP + 64]; /* bits; places in the group or block */
    bool                 raw[BLOCKS];
    float                scale, inverse;
    float                padded[RT_TOPK_GROUP];
};

static size_t blocks_of(size_t count)
{
    return count / RT_BLOCK + (count % RT_BLOCK != 0);
}

static size_t groups_of(size_t count)
{
    return count / RT_TOPK_GROUP + (count % RT_TOPK_GROUP != 0);
}

static size_t block_count(size_t count, size_t block)
{
    const size_t left = count - block * RT_BLOCK;
    return left < RT_BLOCK ? left : RT_BLOCK;
}

size_t rt_topk_value_bytes(const struct rt_codec *codec)
{
    return codec->values == RT_VALUES_INT8 ? 1 : sizeof(float);
}

size_t rt_topk_head_bytes(const struct rt_codec *codec, size_t count)
{
    return blocks_of(count) + (codec->values == RT_VALUES_INT8 ? groups_of(count) * sizeof(float) : 0);
}

static float load_float(const unsigned char *p)
{
    float value;
    memcpy(&value, p, sizeof value);
    return value;
}

static uint32_t load_magnitude(const unsigned char *p)
{
    uint32_t bits;
    memcpy(&bits, p, sizeof bits);
    return bits & 0x7fffffff;
}

/* ------------------------------------------------------------------ encode */

static bool is_kept(const struct rt_cut *cut, uint32_t bits, uint64_t at)
{
    const uint32_t magnitude = bits & 0x7fffffff;
    return magnitude > cut->magnitude || (magnitude == cut->magnitude && magnitude && at < cut->ties_end);
}

/* Appends those that the cut keeps. `first`: the element where their places count from. */
static uint32_t keep(struct group *group, uint32_t kept, const uint32_t *values, const uint32_t *places, size_t count,
                     uint64_t first, const struct rt_cut *cut)
{
    for (size_t i = 0; i < count; i++) { /* written first and counted then: no branch that cannot be foreseen */
        group->kept[kept] = values[i];
        group->places[kept] = places[i];
        kept += is_kept(cut, values[i], first + places[i]);
    }
    return kept;
}

/* Goes over all values of the group that begins at element `first`. */
static void keep_by_looking(struct group *group, uint64_t first, const struct rt_cut *cut)
{
    const uint32_t with_ties = cut->magnitude ? cut->magnitude : 1;
    uint32_t kept = 0;
    for (uint32_t b = 0; b < BLOCKS; b++) {
        const uint64_t begin = first + b * RT_BLOCK;
        const uint32_t least = cut->ties_end > begin ? with_ties : cut->magnitude + 1;
        uint32_t *values = group->kept + kept, *places = group->places + kept;
        group->begin[b] = kept;
        size_t now = rt_codec_kernels()->collect(values, places, group->values + b * RT_BLOCK * sizeof(float), RT_BLOCK,
                                                 least);
        if (cut->ties_end > begin && cut->ties_end < begin + RT_BLOCK)
            kept = keep(group, kept, values, places, now, begin, cut);
        else kept += (uint32_t)now;
    }
    group->begin[BLOCKS] = kept;
}

/* The same from what the selection found in this group, without looking at the values. */
static void keep_found(struct group *group, uint64_t first, const struct rt_part *part)
{
    const struct rt_topk_found *found = part->found;
    const uint64_t number = (first - found->first) / RT_TOPK_GROUP;
    const uint32_t from = found->begin[number], count = found->begin[number + 1] - from;
    const uint32_t kept = keep(group, 0, found->values + from, found->places + from, count, first, &part->cut);
    uint32_t at = 0;
    for (uint32_t b = 0; b < BLOCKS; b++) {
        group->begin[b] = at;
        for (; at < kept && group->places[at] < (b + 1) * RT_BLOCK; at++) group->places[at] -= b * RT_BLOCK;
    }
    group->begin[BLOCKS] = kept;
}

static uint32_t peak_of(const struct group *group, size_t b)
{
    uint32_t peak = 0;
    for (uint32_t i = group->begin[b]; i < group->begin[b + 1]; i++) {
        const uint32_t magnitude = group->kept[i] & 0x7fffffff;
        if (magnitude > peak) peak = magnitude;
    }
    return peak;
}

/* Chooses the raw blocks, and the scale of the others. */
static void look(struct group *group, size_t value_bytes, struct rt_codec_report *report)
{
    uint32_t group_peak = 0;
    for (size_t b = 0; b < blocks_of(group->count); b++) {
        const uint32_t kept = group->begin[b + 1] - group->begin[b], peak = peak_of(group, b);
        const size_t count = block_count(group->count, b);
        group->raw[b] = peak >= RT_INFINITE || kept >= RAW || kept * (1 + value_bytes) >= count * sizeof(float);
        report->nonfinite_blocks += peak >= RT_INFINITE;
        if (!group->raw[b]) report->kept += kept;
        if (!group->raw[b] && peak > group_peak) group_peak = peak;
    }
    group->scale = load_float((unsigned char *)&group_peak);
    if (group->scale < FLT_MIN * LEVELS) group->scale = FLT_MIN * LEVELS;
    group->inverse = LEVELS / group->scale;
    group->scale /= LEVELS;
    if (group->scale > RT_MOST_SCALE8) group->scale = RT_MOST_SCALE8;
}

/* Value i of the group as int8; what is left of it goes into the residual at its place in the block. */
static void encode_int8(const struct group *group, uint32_t i, unsigned char *to, unsigned char *residual)
{
    const float value = load_float((const unsigned char *)&group->kept[i]);
    const float rounded = value * group->inverse + 0x1.8p23f; /* see kernels.inc */
    uint32_t code;
    memcpy(&code, &rounded, sizeof code);
    *to = (unsigned char)code;
    const float left = value - (float)(int8_t)*to * group->scale;
    if (residual) memcpy(residual + group->places[i] * sizeof left, &left, sizeof left);
}

/* The places and values of block `b`; what is sent leaves the residual. Returns how many. */
static uint32_t encode_kept(const struct group *group, size_t b, size_t value_bytes, unsigned char *to,
                            unsigned char *residual)
{
    const uint32_t from = group->begin[b], kept = group->begin[b + 1] - from;
    for (uint32_t i = 0; i < kept; i++) to[i] = (unsigned char)group->places[from + i];
    to += kept;
    if (value_bytes == 1)
        for (uint32_t i = 0; i < kept; i++) encode_int8(group, from + i, to + i, residual);
    else memcpy(to, group->kept + from, kept * sizeof(float));
    for (uint32_t i = 0; value_bytes != 1 && residual && i < kept; i++)
        memset(residual + group->places[from + i] * sizeof(float), 0, sizeof(float));
    return kept;
}

/* Returns where the next group's blocks begin. `counts` are the group's. */
static unsigned char *encode_group(const struct group *group, size_t value_bytes, unsigned char *counts,
                                   unsigned char *to, unsigned char *residual)
{
    for (size_t b = 0; b < blocks_of(group->count); b++) {
        const size_t count = block_count(group->count, b), at = b * RT_BLOCK * sizeof(float);
        unsigned char *left = residual ? residual + at : NULL;
        if (!group->raw[b]) {
            counts[b] = (unsigned char)encode_kept(group, b, value_bytes, to, left);
            to += counts[b] * (1 + value_bytes);
            continue;
        }
        counts[b] = RAW;
        memcpy(to, group->values + at, count * sizeof(float));
        if (left) memset(left, 0, count * sizeof(float));
        to += count * sizeof(float);
    }
    return to;
}

size_t rt_topk_encode(const struct rt_codec *codec, const struct rt_part *part, const unsigned char *values,
                      unsigned char *residual, unsigned char *bytes, struct rt_codec_report *report)
{
    const size_t value_bytes = rt_topk_value_bytes(codec), blocks = blocks_of(part->count);
    unsigned char *scales = bytes + blocks, *to = bytes + rt_topk_head_bytes(codec, part->count);
    struct group group;
    if (residual && residual != values) memcpy(residual, values, part->count * sizeof(float));
    for (size_t i = 0; i < part->count; i += RT_TOPK_GROUP) {
        group.count = part->count - i < RT_TOPK_GROUP ? part->count - i : RT_TOPK_GROUP;
        group.values = values + i * sizeof(float);
        if (group.count < RT_TOPK_GROUP) {
            memset(group.padded, 0, sizeof group.padded);
            group.values = memcpy(group.padded, group.values, group.count * sizeof(float));
        }
        if (part->found) keep_found(&group, part->first + i, part);
        else keep_by_looking(&group, part->first + i, &part->cut);
        look(&group, value_bytes, report);
        if (value_bytes == 1) memcpy(scales + i / RT_TOPK_GROUP * sizeof(float), &group.scale, sizeof group.scale);
        to = encode_group(&group, value_bytes, bytes + i / RT_BLOCK, to, residual);
        if (residual) residual += group.count * sizeof(float);
    }
    return (size_t)(to - bytes);
}

/* ------------------------------------------------------------------ decode */

static void put_kept(unsigned char *target, const unsigned char *places, uint32_t kept, size_t value_bytes, float scale,
                     bool add)
{
    const unsigned char *values = places + kept;
    for (uint32_t i = 0; i < kept; i++) {
        unsigned char *to = target + places[i] * sizeof(float);
        float value = value_bytes == 1 ? (float)(int8_t)values[i] * scale : load_float(values + i * value_bytes);
        if (add) value = load_float(to) + value;
        memcpy(to, &value, sizeof value);
    }
}

void rt_topk_decode(const struct rt_codec *codec, unsigned char *target, size_t count, const unsigned char *bytes,
                    bool add)
{
    const size_t value_bytes = rt_topk_value_bytes(codec), blocks = blocks_of(count);
    const unsigned char *scales = bytes + blocks, *from = bytes + rt_topk_head_bytes(codec, count);
    float scale = 0;
    if (!add) memset(target, 0, count * sizeof(float));
    for (size_t b = 0; b < blocks; b++) {
        unsigned char *to = target + b * RT_BLOCK * sizeof(float);
        const size_t now = block_count(count, b);
        if (value_bytes == 1 && b % BLOCKS == 0) scale = load_float(scales + b / BLOCKS * sizeof scale);
        if (bytes[b] != RAW) {
            put_kept(to, from, bytes[b], value_bytes, scale, add);
            from += bytes[b] * (1 + value_bytes);
            continue;
        }
        if (add) rt_reduce(to, to, from, now, RINGTREE_FLOAT32, RINGTREE_SUM);
        else memcpy(to, from, now * sizeof(float));
        from += now * sizeof(float);
    }
}

/* ------------------------------------------------------------------ inspect */

static const char *wrong_with_kept(const unsigned char *places, uint32_t kept, size_t count, size_t value_bytes)
{
    const unsigned char *values = places + kept;
    for (uint32_t i = 0; i < kept; i++) {
        if (places[i] >= count) return "a place is outside its block";
        if (i && places[i] <= places[i - 1]) return "places do not rise";
        if (value_bytes == 1 && values[i] == 0x80) return "a code is one that is not used";
        if (value_bytes != 1 && load_magnitude(values + i * value_bytes) >= RT_INFINITE)
            return "NaN or infinity outside a raw block";
    }
    return NULL;
}

static bool scales_are_right(const unsigned char *scales, size_t groups)
{
    for (size_t i = 0; i < groups; i++) {
        const float scale = load_float(scales + i * sizeof scale);
        if (!(scale >= FLT_MIN && scale <= RT_MOST_SCALE8)) return false;
    }
    return true;
}

ringtree_status rt_topk_inspect(const struct rt_codec *codec, size_t count, const unsigned char *bytes, size_t length,
                                struct rt_error *error)
{
    const size_t value_bytes = rt_topk_value_bytes(codec), blocks = blocks_of(count);
    size_t at = rt_topk_head_bytes(codec, count);
    if (length < at) return rt_codec_bad(error, codec, count, length, "too few for the counts of its blocks");
    if (value_bytes == 1 && !scales_are_right(bytes + blocks, groups_of(count)))
        return rt_codec_bad(error, codec, count, length, "a scale is NaN, negative, too small or too large");
    for (size_t b = 0; b < blocks; b++) {
        const bool raw = bytes[b] == RAW;
        const size_t now = block_count(count, b), size = raw ? now * sizeof(float) : bytes[b] * (1 + value_bytes);
        if (!raw && bytes[b] > now) return rt_codec_bad(error, codec, count, length, "a block keeps more than it has");
        if (length - at < size) return rt_codec_bad(error, codec, count, length, "too few for what its blocks keep");
        const char *wrong = raw ? NULL : wrong_with_kept(bytes + at, bytes[b], now, value_bytes);
        if (wrong) return rt_codec_bad(error, codec, count, length, wrong);
        at += size;
    }
    return at == length ? RINGTREE_OK : rt_codec_bad(error, codec, count, length, "more than its blocks keep");
}
