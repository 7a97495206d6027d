/* The two families of codecs, as codec.c calls them. `bytes` of a decode have been inspected. */
#ifndef RT_CODEC_FAMILIES_H
#define RT_CODEC_FAMILIES_H

#include "codec.h"

#define RT_INFINITE 0x7f800000u /* the magnitude of infinity; NaN is above */

/* The largest scale whose product with 127 (RT_MOST_SCALE8) or 7 (RT_MOST_SCALE4) is finite. */
#define RT_MOST_SCALE8 0x1.020406p+121f
#define RT_MOST_SCALE4 0x1.249248p+125f

static inline size_t rt_codec_block(const struct rt_codec *codec)
{
    return codec->block ? codec->block : RT_BLOCK;
}

/* The sentence about bytes that no encoder wrote. */
ringtree_status rt_codec_bad(struct rt_error *error, const struct rt_codec *codec, size_t count, size_t length,
                             const char *why);

/* bf16, fp16, q8, q4: blocks.c */
size_t rt_blocks_head_bytes(const struct rt_codec *codec, size_t count);
size_t rt_blocks_code_bytes(const struct rt_codec *codec, size_t count);
size_t rt_blocks_encode(const struct rt_codec *codec, const struct rt_part *part, const unsigned char *values,
                        unsigned char *residual, unsigned char *bytes, struct rt_codec_report *report);
ringtree_status rt_blocks_inspect(const struct rt_codec *codec, size_t count, const unsigned char *bytes, size_t length,
                                  struct rt_error *error);
void rt_blocks_decode(const struct rt_codec *codec, unsigned char *target, size_t count, const unsigned char *bytes,
                      bool add);

/* topk: topk.c */
size_t rt_topk_head_bytes(const struct rt_codec *codec, size_t count);
size_t rt_topk_value_bytes(const struct rt_codec *codec);
/* Does a finite block of `count` elements travel as it is, since that is shorter than the `kept` and their places? */
bool rt_topk_is_dense(const struct rt_codec *codec, size_t kept, size_t count);
size_t rt_topk_encode(const struct rt_codec *codec, const struct rt_part *part, const unsigned char *values,
                      unsigned char *residual, unsigned char *bytes, struct rt_codec_report *report);
ringtree_status rt_topk_inspect(const struct rt_codec *codec, size_t count, const unsigned char *bytes, size_t length,
                                struct rt_error *error);
void rt_topk_decode(const struct rt_codec *codec, unsigned char *target, size_t count, const unsigned char *bytes,
                    size_t length, bool add);

#endif
