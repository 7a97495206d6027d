/* Codecs by name and size, and which of the two families (blocks of codes, or the largest) does the work. */
#include "families.h"
#include "kernels.h"
#include "reduce/reduce.h"
#include <float.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "scales and values travel as they lie in memory");

static const char *const kind_names[RT_CODEC_KIND_COUNT] = { "none", "bf16", "fp16", "q8", "q4", "topk" };

const char *rt_codec_name(enum rt_codec_kind kind)
{
    return (uint32_t)kind < RT_CODEC_KIND_COUNT ? kind_names[kind] : "unknown";
}

/* The path is chosen in reduce.h, so that one setting serves both. */
const struct rt_codec_kernels *rt_codec_kernels(void)
{
#if defined(__x86_64__)
    const char *path = rt_reduce_path();
    if (!strcmp(path, rt_codec_kernels_avx512.name)) return &rt_codec_kernels_avx512;
    if (!strcmp(path, rt_codec_kernels_avx2.name)) return &rt_codec_kernels_avx2;
#endif
    return &rt_codec_kernels_scalar;
}

static ringtree_status check_topk(const struct rt_codec *codec, struct rt_error *error)
{
    if (!(codec->ratio >= RT_RATIO_MIN && codec->ratio <= RT_RATIO_MAX))
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "topk: ratio %g is not from %g to %g", (double)codec->ratio,
                       (double)RT_RATIO_MIN, (double)RT_RATIO_MAX);
    if (codec->block && codec->block != RT_BLOCK)
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "topk: blocks have %d elements, not %" PRIu32
                       "; leave block 0", RT_BLOCK, codec->block);
    if ((uint32_t)codec->values > RT_VALUES_INT8)
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "topk: values %d are neither float32 (0) nor int8 (1)",
                       (int)codec->values);
    return RINGTREE_OK;
}

ringtree_status rt_codec_check(const struct rt_codec *codec, struct rt_error *error)
{
    const uint32_t block = codec->block;
    if ((uint32_t)codec->kind >= RT_CODEC_KIND_COUNT)
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "codec: kind %d is unknown; from 0 (none) to %d (topk)",
                       (int)codec->kind, RT_CODEC_KIND_COUNT - 1);
    if ((uint32_t)codec->rounding > RT_ROUND_STOCHASTIC)
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "%s: rounding %d is neither nearest (0) nor stochastic (1)",
                       rt_codec_name(codec->kind), (int)codec->rounding);
    if (codec->kind == RT_CODEC_TOPK) return check_topk(codec, error);
    if (block && (block < RT_BLOCK_MIN || block > RT_BLOCK_MAX || block & (block - 1)))
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "%s: block %" PRIu32 " is no power of two from %d to %d",
                       rt_codec_name(codec->kind), block, RT_BLOCK_MIN, RT_BLOCK_MAX);
    return RINGTREE_OK;
}

bool rt_codec_spares(uint32_t dimensions, size_t count)
{
    return dimensions < 2 || count < RT_SPARED_BELOW;
}

size_t rt_codec_align(const struct rt_codec *codec)
{
    if (codec->kind == RT_CODEC_NONE) return 1;
    return codec->kind == RT_CODEC_TOPK ? RT_TOPK_GROUP : rt_codec_block(codec);
}

size_t rt_codec_max_bytes(const struct rt_codec *codec, size_t count)
{
    const size_t raw = count * sizeof(float);
    if (codec->kind == RT_CODEC_NONE) return raw;
    return raw + (codec->kind == RT_CODEC_TOPK ? rt_topk_head_bytes(codec, count) : rt_blocks_head_bytes(codec, count));
}

size_t rt_codec_usual_bytes(const struct rt_codec *codec, size_t count)
{
    if (codec->kind == RT_CODEC_NONE) return count * sizeof(float);
    if (codec->kind != RT_CODEC_TOPK) return rt_blocks_head_bytes(codec, count) + rt_blocks_code_bytes(codec, count);
    return rt_topk_head_bytes(codec, count) + (size_t)((float)count * codec->ratio) * (1 + rt_topk_value_bytes(codec));
}

