/* The table that each path (scalar, avx2, avx512) fills, and that reduce.c chooses among. */
#ifndef RT_KERNELS_H
#define RT_KERNELS_H

#include <ringtree/ringtree.h>

struct rt_kernels {
    const char *name;
    /* op is SUM, PROD, MAX or MIN; n >= 2 */
    void (*reduce[RINGTREE_TYPE_COUNT])(void *target, const void *const *sources, uint32_t n, size_t count,
                                        ringtree_op op);
    void (*scale[RINGTREE_TYPE_COUNT])(void *target, const void *source, size_t count, const void *scalar);
    void (*divide[RINGTREE_TYPE_COUNT])(void *target, const void *source, size_t count, uint32_t n);
    /* narrow floats only, NULL for the others */
    void (*widen[RINGTREE_TYPE_COUNT])(float *target, const void *source, size_t count);
    void (*narrow[RINGTREE_TYPE_COUNT])(void *target, const float *source, size_t count);
};

extern const struct rt_kernels rt_kernels_scalar;
#if defined(__x86_64__)
extern const struct rt_kernels rt_kernels_avx2, rt_kernels_avx512;
#endif

#endif
