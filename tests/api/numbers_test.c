/* The premise of the matrix: whatever the order of combining, every partial result is exact in its type. */
#include "numbers.h"
#include "test.h"

#include <math.h>

static const uint32_t rank_counts[] = { 1, 2, 3, 4, 5, 7, 8, 13, 16 };

static bool survives_storing(ringtree_type type, double value)
{
    unsigned char bytes[8] = { 0 };
    number_store(bytes, type, (struct number){ 0, value });
    return number_load(bytes, type).f == value;
}

static double value_of(ringtree_type type, uint32_t op, uint32_t n, uint32_t r, uint32_t j)
{
    double value = number_input(type, op, n, r, j).f;
    if (op == NUMBERS_PREMUL) value *= number_scalar(type, r).f;
    /* narrow floats are divided before they are added */
    if (op == RINGTREE_AVG && type != RINGTREE_FLOAT32 && type != RINGTREE_FLOAT64) value /= n;
    return value;
}

/* Ranks begin .. begin + length - 1, in ring order from `start`: all that rings, trees and halvings combine. */
static bool partial_results_are_exact(ringtree_type type, uint32_t op, uint32_t n, uint32_t j)
{
    for (uint32_t start = 0; start < n; start++) {
        double sum = value_of(type, op, n, start, j);
        if (!survives_storing(type, number_input(type, op, n, start, j).f)) return false;
        if (!survives_storing(type, sum)) return false;
        for (uint32_t length = 1; length < n; length++) {
            const double next = value_of(type, op, n, (start + length) % n, j);
            if (op == RINGTREE_PROD) sum *= next;
            else if (op == RINGTREE_MAX) sum = fmax(sum, next);
            else if (op == RINGTREE_MIN) sum = fmin(sum, next);
            else sum += next;
            if (!survives_storing(type, sum)) return false;
        }
        const bool divided_last = op == RINGTREE_AVG && (type == RINGTREE_FLOAT32 || type == RINGTREE_FLOAT64);
        if (!divided_last && sum != number_result(type, op, n, j).f) return false;
    }
    return true;
}

TEST(every_partial_result_of_the_matrix_is_exact_in_its_type)
{
    for (uint32_t type = RINGTREE_FLOAT16; type < RINGTREE_TYPE_COUNT; type++)
        for (uint32_t op = 0; op < NUMBERS_OPS; op++)
            for (size_t i = 0; i < sizeof(rank_counts) / sizeof(*rank_counts); i++) {
                const uint32_t n = rank_counts[i];
                if (number_bound((ringtree_type)type, op, n) > 0) continue; /* the one case with a bound instead */
                for (uint32_t j = 0; j < 251; j++)
                    if (!partial_results_are_exact((ringtree_type)type, op, n, j)) {
                        CHECK_THAT(false, "%s %s, %u ranks, element %u", ringtree_type_name((ringtree_type)type),
                                   number_op_name(op), n, j);
                        break;
                    }
            }
}

TEST(values_that_do_not_fit_a_type_are_seen_not_to)
{
    CHECK(!survives_storing(RINGTREE_FLOAT16, 2049));
    CHECK(!survives_storing(RINGTREE_BFLOAT16, 257));
    CHECK(!survives_storing(RINGTREE_FLOAT8_E4M3, 17));
    CHECK(!survives_storing(RINGTREE_FLOAT8_E5M2, 9));
    CHECK(!survives_storing(RINGTREE_FLOAT32, 16777217));
}

TEST(elements_differ_between_ranks_and_places)
{
    for (uint32_t type = 0; type < RINGTREE_TYPE_COUNT; type++) {
        uint32_t equal = 0;
        for (uint32_t j = 0; j < 250; j++) {
            unsigned char a[8] = { 0 }, b[8] = { 0 }, c[8] = { 0 };
            number_store(a, (ringtree_type)type, number_input((ringtree_type)type, RINGTREE_SUM, 4, 1, j));
            number_store(b, (ringtree_type)type, number_input((ringtree_type)type, RINGTREE_SUM, 4, 2, j));
            number_store(c, (ringtree_type)type, number_input((ringtree_type)type, RINGTREE_SUM, 4, 1, j + 1));
            equal += memcmp(a, b, 8) == 0 || memcmp(a, c, 8) == 0;
        }
        CHECK_THAT(equal < 125, "%s: %u of 250 are equal", ringtree_type_name((ringtree_type)type), equal);
    }
}

TEST_MAIN
