/*
 * The benchmark's inputs and closed forms against plain loops: every partial result, in several orders, must be a value
 * of the type, and the last one the closed form; for every type, op and number of ranks up to 40, and a few more.
 */
#include "perf/perf.h"
#include "test.h"

#include <math.h>

static uint64_t truncated(uint64_t value, ringtree_type type)
{
    const int bits = 8 * (int)ringtree_type_size(type);
    return bits == 64 ? value : value & (((uint64_t)1 << bits) - 1);
}

/* Store and load again: the same, or the value was no value of the type. */
static bool survives(ringtree_type type, double value)
{
    unsigned char bytes[8];
    number_store(bytes, type, (struct number){ .real = value });
    return number_load(bytes, type) == value;
}

static double combine_real(uint32_t op, double a, double b)
{
    if (op == RINGTREE_PROD) return a * b;
    if (op == RINGTREE_MAX) return fmax(a, b);
    return op == RINGTREE_MIN ? fmin(a, b) : a + b;
}

static uint64_t combine_whole(uint32_t op, uint64_t a, uint64_t b, bool is_signed)
{
    const bool less = is_signed ? (int64_t)a < (int64_t)b : a < b;
    if (op == RINGTREE_PROD) return a * b;
    if (op == RINGTREE_MAX) return less ? b : a;
    if (op == RINGTREE_MIN) return less ? a : b;
    return a + b;
}

/* What rank r brings in: scaled for mulsum, divided first for the average of narrow floats. */
static struct number brought(const struct exact *exact, uint32_t r, size_t position)
{
    struct number value = exact_input(exact, r, position, 7), scalar = exact_scalar(r);
    if (type_is_float(exact->type)) CHECK_THAT(survives(exact->type, value.real), "input %g", value.real);
    if (exact->op == OP_MULSUM) value = (struct number){ value.real * scalar.real, value.whole * scalar.whole };
    if (exact->op == RINGTREE_AVG && type_is_narrow(exact->type)) value.real /= exact->nranks;
    return value;
}

static void check_float(const struct exact *exact, size_t position, uint32_t step)
{
    const uint32_t n = exact->nranks;
    double total = brought(exact, 0, position).real;
    for (uint32_t i = 1; i < n; i++) {
        total = combine_real(exact->op, total, brought(exact, i * step % n, position).real);
        CHECK_THAT(survives(exact->type, total), "%s %s, %u ranks: partial %g", type_names[exact->type],
                   op_names[exact->op], n, total);
    }
    if (exact->op == RINGTREE_AVG && !type_is_narrow(exact->type)) total /= n;
    CHECK_THAT(total == exact_result(exact, position, 7).real, "%s %s, %u ranks: %g, not %g", type_names[exact->type],
               op_names[exact->op], n, total, exact_result(exact, position, 7).real);
}

static uint64_t sign_extended(uint64_t value, ringtree_type type)
{
    const int unused = 64 - 8 * (int)ringtree_type_size(type);
    if (!type_is_signed(type)) return value << unused >> unused;
    return (uint64_t)((int64_t)(value << unused) >> unused);
}

static void check_whole(const struct exact *exact, size_t position)
{
    const bool is_signed = type_is_signed(exact->type);
    uint64_t total = sign_extended(brought(exact, 0, position).whole, exact->type);
    for (uint32_t r = 1; r < exact->nranks; r++)
        total = combine_whole(exact->op, total, sign_extended(brought(exact, r, position).whole, exact->type),
                              is_signed);
    if (exact->op == RINGTREE_AVG)
        total = is_signed ? (uint64_t)((int64_t)total / (int64_t)exact->nranks) : total / exact->nranks;
    uint64_t want = truncated(exact_result(exact, position, 7).whole, exact->type);
    CHECK_THAT(truncated(total, exact->type) == want, "%s %s, %u ranks: %llx, not %llx", type_names[exact->type],
               op_names[exact->op], exact->nranks, (unsigned long long)total, (unsigned long long)want);
}

static void check_ranks(ringtree_type type, uint32_t op, uint32_t n)
{
    struct exact exact;
    exact_prepare(&exact, type, op, n);
    CHECK_THAT(!exact.bounded || (op == RINGTREE_AVG && ringtree_type_size(type) == 1), "%s %s", type_names[type],
               op_names[op]);
    for (size_t position = 0; position < 200; position++) {
        if (!type_is_float(type)) check_whole(&exact, position);
        else if (!exact.bounded) {
            check_float(&exact, position, 1);
            check_float(&exact, position, n - 1);
        }
    }
}

