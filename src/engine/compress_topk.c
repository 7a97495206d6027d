/*
 * topk before the first code leaves: complete this rank's contribution, select from all of it, and agree on ranges that
 * give every owner as much work (codec/sparse.h). Where several ranks of a node add up first, each leader has only the
 * ranges that it leads, so it selects within each of them and the ranges stay equal.
 */
#include "compress.h"
#include "engine.h"
#include "codec/sparse.h"
#include <stdlib.h>
#include <string.h>

#define MOST_WISHES 1024 /* ranks: their wishes are 8 MiB together */

static uint64_t contribution(const struct rt_engine *engine, const struct rt_operation *op)
{
    return op->call.count * (op->call.frame.collective == RINGTREE_REDUCE_SCATTER ? engine->fabric.nranks : 1);
}

static bool adds_node(const struct rt_engine *engine, const struct rt_operation *op)
{
    const struct rt_squad *s = engine->compressor->squad;
    bool together = false; /* alike on all ranks */
    for (uint32_t g = 0; g < s->nodes; g++) together |= s->size[g] > 1;
    return together && rt_has_up(op);
}

/* Is this rank's contribution a sum, which lies in memory of its own unless there is a residual? */
static bool sums_here(const struct rt_engine *engine, const struct rt_operation *op)
{
    const struct rt_squad *s = engine->compressor->squad;
    return s->size[s->node_of[engine->fabric.rank]] > 1 && rt_has_up(op);
}

bool rt_ranges_balanced(const struct rt_engine *engine, const struct rt_operation *op)
{
    const uint32_t n = engine->fabric.nranks;
    return op->compression.codec.kind == RT_CODEC_TOPK && op->call.frame.collective == RINGTREE_ALL_REDUCE &&
           op->compression.way == RT_BY_OWNER && n > 1 && n <= MOST_WISHES &&
           (n + 1) * sizeof(uint64_t) <= engine->slot_bytes - sizeof(struct rt_piece_head) && !adds_node(engine, op);
}

static bool grow(void *memory, size_t *has, size_t needs, size_t element)
{
    void **pointer = memory;
    if (needs <= *has) return true;
    void *more = malloc(needs * element);
    if (!more) return false;
    free(*pointer);
    *pointer = more;
    *has = needs;
    return true;
}

ringtree_status rt_topk_memory(struct rt_engine *engine, const struct rt_operation *op, struct rt_error *error)
{
    struct rt_compressor *c = engine->compressor;
    const uint32_t n = engine->fabric.nranks;
    const size_t count = contribution(engine, op);
    bool enough = grow(&c->scratch, &c->scratch_count,
                       rt_topk_scratch(count, rt_topk_kept(&op->compression.codec, count)), sizeof *c->scratch);
    if (sums_here(engine, op) && !op->compression.codec.feedback)
        enough = enough && grow(&c->tensor, &c->tensor_count, count, sizeof *c->tensor);
    if (op->compression.reselect)
        enough = enough && grow(&c->sum_scratch, &c->sum_scratch_count,
                                rt_topk_scratch(c->piece, rt_topk_kept(&op->compression.codec, c->piece)),
                                sizeof *c->sum_scratch);
    if (rt_ranges_balanced(engine, op) && !c->wishes)
        enough = enough && (c->wishes = malloc((size_t)(n + 1) * (n + 1) * sizeof *c->wishes));
    if (enough) return RINGTREE_OK;
    return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory to select from %zu elements", engine->fabric.rank,
                   count);
}

/* ---- the contribution */

static const unsigned char *base_of(struct rt_engine *engine, const struct rt_operation *op)
{
    if (op->compression.codec.feedback) return (const unsigned char *)op->compression.state->residual;
    return sums_here(engine, op) ? (const unsigned char *)engine->compressor->tensor : op->call.input;
}

static ringtree_status gather_piece(struct rt_engine *engine, struct rt_operation *op, const struct rt_piece *piece,
                                    struct rt_error *error)
{
    struct rt_compressor *c = engine->compressor;
    const uint32_t self = engine->fabric.rank;
    const uint32_t leader = rt_leader(c->squad, c->squad->node_of[self], piece->owner);
    if (leader != self)
        return rt_piece_send(engine, op, leader == piece->owner ? RT_TO_OWNER : RT_UP, leader, piece,
                             rt_input_at(engine, op, piece), piece->count * sizeof(float), &c->gather.blocked, error);
    float *sum = c->sums[0];
    if (!op->compression.codec.feedback && sums_here(engine, op)) sum = c->tensor + rt_own_place(engine, op, piece);
    return rt_values_fetch(engine, op, &c->gather, piece, sum, error);
}

