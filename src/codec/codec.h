/*
 * Codecs: float32 arrays in fewer bytes, with a stated error, and the same bits from every CPU.
 *
 *     none  float32 as it is          bf16, fp16  16 bits, rounded to nearest even
 *     q8    int8 codes and a float32 scale per block        q4  the same with 4 bits
 *     topk  the largest of the array, as values and places
 *
 * Nothing here knows ranks, links or operations. A tensor is cut into blocks counted from its first element, so
 * what a block becomes does not depend on how the tensor is cut into parts: a part begins at a multiple of
 * rt_codec_align() and ends at one or at the tensor's end. Each part is encoded by itself into bytes that can be
 * decoded by themselves.
 *
 * A block with NaN or infinity travels as it is (raw), as do the few that 16 bits cannot hold; so where NaN and
 * infinity are, after any sum, is what it would be without a codec. The residual of such a block is 0.
 *
 * No call allocates. Pointers need no alignment. All calls may run in several threads on different memory.
 * Arithmetic is float32 without contraction; each of the paths of reduce.h gives the same bits.
 *
 * Error feedback: what a rank did not send stays in its residual and goes with the next step's values. The caller
 * adds (rt_codec_prepare), encodes the residual, and gets back in it what was not sent.
 */
#ifndef RT_CODEC_H
#define RT_CODEC_H

#include "base/error.h"
#include <stdbool.h>

enum rt_codec_kind { RT_CODEC_NONE, RT_CODEC_BF16, RT_CODEC_FP16, RT_CODEC_Q8, RT_CODEC_Q4, RT_CODEC_TOPK,
                     RT_CODEC_KIND_COUNT };
enum rt_codec_rounding { RT_ROUND_NEAREST, RT_ROUND_STOCHASTIC }; /* to nearest, ties to even; or unbiased */
enum rt_codec_values { RT_VALUES_FLOAT32, RT_VALUES_INT8 };       /* what topk sends of those that it keeps */

#define RT_BLOCK 256      /* elements of a block unless told otherwise; always, in topk */
#define RT_BLOCK_MIN 32
#define RT_BLOCK_MAX 4096
#define RT_TOPK_GROUP 4096 /* elements that share one scale in topk with int8 values */
#define RT_RATIO_MIN 0.001f
#define RT_RATIO_MAX 0.25f /* where the warm-up of a ratio begins */

struct rt_codec {
    enum rt_codec_kind     kind;
    uint32_t               block;    /* elements: a power of two; 0: RT_BLOCK */
    enum rt_codec_rounding rounding; /* of q8 and q4 */
    enum rt_codec_values   values;   /* of topk */
    float                  ratio;    /* of topk: the share of elements that it keeps */
    bool                   feedback; /* what is not sent is kept and sent later */
};

/* "none", "bf16", "fp16", "q8", "q4", "topk" */
const char *rt_codec_name(enum rt_codec_kind kind);

/* Is it one that the calls below take? RINGTREE_INVALID_ARGUMENT says which field is wrong and what it may be. */
ringtree_status rt_codec_check(const struct rt_codec *codec, struct rt_error *error);

/* Small tensors and those with one dimension (biases, norms) stay exact unless the caller insists. */
bool rt_codec_spares(uint32_t dimensions, size_t count);
#define RT_SPARED_BELOW 1024

/* Parts begin at multiples of so many elements. */
size_t rt_codec_align(const struct rt_codec *codec);

/* The most bytes that `count` elements can become, and how many they become when all are finite (topk: about). */
size_t rt_codec_max_bytes(const struct rt_codec *codec, size_t count);
size_t rt_codec_usual_bytes(const struct rt_codec *codec, size_t count);

/*
 * How far one rounding moves an element at most, in a block whose largest magnitude is `peak`, both finite; topk:
 * if it is kept. A sum by owner is rounded by every rank and once by the owner, so its error is at most the sum
 * over ranks of this for each rank's peak, and this for the peak of the sum; besides what adding in float32 costs.
 */
double rt_codec_error_bound(const struct rt_codec *codec, double peak);

/* ------------------------------------------------------------------ topk: which elements are kept */

/* Kept are those of a magnitude above `magnitude`, and of those equal to it the ones before element `ties_end`. */
struct rt_cut {
    uint32_t magnitude; /* the bits of a float32 without its sign */
    uint64_t ties_end;
};

/* Keeps what is not zero: of a sum of sparse arrays, all. */
static const struct rt_cut rt_cut_nonzero = { 0, 0 };

