/*
 * Data that the other core has just written: side 0 rewrites a buffer, side 1 copies it into one of its own, timed.
 * No collective on shared memory can move its operands faster.
 */
#include "limits.h"

#include <string.h>

#define LEAST_BYTES_TIMED ((size_t)256 << 10) /* small sizes are summed over so many bytes for each sample */

struct fresh {
    struct memory source, target;
    size_t        bytes;
    uint32_t      repeats;
    double        samples[MOST_REPEATS];
};

static double read_once(struct side *side, const struct fresh *fresh, int value)
{
    double took = 0;
    if (side->number == 0) memset(fresh->source.bytes, value, fresh->bytes);
    pair_meet(side);
    if (side->number == 1) {
        const double start = now_ns();
        copy_plain(fresh->target.bytes, fresh->source.bytes, fresh->bytes);
        took = now_ns() - start;
    }
    pair_meet(side);
    return took;
}

static void side_of_fresh(struct side *side)
{
    struct fresh  *fresh = side->context;
    const uint32_t rounds = fresh->bytes < LEAST_BYTES_TIMED ? (uint32_t)(LEAST_BYTES_TIMED / fresh->bytes) : 1;
    read_once(side, fresh, 0);
    for (uint32_t r = 0; r < fresh->repeats; r++) {
        double took = 0;
        for (uint32_t i = 0; i < rounds; i++)
            took += read_once(side, fresh, (int)(r + i));
        if (side->number == 1) fresh->samples[r] = (double)fresh->bytes * rounds / took;
    }
}

static void measure(struct limits *limits, size_t bytes)
{
    struct figure figure = { .name = "fresh_read", .unit = "GB/s", .bytes = bytes,
                             .what = "copying what the other core has just written" };
    struct fresh  fresh = { .source = memory_new(bytes, MEMORY_SMALL), .target = memory_new(bytes, MEMORY_SMALL),
                            .bytes = bytes, .repeats = limits->repeats };
    if (limits->cores[0] == limits->cores[1]) figure_missing(limits, figure, "one core only");
    else if (!fresh.source.bytes || !fresh.target.bytes) figure_missing(limits, figure, "no memory");
    else if (!pair_run(limits->cores, side_of_fresh, &fresh)) figure_missing(limits, figure, "cannot pin two threads");
    else figure_add(limits, figure, fresh.samples, fresh.repeats);
    memory_free(&fresh.source);
    memory_free(&fresh.target);
}

void meter_fresh(struct limits *limits)
{
    for (size_t bytes = (size_t)4 << 10; bytes <= (size_t)16 << 20; bytes *= 4)
        measure(limits, bytes);
}
