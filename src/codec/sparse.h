/*
 * Which rank sums which range of a sparse sum. Large gradients lie together (a layer, a row), so equal ranges would
 * give one rank most of the work and of the traffic. Each rank says where it would cut so that every range holds as
 * many of its kept elements; all cut at the mean of these wishes.
 *
 * Within a range the sum is rt_codec_decode() of the first rank's part and rt_codec_decode_add() of the others', in
 * rank order; then it is encoded with rt_cut_nonzero, or with the cut of a new selection if the owner has a
 * residual for what it leaves out: then each rank receives the kept elements of two arrays, whatever the number of
 * ranks. A range turns dense, block by block, where that is smaller (topk.c).
 */
#ifndef RT_CODEC_SPARSE_H
#define RT_CODEC_SPARSE_H

#include "codec.h"

/* wish[0 .. nranks]: range i would be wish[i] to wish[i + 1]. Multiples of RT_TOPK_GROUP but for the end, `count`. */
/* `found`: of the selection, or NULL; then all values are looked at. */
void rt_sparse_wish(const void *values, size_t count, const struct rt_cut *cut, const struct rt_topk_found *found,
                    uint32_t nranks, uint64_t *wish);

/*
 * bounds[0 .. nranks] from all ranks' wishes, [nranks][nranks + 1]; the same on all ranks. RINGTREE_MISMATCH names
 * the rank whose wish is none for `count` elements.
 */
ringtree_status rt_sparse_bounds(const uint64_t *wishes, uint64_t count, uint32_t nranks, uint64_t *bounds,
                                 struct rt_error *error);

#endif
