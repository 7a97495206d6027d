/* What a caller of the compressed collectives can do wrong, what peers can, and what states keep. */
#include "api/ranks.h"
#include "codec/inputs.h"
#include "test.h"
#include <math.h>

#define COUNT 20000

static ringtree_codec forced(ringtree_codec_kind kind, uint32_t flags)
{
    ringtree_codec codec = RINGTREE_CODEC_DEFAULT;
    codec.kind = kind;
    codec.flags = flags | RINGTREE_CODEC_FORCE;
    return codec;
}

static ringtree_status reduce(struct rank *self, const float *in, float *out, const ringtree_codec *codec,
                              ringtree_codec_state *state)
{
    return ringtree_all_reduce_compressed(self->comm, in, out, COUNT, RINGTREE_FLOAT32, RINGTREE_SUM, codec, state,
                                          NULL);
}

/* ---- what must be the same on all ranks */

struct difference {
    ringtree_codec ours, theirs;
    const char    *our_words, *their_words;
};

static void differ(struct rank *self)
{
    const struct difference *d = self->argument;
    static _Thread_local float in[COUNT], out[COUNT];
    const uint64_t begun = ranks_now_ms();
    const ringtree_status status = reduce(self, in, out, self->rank == 2 ? &d->theirs : &d->ours, NULL);
    CHECK_THAT(status == RINGTREE_MISMATCH, "rank %u: %s, %s", self->rank, ringtree_status_name(status),
               ringtree_last_error(self->comm));
    CHECK_HAS(ringtree_last_error(self->comm), d->our_words);
    CHECK_HAS(ringtree_last_error(self->comm), d->their_words);
    CHECK(ranks_now_ms() - begun < 5000);
}

TEST(another_codec_on_one_rank_is_a_mismatch_that_names_both)
{
    struct difference ways[] = {
        { forced(RINGTREE_CODEC_Q8, 0), forced(RINGTREE_CODEC_Q4, 0), "codec q8", "codec q4" },
        { forced(RINGTREE_CODEC_Q8, 0), forced(RINGTREE_CODEC_Q8, 0), "block 256", "block 64" },
        { forced(RINGTREE_CODEC_Q8, 0), forced(RINGTREE_CODEC_Q8, RINGTREE_CODEC_STOCHASTIC), "q8", "stochastic" },
        { forced(RINGTREE_CODEC_TOPK, 0), forced(RINGTREE_CODEC_TOPK, 0), "ratio 0.01", "ratio 0.02" },
    };
    ways[1].theirs.block = 64;
    ways[3].theirs.ratio = 0.02f;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        RANKS(differ, .ranks = 3, .processes = 3, .argument = &ways[i]);
        RANKS(differ, .ranks = 3, .processes = 3, .argument = &ways[i], .transports = "tcp");
    }
}

/* ---- what a peer can send */

static void receive_nonsense(struct rank *self)
{
    static _Thread_local float in[COUNT], out[COUNT];
    const ringtree_codec codec = forced(*(ringtree_codec_kind *)self->argument, 0);
    for (size_t i = 0; i < COUNT; i++) in[i] = (float)i;
    const ringtree_status status = reduce(self, in, out, &codec, NULL);
    CHECK_EQ(status, RINGTREE_MISMATCH);
    CHECK_HAS(ringtree_last_error(self->comm), "rank 1 (host");
    CHECK_HAS(ringtree_last_error(self->comm), "codes that cannot be in all_reduce");
}

TEST(codes_that_cannot_be_are_an_error_that_names_their_sender)
{
    static const char *const faults[][2] = { { "RINGTREE_FAULT=codes:1", NULL }, { "RINGTREE_FAULT=place:1", NULL } };
    for (size_t i = 0; i < 2; i++)
        for (ringtree_codec_kind kind = RINGTREE_CODEC_BF16; kind <= RINGTREE_CODEC_TOPK; kind++)
            RANKS(receive_nonsense, .ranks = 3, .processes = 3, .argument = &kind, .settings = faults[i]);
}

