/* What an owner does with its pieces: add the nodes' sums in their order, encode the sum once, hand the codes out. */
#include "compress.h"
#include "engine.h"
#include "reduce/reduce.h"

enum stage { FETCH, ADD, ENCODE, SEND, SPREAD };

/* The owner's own sum is encoded like those of the others. */
static ringtree_status fetch(struct rt_engine *engine, struct rt_operation *op, const struct rt_piece *piece,
                             struct rt_error *error)
{
    struct rt_compressor *c = engine->compressor;
    struct rt_cursor *own = &c->own;
    ringtree_status status = rt_values_fetch(engine, op, own, piece, c->sums[1], error);
    if (status != RINGTREE_OK || op->compression.way != RT_BY_OWNER) return status;
    const bool sums = rt_has_up(op);
    own->length = rt_encode_own(engine, op, piece, own->values, c->codes[sums ? 0 : 1]);
    if (sums) return RINGTREE_OK;
    return rt_piece_deliver(engine, op, piece, c->codes[1], own->length, engine->fabric.rank, error);
}

static ringtree_status add(struct rt_engine *engine, struct rt_operation *op, const struct rt_piece *piece,
                           struct rt_error *error)
{
    struct rt_compressor *c = engine->compressor;
    struct rt_cursor *own = &c->own;
    const uint32_t self = engine->fabric.rank;
    unsigned char *sum = rt_output_at(engine, op, piece);
    for (; own->at < c->squad->nodes; own->at++) {
        const uint32_t from = rt_leader(c->squad, own->at, piece->owner);
        const unsigned char *codes = c->codes[0];
        size_t length = own->length;
        ringtree_status status = RINGTREE_OK;
        if (from != self)
            status = rt_piece_expect(engine, op, RT_TO_OWNER, from, piece, &codes, &length, &own->blocked, error);
        if (status != RINGTREE_OK) return status;
        status = (own->at ? rt_codec_decode_add : rt_codec_decode)(&op->compression.codec, sum, piece->count, codes,
                                                                   length, error);
        if (status != RINGTREE_OK) return rt_bad_piece(engine, op, from, error);
        if (from != self) rt_piece_release(engine, RT_TO_OWNER, from);
    }
    return RINGTREE_OK;
}

/* A sum that stays as it is. */
static void divide(struct rt_engine *engine, const struct rt_operation *op, const struct rt_piece *piece)
{
    unsigned char *sum = rt_output_at(engine, op, piece);
    if (op->call.divided_last) rt_divide(sum, sum, piece->count, op->call.type, engine->fabric.nranks);
}

/* What the owner leaves out of the sum goes into its own residual, and so into the next step. */
static ringtree_status encode(struct rt_engine *engine, struct rt_operation *op, const struct rt_piece *piece,
                              struct rt_error *error)
{
    struct rt_compressor *c = engine->compressor;
    const struct rt_compression *compression = &op->compression;
    unsigned char *sum = rt_output_at(engine, op, piece);
    float *residual = rt_residual_at(engine, op, piece);
    struct rt_part part = rt_part_of(engine, op, piece, true);
    part.cut = rt_cut_nonzero;
    if (compression->reselect && residual)
        part.cut = rt_topk_select(sum, part.first, part.count, rt_topk_kept(&compression->codec, part.count),
                                  c->sum_scratch);
    c->own.length = rt_codec_encode(&compression->codec, &part, sum, residual ? sum : NULL, c->codes[1],
                                    compression->report ? &compression->report->codec : NULL);
    if (residual) rt_codec_prepare(sum, residual, piece->count);
    if (!residual && compression->codec.kind == RT_CODEC_TOPK && compression->codec.values == RT_VALUES_FLOAT32) {
        divide(engine, op, piece); /* all of the sum was kept as it is: decoding would give the same bits */
        return RINGTREE_OK;
    }
    return rt_piece_deliver(engine, op, piece, c->codes[1], c->own.length, engine->fabric.rank, error);
}

