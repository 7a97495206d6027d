/* Every type x op on every path against the definition, bit for bit. */
#include "reference.h"

#define MANY 33
#define MOST 70000
#define GUARD 0xa5

static unsigned char sources_memory[MANY][MOST * 8 + 64], target_memory[MOST * 8 + 256], expected_memory[MOST * 8];

#define EACH_TYPE(type) for (ringtree_type type = 0; (int)type < RINGTREE_TYPE_COUNT; type++)
#define EACH_OP(op) for (ringtree_op op = RINGTREE_SUM; op <= RINGTREE_AVG; op++)

static void fill_sources(uint32_t n, size_t count, ringtree_type type)
{
    for (uint32_t k = 0; k < n; k++) fill(sources_memory[k], count, type, 1000 * k + (uint64_t)type);
}

static void expect(uint32_t n, size_t count, ringtree_type type, ringtree_op op)
{
    const unsigned char *sources[MANY];
    for (uint32_t k = 0; k < n; k++) sources[k] = sources_memory[k];
    reference_many(expected_memory, sources, n, count, type, op);
}

/* Whether `target` holds what is expected; says the first element that does not, unless `quiet`. */
static bool as_expected(const unsigned char *target, size_t count, ringtree_type type, ringtree_op op, bool quiet)
{
    const size_t bytes = bytes_of(type), i = first_difference(target, expected_memory, count, bytes);
    if (i == count) return true;
    if (!quiet)
        TEST_SAY("%s %s on %s, element %zu: %#" PRIx64 " and %#" PRIx64 " give %#" PRIx64 ", not %#" PRIx64,
                 op_names[op], type_names[type], rt_reduce_path(), i, load_integer(sources_memory[0] + i * bytes, type),
                 load_integer(sources_memory[1] + i * bytes, type), load_integer(target + i * bytes, type),
                 load_integer(expected_memory + i * bytes, type));
    return false;
}

EVERY_PATH(every_pair_of_8_bit_values_combines_right)
{
    static const ringtree_type types[] = { RINGTREE_INT8, RINGTREE_UINT8, RINGTREE_FLOAT8_E4M3, RINGTREE_FLOAT8_E5M2 };
    for (int i = 0; i < 65536; i++) {
        sources_memory[0][i] = (unsigned char)(i >> 8);
        sources_memory[1][i] = (unsigned char)i;
    }
    for (int t = 0; t < 4; t++)
        EACH_OP(op) {
            expect(2, 65536, types[t], op);
            rt_reduce(target_memory, sources_memory[0], sources_memory[1], 65536, types[t], op);
            CHECK(as_expected(target_memory, 65536, types[t], op, false));
        }
}

EVERY_PATH(every_16_bit_value_meets_every_special_one)
{
    static const ringtree_type types[] = { RINGTREE_FLOAT16, RINGTREE_BFLOAT16 };
    for (int t = 0; t < 2; t++)
        for (uint32_t s = 0; s < SPECIALS; s++) {
            for (uint32_t i = 0; i < 65536; i++) {
                store_integer(sources_memory[0] + 2 * i, i, 2);
                store_integer(sources_memory[1] + 2 * i, special_bits(types[t], s), 2);
            }
            const ringtree_op op = s % 4;
            expect(2, 65536, types[t], op);
            rt_reduce(target_memory, sources_memory[0], sources_memory[1], 65536, types[t], op);
            CHECK(as_expected(target_memory, 65536, types[t], op, false));
        }
}

EVERY_PATH(special_and_random_values_combine_right)
{
    EACH_TYPE(type)
        EACH_OP(op) {
            const size_t pairs = SPECIALS * SPECIALS, bytes = bytes_of(type);
            fill_sources(2, MOST, type);
            for (uint32_t i = 0; i < pairs; i++) {
                store_integer(sources_memory[0] + i * bytes, special_bits(type, i / SPECIALS), bytes);
                store_integer(sources_memory[1] + i * bytes, special_bits(type, i % SPECIALS), bytes);
            }
            expect(2, 20000, type, op);
            rt_reduce(target_memory, sources_memory[0], sources_memory[1], 20000, type, op);
            CHECK(as_expected(target_memory, 20000, type, op, false));
        }
}

