/*
 * Whether a call compresses, and with what. It does between nodes whose links are slower than
 * RINGTREE_COMPRESS_BELOW; auto takes the kind with the least predicted time of those allowed, and none unless one
 * saves a tenth.
 *
 * Predicted: the codes' time on the link or the codec's time on a core, whichever is longer, since pieces overlap; for
 * topk the selection before. The link's rate is the planner's, or RINGTREE_LINK_RATE. What a core encodes is measured
 * when it is first needed and the slowest rank's figures are everybody's, so all ranks decide alike.
 */
#include "compressed.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TRIAL ((size_t)256 << 10) /* elements: out of L1 and L2 with what they become */
#define TRIALS 3                  /* the fastest counts */
#define WORTH 0.9                 /* of the exact call's time, at most */

/* Bytes of float32 per second of one core. */
struct rates {
    double encode, decode, select;
};

static double link_rate(const ringtree_comm *comm)
{
    const uint64_t given = comm->settings.number[RT_LINK_RATE];
    return given ? (double)given : rt_plan_link(comm).bytes_per_s;
}

static bool is_spared(const ringtree_codec *codec, size_t elements)
{
    if (codec->flags & RINGTREE_CODEC_SMALL) return false;
    return rt_codec_spares(codec->dimensions ? codec->dimensions : 2, elements);
}

/* ---- what this machine encodes */

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

static double least(double a, double b)
{
    return a < b ? a : b;
}

struct exchange {
    ringtree_comm         *comm;
    struct rt_codec_rates *all, mine;
    ringtree_status        status;
    struct rt_error       *error;
};

static void exchange(void *context)
{
    struct exchange *x = context;
    x->mine.known = true;
    for (int kind = RT_CODEC_BF16; kind < RT_CODEC_KIND_COUNT; kind++) {
        struct rates rates = { 0, 0, 0 };
        x->mine.known = x->mine.known && measure((enum rt_codec_kind)kind, &rates);
        x->mine.encode[kind] = rates.encode;
        x->mine.decode[kind] = rates.decode;
        x->mine.select = rates.select;
    }
    x->all[0] = x->mine;
    if (x->comm->nranks > 1)
        x->status = rt_control_all_gather(x->comm->control, &x->mine, sizeof x->mine, x->all, x->error);
}

/* The slowest of all ranks' rates. A rank without memory to measure came too, so that nobody waits for it. */
static ringtree_status take_slowest(struct exchange *x)
{
    struct rt_codec_rates slowest = x->all[0];
    for (uint32_t r = 0; r < x->comm->nranks; r++) {
        if (!x->all[r].known)
            return rt_fail(x->error, RINGTREE_NO_MEMORY, "rank %u: no memory to measure codecs", r);
        for (int kind = RT_CODEC_BF16; kind < RT_CODEC_KIND_COUNT; kind++) {
            slowest.encode[kind] = least(slowest.encode[kind], x->all[r].encode[kind]);
            slowest.decode[kind] = least(slowest.decode[kind], x->all[r].decode[kind]);
        }
        slowest.select = least(slowest.select, x->all[r].select);
    }
    x->comm->codec_rates = slowest;
    return RINGTREE_OK;
}

/* Collective. */
static ringtree_status agree(ringtree_comm *comm, struct rt_error *error)
{
    struct exchange x = { .comm = comm, .all = calloc(comm->nranks, sizeof *x.all), .error = error };
    if (!x.all) return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory to measure codecs", comm->rank);
    rt_engine_beside(comm->engine, exchange, &x);
    ringtree_status status = x.status == RINGTREE_OK ? take_slowest(&x) : x.status;
    free(x.all);
    return status;
}

/* ---- the prediction */

static double nodes_of(const ringtree_comm *comm, const ringtree_codec *codec)
{
    return codec->flags & RINGTREE_CODEC_FORCE ? comm->nranks : comm->engine->layout.nnodes;
}

