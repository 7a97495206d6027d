/*
 * Copying within one core's caches and from memory, with one core and with both at it. Rates are bytes copied per
 * second by each core; the traffic behind them is `traffic` times that, in the caches none.
 */
#include "limits.h"

#include <string.h>

#define BYTES_TIMED ((size_t)8 << 20) /* at least so many for each sample */

enum way { WAY_LIBC, WAY_PLAIN, WAY_STREAMING };

struct copying {
    struct memory source[2], target[2];
    size_t        bytes;
    uint32_t      repeats, cores;
    enum way      way;
    double        samples[2][MOST_REPEATS];
};

static void copy_once(const struct copying *copying, unsigned side)
{
    unsigned char *target = copying->target[side].bytes;
    switch (copying->way) {
    case WAY_LIBC:      memcpy(target, copying->source[side].bytes, copying->bytes); break;
    case WAY_PLAIN:     copy_plain(target, copying->source[side].bytes, copying->bytes); break;
    case WAY_STREAMING: copy_streaming(target, copying->source[side].bytes, copying->bytes); break;
    }
    __asm__ volatile("" ::: "memory"); /* or all copies but the last may be left out */
}

static void side_of_copying(struct side *side)
{
    struct copying *copying = side->context;
    const uint32_t  rounds = copying->bytes < BYTES_TIMED ? (uint32_t)(BYTES_TIMED / copying->bytes) : 1;
    if (side->number >= copying->cores) return;
    copy_once(copying, side->number);
    for (uint32_t r = 0; r < copying->repeats; r++) {
        if (copying->cores == 2) pair_meet(side);
        const double start = now_ns();
        for (uint32_t i = 0; i < rounds; i++)
            copy_once(copying, side->number);
        copying->samples[side->number][r] = (double)copying->bytes * rounds / (now_ns() - start);
    }
}

/* The sides of one repeat overlap but for its ends: each sample is the mean of both rates. */
static void merge(struct copying *copying)
{
    for (uint32_t r = 0; copying->cores == 2 && r < copying->repeats; r++)
        copying->samples[0][r] = (copying->samples[0][r] + copying->samples[1][r]) / 2;
}

static void measure(struct limits *limits, enum way way, uint32_t cores, struct figure figure)
{
    struct copying copying = { .bytes = figure.bytes / LINE * LINE, .repeats = limits->repeats, .cores = cores,
                               .way = way };
    bool           room = true;
    figure.unit = "GB/s";
    figure.count = cores;
    for (uint32_t i = 0; i < cores; i++) {
        copying.source[i] = memory_new(figure.bytes, MEMORY_SMALL);
        copying.target[i] = memory_new(figure.bytes, MEMORY_SMALL);
        room = room && copying.source[i].bytes && copying.target[i].bytes;
    }
    if (cores == 2 && limits->cores[0] == limits->cores[1]) figure_missing(limits, figure, "one core only");
    else if (way == WAY_STREAMING && !copy_can_stream()) figure_missing(limits, figure, "the processor has no AVX2");
    else if (!room) figure_missing(limits, figure, "no memory");
    else if (!pair_run(limits->cores, side_of_copying, &copying)) figure_missing(limits, figure, "cannot pin threads");
    else {
        merge(&copying);
        figure_add(limits, figure, copying.samples[0], copying.repeats);
    }
    for (uint32_t i = 0; i < cores; i++) {
        memory_free(&copying.source[i]);
        memory_free(&copying.target[i]);
    }
}

void meter_copy(struct limits *limits)
{
    static const size_t in_cache[] = { 16u << 10, 256u << 10, 1u << 20 };
    for (size_t i = 0; i < sizeof(in_cache) / sizeof(*in_cache); i++)
        measure(limits, WAY_LIBC, 1, (struct figure){ .name = "memcpy_cache", .bytes = in_cache[i],
                .what = "memcpy() on buffers of its own, again and again" });
    for (uint32_t cores = 1; cores <= 2; cores++) {
        const size_t bytes = limits->beyond_caches;
        measure(limits, WAY_LIBC, cores, (struct figure){ .name = "memcpy_memory", .bytes = bytes,
                .what = "memcpy() from memory to memory, per core" });
        measure(limits, WAY_PLAIN, cores, (struct figure){ .name = "copy_memory", .bytes = bytes, .traffic = 3,
                .what = "the same with cached stores: read, fetch, write back" });
        measure(limits, WAY_STREAMING, cores, (struct figure){ .name = "copy_memory_streaming", .bytes = bytes,
                .traffic = 2, .what = "the same with non-temporal stores: read, write" });
    }
}