/* One call with every pointer off alignment by its own amount, between guards. */
static void check_shifted(size_t shift, size_t count, ringtree_type type, ringtree_op op)
{
    const size_t bytes = bytes_of(type), length = count * bytes, to = 64 + shift * 13 % 64;
    static unsigned char a[130 * 8 + 64], b[130 * 8 + 64];
    unsigned char *first = a + shift, *second = b + shift * 7 % 64;
    memcpy(first, sources_memory[0], length);
    memcpy(second, sources_memory[1], length);
    memset(target_memory, GUARD, length + 256);
    rt_reduce(target_memory + to, first, second, count, type, op);
    bool guarded = true;
    for (size_t i = 0; i < length + 256; i++)
        if (i < to || i >= to + length) guarded &= target_memory[i] == GUARD;
    CHECK_THAT(guarded && as_expected(target_memory + to, count, type, op, false), "shift %zu, count %zu%s", shift,
               count, guarded ? "" : ": wrote outside");
}

EVERY_PATH(no_alignment_and_no_small_count_matters)
{
    EACH_TYPE(type) {
        fill_sources(2, 130, type);
        EACH_OP(op) {
            if (op == RINGTREE_AVG) continue;
            expect(2, 130, type, op);
            for (size_t shift = 0; shift < 64; shift++)
                for (size_t count = 0; count <= 130; count++) check_shifted(shift, count, type, op);
        }
    }
}

static const void **sources_of(const void **list, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) list[k] = sources_memory[k];
    return list;
}

EVERY_PATH(many_sources_are_combined_in_order_and_rounded_once)
{
    static const uint32_t counts[] = { 1, 2, 3, 4, 5, 7, 8, 9, 16, MANY };
    const void *list[MANY];
    EACH_TYPE(type) {
        fill_sources(MANY, 1000, type);
        EACH_OP(op)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
                for (size_t count = 997; count; count /= 3) {
                    const uint32_t n = counts[c];
                    if (n > 1) expect(n, count, type, op);
                    else memcpy(expected_memory, sources_memory[0], count * bytes_of(type));
                    rt_reduce_many(target_memory, sources_of(list, n), n, count, type, op);
                    CHECK_THAT(as_expected(target_memory, count, type, op, false), "%u sources", n);
                    memset(target_memory, GUARD, count * 8);
                    rt_reduce_many_stream(target_memory, list, n, count, type, op);
                    CHECK_THAT(as_expected(target_memory, count, type, op, false), "%u sources, streamed", n);
                }
    }
}

EVERY_PATH(a_streamed_result_is_the_same_and_stays_inside)
{
    const void *list[MANY];
    EACH_TYPE(type) {
        const size_t bytes = bytes_of(type);
        fill_sources(3, MOST, type);
        expect(3, MOST, type, RINGTREE_SUM);
        for (size_t shift = 0; shift < 64; shift += 9) {
            const size_t count = MOST - shift * 1000;
            unsigned char *at = target_memory + 1 + shift;
            at[-1] = at[count * bytes] = GUARD;
            rt_reduce_many_stream(at, sources_of(list, 3), 3, count, type, RINGTREE_SUM);
            CHECK(as_expected(at, count, type, RINGTREE_SUM, false));
            CHECK(at[-1] == GUARD && at[count * bytes] == GUARD);
        }
        for (uint32_t aliased = 0; aliased < 3; aliased++) {
            fill_sources(3, MOST, type);
            rt_reduce_many_stream(sources_memory[aliased], sources_of(list, 3), 3, MOST, type, RINGTREE_SUM);
            CHECK(as_expected(sources_memory[aliased], MOST, type, RINGTREE_SUM, false));
        }
    }
}

TEST(running_values_of_narrow_floats_are_kept_in_float32)
{
    const uint16_t big = 0x4380,
                   one = 0x3f80; /* bfloat16 256 and 1: 256 + 1 rounds back to 256, 256 + 1 + 1 does not */
    const void *sources[3] = { &big, &one, &one };
    uint16_t result;
    rt_reduce_many(&result, sources, 3, 1, RINGTREE_BFLOAT16, RINGTREE_SUM);
    CHECK_EQ(result, 0x4381);
    rt_reduce(&result, &big, &one, 1, RINGTREE_BFLOAT16, RINGTREE_SUM);
    CHECK_EQ(result, 0x4380);
}

