/* The table that each path (scalar, avx2, avx512) fills. Blocks are whole: a multiple of RT_BLOCK_MIN elements. */
#ifndef RT_CODEC_KERNELS_H
#define RT_CODEC_KERNELS_H

#include "codec.h"

/* What the random numbers of a block are made from. */
struct rt_dice {
    uint32_t key[2];
};

/* What a block's codes are. The integers are symmetric and have a scale; the floats take no notice of it. */
enum rt_codes { RT_CODES_INT8, RT_CODES_INT4, RT_CODES_BF16, RT_CODES_FP16, RT_CODES_COUNT };

/* bf16 and fp16 take and give finite values that 16 bits can hold. */
struct rt_codec_kernels {
    const char *name;
    /* the bits of the largest magnitude: NaN and infinity are above all others */
    uint32_t (*peak)(const unsigned char *values, size_t count);
    void (*nearest[RT_CODES_COUNT])(unsigned char *codes, const unsigned char *values, size_t count, float inverse);
    void (*stochastic[2])(unsigned char *codes, const unsigned char *values, size_t count, float inverse,
                          struct rt_dice dice);
    void (*decode[RT_CODES_COUNT])(unsigned char *target, const unsigned char *codes, size_t count, float scale);
    void (*decode_add[RT_CODES_COUNT])(unsigned char *target, const unsigned char *codes, size_t count, float scale);
    /* is a code one that no encoder writes? */
    bool (*has_unused[RT_CODES_COUNT])(const unsigned char *codes, size_t bytes);
    /* bit i % 64 of marks[i / 64]: magnitude i >= least, for a multiple of 64 of them */
    void (*mark)(uint64_t *marks, const unsigned char *values, size_t count, uint32_t least);
    /* the bits of those with magnitudes >= least, and their places, of a multiple of 64 values; `least` is not 0. May
     * write 64 more than it returns */
    size_t (*collect)(uint32_t *found, uint32_t *places, const unsigned char *values, size_t count,
                      uint32_t least);
    /* the same of residual += values; residual and values do not overlap */
    size_t (*collect_sum)(uint32_t *found, uint32_t *places, unsigned char *residual, const unsigned char *values,
                          size_t count, uint32_t least);
};

extern const struct rt_codec_kernels rt_codec_kernels_scalar;
#if defined(__x86_64__)
extern const struct rt_codec_kernels rt_codec_kernels_avx2, rt_codec_kernels_avx512;
#endif

/* Those of the path that reduce.h has chosen. */
const struct rt_codec_kernels *rt_codec_kernels(void);

#endif