static void stay_away(struct rank *self)
{
    static _Thread_local float in[COUNT], out[COUNT];
    const ringtree_codec codec = forced(RINGTREE_CODEC_Q8, 0);
    if (self->rank == 1) return ranks_sleep_ms(3500);
    CHECK_EQ(reduce(self, in, out, &codec, NULL), RINGTREE_TIMEOUT);
    CHECK_HAS(ringtree_last_error(self->comm), "no answer from rank 1");
}

TEST(a_rank_that_does_not_come_is_named)
{
    RANKS(stay_away, .ranks = 3, .processes = 3, .timeout_ms = 700);
    RANKS(stay_away, .ranks = 3, .processes = 3, .timeout_ms = 700, .transports = "tcp");
}

static void abort_it(struct rank *self)
{
    static _Thread_local float in[COUNT], out[COUNT];
    const ringtree_codec codec = forced(RINGTREE_CODEC_Q8, 0);
    if (self->rank == 1) {
        ranks_sleep_ms(100);
        ringtree_abort(self->comm, "enough");
        return;
    }
    CHECK_EQ(reduce(self, in, out, &codec, NULL), RINGTREE_ABORTED);
    CHECK_HAS(ringtree_last_error(self->comm), "enough");
}

TEST(an_abort_ends_a_compressed_call)
{
    RANKS(abort_it, .ranks = 3, .processes = 3);
}

/* ---- what a caller can do wrong */

