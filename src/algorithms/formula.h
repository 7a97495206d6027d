/* What several formulas share. */
#ifndef RT_FORMULA_H
#define RT_FORMULA_H

#include "step.h"

/* Counts for `lanes` and `chunks`. */
uint32_t rt_one(const struct rt_shape *shape);
uint32_t rt_one_per_rank(const struct rt_shape *shape);

/* INPUT[source] -> OUTPUT[target]. */
struct rt_step rt_own_block(uint32_t source, uint32_t target);

/* The whole program of a single rank that reduces: its input is the result. */
struct rt_step rt_alone(void);

/* The largest power of two <= n, for n >= 1. */
uint32_t rt_power_below(uint32_t n);
/* The least k with 2^k >= n. */
uint32_t rt_log2_up(uint32_t n);

/* halving.c, for hierarchy.c: all-reduce of n ranks over `rt_power_below(n)` chunks, both counted from 0. */
uint32_t rt_halving_steps(uint32_t n, uint32_t rank);
struct rt_step rt_halving_step(uint32_t n, uint32_t rank, uint32_t index);

#endif
