/*
 * What a tensor's error feedback keeps from step to step. The caller owns it: one per tensor and rank. It can be
 * written to bytes and read back, so that a run resumed from a checkpoint goes on as if it had not stopped.
 *
 * There is one residual per rank. What a rank leaves out as a sender and what it leaves out as the owner of a sum both
 * go into it, so a saved state serves whichever ranges the ranks will own later.
 */
#ifndef RT_CODEC_STATE_H
#define RT_CODEC_STATE_H

#include "codec.h"

struct rt_codec_state {
    uint64_t count;        /* elements of the tensor */
    uint64_t has_residual; /* 0 or 1 */
    uint64_t has_momentum; /* 0 or 1; needs a residual */
    uint64_t step;         /* seeds stochastic rounding; 1 is added per call */
    float   *residual;     /* [count] what this rank has not sent, or NULL */
    float   *momentum;     /* [count], or NULL: see momentum.h */
};

/*
 * All zeros. The shape is that of the fields in `shape` before `step`. Freed with rt_codec_state_free(), which
 * takes NULL.
 */
ringtree_status rt_codec_state_new(struct rt_codec_state **state, const struct rt_codec_state *shape,
                                   struct rt_error *error);
void rt_codec_state_free(struct rt_codec_state *state);

/* As new: nothing left over, step 0. */
void rt_codec_state_reset(struct rt_codec_state *state);

/* Writes rt_codec_state_bytes() bytes. */
size_t rt_codec_state_bytes(const struct rt_codec_state *state);
void   rt_codec_state_save(const struct rt_codec_state *state, void *bytes);

/*
 * Reads what was saved from a state of the same shape. RINGTREE_INVALID_ARGUMENT: it was not, or the bytes were
 * damaged, or come from another version; *state is then as it was.
 */
ringtree_status rt_codec_state_load(struct rt_codec_state *state, const void *bytes, size_t length,
                                    struct rt_error *error);

#endif
