/*
 * What the kernels should give, by definition and one element at a time, written independently of them: a narrow
 * float is the number its fields spell, rounding is a search for the nearest one in a table of all of them.
 */
#ifndef RT_REDUCE_REFERENCE_H
#define RT_REDUCE_REFERENCE_H

#include "reduce/reduce.h"
#include "test.h"
#include <math.h>

struct narrow_format {
    int  exponent_bits, mantissa_bits;
    bool has_infinity;
};

static const char *const type_names[RINGTREE_TYPE_COUNT] = { "int8",    "uint8",    "int32",       "uint32",
                                                             "int64",   "uint64",   "float16",     "float32",
                                                             "float64", "bfloat16", "float8_e4m3", "float8_e5m2" };
static const char *const op_names[] = { "sum", "prod", "max", "min", "avg" };
static const char *const path_names[] = { "scalar", "avx2", "avx512" };

static inline struct narrow_format format_of(ringtree_type type)
{
    if (type == RINGTREE_FLOAT16) return (struct narrow_format){ 5, 10, true };
    if (type == RINGTREE_BFLOAT16) return (struct narrow_format){ 8, 7, true };
    if (type == RINGTREE_FLOAT8_E4M3) return (struct narrow_format){ 4, 3, false };
    return (struct narrow_format){ 5, 2, true };
}

static inline bool is_narrow(ringtree_type type)
{
    return type == RINGTREE_FLOAT16 || type >= RINGTREE_BFLOAT16;
}

static inline bool is_float(ringtree_type type)
{
    return type >= RINGTREE_FLOAT16;
}

static inline bool is_signed(ringtree_type type)
{
    return type == RINGTREE_INT8 || type == RINGTREE_INT32 || type == RINGTREE_INT64;
}

static inline size_t bytes_of(ringtree_type type)
{
    static const size_t bytes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1 };
    return bytes[type];
}

static inline uint32_t sign_of(ringtree_type type)
{
    return bytes_of(type) == 2 ? 0x8000 : 0x80;
}

static inline double spelled(uint32_t code, ringtree_type type)
{
    const struct narrow_format f = format_of(type);
    const int bias = (1 << (f.exponent_bits - 1)) - 1, ones = (1 << f.exponent_bits) - 1;
    const uint32_t magnitude = code & (sign_of(type) - 1);
    const int exponent = (int)(magnitude >> f.mantissa_bits), mantissa = (int)magnitude & ((1 << f.mantissa_bits) - 1);
    double value = exponent ? ldexp(1.0 + ldexp(mantissa, -f.mantissa_bits), exponent - bias)
                            : ldexp(mantissa, 1 - bias - f.mantissa_bits);
    if (f.has_infinity && exponent == ones) value = mantissa ? NAN : INFINITY;
    if (!f.has_infinity && magnitude == sign_of(type) - 1) value = NAN;
    return code & sign_of(type) ? -value : value;
}

static inline uint32_t canonical_nan(ringtree_type type)
{
    if (type == RINGTREE_FLOAT16) return 0x7e00;
    if (type == RINGTREE_BFLOAT16) return 0x7fc0;
    return type == RINGTREE_FLOAT8_E4M3 ? 0x7f : 0x7e;
}

/* The code nearest to `value`; of two equally near the even one. One past the largest number means overflow. */
static inline uint32_t nearest(double value, ringtree_type type)
{
    const struct narrow_format f = format_of(type);
    const uint32_t sign = signbit(value) ? sign_of(type) : 0;
    const uint32_t past = f.has_infinity ? ((1u << f.exponent_bits) - 1) << f.mantissa_bits : sign_of(type) - 1;
    uint32_t low = 0, high = past;
    if (isnan(value)) return canonical_nan(type);
    value = fabs(value);
    while (high - low > 1) {
        const uint32_t middle = (low + high) / 2;
        if (spelled(middle, type) <= value) low = middle;
        else high = middle;
    }
    const double below = spelled(low, type), ulp = below - spelled(low - 1, type);
    const double above = high == past ? below + ulp : spelled(high, type);
    const bool up = value - below > above - value || (value - below == above - value && low & 1);
    const uint32_t code = up ? high : low;
    return code == past && !f.has_infinity ? canonical_nan(type) : code | sign;
}

/* ------------------------------------------------------------------ arithmetic */

static inline double extreme(double a, double b, bool most)
{
    if (isnan(a) || isnan(b)) return NAN;
    if (a == b) return (signbit(a) != 0) == most ? b : a; /* -0 is below +0 */
    return (a > b) == most ? a : b;
}

static inline uint64_t load_integer(const unsigned char *p, ringtree_type type)
{
    const size_t bytes = bytes_of(type);
    uint64_t value = 0;
    for (size_t i = bytes; i--;) value = value << 8 | p[i];
    if (is_signed(type) && bytes < 8 && value >> (8 * bytes - 1)) value |= ~(uint64_t)0 << (8 * bytes);
    return value;
}

static inline void store_integer(unsigned char *p, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) p[i] = (unsigned char)(value >> (8 * i));
}

static inline double load_real(const unsigned char *p, ringtree_type type)
{
    float single;
    double value;
    if (is_narrow(type)) return spelled((uint32_t)load_integer(p, type), type);
    if (type == RINGTREE_FLOAT32) return memcpy(&single, p, sizeof single), (double)single;
    return memcpy(&value, p, sizeof value), value;
}

static inline void store_real(unsigned char *p, double value, ringtree_type type)
{
    static const uint32_t nan32 = 0x7fc00000;
    static const uint64_t nan64 = 0x7ff8000000000000;
    const float single = (float)value;
    if (is_narrow(type)) store_integer(p, nearest(value, type), bytes_of(type));
    else if (type == RINGTREE_FLOAT32) memcpy(p, isnan(single) ? (const void *)&nan32 : &single, 4);
    else memcpy(p, isnan(value) ? (const void *)&nan64 : &value, 8);
}

