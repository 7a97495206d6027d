/* The collectives with a codec: checks codec and state, decides whether to compress, starts one or the other. */
#include "compressed.h"
#include "base/names.h"
#include "codec/momentum.h"
#include <string.h>

#define KNOWN_FLAGS 255u

static ringtree_status no_codec(struct rt_error *error, const char *why)
{
    return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "ringtree_codec: %s", why);
}

static ringtree_status check_flags(const ringtree_codec *codec, struct rt_error *error)
{
    const uint32_t hops = RINGTREE_CODEC_BY_RING | RINGTREE_CODEC_BY_TREE, flags = codec->flags;
    if (flags & ~KNOWN_FLAGS) return no_codec(error, "flags has bits that mean nothing");
    if (!(codec->momentum >= 0 && codec->momentum < 1)) return no_codec(error, "momentum is not from 0 up to below 1");
    if (codec->momentum > 0 && !(flags & RINGTREE_CODEC_FEEDBACK))
        return no_codec(error, "momentum needs RINGTREE_CODEC_FEEDBACK");
    if ((flags & RINGTREE_CODEC_RESELECT) && !(flags & RINGTREE_CODEC_FEEDBACK))
        return no_codec(error, "RINGTREE_CODEC_RESELECT needs RINGTREE_CODEC_FEEDBACK, or what it leaves out is lost");
    if ((flags & hops) == hops) return no_codec(error, "BY_RING and BY_TREE exclude each other");
    if ((flags & hops) && (!(flags & RINGTREE_CODEC_FORCE) || (flags & RINGTREE_CODEC_FEEDBACK) ||
                           codec->kind == RINGTREE_CODEC_TOPK))
        return no_codec(error, "BY_RING and BY_TREE are for comparison: with RINGTREE_CODEC_FORCE, without feedback, "
                        "not with topk");
    if (codec->kind == RINGTREE_CODEC_AUTO && codec->allowed >> RINGTREE_CODEC_AUTO)
        return no_codec(error, "allowed has bits for kinds that do not exist");
    return RINGTREE_OK;
}

ringtree_status rt_compression_of(const ringtree_codec *codec, struct rt_compression *compression,
                                  struct rt_error *error)
{
    if (!codec) return no_codec(error, "is NULL");
    if (codec->size != sizeof *codec) return no_codec(error, "size is wrong; begin with RINGTREE_CODEC_DEFAULT");
    if ((uint32_t)codec->kind > RINGTREE_CODEC_AUTO) return no_codec(error, "kind is none that exists");
    ringtree_status status = check_flags(codec, error);
    if (status != RINGTREE_OK) return status;
    const uint32_t flags = codec->flags;
    *compression = (struct rt_compression){
        .codec = { .kind = codec->kind == RINGTREE_CODEC_AUTO ? RT_CODEC_NONE : (enum rt_codec_kind)codec->kind,
                   .block = codec->block,
                   .rounding = flags & RINGTREE_CODEC_STOCHASTIC ? RT_ROUND_STOCHASTIC : RT_ROUND_NEAREST,
                   .values = flags & RINGTREE_CODEC_INT8_VALUES ? RT_VALUES_INT8 : RT_VALUES_FLOAT32,
                   .ratio = codec->ratio == 0 ? 0.01f : codec->ratio,
                   .feedback = (flags & RINGTREE_CODEC_FEEDBACK) != 0 },
        .momentum = codec->momentum,
        .reselect = flags & RINGTREE_CODEC_RESELECT && codec->kind == RINGTREE_CODEC_TOPK,
        .way = flags & RINGTREE_CODEC_BY_RING ? RT_BY_RING : flags & RINGTREE_CODEC_BY_TREE ? RT_BY_TREE : RT_BY_OWNER,
    };
    return rt_codec_check(&compression->codec, error);
}

/* ---- the state */

static ringtree_status check_state(ringtree_comm *comm, const ringtree_codec *codec, const ringtree_codec_state *state,
                                   size_t elements)
{
    const bool feedback = codec->flags & RINGTREE_CODEC_FEEDBACK;
    struct rt_error *error = &comm->error;
    if (!state && feedback) return no_codec(error, "feedback needs a state; see ringtree_codec_state_create");
    if (!state) return RINGTREE_OK;
    if (state->live != RT_STATE_LIVE) return no_codec(error, "the state is none");
    if (feedback && !state->kept->has_residual)
        return no_codec(error, "the state was created for a codec without RINGTREE_CODEC_FEEDBACK");
    if (codec->momentum > 0 && !state->kept->has_momentum)
        return no_codec(error, "the state was created for a codec without momentum");
    if (feedback && state->kept->count != elements)
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "ringtree_codec: the state is for %zu elements; this rank "
                       "gives %zu", (size_t)state->kept->count, elements);
    return RINGTREE_OK;
}