EVERY_PATH(the_target_may_be_any_of_the_sources)
{
    static unsigned char kept[MANY][1000 * 8];
    const void *list[MANY];
    EACH_TYPE(type)
        EACH_OP(op)
            for (uint32_t n = 2; n <= 9; n++)
                for (uint32_t aliased = 0; aliased < n; aliased++) {
                    const size_t count = 331, length = count * bytes_of(type);
                    fill_sources(n, count, type);
                    expect(n, count, type, op);
                    memcpy(kept[aliased], sources_memory[aliased], length);
                    sources_of(list, n)[aliased] = kept[aliased];
                    if (n == 2) rt_reduce(kept[aliased], list[0], list[1], count, type, op);
                    else rt_reduce_many(kept[aliased], list, n, count, type, op);
                    CHECK_THAT(as_expected(kept[aliased], count, type, op, false), "%u sources, target is %u", n,
                               aliased);
                }
}

EVERY_PATH(scaling_multiplies_in_float32_or_wraps)
{
    EACH_TYPE(type)
        for (uint32_t s = 0; s < SPECIALS + 8; s++) {
            const size_t bytes = bytes_of(type), count = 777;
            uint64_t seed = s;
            unsigned char scalar[8];
            fill_sources(1, count, type);
            store_integer(scalar, s < SPECIALS ? special_bits(type, s) : next_random(&seed), bytes);
            for (size_t i = 0; i < count; i++) memcpy(sources_memory[1] + i * bytes, scalar, bytes);
            expect(2, count, type, RINGTREE_PROD);
            rt_scale(target_memory, sources_memory[0], count, type, scalar);
            CHECK(as_expected(target_memory, count, type, RINGTREE_PROD, false));
            rt_scale(sources_memory[0], sources_memory[0], count, type, scalar);
            CHECK(as_expected(sources_memory[0], count, type, RINGTREE_PROD, false));
        }
}

EVERY_PATH(division_truncates_integers_and_rounds_floats_once)
{
    static const uint32_t divisors[] = { 1,   2,   3,   5,    7,     8,     10,         127,
                                         128, 256, 257, 1000, 16384, 65537, 0x7fffffff, 0xffffffff };
    EACH_TYPE(type)
        for (size_t d = 0; d < sizeof divisors / sizeof *divisors; d++) {
            const size_t count = 5003;
            fill_sources(1, count, type);
            reference_divide(expected_memory, sources_memory[0], count, type, divisors[d]);
            rt_divide(target_memory, sources_memory[0], count, type, divisors[d]);
            CHECK_THAT(as_expected(target_memory, count, type, RINGTREE_AVG, false), "divided by %u", divisors[d]);
            rt_divide(sources_memory[0], sources_memory[0], count, type, divisors[d]);
            CHECK(as_expected(sources_memory[0], count, type, RINGTREE_AVG, false));
        }
}

TEST(integers_truncate_towards_zero)
{
    const int32_t given[4] = { -7, 7, INT32_MIN, INT32_MAX };
    int32_t got[4];
    rt_divide(got, given, 4, RINGTREE_INT32, 2);
    CHECK_EQ(got[0], -3);
    CHECK_EQ(got[1], 3);
    CHECK_EQ(got[2], -1073741824);
    CHECK_EQ(got[3], 1073741823);
    CHECK(rt_divides_first(RINGTREE_FLOAT16) && rt_divides_first(RINGTREE_FLOAT8_E4M3));
    CHECK(!rt_divides_first(RINGTREE_FLOAT32) && !rt_divides_first(RINGTREE_INT8));
}

