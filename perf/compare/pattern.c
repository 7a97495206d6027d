/*
 * Element i of rank r's input is (r + 1) * ((i + seed) mod 16 + 1). The sum over n ranks is n(n+1)/2 of the second
 * factor, below 2^24 for 64 ranks: exact in float32.
 */
#include "pattern.h"

static float element(size_t position, uint32_t seed)
{
    return (float)(((uint32_t)position + seed) % 16 + 1);
}

static size_t blocks_of_input(const struct call *call, uint32_t rank, uint32_t nranks)
{
    switch (call->collective) {
    case REDUCE_SCATTER:
    case ALL_TO_ALL: return nranks;
    case BROADCAST:
    case SCATTER: return rank != call->root ? 0 : call->collective == SCATTER ? nranks : 1;
    case SEND_RECV: return rank == 0;
    case BARRIER: return 0;
    default: return 1;
    }
}

static size_t blocks_of_output(const struct call *call, uint32_t rank, uint32_t nranks)
{
    switch (call->collective) {
    case ALL_GATHER:
    case ALL_TO_ALL: return nranks;
    case REDUCE:
    case GATHER: return rank != call->root ? 0 : call->collective == GATHER ? nranks : 1;
    case SEND_RECV: return rank < 2;
    case BARRIER: return 0;
    default: return 1;
    }
}

size_t input_count(const struct call *call, uint32_t rank, uint32_t nranks)
{
    return call->count * blocks_of_input(call, rank, nranks);
}

size_t output_count(const struct call *call, uint32_t rank, uint32_t nranks)
{
    return call->count * blocks_of_output(call, rank, nranks);
}

void pattern_fill(const struct call *call, uint32_t rank, uint32_t nranks, uint32_t seed)
{
    float       *input = (float *)(uintptr_t)call->input;
    const size_t count = input_count(call, rank, nranks);
    const float  scale = (float)(rank + 1);
    for (size_t i = 0; i < count; i++)
        input[i] = scale * element(i, seed);
}

static uint64_t differ(const float *values, size_t count, float scale, size_t first, uint32_t seed)
{
    uint64_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += values[i] != scale * element(first + i, seed);
    return wrong;
}

uint64_t pattern_wrong(const struct call *call, uint32_t rank, uint32_t nranks, uint32_t seed)
{
    const size_t n = call->count;
    const float  sum = (float)(nranks * (nranks + 1) / 2), root = (float)(call->root + 1);
    uint64_t     wrong = 0;
    if (!output_count(call, rank, nranks)) return 0;
    switch (call->collective) {
    case ALL_REDUCE:
    case REDUCE: return differ(call->output, n, sum, 0, seed);
    case REDUCE_SCATTER: return differ(call->output, n, sum, rank * n, seed);
    case BROADCAST: return differ(call->output, n, root, 0, seed);
    case SCATTER: return differ(call->output, n, root, rank * n, seed);
    case SEND_RECV: return differ(call->output, n, 1, 0, seed);
    case ALL_GATHER:
    case GATHER:
        for (uint32_t r = 0; r < nranks; r++)
            wrong += differ(call->output + r * n, n, (float)(r + 1), 0, seed);
        return wrong;
    case ALL_TO_ALL:
        for (uint32_t r = 0; r < nranks; r++)
            wrong += differ(call->output + r * n, n, (float)(r + 1), rank * n, seed);
        return wrong;
    default: return 0;
    }
}
