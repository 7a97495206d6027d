/* The same bits on all ranks and from run to run, whatever the timing; NaN; products within their bound. */
#include "ranks.h"
#include "test.h"

#include <math.h>
#include <unistd.h>

#define MANY 40000

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* Sums whose rounding depends on the order. */
static void fill(float *x, uint32_t rank)
{
    uint32_t state = 2463534242u + rank * 7919;
    for (size_t i = 0; i < MANY; i++) x[i] = ldexpf((float)next_random(&state), (int)(i % 40) - 52);
}

static void delay(uint32_t *state)
{
    usleep(next_random(state) % 3000);
}

static void repeat(struct rank *self)
{
    float   *in = malloc(MANY * 4), *out = malloc(MANY * 4), *first = malloc(MANY * 4);
    float   *all = malloc(self->size * MANY * 4);
    uint32_t state = (uint32_t)ranks_now_ms() * 31 + self->rank + 1;
    fill(in, self->rank);
    for (int times = 0; times < 6; times++) {
        delay(&state);
        CHECK_EQ(ringtree_all_reduce(self->comm, in, out, MANY, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_OK);
        if (times == 0) memcpy(first, out, MANY * 4);
        CHECK_THAT(memcmp(first, out, MANY * 4) == 0, "run %d differs from the first", times);
    }
    CHECK_EQ(ringtree_all_gather(self->comm, out, all, MANY, RINGTREE_FLOAT32, NULL), RINGTREE_OK);
    for (uint32_t r = 0; r < self->size; r++)
        CHECK_THAT(memcmp(all + (size_t)r * MANY, out, MANY * 4) == 0, "ranks %u and %u differ", r, self->rank);
    free(in);
    free(out);
    free(first);
    free(all);
}

TEST(all_ranks_get_the_same_bits_again_and_again_despite_random_delays)
{
    static const char *const algorithm[] = { NULL, "all_reduce=ring", "all_reduce=tree", "all_reduce=halving" };
    for (size_t a = 0; a < 4; a++)
        for (uint32_t n = 2; n <= 7; n += a ? 3 : 1) {
            RANKS(repeat, .ranks = n, .algorithm = algorithm[a]);
            RANKS(repeat, .ranks = n, .processes = n, .transports = "tcp", .algorithm = algorithm[a]);
        }
    RANKS(repeat, .ranks = 7, .processes = 7, .hosts = "aabbbcc", .transports = "shm,tcp");
}

static void carry_nan(struct rank *self)
{
    static const ringtree_op op[] = { RINGTREE_SUM, RINGTREE_PROD, RINGTREE_MAX, RINGTREE_MIN, RINGTREE_AVG };
    for (uint32_t bad = 0; bad < self->size; bad++)
        for (size_t o = 0; o < 5; o++) {
            float  in[3] = { 1, self->rank == bad ? NAN : 2, -3 }, out[3];
            double din[3] = { 1, self->rank == bad ? (double)NAN : 2, -3 }, dout[3];
            CHECK_EQ(ringtree_all_reduce(self->comm, in, out, 3, RINGTREE_FLOAT32, op[o], NULL), RINGTREE_OK);
            CHECK_EQ(ringtree_all_reduce(self->comm, din, dout, 3, RINGTREE_FLOAT64, op[o], NULL), RINGTREE_OK);
            CHECK(isnan(out[1]) && !isnan(out[0]) && !isnan(out[2]));
            CHECK(isnan(dout[1]) && !isnan(dout[0]) && !isnan(dout[2]));
        }
}

TEST(a_nan_of_any_rank_reaches_all_in_every_op)
{
    RANKS(carry_nan, .ranks = 4);
    RANKS(carry_nan, .ranks = 4, .processes = 4, .transports = "tcp");
}

static void carry_narrow_nan(struct rank *self)
{
    uint16_t half = self->rank == 1 ? 0x7e00 : 0x3c00, half_out;    /* NaN, 1.0 */
    uint16_t brain = self->rank == 1 ? 0x7fc0 : 0x3f80, brain_out;
    uint8_t  e4m3 = self->rank == 1 ? 0x7f : 0x38, e4m3_out, e5m2 = self->rank == 1 ? 0x7e : 0x3c, e5m2_out;
    for (ringtree_op op = RINGTREE_SUM; op <= RINGTREE_MIN; op++) {
        CHECK_EQ(ringtree_all_reduce(self->comm, &half, &half_out, 1, RINGTREE_FLOAT16, op, NULL), RINGTREE_OK);
        CHECK_EQ(ringtree_all_reduce(self->comm, &brain, &brain_out, 1, RINGTREE_BFLOAT16, op, NULL), RINGTREE_OK);
        CHECK_EQ(ringtree_all_reduce(self->comm, &e4m3, &e4m3_out, 1, RINGTREE_FLOAT8_E4M3, op, NULL), RINGTREE_OK);
        CHECK_EQ(ringtree_all_reduce(self->comm, &e5m2, &e5m2_out, 1, RINGTREE_FLOAT8_E5M2, op, NULL), RINGTREE_OK);
        CHECK((half_out & 0x7fff) > 0x7c00);
        CHECK((brain_out & 0x7fff) > 0x7f80);
        CHECK((e4m3_out & 0x7f) == 0x7f);
        CHECK((e5m2_out & 0x7f) > 0x7c);
    }
}

TEST(narrow_floats_carry_nan_too)
{
    RANKS(carry_narrow_nan, .ranks = 3);
}

/* Any order of n - 1 multiplications, each rounded once: relative error at most (n - 1) * eps / (1 - n * eps). */
static void multiply(struct rank *self)
{
    float   *in = malloc(MANY * 4), *out = malloc(MANY * 4), *all = malloc(self->size * MANY * 4);
    uint32_t state = 88172645u + self->rank;
    for (size_t i = 0; i < MANY; i++) in[i] = 0.5f + (float)(next_random(&state) >> 8) * 0x1p-24f;
    CHECK_EQ(ringtree_all_reduce(self->comm, in, out, MANY, RINGTREE_FLOAT32, RINGTREE_PROD, NULL), RINGTREE_OK);
    CHECK_EQ(ringtree_all_gather(self->comm, in, all, MANY, RINGTREE_FLOAT32, NULL), RINGTREE_OK);
    const double bound = (self->size - 1) * 0x1p-24 / (1 - self->size * 0x1p-24);
    for (size_t i = 0; i < MANY; i++) {
        double product = 1;
        for (uint32_t r = 0; r < self->size; r++) product *= all[(size_t)r * MANY + i];
        if (fabs(out[i] - product) > bound * product * (1 + 1e-12)) { CHECK_THAT(false, "element %zu", i); break; }
    }
    free(in);
    free(out);
    free(all);
}

TEST(products_of_floats_stay_within_their_bound)
{
    for (uint32_t n = 2; n <= 8; n += 3) RANKS(multiply, .ranks = n);
}

/* 2048 + 1 + 1 in float16: rounded after each addition it would stay 2048; added in float32 it is 2050. */
static void accumulate(struct rank *self)
{
    uint16_t in[256], out[256];
    for (int i = 0; i < 256; i++) in[i] = self->rank == 0 ? 0x6800 : 0x3c00;
    CHECK_EQ(ringtree_all_reduce(self->comm, in, out, 256, RINGTREE_FLOAT16, RINGTREE_SUM, NULL), RINGTREE_OK);
    CHECK_THAT(out[0] == 0x6801 && out[255] == 0x6801, "got %04x", out[0]);
}

TEST(narrow_floats_are_added_in_float32_where_more_than_two_meet)
{
    RANKS(accumulate, .ranks = 3, .transports = "shm");
}

TEST_MAIN
