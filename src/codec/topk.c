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

/* Entries of a block that are moved at once, whether so many are there or not: no branch that cannot be foreseen. */
#define AT_ONCE 16

/* The group that is being encoded: what is kept, and which blocks are raw. */
struct group {
    const unsigned char *values; /* a whole group: the tensor's last one in `padded`, zeros after its end */
    size_t               count;
    uint32_t             all;               /* how many are kept */
    uint32_t             begin[BLOCKS + 1]; /* block b keeps kept[begin[b]] up to kept[begin[b + 1]] */
    uint32_t             kept[RT_TOPK_GROUP + 64], places[RT_TOPK_GROUP + 64]; /* bits; places in the group */
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

static bool is_dense(size_t kept, size_t count, size_t value_bytes)
{
    return kept >= RAW || kept * (1 + value_bytes) >= count * sizeof(float);
}

bool rt_topk_is_dense(const struct rt_codec *codec, size_t kept, size_t count)
{
    return is_dense(kept, count, rt_topk_value_bytes(codec));
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

/* Those that the cut keeps of the group that begins at element `first`. `values` may be group->kept. */
static void keep(struct group *group, const uint32_t *values, const uint32_t *places, size_t count, uint64_t first,
                 const struct rt_cut *cut)
{
    uint32_t kept = 0;
    for (size_t i = 0; i < count; i++) { /* written first and counted then */
        const bool keeps = is_kept(cut, values[i], first + places[i]);
        group->kept[kept] = values[i];
        group->places[kept] = places[i];
        kept += keeps;
    }
    group->all = kept;
}

/* Goes over all values of the group. */
static void keep_by_looking(struct group *group, uint64_t first, const struct rt_cut *cut)
{
    const uint32_t with_ties = cut->magnitude ? cut->magnitude : 1;
    const uint32_t least = cut->ties_end > first ? with_ties : cut->magnitude + 1;
    group->all = (uint32_t)rt_codec_kernels()->collect(group->kept, group->places, group->values, RT_TOPK_GROUP, least);
    if (cut->ties_end > first && cut->ties_end < first + RT_TOPK_GROUP)
        keep(group, group->kept, group->places, group->all, first, cut);
}

/* The same from what the selection found in this group, without looking at the values. */
static void keep_found(struct group *group, uint64_t first, const struct rt_part *part)
{
    const struct rt_topk_found *found = part->found;
    const uint64_t number = (first - found->first) / RT_TOPK_GROUP;
    const uint32_t from = found->begin[number], count = found->begin[number + 1] - from;
    keep(group, found->values + from, found->places + from, count, first, &part->cut);
}

static void split(struct group *group)
{
    uint32_t counts[BLOCKS] = { 0 };
    for (uint32_t i = 0; i < group->all; i++) counts[group->places[i] / RT_BLOCK]++;
    group->begin[0] = 0;
    for (uint32_t b = 0; b < BLOCKS; b++) group->begin[b + 1] = group->begin[b] + counts[b];
}

static uint32_t peak_of(const struct group *group, uint32_t from, uint32_t to)
{
    uint32_t peak = 0;
    for (uint32_t i = from; i < to; i++) {
        const uint32_t magnitude = group->kept[i] & 0x7fffffff;
        peak = magnitude > peak ? magnitude : peak;
    }
    return peak;
}

static void choose_scale(struct group *group, uint32_t peak)
{
    group->scale = load_float((unsigned char *)&peak);
    if (group->scale < FLT_MIN * LEVELS) group->scale = FLT_MIN * LEVELS;
    group->inverse = LEVELS / group->scale;
    group->scale /= LEVELS;
    if (group->scale > RT_MOST_SCALE8) group->scale = RT_MOST_SCALE8;
}

/* Chooses the raw blocks, and the scale of the others. */
static void look(struct group *group, size_t value_bytes, struct rt_codec_report *report)
{
    const bool finite = peak_of(group, 0, group->all) < RT_INFINITE;
    uint32_t group_peak = 0;
    for (size_t b = 0; b < blocks_of(group->count); b++) {
        const uint32_t kept = group->begin[b + 1] - group->begin[b];
        const size_t count = block_count(group->count, b);
        const uint32_t peak = finite && value_bytes != 1 ? 0 : peak_of(group, group->begin[b], group->begin[b + 1]);
        group->raw[b] = peak >= RT_INFINITE || is_dense(kept, count, value_bytes);
        report->nonfinite_blocks += peak >= RT_INFINITE;
        report->kept += group->raw[b] ? 0 : kept;
        if (!group->raw[b] && peak > group_peak) group_peak = peak;
    }
    choose_scale(group, group_peak);
}

/* Value i of the group as int8; what is left of it goes into the group's residual. */
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

/* The places in its block, and the values, of block `b`. Returns how many. */
static uint32_t encode_kept(const struct group *group, size_t b, size_t value_bytes, unsigned char *to,
                            unsigned char *residual)
{
    const uint32_t from = group->begin[b], kept = group->begin[b + 1] - from;
    for (uint32_t i = 0; i < kept; i++) to[i] = (unsigned char)group->places[from + i];
    to += kept;
    if (value_bytes == 1)
        for (uint32_t i = 0; i < kept; i++) encode_int8(group, from + i, to + i, residual);
    else memcpy(to, group->kept + from, kept * sizeof(float));
    return kept;
}

/* The same of at most AT_ONCE float32 values in a whole block, which leaves room for more than is written. */
static uint32_t encode_few(const struct group *group, size_t b, unsigned char *to)
{
    const uint32_t from = group->begin[b], kept = group->begin[b + 1] - from;
    for (uint32_t i = 0; i < AT_ONCE; i++) to[i] = (unsigned char)group->places[from + i];
    memcpy(to + kept, group->kept + from, AT_ONCE * sizeof(float));
    return kept;
}

/* What is sent leaves the residual. */
static void clear_sent(const struct group *group, unsigned char *residual)
{
    for (uint32_t i = 0; i < group->all; i++) memset(residual + group->places[i] * sizeof(float), 0, sizeof(float));
}

/* Returns where the next group's blocks begin. `counts` are the group's, and so is `residual`. */
static unsigned char *encode_group(const struct group *group, size_t value_bytes, unsigned char *counts,
                                   unsigned char *to, unsigned char *residual)
{
    for (size_t b = 0; b < blocks_of(group->count); b++) {
        const size_t count = block_count(group->count, b), at = b * RT_BLOCK * sizeof(float);
        const uint32_t kept = group->begin[b + 1] - group->begin[b];
        if (!group->raw[b]) {
            const bool few = value_bytes != 1 && kept <= AT_ONCE && count == RT_BLOCK;
            counts[b] = (unsigned char)(few ? encode_few(group, b, to)
                                            : encode_kept(group, b, value_bytes, to, residual));
            to += counts[b] * (1 + value_bytes);
            continue;
        }
        counts[b] = RAW;
        memcpy(to, group->values + at, count * sizeof(float));
        if (residual) memset(residual + at, 0, count * sizeof(float));
        to += count * sizeof(float);
    }
    /* last: raw blocks were read from where the residual may be, too; encode_int8() has left its own */
    if (residual && value_bytes != 1) clear_sent(group, residual);
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
        split(&group);
        look(&group, value_bytes, report);
        if (value_bytes == 1) memcpy(scales + i / RT_TOPK_GROUP * sizeof(float), &group.scale, sizeof group.scale);
        to = encode_group(&group, value_bytes, bytes + i / RT_BLOCK, to, residual);
        if (residual) residual += group.count * sizeof(float);
    }
    return (size_t)(to - bytes);
}

/* ------------------------------------------------------------------ what blocks hold, one after another */

/* A group's entries, laid out flat; raw blocks have none. */
struct entries {
    uint32_t      count;
    uint32_t      places[RT_TOPK_GROUP + AT_ONCE]; /* in the group */
    unsigned char values[(RT_TOPK_GROUP + AT_ONCE) * sizeof(float)];
};

/* Where in a part's bytes the next block begins. */
struct reading {
    const unsigned char *at, *end;
    size_t               value_bytes;
};

static void unpack_block(struct entries *to, struct reading *from, uint32_t kept, uint32_t base)
{
    const size_t width = from->value_bytes;
    unsigned char *values = to->values + to->count * width;
    uint32_t *places = to->places + to->count;
    const unsigned char *at = from->at;
    const bool few = kept <= AT_ONCE && AT_ONCE * (1 + sizeof(float)) <= (size_t)(from->end - at) && width != 1;
    if (few) {
        for (uint32_t i = 0; i < AT_ONCE; i++) places[i] = base + at[i];
        memcpy(values, at + kept, AT_ONCE * sizeof(float));
    } else {
        for (uint32_t i = 0; i < kept; i++) places[i] = base + at[i];
        memcpy(values, at + kept, kept * width);
    }
    to->count += kept;
    from->at += kept * (1 + width);
}

/* Of a group of so many elements. Returns what is wrong with that, or NULL. */
static const char *unpack_group(struct entries *to, struct reading *from, const unsigned char *counts, size_t count)
{
    to->count = 0;
    for (size_t b = 0; b < blocks_of(count); b++) {
        const size_t now = block_count(count, b), left = (size_t)(from->end - from->at);
        if (counts[b] == RAW) {
            if (left < now * sizeof(float)) return "too few for what its blocks keep";
            from->at += now * sizeof(float);
            continue;
        }
        if (counts[b] > now) return "a block keeps more than it has";
        if (left < counts[b] * (1 + from->value_bytes)) return "too few for what its blocks keep";
        unpack_block(to, from, counts[b], (uint32_t)(b * RT_BLOCK));
    }
    return NULL;
}

static struct reading reading_of(const struct rt_codec *codec, size_t count, const unsigned char *bytes, size_t length)
{
    return (struct reading){ bytes + rt_topk_head_bytes(codec, count), bytes + length, rt_topk_value_bytes(codec) };
}

/* ------------------------------------------------------------------ decode */

static void put_entries(unsigned char *target, const struct entries *entries, size_t value_bytes, float scale, bool add)
{
    for (uint32_t i = 0; i < entries->count; i++) {
        unsigned char *to = target + entries->places[i] * sizeof(float);
        float value = value_bytes == 1 ? (float)(int8_t)entries->values[i] * scale
                                       : load_float(entries->values + i * sizeof(float));
        if (add) value = load_float(to) + value;
        memcpy(to, &value, sizeof value);
    }
}

static void put_raw(unsigned char *target, size_t count, const unsigned char *values, bool add)
{
    if (add) rt_reduce(target, target, values, count, RINGTREE_FLOAT32, RINGTREE_SUM);
    else memcpy(target, values, count * sizeof(float));
}

void rt_topk_decode(const struct rt_codec *codec, unsigned char *target, size_t count, const unsigned char *bytes,
                    size_t length, bool add)
{
    struct reading reading = reading_of(codec, count, bytes, length);
    const unsigned char *scales = bytes + blocks_of(count);
    struct entries entries;
    float scale = 0;
    if (!add) memset(target, 0, count * sizeof(float));
    for (size_t i = 0; i < count; i += RT_TOPK_GROUP) {
        const size_t group = i / RT_TOPK_GROUP, now = count - i < RT_TOPK_GROUP ? count - i : RT_TOPK_GROUP;
        const unsigned char *counts = bytes + i / RT_BLOCK, *from = reading.at;
        if (reading.value_bytes == 1) scale = load_float(scales + group * sizeof scale);
        unpack_group(&entries, &reading, counts, now);
        put_entries(target + i * sizeof(float), &entries, reading.value_bytes, scale, add);
        for (size_t b = 0; b < blocks_of(now); b++) {
            const size_t size = block_count(now, b);
            if (counts[b] == RAW) put_raw(target + (i + b * RT_BLOCK) * sizeof(float), size, from, add);
            from += counts[b] == RAW ? size * sizeof(float) : counts[b] * (1 + reading.value_bytes);
        }
    }
}

/* ------------------------------------------------------------------ inspect */

static bool scales_are_right(const unsigned char *scales, size_t groups)
{
    for (size_t i = 0; i < groups; i++) {
        const float scale = load_float(scales + i * sizeof scale);
        if (!(scale >= FLT_MIN && scale <= RT_MOST_SCALE8)) return false;
    }
    return true;
}

/* Places rise from block to block anyway, so they must from entry to entry. */
static const char *wrong_with_entries(const struct entries *entries, size_t count, size_t value_bytes)
{
    uint32_t falls = 0, peak = 0, unused = 0;
    for (uint32_t i = 1; i < entries->count; i++) falls |= entries->places[i] <= entries->places[i - 1];
    if (falls) return "places do not rise";
    if (entries->count && entries->places[entries->count - 1] >= count) return "a place is outside its block";
    for (uint32_t i = 0; value_bytes == 1 && i < entries->count; i++) unused |= entries->values[i] == 0x80;
    if (unused) return "a code is one that is not used";
    for (uint32_t i = 0; value_bytes != 1 && i < entries->count; i++) {
        const uint32_t magnitude = load_magnitude(entries->values + i * sizeof(float));
        peak = magnitude > peak ? magnitude : peak;
    }
    return peak >= RT_INFINITE ? "NaN or infinity outside a raw block" : NULL;
}

ringtree_status rt_topk_inspect(const struct rt_codec *codec, size_t count, const unsigned char *bytes, size_t length,
                                struct rt_error *error)
{
    struct entries entries;
    if (length < rt_topk_head_bytes(codec, count))
        return rt_codec_bad(error, codec, count, length, "too few for the counts of its blocks");
    struct reading reading = reading_of(codec, count, bytes, length);
    if (reading.value_bytes == 1 && !scales_are_right(bytes + blocks_of(count), groups_of(count)))
        return rt_codec_bad(error, codec, count, length, "a scale is NaN, negative, too small or too large");
    for (size_t i = 0; i < count; i += RT_TOPK_GROUP) {
        const size_t now = count - i < RT_TOPK_GROUP ? count - i : RT_TOPK_GROUP;
        const char *wrong = unpack_group(&entries, &reading, bytes + i / RT_BLOCK, now);
        if (!wrong) wrong = wrong_with_entries(&entries, now, reading.value_bytes);
        if (wrong) return rt_codec_bad(error, codec, count, length, wrong);
    }
    if (reading.at == reading.end) return RINGTREE_OK;
    return rt_codec_bad(error, codec, count, length, "more than its blocks keep");
}
