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
#include <math.h>
#include <string.h>

#define SAMPLE 16384
#define STRIP 4096 /* elements marked at once: their marks stay in L1 */
#define DIGIT_BITS 11
#define DIGITS (1u << DIGIT_BITS)

/* What is searched: all magnitudes of `count` floats, or numbers collected before. */
struct pool {
    const unsigned char *values;
    const uint32_t      *collected;
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

size_t rt_topk_scratch(size_t count, size_t kept)
{
    const size_t room = 2 * kept + SAMPLE;
    return room < count ? room : count;
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
        const uint32_t magnitude = pool->collected ? pool->collected[i] : magnitude_at(pool->values, i);
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

/* A magnitude that a little more than `kept` of the array should reach. 0: no telling. */
static uint32_t guess(const unsigned char *values, size_t count, size_t kept, uint32_t *sample)
{
    const size_t stride = count / SAMPLE;
    size_t ties;
    if (stride < 4) return 0;
    for (size_t i = 0; i < SAMPLE; i++) sample[i] = magnitude_at(values, i * stride);
    const double share = (double)kept / (double)count * SAMPLE;
    const struct pool pool = { NULL, sample, SAMPLE };
    return nth_largest(&pool, (size_t)(share + 4 * sqrt(share) + 2), &ties);
}

/* Puts the finite magnitudes from `least` on into `collected`; returns how many, or room + 1 when there are more. */
static size_t collect(uint32_t *collected, size_t room, const unsigned char *values, size_t count, uint32_t least)
{
    uint64_t marks[STRIP / 64];
    size_t found = 0, i = 0;
    for (; i + 64 <= count; i += STRIP) {
        const size_t strip = count - i < STRIP ? (count - i) / 64 * 64 : STRIP;
        rt_codec_kernels()->mark(marks, values + i * 4, strip, least);
        for (size_t word = 0; word < strip / 64; word++)
            for (uint64_t bits = marks[word]; bits; bits &= bits - 1) {
                const uint32_t magnitude = magnitude_at(values, i + word * 64 + (size_t)__builtin_ctzll(bits));
                if (magnitude >= RT_INFINITE) continue;
                if (found == room) return room + 1;
                collected[found++] = magnitude;
            }
    }
    for (i = count / 64 * 64; i < count; i++) {
        const uint32_t magnitude = magnitude_at(values, i);
        if (magnitude < least || magnitude >= RT_INFINITE) continue;
        if (found == room) return room + 1;
        collected[found++] = magnitude;
    }
    return found;
}

/* The element after the `ties`-th whose magnitude is exactly `magnitude`. */
static uint64_t end_of_ties(const unsigned char *values, size_t count, uint32_t magnitude, size_t ties)
{
    size_t i = 0;
    while (ties && i < count) ties -= magnitude_at(values, i++) == magnitude;
    return i;
}

struct rt_cut rt_topk_select(const void *values, uint64_t first, size_t count, size_t kept, uint32_t *scratch)
{
    const size_t room = rt_topk_scratch(count, kept);
    struct pool pool = { values, NULL, count };
    size_t ties;
    if (kept >= count) return rt_cut_nonzero;
    const uint32_t least = scratch ? guess(values, count, kept, scratch) : 0;
    if (least) {
        const size_t found = collect(scratch, room, values, count, least);
        if (found >= kept && found <= room) pool = (struct pool){ NULL, scratch, found };
    }
    const uint32_t magnitude = nth_largest(&pool, kept, &ties);
    if (!magnitude) return rt_cut_nonzero;
    if (ties == SIZE_MAX) return (struct rt_cut){ magnitude, UINT64_MAX };
    return (struct rt_cut){ magnitude, first + end_of_ties(values, count, magnitude, ties) };
}