static void misuse(struct rank *self)
{
    static _Thread_local float in[COUNT], out[COUNT];
    ringtree_codec good = forced(RINGTREE_CODEC_Q8, 0), bad = good;
    ringtree_codec_state *small, *plain;
    ringtree_codec feedback = forced(RINGTREE_CODEC_Q4, RINGTREE_CODEC_FEEDBACK);
    CHECK_EQ(ringtree_codec_state_create(&small, 7, &feedback), RINGTREE_OK);
    CHECK_EQ(ringtree_codec_state_create(&plain, COUNT, &good), RINGTREE_OK);
    CHECK_EQ(reduce(self, in, out, NULL, NULL), RINGTREE_INVALID_ARGUMENT);
    bad.size = 3;
    CHECK_EQ(reduce(self, in, out, &bad, NULL), RINGTREE_INVALID_ARGUMENT);
    bad = good, bad.block = 100;
    CHECK_EQ(reduce(self, in, out, &bad, NULL), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(ringtree_last_error(self->comm), "no power of two");
    bad = good, bad.momentum = 0.9f;
    CHECK_EQ(reduce(self, in, out, &bad, NULL), RINGTREE_INVALID_ARGUMENT);
    bad = good, bad.flags |= 1u << 20;
    CHECK_EQ(reduce(self, in, out, &bad, NULL), RINGTREE_INVALID_ARGUMENT);
    CHECK_EQ(reduce(self, in, out, &feedback, NULL), RINGTREE_INVALID_ARGUMENT);
    CHECK_EQ(reduce(self, in, out, &feedback, small), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(ringtree_last_error(self->comm), "for 7 elements; this rank gives 20000");
    CHECK_EQ(reduce(self, in, out, &feedback, plain), RINGTREE_INVALID_ARGUMENT);
    CHECK_EQ(ringtree_all_reduce_compressed(self->comm, in, out, COUNT, RINGTREE_FLOAT64, RINGTREE_SUM, &good, NULL,
                                            NULL), RINGTREE_UNSUPPORTED);
    CHECK_EQ(ringtree_all_reduce_compressed(self->comm, in, out, COUNT, RINGTREE_FLOAT32, RINGTREE_MAX, &good, NULL,
                                            NULL), RINGTREE_UNSUPPORTED);
    char text[400];
    CHECK_EQ(ringtree_codec_explain(self->comm, RINGTREE_GATHER, 5, &good, text, sizeof text),
             RINGTREE_INVALID_ARGUMENT);
    CHECK_EQ(ringtree_codec_explain(self->comm, (ringtree_collective)99, 5, &good, text, sizeof text),
             RINGTREE_INVALID_ARGUMENT);
    CHECK_EQ(ringtree_codec_explain(self->comm, RINGTREE_ALL_GATHER, SIZE_MAX / 4, &good, text, sizeof text),
             RINGTREE_INVALID_ARGUMENT);
    CHECK_EQ(reduce(self, in, out, &good, NULL), RINGTREE_OK); /* and nothing was spoilt */
    CHECK_EQ(ringtree_all_reduce_compressed(self->comm, NULL, NULL, 0, RINGTREE_FLOAT32, RINGTREE_SUM, &good, NULL,
                                            NULL), RINGTREE_OK);
    ringtree_codec_state_free(small);
    ringtree_codec_state_free(plain);
    ringtree_codec_state_free(NULL);
}

TEST(a_codec_is_read_from_words)
{
    ringtree_codec codec = forced(RINGTREE_CODEC_Q4, 0);
    const ringtree_codec before = codec;
    static const char *const wrong[] = { "q9", "topk:", "topk:1x", "topk:0.5", "q8,reselect", "ring,tree" };
    CHECK_EQ(ringtree_codec_parse(&codec, "topk:0.02,feedback,int8"), RINGTREE_OK);
    CHECK(codec.size == sizeof codec && codec.kind == RINGTREE_CODEC_TOPK && fabsf(codec.ratio - 0.02f) < 1e-6f);
    CHECK_EQ(codec.flags, RINGTREE_CODEC_FEEDBACK | RINGTREE_CODEC_INT8_VALUES);
    CHECK_EQ(ringtree_codec_parse(&codec, "auto,q8,topk,feedback"), RINGTREE_OK);
    CHECK(codec.kind == RINGTREE_CODEC_AUTO && codec.allowed == (1u << RINGTREE_CODEC_Q8 | 1u << RINGTREE_CODEC_TOPK));
    CHECK_EQ(ringtree_codec_parse(&codec, "q8,ring"), RINGTREE_OK);
    CHECK_EQ(codec.flags, RINGTREE_CODEC_BY_RING | RINGTREE_CODEC_FORCE);
    codec = before;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_THAT(ringtree_codec_parse(&codec, wrong[i]) == RINGTREE_INVALID_ARGUMENT, "%s is taken", wrong[i]);
        CHECK(strlen(ringtree_last_error(NULL)) > 10 && !memcmp(&codec, &before, sizeof codec));
    }
    CHECK_EQ(ringtree_codec_parse(NULL, "q8"), RINGTREE_INVALID_ARGUMENT);
    CHECK_EQ(ringtree_codec_parse(&codec, NULL), RINGTREE_INVALID_ARGUMENT);
}

TEST(wrong_codecs_and_states_are_refused_and_the_communicator_goes_on)
{
    RANKS(misuse, .ranks = 2);
}

/* ---- requests and groups */

static void several(struct rank *self)
{
    static const ringtree_codec_kind kinds[] = { RINGTREE_CODEC_Q8, RINGTREE_CODEC_BF16, RINGTREE_CODEC_TOPK };
    float *in = new_floats(COUNT), *out[9], *expect[3];
    ringtree_request *requests[6], *group;
    fill_inputs(in, COUNT, GAUSSIAN, self->rank, 3);
    for (int i = 0; i < 9; i++) out[i] = new_floats(COUNT);
    for (int i = 0; i < 3; i++) {
        const ringtree_codec codec = forced(kinds[i], 0);
        expect[i] = new_floats(COUNT);
        CHECK_EQ(reduce(self, in, expect[i], &codec, NULL), RINGTREE_OK);
    }
    for (int i = 0; i < 6; i++) {
        const ringtree_codec codec = forced(kinds[i % 3], 0);
        CHECK_EQ(ringtree_all_reduce_compressed(self->comm, in, out[i], COUNT, RINGTREE_FLOAT32, RINGTREE_SUM, &codec,
                                                NULL, &requests[i]), RINGTREE_OK);
    }
    CHECK_EQ(ringtree_wait_all(requests, 6), RINGTREE_OK);
    CHECK_EQ(ringtree_group_begin(self->comm), RINGTREE_OK);
    for (int i = 6; i < 9; i++) {
        const ringtree_codec codec = forced(kinds[i % 3], 0);
        CHECK_EQ(reduce(self, in, out[i], &codec, NULL), RINGTREE_OK);
    }
    CHECK_EQ(ringtree_group_end(self->comm, &group), RINGTREE_OK);
    while (ringtree_test(&group) == RINGTREE_IN_PROGRESS) continue;
    for (int i = 0; i < 9; i++) {
        CHECK_THAT(memcmp(out[i], expect[i % 3], COUNT * sizeof(float)) == 0, "rank %u: call %d", self->rank, i);
        free(out[i]);
    }
    for (int i = 0; i < 3; i++) free(expect[i]);
    free(in);
}

TEST(requests_and_groups_give_what_blocking_calls_give)
{
    static const char *const thread[] = { "RINGTREE_PROGRESS_THREAD=1", NULL };
    RANKS(several, .ranks = 4);
    RANKS(several, .ranks = 3, .processes = 3, .transports = "tcp");
    RANKS(several, .ranks = 3, .processes = 3, .settings = thread);
}

static void shared_state(struct rank *self)
{
    float *in = new_floats(COUNT), *out = new_floats(COUNT), *other = new_floats(COUNT);
    fill_inputs(in, COUNT, GAUSSIAN, self->rank, 3);
    for (int exact = 0; exact < 2; exact++) {
        ringtree_codec codec = forced(RINGTREE_CODEC_Q8, RINGTREE_CODEC_FEEDBACK);
        ringtree_codec_state *state;
        ringtree_request *request;
        CHECK_EQ(ringtree_codec_state_create(&state, COUNT, &codec), RINGTREE_OK);
        char *saved = malloc(ringtree_codec_state_bytes(state));
        if (exact) codec.flags &= ~RINGTREE_CODEC_FORCE;
        CHECK_EQ(ringtree_all_reduce_compressed(self->comm, in, out, COUNT, RINGTREE_FLOAT32, RINGTREE_SUM, &codec,
                                                state, &request), RINGTREE_OK);
        CHECK_EQ(reduce(self, in, other, &codec, state), RINGTREE_INVALID_ARGUMENT);
        CHECK_HAS(ringtree_last_error(self->comm), "not finished");
        CHECK_EQ(ringtree_codec_state_save(state, saved, ringtree_codec_state_bytes(state)), RINGTREE_INVALID_ARGUMENT);
        CHECK_EQ(ringtree_wait(&request), RINGTREE_OK);
        CHECK_EQ(ringtree_group_begin(self->comm), RINGTREE_OK);
        CHECK_EQ(reduce(self, in, out, &codec, state), RINGTREE_OK);
        CHECK_EQ(ringtree_group_end(self->comm, &request), RINGTREE_OK);
        CHECK_EQ(ringtree_barrier(self->comm, NULL), RINGTREE_OK); /* its operation has ended, the request not */
        CHECK_EQ(reduce(self, in, other, &codec, state), RINGTREE_INVALID_ARGUMENT);
        CHECK_EQ(ringtree_wait(&request), RINGTREE_OK);
        CHECK_EQ(reduce(self, in, other, &codec, state), RINGTREE_OK);
        CHECK_EQ(ringtree_codec_state_save(state, saved, ringtree_codec_state_bytes(state)), RINGTREE_OK);
        ringtree_codec_state_free(state);
        free(saved);
    }
    free(in);
    free(out);
    free(other);
}

TEST(a_state_in_use_is_refused_until_its_call_is_finished)
{
    RANKS(shared_state, .ranks = 2);
    RANKS(shared_state, .ranks = 2, .processes = 2, .transports = "tcp");
}

static void unplanned(struct rank *self)
{
    float *in = new_floats(COUNT), *out = new_floats(COUNT);
    ringtree_codec codec = forced(RINGTREE_CODEC_TOPK, RINGTREE_CODEC_FEEDBACK);
    ringtree_codec_state *state;
    fill_inputs(in, COUNT, GAUSSIAN, self->rank, 3);
    CHECK_EQ(ringtree_codec_state_create(&state, COUNT, &codec), RINGTREE_OK);
    const size_t bytes = ringtree_codec_state_bytes(state);
    char *before = malloc(bytes), *after = malloc(bytes);
    CHECK_EQ(reduce(self, in, out, &codec, state), RINGTREE_OK);
    CHECK_EQ(ringtree_codec_state_save(state, before, bytes), RINGTREE_OK);
    codec.flags &= ~RINGTREE_CODEC_FORCE;
    CHECK_EQ(reduce(self, in, out, &codec, state), RINGTREE_INVALID_SETTING);
    CHECK_EQ(ringtree_codec_state_save(state, after, bytes), RINGTREE_OK);
    CHECK(!memcmp(before, after, bytes));
    ringtree_codec_state_free(state);
    free(before);
    free(after);
    free(in);
    free(out);
}

TEST(a_call_that_cannot_be_planned_leaves_its_state_alone)
{
    RANKS(unplanned, .ranks = 2, .algorithm = "bruck"); /* which is no way of adding */
}

/* ---- NaN and infinity */

static void poison(struct rank *self)
{
    float *in = new_floats(COUNT), *exact = new_floats(COUNT), *out = new_floats(COUNT);
    for (ringtree_codec_kind kind = RINGTREE_CODEC_BF16; kind <= RINGTREE_CODEC_TOPK; kind++) {
        const ringtree_codec codec = forced(kind, 0);
        ringtree_codec_report report = { .size = sizeof report };
        ringtree_codec_state *state;
        CHECK_EQ(ringtree_codec_state_create(&state, COUNT, &codec), RINGTREE_OK);
        fill_inputs(in, COUNT, GAUSSIAN, self->rank, 5);
        if (self->rank == 0) in[300] = INFINITY, in[9000] = NAN;
        if (self->rank == 1) in[300] = -INFINITY, in[COUNT - 1] = -INFINITY;
        CHECK_EQ(ringtree_all_reduce(self->comm, in, exact, COUNT, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_OK);
        CHECK_EQ(reduce(self, in, out, &codec, state), RINGTREE_OK);
        for (size_t i = 0; i < COUNT; i++)
            CHECK_THAT(isnan(exact[i]) == isnan(out[i]) && (!isinf(exact[i]) || exact[i] == out[i]) &&
                           isinf(exact[i]) == isinf(out[i]),
                       "%s, element %zu: %g, not %g", ringtree_codec_name(kind), i, (double)out[i], (double)exact[i]);
        CHECK_EQ(ringtree_codec_state_report(state, &report), RINGTREE_OK);
        if (self->rank < 2) CHECK(report.nonfinite_blocks >= 2);
        CHECK(report.calls == 1 && report.last_kind == kind && report.sent_bytes > 0);
        ringtree_codec_state_free(state);
    }
    free(in);
    free(exact);
    free(out);
}

TEST(nan_and_infinity_arrive_where_they_would_without_a_codec)
{
    RANKS(poison, .ranks = 3);
}

/* ---- states */

/* The arrays of a state, from its saved bytes: after 48 bytes of head. */
static void residual_of(ringtree_codec_state *state, float *residual)
{
    const size_t length = ringtree_codec_state_bytes(state);
    unsigned char *bytes = malloc(length);
    CHECK_EQ(ringtree_codec_state_save(state, bytes, length), RINGTREE_OK);
    memcpy(residual, bytes + 48, COUNT * sizeof *residual);
    free(bytes);
}

/* Sums over all ranks and steps, in float64: what went in, what came out, what is left, and how much was moved. */
static void balance(struct rank *self, const ringtree_codec *codec, int steps, bool exact_last)
{
    double *books = calloc(4 * COUNT, sizeof *books), *in = books, *left = books + COUNT, *moved = books + 2 * COUNT;
    double *came = books + 3 * COUNT, *all = calloc(3 * COUNT, sizeof *all);
    float *values = new_floats(COUNT), *out = new_floats(COUNT);
    ringtree_codec_state *state;
    CHECK_EQ(ringtree_codec_state_create(&state, COUNT, codec), RINGTREE_OK);
    for (int step = 0; step < steps; step++) {
        ringtree_codec now = *codec;
        if (exact_last && step == steps - 1) now.kind = RINGTREE_CODEC_NONE;
        fill_inputs(values, COUNT, step % 2 ? STUDENT : CORRELATED, self->rank, 40 + (uint64_t)step);
        CHECK_THAT(reduce(self, values, out, &now, state) == RINGTREE_OK, "%s", ringtree_last_error(self->comm));
        for (size_t i = 0; i < COUNT; i++) {
            in[i] += (double)values[i];
            moved[i] += fabs((double)values[i]);
            came[i] += (double)out[i];
        }
    }
    residual_of(state, values);
    for (size_t i = 0; i < COUNT; i++) left[i] = (double)values[i];
    CHECK_EQ(ringtree_all_reduce(self->comm, books, all, 3 * COUNT, RINGTREE_FLOAT64, RINGTREE_SUM, NULL), RINGTREE_OK);
    double worst = 0;
    for (size_t i = 0; i < COUNT; i++)
        worst = fmax(worst, fabs(all[i] - came[i] - all[COUNT + i]) / (all[2 * COUNT + i] * 0x1p-20));
    CHECK_THAT(worst < 1, "%s, flags %u: lost %g times what float32 rounds", ringtree_codec_name(codec->kind),
               codec->flags, worst);
    if (exact_last)
        for (size_t i = 0; i < COUNT; i++) CHECK(values[i] == 0);
    ringtree_codec_state_free(state);
    free(books);
    free(all);
    free(values);
    free(out);
}

static void keep_books(struct rank *self)
{
    static const uint32_t extra[] = { 0, RINGTREE_CODEC_STOCHASTIC, RINGTREE_CODEC_INT8_VALUES,
                                      RINGTREE_CODEC_RESELECT };
    const bool apart = *(bool *)self->argument;
    for (ringtree_codec_kind kind = RINGTREE_CODEC_Q8; kind <= RINGTREE_CODEC_TOPK; kind++)
        for (int i = 0; i < 4; i++) {
            ringtree_codec codec = forced(kind, extra[i] | RINGTREE_CODEC_FEEDBACK);
            if (!apart) codec.flags &= ~RINGTREE_CODEC_FORCE;
            if ((extra[i] == RINGTREE_CODEC_STOCHASTIC) == (kind == RINGTREE_CODEC_TOPK) && extra[i]) continue;
            balance(self, &codec, 6, false);
            balance(self, &codec, 3, true);
        }
}

TEST(results_and_residuals_are_together_what_went_in)
{
    static const char *const slow[] = { "RINGTREE_LINK_RATE=1G", NULL };
    bool apart = true;
    RANKS(keep_books, .ranks = 4, .argument = &apart);
    apart = false;
    RANKS(keep_books, .ranks = 4, .processes = 4, .hosts = "aabb", .argument = &apart, .settings = slow);
    RANKS(keep_books, .ranks = 3, .processes = 3, .hosts = "aba", .argument = &apart, .settings = slow);
}

static void step(struct rank *self, ringtree_codec_state *state, const ringtree_codec *codec, uint64_t number,
                 float *out)
{
    static _Thread_local float in[COUNT];
    fill_inputs(in, COUNT, GAUSSIAN, self->rank, number);
    CHECK_EQ(reduce(self, in, out, codec, state), RINGTREE_OK);
}

static void resume(struct rank *self)
{
    const uint32_t flags = RINGTREE_CODEC_FEEDBACK;
    ringtree_codec codecs[] = { forced(RINGTREE_CODEC_Q4, flags | RINGTREE_CODEC_STOCHASTIC),
                                forced(RINGTREE_CODEC_TOPK, flags) };
    float *out = new_floats(COUNT), *again = new_floats(COUNT);
    codecs[1].momentum = 0.9f;
    for (int c = 0; c < 2; c++) {
        ringtree_codec_state *state, *other;
        CHECK_EQ(ringtree_codec_state_create(&state, COUNT, &codecs[c]), RINGTREE_OK);
        CHECK_EQ(ringtree_codec_state_create(&other, COUNT, &codecs[c]), RINGTREE_OK);
        const size_t length = ringtree_codec_state_bytes(state);
        unsigned char *bytes = malloc(length);
        for (uint64_t i = 0; i < 3; i++) step(self, state, &codecs[c], i, out);
        CHECK_EQ(ringtree_codec_state_save(state, bytes, length - 1), RINGTREE_INVALID_ARGUMENT);
        CHECK_EQ(ringtree_codec_state_save(state, bytes, length), RINGTREE_OK);
        step(self, state, &codecs[c], 3, out);
        step(self, other, &codecs[c], 9, again);
        CHECK_EQ(ringtree_codec_state_load(other, bytes, length), RINGTREE_OK);
        step(self, other, &codecs[c], 3, again);
        CHECK(memcmp(out, again, COUNT * sizeof *out) == 0);
        ringtree_codec_state_reset(other);
        step(self, other, &codecs[c], 3, again);
        CHECK(memcmp(out, again, COUNT * sizeof *out) != 0);
        bytes[length / 2] ^= 1;
        CHECK_EQ(ringtree_codec_state_load(other, bytes, length), RINGTREE_INVALID_ARGUMENT);
        CHECK_HAS(ringtree_last_error(NULL), "damaged");
        ringtree_codec_state_free(state);
        ringtree_codec_state_free(other);
        free(bytes);
    }
    free(out);
    free(again);
}

TEST(a_saved_state_goes_on_to_the_bit)
{
    RANKS(resume, .ranks = 3);
}

/* ---- comparison, and auto */

static double error_of(struct rank *self, uint32_t flags)
{
    float *in = new_floats(COUNT), *out = new_floats(COUNT), *exact = new_floats(COUNT);
    const ringtree_codec codec = forced(RINGTREE_CODEC_Q8, flags);
    double squares = 0;
    fill_inputs(in, COUNT, GAUSSIAN, self->rank, 5);
    CHECK_EQ(ringtree_all_reduce(self->comm, in, exact, COUNT, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_OK);
    CHECK_THAT(reduce(self, in, out, &codec, NULL) == RINGTREE_OK, "%s", ringtree_last_error(self->comm));
    for (size_t i = 0; i < COUNT; i++) squares += pow((double)out[i] - (double)exact[i], 2);
    free(in);
    free(out);
    free(exact);
    return sqrt(squares / COUNT);
}

static void compare_ways(struct rank *self)
{
    const double owner = error_of(self, 0), ring = error_of(self, RINGTREE_CODEC_BY_RING);
    const double tree = error_of(self, RINGTREE_CODEC_BY_TREE);
    CHECK_THAT(ring > 1.1 * owner && tree != owner, "owner %g, ring %g, tree %g", owner, ring, tree);
}

TEST(encoding_anew_at_each_hop_is_worse)
{
    RANKS(compare_ways, .ranks = 8);
    RANKS(compare_ways, .ranks = 5, .processes = 5, .transports = "tcp");
}

static void explain_plan(struct rank *self, char *text, size_t capacity)
{
    CHECK_EQ(ringtree_plan_explain(self->comm, RINGTREE_ALL_REDUCE, 1 << 20, RINGTREE_FLOAT32, RINGTREE_SUM, text,
                                   capacity), RINGTREE_OK);
}

static void choose(struct rank *self)
{
    const char *expect = self->argument;
    ringtree_codec codec = RINGTREE_CODEC_DEFAULT;
    char text[4096];
    codec.kind = RINGTREE_CODEC_AUTO;
    explain_plan(self, text, sizeof text);
    CHECK_HAS(text, strncmp(expect, "exact", 5) ? "with codec auto: not measured yet" : expect);
    CHECK_EQ(ringtree_codec_explain(self->comm, RINGTREE_ALL_REDUCE, 1 << 20, &codec, text, sizeof text), RINGTREE_OK);
    CHECK_HAS(text, expect);
    explain_plan(self, text, sizeof text);
    CHECK_HAS(text, expect);
    codec.dimensions = 1;
    CHECK_EQ(ringtree_codec_explain(self->comm, RINGTREE_ALL_REDUCE, 1 << 20, &codec, text, sizeof text), RINGTREE_OK);
    CHECK_HAS(text, "one dimension");
    float *in = new_floats(COUNT), *out = new_floats(COUNT);
    codec.dimensions = 2;
    CHECK_THAT(reduce(self, in, out, &codec, NULL) == RINGTREE_OK, "%s", ringtree_last_error(self->comm));
    free(in);
    free(out);
}

TEST(auto_compresses_on_slow_links_and_says_why)
{
    static const char *const slow[] = { "RINGTREE_LINK_RATE=2M", NULL };
    static const char *const fast[] = { "RINGTREE_LINK_RATE=4G", NULL };
    RANKS(choose, .ranks = 3, .processes = 3, .hosts = "aab", .settings = slow, .argument = "auto: q8; predicted");
    RANKS(choose, .ranks = 3, .processes = 3, .hosts = "aab", .settings = fast, .argument = "exact; links of");
    RANKS(choose, .ranks = 3, .processes = 3, .argument = "exact; all ranks share memory");
}

static void come_late(struct rank *self)
{
    const size_t many = 8 << 20;
    const ringtree_codec codec = forced(RINGTREE_CODEC_AUTO, 0);
    float *in = new_floats(COUNT), *out = new_floats(COUNT), *large = new_floats(many);
    ringtree_request *request;
    CHECK_EQ(ringtree_all_reduce(self->comm, large, large, many, RINGTREE_FLOAT32, RINGTREE_SUM, &request),
             RINGTREE_OK);
    if (self->rank == 1) CHECK_EQ(ringtree_wait(&request), RINGTREE_OK);
    CHECK_THAT(reduce(self, in, out, &codec, NULL) == RINGTREE_OK, "%s", ringtree_last_error(self->comm));
    if (request) CHECK_EQ(ringtree_wait(&request), RINGTREE_OK);
    free(in);
    free(out);
    free(large);
}

TEST(requests_go_on_while_auto_measures_for_the_first_time)
{
    RANKS(come_late, .ranks = 2, .processes = 2, .transports = "tcp", .timeout_ms = 3000);
}

/* ---- broadcast */

static void ignore_input(struct rank *self)
{
    ringtree_codec codec = RINGTREE_CODEC_DEFAULT;
    ringtree_codec_state *state;
    float *in = new_floats(COUNT), *out = new_floats(COUNT);
    codec.flags = RINGTREE_CODEC_FEEDBACK;
    codec.momentum = 0.5f;
    CHECK_EQ(ringtree_codec_state_create(&state, COUNT, &codec), RINGTREE_OK);
    in[COUNT - 1] = 3;
    CHECK_EQ(ringtree_broadcast_compressed(self->comm, self->rank ? (void *)64 : in, out, COUNT, RINGTREE_FLOAT32, 0,
                                           &codec, state, NULL), RINGTREE_OK);
    CHECK(memcmp(in, out, (COUNT - 1) * sizeof(float)) == 0 && out[COUNT - 1] == 3);
    ringtree_codec_state_free(state);
    free(in);
    free(out);
}

TEST(a_broadcast_ignores_the_input_of_others_than_the_root)
{
    RANKS(ignore_input, .ranks = 3);
}

static void send_to_nobody(struct rank *self)
{
    const ringtree_codec codec = forced(RINGTREE_CODEC_BF16, 0);
    float *in = new_floats(COUNT), *out = new_floats(COUNT);
    for (size_t i = 0; i < COUNT; i++) in[i] = (float)(i % 100);
    CHECK_EQ(ringtree_broadcast_compressed(self->comm, in, out, COUNT, RINGTREE_FLOAT32, 0, &codec, NULL, NULL),
             RINGTREE_OK);
    CHECK(memcmp(in, out, COUNT * sizeof(float)) == 0);
    free(in);
    free(out);
}

TEST(a_broadcast_of_one_rank_fills_its_output)
{
    RANKS(send_to_nobody, .ranks = 1);
}

TEST_MAIN
