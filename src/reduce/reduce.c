/* The entries of reduce.h: which path runs, and the cases that need no kernel. */
#include "reduce.h"
#include "kernels.h"
#include <stdatomic.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static _Atomic(const struct rt_kernels *) chosen_kernels;

#if defined(__x86_64__)
/* __builtin_cpu_supports() also asks whether the system saves the registers; clang 14's does not know F16C. */
static bool cpu_has_avx2(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C && __builtin_cpu_supports("avx2");
}

static bool cpu_has_avx512(void)
{
    return cpu_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

/* The best path whose name is `name` (NULL: any); NULL when this CPU has none. */
static const struct rt_kernels *find_kernels(const char *name)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if ((!name || !strcmp(name, rt_kernels_avx512.name)) && cpu_has_avx512()) return &rt_kernels_avx512;
    if ((!name || !strcmp(name, rt_kernels_avx2.name)) && cpu_has_avx2()) return &rt_kernels_avx2;
#endif
    return !name || !strcmp(name, rt_kernels_scalar.name) ? &rt_kernels_scalar : NULL;
}

/* Two threads that come here first find the same answer, so it does not matter whose is kept. */
static const struct rt_kernels *kernels(void)
{
    const struct rt_kernels *table = atomic_load_explicit(&chosen_kernels, memory_order_relaxed);
    if (!table) {
        table = find_kernels(NULL);
        atomic_store_explicit(&chosen_kernels, table, memory_order_relaxed);
    }
    return table;
}

const char *rt_reduce_path(void)
{
    return kernels()->name;
}

bool rt_reduce_use(const char *path)
{
    const struct rt_kernels *table = find_kernels(path);
    if (table) atomic_store_explicit(&chosen_kernels, table, memory_order_relaxed);
    return table != NULL;
}

void rt_reduce(void *target, const void *a, const void *b, size_t count, ringtree_type type, ringtree_op op)
{
    const void *sources[2] = { a, b };
    rt_reduce_many(target, sources, 2, count, type, op);
}

void rt_reduce_many(void *target, const void *const *sources, uint32_t n, size_t count, ringtree_type type,
                    ringtree_op op)
{
    if (!count) return;
    if (n > 1) kernels()->reduce[type](target, sources, n, count, op == RINGTREE_AVG ? RINGTREE_SUM : op);
    else if (target != sources[0]) rt_copy(target, sources[0], count * rt_element_bytes(type));
}

void rt_scale(void *target, const void *source, size_t count, ringtree_type type, const void *scalar)
{
    if (count) kernels()->scale[type](target, source, count, scalar);
}

void rt_divide(void *target, const void *source, size_t count, ringtree_type type, uint32_t n)
{
    if (count) kernels()->divide[type](target, source, count, n);
}

bool rt_divides_first(ringtree_type type)
{
    return type == RINGTREE_FLOAT16 || type == RINGTREE_BFLOAT16 || type == RINGTREE_FLOAT8_E4M3 ||
           type == RINGTREE_FLOAT8_E5M2;
}

void rt_widen(float *target, const void *source, size_t count, ringtree_type type)
{
    if (count) kernels()->widen[type](target, source, count);
}

void rt_narrow(void *target, const float *source, size_t count, ringtree_type type)
{
    if (count) kernels()->narrow[type](target, source, count);
}

float rt_to_float(const void *source, ringtree_type type)
{
    float value;
    rt_widen(&value, source, 1, type);
    return value;
}

void rt_from_float(void *target, float value, ringtree_type type)
{
    rt_narrow(target, &value, 1, type);
}