TEST(every_partial_result_is_a_value_of_the_type_and_the_closed_form_is_right)
{
    static const uint32_t more[] = { 61, 64, 100, 128, 256, 300 };
    for (uint32_t t = 0; t < RINGTREE_TYPE_COUNT; t++)
        for (uint32_t op = 0; op < OP_COUNT; op++) {
            for (uint32_t n = 1; n <= 40; n++)
                check_ranks((ringtree_type)t, op, n);
            for (size_t i = 0; i < sizeof(more) / sizeof(*more); i++)
                check_ranks((ringtree_type)t, op, more[i]);
        }
}

TEST(a_value_that_the_type_has_not_is_noticed)
{
    CHECK(survives(RINGTREE_FLOAT8_E5M2, 8) && !survives(RINGTREE_FLOAT8_E5M2, 9));
    CHECK(survives(RINGTREE_FLOAT8_E4M3, 16) && !survives(RINGTREE_FLOAT8_E4M3, 17));
    CHECK(survives(RINGTREE_BFLOAT16, 256) && !survives(RINGTREE_BFLOAT16, 257));
    CHECK(survives(RINGTREE_FLOAT16, 2048) && !survives(RINGTREE_FLOAT16, 2049));
    CHECK(survives(RINGTREE_FLOAT32, 0x1p24) && !survives(RINGTREE_FLOAT32, 0x1p24 + 1));
}

TEST(a_rank_left_out_or_counted_twice_changes_many_results)
{
    for (uint32_t t = 0; t < RINGTREE_TYPE_COUNT; t++)
        for (uint32_t n = 2; n <= 16; n++) {
            struct exact exact;
            exact_prepare(&exact, (ringtree_type)t, RINGTREE_SUM, n);
            uint32_t seen = 0;
            for (size_t position = 0; position < 300; position++) {
                struct number value = exact_input(&exact, n - 1, position, 0);
                seen += type_is_float((ringtree_type)t) ? value.real != 0 : value.whole != 0;
            }
            CHECK_THAT(seen > 75, "%s, %u ranks: only %u of 300", type_names[t], n, seen);
        }
}

TEST(inputs_differ_between_positions_iterations_and_ranks)
{
    struct exact exact;
    exact_prepare(&exact, RINGTREE_FLOAT32, RINGTREE_SUM, 4);
    uint32_t same[3] = { 0, 0, 0 };
    for (size_t position = 0; position < 1000; position++) {
        const double value = exact_input(&exact, 1, position, 0).real;
        same[0] += value == exact_input(&exact, 1, position + 1, 0).real;
        same[1] += value == exact_input(&exact, 1, position, 1).real;
        same[2] += value == exact_input(&exact, 2, position, 0).real;
        CHECK(moved_bits(0, position, 0) != moved_bits(1, position, 0));
        CHECK(moved_bits(0, position, 0) != moved_bits(0, position, 1));
        CHECK(moved_bits(0, position, 0) != moved_bits(0, position + 1, 0));
    }
    for (int i = 0; i < 3; i++)
        CHECK_THAT(same[i] < 100, "%d: %u of 1000", i, same[i]);
}

TEST(bits_of_narrow_floats_are_the_standards)
{
    static const struct { ringtree_type type; double value; unsigned bits; } known[] = {
        { RINGTREE_FLOAT16, 1, 0x3c00 },       { RINGTREE_FLOAT16, -2.5, 0xc100 },
        { RINGTREE_FLOAT16, 0x1p-24, 1 },      { RINGTREE_BFLOAT16, 1, 0x3f80 },
        { RINGTREE_FLOAT8_E4M3, 1, 0x38 },     { RINGTREE_FLOAT8_E4M3, 448, 0x7e },
        { RINGTREE_FLOAT8_E4M3, 0x1p-9, 0x01 }, { RINGTREE_FLOAT8_E5M2, 1, 0x3c },
        { RINGTREE_FLOAT8_E5M2, -57344, 0xfb }, { RINGTREE_FLOAT8_E5M2, 0x3p-16, 0x03 },
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        uint16_t bits = 0;
        unsigned char bytes[8] = { 0 };
        number_store(bytes, known[i].type, (struct number){ .real = known[i].value });
        memcpy(&bits, bytes, 2);
        CHECK_EQ(bits, known[i].bits);
        CHECK(number_load(bytes, known[i].type) == known[i].value);
    }
    CHECK(isnan(number_load((unsigned char[]){ 0x7f }, RINGTREE_FLOAT8_E4M3)));
    CHECK(isinf(number_load((unsigned char[]){ 0x7c }, RINGTREE_FLOAT8_E5M2)));
}

TEST_MAIN
