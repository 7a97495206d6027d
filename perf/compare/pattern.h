/* Inputs that change with every repeat, and what must come out: whole numbers, so that any order of adding is exact. */
#ifndef COMPARE_PATTERN_H
#define COMPARE_PATTERN_H

#include "protocol.h"

/* Elements that the buffers of this call hold on this rank. */
size_t input_count(const struct call *call, uint32_t rank, uint32_t nranks);
size_t output_count(const struct call *call, uint32_t rank, uint32_t nranks);

/* Rewrite this rank's input (in place: where it lies in the output). */
void pattern_fill(const struct call *call, uint32_t rank, uint32_t nranks, uint32_t seed);

/* The number of elements of this rank's output that are not what they must be. */
uint64_t pattern_wrong(const struct call *call, uint32_t rank, uint32_t nranks, uint32_t seed);

#endif
