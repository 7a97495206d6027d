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

/* Lines up to this far apart in time are near. */
#define NEAR_NS 150.0

/* `call` has its buffers; `bytes` is what the row is called. Not 0: the library failed. */
int measure_point(struct seat *seat, const struct peer *peer, struct call *call, size_t bytes,
                  const struct options *options, struct point *point);

#endif
