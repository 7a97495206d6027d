/* The first touch of memory, per 4 KiB: what a temporary buffer costs before a byte of it is used. */
#include "limits.h"

#define BYTES ((size_t)32 << 20)

static double touch(const struct memory *memory, size_t page)
{
    const double start = now_ns();
    for (size_t i = 0; i < BYTES; i += page)
        ((volatile unsigned char *)memory->bytes)[i] = 1;
    return (now_ns() - start) / 1e3 / (double)(BYTES / 4096);
}

static void measure(struct limits *limits, enum memory_kind kind, struct figure figure)
{
    double samples[MOST_REPEATS];
    figure.unit = "us";
    for (uint32_t r = 0; r < limits->repeats; r++) {
        struct memory memory = memory_map(BYTES, kind);
        if (!memory.bytes) {
            figure_missing(limits, figure, "no memory");
            return;
        }
        samples[r] = touch(&memory, 4096);
        memory_free(&memory);
    }
    figure_add(limits, figure, samples, limits->repeats);
}

void meter_fault(struct limits *limits)
{
    pin_to(limits->cores[0]);
    measure(limits, MEMORY_SMALL, (struct figure){ .name = "first_touch_anonymous",
            .what = "per 4 KiB, private memory" });
    measure(limits, MEMORY_SHARED, (struct figure){ .name = "first_touch_shared", .what = "per 4 KiB, memfd" });
    measure(limits, MEMORY_HUGE, (struct figure){ .name = "first_touch_huge",
            .what = "per 4 KiB, private memory with MADV_HUGEPAGE" });
}
