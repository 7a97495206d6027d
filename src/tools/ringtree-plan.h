/* ringtree-plan: a formula, in words, as a drawing, or verified. */
#ifndef RINGTREE_PLAN_H
#define RINGTREE_PLAN_H

#include "verify/verify.h"
#include <stdio.h>

#define PLAN_MOST_RANKS 65536
#define PLAN_MOST_DRAWN 64 /* ranks in a drawing */

struct plan {
    const struct rt_algorithm *algorithm;
    uint32_t                   nranks, root, lanes, chunks;
    const struct rt_layout    *layout;
};

struct rt_shape plan_shape(const struct plan *plan, uint32_t rank, uint32_t lane);

/* "receive from 3, add INPUT[2], send to 1" into `text`. */
void plan_step_words(const struct plan *plan, const struct rt_step *step, char *text, size_t capacity);
/* "2", "4..7", "1, 3, ..": the chunks of a span. */
void plan_chunk_words(const struct plan *plan, uint8_t buffer, uint32_t first, const struct rt_step *step, char *text,
                      size_t capacity);

/* rank RT_NONE: all. */
void plan_print(const struct plan *plan, uint32_t rank, FILE *out);

/* false: no memory. */
bool plan_draw(const struct plan *plan, FILE *out);

/* A step in the drawing: its row is one more than the row of whatever it waits for. */
struct plan_event {
    struct rt_step step;
    uint32_t       rank, lane, index, row;
    uint32_t       sender[2]; /* events whose messages it receives, or RT_NONE */
    uint32_t       after;     /* the last step of the lane that it waits for, or RT_NONE */
};

/* All steps of all ranks with an effect, rank by rank and lane by lane. NULL: no memory. */
struct plan_event *plan_schedule(const struct plan *plan, uint32_t *count);

#endif