static ringtree_status gather(struct rt_engine *engine, struct rt_operation *op, bool *moved, struct rt_error *error)
{
    struct rt_compressor *c = engine->compressor;
    const uint32_t n = engine->fabric.nranks, shift = c->squad->node_of[engine->fabric.rank] + 1;
    while (!c->gather.done) {
        struct rt_piece piece;
        if (rt_piece_of(c, c->squad->order[(c->gather.turn + shift) % n], c->gather.round, &piece)) {
            ringtree_status status = gather_piece(engine, op, &piece, error);
            if (status != RINGTREE_OK) return status;
            *moved = true;
        }
        const uint32_t turn = c->gather.turn + 1;
        const uint64_t round = c->gather.round + (turn == n);
        c->gather = (struct rt_cursor){ .round = round, .turn = turn % n, .done = round >= c->rounds };
    }
    return RINGTREE_OK;
}

/* ---- the selection */

/* Is this rank's contribution in one piece, and complete with what this rank has? */
static bool selects_whole(const struct rt_engine *engine, const struct rt_operation *op)
{
    return op->call.frame.collective != RINGTREE_REDUCE_SCATTER && !adds_node(engine, op);
}

/* From all of it at once, completing it in the same pass. */
static void select_whole(struct rt_engine *engine, const struct rt_operation *op)
{
    struct rt_compressor *c = engine->compressor;
    const struct rt_compression *compression = &op->compression;
    const uint32_t self = engine->fabric.rank;
    const struct rt_piece all = { self, 0, op->call.frame.collective == RINGTREE_ALL_GATHER ? c->begin[self] : 0,
                                  op->call.count };
    struct rt_topk_source source = { .values = op->call.input, .factor = compression->momentum };
    if (compression->codec.feedback) {
        source.residual = compression->state->residual;
        source.momentum = compression->state->momentum;
    }
    const struct rt_cut cut = rt_topk_find(&source, rt_part_of(engine, op, &all, false).first, all.count,
                                           rt_topk_kept(&compression->codec, all.count), c->scratch, &c->found);
    for (uint32_t owner = 0; owner < engine->fabric.nranks; owner++) c->cuts[owner] = cut;
}

static struct rt_cut cut_of(struct rt_engine *engine, const struct rt_operation *op, const struct rt_piece *range)
{
    const struct rt_part part = rt_part_of(engine, op, range, false);
    return rt_topk_select(engine->compressor->prepared + rt_own_place(engine, op, range) * sizeof(float), part.first,
                          range->count, rt_topk_kept(&op->compression.codec, range->count),
                          engine->compressor->scratch);
}

/* From each range that this rank leads. */
static void select_ranges(struct rt_engine *engine, const struct rt_operation *op)
{
    struct rt_compressor *c = engine->compressor;
    const uint32_t self = engine->fabric.rank;
    for (uint32_t owner = 0; owner < engine->fabric.nranks; owner++) {
        const struct rt_piece range = { owner, 0, c->begin[owner], (size_t)(c->end[owner] - c->begin[owner]) };
        if (range.count && rt_leader(c->squad, c->squad->node_of[self], owner) == self)
            c->cuts[owner] = cut_of(engine, op, &range);
    }
}

/* OK: all is selected that this rank gives. */
static ringtree_status select_all(struct rt_engine *engine, struct rt_operation *op, bool *moved,
                                  struct rt_error *error)
{
    const bool whole = selects_whole(engine, op), root = rt_compress_root(op) == engine->fabric.rank;
    ringtree_status status = whole ? RINGTREE_OK : gather(engine, op, moved, error);
    if (status != RINGTREE_OK) return status;
    if (whole && (root || rt_compress_root(op) == RT_NONE)) select_whole(engine, op);
    engine->compressor->prepared = base_of(engine, op);
    if (!whole) select_ranges(engine, op);
    return RINGTREE_OK;
}

