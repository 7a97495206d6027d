/*
 * What a rank does with the gradient of one tensor: a compressed all_reduce, with momentum correction where the codec
 * has momentum.
 */
#ifndef RT_LEARNING_EXCHANGE_H
#define RT_LEARNING_EXCHANGE_H

#include <ringtree/ringtree.h>

#define WORLD 4

struct exchange {
    ringtree_codec        codec;
    ringtree_codec_state *state;
    size_t                count;
    uint64_t              step, warm_steps; /* over which topk's ratio comes down to `ratio` */
    float                 ratio;
    float                *sum;
};

struct exchange new_exchange(const ringtree_codec *codec, uint32_t dimensions, size_t count, uint64_t warm_steps);
void free_exchange(struct exchange *exchange);

/* exchange->sum becomes the mean of all ranks' gradients: or with momentum the step that it makes of it. */
ringtree_status exchange_mean(struct exchange *exchange, ringtree_comm *comm, float *gradient);

#endif
