/* One point: one collective at one size, timed and checked. */
#ifndef COMPARE_MEASURE_H
#define COMPARE_MEASURE_H

#include "board.h"
#include "protocol.h"

struct point {
    double   us, p50_us, p99_us, least_us; /* us: the figure that is compared */
    double   line_ns[2];                   /* before and after */
    uint32_t repeats, tries;               /* of one timing; of the point, where the cores' distance changed */
    uint64_t wrong;
    bool     dirty;
};

/* From here on inputs are rewritten before each operation. */
#define DIRTY_BYTES 16384u

/*
 * Classes of the time of a line: up to TWIN_NS the two processors are one core's hyperthreads (13 ns seen), up to
 * NEAR_NS two cores beside each other (60-80 ns), else far (200-280 ns). Hosts move virtual processors between them.
 */
#define TWIN_NS 30.0
#define NEAR_NS 120.0

/* `call` has its buffers; `bytes` is what the row is called. Not 0: the library failed. */
int measure_point(struct seat *seat, const struct peer *peer, struct call *call, size_t bytes,
                  const struct options *options, struct point *point);

#endif
