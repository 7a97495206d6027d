/* Narrow floats: every code, and every place where rounding decides. */
#include "reference.h"

static const ringtree_type narrow_types[] = { RINGTREE_FLOAT16, RINGTREE_BFLOAT16, RINGTREE_FLOAT8_E4M3,
                                              RINGTREE_FLOAT8_E5M2 };
#define EACH_NARROW_TYPE(type) for (int t_ = 0, type; t_ < 4 && (type = (int)narrow_types[t_], true); t_++)

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

EVERY_PATH(every_code_widens_to_the_number_it_spells_and_back)
{
    static unsigned char codes[65536 * 2], back[65536 * 2];
    static float values[65536];
    EACH_NARROW_TYPE(type) {
        const uint32_t count = 2 * sign_of((ringtree_type)type);
        const size_t bytes = bytes_of((ringtree_type)type);
        for (uint32_t c = 0; c < count; c++) store_integer(codes + c * bytes, c, bytes);
        rt_widen(values, codes, count, (ringtree_type)type);
        rt_narrow(back, values, count, (ringtree_type)type);
        for (uint32_t c = 0; c < count; c++) {
            const double value = spelled(c, (ringtree_type)type);
            const uint64_t code = load_integer(back + c * bytes, (ringtree_type)type);
            CHECK_THAT(isnan(value) ? isnan(values[c]) : bits_of(values[c]) == bits_of((float)value),
                       "%s %#x: %a, not %a", type_names[type], c, (double)values[c], value);
            CHECK_THAT(code == (isnan(value) ? canonical_nan((ringtree_type)type) : c), "%s %#x comes back as %#x",
                       type_names[type], c, (unsigned)code);
        }
    }
}

/* Counts those of `count` values that `type` rounds otherwise than the reference rounds to `as`. */
static uint32_t misrounded(const float *values, uint32_t count, ringtree_type type, ringtree_type as)
{
    unsigned char codes[2 * 16];
    uint32_t wrong = 0;
    rt_narrow(codes, values, count, type);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t code = load_integer(codes + i * bytes_of(type), type), right = nearest((double)values[i], as);
        if (code == right) continue;
        if (!wrong++ && type == as)
            TEST_SAY("%s of %a: %#x, not %#x", type_names[type], (double)values[i], (unsigned)code, (unsigned)right);
    }
    return wrong;
}

EVERY_PATH(rounding_goes_to_the_nearest_code_and_to_the_even_one_half_way)
{
    EACH_NARROW_TYPE(type) {
        uint32_t wrong = 0;
        for (uint32_t c = 0; c + 1 < sign_of((ringtree_type)type); c++) {
            const double low = spelled(c, (ringtree_type)type), high = spelled(c + 1, (ringtree_type)type);
            const double below = c ? spelled(c - 1, (ringtree_type)type) : 0;
            if (!isfinite(low)) continue;
            const double gap = isfinite(high) ? high - low : low - below;
            const float middle = (float)(low + gap / 2);
            const float m[16] = { middle,
                                  nextafterf(middle, INFINITY),
                                  nextafterf(middle, 0),
                                  (float)low,
                                  (float)(low + gap / 4),
                                  (float)(low + gap * 0.75),
                                  nextafterf((float)low, INFINITY),
                                  (float)(low + gap),
                                  -middle,
                                  -nextafterf(middle, INFINITY),
                                  -nextafterf(middle, 0),
                                  -(float)low,
                                  nextafterf((float)(low + gap), 0),
                                  nextafterf((float)(low + gap), INFINITY),
                                  -nextafterf((float)low, INFINITY),
                                  -(float)(low + gap) };
            wrong += misrounded(m, 16, (ringtree_type)type, (ringtree_type)type);
        }
        CHECK_THAT(wrong == 0, "%s: %u", type_names[type], wrong);
    }
}

