/* The table that each path (scalar, avx2, avx512) fills. Blocks are whole: a multiple of RT_BLOCK_MIN elements. */
#ifndef RT_CODEC_KERNELS_H
#define RT_CODEC_KERNELS_H

#include "codec.h"

/* What the random numbers of a block are made from. */
struct rt_dice {
    uint32_t key[2];
};

/* Symmetric integers of 8 bits (0) or 4 (1). */
struct rt_codec_kernels {
    const char *name;
    /* the bits of the largest magnitude: NaN and infinity are above all others */
    uint32_t (*peak)(const unsigned char *values, size_t count);
    void (*nearest[2])(unsigned char *codes, const unsigned char *values, size_t count, float inverse);
    void (*stochastic[2])(unsigned char *codes, const unsigned char *values, size_t count, float inverse,
                          struct rt_dice dice);
    void (*decode[2])(unsigned char *target, const unsigned char *codes, size_t count, float scale);
    void (*decode_add[2])(unsigned char *target, const unsigned char *codes, size_t count, float scale);
    /* bit i % 64 of marks[i / 64]: magnitude i >= least, for a multiple of 64 of them */
    void (*mark)(uint64_t *marks, const unsigned char *values, size_t count, uint32_t least);
};

extern const struct rt_codec_kernels rt_codec_kernels_scalar;
#if defined(__x86_64__)
extern const struct rt_codec_kernels rt_codec_kernels_avx2, rt_codec_kernels_avx512;
#endif

/* Those of the path that reduce.h has chosen. */
const struct rt_codec_kernels *rt_codec_kernels(void);

/* The largest code of q8 (0) and q4 (1). */
static inline int rt_levels(int bits4)
{
    return bits4 ? 7 : 127;
}

#endif
