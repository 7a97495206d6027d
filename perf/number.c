/* Values to and from the bits of each type. Only exactly representable values are stored, so nothing is rounded. */
#include "perf.h"

#include <math.h>
#include <string.h>

const char *const type_names[RINGTREE_TYPE_COUNT] = { "int8",  "uint8", "int32",  "uint32",   "int64",  "uint64",
                                                      "half",  "float", "double", "bfloat16", "f8e4m3", "f8e5m2" };
const char *const op_names[OP_COUNT + 1] = { "sum", "prod", "max", "min", "avg", "mulsum", "none" };

/* Bits of the fraction and of the exponent; 0 for integers. */
static const struct { int fraction, exponent; } shapes[RINGTREE_TYPE_COUNT] = {
    [RINGTREE_FLOAT16] = { 10, 5 }, [RINGTREE_FLOAT32] = { 23, 8 },     [RINGTREE_FLOAT64] = { 52, 11 },
    [RINGTREE_BFLOAT16] = { 7, 8 }, [RINGTREE_FLOAT8_E4M3] = { 3, 4 }, [RINGTREE_FLOAT8_E5M2] = { 2, 5 },
};

bool type_is_float(ringtree_type type)
{
    return shapes[type].exponent != 0;
}

bool type_is_signed(ringtree_type type)
{
    return type != RINGTREE_UINT8 && type != RINGTREE_UINT32 && type != RINGTREE_UINT64;
}

bool type_is_narrow(ringtree_type type)
{
    return type_is_float(type) && ringtree_type_size(type) < 4;
}

double type_exact_most(ringtree_type type)
{
    if (type_is_float(type)) return ldexp(1, shapes[type].fraction + 1);
    int bits = (int)ringtree_type_size(type) * 8 - (type_is_signed(type) ? 1 : 0);
    return ldexp(1, bits < 52 ? bits : 52) - 1; /* 52: sums of 64-bit integers are also kept exact in a double */
}

static int bias_of(ringtree_type type)
{
    return (1 << (shapes[type].exponent - 1)) - 1;
}

double type_least(ringtree_type type)
{
    return ldexp(1, 1 - bias_of(type) - shapes[type].fraction);
}

/* Any binary float format from a double that it represents exactly. */
static uint64_t float_bits(double value, ringtree_type type)
{
    const int fraction = shapes[type].fraction, bias = bias_of(type);
    uint64_t  bits, sign, whole;
    memcpy(&bits, &value, sizeof(bits));
    sign = bits >> 63 << (fraction + shapes[type].exponent);
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023 + bias;
    if (value == 0) return sign;
    whole = (bits & 0xfffffffffffff) >> (52 - fraction);
    if (exponent > 0) return sign | (uint64_t)exponent << fraction | whole;
    whole |= (uint64_t)1 << fraction;
    return sign | (exponent > -fraction ? whole >> (1 - exponent) : 0);
}

void number_store(void *target, ringtree_type type, struct number value)
{
    uint64_t bits = value.whole;
    if (type == RINGTREE_FLOAT32) {
        float narrow = (float)value.real;
        memcpy(target, &narrow, sizeof(narrow));
        return;
    }
    if (type == RINGTREE_FLOAT64) memcpy(&bits, &value.real, sizeof(bits));
    else if (type_is_float(type)) bits = float_bits(value.real, type);
    uint8_t  one = (uint8_t)bits;
    uint16_t two = (uint16_t)bits;
    uint32_t four = (uint32_t)bits;
    switch (ringtree_type_size(type)) {
    case 1: memcpy(target, &one, 1); break;
    case 2: memcpy(target, &two, 2); break;
    case 4: memcpy(target, &four, 4); break;
    default: memcpy(target, &bits, 8); break;
    }
}

static uint64_t load_bits(const void *source, size_t size)
{
    uint8_t  one;
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (size) {
    case 1: return memcpy(&one, source, 1), one;
    case 2: return memcpy(&two, source, 2), two;
    case 4: return memcpy(&four, source, 4), four;
    default: return memcpy(&eight, source, 8), eight;
    }
}

double number_load(const void *source, ringtree_type type)
{
    const size_t size = ringtree_type_size(type);
    uint64_t     bits = load_bits(source, size);
    if (!type_is_float(type)) {
        const int unused = 64 - 8 * (int)size;
        return type_is_signed(type) ? (double)((int64_t)(bits << unused) >> unused) : (double)bits;
    }
    const int fraction = shapes[type].fraction, exponents = 1 << shapes[type].exponent;
    const int exponent = (int)(bits >> fraction) & (exponents - 1);
    uint64_t  whole = bits & (((uint64_t)1 << fraction) - 1);
    const bool negative = bits >> (8 * size - 1) & 1;
    double value;
    if (type == RINGTREE_FLOAT8_E4M3 && (bits & 0x7f) == 0x7f) value = NAN;
    else if (type != RINGTREE_FLOAT8_E4M3 && exponent == exponents - 1) value = whole ? NAN : INFINITY;
    else {
        if (exponent) whole |= (uint64_t)1 << fraction;
        value = ldexp((double)whole, (exponent ? exponent : 1) - bias_of(type) - fraction);
    }
    return negative ? -value : value;
}
