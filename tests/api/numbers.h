/*
 * Elements whose every partial result is exactly representable, so that any order of combining must give the exact
 * bits, and their encoding: written again here, so that the library is not checked by itself.
 */
#ifndef TEST_NUMBERS_H
#define TEST_NUMBERS_H

#include <ringtree/ringtree.h>
#include <stdbool.h>
#include <stdint.h>

#define NUMBERS_PREMUL 5 /* stands for an op made by ringtree_op_premul_sum() */
#define NUMBERS_OPS    6

/* An element as a number: integers in `i` (two's complement, wrapped to the type), floats in `f`. */
struct number {
    uint64_t i;
    double   f;
};

bool          number_is_float(ringtree_type type);
void          number_store(void *target, ringtree_type type, struct number value); /* exact values only */
struct number number_load(const void *source, ringtree_type type);

/* Element j of rank r among n ranks. */
struct number number_input(ringtree_type type, uint32_t op, uint32_t n, uint32_t r, uint32_t j);
/* The factor of rank r for NUMBERS_PREMUL. */
struct number number_scalar(ringtree_type type, uint32_t r);
/* What all ranks' element j become. */
struct number number_result(ringtree_type type, uint32_t op, uint32_t n, uint32_t j);
/* 0: the result is exact to the bit. Else the allowed distance (the one case whose divisor has too many bits). */
double number_bound(ringtree_type type, uint32_t op, uint32_t n);

const char *number_op_name(uint32_t op);

#endif