double rt_codec_seconds(const ringtree_comm *comm, const ringtree_codec *codec, ringtree_codec_kind kind,
                        size_t elements)
{
    const struct rt_codec_rates *rates = &comm->codec_rates;
    const double bytes = (double)elements * sizeof(float), nodes = nodes_of(comm, codec);
    const double locals = comm->nranks / nodes;
    const double wire = 2 * (nodes - 1) / nodes * bytes / link_rate(comm);
    if (kind == RINGTREE_CODEC_NONE) return wire;
    ringtree_codec asked = *codec;
    asked.kind = kind;
    struct rt_compression compression;
    if (rt_compression_of(&asked, &compression, NULL) != RINGTREE_OK) return 1e30;
    double share = (double)rt_codec_usual_bytes(&compression.codec, elements) / bytes;
    if (kind == RINGTREE_CODEC_TOPK && !compression.reselect) /* sums of sparse arrays are less sparse */
        share *= (1 + least(nodes, 1 / compression.codec.ratio)) / 2;
    const double encoded = bytes / locals * (1 + 1 / nodes), decoded = bytes + bytes / locals;
    const double core = encoded / rates->encode[kind] + decoded / rates->decode[kind];
    const double before = kind == RINGTREE_CODEC_TOPK ? bytes / locals / rates->select : 0;
    return before + (wire * share > core ? wire * share : core);
}

