/*
 * Whether compressing pays, for ranks of which only the places and links are known. auto takes the kind with the least
 * predicted time of those allowed, and none unless one saves a tenth.
 *
 * Predicted: the codes' time on the link or the codec's time on a core, whichever is longer, since pieces overlap; for
 * topk the selection before.
 */
#include "compressed.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TRIAL ((size_t)256 << 10) /* elements: out of L1 and L2 with what they become */
#define TRIALS 3                  /* the fastest counts */
#define WORTH 0.9                 /* of the exact call's time, at most */

/* ---- what this machine encodes */

/* Bytes of float32 per second of one core. */
struct rates {
    double encode, decode, select;
};

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void keep_best(double *rate, double begun)
{
    const double now = TRIAL * sizeof(float) / (seconds_now() - begun + 1e-9);
    if (now > *rate) *rate = now;
}

static bool measure(enum rt_codec_kind kind, struct rates *rates)
{
    const struct rt_codec codec = { .kind = kind, .ratio = 0.01f };
    const struct rt_part part = { .count = TRIAL, .cut = { 0x3f7d0000, 0 } }; /* 0.988: 1.2 % of the values below */
    float *values = malloc(TRIAL * sizeof *values), *target = malloc(TRIAL * sizeof *target);
    unsigned char *bytes = malloc(rt_codec_max_bytes(&codec, TRIAL));
    uint32_t *scratch = malloc(rt_topk_scratch(TRIAL, TRIAL / 100) * sizeof *scratch);
    const bool enough = values && target && bytes && scratch;
    uint32_t random = 1;
    for (size_t i = 0; enough && i < TRIAL; i++) {
        random = random * 1664525 + 1013904223;
        values[i] = (float)(random >> 8) * 0x1p-24f;
    }
    for (int i = 0; enough && i < TRIALS; i++) {
        double begun = seconds_now();
        const size_t length = rt_codec_encode(&codec, &part, values, NULL, bytes, NULL);
        keep_best(&rates->encode, begun);
        begun = seconds_now();
        rt_codec_decode(&codec, target, TRIAL, bytes, length, NULL);
        keep_best(&rates->decode, begun);
        begun = seconds_now();
        if (kind == RT_CODEC_TOPK) rt_topk_select(values, 0, TRIAL, TRIAL / 100, scratch);
        keep_best(&rates->select, begun);
    }
    free(values);
    free(target);
    free(bytes);
    free(scratch);
    return enough;
}

void rt_codec_measure(struct rt_codec_rates *rates)
{
    rates->known = true;
    for (int kind = RT_CODEC_BF16; kind < RT_CODEC_KIND_COUNT; kind++) {
        struct rates of = { 0, 0, 0 };
        rates->known = rates->known && measure((enum rt_codec_kind)kind, &of);
        rates->encode[kind] = of.encode;
        rates->decode[kind] = of.decode;
        rates->select = of.select;
    }
}

/* ---- the prediction */

static bool is_spared(const ringtree_codec *codec, size_t elements)
{
    if (codec->flags & RINGTREE_CODEC_SMALL) return false;
    return rt_codec_spares(codec->dimensions ? codec->dimensions : 2, elements);
}

static double seconds_of(const struct rt_codec_case *at, const ringtree_codec *codec, ringtree_codec_kind kind,
                         size_t elements)
{
    const struct rt_codec_rates *rates = at->rates;
    const double nodes = codec->flags & RINGTREE_CODEC_FORCE ? at->ranks : at->nodes;
    const double bytes = (double)elements * sizeof(float), locals = at->ranks / nodes;
    const double wire = 2 * (nodes - 1) / nodes * bytes / at->link_rate;
    if (kind == RINGTREE_CODEC_NONE) return wire;
    ringtree_codec asked = *codec;
    asked.kind = kind;
    struct rt_compression compression;
    if (rt_compression_of(&asked, &compression, NULL) != RINGTREE_OK) return 1e30;
    double share = (double)rt_codec_usual_bytes(&compression.codec, elements) / bytes;
    if (kind == RINGTREE_CODEC_TOPK && !compression.reselect) { /* sums of sparse arrays are less sparse */
        const double fill = 1 / compression.codec.ratio;
        share *= (1 + (nodes < fill ? nodes : fill)) / 2;
    }
    const double encoded = bytes / locals * (1 + 1 / nodes), decoded = bytes + bytes / locals;
    const double core = encoded / rates->encode[kind] + decoded / rates->decode[kind];
    const double before = kind == RINGTREE_CODEC_TOPK ? bytes / locals / rates->select : 0;
    return before + (wire * share > core ? wire * share : core);
}

