/*
 * What four ranks do with the gradients of one tensor: with momentum correction where the codec keeps residuals,
 * then a sum by owner. Here all ranks are in this process; the bytes are those that would travel.
 */
#ifndef RT_LEARNING_EXCHANGE_H
#define RT_LEARNING_EXCHANGE_H

#include "codec/codec.h"

#define RANKS 4

struct exchange {
    struct rt_codec codec;
    size_t          count;
    uint64_t        step;
    uint64_t        warm_steps; /* over which topk's ratio comes down to the codec's */
    float          *momentum[RANKS], *residual[RANKS]; /* NULL without feedback */
    float          *sum;
    uint8_t        *bytes;
    uint64_t        sent; /* bytes, by all ranks */
};

struct exchange new_exchange(const struct rt_codec *codec, size_t count, uint64_t warm_steps);
void free_exchange(struct exchange *exchange);

/* gradients[0 .. RANKS] become, in exchange->sum, their mean: or with feedback the step that momentum makes of it. */
void exchange_mean(struct exchange *exchange, float *const *gradients, float momentum);

#endif
