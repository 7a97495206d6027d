/* What a caller keeps for a tensor, and the helpers of compression that need no communicator. */
#include "compressed.h"
#include "codec/momentum.h"
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
    *result = state;
    return RINGTREE_OK;
}

void ringtree_codec_state_free(ringtree_codec_state *state)
{
    if (!is_live(state)) return;
    state->live = 0;
    rt_codec_state_free(state->kept);
    free(state);
}

void rt_state_settle(ringtree_codec_state *state)
{
    if (state->spent) memset(state->kept->residual, 0, state->kept->count * sizeof(float));
    if (state->spent) state->left = false;
    state->spent = false;
}

void ringtree_codec_state_reset(ringtree_codec_state *state)
{
    if (!is_live(state)) return;
    struct rt_codec_state *kept = state->kept;
    rt_codec_state_reset(kept);
    *state = (ringtree_codec_state){ .live = RT_STATE_LIVE, .kept = kept };
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
    if (atomic_load(&state->lent.held))
        return rt_fail(rt_thread_error(), RINGTREE_INVALID_ARGUMENT, "ringtree_codec_state_save: %s", RT_STATE_HELD);
    rt_state_settle(state);
    rt_codec_state_save(state->kept, bytes);
    return RINGTREE_OK;
}

ringtree_status ringtree_codec_state_load(ringtree_codec_state *state, const void *bytes, size_t length)
{
    if (!is_live(state)) return bad_state("ringtree_codec_state_load");
    if (!bytes)
        return rt_fail(rt_thread_error(), RINGTREE_INVALID_ARGUMENT, "ringtree_codec_state_load: bytes is NULL");
    ringtree_status status = rt_codec_state_load(state->kept, bytes, length, rt_thread_error());
    if (status != RINGTREE_OK) return status;
    state->spent = false;
    state->left = true;
    atomic_store(&state->lent.held, false);
    return RINGTREE_OK;
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
