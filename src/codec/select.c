/*
 * The cut of topk: the exact magnitude of the k-th largest, and how many of its equals are kept.
 *
 * A sample of the array says which magnitude is about as large, and a little smaller to be safe. Those above that
 * are collected, 1.3 times k of them or so, and the k-th largest is found among them digit by digit. Should the
 * sample have misled (too few above it, or more than there is room for), the digits are found in the whole array:
 * slower, the same cut.
 */
#include "families.h"
#include "kernels.h"
#include "momentum.h"
#include <math.h>
#include <string.h>

#define SAMPLE 16384
#define DIGIT_BITS 11
#define DIGITS (1u << DIGIT_BITS)

/* What is searched: all magnitudes of `count` floats, or numbers collected before. */
struct pool {
    const unsigned char *values;
    const uint32_t      *collected; /* their bits */
    size_t               count;
};

static uint32_t magnitude_at(const unsigned char *values, size_t i)
{
    uint32_t bits;
    memcpy(&bits, values + i * sizeof bits, sizeof bits);
    return bits & 0x7fffffff;
}

size_t rt_topk_kept(const struct rt_codec *codec, size_t count)
{
    const size_t kept = (size_t)((double)count * (double)codec->ratio + 0.5);
    return kept > 1 ? kept : 1;
}

/* ------------------------------------------------------------------ digit by digit */

/*
 * Counts, of the finite magnitudes that agree with `prefix` above `shift` + `bits`, how many have each digit there.
 */
static void count_digits(const struct pool *pool, uint32_t prefix, int shift, int bits, size_t *counts)
{
    const uint32_t mask = (1u << bits) - 1;
    memset(counts, 0, sizeof *counts << bits);
    for (size_t i = 0; i < pool->count; i++) {
        const uint32_t magnitude = pool->collected ? pool->collected[i] & 0x7fffffff : magnitude_at(pool->values, i);
        if (magnitude < RT_INFINITE && (uint64_t)magnitude >> (shift + bits) == (uint64_t)prefix >> (shift + bits))
            counts[magnitude >> shift & mask]++;
    }
}

/*
 * The `kept`-th largest magnitude; *ties: how many of exactly it are kept, SIZE_MAX for all. 0 when there are
 * fewer.
 */
static uint32_t nth_largest(const struct pool *pool, size_t kept, size_t *ties)
{
    static const int shifts[] = { 20, 10, 0 };
    size_t counts[DIGITS], wanted = kept;
    uint32_t prefix = 0;
    for (int level = 0; level < 3; level++) {
        const int bits = level ? 10 : DIGIT_BITS;
        uint32_t digit = (1u << bits) - 1;
        count_digits(pool, prefix, shifts[level], bits, counts);
        while (digit && counts[digit] < wanted) wanted -= counts[digit--];
        if (!digit && counts[0] < wanted) return 0;
        prefix |= digit << shifts[level];
        *ties = wanted == counts[digit] ? SIZE_MAX : wanted;
    }
    return prefix;
}

/* ------------------------------------------------------------------ sample and collect */

static float float_at(const void *values, size_t i)
{
    float value;
    memcpy(&value, (const char *)values + i * sizeof value, sizeof value);
    return value;
}

/* As it will be once the contribution is complete. */
static uint32_t magnitude_of(const struct rt_topk_source *source, size_t i)
{
    float value = float_at(source->values, i);
    if (source->residual && source->factor > 0) value = source->factor * float_at(source->momentum, i) + value;
    if (source->residual) value = float_at(source->residual, i) + value;
    return magnitude_at((const unsigned char *)&value, 0);
}

/* A magnitude that a little more than `kept` of the array should reach. 0: no telling. */
static uint32_t guess(const struct rt_topk_source *source, size_t count, size_t kept, uint32_t *sample)
{
    const size_t stride = count / SAMPLE;
    size_t ties;
    if (stride < 4) return 0;
    for (size_t i = 0; i < SAMPLE; i++) sample[i] = magnitude_of(source, i * stride);
    const double share = (double)kept / (double)count * SAMPLE;
    const struct pool pool = { NULL, sample, SAMPLE };
    return nth_largest(&pool, (size_t)(share + 4 * sqrt(share) + 2), &ties);
}

/* What was collected so far. */
struct collection {
    uint32_t *values, *places, *begin;
    uint32_t  least;
    size_t    room, found, groups;
    bool      full; /* there were more than there is room for */
};

/* Those of `count` elements at `values`, to which `residual` is added before if there is one. */
static size_t collect_some(const struct collection *all, size_t at, unsigned char *residual, const void *values,
                           size_t count)
{
    uint32_t *found = all->values + at, *places = all->places + at;
    if (residual) return rt_codec_kernels()->collect_sum(found, places, residual, values, count, all->least);
    return rt_codec_kernels()->collect(found, places, values, count, all->least);
}

static void collect_group(struct collection *all, unsigned char *residual, const unsigned char *values, size_t count)
{
    float padded[2][64] = { { 0 } };
    const size_t whole = count / 64 * 64, left = (count - whole) * sizeof(float), at = whole * sizeof(float);
    size_t found = collect_some(all, all->found, residual, values, whole);
    if (left) {
        memcpy(padded[0], values + at, left);
        if (residual) memcpy(padded[1], residual + at, left);
        unsigned char *padded_residual = residual ? (unsigned char *)padded[1] : NULL;
        const size_t more = collect_some(all, all->found + found, padded_residual, padded[0], 64);
        for (size_t i = found; i < found + more; i++) all->places[all->found + i] += (uint32_t)whole;
        if (residual) memcpy(residual + at, padded[1], left);
        found += more;
    }
    all->found += found;
    all->begin[++all->groups] = (uint32_t)all->found;
}

