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
#define WORDS (RT_BLOCK / 64)             /* of a block's marks */
#define LEVELS 127.0f

/* The group that is being encoded: what is kept, and which blocks are raw. */
struct group {
    const unsigned char *values; /* a whole group: the tensor's last one in `padded`, zeros after its end */
    size_t               count;
    uint64_t             marks[RT_TOPK_GROUP / 64];
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

/*
 * Within the group that begins at element `first`: all from `magnitude` on before ties_end, all above it from
 * there.
 */
static void mark_kept(struct group *group, uint64_t first, const struct rt_cut *cut)
{
    const struct rt_codec_kernels *kernels = rt_codec_kernels();
    const uint32_t with_ties = cut->magnitude ? cut->magnitude : 1;
    uint64_t ties[RT_TOPK_GROUP / 64];
    if (cut->ties_end >= first + RT_TOPK_GROUP) {
        kernels->mark(group->marks, group->values, RT_TOPK_GROUP, with_ties);
        return;
    }
    kernels->mark(group->marks, group->values, RT_TOPK_GROUP, cut->magnitude + 1);
    if (cut->ties_end <= first) return;
    kernels->mark(ties, group->values, RT_TOPK_GROUP, with_ties);
    for (uint64_t i = 0; i < cut->ties_end - first; i++) group->marks[i / 64] |= ties[i / 64] & 1ull << i % 64;
}

/* The same from what the selection found in this group, without looking at the values. */
static void mark_found(struct group *group, uint64_t first, const struct rt_part *part)
{
    const struct rt_topk_found *found = part->found;
    const uint64_t number = (first - found->first) / RT_TOPK_GROUP;
    memset(group->marks, 0, sizeof group->marks);
    for (uint32_t i = found->begin[number]; i < found->begin[number + 1]; i++) {
        const uint32_t magnitude = found->magnitudes[i], place = found->places[i];
        const bool kept = magnitude > part->cut.magnitude ||
                          (magnitude == part->cut.magnitude && first + place < part->cut.ties_end);
        group->marks[place / 64] |= (uint64_t)kept << place % 64;
    }
}

/* The largest magnitude of a block of which some are kept: one of those. The others stay unread. */
static uint32_t peak_of_kept(const struct group *group, size_t b)
{
    uint32_t peak = 0;
    for (size_t word = b * WORDS; word < (b + 1) * WORDS; word++)
        for (uint64_t bits = group->marks[word]; bits; bits &= bits - 1) {
            const size_t at = word * 64 + (size_t)__builtin_ctzll(bits);
            const uint32_t magnitude = load_magnitude(group->values + at * sizeof(float));
            if (magnitude > peak) peak = magnitude;
        }
    return peak;
}

/* Goes through the marks of block `b`: *at is the next kept element of the group, false when there is no more. */
static bool next_kept(struct group *group, size_t b, size_t *at)
{
    for (size_t word = b * WORDS; word < (b + 1) * WORDS; word++)
        if (group->marks[word]) {
            *at = word * 64 + (size_t)__builtin_ctzll(group->marks[word]);
            group->marks[word] &= group->marks[word] - 1;
            return true;
        }
    return false;
}

static uint32_t kept_in(const struct group *group, size_t b)
{
    uint32_t kept = 0;
    for (size_t word = b * WORDS; word < (b + 1) * WORDS; word++)
        kept += (uint32_t)__builtin_popcountll(group->marks[word]);
    return kept;
}

/* Chooses the raw blocks, and the scale of the others. */
static void look(struct group *group, size_t value_bytes, bool found, struct rt_codec_report *report)
{
    uint32_t group_peak = 0;
    for (size_t b = 0; b < blocks_of(group->count); b++) {
        const uint32_t kept = kept_in(group, b);
        const size_t count = block_count(group->count, b);
        uint32_t peak = 0;
        if (kept && found) peak = peak_of_kept(group, b);
        else if (kept) peak = rt_codec_kernels()->peak(group->values + b * RT_BLOCK * sizeof(float), RT_BLOCK);
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

/* The places and values of block `b`; what is sent leaves the residual. Returns how many. */
static uint32_t encode_kept(struct group *group, size_t b, size_t value_bytes, unsigned char *to,
                            unsigned char *residual)
{
    const uint32_t kept = kept_in(group, b);
    unsigned char *places = to, *values = to + kept;
    size_t at;
    while (next_kept(group, b, &at)) {
        const float value = load_float(group->values + at * sizeof value);
        float sent = value;
        if (value_bytes == 1) {
            const float rounded = value * group->inverse + 0x1.8p23f; /* see kernels.inc */
            uint32_t code;
            memcpy(&code, &rounded, sizeof code);
            *values = (unsigned char)code;
            sent = (float)(int8_t)*values * group->scale;
        } else memcpy(values, &value, sizeof value);
        *places++ = (unsigned char)(at % RT_BLOCK);
        values += value_bytes;
        const float left = value - sent;
        if (residual) memcpy(residual + at * sizeof left, &left, sizeof left);
    }
    return kept;
}

/* Returns where the next group's blocks begin. `counts` are the group's. */
static unsigned char *encode_group(struct group *group, size_t value_bytes, unsigned char *counts, unsigned char *to,
                                   unsigned char *residual)
{
    for (size_t b = 0; b < blocks_of(group->count); b++) {
        const size_t count = block_count(group->count, b), at = b * RT_BLOCK * sizeof(float);
        if (!group->raw[b]) {
            counts[b] = (unsigned char)encode_kept(group, b, value_bytes, to, residual);
            to += counts[b] * (1 + value_bytes);
            continue;
        }
        counts[b] = RAW;
        memcpy(to, group->values + at, count * sizeof(float));
        if (residual) memset(residual + at, 0, count * sizeof(float));
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
        if (part->found) mark_found(&group, part->first + i, part);
        else mark_kept(&group, part->first + i, &part->cut);
        look(&group, value_bytes, part->found, report);
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
