/*
 * Momentum for topk. An optimiser's momentum, applied after a sparse sum, would be that of gradients which arrive
 * late and in lumps. So each rank keeps the momentum u of its own gradient g and sends from what that would have
 * moved the weights by so far, v:
 *
 *     clip g;  u = m u + g;  v += u;  send the largest of v;  of what was sent, v = 0 and u = 0
 *
 * and the optimiser takes the sum as its step, without momentum of its own. (Lin et al., Deep Gradient Compression,
 * ICLR 2018, sections 3.1 to 3.3.) v is the codec's residual: the encoder clears in it what it sends.
 */
#ifndef RT_CODEC_MOMENTUM_H
#define RT_CODEC_MOMENTUM_H

#include "codec.h"

/* u = factor * u + gradient; v += u. */
void rt_momentum_add(void *u, void *v, const void *gradient, size_t count, float factor);

/*
 * u = 0 where v will be sent: where `cut` keeps v, and in blocks that travel as they are. Before v is encoded by topk.
 * v[0] is element `first` of the tensor, a multiple of RT_BLOCK.
 */
void rt_momentum_mask(const struct rt_codec *codec, void *u, const void *v, uint64_t first, size_t count,
                      const struct rt_cut *cut);

/*
 * u = 0 where it is not finite, once v was sent as it is: else it would be so for ever. A call that is exact does it
 * after it, and codecs other than topk; topk's mask does it too.
 */
void rt_momentum_settle(void *u, size_t count);

/*
 * Scale `gradient` down so that its Euclidean norm is at most limit / sqrt(nranks): the sum over ranks of independent
 * gradients then has about `limit`. Returns the norm that it had; if that is not finite the gradient stays as it is.
 */
double rt_clip(void *gradient, size_t count, double limit, uint32_t nranks);

/* RT_RATIO_MAX in step 0, `ratio` from step `steps` on, and between them equal factors from step to step. */
float rt_warm_ratio(uint64_t step, uint64_t steps, float ratio);

#endif
