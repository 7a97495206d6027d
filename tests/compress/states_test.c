/* Whose a state is while a call has it, after one that failed, and what it keeps of what is not finite. */
#include "api/ranks.h"
#include "codec/inputs.h"
#include "test.h"
#include <string.h>

#define COUNT 20000

static ringtree_codec with_feedback(ringtree_codec_kind kind, float momentum)
{
    ringtree_codec codec = RINGTREE_CODEC_DEFAULT;
    codec.kind = kind;
    codec.flags = RINGTREE_CODEC_FEEDBACK | RINGTREE_CODEC_FORCE;
    codec.momentum = momentum;
    return codec;
}

struct held {
    ringtree_codec        codec;
    ringtree_codec_state *state;
    size_t                bytes;
    char                 *saved;
    float                *in, *out;
};

static struct held held_new(const struct rank *self, ringtree_codec codec)
{
    struct held h = { .codec = codec, .in = new_floats(COUNT), .out = new_floats(COUNT) };
    CHECK_EQ(ringtree_codec_state_create(&h.state, COUNT, &codec), RINGTREE_OK);
    h.bytes = ringtree_codec_state_bytes(h.state);
    h.saved = malloc(h.bytes);
    CHECK_EQ(ringtree_codec_state_save(h.state, h.saved, h.bytes), RINGTREE_OK);
    fill_inputs(h.in, COUNT, GAUSSIAN, self->rank, 3);
    return h;
}

static void held_free(struct held *h)
{
    ringtree_codec_state_free(h->state);
    free(h->saved);
    free(h->in);
    free(h->out);
}

static ringtree_status reduce(struct rank *self, struct held *h, ringtree_request **request)
{
    return ringtree_all_reduce_compressed(self->comm, h->in, h->out, COUNT, RINGTREE_FLOAT32, RINGTREE_SUM, &h->codec,
                                          h->state, request);
}

