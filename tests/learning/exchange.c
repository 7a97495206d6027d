/* See exchange.h. */
#include "exchange.h"
#include "codec/inputs.h"

#define NORM_LIMIT 20.0 /* of a tensor's gradient: against single wild steps */

struct exchange new_exchange(const ringtree_codec *codec, uint32_t dimensions, size_t count, uint64_t warm_steps)
{
    struct exchange exchange = { .codec = *codec, .count = count, .warm_steps = warm_steps, .ratio = codec->ratio };
    exchange.codec.dimensions = dimensions;
    exchange.sum = new_floats(count);
    if (ringtree_codec_state_create(&exchange.state, count, &exchange.codec)) abort();
    return exchange;
}

void free_exchange(struct exchange *exchange)
{
    ringtree_codec_state_free(exchange->state);
    free(exchange->sum);
}

ringtree_status exchange_mean(struct exchange *exchange, ringtree_comm *comm, float *gradient)
{
    if (exchange->codec.momentum > 0) {
        ringtree_clip(gradient, exchange->count, NORM_LIMIT, WORLD);
        exchange->codec.ratio = ringtree_warm_ratio(exchange->step++, exchange->warm_steps, exchange->ratio);
    }
    return ringtree_all_reduce_compressed(comm, gradient, exchange->sum, exchange->count, RINGTREE_FLOAT32,
                                          RINGTREE_AVG, &exchange->codec, exchange->state, NULL);
}
