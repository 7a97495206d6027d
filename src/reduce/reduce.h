/*
 * Element kernels: type x op, scalar and SIMD, chosen at run time from the CPU; every path gives the same bits.
 * Pointers need no alignment. A target may be the very same pointer as a source, but not overlap it otherwise.
 * Narrow floats (float16, bfloat16, float8) are widened to float32, combined, and rounded once to nearest even.
 * NaN propagates in every op, as the positive quiet NaN without payload whatever NaN came in. min and max order -0
 * below +0. float8_e4m3 has no infinity: what is too large becomes NaN. With n = 1 the bits are copied.
 * AVG is SUM here: see rt_divide() and rt_scale().
 */
#ifndef RT_REDUCE_H
#define RT_REDUCE_H

#include <ringtree/ringtree.h>
#include <stdbool.h>

/* target[i] = a[i] op b[i]. `op` is one of the five built in. */
void rt_reduce(void *target, const void *a, const void *b, size_t count, ringtree_type type, ringtree_op op);

/*
 * target[i] = sources[0][i] op sources[1][i] op ...: strictly in that order, `n` >= 1 of them, the running value
 * held in float32 for narrow floats and rounded once. Reads all sources of a block before it writes the block, so
 * target may be one of them.
 */
void rt_reduce_many(void *target, const void *const *sources, uint32_t n, size_t count, ringtree_type type,
                    ringtree_op op);

/*
 * As rt_reduce_many(), but the result goes past the caches to memory: 1.2 to 1.5 times as fast with n = 2 where
 * the arrays do not fit in L2, no faster from n = 8 on. Whoever reads the result next reads it from memory. Figures in
 * copy.c.
 * The result is complete, for other threads and processes too, when it returns.
 */
void rt_reduce_many_stream(void *target, const void *const *sources, uint32_t n, size_t count, ringtree_type type,
                           ringtree_op op);

/* target[i] = source[i] * *scalar (float32 arithmetic for narrow floats; integers wrap). target may equal source. */
void rt_scale(void *target, const void *source, size_t count, ringtree_type type, const void *scalar);

/* target[i] = source[i] / n, as AVG does it: integers truncate, narrow floats in float32. target may equal source. */
void rt_divide(void *target, const void *source, size_t count, ringtree_type type, uint32_t n);

/* AVG divides narrow floats before the sum (true), the others after (false). */
bool rt_divides_first(ringtree_type type);

/* memcpy that streams past the caches when `bytes` is 32 MiB or more; target may equal source. Figures in copy.c. */
void rt_copy(void *target, const void *source, size_t bytes);

/* memcpy past the caches whatever the size; complete, for others too, when it returns. */
void rt_copy_stream(void *target, const void *source, size_t bytes);

/* Conversions, exact or rounded to nearest even; for tests, codecs and the benchmark's verification. */
float    rt_to_float(const void *source, ringtree_type type);          /* narrow floats */
void     rt_from_float(void *target, float value, ringtree_type type); /* narrow floats */

/* The same for arrays. Pointers as everywhere here; the arrays must not overlap. */
void rt_widen(float *target, const void *source, size_t count, ringtree_type type);
void rt_narrow(void *target, const float *source, size_t count, ringtree_type type);

/*
 * "avx512", "avx2", "scalar": which path runs. rt_reduce_use("scalar") forces one, for tests; false: not on this CPU.
 */
const char *rt_reduce_path(void);
bool rt_reduce_use(const char *path);

/* As ringtree_type_size(), for a value that is a type. */
size_t rt_element_bytes(ringtree_type type);

#endif