/* The exact call sends what was left over as well. Its input is then the residual. */
static void add_left(const ringtree_codec *codec, ringtree_codec_state *state, struct rt_call *call, size_t elements)
{
    if (!state || !(codec->flags & RINGTREE_CODEC_FEEDBACK) || !(state->left || codec->momentum > 0)) return;
    struct rt_codec_state *kept = state->kept;
    if (codec->momentum > 0)
        rt_momentum_add(kept->momentum, kept->residual, call->input, elements, codec->momentum);
    else rt_codec_prepare(call->input, kept->residual, elements);
    call->input = kept->residual;
    call->in_place = false;
    state->spent = true;
}

/* ---- the call as the other ranks must have it */

/* Bits 16 to 31 of the frame's op; see rt_call_text(). */
static uint32_t tag_of(const ringtree_codec *codec, const struct rt_compression *compression)
{
    const uint32_t block = compression->codec.block ? compression->codec.block : RT_BLOCK;
    return (RT_CODEC_TAG | (uint32_t)compression->codec.kind << 12 | (uint32_t)__builtin_ctz(block / 32) << 9 |
            (uint32_t)(codec->momentum > 0) << 8 | codec->flags) << 16;
}

static uint32_t ratio_bits(float ratio)
{
    uint32_t bits;
    memcpy(&bits, &ratio, sizeof bits);
    return bits;
}

/* By the planner's figures of a link between nodes. */
static size_t in_flight(const ringtree_comm *comm)
{
    const struct rt_plan_link link = rt_plan_link(comm);
    return (size_t)(2 * link.latency_s * link.bytes_per_s);
}

struct request {
    ringtree_collective   collective;
    const ringtree_codec *codec;
    ringtree_codec_state *state;
    size_t                elements, own; /* of the tensor; that this rank gives */
};

static ringtree_status start(ringtree_comm *comm, const struct request *wanted, struct rt_call *call,
                             ringtree_request **request)
{
    struct rt_compression compression;
    struct rt_codec_choice choice = { .explains = false };
    ringtree_codec_state *state = wanted->state;
    ringtree_status status = rt_compression_of(wanted->codec, &compression, &comm->error);
    if (status == RINGTREE_OK) status = check_state(comm, wanted->codec, state, wanted->own);
    if (status == RINGTREE_OK)
        status = rt_codec_choose(comm, wanted->codec, wanted->elements, &choice, &comm->error);
    if (status != RINGTREE_OK) return status;
    const bool travels = call->count && (comm->nranks > 1 || wanted->collective != RINGTREE_BROADCAST);
    const bool compresses = choice.kind != RINGTREE_CODEC_NONE && travels;
    compression.codec.kind = (enum rt_codec_kind)choice.kind;
    compression.apart = choice.apart;
    compression.in_flight = in_flight(comm);
    compression.state = state ? state->kept : NULL;
    compression.report = state ? &state->report : NULL;
    call->frame.op |= tag_of(wanted->codec, &compression);
    if (!compresses) status = rt_collective_plan(comm, call); /* before the state is touched */
    if (status != RINGTREE_OK) return status;
    if (state) {
        int was;
        const bool taken = rt_state_take(state, &was);
        if (taken && was == RT_LENT_SPOILT) rt_state_give(state, was);
        if (!taken || was == RT_LENT_SPOILT) return no_codec(&comm->error, rt_state_words(was));
        state->lent.next = NULL;
        call->held = &state->lent;
        rt_state_settle(state);
        state->calls++;
        state->last_kind = compresses ? choice.kind : RINGTREE_CODEC_NONE;
    }
    if (!compresses) {
        if (call->input) add_left(wanted->codec, state, call, wanted->own);
        return rt_collective_start(comm, call, request);
    }
    if (state) state->left = true;
    if (call->frame.root == RT_NONE && choice.kind == RINGTREE_CODEC_TOPK)
        call->frame.root = ratio_bits(compression.codec.ratio);
    return rt_compressed_start(comm, call, &compression, request);
}