static void check_refused(struct held *h, const char *words)
{
    CHECK_EQ(ringtree_codec_state_load(h->state, h->saved, h->bytes), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(ringtree_last_error(NULL), "ringtree_codec_state_load");
    CHECK_HAS(ringtree_last_error(NULL), words);
    CHECK_EQ(ringtree_codec_state_reset(h->state), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(ringtree_last_error(NULL), "ringtree_codec_state_reset");
    CHECK_HAS(ringtree_last_error(NULL), words);
}

/* ---- running */

static void load_under_way(struct rank *self)
{
    for (int exact = 0; exact < 2; exact++) {
        struct held h = held_new(self, with_feedback(RINGTREE_CODEC_Q8, 0)), calm = held_new(self, h.codec);
        ringtree_request *request;
        if (exact) h.codec.flags &= ~RINGTREE_CODEC_FORCE;
        calm.codec = h.codec;
        CHECK_EQ(reduce(self, &calm, NULL), RINGTREE_OK);
        CHECK_EQ(reduce(self, &h, &request), RINGTREE_OK);
        check_refused(&h, "not finished");
        CHECK_EQ(ringtree_wait(&request), RINGTREE_OK);
        CHECK(memcmp(h.out, calm.out, COUNT * sizeof(float)) == 0);
        CHECK_EQ(ringtree_group_begin(self->comm), RINGTREE_OK);
        CHECK_EQ(reduce(self, &h, NULL), RINGTREE_OK);
        check_refused(&h, "not finished"); /* not even begun */
        CHECK_EQ(ringtree_group_end(self->comm, NULL), RINGTREE_OK);
        CHECK_EQ(ringtree_codec_state_load(h.state, h.saved, h.bytes), RINGTREE_OK);
        h.saved[h.bytes / 2] ^= 1;
        CHECK_EQ(ringtree_codec_state_load(h.state, h.saved, h.bytes), RINGTREE_INVALID_ARGUMENT);
        CHECK_EQ(reduce(self, &h, NULL), RINGTREE_OK); /* a load that failed has left it free */
        CHECK_EQ(ringtree_codec_state_reset(h.state), RINGTREE_OK);
        held_free(&h);
        held_free(&calm);
    }
    CHECK_EQ(ringtree_codec_state_reset(NULL), RINGTREE_INVALID_ARGUMENT);
}

TEST(a_state_is_neither_loaded_nor_reset_under_a_call)
{
    RANKS(load_under_way, .ranks = 2);
    RANKS(load_under_way, .ranks = 2, .processes = 2, .transports = "tcp");
}

static void free_under_way(struct rank *self)
{
    struct held h = held_new(self, with_feedback(RINGTREE_CODEC_TOPK, 0.9f));
    ringtree_request *request;
    CHECK_EQ(reduce(self, &h, &request), RINGTREE_OK);
    ringtree_codec_state_free(h.state);
    h.state = NULL;
    CHECK_EQ(ringtree_wait(&request), RINGTREE_OK);
    held_free(&h);
}

/* The sanitizers see whether it is freed too early, or never. */
TEST(a_state_freed_under_a_call_lasts_until_the_call_is_over)
{
    RANKS(free_under_way, .ranks = 2);
    RANKS(free_under_way, .ranks = 2, .processes = 2, .transports = "tcp");
}

/* ---- failed */

static void fail(struct rank *self)
{
    struct held h = held_new(self, with_feedback(RINGTREE_CODEC_Q8, 0));
    struct held waited = held_new(self, h.codec), left = held_new(self, h.codec);
    ringtree_request *request, *never;
    CHECK_EQ(reduce(self, &h, NULL), RINGTREE_OK);
    if (self->rank == 1) {
        ranks_sleep_ms(100);
        ringtree_abort(self->comm, "enough");
    } else {
        CHECK_EQ(reduce(self, &waited, &request), RINGTREE_OK);
        CHECK_EQ(reduce(self, &left, &never), RINGTREE_OK);
        CHECK_EQ(reduce(self, &h, NULL), RINGTREE_ABORTED);
        CHECK_EQ(ringtree_codec_state_save(h.state, h.saved, h.bytes), RINGTREE_INVALID_ARGUMENT);
        CHECK_HAS(ringtree_last_error(NULL), "a call with this state failed");
        CHECK_EQ(ringtree_codec_state_load(h.state, h.saved, h.bytes), RINGTREE_OK);
        CHECK_EQ(ringtree_codec_state_save(h.state, h.saved, h.bytes), RINGTREE_OK);
        check_refused(&waited, "not finished");
        CHECK_EQ(ringtree_wait(&request), RINGTREE_ABORTED);
        CHECK_EQ(ringtree_codec_state_reset(waited.state), RINGTREE_OK);
    }
    ringtree_destroy(self->comm);
    self->comm = NULL;
    CHECK_EQ(ringtree_codec_state_load(left.state, left.saved, left.bytes), RINGTREE_OK); /* nobody has it any more */
    held_free(&h);
    held_free(&waited);
    held_free(&left);
}

TEST(after_a_call_that_failed_a_state_is_loaded_or_reset)
{
    RANKS(fail, .ranks = 2, .processes = 2);
    RANKS(fail, .ranks = 2, .processes = 2, .transports = "tcp");
}

/* ---- what is not finite */

/* The elements of v and of u that are not 0, from the saved bytes: after 48 bytes of head. */
static size_t kept(struct held *h, size_t element, float *u)
{
    float v;
    CHECK_EQ(ringtree_codec_state_save(h->state, h->saved, h->bytes), RINGTREE_OK);
    memcpy(&v, h->saved + 48 + element * sizeof v, sizeof v);
    memcpy(u, h->saved + 48 + (COUNT + element) * sizeof *u, sizeof *u);
    return (v != 0) + (*u != 0);
}

static void poison(struct rank *self)
{
    static const ringtree_codec_kind kinds[] = { RINGTREE_CODEC_NONE, RINGTREE_CODEC_Q8, RINGTREE_CODEC_TOPK };
    for (int k = 0; k < 3; k++) {
        struct held h = held_new(self, with_feedback(kinds[k], 0.9f));
        float u;
        h.in[700] = INFINITY;
        h.in[9000] = NAN;
        CHECK_EQ(reduce(self, &h, NULL), RINGTREE_OK);
        CHECK(isinf(h.out[700]) && isnan(h.out[9000]));
        CHECK_EQ(kept(&h, 700, &u), 0);
        CHECK_EQ(kept(&h, 9000, &u), 0);
        CHECK_THAT(ringtree_codec_state_load(h.state, h.saved, h.bytes) == RINGTREE_OK, "%s: %s",
                   ringtree_codec_name(kinds[k]), ringtree_last_error(NULL));
        h.in[700] = h.in[9000] = 1;
        CHECK_EQ(reduce(self, &h, NULL), RINGTREE_OK);
        CHECK(fabsf(h.out[700] - 2) < 0.05f && fabsf(h.out[9000] - 2) < 0.05f);
        held_free(&h);
    }
}

TEST(momentum_forgets_what_is_not_finite_and_its_state_can_be_loaded)
{
    RANKS(poison, .ranks = 2);
}

TEST_MAIN