/* Completes the group at element `at`, and collects from it what it has room for. */
static void visit_group(struct collection *all, const struct rt_topk_source *source, size_t at, size_t count)
{
    unsigned char *residual = source->residual ? (unsigned char *)source->residual + at * sizeof(float) : NULL;
    const unsigned char *values = (const unsigned char *)source->values + at * sizeof(float);
    all->full = all->full || all->found + RT_TOPK_GROUP > all->room;
    if (residual && source->factor > 0) {
        rt_momentum_add((char *)source->momentum + at * sizeof(float), residual, values, count, source->factor);
        values = residual;
        residual = NULL;
    } else if (residual && all->full) {
        rt_codec_prepare(values, residual, count);
    }
    if (!all->full) collect_group(all, residual, values, count);
}

/* Places for so many beside those wanted: a group can be all of the kind that is wanted. */
static size_t room_for(size_t count, size_t kept)
{
    const size_t most = 2 * kept + SAMPLE + RT_TOPK_GROUP;
    return most < count + RT_TOPK_GROUP ? most : count + RT_TOPK_GROUP;
}

size_t rt_topk_scratch(size_t count, size_t kept)
{
    return 2 * (room_for(count, kept) + 128) + count / RT_TOPK_GROUP + 3;
}

static struct collection new_collection(uint32_t *scratch, size_t count, size_t kept, uint32_t least)
{
    if (!scratch) return (struct collection){ .full = true };
    const size_t room = room_for(count, kept);
    struct collection all = { .least = least, .room = room, .full = !least };
    all.values = scratch;
    all.places = scratch + room + 128;
    all.begin = all.places + room + 128;
    if (least) all.begin[0] = 0;
    return all;
}

/* ------------------------------------------------------------------ among what was collected */

#define BINS 2048
#define BIN_BITS 13 /* of a magnitude: the bins reach to four times the least that was collected */
#define FEW 4096

/* Those of the highest bin reach further; the one after it has what is not finite. */
static uint32_t bin_of(uint32_t bits, uint32_t least)
{
    const uint32_t magnitude = bits & 0x7fffffff, bin = (magnitude - least) >> BIN_BITS;
    if (magnitude >= RT_INFINITE) return BINS;
    return bin < BINS ? bin : BINS - 1;
}

/*
 * The `kept`-th largest of what was collected: its bin is found first, then it among the few in there. 0: there are
 * not so many.
 */
static uint32_t nth_collected(const struct collection *all, size_t kept, size_t *ties)
{
    uint32_t counts[BINS + 1] = { 0 }, few[FEW + 1], bin = BINS - 1;
    const struct pool pool = { NULL, all->values, all->found };
    size_t wanted = kept, in_bin = 0;
    for (size_t i = 0; i < all->found; i++) counts[bin_of(all->values[i], all->least)]++;
    for (; bin && counts[bin] < wanted; bin--) wanted -= counts[bin];
    if (counts[bin] < wanted) return 0;
    if (counts[bin] > FEW) return nth_largest(&pool, kept, ties);
    for (size_t i = 0; i < all->found; i++) { /* written first and counted then: without a branch */
        few[in_bin] = all->values[i];
        in_bin += bin_of(all->values[i], all->least) == bin;
    }
    const struct pool those = { NULL, few, in_bin };
    return nth_largest(&those, wanted, ties);
}

/* The element after the `ties`-th whose magnitude is exactly `magnitude`. */
static uint64_t end_of_ties(const unsigned char *values, size_t count, uint32_t magnitude, size_t ties)
{
    size_t i = 0;
    while (ties && i < count) ties -= magnitude_at(values, i++) == magnitude;
    return i;
}

/* The same from what was collected. */
static uint64_t end_of_collected(const struct collection *all, uint32_t magnitude, size_t ties)
{
    size_t i = 0, group = 0;
    while (ties && i < all->found) ties -= (all->values[i++] & 0x7fffffff) == magnitude;
    while (all->begin[group + 1] < i) group++;
    return group * RT_TOPK_GROUP + all->places[i - 1] + 1;
}

struct rt_cut rt_topk_find(const struct rt_topk_source *source, uint64_t first, size_t count, size_t kept,
                           uint32_t *scratch, struct rt_topk_found *found)
{
    const unsigned char *values = source->residual ? source->residual : source->values;
    const uint32_t least = scratch && kept < count ? guess(source, count, kept, scratch) : 0;
    struct collection all = new_collection(scratch, count, kept, least);
    size_t ties;
    for (size_t i = 0; i < count; i += RT_TOPK_GROUP)
        visit_group(&all, source, i, count - i < RT_TOPK_GROUP ? count - i : RT_TOPK_GROUP);
    *found = (struct rt_topk_found){ false, first, all.values, all.places, all.begin };
    if (kept >= count) return rt_cut_nonzero;
    const struct pool pool = { values, NULL, count };
    uint32_t magnitude = all.full ? 0 : nth_collected(&all, kept, &ties);
    found->whole = magnitude != 0;
    if (!found->whole) magnitude = nth_largest(&pool, kept, &ties);
    if (!magnitude) return rt_cut_nonzero;
    if (ties == SIZE_MAX) return (struct rt_cut){ magnitude, UINT64_MAX };
    return (struct rt_cut){ magnitude, first + (found->whole ? end_of_collected(&all, magnitude, ties)
                                                             : end_of_ties(values, count, magnitude, ties)) };
}

struct rt_cut rt_topk_select(const void *values, uint64_t first, size_t count, size_t kept, uint32_t *scratch)
{
    const struct rt_topk_source source = { .values = values };
    struct rt_topk_found found;
    return rt_topk_find(&source, first, count, kept, scratch, &found);
}
