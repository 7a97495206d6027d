/*
 * How fast the codecs are beside memcpy in the same run: every round times each of them once, in turn, so that what
 * slows the machine slows all; medians over the rounds. Speeds are GB/s of float32 elements, memcpy's are of bytes
 * copied, so that 1.0 x means: encoding an array takes as long as copying it.
 *
 *     codec_meter [scalar|avx2|avx512] [KiB of float32]...      default: every path; 256 4096 65536
 *
 * Exit 1 if q8 encodes under 0.8, or adds what it decodes under 1.0, or the largest 1 % are found under 0.4 times
 * memcpy's speed at the largest size.
 */
#include "codec/codec.h"
#include "reduce/reduce.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 15
#define SIZES_MAX 8

static float *values, *target;
static uint8_t *bytes;
static uint32_t *scratch;
static size_t count, length;
static struct rt_codec_report report;

static const struct rt_codec bf16 = { .kind = RT_CODEC_BF16 }, fp16 = { .kind = RT_CODEC_FP16 };
static const struct rt_codec q8 = { .kind = RT_CODEC_Q8 }, q4 = { .kind = RT_CODEC_Q4 };
static const struct rt_codec q8_dice = { .kind = RT_CODEC_Q8, .rounding = RT_ROUND_STOCHASTIC };
static const struct rt_codec topk = { .kind = RT_CODEC_TOPK, .ratio = 0.01f };

static void run_copy(const struct rt_codec *codec)
{
    (void)codec;
    memcpy(target, values, count * sizeof *values);
}

static struct rt_part part_of(const struct rt_codec *codec)
{
    struct rt_part part = { .count = count };
    if (codec->kind == RT_CODEC_TOPK) part.cut = rt_topk_select(values, 0, count, rt_topk_kept(codec, count), scratch);
    return part;
}

/* topk's cut is found before the clock starts. */
static struct rt_part prepared;

static void run_encode(const struct rt_codec *codec)
{
    length = rt_codec_encode(codec, &prepared, values, NULL, bytes, &report);
}

static void run_feedback(const struct rt_codec *codec)
{
    length = rt_codec_encode(codec, &prepared, values, target, bytes, &report);
}

static void run_decode(const struct rt_codec *codec)
{
    if (rt_codec_decode(codec, target, count, bytes, length, NULL)) abort();
}

static void run_decode_add(const struct rt_codec *codec)
{
    if (rt_codec_decode_add(codec, target, count, bytes, length, NULL)) abort();
}

static void run_select(const struct rt_codec *codec)
{
    prepared.cut = rt_topk_select(values, 0, count, rt_topk_kept(codec, count), scratch);
}

static const struct work {
    const char            *name;
    void                 (*run)(const struct rt_codec *codec);
    const struct rt_codec *codec;
    double                 least; /* times memcpy's speed; 0: not asked for */
} works[] = {
    { "memcpy", run_copy, &q8, 0 },
    { "q8 encode", run_encode, &q8, 0.8 },
    { "q8 encode, stochastic", run_encode, &q8_dice, 0 },
    { "q8 encode, feedback", run_feedback, &q8, 0 },
    { "q8 decode", run_decode, &q8, 0 },
    { "q8 decode-add", run_decode_add, &q8, 1.0 },
    { "q4 encode", run_encode, &q4, 0 },
    { "q4 decode-add", run_decode_add, &q4, 0 },
    { "bf16 encode", run_encode, &bf16, 0 },
    { "bf16 decode-add", run_decode_add, &bf16, 0 },
    { "fp16 encode", run_encode, &fp16, 0 },
    { "fp16 decode-add", run_decode_add, &fp16, 0 },
    { "topk 1 % select", run_select, &topk, 0.4 },
    { "topk 1 % encode", run_encode, &topk, 0 },
    { "topk 1 % decode-add", run_decode_add, &topk, 0 },
};
#define WORKS (sizeof works / sizeof *works)

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of one run; short ones are repeated to about 8 MiB of work. */
static double time_of(const struct work *work)
{
    const size_t array = count * sizeof *values, calls = array < (8 << 20) ? (8 << 20) / array : 1;
    prepared = part_of(work->codec);
    if (work->run == run_decode || work->run == run_decode_add) run_encode(work->codec);
    const double start = now_s();
    for (size_t i = 0; i < calls; i++) work->run(work->codec);
    return (now_s() - start) / (double)calls;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Returns how many were slower than is asked for. */
static int measure(const char *path, double *copied)
{
    double seconds[WORKS][ROUNDS];
    int slow = 0;
    for (int round = -1; round < ROUNDS; round++)
        for (size_t w = 0; w < WORKS; w++) {
            const double s = time_of(&works[w]);
            if (round >= 0) seconds[w][round] = s;
        }
    for (size_t w = 0; w < WORKS; w++) {
        qsort(seconds[w], ROUNDS, sizeof **seconds, by_value);
        const double speed = (double)(count * sizeof *values) / seconds[w][ROUNDS / 2] / 1e9;
        if (!w) *copied = speed;
        slow += speed < works[w].least * *copied;
        printf("%9zu  %-7s %-24s %7.2f GB/s %6.2f x memcpy", count * sizeof *values >> 10, path, works[w].name, speed,
               speed / *copied);
        if (works[w].least > 0) printf("   asked for: %.1f", works[w].least);
        printf("\n");
    }
    return slow;
}

/* Normally distributed, near enough: a sum of twelve. */
static void fill(size_t most)
{
    uint64_t state = 1;
    for (size_t i = 0; i < most; i++) {
        float sum = -6;
        for (int j = 0; j < 12; j++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            sum += (float)(state >> 40) * 0x1p-24f;
        }
        values[i] = sum * 1e-3f;
    }
}

static void *memory(size_t size)
{
    void *p = aligned_alloc(4096, (size + 8191) / 4096 * 4096);
    if (!p) {
        fprintf(stderr, "codec_meter: no memory for %zu bytes\n", size);
        exit(2);
    }
    return memset(p, 0, size);
}

int main(int argc, char **argv)
{
    static const char *const paths[] = { "scalar", "avx2", "avx512" };
    size_t sizes[SIZES_MAX] = { 256, 4096, 65536 }, n = 3, most = 0;
    const char *only = argc > 1 && rt_reduce_use(argv[1]) ? argv[1] : NULL;
    const int first = only ? 2 : 1;
    int slow = 0;
    if (argc > first)
        for (n = 0; n + (size_t)first < (size_t)argc && n < SIZES_MAX; n++)
            sizes[n] = (size_t)strtoull(argv[n + (size_t)first], NULL, 10);
    for (size_t i = 0; i < n; i++) most = sizes[i] > most ? sizes[i] : most;
    if (!most) return fprintf(stderr, "codec_meter [scalar|avx2|avx512] [KiB of float32]...\n"), 2;
    most = most * 1024 / sizeof *values;
    values = memory(most * sizeof *values);
    target = memory(most * sizeof *values);
    bytes = memory(rt_codec_max_bytes(&q8, most));
    scratch = memory(rt_topk_scratch(most, rt_topk_kept(&topk, most)) * sizeof *scratch);
    fill(most);
    for (size_t i = 0; i < n; i++)
        for (int p = 0; p < 3; p++) {
            double copied;
            count = sizes[i] * 1024 / sizeof *values;
            if (!count || (only && strcmp(only, paths[p])) || !rt_reduce_use(paths[p])) continue;
            slow = measure(paths[p], &copied); /* the last is the one that runs unless told otherwise */
        }
    return slow != 0;
}