/* How many of `count` elements topk keeps, at least 1. */
size_t rt_topk_kept(const struct rt_codec *codec, size_t count);

/* How much room rt_topk_select() needs to be fast: in elements of uint32_t. */
size_t rt_topk_scratch(size_t count, size_t kept);

/*
 * The cut that keeps the `kept` largest finite magnitudes of `values`: exactly so many, of equal ones the first.
 * Zeros are never kept, so there may be fewer. Non-finite elements are not counted, they travel anyway. values[0]
 * is element `first` of the tensor. `scratch` may be NULL (slower, the same answer).
 */
struct rt_cut rt_topk_select(const void *values, uint64_t first, size_t count, size_t kept, uint32_t *scratch);

/*
 * Where a contribution comes from: `values`, or with a residual (and momentum, see momentum.h, if `factor` is above 0)
 * the residual after the values were added to it.
 */
struct rt_topk_source {
    const void *values;
    void       *residual, *momentum; /* or NULL */
    float       factor;
};

/*
 * What a selection came across on its way: all elements from some magnitude on, group by group, in order. With it
 * nothing need go over the whole array again.
 */
struct rt_topk_found {
    bool            whole; /* all that the cut keeps are among them, and so is everything that is not finite */
    uint64_t        first; /* element of the tensor where group 0 begins */
    const uint32_t *values, *places; /* of each its bits and its place in the group */
    const uint32_t *begin; /* [groups + 1]: group g has values[begin[g]] up to values[begin[g + 1]] */
};

/* As rt_topk_select(), after completing the contribution in the same pass; fills *found, which lives in `scratch`. */
struct rt_cut rt_topk_find(const struct rt_topk_source *source, uint64_t first, size_t count, size_t kept,
                           uint32_t *scratch, struct rt_topk_found *found);

/* ------------------------------------------------------------------ encode, decode */

/*
 * Where a part lies, and what seeds stochastic rounding: block b of rank r in step s is rounded by numbers that
 * depend on (s, r, b) only. The owner's rounding is told from its own sending by another `rank`: see RT_OWNER.
 */
struct rt_part {
    uint64_t      first; /* its first element in the tensor, a multiple of rt_codec_align() */
    size_t        count; /* a multiple of it too unless the tensor ends there */
    uint64_t      step;
    uint32_t      rank;
    struct rt_cut cut; /* topk: of the whole array, not of the part */
    const struct rt_topk_found *found; /* topk: of the array that the cut is for; NULL: the values are looked at */
};
#define RT_OWNER(rank) ((rank) | 1u << 31)

/* What an encoding met. Added to, so that one report serves all parts. */
struct rt_codec_report {
    uint64_t nonfinite_blocks; /* with NaN or infinity */
    uint64_t kept;             /* topk: elements sent as value and place */
};

/*
 * residual += values for `count` elements, as feedback asks; without feedback copies nothing. The array to encode
 * is then the residual.
 */
void rt_codec_prepare(const void *values, void *residual, size_t count);

/*
 * Encode part->count elements of `values` (the part, not the tensor) into `bytes`, which has room for
 * rt_codec_max_bytes(). Returns how many bytes it became. With `residual`, which may be the same pointer as `values`,
 * it becomes what was not sent: values - decoded. `report` may be NULL.
 */
size_t rt_codec_encode(const struct rt_codec *codec, const struct rt_part *part, const void *values, void *residual,
                       void *bytes, struct rt_codec_report *report);

/*
 * Could an encoder have written this? Every length, scale, place and code is looked at. RINGTREE_INTERNAL is never
 * returned: bytes from elsewhere are no bug of ours. RINGTREE_MISMATCH with the sentence in *error, which begins
 * with the codec's name; the caller says from whom the bytes came.
 */
ringtree_status rt_codec_inspect(const struct rt_codec *codec, size_t count, const void *bytes, size_t length,
                                 struct rt_error *error);

/*
 * target = decoded, or target += decoded, for `count` elements. The bytes are inspected first; after an error
 * nothing was written. Sums made by decode and then decode_add in rank order are the same on every CPU.
 */
ringtree_status rt_codec_decode(const struct rt_codec *codec, void *target, size_t count, const void *bytes,
                                size_t length, struct rt_error *error);
ringtree_status rt_codec_decode_add(const struct rt_codec *codec, void *target, size_t count, const void *bytes,
                                    size_t length, struct rt_error *error);

#endif
