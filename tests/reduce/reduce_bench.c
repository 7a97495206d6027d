/*
 * How fast the kernels are against memcpy in the same run: GB/s of memory traffic (bytes read plus bytes written;
 * memcpy of b bytes counts 2b, n sources of b bytes (n + 1)b), best of several repetitions.
 *
 *     reduce_bench [KiB of each array]...     default: 8 (L1), 256 (L2), 65536
 *     reduce_bench stream                     what going past the caches brings, by size
 */
#include "reduce/reduce.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_SOURCES 16

static const char *const type_names[RINGTREE_TYPE_COUNT] = { "int8",    "uint8",    "int32",       "uint32",
                                                             "int64",   "uint64",   "float16",     "float32",
                                                             "float64", "bfloat16", "float8_e4m3", "float8_e5m2" };
static const char *const path_names[] = { "scalar", "avx2", "avx512" };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static unsigned char *sources[MOST_SOURCES], *target;

struct work {
    void (*run)(const struct work *w);
    size_t bytes; /* of each array */
    uint32_t n;
    ringtree_type type;
    ringtree_op op;
};

static void run_memcpy(const struct work *w)
{
    memcpy(target, sources[0], w->bytes);
}

static void run_copy(const struct work *w)
{
    rt_copy(target, sources[0], w->bytes);
}

static void run_reduce(const struct work *w)
{
    rt_reduce_many(target, (const void *const *)sources, w->n, w->bytes / rt_element_bytes(w->type), w->type, w->op);
}

static void run_stream(const struct work *w)
{
    rt_reduce_many_stream(target, (const void *const *)sources, w->n, w->bytes / rt_element_bytes(w->type), w->type,
                          w->op);
}

static void run_scale(const struct work *w)
{
    rt_scale(target, sources[0], w->bytes / rt_element_bytes(w->type), w->type, sources[0]);
}

static void run_divide(const struct work *w)
{
    rt_divide(target, sources[0], w->bytes / rt_element_bytes(w->type), w->type, 3);
}

static double gigabytes_per_s(struct work w)
{
    const double traffic = (double)w.bytes * (w.n + 1);
    const int calls = w.bytes < 4 << 20 ? (int)((8 << 20) / w.bytes) + 1 : 1;
    double best = 1e9;
    w.run(&w);
    for (int round = 0; round < 7; round++) {
        const double start = now_s();
        for (int i = 0; i < calls; i++) w.run(&w);
        const double each = (now_s() - start) / calls;
        if (each < best) best = each;
    }
    return traffic / best / 1e9;
}

/* Numbers between 1 and 2, so that no subnormal slows the arithmetic; integers of all kinds. */
static void fill(size_t bytes, ringtree_type type)
{
    const size_t count = bytes / rt_element_bytes(type);
    for (uint32_t k = 0; k < MOST_SOURCES; k++)
        for (size_t i = 0; i < count; i++) {
            const uint32_t random = (uint32_t)(i * 2654435761u + k) >> 9;
            const float single = 1 + (float)random / 0x1p23f;
            if (type == RINGTREE_FLOAT32) memcpy(sources[k] + 4 * i, &single, 4);
            else if (type == RINGTREE_FLOAT64) memcpy(sources[k] + 8 * i, &(double){ (double)single }, 8);
            else if (rt_divides_first(type)) rt_from_float(sources[k] + i * rt_element_bytes(type), single, type);
            else memset(sources[k] + i * rt_element_bytes(type), (int)random & 255, rt_element_bytes(type));
        }
}

static void table(size_t bytes)
{
    printf("\n%zu KiB per array: memcpy %.1f GB/s\n", bytes >> 10,
           gigabytes_per_s((struct work){ run_memcpy, bytes, 1, 0, 0 }));
    printf("%-12s %-7s %7s %7s %7s %7s %7s %7s | float sum of n: %5s %7s %7s %7s\n", "type", "path", "sum", "prod",
           "max", "min", "scale", "divide", "3", "4", "8", "16");
    for (ringtree_type type = 0; (int)type < RINGTREE_TYPE_COUNT; type++) {
        fill(bytes, type);
        for (int p = 0; p < 3; p++) {
            if (!rt_reduce_use(path_names[p])) continue;
            printf("%-12s %-7s", type_names[type], path_names[p]);
            for (ringtree_op op = 0; op < 4; op++)
                printf(" %7.1f", gigabytes_per_s((struct work){ run_reduce, bytes, 2, type, op }));
            printf(" %7.1f", gigabytes_per_s((struct work){ run_scale, bytes, 1, type, 0 }));
            printf(" %7.1f |               ", gigabytes_per_s((struct work){ run_divide, bytes, 1, type, 0 }));
            for (uint32_t n = 3; n <= 16 && type >= RINGTREE_FLOAT16; n = n == 3 ? 4 : 2 * n)
                printf(" %7.1f", gigabytes_per_s((struct work){ run_reduce, bytes, n, type, RINGTREE_SUM }));
            printf("\n");
        }
    }
}

static void streams(size_t most)
{
    printf("%10s %9s %9s | float32 sum, plain and streamed: n=2, 4, 8, 16\n", "KiB", "memcpy", "rt_copy");
    for (size_t bytes = 64 << 10; bytes <= most; bytes *= 2) {
        printf("%10zu %9.1f %9.1f |", bytes >> 10, gigabytes_per_s((struct work){ run_memcpy, bytes, 1, 0, 0 }),
               gigabytes_per_s((struct work){ run_copy, bytes, 1, 0, 0 }));
        for (uint32_t n = 2; n <= MOST_SOURCES; n *= 2)
            printf(" %7.1f %7.1f",
                   gigabytes_per_s((struct work){ run_reduce, bytes, n, RINGTREE_FLOAT32, RINGTREE_SUM }),
                   gigabytes_per_s((struct work){ run_stream, bytes, n, RINGTREE_FLOAT32, RINGTREE_SUM }));
        printf("\n");
    }
}

static bool reserve(size_t bytes, uint32_t n)
{
    for (uint32_t k = 0; k <= n; k++) {
        unsigned char *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
        if (!p) return false;
        memset(p, 1, bytes);
        if (k == n) target = p;
        else sources[k] = p;
    }
    return true;
}

int main(int argc, char **argv)
{
    const bool stream = argc > 1 && !strcmp(argv[1], "stream");
    size_t sizes[16] = { 8 << 10, 256 << 10, 64 << 20 }, n = 3, most = 0;
    if (argc > 1)
        for (n = 0; n + 1 < (size_t)argc && n < 16; n++) sizes[n] = (size_t)strtoull(argv[n + 1], NULL, 10) << 10;
    for (size_t i = 0; i < n; i++) most = sizes[i] > most ? sizes[i] : most;
    if (stream) most = (size_t)256 << 20;
    if (!reserve(most, MOST_SOURCES)) return fprintf(stderr, "no memory for arrays of %zu bytes\n", most), 1;
    if (stream) streams(most);
    else
        for (size_t i = 0; i < n; i++) table(sizes[i]);
    return 0;
}
