/* Names for sentences and tables that are not public. */
#ifndef RT_NAMES_H
#define RT_NAMES_H

#include <ringtree/ringtree.h>
#include <stddef.h>

/* "sum", "prod", "max", "min", "avg"; every other value is a handle of ringtree_op_premul_sum(): "premul_sum". */
const char *rt_op_name(ringtree_op op);

/*
 * What a frame's op says of a codec, in words; "" if nothing. A collective with a codec has it in the upper half of its
 * op; from bit 0 of that half: the flags of ringtree_codec (8 bits), momentum (1), the block's logarithm less 5 (3),
 * the kind (3), RT_CODEC_TAG.
 */
#define RT_CODEC_TAG 0x8000u
const char *rt_codec_tag_text(uint32_t op, char *text, size_t capacity);

#endif
