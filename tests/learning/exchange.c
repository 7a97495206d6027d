/* See exchange.h. */
#include "exchange.h"
#include "codec/inputs.h"
#include "codec/momentum.h"
#include "reduce/reduce.h"

#define NORM_LIMIT 20.0 /* of a tensor's gradient: against single wild steps */

struct exchange new_exchange(const struct rt_codec *codec, size_t count, uint64_t warm_steps)
{
    struct exchange exchange = { .codec = *codec, .count = count, .warm_steps = warm_steps };
    for (int r = 0; codec->feedback && r < RANKS; r++) {
        exchange.momentum[r] = new_floats(count);
        exchange.residual[r] = new_floats(count);
    }
    exchange.sum = new_floats(count);
    exchange.bytes = malloc(rt_codec_max_bytes(codec, count));
    if (!exchange.bytes) abort();
    return exchange;
}

void free_exchange(struct exchange *exchange)
{
    for (int r = 0; r < RANKS; r++) {
        free(exchange->momentum[r]);
        free(exchange->residual[r]);
    }
    free(exchange->sum);
    free(exchange->bytes);
}

static struct rt_cut cut_of(const struct exchange *exchange, const float *values)
{
    struct rt_codec codec = exchange->codec;
    if (codec.kind != RT_CODEC_TOPK) return rt_cut_nonzero;
    if (codec.feedback) codec.ratio = rt_warm_ratio(exchange->step, exchange->warm_steps, codec.ratio);
    return rt_topk_select(values, 0, exchange->count, rt_topk_kept(&codec, exchange->count), NULL);
}

/* What rank `r` sends of its gradient arrives in the sum. */
static void send_and_add(struct exchange *exchange, uint32_t r, float *gradient, float momentum)
{
    struct rt_part part = { .count = exchange->count, .step = exchange->step, .rank = r };
    float *values = gradient;
    if (exchange->codec.feedback) {
        values = exchange->residual[r];
        rt_clip(gradient, exchange->count, NORM_LIMIT, RANKS);
        rt_momentum_add(exchange->momentum[r], values, gradient, exchange->count, momentum);
    }
    part.cut = cut_of(exchange, values);
    if (exchange->codec.feedback) rt_momentum_mask(exchange->momentum[r], values, 0, exchange->count, &part.cut);
    const size_t length = rt_codec_encode(&exchange->codec, &part, values, exchange->residual[r], exchange->bytes,
                                          NULL);
    exchange->sent += length;
    if ((r ? rt_codec_decode_add : rt_codec_decode)(&exchange->codec, exchange->sum, exchange->count, exchange->bytes,
                                                    length, NULL))
        abort();
}

void exchange_mean(struct exchange *exchange, float *const *gradients, float momentum)
{
    const struct rt_part part = { .count = exchange->count, .step = exchange->step, .rank = RT_OWNER(0) };
    const float share = 1.0f / RANKS;
    for (uint32_t r = 0; r < RANKS; r++) send_and_add(exchange, r, gradients[r], momentum);
    const size_t length = rt_codec_encode(&exchange->codec, &part, exchange->sum, NULL, exchange->bytes, NULL);
    exchange->sent += length;
    if (rt_codec_decode(&exchange->codec, exchange->sum, exchange->count, exchange->bytes, length, NULL)) abort();
    rt_scale(exchange->sum, exchange->sum, exchange->count, RINGTREE_FLOAT32, &share);
    exchange->step++;
}
