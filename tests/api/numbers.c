/* See numbers.h. */
#include "numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Significant bits (the hidden one included), exponent bias, exponent of the largest usable power of two. */
struct format {
    int significant, bias, most;
};

static struct format format_of(ringtree_type type)
{
    switch (type) {
    case RINGTREE_FLOAT16:     return (struct format){ 11, 15, 14 };
    case RINGTREE_BFLOAT16:    return (struct format){ 8, 127, 120 };
    case RINGTREE_FLOAT8_E4M3: return (struct format){ 4, 7, 6 };
    case RINGTREE_FLOAT8_E5M2: return (struct format){ 3, 15, 14 };
    case RINGTREE_FLOAT32:     return (struct format){ 24, 127, 120 };
    default:                   return (struct format){ 53, 1023, 1000 };
    }
}

bool number_is_float(ringtree_type type)
{
    return type >= RINGTREE_FLOAT16;
}

static bool is_signed(ringtree_type type)
{
    return type == RINGTREE_INT8 || type == RINGTREE_INT32 || type == RINGTREE_INT64;
}

static uint64_t wrap(ringtree_type type, uint64_t value)
{
    switch (type) {
    case RINGTREE_INT8:   return (uint64_t)(int64_t)(int8_t)value;
    case RINGTREE_UINT8:  return (uint8_t)value;
    case RINGTREE_INT32:  return (uint64_t)(int64_t)(int32_t)value;
    case RINGTREE_UINT32: return (uint32_t)value;
    default:              return value;
    }
}

/* A narrow float's bits; `value` must be exact in it. */
static uint32_t pack(double value, struct format format)
{
    const int stored = format.significant - 1;
    int       exponent;
    double    fraction = frexp(fabs(value), &exponent); /* in [0.5, 1) */
    uint32_t  bits = 0;
    if (value != 0) {
        int biased = exponent - 1 + format.bias;
        if (biased > 0) bits = ((uint32_t)biased << stored) | (uint32_t)(ldexp(2 * fraction - 1, stored));
        else            bits = (uint32_t)ldexp(fabs(value), stored + format.bias - 1);
    }
    return bits;
}

static double unpack(uint32_t bits, struct format format)
{
    const int stored = format.significant - 1;
    int       biased = (int)(bits >> stored);
    uint32_t  fraction = bits & ((1u << stored) - 1);
    if (biased == 0) return ldexp(fraction, 1 - format.bias - stored);
    return ldexp((double)(fraction | 1u << stored), biased - format.bias - stored);
}

void number_store(void *target, ringtree_type type, struct number value)
{
    float    single = (float)value.f;
    uint16_t half;
    uint8_t  quarter;
    switch (type) {
    case RINGTREE_FLOAT32: memcpy(target, &single, 4); break;
    case RINGTREE_FLOAT64: memcpy(target, &value.f, 8); break;
    case RINGTREE_FLOAT16:
    case RINGTREE_BFLOAT16:
        half = (uint16_t)(pack(value.f, format_of(type)) | (signbit(value.f) ? 0x8000u : 0));
        memcpy(target, &half, 2);
        break;
    case RINGTREE_FLOAT8_E4M3:
    case RINGTREE_FLOAT8_E5M2:
        quarter = (uint8_t)(pack(value.f, format_of(type)) | (signbit(value.f) ? 0x80u : 0));
        memcpy(target, &quarter, 1);
        break;
    default: memcpy(target, &value.i, ringtree_type_size(type)); break; /* little endian */
    }
}

struct number number_load(const void *source, ringtree_type type)
{
    struct number value = { 0, 0 };
    float         single;
    uint32_t      bits = 0;
    switch (type) {
    case RINGTREE_FLOAT32:
        memcpy(&single, source, 4);
        value.f = single;
        break;
    case RINGTREE_FLOAT64: memcpy(&value.f, source, 8); break;
    case RINGTREE_FLOAT16:
    case RINGTREE_BFLOAT16:
        memcpy(&bits, source, 2);
        value.f = unpack(bits & 0x7fff, format_of(type)) * (bits & 0x8000 ? -1 : 1);
        break;
    case RINGTREE_FLOAT8_E4M3:
    case RINGTREE_FLOAT8_E5M2:
        memcpy(&bits, source, 1);
        value.f = unpack(bits & 0x7f, format_of(type)) * (bits & 0x80 ? -1 : 1);
        break;
    default:
        memcpy(&value.i, source, ringtree_type_size(type));
        value.i = wrap(type, value.i);
        break;
    }
    return value;
}

/* splitmix64: https://prng.di.unimi.it/splitmix64.c is the definition. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t random_of(ringtree_type type, uint32_t op, uint32_t r, uint32_t j)
{
    return mix(((uint64_t)type << 56) ^ ((uint64_t)op << 48) ^ ((uint64_t)r << 32) ^ j);
}

static struct number integer_input(ringtree_type type, uint32_t op, uint32_t n, uint64_t random)
{
    struct number value = { wrap(type, random), 0 };
    if (op == RINGTREE_AVG) { /* the sum must not wrap: what would be divided is then not the sum */
        if (is_signed(type)) value.i = (uint64_t)((int64_t)value.i / (int64_t)n);
        else                 value.i /= n;
    }
    return value;
}

