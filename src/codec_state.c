/* What a caller keeps for a tensor, and the helpers of compression that need no communicator. */
#include "compressed.h"
#include "codec/momentum.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static ringtree_status bad_state(const char *call)
{
    return rt_fail(rt_thread_error(), RINGTREE_INVALID_ARGUMENT, "%s: not a live ringtree_codec_state", call);
}

static bool is_live(const ringtree_codec_state *state)
{
    return state && state->live == RT_STATE_LIVE;
}

static void drop(struct rt_lent *lent)
{
    ringtree_codec_state *state = (ringtree_codec_state *)((char *)lent - offsetof(ringtree_codec_state, lent));
    rt_codec_state_free(state->kept);
    free(state);
}

/* ---- whose it is */

bool rt_state_take(ringtree_codec_state *state, int *was)
{
    *was = atomic_load(&state->lent.is);
    return *was != RT_LENT_OUT && atomic_compare_exchange_strong(&state->lent.is, was, RT_LENT_OUT);
}

void rt_state_give(ringtree_codec_state *state, int is)
{
    atomic_store(&state->lent.is, is);
}

const char *rt_state_words(int is)
{
    return is == RT_LENT_SPOILT ? "a call with this state failed: load what was saved before it, or reset it"
                                : "a call with this state is not finished: wait for its request first";
}

static ringtree_status not_now(const char *call, int is)
{
    return rt_fail(rt_thread_error(), RINGTREE_INVALID_ARGUMENT, "%s: %s", call, rt_state_words(is));
}

/* ---- the calls */

ringtree_status ringtree_codec_state_create(ringtree_codec_state **result, size_t count, const ringtree_codec *codec)
{
    struct rt_error *error = rt_thread_error();
    rt_error_clear(error);
    if (!result)
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "ringtree_codec_state_create: state is NULL");
    *result = NULL;
    struct rt_compression compression;
    ringtree_status status = rt_compression_of(codec, &compression, error);
    if (status != RINGTREE_OK) return status;
    ringtree_codec_state *state = calloc(1, sizeof *state);
    if (!state) return rt_fail(error, RINGTREE_NO_MEMORY, "ringtree_codec_state_create: no memory");
    const struct rt_codec_state shape = { .count = count, .has_residual = compression.codec.feedback,
                                          .has_momentum = compression.momentum > 0 };
    status = rt_codec_state_new(&state->kept, &shape, error);
    if (status != RINGTREE_OK) {
        free(state);
        return status;
    }
    state->live = RT_STATE_LIVE;
    state->lent.drop = drop;
    *result = state;
    return RINGTREE_OK;
}

void ringtree_codec_state_free(ringtree_codec_state *state)
{
    if (!is_live(state)) return;
    state->live = 0;
    if (atomic_exchange(&state->lent.is, RT_LENT_ORPHAN) != RT_LENT_OUT) drop(&state->lent);
}

void rt_state_settle(ringtree_codec_state *state)
{
    if (state->spent) memset(state->kept->residual, 0, state->kept->count * sizeof(float));
    if (state->spent && state->kept->has_momentum) rt_momentum_settle(state->kept->momentum, state->kept->count);
    if (state->spent) state->left = false;
    state->spent = false;
}

ringtree_status ringtree_codec_state_reset(ringtree_codec_state *state)
{
    int was;
    if (!is_live(state)) return bad_state("ringtree_codec_state_reset");
    if (!rt_state_take(state, &was)) return not_now("ringtree_codec_state_reset", was);
    rt_codec_state_reset(state->kept);
    state->report = (struct rt_compress_report){ 0 };
    state->calls = 0;
    state->last_kind = RINGTREE_CODEC_NONE;
    state->spent = state->left = false;
    rt_state_give(state, RT_LENT_FREE);
    return RINGTREE_OK;
}

size_t ringtree_codec_state_bytes(const ringtree_codec_state *state)
{
    return is_live(state) ? rt_codec_state_bytes(state->kept) : 0;
}

ringtree_status ringtree_codec_state_save(ringtree_codec_state *state, void *bytes, size_t capacity)
{
    if (!is_live(state)) return bad_state("ringtree_codec_state_save");
    if (!bytes || capacity < rt_codec_state_bytes(state->kept))
        return rt_fail(rt_thread_error(), RINGTREE_INVALID_ARGUMENT,
                       "ringtree_codec_state_save: needs room for %zu bytes", rt_codec_state_bytes(state->kept));
    int was;
    const bool taken = rt_state_take(state, &was), fit = taken && was == RT_LENT_FREE;
    if (fit) rt_state_settle(state);
    if (fit) rt_codec_state_save(state->kept, bytes);
    if (taken) rt_state_give(state, was);
    return fit ? RINGTREE_OK : not_now("ringtree_codec_state_save", was);
}

ringtree_status ringtree_codec_state_load(ringtree_codec_state *state, const void *bytes, size_t length)
{
    if (!is_live(state)) return bad_state("ringtree_codec_state_load");
    if (!bytes)
        return rt_fail(rt_thread_error(), RINGTREE_INVALID_ARGUMENT, "ringtree_codec_state_load: bytes is NULL");
    int was;
    if (!rt_state_take(state, &was)) return not_now("ringtree_codec_state_load", was);
    ringtree_status status = rt_codec_state_load(state->kept, bytes, length, rt_thread_error());
    if (status == RINGTREE_OK) {
        state->spent = false;
        state->left = true;
    }
    rt_state_give(state, status == RINGTREE_OK ? RT_LENT_FREE : was);
    return status;
}

ringtree_status ringtree_codec_state_report(const ringtree_codec_state *state, ringtree_codec_report *report)
{
    if (state && !is_live(state)) return bad_state("ringtree_codec_state_report");
    if (!report || report->size != sizeof *report)
        return rt_fail(rt_thread_error(), RINGTREE_INVALID_ARGUMENT,
                       "ringtree_codec_state_report: report is NULL or its size is not set");
    *report = (ringtree_codec_report){ .size = sizeof *report };
    if (!state) return RINGTREE_OK;
    *report = (ringtree_codec_report){ sizeof *report, state->calls, state->report.codec.nonfinite_blocks,
                                       state->report.codec.kept, state->report.sent_bytes, state->last_kind };
    return RINGTREE_OK;
}

double ringtree_codec_bound(const ringtree_codec *codec, double peak)
{
    struct rt_compression compression;
    return rt_compression_of(codec, &compression, NULL) == RINGTREE_OK ? rt_codec_error_bound(&compression.codec, peak)
                                                                       : 0;
}

double ringtree_clip(float *gradient, size_t count, double limit, uint32_t ranks)
{
    return rt_clip(gradient, count, limit, ranks ? ranks : 1);
}

float ringtree_warm_ratio(uint64_t step, uint64_t steps, float ratio)
{
    return rt_warm_ratio(step, steps, ratio);
}
