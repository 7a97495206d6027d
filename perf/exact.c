/*
 * Inputs of reductions, different per rank, position and iteration, such that every partial sum, in any order, is a
 * value of the type: then every algorithm must give the exact bits, and the result has a closed form.
 *
 * At each position a hash draws `start`, an odd factor, a sign and a power of two, the same on all ranks. Rank r has
 * weight x = (r + start) mod period, or 0 when x >= levels, and contributes sign * x * factor * 2^scale. As ranks
 * 0..n-1 walk round the period without gaps, the sum of the weights needs no loop. All terms have one sign, so no
 * partial sum exceeds the total, which is kept at or below the largest integer up to which the type has them all
 * (float8 e5m2: 8). Integer sums wrap, so there the factor is any odd number, which puts bits everywhere.
 *   prod    the weight (0 or 1, at most 6 ones) is an exponent of 2; every third rank's sign is minus
 *   min max the least and the greatest weight in the window
 *   avg     float, double: inputs are multiples of n. Narrow floats are divided before the sum: multiples of n's odd
 *           part. Integers: any, and the quotient is truncated
 *   mulsum  rank r's scalar is 1, 2, 4 or 1/2 (integers: 1, 3, 5, 7) and its input is divided by it beforehand
 */
#include "perf.h"

#include <math.h>

#define MOST_LEVELS 17
#define MOST_TWOS   6 /* prod: 2^6 is a value of every type */

/* The finaliser of splitmix64 (Steele, Lea, Flood 2014): every input bit moves every output bit. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint32_t below(uint32_t random, uint32_t limit)
{
    return (uint32_t)((uint64_t)random * limit >> 32);
}

uint64_t moved_bits(uint32_t rank, size_t position, uint32_t iteration)
{
    const uint64_t who = ((uint64_t)rank << 40) * 0x9e3779b97f4a7c15u, when = (iteration + 1ull) * 0xd1342543de82ef95u;
    return mix(position + who + when);
}

static uint32_t odd_part(uint32_t n)
{
    while (n % 2 == 0) n /= 2;
    return n;
}

/* ---- how large the weights may be */

/* The greatest sum of the weights of n consecutive ranks. */
static double most_total(const struct exact *exact)
{
    const double m = exact->levels, n = exact->nranks;
    return fmin(n * (m - 1), ceil(n / exact->period) * m * (m - 1) / 2);
}

static uint32_t at_most(double value, uint32_t limit)
{
    return value < limit ? (uint32_t)value : limit;
}

static void choose_weights(struct exact *exact, double most)
{
    const uint32_t n = exact->nranks;
    exact->levels = 2;
    if (exact->op == RINGTREE_MIN || exact->op == RINGTREE_MAX) {
        exact->levels = exact->period = at_most(fmin(most, 4.0 * n + 3), 4096);
        return;
    }
    if (exact->op == RINGTREE_PROD) most = MOST_TWOS;
    else if (most >= n) exact->levels = at_most(most / n + 1, MOST_LEVELS);
    exact->period = exact->levels;
    if (most < n) exact->period = (uint32_t)fmax(2, ceil(n / most));
}

static bool wraps(const struct exact *exact)
{
    return !type_is_float(exact->type) && (exact->op == RINGTREE_SUM || exact->op == OP_MULSUM);
}

void exact_prepare(struct exact *exact, ringtree_type type, uint32_t op, uint32_t nranks)
{
    const bool   real = type_is_float(type), narrow = type_is_narrow(type), avg = op == RINGTREE_AVG;
    const double most = type_exact_most(type);
    *exact = (struct exact){ .type = type, .op = op, .nranks = nranks, .unit = 1, .scales = 1 };
    if (real && op != RINGTREE_PROD) {
        exact->scale_least = avg ? 0 : -2;
        exact->scales = avg ? 3 : 5;
    }
    if (avg && real) exact->unit = narrow ? odd_part(nranks) : nranks;
    const double finest = (double)odd_part(nranks) / nranks; /* a weight of 1, divided */
    if (avg && narrow && ((double)exact->unit > most || finest < type_least(type))) {
        exact->bounded = true;
        exact->unit = 1;
    }
    choose_weights(exact, avg && real && !narrow ? most / nranks : most);
    const bool order = op == RINGTREE_MIN || op == RINGTREE_MAX;
    double room = most / (order ? exact->levels - 1 : most_total(exact));
    if (avg && real && !narrow) room /= nranks;
    if (avg && narrow) room = fmin(room, most / ((double)exact->unit * (exact->levels - 1)));
    exact->factor_most = wraps(exact) ? 0 : (uint64_t)fmax(1, room);
}

/* ---- one position */

struct draw {
    uint64_t factor;
    uint32_t start, sign_start;
    int      scale;
    bool     negative;
};

static struct draw draw_at(const struct exact *exact, size_t position, uint32_t iteration)
{
    const uint64_t a = mix(position + ((uint64_t)iteration + 1) * 0x9e3779b97f4a7c15u), b = mix(a);
    struct draw draw = { .start = below((uint32_t)a, exact->period), .factor = b | 1 };
    draw.sign_start = below((uint32_t)(a >> 32), 3);
    draw.negative = type_is_signed(exact->type) && (b >> 62 & 1);
    draw.scale = exact->scale_least + (int)below((uint32_t)(b >> 20), exact->scales);
    if (exact->factor_most) {
        uint64_t odds = (exact->factor_most + 1) / 2;
        draw.factor = 2 * (b % odds) + 1;
    }
    return draw;
}

