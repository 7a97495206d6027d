/*
 * What a communicator knows of codecs: how fast its slowest rank encodes, measured when it is first needed, so that all
 * ranks decide alike (codec_predict.c). The link's rate is the planner's, or RINGTREE_LINK_RATE.
 */
#include "compressed.h"
#include <stdio.h>
#include <stdlib.h>

static struct rt_codec_case case_of(const ringtree_comm *comm)
{
    const uint64_t given = comm->settings.number[RT_LINK_RATE];
    return (struct rt_codec_case){ comm->nranks, comm->engine->layout.nnodes,
                                   given ? (double)given : rt_plan_link(comm).bytes_per_s,
                                   (double)comm->settings.number[RT_COMPRESS_BELOW], &comm->codec_rates };
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
    rt_codec_measure(&x->mine);
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

ringtree_status rt_codec_choose(ringtree_comm *comm, const ringtree_codec *codec, size_t elements,
                                struct rt_codec_choice *choice, struct rt_error *error)
{
    const struct rt_codec_case at = case_of(comm);
    if (rt_codec_is_exact(&at, codec, elements, choice)) return RINGTREE_OK;
    if (codec->kind == RINGTREE_CODEC_AUTO && !comm->codec_rates.known) {
        ringtree_status status = agree(comm, error);
        if (status != RINGTREE_OK) return status;
    }
    rt_codec_take_fastest(&at, codec, elements, choice);
    return RINGTREE_OK;
}

/* ---- words */

void rt_codec_explain_auto(ringtree_comm *comm, ringtree_collective collective, size_t count, char *text,
                           size_t capacity)
{
    const struct rt_codec_case at = case_of(comm);
    const size_t elements = rt_codec_elements(&at, collective, count);
    ringtree_codec codec = RINGTREE_CODEC_DEFAULT;
    struct rt_codec_choice choice = { .explains = true };
    codec.kind = RINGTREE_CODEC_AUTO;
    if (!rt_codec_is_exact(&at, &codec, elements, &choice)) {
        if (!comm->codec_rates.known) {
            snprintf(text, capacity, "with codec auto: not measured yet; the first call does, or "
                     "ringtree_codec_explain() on all ranks\n");
            return;
        }
        rt_codec_take_fastest(&at, &codec, elements, &choice);
    }
    rt_codec_say(&at, collective, count, &codec, &choice, text, capacity);
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
    const struct rt_codec_case at = case_of(comm);
    const size_t elements = rt_codec_elements(&at, collective, count);
    if (!rt_codec_serves(collective) || count > SIZE_MAX / sizeof(float) / comm->nranks)
        return rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT,
                       "ringtree_codec_explain on rank %u: no call with a codec is %s of %zu float32", comm->rank,
                       ringtree_collective_name(collective), count);
    status = rt_codec_choose(comm, codec, elements, &choice, &comm->error);
    if (status == RINGTREE_OK) rt_codec_say(&at, collective, count, codec, &choice, text, capacity);
    return status;
}