static ringtree_status check_kind(ringtree_comm *comm, ringtree_type type, ringtree_op op)
{
    if (type == RINGTREE_FLOAT32 && (op == RINGTREE_SUM || op == RINGTREE_AVG)) return RINGTREE_OK;
    return rt_fail(&comm->error, RINGTREE_UNSUPPORTED,
                   "rank %u: compression takes float32 with sum or avg; convert other types, or call without a codec",
                   comm->rank);
}

static ringtree_status compressed(ringtree_comm *comm, ringtree_collective which, const struct rt_buffers *buffers,
                                  size_t count, ringtree_type type, const ringtree_op *op, uint32_t root,
                                  const ringtree_codec *codec, ringtree_codec_state *state, ringtree_request **request)
{
    struct rt_call call;
    ringtree_status status = check_kind(comm, type, op ? *op : RINGTREE_SUM);
    if (status == RINGTREE_OK) status = rt_call_make(comm, &call, which, buffers, count, type, op, root);
    if (status != RINGTREE_OK) return status;
    if (!buffers->input_blocks) call.input = NULL; /* the caller may have given anything */
    const size_t blocks = buffers->input_blocks > buffers->output_blocks ? buffers->input_blocks
                                                                         : buffers->output_blocks;
    const struct request wanted = { which, codec, state, count * blocks,
                                    count * (buffers->input_blocks ? buffers->input_blocks : 1) };
    return start(comm, &wanted, &call, request);
}

ringtree_status ringtree_all_reduce_compressed(ringtree_comm *comm, const void *input, void *output, size_t count,
                                               ringtree_type type, ringtree_op op, const ringtree_codec *codec,
                                               ringtree_codec_state *state, ringtree_request **request)
{
    ringtree_status status = rt_call_enter(comm, RINGTREE_ALL_REDUCE, request);
    if (status != RINGTREE_OK) return status;
    const struct rt_buffers b = { input, output, 1, 1, 0, 0 };
    return compressed(comm, RINGTREE_ALL_REDUCE, &b, count, type, &op, RT_NONE, codec, state, request);
}

ringtree_status ringtree_reduce_scatter_compressed(ringtree_comm *comm, const void *input, void *output, size_t count,
                                                   ringtree_type type, ringtree_op op, const ringtree_codec *codec,
                                                   ringtree_codec_state *state, ringtree_request **request)
{
    ringtree_status status = rt_call_enter(comm, RINGTREE_REDUCE_SCATTER, request);
    if (status != RINGTREE_OK) return status;
    const struct rt_buffers b = { input, output, comm->nranks, 1, comm->rank, 0 };
    return compressed(comm, RINGTREE_REDUCE_SCATTER, &b, count, type, &op, RT_NONE, codec, state, request);
}

ringtree_status ringtree_all_gather_compressed(ringtree_comm *comm, const void *input, void *output, size_t count,
                                               ringtree_type type, const ringtree_codec *codec,
                                               ringtree_codec_state *state, ringtree_request **request)
{
    ringtree_status status = rt_call_enter(comm, RINGTREE_ALL_GATHER, request);
    if (status != RINGTREE_OK) return status;
    const struct rt_buffers b = { input, output, 1, comm->nranks, 0, comm->rank };
    return compressed(comm, RINGTREE_ALL_GATHER, &b, count, type, NULL, RT_NONE, codec, state, request);
}

ringtree_status ringtree_broadcast_compressed(ringtree_comm *comm, const void *input, void *output, size_t count,
                                              ringtree_type type, uint32_t root, const ringtree_codec *codec,
                                              ringtree_codec_state *state, ringtree_request **request)
{
    ringtree_status status = rt_call_enter(comm, RINGTREE_BROADCAST, request);
    if (status == RINGTREE_OK && root >= comm->nranks)
        return rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT,
                       "ringtree_broadcast_compressed on rank %u: root %u is not below the %u ranks", comm->rank, root,
                       comm->nranks);
    if (status != RINGTREE_OK) return status;
    const struct rt_buffers b = { input, output, comm->rank == root, 1, 0, 0 };
    return compressed(comm, RINGTREE_BROADCAST, &b, count, type, NULL, root, codec, state, request);
}
