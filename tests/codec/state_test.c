/* The state of error feedback: saved and read back it goes on to the bit; whatever else is read is refused. */
#include "codec/momentum.h"
#include "codec/state.h"
#include "inputs.h"
#include "reduce/reference.h"

#define COUNT 5003

static const struct rt_codec_state shape = { .count = COUNT, .has_residual = 1, .has_momentum = 1 };

static struct rt_codec_state *new_state(void)
{
    struct rt_codec_state *state;
    CHECK_EQ(rt_codec_state_new(&state, &shape, NULL), RINGTREE_OK);
    return state;
}

/* One step of a sender with momentum; returns a sum of what it sent, which tells one history from another. */
static double step(struct rt_codec_state *state)
{
    const struct rt_codec codec = { .kind = RT_CODEC_Q4, .rounding = RT_ROUND_STOCHASTIC, .feedback = true };
    const struct rt_part part = { .count = COUNT, .step = state->step, .rank = 1 };
    float gradient[COUNT], sent[COUNT];
    uint8_t bytes[COUNT * 5];
    double sum = 0;
    fill_inputs(gradient, COUNT, GAUSSIAN, 0, state->step++);
    rt_momentum_add(state->momentum, state->residual, gradient, COUNT, 0.9f);
    const size_t length = rt_codec_encode(&codec, &part, state->residual, state->residual, bytes, NULL);
    CHECK_EQ(rt_codec_decode(&codec, sent, COUNT, bytes, length, NULL), RINGTREE_OK);
    for (size_t i = 0; i < COUNT; i++) sum += (double)sent[i] * (double)(i + 1);
    return sum;
}

TEST(a_state_read_back_goes_on_to_the_bit)
{
    struct rt_codec_state *state = new_state(), *again = new_state();
    for (int i = 0; i < 5; i++) step(state);
    uint8_t *bytes = malloc(rt_codec_state_bytes(state));
    rt_codec_state_save(state, bytes);
    CHECK_EQ(rt_codec_state_load(again, bytes, rt_codec_state_bytes(state), NULL), RINGTREE_OK);
    CHECK_EQ(again->step, 5);
    for (int i = 0; i < 5; i++) CHECK(step(state) == step(again));
    rt_codec_state_reset(again);
    CHECK(step(state) != step(again));
    free(bytes);
    rt_codec_state_free(state);
    rt_codec_state_free(again);
}

TEST(a_reset_state_is_as_new)
{
    struct rt_codec_state *state = new_state(), *fresh = new_state();
    for (int i = 0; i < 3; i++) step(state);
    rt_codec_state_reset(state);
    for (int i = 0; i < 3; i++) CHECK(step(state) == step(fresh));
    rt_codec_state_free(state);
    rt_codec_state_free(fresh);
}