double rt_codec_error_bound(const struct rt_codec *codec, double peak)
{
    const double slop = 1 + 0x1p-20, steps = codec->rounding == RT_ROUND_STOCHASTIC ? 1 : 2; /* 1 / share of a code */
    switch (codec->kind) {
    case RT_CODEC_BF16: return peak * 0x1p-8 + FLT_TRUE_MIN * 0x1p16;
    case RT_CODEC_FP16: return peak * 0x1p-11 + 0x1p-25;
    case RT_CODEC_Q8:   return peak / (127 * steps) * slop + (double)FLT_MIN;
    case RT_CODEC_Q4:   return peak / (7 * steps) * slop + (double)FLT_MIN;
    case RT_CODEC_TOPK: return codec->values == RT_VALUES_INT8 ? peak / 254 * slop + (double)FLT_MIN : 0;
    default:            return 0;
    }
}

void rt_codec_prepare(const void *values, void *residual, size_t count)
{
    rt_reduce(residual, residual, values, count, RINGTREE_FLOAT32, RINGTREE_SUM);
}

size_t rt_codec_encode(const struct rt_codec *codec, const struct rt_part *part, const void *values, void *residual,
                       void *bytes, struct rt_codec_report *report)
{
    struct rt_codec_report unread = { 0 };
    if (!report) report = &unread;
    if (!part->count) return 0;
    if (codec->kind == RT_CODEC_TOPK) return rt_topk_encode(codec, part, values, residual, bytes, report);
    if (codec->kind != RT_CODEC_NONE) return rt_blocks_encode(codec, part, values, residual, bytes, report);
    rt_copy(bytes, values, part->count * sizeof(float));
    if (residual) memset(residual, 0, part->count * sizeof(float));
    return part->count * sizeof(float);
}

ringtree_status rt_codec_inspect(const struct rt_codec *codec, size_t count, const void *bytes, size_t length,
                                 struct rt_error *error)
{
    if (!count && length) return rt_codec_bad(error, codec, count, length, "0 elements are 0 bytes");
    if (codec->kind == RT_CODEC_TOPK) return rt_topk_inspect(codec, count, bytes, length, error);
    if (codec->kind != RT_CODEC_NONE) return rt_blocks_inspect(codec, count, bytes, length, error);
    return length == count * sizeof(float) ? RINGTREE_OK
                                           : rt_codec_bad(error, codec, count, length, "4 bytes an element are right");
}

static ringtree_status decode(const struct rt_codec *codec, void *target, size_t count, const void *bytes,
                              size_t length, bool add, struct rt_error *error)
{
    const ringtree_status status = rt_codec_inspect(codec, count, bytes, length, error);
    if (status || !count) return status;
    if (codec->kind == RT_CODEC_TOPK) rt_topk_decode(codec, target, count, bytes, length, add);
    else if (codec->kind != RT_CODEC_NONE) rt_blocks_decode(codec, target, count, bytes, add);
    else if (add) rt_reduce(target, target, bytes, count, RINGTREE_FLOAT32, RINGTREE_SUM);
    else rt_copy(target, bytes, length);
    return RINGTREE_OK;
}

ringtree_status rt_codec_decode(const struct rt_codec *codec, void *target, size_t count, const void *bytes,
                                size_t length, struct rt_error *error)
{
    return decode(codec, target, count, bytes, length, false, error);
}

ringtree_status rt_codec_decode_add(const struct rt_codec *codec, void *target, size_t count, const void *bytes,
                                    size_t length, struct rt_error *error)
{
    return decode(codec, target, count, bytes, length, true, error);
}

ringtree_status rt_codec_bad(struct rt_error *error, const struct rt_codec *codec, size_t count, size_t length,
                             const char *why)
{
    return rt_fail(error, RINGTREE_MISMATCH, "%s: %zu bytes are no encoding of %zu elements: %s. Do all ranks name the "
                   "same codec, block and values?", rt_codec_name(codec->kind), length, count, why);
}
