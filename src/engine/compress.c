/* A compressed collective from begin to end: see compress.h. */
#include "compress.h"
#include "engine.h"
#include <stdlib.h>
#include <string.h>

/* The largest piece whose codes fit a slot, whatever they become. */
static size_t piece_elements(const struct rt_codec *codec, size_t slot)
{
    const size_t room = slot - sizeof(struct rt_piece_head), align = rt_codec_align(codec);
    size_t count = room / sizeof(float) / align * align;
    while (count && rt_codec_max_bytes(codec, count) > room) count -= align;
    return count;
}

void rt_compress_close(struct rt_compressor *c)
{
    if (!c) return;
    for (int i = 0; i < 2; i++) {
        free(c->squads[i].memory);
        free(c->codes[i]);
        free(c->sums[i]);
    }
    free(c->begin);
    free(c->end);
    free(c->cuts);
    free(c->results);
    free(c->tensor);
    free(c->scratch);
    free(c->sum_scratch);
    free(c->wishes);
    free(c);
}

static ringtree_status make(struct rt_engine *engine, struct rt_error *error)
{
    struct rt_compressor *c = calloc(1, sizeof *c);
    const uint32_t n = engine->fabric.nranks;
    const size_t slot = (engine->slot_bytes + 63) / 64 * 64;
    if (!c) return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory for compression", engine->fabric.rank);
    engine->compressor = c;
    c->begin = calloc(n, sizeof *c->begin);
    c->end = calloc(n, sizeof *c->end);
    c->cuts = calloc(n, sizeof *c->cuts);
    c->results = calloc(n, sizeof *c->results);
    for (int i = 0; i < 2; i++) {
        c->codes[i] = aligned_alloc(64, slot);
        c->sums[i] = aligned_alloc(64, slot);
    }
    const bool enough = c->begin && c->end && c->cuts && c->results && c->codes[0] && c->codes[1] && c->sums[0] &&
                        c->sums[1] && rt_squads_make(engine, c);
    if (enough) return RINGTREE_OK;
    rt_compress_close(c);
    engine->compressor = NULL;
    return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory for compression", engine->fabric.rank);
}

static ringtree_status open_lane(struct rt_engine *engine, const struct rt_compression *compression,
                                 ringtree_collective collective, uint32_t root, uint32_t lane, struct rt_error *error)
{
    const struct rt_squad *squad = &engine->compressor->squads[compression->apart];
    const uint32_t self = engine->fabric.rank;
    for (uint32_t peer = 0; peer < engine->fabric.nranks; peer++) {
        ringtree_status status = RINGTREE_OK;
        if (rt_lane_serves(squad, compression, collective, root, lane, self, peer))
            status = rt_wire_open(engine, true, lane, peer, error);
        if (status == RINGTREE_OK && rt_lane_serves(squad, compression, collective, root, lane, peer, self))
            status = rt_wire_open(engine, false, lane, peer, error);
        if (status != RINGTREE_OK) return status;
    }
    return RINGTREE_OK;
}

ringtree_status rt_compress_open(struct rt_engine *engine, const struct rt_compression *compression,
                                 ringtree_collective collective, uint32_t root, struct rt_error *error)
{
    ringtree_status status = engine->compressor ? RINGTREE_OK : make(engine, error);
    if (status == RINGTREE_OK && piece_elements(&compression->codec, engine->slot_bytes) == 0)
        return rt_fail(error, RINGTREE_UNSUPPORTED,
                       "a block of codec %s does not fit a slot of %zu bytes; raise RINGTREE_TCP_SLOT_BYTES and "
                       "RINGTREE_SHM_SLOT_BYTES", rt_codec_name(compression->codec.kind), engine->slot_bytes);
    for (uint32_t lane = 0; lane < RT_COMPRESS_LANES && status == RINGTREE_OK; lane++)
        status = open_lane(engine, compression, collective, root, lane, error);
    return status;
}

/* ---- running */

#define ROUNDS_AHEAD 4 /* 3 just fill a link of 1 Gbit/s; with 8 some links end 5 % later than others */
#define BYTES_AHEAD  ((size_t)128 << 10)

/* Enough that no link is empty while answers are under way. */
static uint64_t rounds_ahead(const struct rt_compressor *c, const struct rt_compression *compression)
{
    const size_t others = c->squad->nodes > 1 ? c->squad->nodes - 1 : 1;
    const size_t round = others * rt_codec_usual_bytes(&compression->codec, c->piece);
    return ROUNDS_AHEAD + (BYTES_AHEAD + 2 * compression->in_flight) / round;
}

static ringtree_status begin(struct rt_engine *engine, struct rt_operation *op, struct rt_error *error)
{
    struct rt_compressor *c = engine->compressor;
    const bool selects = op->compression.codec.kind == RT_CODEC_TOPK;
    c->squad = &c->squads[op->compression.apart];
    c->piece = piece_elements(&op->compression.codec, engine->slot_bytes);
    rt_ranges_make(engine, op);
    rt_rounds_count(engine, op);
    c->ahead = rounds_ahead(c, &op->compression);
    memset(c->results, 0, engine->fabric.nranks * sizeof *c->results);
    memset(c->cuts, 0, engine->fabric.nranks * sizeof *c->cuts);
    c->gather = c->up = c->own = (struct rt_cursor){ 0 };
    c->prepared = NULL;
    c->found.whole = false;
    c->wish_stage = 0;
    c->ready = !selects;
    c->begun = true;
    return selects ? rt_topk_memory(engine, op, error) : RINGTREE_OK;
}

static bool all_sent(struct rt_engine *engine, struct rt_error *error)
{
    bool all = true;
    for (uint32_t lane = 0; lane < RT_COMPRESS_LANES; lane++)
        for (uint32_t peer = 0; peer < engine->fabric.nranks; peer++) {
            struct rt_wire *wire = rt_wire(engine, true, lane, peer);
            if (wire) all &= rt_wire_idle(wire, error);
        }
    return all;
}

static ringtree_status run(struct rt_engine *engine, struct rt_operation *op, bool *moved, struct rt_error *error)
{
    struct rt_compressor *c = engine->compressor;
    ringtree_status status = c->ready ? RINGTREE_OK : rt_topk_advance(engine, op, moved, error);
    if (status != RINGTREE_OK) return status;
    c->ready = true;
    const ringtree_status up = rt_up_advance(engine, op, moved, error);
    if (up > RINGTREE_IN_PROGRESS) return up;
    const ringtree_status own = rt_own_advance(engine, op, moved, error);
    if (own > RINGTREE_IN_PROGRESS) return own;
    const ringtree_status results = rt_results_advance(engine, op, moved, error);
    if (results > RINGTREE_IN_PROGRESS) return results;
    return up || own || results ? RINGTREE_IN_PROGRESS : RINGTREE_OK;
}

ringtree_status rt_compress_advance(struct rt_engine *engine, struct rt_operation *op, bool *moved,
                                    struct rt_error *error)
{
    struct rt_compressor *c = engine->compressor;
    ringtree_status status = c->begun ? RINGTREE_OK : begin(engine, op, error);
    if (status == RINGTREE_OK) status = run(engine, op, moved, error);
    if (status > RINGTREE_IN_PROGRESS) return status;
    const bool sent = all_sent(engine, error); /* asks every wire, which moves all of them on */
    if (error->status) return error->status;
    if (status == RINGTREE_IN_PROGRESS || !sent) return RINGTREE_IN_PROGRESS;
    if (op->compression.state) op->compression.state->step++;
    c->begun = false;
    return RINGTREE_OK;
}