static uint32_t weight_of(const struct exact *exact, const struct draw *draw, uint32_t rank)
{
    const uint32_t x = (rank % exact->period + draw->start) % exact->period;
    return x < exact->levels ? x : 0;
}

/* Sum of the weights of x = 0 .. k-1, k <= period. */
static uint64_t sum_to(const struct exact *exact, uint32_t k)
{
    const uint64_t m = k < exact->levels ? k : exact->levels;
    return m ? m * (m - 1) / 2 : 0;
}

static uint64_t sum_of_weights(const struct exact *exact, const struct draw *draw)
{
    const uint32_t rest = exact->nranks % exact->period, end = draw->start + rest;
    uint64_t total = exact->nranks / exact->period * sum_to(exact, exact->period);
    if (end <= exact->period) return total + sum_to(exact, end) - sum_to(exact, draw->start);
    return total + sum_to(exact, exact->period) - sum_to(exact, draw->start) + sum_to(exact, end - exact->period);
}

/* MIN and MAX have levels == period. */
static uint32_t extreme_weight(const struct exact *exact, const struct draw *draw, bool greatest)
{
    const uint32_t end = draw->start + exact->nranks;
    if (end > exact->period) return greatest ? exact->period - 1 : 0;
    return greatest ? end - 1 : draw->start;
}

static bool minus_at(const struct exact *exact, const struct draw *draw, uint32_t rank)
{
    return type_is_signed(exact->type) && (rank + draw->sign_start) % 3 == 0;
}

/* How many of x = start .. start + n - 1 are multiples of 3: odd? */
static bool minus_in_all(const struct exact *exact, const struct draw *draw)
{
    const uint32_t start = draw->sign_start, count = (start + exact->nranks + 2) / 3 - (start + 2) / 3;
    return type_is_signed(exact->type) && count % 2;
}

/* sign * weight * factor * unit * 2^scale, in both forms */
static struct number make(const struct exact *exact, const struct draw *draw, uint64_t weight)
{
    const uint64_t whole = weight * draw->factor * exact->unit;
    struct number  value = { .whole = draw->negative ? 0 - whole : whole };
    value.real = type_is_float(exact->type) ? ldexp((double)whole, draw->scale) : (double)whole;
    if (draw->negative && whole) value.real = -value.real;
    return value;
}

static struct number power_of_two(uint64_t exponent, bool negative)
{
    const uint64_t whole = (uint64_t)1 << exponent;
    return (struct number){ .whole = negative ? 0 - whole : whole, .real = negative ? -(double)whole : (double)whole };
}

/* The inverse of an odd number modulo 2^64, by Newton's iteration: each step doubles the right bits, 3 at first. */
static uint64_t inverse_of(uint64_t odd)
{
    uint64_t x = odd;
    for (int step = 0; step < 5; step++)
        x *= 2 - odd * x;
    return x;
}

struct number exact_scalar(uint32_t rank)
{
    static const double scalars[4] = { 1, 2, 4, 0.5 };
    return (struct number){ .real = scalars[rank % 4], .whole = 2 * (rank % 4) + 1 };
}

struct number exact_input(const struct exact *exact, uint32_t rank, size_t position, uint32_t iteration)
{
    const struct draw draw = draw_at(exact, position, iteration);
    const uint32_t    weight = weight_of(exact, &draw, rank);
    if (exact->op == RINGTREE_PROD) return power_of_two(weight, minus_at(exact, &draw, rank));
    struct number value = make(exact, &draw, weight);
    if (exact->op == OP_MULSUM) {
        const struct number scalar = exact_scalar(rank);
        value.real /= scalar.real;
        value.whole *= inverse_of(scalar.whole);
    }
    return value;
}

struct number exact_result(const struct exact *exact, size_t position, uint32_t iteration)
{
    const struct draw draw = draw_at(exact, position, iteration);
    if (exact->op == RINGTREE_MIN || exact->op == RINGTREE_MAX)
        return make(exact, &draw, extreme_weight(exact, &draw, (exact->op == RINGTREE_MAX) != draw.negative));
    const uint64_t total = sum_of_weights(exact, &draw);
    if (exact->op == RINGTREE_PROD) return power_of_two(total, minus_in_all(exact, &draw));
    struct number value = make(exact, &draw, total);
    if (exact->op == RINGTREE_AVG) {
        const uint64_t quotient = total * draw.factor / exact->nranks;
        value.real /= exact->nranks;
        value.whole = draw.negative ? 0 - quotient : quotient;
    }
    return value;
}

/* Each of at most n roundings moves the sum by half a unit in the last place of a partial sum, and of a subnormal. */
double exact_bound(const struct exact *exact, double result)
{
    return exact->nranks * (fabs(result) / type_exact_most(exact->type) + type_least(exact->type));
}