static uint32_t allowed_kinds(const ringtree_codec *codec)
{
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

static void choose_fastest(const ringtree_comm *comm, const ringtree_codec *codec, size_t elements,
                           struct rt_codec_choice *choice)
{
    const double exact = rt_codec_seconds(comm, codec, RINGTREE_CODEC_NONE, elements);
    double best = exact * WORTH;
    choice->kind = RINGTREE_CODEC_NONE;
    for (int kind = RINGTREE_CODEC_BF16; kind < RINGTREE_CODEC_AUTO; kind++) {
        const double seconds = rt_codec_seconds(comm, codec, (ringtree_codec_kind)kind, elements);
        if (!(allowed_kinds(codec) >> kind & 1) || seconds >= best) continue;
        best = seconds;
        choice->kind = (ringtree_codec_kind)kind;
    }
    if (choice->kind) why(choice, "predicted %.1f us, exact %.1f us", best * 1e6, exact * 1e6);
    else why(choice, "no codec saves a tenth of %.1f us", exact * 1e6);
}

/* Says why a call is exact; false: it may be compressed. */
static bool is_exact(const ringtree_comm *comm, const ringtree_codec *codec, size_t elements,
                     struct rt_codec_choice *choice)
{
    const double rate = link_rate(comm), below = (double)comm->settings.number[RT_COMPRESS_BELOW];
    if (codec->kind == RINGTREE_CODEC_NONE) why(choice, "no codec was asked for");
    else if (is_spared(codec, elements))
        why(choice, "tensors with one dimension or fewer than %d elements stay exact", RT_SPARED_BELOW);
    else if (codec->flags & RINGTREE_CODEC_FORCE) return false;
    else if (comm->engine->layout.nnodes == 1) why(choice, "all ranks share memory");
    else if (rate >= below)
        why(choice, "links of %.3g GB/s are not below RINGTREE_COMPRESS_BELOW=%.3g GB/s", rate / 1e9, below / 1e9);
    else return false;
    return true;
}

ringtree_status rt_codec_choose(ringtree_comm *comm, const ringtree_codec *codec, size_t elements,
                                struct rt_codec_choice *choice, struct rt_error *error)
{
    choice->kind = RINGTREE_CODEC_NONE;
    choice->apart = (codec->flags & RINGTREE_CODEC_FORCE) != 0;
    if (is_exact(comm, codec, elements, choice)) return RINGTREE_OK;
    choice->kind = codec->kind;
    if (codec->kind != RINGTREE_CODEC_AUTO) {
        why(choice, "%s", choice->apart ? "RINGTREE_CODEC_FORCE" : "links between nodes are slow");
        return RINGTREE_OK;
    }
    if (!comm->codec_rates.known) {
        ringtree_status status = agree(comm, error);
        if (status != RINGTREE_OK) return status;
    }
    choose_fastest(comm, codec, elements, choice);
    return RINGTREE_OK;
}

/* ---- words */

static size_t explain_kinds(const ringtree_comm *comm, const ringtree_codec *codec, size_t elements, char *text,
                            size_t capacity)
{
    size_t used = 0;
    for (int kind = RINGTREE_CODEC_NONE; kind < RINGTREE_CODEC_AUTO && used < capacity; kind++) {
        const bool allowed = kind == RINGTREE_CODEC_NONE || allowed_kinds(codec) >> kind & 1;
        const double seconds = rt_codec_seconds(comm, codec, (ringtree_codec_kind)kind, elements);
        const int n = snprintf(text + used, capacity - used, "  %-5s %12.1f us predicted%s\n",
                               ringtree_codec_name((ringtree_codec_kind)kind), seconds * 1e6,
                               allowed ? "" : ", not allowed");
        used += n > 0 ? (size_t)n : 0;
    }
    return used;
}

static size_t elements_of(const ringtree_comm *comm, ringtree_collective collective, size_t count)
{
    const bool blocks = collective == RINGTREE_REDUCE_SCATTER || collective == RINGTREE_ALL_GATHER;
    return count * (blocks ? comm->nranks : 1);
}

static void explain(const ringtree_comm *comm, ringtree_collective collective, size_t count,
                    const ringtree_codec *codec, const struct rt_codec_choice *choice, char *text, size_t capacity)
{
    const size_t elements = elements_of(comm, collective, count);
    const int n = snprintf(text, capacity, "%s of %zu float32 with codec %s: %s; %s. Links between nodes: %.3g GB/s\n",
                           ringtree_collective_name(collective), count, ringtree_codec_name(codec->kind),
                           choice->kind ? ringtree_codec_name(choice->kind) : "exact", choice->why,
                           link_rate(comm) / 1e9);
    if (codec->kind == RINGTREE_CODEC_AUTO && comm->codec_rates.known && n > 0 && (size_t)n < capacity)
        explain_kinds(comm, codec, elements, text + n, capacity - (size_t)n);
}

void rt_codec_explain_auto(ringtree_comm *comm, ringtree_collective collective, size_t count, char *text,
                           size_t capacity)
{
    ringtree_codec codec = RINGTREE_CODEC_DEFAULT;
    struct rt_codec_choice choice = { .explains = true };
    const size_t elements = elements_of(comm, collective, count);
    codec.kind = RINGTREE_CODEC_AUTO;
    if (!is_exact(comm, &codec, elements, &choice)) {
        if (!comm->codec_rates.known) {
            snprintf(text, capacity, "with codec auto: not measured yet; the first call does, or "
                     "ringtree_codec_explain() on all ranks\n");
            return;
        }
        choose_fastest(comm, &codec, elements, &choice);
    }
    explain(comm, collective, count, &codec, &choice, text, capacity);
}

ringtree_status ringtree_codec_explain(ringtree_comm *comm, ringtree_collective collective, size_t count,
                                       const ringtree_codec *codec, char *text, size_t capacity)
{
    ringtree_status status = rt_comm_check(comm, "ringtree_codec_explain");
    if (status != RINGTREE_OK) return status;
    struct rt_compression compression;
    struct rt_codec_choice choice = { .explains = true };
    if (!text || !capacity)
        return rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT,
                       "ringtree_codec_explain: needs text with capacity over 0");
    status = rt_compression_of(codec, &compression, &comm->error);
    if (status != RINGTREE_OK) return status;
    const bool blocks = collective == RINGTREE_REDUCE_SCATTER || collective == RINGTREE_ALL_GATHER;
    const size_t times = blocks ? comm->nranks : 1, elements = count * times;
    if ((!blocks && collective != RINGTREE_ALL_REDUCE && collective != RINGTREE_BROADCAST) ||
        count > SIZE_MAX / sizeof(float) / times)
        return rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT,
                       "ringtree_codec_explain on rank %u: no call with a codec is %s of %zu float32", comm->rank,
                       ringtree_collective_name(collective), count);
    status = rt_codec_choose(comm, codec, elements, &choice, &comm->error);
    if (status == RINGTREE_OK) explain(comm, collective, count, codec, &choice, text, capacity);
    return status;
}