static inline uint64_t combine_integers(uint64_t a, uint64_t b, ringtree_type type, ringtree_op op)
{
    const bool greater = is_signed(type) ? (int64_t)a > (int64_t)b : a > b;
    if (op == RINGTREE_PROD) return a * b;
    if (op == RINGTREE_MAX) return greater ? a : b;
    if (op == RINGTREE_MIN) return greater ? b : a;
    return a + b;
}

static inline double combine_reals(double a, double b, ringtree_type type, ringtree_op op)
{
    if (op == RINGTREE_MAX || op == RINGTREE_MIN) return extreme(a, b, op == RINGTREE_MAX);
    if (type == RINGTREE_FLOAT64) return op == RINGTREE_PROD ? a * b : a + b;
    return op == RINGTREE_PROD ? (float)a * (float)b : (float)a + (float)b;
}

/* `expected` := sources[0] op sources[1] op ..., in that order, rounded to the type once. */
static inline void reference_many(unsigned char *expected, const unsigned char *const *sources, uint32_t n,
                                  size_t count, ringtree_type type, ringtree_op op)
{
    const size_t bytes = bytes_of(type);
    for (size_t i = 0; i < count * bytes; i += bytes) {
        if (is_float(type)) {
            double value = load_real(sources[0] + i, type);
            for (uint32_t k = 1; k < n; k++) value = combine_reals(value, load_real(sources[k] + i, type), type, op);
            store_real(expected + i, value, type);
        } else {
            uint64_t value = load_integer(sources[0] + i, type);
            for (uint32_t k = 1; k < n; k++)
                value = combine_integers(value, load_integer(sources[k] + i, type), type, op);
            store_integer(expected + i, value, bytes);
        }
    }
}

static inline void reference_divide(unsigned char *expected, const unsigned char *source, size_t count,
                                    ringtree_type type, uint32_t n)
{
    const size_t bytes = bytes_of(type);
    for (size_t i = 0; i < count * bytes; i += bytes) {
        if (type == RINGTREE_FLOAT64) store_real(expected + i, load_real(source + i, type) / n, type);
        else if (is_float(type)) store_real(expected + i, (float)load_real(source + i, type) / (float)n, type);
        else if (is_signed(type))
            store_integer(expected + i, (uint64_t)((int64_t)load_integer(source + i, type) / (int64_t)n), bytes);
        else store_integer(expected + i, load_integer(source + i, type) / n, bytes);
    }
}

/* ------------------------------------------------------------------ inputs */

static inline uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* Bit patterns that go wrong first: zeros, ones, ends of ranges, subnormals, infinities, quiet and signalling NaN. */
static inline uint64_t special_bits(ringtree_type type, uint32_t which)
{
    const int width = (int)bytes_of(type) * 8;
    const struct narrow_format f = type == RINGTREE_FLOAT32   ? (struct narrow_format){ 8, 23, true }
                                   : type == RINGTREE_FLOAT64 ? (struct narrow_format){ 11, 52, true }
                                   : is_narrow(type)          ? format_of(type)
                                                              : (struct narrow_format){ 2, 2, true };
    const uint64_t one = 1, hidden = one << f.mantissa_bits, ones = (one << f.exponent_bits) - 1;
    const uint64_t infinity = ones << f.mantissa_bits, unit = (ones >> 1) << f.mantissa_bits;
    const uint64_t list[] = { 0, 1, 2, 3, hidden - 1, hidden, hidden + 1, unit, unit + 1, unit + hidden, unit - hidden,
                              infinity - 1, infinity, infinity + 1, infinity | hidden >> 1, infinity + hidden - 1,
                              (one << (width - 1)) - 1, infinity - hidden, unit | hidden >> 1, unit - 1 };
    const uint32_t n = sizeof list / sizeof *list;
    return list[which % n] | (which / n % 2 ? one << (width - 1) : 0);
}
#define SPECIALS 40

/* A mixture: specials, random bits, and (for floats) values near 1, so that sums of them round. */
static inline void fill(unsigned char *p, size_t count, ringtree_type type, uint64_t seed)
{
    const size_t bytes = bytes_of(type);
    for (size_t i = 0; i < count; i++) {
        const uint64_t r = next_random(&seed), kind = r % 8;
        uint64_t bits = next_random(&seed);
        if (kind < 2) bits = special_bits(type, (uint32_t)(r >> 8));
        store_integer(p + i * bytes, bits, bytes);
        if (kind > 4 && is_float(type)) store_real(p + i * bytes, ldexp((double)(int64_t)bits, -62), type);
    }
}

/* The first element that differs, or `count`. */
static inline size_t first_difference(const unsigned char *a, const unsigned char *b, size_t count, size_t bytes)
{
    for (size_t i = 0; i < count; i++)
        if (memcmp(a + i * bytes, b + i * bytes, bytes)) return i;
    return count;
}

/* A test for each path, skipped where this CPU lacks it. */
#define EVERY_PATH(name)                                                                                               \
    static void name(void);                                                                                            \
    TEST(name##_scalar) { if (!rt_reduce_use("scalar")) SKIP("no scalar path"); name(); }                              \
    TEST(name##_avx2) { if (!rt_reduce_use("avx2")) SKIP("this CPU has no AVX2"); name(); }                            \
    TEST(name##_avx512) { if (!rt_reduce_use("avx512")) SKIP("this CPU has no AVX-512"); name(); }                     \
    static void name(void)

#endif