/* ---- the ranges */

static ringtree_status send_wishes(struct rt_engine *engine, struct rt_operation *op, bool *moved,
                                   struct rt_error *error)
{
    struct rt_compressor *c = engine->compressor;
    const uint32_t n = engine->fabric.nranks, self = engine->fabric.rank;
    const struct rt_piece all = { self, 0, 0, op->call.count };
    for (; c->wish_at < n; c->wish_at++) {
        if (c->wish_at == self) continue;
        ringtree_status status =
            rt_piece_send(engine, op, RT_TO_OWNER, c->wish_at, &all, c->wishes + (size_t)self * (n + 1),
                          (n + 1) * sizeof *c->wishes, &c->gather.blocked, error);
        if (status != RINGTREE_OK) return status;
        *moved = true;
    }
    return RINGTREE_OK;
}

static ringtree_status take_wishes(struct rt_engine *engine, struct rt_operation *op, bool *moved,
                                   struct rt_error *error)
{
    struct rt_compressor *c = engine->compressor;
    const uint32_t n = engine->fabric.nranks;
    for (; c->wish_at < n; c->wish_at++) {
        const struct rt_piece all = { c->wish_at, 0, 0, op->call.count };
        const unsigned char *wish;
        size_t length;
        if (c->wish_at == engine->fabric.rank) continue;
        ringtree_status status = rt_piece_expect(engine, op, RT_TO_OWNER, c->wish_at, &all, &wish, &length,
                                                 &c->gather.blocked, error);
        if (status != RINGTREE_OK) return status;
        if (length != (n + 1) * sizeof *c->wishes) {
            rt_fail(error, RINGTREE_MISMATCH, "topk: ranges in %zu bytes", length);
            return rt_bad_piece(engine, op, c->wish_at, error);
        }
        memcpy(c->wishes + (size_t)c->wish_at * (n + 1), wish, length);
        rt_piece_release(engine, RT_TO_OWNER, c->wish_at);
        *moved = true;
    }
    return RINGTREE_OK;
}

static ringtree_status balance(struct rt_engine *engine, struct rt_operation *op, struct rt_error *error)
{
    struct rt_compressor *c = engine->compressor;
    const uint32_t n = engine->fabric.nranks;
    uint64_t *bounds = c->wishes + (size_t)n * (n + 1);
    ringtree_status status = rt_sparse_bounds(c->wishes, op->call.count, n, bounds, error);
    for (uint32_t i = 0; i < n && status == RINGTREE_OK; i++) {
        const uint32_t owner = c->squad->members[i];
        c->begin[owner] = bounds[i];
        c->end[owner] = i + 1 < n ? bounds[i + 1] : op->call.count;
    }
    rt_rounds_count(engine, op);
    return status;
}

enum wishing { SELECT, SEND, TAKE, DONE };

ringtree_status rt_topk_advance(struct rt_engine *engine, struct rt_operation *op, bool *moved, struct rt_error *error)
{
    struct rt_compressor *c = engine->compressor;
    const uint32_t n = engine->fabric.nranks;
    ringtree_status status = RINGTREE_OK;
    if (c->wish_stage == SELECT) {
        const bool balanced = rt_ranges_balanced(engine, op);
        status = select_all(engine, op, moved, error);
        if (status != RINGTREE_OK) return status;
        if (balanced)
            rt_sparse_wish(c->prepared, op->call.count, &c->cuts[0], c->found.whole ? &c->found : NULL, n,
                           c->wishes + (size_t)engine->fabric.rank * (n + 1));
        c->wish_stage = balanced ? SEND : DONE;
        c->wish_at = 0;
    }
    if (status == RINGTREE_OK && c->wish_stage == SEND) {
        status = send_wishes(engine, op, moved, error);
        if (status == RINGTREE_OK) c->wish_stage = TAKE;
        if (status == RINGTREE_OK) c->wish_at = 0;
    }
    if (status == RINGTREE_OK && c->wish_stage == TAKE) {
        status = take_wishes(engine, op, moved, error);
        if (status == RINGTREE_OK) status = balance(engine, op, error);
        if (status == RINGTREE_OK) c->wish_stage = DONE;
    }
    return status;
}
