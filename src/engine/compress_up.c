/* The way up: values to the node's leader, codes of the node's sum to the owner. */
#include "compress.h"
#include "engine.h"
#include "codec/momentum.h"
#include "reduce/reduce.h"
#include <string.h>

/* Adds the values of this node's ranks in their order. */
static ringtree_status add_node(struct rt_engine *engine, struct rt_operation *op, struct rt_cursor *cursor,
                                const struct rt_piece *piece, float *sum, struct rt_error *error)
{
    const struct rt_squad *s = engine->compressor->squad;
    const uint32_t self = engine->fabric.rank, node = s->node_of[self];
    const uint32_t lane = piece->owner == self ? RT_TO_OWNER : RT_UP;
    for (; cursor->local < s->size[node]; cursor->local++) {
        const uint32_t from = s->members[s->start[node] + cursor->local];
        const unsigned char *values = rt_input_at(engine, op, piece);
        size_t length = piece->count * sizeof(float);
        if (from != self) {
            ringtree_status status =
                rt_piece_expect(engine, op, lane, from, piece, &values, &length, &cursor->blocked, error);
            if (status != RINGTREE_OK) return status;
            if (length != piece->count * sizeof(float)) {
                rt_fail(error, RINGTREE_MISMATCH, "%zu bytes for %zu values", length, piece->count);
                return rt_bad_piece(engine, op, from, error);
            }
        }
        if (cursor->local == 0) memcpy(sum, values, length);
        else rt_reduce(sum, sum, values, piece->count, RINGTREE_FLOAT32, RINGTREE_SUM);
        if (from != self) rt_piece_release(engine, lane, from);
    }
    return RINGTREE_OK;
}

/* With feedback what is sent is the residual, to which the values were added. */
static const unsigned char *with_residual(struct rt_engine *engine, const struct rt_operation *op,
                                          const struct rt_piece *piece, const void *values)
{
    float *residual = rt_residual_at(engine, op, piece);
    if (!residual) return values;
    const struct rt_codec_state *state = op->compression.state;
    if (op->compression.momentum > 0)
        rt_momentum_add(state->momentum + (residual - state->residual), residual, values, piece->count,
                        op->compression.momentum);
    else rt_codec_prepare(values, residual, piece->count);
    return (const unsigned char *)residual;
}

ringtree_status rt_values_fetch(struct rt_engine *engine, struct rt_operation *op, struct rt_cursor *cursor,
                                const struct rt_piece *piece, float *sum, struct rt_error *error)
{
    const struct rt_squad *s = engine->compressor->squad;
    const void *values = rt_input_at(engine, op, piece);
    if (engine->compressor->prepared)
        cursor->values = engine->compressor->prepared + rt_own_place(engine, op, piece) * sizeof(float);
    if (cursor->values) return RINGTREE_OK;
    if (rt_has_up(op) && s->size[s->node_of[engine->fabric.rank]] > 1) {
        ringtree_status status = add_node(engine, op, cursor, piece, sum, error);
        if (status != RINGTREE_OK) return status;
        values = sum;
    }
    cursor->local = 0;
    cursor->values = with_residual(engine, op, piece, values);
    return RINGTREE_OK;
}

/* ---- for comparison: each rank adds what it got to its own and encodes anew. Place 0 is the owner. */

static uint32_t place_rank(const struct rt_engine *engine, uint32_t owner, uint32_t place)
{
    return (owner + place) % engine->fabric.nranks;
}

static uint32_t own_place(const struct rt_engine *engine, uint32_t owner)
{
    return (engine->fabric.rank + engine->fabric.nranks - owner) % engine->fabric.nranks;
}

static uint32_t parent_of(enum rt_compress_way way, uint32_t place)
{
    return way == RT_BY_RING ? place - 1 : (place - 1) / 2;
}

ringtree_status rt_hops_add(struct rt_engine *engine, struct rt_operation *op, struct rt_cursor *cursor,
                            const struct rt_piece *piece, unsigned char *sum, struct rt_error *error)
{
    const bool ring = op->compression.way == RT_BY_RING;
    const uint32_t place = own_place(engine, piece->owner), lane = place ? RT_UP : RT_TO_OWNER;
    const uint32_t first = ring ? place + 1 : 2 * place + 1, children = ring ? 1 : 2;
    if (cursor->at == 0 && sum != cursor->values) memmove(sum, cursor->values, piece->count * sizeof(float));
    for (; cursor->at < children && first + cursor->at < engine->fabric.nranks; cursor->at++) {
        const uint32_t from = place_rank(engine, piece->owner, first + cursor->at);
        const unsigned char *codes;
        size_t length;
        ringtree_status status =
            rt_piece_expect(engine, op, lane, from, piece, &codes, &length, &cursor->blocked, error);
        if (status != RINGTREE_OK) return status;
        status = rt_codec_decode_add(&op->compression.codec, sum, piece->count, codes, length, error);
        if (status != RINGTREE_OK) return rt_bad_piece(engine, op, from, error);
        rt_piece_release(engine, lane, from);
    }
    return RINGTREE_OK;
}

/* ---- one piece */

static ringtree_status send_values(struct rt_engine *engine, struct rt_operation *op, struct rt_cursor *cursor,
                                   const struct rt_piece *piece, uint32_t leader, struct rt_error *error)
{
    return rt_piece_send(engine, op, leader == piece->owner ? RT_TO_OWNER : RT_UP, leader, piece,
                         rt_input_at(engine, op, piece), piece->count * sizeof(float), &cursor->blocked, error);
}

