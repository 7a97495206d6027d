/* What a piece of memory holds: an expression over the ranks' inputs, hash-consed so that equal ones are one id. */
#ifndef RT_VALUE_H
#define RT_VALUE_H

#include "verify.h"
#include <stddef.h>

#define RT_NOTHING_THERE 0 /* never written */
#define RT_NOT_FOLLOWED  1 /* some chunk that is not followed */
#define RT_EXACT_RANKS   256

struct rt_value {
    uint32_t operand[3]; /* leaf: rank, chunk, slice; reduction: ids or 0; final: id */
    uint8_t  kind;
    bool     final;
    uint32_t chunk, slice;
    uint32_t count; /* of ranks in it */
    uint64_t sum;   /* of their random numbers */
};

struct rt_values {
    struct rt_value *value;
    uint64_t        *bits; /* words per value: the ranks in it; NULL over RT_EXACT_RANKS */
    uint32_t        *table; /* ids by hash */
    uint32_t         count, capacity, words;
    uint32_t         nranks;
    uint64_t         whole; /* sum of all ranks */
};

bool rt_values_open(struct rt_values *values, uint32_t nranks);
void rt_values_close(struct rt_values *values);

/* Each returns an id, or 0 with *verdict saying why (RT_VERDICT_NO_MEMORY included). */
uint32_t rt_value_leaf(struct rt_values *values, uint32_t rank, uint32_t chunk, uint32_t slice,
                       enum rt_verdict *verdict);
uint32_t rt_value_reduce(struct rt_values *values, const uint32_t *operands, uint32_t count, enum rt_verdict *verdict);
uint32_t rt_value_final(struct rt_values *values, uint32_t id, enum rt_verdict *verdict);

/* Every rank's contribution exactly once. */
bool rt_value_whole(const struct rt_values *values, uint32_t id);

#endif