/* The largest magnitude whose sum over n ranks is exact; below 1, only every `stride`-th rank is not zero. */
static double sum_limit(struct format format, uint32_t n, uint32_t factor, uint32_t *stride)
{
    double limit = floor(ldexp(1, format.significant > 40 ? 40 : format.significant) / (n * factor));
    *stride = 1;
    if (limit >= 1) return limit;
    *stride = (uint32_t)ceil(n * factor / ldexp(1, format.significant));
    return 1;
}

static double float_sum_input(struct format format, uint32_t op, uint32_t n, uint32_t r, uint32_t j, uint64_t random)
{
    uint32_t     stride;
    const double limit = sum_limit(format, n, op == NUMBERS_PREMUL ? 2 : 1, &stride);
    double       value = (double)(random % (uint64_t)(2 * limit + 1)) - limit;
    if ((r + j) % stride != 0) value = 0;
    if (op == RINGTREE_AVG && format.significant <= 11) value *= n; /* is divided before it is added */
    return value == 0 ? 0 : ldexp(value, (int)(j % 5) - 2);
}

static double float_product_input(struct format format, uint32_t n, uint32_t r, uint32_t j, uint64_t random)
{
    const uint32_t stride = (n + (uint32_t)format.most - 1) / (uint32_t)format.most;
    int            exponent = (r + j) % stride == 0 ? (int)(random % 3) - 1 : 0;
    return ldexp(random & 1024 ? -1 : 1, exponent);
}

static struct number float_input(ringtree_type type, uint32_t op, uint32_t n, uint32_t r, uint32_t j, uint64_t random)
{
    const struct format format = format_of(type);
    const double        largest = ldexp(1, format.significant > 50 ? 50 : format.significant) - 1;
    struct number       value = { 0, 0 };
    switch (op) {
    case RINGTREE_PROD: value.f = float_product_input(format, n, r, j, random); break;
    case RINGTREE_MAX:
    case RINGTREE_MIN:
        value.f = fmod((double)(random >> 11), 2 * largest + 1) - largest;
        value.f = value.f == 0 ? 0 : ldexp(value.f, (int)(j % 5) - 2);
        break;
    default: value.f = float_sum_input(format, op, n, r, j, random); break;
    }
    return value;
}

struct number number_input(ringtree_type type, uint32_t op, uint32_t n, uint32_t r, uint32_t j)
{
    const uint64_t random = random_of(type, op, r, j);
    return number_is_float(type) ? float_input(type, op, n, r, j, random) : integer_input(type, op, n, random);
}

struct number number_scalar(ringtree_type type, uint32_t r)
{
    struct number value = { wrap(type, 3 + 2 * r), r % 3 == 0 ? 2 : r % 3 == 1 ? -1 : 1 };
    return value;
}

static uint64_t combine_integers(ringtree_type type, uint32_t op, uint64_t a, uint64_t b)
{
    const bool less = is_signed(type) ? (int64_t)a < (int64_t)b : a < b;
    switch (op) {
    case RINGTREE_PROD: return wrap(type, a * b);
    case RINGTREE_MAX:  return less ? b : a;
    case RINGTREE_MIN:  return less ? a : b;
    default:            return wrap(type, a + b);
    }
}

static double combine_floats(uint32_t op, double a, double b)
{
    switch (op) {
    case RINGTREE_PROD: return a * b;
    case RINGTREE_MAX:  return a < b ? b : a;
    case RINGTREE_MIN:  return a < b ? a : b;
    default:            return a + b;
    }
}

struct number number_result(ringtree_type type, uint32_t op, uint32_t n, uint32_t j)
{
    struct number sum = { 0, 0 };
    for (uint32_t r = 0; r < n; r++) {
        struct number value = number_input(type, op, n, r, j);
        if (op == NUMBERS_PREMUL) {
            value.i = wrap(type, value.i * number_scalar(type, r).i);
            value.f *= number_scalar(type, r).f;
        }
        if (r == 0) sum = value;
        else sum = (struct number){ combine_integers(type, op, sum.i, value.i), combine_floats(op, sum.f, value.f) };
    }
    if (op == RINGTREE_AVG) {
        sum.i = is_signed(type) ? (uint64_t)((int64_t)sum.i / (int64_t)n) : sum.i / n;
        sum.f = type == RINGTREE_FLOAT32 ? (double)((float)sum.f / (float)n) : sum.f / n;
    }
    return sum;
}

double number_bound(ringtree_type type, uint32_t op, uint32_t n)
{
    const struct format format = format_of(type);
    uint32_t            odd = n;
    while (odd % 2 == 0) odd /= 2;
    if (!number_is_float(type) || op != RINGTREE_AVG || odd < 1ull << format.significant) return 0;
    /* The input, a multiple of n, is itself rounded when stored; then n roundings of a sum of at most n * 4. */
    return 4.0 * n * n * ldexp(1, -format.significant);
}

const char *number_op_name(uint32_t op)
{
    static const char *const name[NUMBERS_OPS] = { "sum", "prod", "max", "min", "avg", "premul_sum" };
    return op < NUMBERS_OPS ? name[op] : "-";
}