EVERY_PATH(any_float32_rounds_right)
{
    static const uint32_t special[16] = { 0,          0x80000000, 1,          0x807fffff, 0x00800000, 0x7f7fffff,
                                          0x7f800000, 0xff800000, 0x7f800001, 0xffc12345, 0x7fffffff, 0xffffffff,
                                          0x3f800000, 0x43e80000, 0x43e80001, 0x47700000 };
    uint64_t seed = 7;
    EACH_NARROW_TYPE(type) {
        uint32_t wrong = 0;
        for (uint32_t round = 0; round < 20000; round++) {
            float values[16];
            for (int i = 0; i < 16; i++) {
                const uint32_t r = (uint32_t)next_random(&seed); /* half of them within the range of float16 */
                values[i] = float_of(!round  ? special[i]
                                     : r & 1 ? r
                                             : (r & 0x87ffffff) + 0x30000000 + (r & 0x08000000));
            }
            wrong += misrounded(values, 16, (ringtree_type)type, (ringtree_type)type);
        }
        CHECK_THAT(wrong == 0, "%s: %u", type_names[type], wrong);
    }
}

TEST(float8_follows_the_ocp_rules)
{
    static const struct { ringtree_type type; float value; uint32_t code; } known[] = {
        { RINGTREE_FLOAT8_E4M3, 448, 0x7e },      { RINGTREE_FLOAT8_E4M3, 464, 0x7e },
        { RINGTREE_FLOAT8_E4M3, 464.0625f, 0x7f },{ RINGTREE_FLOAT8_E4M3, -1e9f, 0x7f },
        { RINGTREE_FLOAT8_E4M3, INFINITY, 0x7f }, { RINGTREE_FLOAT8_E4M3, 0x1p-9f, 0x01 },
        { RINGTREE_FLOAT8_E4M3, 0x1p-10f, 0x00 }, { RINGTREE_FLOAT8_E4M3, -0.0f, 0x80 },
        { RINGTREE_FLOAT8_E5M2, 57344, 0x7b },    { RINGTREE_FLOAT8_E5M2, 61439, 0x7b },
        { RINGTREE_FLOAT8_E5M2, 61440, 0x7c },    { RINGTREE_FLOAT8_E5M2, -INFINITY, 0xfc },
        { RINGTREE_FLOAT8_E5M2, 0x1p-16f, 0x01 }, { RINGTREE_FLOAT8_E5M2, NAN, 0x7e },
        { RINGTREE_FLOAT16, 65519, 0x7bff },      { RINGTREE_FLOAT16, 65520, 0x7c00 },
        { RINGTREE_FLOAT16, 0x1p-24f, 0x0001 },   { RINGTREE_BFLOAT16, 1.00390625f, 0x3f80 },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        unsigned char code[2];
        rt_from_float(code, known[i].value, known[i].type);
        CHECK_EQ(load_integer(code, known[i].type), known[i].code);
        CHECK_EQ(nearest((double)known[i].value, known[i].type), known[i].code);
    }
    CHECK(rt_to_float(&(uint8_t){ 0x7e }, RINGTREE_FLOAT8_E4M3) == 448);
    CHECK(isnan(rt_to_float(&(uint8_t){ 0xff }, RINGTREE_FLOAT8_E4M3)));
    CHECK(rt_to_float(&(uint8_t){ 0xfc }, RINGTREE_FLOAT8_E5M2) == -INFINITY);
}

TEST(the_check_of_rounding_can_fail)
{
    float values[16];
    for (int i = 0; i < 16; i++) values[i] = 1 + (float)i / 16;
    CHECK(misrounded(values, 16, RINGTREE_FLOAT8_E4M3, RINGTREE_FLOAT8_E5M2) > 0);
    CHECK(misrounded(values, 16, RINGTREE_FLOAT16, RINGTREE_BFLOAT16) > 0);
    CHECK_EQ(misrounded(values, 16, RINGTREE_FLOAT16, RINGTREE_FLOAT16), 0);
}

TEST_MAIN