EVERY_PATH(nan_is_canonical_and_minus_zero_lies_below_zero)
{
    const float nan = -__builtin_nanf("0x1234"), zero = 0, minus = -0.0f, infinity = INFINITY;
    const uint32_t pattern = 0x7fc00000;
    float result;
    EACH_OP(op) {
        rt_reduce(&result, &nan, &zero, 1, RINGTREE_FLOAT32, op);
        CHECK(!memcmp(&result, &pattern, 4));
        rt_reduce(&result, &infinity, &nan, 1, RINGTREE_FLOAT32, op);
        CHECK(!memcmp(&result, &pattern, 4));
    }
    rt_reduce(&result, &zero, &minus, 1, RINGTREE_FLOAT32, RINGTREE_MIN);
    CHECK(signbit(result));
    rt_reduce(&result, &minus, &zero, 1, RINGTREE_FLOAT32, RINGTREE_MIN);
    CHECK(signbit(result));
    rt_reduce(&result, &zero, &minus, 1, RINGTREE_FLOAT32, RINGTREE_MAX);
    CHECK(!signbit(result));
    rt_reduce(&result, &minus, &zero, 1, RINGTREE_FLOAT32, RINGTREE_MAX);
    CHECK(!signbit(result));
}

TEST(the_checker_rejects_another_op_order_or_rounding)
{
    const void *list[MANY];
    EACH_TYPE(type) {
        fill_sources(3, 1000, type);
        for (ringtree_op op = RINGTREE_SUM; op <= RINGTREE_MIN; op++) {
            expect(2, 1000, type, (op + 1) % 4);
            rt_reduce(target_memory, sources_memory[0], sources_memory[1], 1000, type, op);
            CHECK(!as_expected(target_memory, 1000, type, op, true));
        }
        if (!is_float(type)) continue;
        expect(3, 1000, type, RINGTREE_SUM);
        if (is_narrow(type)) {
            rt_reduce(target_memory, sources_memory[0], sources_memory[1], 1000, type, RINGTREE_SUM);
            rt_reduce(target_memory, target_memory, sources_memory[2], 1000, type, RINGTREE_SUM);
        } else {
            list[0] = sources_memory[2];
            list[1] = sources_memory[1];
            list[2] = sources_memory[0];
            rt_reduce_many(target_memory, list, 3, 1000, type, RINGTREE_SUM);
        }
        CHECK_THAT(!as_expected(target_memory, 1000, type, RINGTREE_SUM, true), "%s", type_names[type]);
    }
    fill_sources(2, 1000, RINGTREE_FLOAT32);
    expect(2, 1000, RINGTREE_FLOAT32, RINGTREE_SUM);
    rt_reduce(target_memory, sources_memory[0], sources_memory[1], 1000, RINGTREE_FLOAT32, RINGTREE_SUM);
    target_memory[3333] ^= 1;
    CHECK(!as_expected(target_memory, 1000, RINGTREE_FLOAT32, RINGTREE_SUM, true));
}

TEST(an_unknown_path_is_refused_and_changes_nothing)
{
    const char *before = rt_reduce_path();
    CHECK(!rt_reduce_use("sse9"));
    CHECK(rt_reduce_path() == before);
    CHECK(rt_reduce_use("scalar"));
    CHECK(!strcmp(rt_reduce_path(), "scalar"));
    CHECK(rt_reduce_use(before));
}

TEST(a_copy_of_any_size_and_alignment_is_exact_and_stays_inside)
{
    static const size_t sizes[] = { 0, 1, 63, 64, 65, 4096, 100001, ((size_t)80 << 20) + 13 };
    unsigned char *from = malloc(sizes[7] + 256), *to = malloc(sizes[7] + 256);
    if (!from || !to) SKIP("no memory for two buffers of 80 MiB");
    for (size_t i = 0; i < sizes[7] + 256; i++) from[i] = (unsigned char)(i * 2654435761u >> 13);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t shift = 0; shift < 64; shift += sizes[s] > 1 << 20 ? 21 : 1) {
            unsigned char *at = to + 64 + shift * 5 % 64;
            at[-1] = at[sizes[s]] = GUARD;
            rt_copy(at, from + shift, sizes[s]);
            CHECK_THAT(!memcmp(at, from + shift, sizes[s]), "%zu bytes, shift %zu", sizes[s], shift);
            CHECK(at[-1] == GUARD && at[sizes[s]] == GUARD);
        }
    free(from);
    free(to);
}

TEST_MAIN