static void check_refused(struct rt_codec_state *state, const uint8_t *bytes, size_t length, const char *says)
{
    struct rt_error error = { 0 };
    uint8_t *exact = malloc(length + 1);
    memcpy(exact, bytes, length);
    state->residual[5] = 42;
    CHECK_EQ(rt_codec_state_load(state, exact, length, &error), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(error.text, says);
    CHECK(state->residual[5] == 42);
    free(exact);
}

TEST(bytes_that_are_damaged_cut_or_of_another_shape_are_refused)
{
    struct rt_codec_state *state = new_state(), *other;
    const size_t length = rt_codec_state_bytes(state);
    uint8_t *bytes = malloc(length + 1);
    step(state);
    rt_codec_state_save(state, bytes);
    for (size_t cut = 0; cut < length; cut += 1 + cut / 8) check_refused(state, bytes, cut, "bytes");
    check_refused(state, bytes, length + 1, "bytes");
    for (size_t at = 0; at < length; at += 1 + at / 40) {
        bytes[at] ^= 4;
        check_refused(state, bytes, length, "codec state: ");
        bytes[at] ^= 4;
    }
    CHECK_EQ(rt_codec_state_load(state, bytes, length, NULL), RINGTREE_OK);
    const struct rt_codec_state longer = { .count = COUNT + 1, .has_residual = 1 };
    CHECK_EQ(rt_codec_state_new(&other, &longer, NULL), RINGTREE_OK);
    check_refused(other, bytes, length, "saved for 5003 elements");
    state->residual[0] = NAN;
    rt_codec_state_save(state, bytes);
    check_refused(state, bytes, length, "NaN or infinity");
    rt_codec_state_free(state);
    rt_codec_state_free(other);
    free(bytes);
}

TEST(shapes_that_cannot_be_are_refused)
{
    static const struct rt_codec_state shapes[] = {
        { .count = UINT64_MAX }, { .count = 5, .has_residual = 2 }, { .count = 5, .has_momentum = 1 },
        { .count = 5, .has_residual = 1, .has_momentum = 2 },
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct rt_codec_state *state;
        CHECK_EQ(rt_codec_state_new(&state, &shapes[i], NULL), RINGTREE_INVALID_ARGUMENT);
        CHECK(!state);
    }
    rt_codec_state_free(NULL);
}

/* ------------------------------------------------------------------ momentum */

static const struct rt_codec topk = { .kind = RT_CODEC_TOPK, .ratio = 0.01f };

TEST(momentum_moves_u_and_v_and_leaves_what_was_sent_at_rest)
{
    float u[300] = { 0 }, v[300] = { 0 }, g[300];
    for (int i = 0; i < 300; i++) g[i] = (float)(i + 1);
    rt_momentum_add(u, v, g, 300, 0.5f);
    rt_momentum_add(u, v, g, 300, 0.5f);
    CHECK(u[9] == 15 && v[9] == 25); /* 10, then 5 + 10 */
    const struct rt_cut cut = rt_topk_select(v, 0, 300, 20, NULL);
    rt_momentum_mask(&topk, u, v, 0, 300, &cut);
    for (int i = 0; i < 300; i++) CHECK((u[i] == 0) == (i >= 280));
    v[3] = NAN;
    rt_momentum_mask(&topk, u, v, 0, 300, &cut);
    for (int i = 0; i < 256; i++) CHECK(u[i] == 0);
    CHECK(u[256] != 0);
}

TEST(momentum_of_ties_rests_where_the_cut_keeps_them)
{
    float u[600], v[600];
    for (int i = 0; i < 600; i++) u[i] = v[i] = 1;
    const struct rt_cut cut = rt_topk_select(v, 512, 600, 300, NULL);
    rt_momentum_mask(&topk, u, v, 512, 600, &cut);
    for (int i = 0; i < 600; i++) CHECK((u[i] == 0) == (i < 300));
}

/* A block of which most is kept travels as it is: all of it was sent. */
TEST(momentum_rests_in_all_of_a_block_that_travels_as_it_is)
{
    float u[512], v[512], residual[512];
    unsigned char bytes[4096];
    for (int i = 0; i < 512; i++) {
        u[i] = 1;
        residual[i] = v[i] = i < 210 || i >= 500 ? 2 : 1;
    }
    const struct rt_part part = { .count = 512, .cut = { 0x3fc00000, 0 } }; /* above 1.5 */
    rt_momentum_mask(&topk, u, v, 0, 512, &part.cut);
    rt_codec_encode(&topk, &part, residual, residual, bytes, NULL);
    for (int i = 0; i < 512; i++) {
        CHECK_THAT((u[i] == 0) == (i < 256 || i >= 500), "element %d", i);
        CHECK_THAT((residual[i] == 0) == (u[i] == 0), "element %d was sent, or not", i);
    }
}

TEST(clipping_leaves_each_rank_its_share_of_the_norm)
{
    float g[4] = { 3, 4, 0, 0 };
    CHECK(rt_clip(g, 4, 20, 4) == 5 && g[0] == 3);
    CHECK(rt_clip(g, 4, 5, 4) == 5);
    CHECK(fabs((double)g[0] - 1.5) < 1e-6 && fabs((double)g[1] - 2) < 1e-6);
    g[2] = INFINITY;
    CHECK(isinf(rt_clip(g, 4, 5, 4)) && fabs((double)g[0] - 1.5) < 1e-6);
}

TEST(the_ratio_warms_up_by_equal_factors)
{
    CHECK(rt_warm_ratio(0, 4, 0.001f) == 0.25f);
    CHECK(fabs((double)rt_warm_ratio(1, 4, 0.001f) - 0.0629) < 1e-4);
    CHECK(fabs((double)rt_warm_ratio(2, 4, 0.001f) - 0.0158) < 1e-4);
    CHECK(rt_warm_ratio(4, 4, 0.001f) == 0.001f && rt_warm_ratio(9, 0, 0.01f) == 0.01f);
}

TEST_MAIN