static uint32_t allowed_kinds(const ringtree_codec *codec)
{
    if (codec->kind != RINGTREE_CODEC_AUTO) return 1u << codec->kind & ~1u;
    uint32_t allowed = codec->allowed ? codec->allowed : 1u << RINGTREE_CODEC_BF16 | 1u << RINGTREE_CODEC_Q8;
    if (!(codec->flags & RINGTREE_CODEC_FEEDBACK)) allowed &= ~(1u << RINGTREE_CODEC_Q4 | 1u << RINGTREE_CODEC_TOPK);
    return allowed & ~1u;
}

static void why(struct rt_codec_choice *choice, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void why(struct rt_codec_choice *choice, const char *format, ...)
{
    va_list args;
    if (!choice->explains) return;
    va_start(args, format);
    vsnprintf(choice->why, sizeof choice->why, format, args);
    va_end(args);
}

bool rt_codec_is_exact(const struct rt_codec_case *at, const ringtree_codec *codec, size_t elements,
                       struct rt_codec_choice *choice)
{
    choice->kind = RINGTREE_CODEC_NONE;
    choice->apart = (codec->flags & RINGTREE_CODEC_FORCE) != 0;
    if (codec->kind == RINGTREE_CODEC_NONE) why(choice, "no codec was asked for");
    else if (is_spared(codec, elements))
        why(choice, "tensors with one dimension or fewer than %d elements stay exact", RT_SPARED_BELOW);
    else if (choice->apart) return false;
    else if (at->nodes == 1) why(choice, "all ranks share memory");
    else if (at->link_rate >= at->below)
        why(choice, "links of %.3g GB/s are not below RINGTREE_COMPRESS_BELOW=%.3g GB/s", at->link_rate / 1e9,
            at->below / 1e9);
    else return false;
    return true;
}

void rt_codec_take_fastest(const struct rt_codec_case *at, const ringtree_codec *codec, size_t elements,
                           struct rt_codec_choice *choice)
{
    const double exact = seconds_of(at, codec, RINGTREE_CODEC_NONE, elements);
    double best = exact * WORTH;
    if (codec->kind != RINGTREE_CODEC_AUTO) {
        choice->kind = codec->kind;
        why(choice, "%s", choice->apart ? "RINGTREE_CODEC_FORCE" : "links between nodes are slow");
        return;
    }
    choice->kind = RINGTREE_CODEC_NONE;
    for (int kind = RINGTREE_CODEC_BF16; kind < RINGTREE_CODEC_AUTO; kind++) {
        if (!(allowed_kinds(codec) >> kind & 1)) continue;
        const double seconds = seconds_of(at, codec, (ringtree_codec_kind)kind, elements);
        if (seconds >= best) continue;
        best = seconds;
        choice->kind = (ringtree_codec_kind)kind;
    }
    if (choice->kind) why(choice, "predicted %.1f us, exact %.1f us", best * 1e6, exact * 1e6);
    else why(choice, "no codec saves a tenth of %.1f us", exact * 1e6);
}

/* ---- words */

size_t rt_codec_elements(const struct rt_codec_case *at, ringtree_collective collective, size_t count)
{
    const bool blocks = collective == RINGTREE_REDUCE_SCATTER || collective == RINGTREE_ALL_GATHER;
    return count * (blocks ? at->ranks : 1);
}

bool rt_codec_serves(ringtree_collective collective)
{
    return collective == RINGTREE_ALL_REDUCE || collective == RINGTREE_REDUCE_SCATTER ||
           collective == RINGTREE_ALL_GATHER || collective == RINGTREE_BROADCAST;
}

void rt_codec_say(const struct rt_codec_case *at, ringtree_collective collective, size_t count,
                  const ringtree_codec *codec, const struct rt_codec_choice *choice, char *text, size_t capacity)
{
    const size_t elements = rt_codec_elements(at, collective, count);
    int n = snprintf(text, capacity, "%s of %zu float32 with codec %s: %s; %s. Links between nodes: %.3g GB/s\n",
                     ringtree_collective_name(collective), count, ringtree_codec_name(codec->kind),
                     choice->kind ? ringtree_codec_name(choice->kind) : "exact", choice->why, at->link_rate / 1e9);
    size_t used = n > 0 ? (size_t)n : 0;
    if (codec->kind != RINGTREE_CODEC_AUTO || !at->rates->known) return;
    for (int kind = RINGTREE_CODEC_NONE; kind < RINGTREE_CODEC_AUTO && used < capacity; kind++) {
        const bool allowed = kind == RINGTREE_CODEC_NONE || allowed_kinds(codec) >> kind & 1;
        n = snprintf(text + used, capacity - used, "  %-5s %12.1f us predicted%s\n",
                     ringtree_codec_name((ringtree_codec_kind)kind),
                     seconds_of(at, codec, (ringtree_codec_kind)kind, elements) * 1e6, allowed ? "" : ", not allowed");
        used += n > 0 ? (size_t)n : 0;
    }
}