/* The owner in a broadcast passes on what the root sent. */
static ringtree_status from_root(struct rt_engine *engine, struct rt_operation *op, const struct rt_piece *piece,
                                 struct rt_error *error)
{
    struct rt_compressor *c = engine->compressor;
    const uint32_t root = rt_compress_root(op);
    const unsigned char *codes;
    ringtree_status status = rt_piece_expect(engine, op, RT_TO_OWNER, root, piece, &codes, &c->own.length,
                                             &c->own.blocked, error);
    if (status != RINGTREE_OK) return status;
    rt_copy(c->codes[1], codes, c->own.length);
    rt_piece_release(engine, RT_TO_OWNER, root);
    return rt_piece_deliver(engine, op, piece, c->codes[1], c->own.length, root, error);
}

/* To the leaders of the other nodes; that of a broadcast's root has it. */
static ringtree_status hand_out(struct rt_engine *engine, struct rt_operation *op, const struct rt_piece *piece,
                            struct rt_error *error)
{
    struct rt_compressor *c = engine->compressor;
    const struct rt_squad *s = c->squad;
    const uint32_t root = rt_compress_root(op), node = s->node_of[engine->fabric.rank];
    for (; c->own.at < s->nodes; c->own.at++) {
        const uint32_t other = (node + c->own.at) % s->nodes;
        if (other == node || (root != RT_NONE && other == s->node_of[root])) continue;
        ringtree_status status = rt_piece_send(engine, op, RT_RESULT, rt_leader(s, other, piece->owner), piece,
                                               c->codes[1], c->own.length, &c->own.blocked, error);
        if (status != RINGTREE_OK) return status;
        if (op->compression.report) op->compression.report->sent_bytes += c->own.length;
    }
    return RINGTREE_OK;
}

static ringtree_status stage_advance(struct rt_engine *engine, struct rt_operation *op, const struct rt_piece *piece,
                                     struct rt_error *error)
{
    struct rt_compressor *c = engine->compressor;
    switch ((enum stage)c->own.stage) {
    case FETCH:
        if (op->call.frame.collective == RINGTREE_BROADCAST) return from_root(engine, op, piece, error);
        return fetch(engine, op, piece, error);
    case ADD:
        if (op->compression.way == RT_BY_OWNER) return add(engine, op, piece, error);
        return rt_hops_add(engine, op, &c->own, piece, rt_output_at(engine, op, piece), error);
    case ENCODE: return encode(engine, op, piece, error);
    case SEND: return hand_out(engine, op, piece, error);
    default:
        return rt_node_spread(engine, op, RT_RESULT, &c->own.at, piece, c->codes[1], c->own.length, &c->own.blocked,
                              error);
    }
}

static ringtree_status piece_own(struct rt_engine *engine, struct rt_operation *op, const struct rt_piece *piece,
                                 struct rt_error *error)
{
    struct rt_cursor *own = &engine->compressor->own;
    while (own->stage <= SPREAD) {
        const uint32_t stage = own->stage;
        ringtree_status status = stage_advance(engine, op, piece, error);
        if (status != RINGTREE_OK) return status;
        own->at = 0;
        if (stage == ADD && !rt_has_results(op)) break;
        if (stage == FETCH && !rt_has_up(op)) own->stage = SEND;
        else own->stage = stage + 1;
    }
    if (!rt_has_results(op)) divide(engine, op, piece);
    return RINGTREE_OK;
}

ringtree_status rt_own_advance(struct rt_engine *engine, struct rt_operation *op, bool *moved, struct rt_error *error)
{
    struct rt_compressor *c = engine->compressor;
    struct rt_piece piece;
    while (!c->own.done && rt_piece_of(c, engine->fabric.rank, c->own.round, &piece)) {
        ringtree_status status = piece_own(engine, op, &piece, error);
        if (status != RINGTREE_OK) return status;
        c->own = (struct rt_cursor){ .round = c->own.round + 1 };
        *moved = true;
    }
    c->own.done = true;
    return RINGTREE_OK;
}