static ringtree_status send_codes(struct rt_engine *engine, struct rt_operation *op, struct rt_cursor *cursor,
                                  const struct rt_piece *piece, struct rt_error *error)
{
    struct rt_compressor *c = engine->compressor;
    const enum rt_compress_way way = op->compression.way;
    uint32_t to = piece->owner;
    unsigned char *codes;
    ringtree_status status = rt_values_fetch(engine, op, cursor, piece, c->sums[0], error);
    if (status == RINGTREE_OK && way != RT_BY_OWNER) {
        to = place_rank(engine, piece->owner, parent_of(way, own_place(engine, piece->owner)));
        status = rt_hops_add(engine, op, cursor, piece, (unsigned char *)c->sums[0], error);
        cursor->values = status == RINGTREE_OK ? (unsigned char *)c->sums[0] : cursor->values;
    }
    const uint32_t lane = to == piece->owner ? RT_TO_OWNER : RT_UP;
    if (status == RINGTREE_OK) status = rt_piece_room(engine, lane, to, &codes, &cursor->blocked, error);
    if (status != RINGTREE_OK) return status;
    const size_t length = rt_encode_own(engine, op, piece, cursor->values, codes);
    if (op->compression.report) op->compression.report->sent_bytes += length;
    return rt_piece_post(engine, op, lane, to, piece, codes, length, error);
}

/* The root of a broadcast: its part goes to the owner, and to the root's own node at once. */
static ringtree_status send_root(struct rt_engine *engine, struct rt_operation *op, struct rt_cursor *cursor,
                                 const struct rt_piece *piece, struct rt_error *error)
{
    struct rt_compressor *c = engine->compressor;
    ringtree_status status = RINGTREE_OK;
    if (cursor->stage == 0) {
        rt_values_fetch(engine, op, cursor, piece, NULL, error);
        cursor->length = rt_encode_own(engine, op, piece, cursor->values, c->codes[0]);
        if (op->compression.report) op->compression.report->sent_bytes += cursor->length;
        status = rt_piece_deliver(engine, op, piece, c->codes[0], cursor->length, engine->fabric.rank, error);
        cursor->stage = 1;
    }
    if (cursor->stage == 1 && status == RINGTREE_OK) {
        status = rt_piece_send(engine, op, RT_TO_OWNER, piece->owner, piece, c->codes[0], cursor->length,
                               &cursor->blocked, error);
        if (status == RINGTREE_OK) cursor->stage = 2;
    }
    if (status != RINGTREE_OK) return status;
    return rt_node_spread(engine, op, RT_RESULT, &cursor->at, piece, c->codes[0], cursor->length, &cursor->blocked,
                          error);
}

static ringtree_status piece_up(struct rt_engine *engine, struct rt_operation *op, const struct rt_piece *piece,
                                struct rt_error *error)
{
    struct rt_compressor *c = engine->compressor;
    const uint32_t self = engine->fabric.rank;
    if (op->call.frame.collective == RINGTREE_BROADCAST) return send_root(engine, op, &c->up, piece, error);
    if (piece->owner == self) return RINGTREE_OK;
    const uint32_t leader = rt_leader(c->squad, c->squad->node_of[self], piece->owner);
    if (leader == self || op->compression.way != RT_BY_OWNER) return send_codes(engine, op, &c->up, piece, error);
    return c->prepared ? RINGTREE_OK : send_values(engine, op, &c->up, piece, leader, error);
}

static bool up_begins(const struct rt_engine *engine, const struct rt_operation *op)
{
    if (op->call.frame.collective == RINGTREE_BROADCAST) return rt_compress_root(op) == engine->fabric.rank;
    return rt_has_up(op);
}

/*
 * Has it come too far before its own sums and all results? Everything at once would be sent as well, but then how the
 * connections share a link decides who has its sums last: 4 ranks at 1 Gbit/s took 220 to 255 ms instead of 216.
 */
static bool is_ahead(const struct rt_engine *engine)
{
    const struct rt_compressor *c = engine->compressor;
    if (c->up.round < c->ahead) return false;
    const uint64_t least = c->up.round - c->ahead;
    bool ahead = !c->own.done && c->own.round <= least;
    for (uint32_t owner = 0; c->missing && !ahead && owner < engine->fabric.nranks; owner++)
        ahead = owner != engine->fabric.rank && c->results[owner].got <= least &&
                c->results[owner].got < rt_pieces_of(c, owner);
    return ahead;
}

ringtree_status rt_up_advance(struct rt_engine *engine, struct rt_operation *op, bool *moved, struct rt_error *error)
{
    struct rt_compressor *c = engine->compressor;
    const uint32_t n = engine->fabric.nranks;
    const uint32_t shift = op->compression.way == RT_BY_OWNER ? c->squad->node_of[engine->fabric.rank] + 1 : 0;
    if (!up_begins(engine, op)) c->up.done = true;
    while (!c->up.done) {
        struct rt_piece piece;
        if (c->up.turn == 0 && is_ahead(engine)) return RINGTREE_IN_PROGRESS;
        if (rt_piece_of(c, c->squad->order[(c->up.turn + shift) % n], c->up.round, &piece)) {
            ringtree_status status = piece_up(engine, op, &piece, error);
            if (status != RINGTREE_OK) return status;
            *moved = true;
        }
        const uint64_t round = c->up.round;
        const uint32_t turn = c->up.turn + 1;
        c->up = (struct rt_cursor){ .round = turn < n ? round : round + 1, .turn = turn < n ? turn : 0 };
        c->up.done = c->up.round >= c->rounds;
    }
    return RINGTREE_OK;
}
