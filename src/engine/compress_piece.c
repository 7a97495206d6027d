/* One piece: where it lies in input, output and residual, how it is encoded, and how its result is delivered. */
#include "compress.h"
#include "engine.h"
#include "codec/momentum.h"
#include "reduce/reduce.h"
#include <stdio.h>

static bool has_blocks(const struct rt_operation *op)
{
    const uint8_t collective = op->call.frame.collective;
    return collective == RINGTREE_REDUCE_SCATTER || collective == RINGTREE_ALL_GATHER;
}

uint32_t rt_compress_root(const struct rt_operation *op)
{
    return op->call.frame.collective == RINGTREE_BROADCAST ? op->call.frame.root : RT_NONE;
}

bool rt_has_up(const struct rt_operation *op)
{
    const uint8_t collective = op->call.frame.collective;
    return collective == RINGTREE_ALL_REDUCE || collective == RINGTREE_REDUCE_SCATTER;
}

bool rt_has_results(const struct rt_operation *op)
{
    return op->call.frame.collective != RINGTREE_REDUCE_SCATTER;
}

uint64_t rt_own_place(const struct rt_engine *engine, const struct rt_operation *op, const struct rt_piece *piece)
{
    const bool one_block = op->call.frame.collective == RINGTREE_ALL_GATHER;
    return piece->first - (one_block ? engine->compressor->begin[piece->owner] : 0);
}

unsigned char *rt_input_at(const struct rt_engine *engine, const struct rt_operation *op, const struct rt_piece *piece)
{
    return (unsigned char *)(uintptr_t)op->call.input + rt_own_place(engine, op, piece) * sizeof(float);
}

unsigned char *rt_output_at(const struct rt_engine *engine, const struct rt_operation *op, const struct rt_piece *piece)
{
    const bool one_block = op->call.frame.collective == RINGTREE_REDUCE_SCATTER;
    const uint64_t at = piece->first - (one_block ? engine->compressor->begin[piece->owner] : 0);
    return (unsigned char *)op->call.output + at * sizeof(float);
}

float *rt_residual_at(const struct rt_engine *engine, const struct rt_operation *op, const struct rt_piece *piece)
{
    if (!op->compression.codec.feedback) return NULL;
    return op->compression.state->residual + rt_own_place(engine, op, piece);
}

/* Each block of reduce_scatter and all_gather is cut by itself, at the place where it would lie if all were whole
 * units: then the blocks are those of the all_reduce of the whole array. */
struct rt_part rt_part_of(const struct rt_engine *engine, const struct rt_operation *op, const struct rt_piece *piece,
                          bool owner)
{
    const uint64_t align = rt_codec_align(&op->compression.codec);
    uint64_t first = piece->first;
    if (has_blocks(op))
        first += piece->owner * ((op->call.count + align - 1) / align * align - op->call.count);
    return (struct rt_part){ .first = first, .count = piece->count,
                             .step = op->compression.state ? op->compression.state->step : 0,
                             .rank = owner ? RT_OWNER(0) : engine->fabric.rank,
                             .cut = engine->compressor->cuts[piece->owner] };
}

size_t rt_encode_own(struct rt_engine *engine, const struct rt_operation *op, const struct rt_piece *piece,
                     const unsigned char *values, unsigned char *bytes)
{
    const struct rt_compression *compression = &op->compression;
    struct rt_part part = rt_part_of(engine, op, piece, !rt_has_up(op));
    if (engine->compressor->found.whole) part.found = &engine->compressor->found;
    float *residual = rt_residual_at(engine, op, piece);
    float *momentum = compression->momentum > 0 ? compression->state->momentum + rt_own_place(engine, op, piece) : NULL;
    if (momentum && compression->codec.kind == RT_CODEC_TOPK)
        rt_momentum_mask(&compression->codec, momentum, values, part.first, part.count, &part.cut);
    else if (momentum) rt_momentum_settle(momentum, part.count);
    return rt_codec_encode(&compression->codec, &part, values, residual, bytes,
                           compression->report ? &compression->report->codec : NULL);
}

ringtree_status rt_piece_deliver(struct rt_engine *engine, const struct rt_operation *op, const struct rt_piece *piece,
                                 const void *bytes, size_t length, uint32_t from, struct rt_error *error)
{
    unsigned char *output = rt_output_at(engine, op, piece);
    ringtree_status status = rt_codec_decode(&op->compression.codec, output, piece->count, bytes, length, error);
    if (status != RINGTREE_OK) return rt_bad_piece(engine, op, from, error);
    if (op->call.divided_last) rt_divide(output, output, piece->count, op->call.type, engine->fabric.nranks);
    return RINGTREE_OK;
}

ringtree_status rt_bad_piece(struct rt_engine *engine, const struct rt_operation *op, uint32_t from,
                             struct rt_error *error)
{
    const struct rt_place *places = rt_control_places(engine->fabric.control);
    char call[200], what[400];
    snprintf(what, sizeof what, "%.*s", (int)sizeof what - 1, error->text);
    return rt_fail(error, RINGTREE_MISMATCH, "rank %u (host %s, pid %u) sent rank %u codes that cannot be in %s: %s",
                   from, places[from].host, places[from].pid, engine->fabric.rank,
                   rt_call_text(&op->call.frame, call, sizeof call), what);
}
