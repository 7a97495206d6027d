/* Results as they come from the owners: passed on inside the node, decoded into the output. */
#include "compress.h"
#include "engine.h"

ringtree_status rt_node_spread(struct rt_engine *engine, const struct rt_operation *op, uint32_t lane, uint32_t *at,
                               const struct rt_piece *piece, const void *bytes, size_t length,
                               struct rt_wire **blocked, struct rt_error *error)
{
    const struct rt_squad *s = engine->compressor->squad;
    const uint32_t self = engine->fabric.rank, node = s->node_of[self];
    for (; *at < s->size[node]; ++*at) {
        const uint32_t to = s->members[s->start[node] + *at];
        if (to == self) continue;
        ringtree_status status = rt_piece_send(engine, op, lane, to, piece, bytes, length, blocked, error);
        if (status != RINGTREE_OK) return status;
    }
    return RINGTREE_OK;
}

/* Is it the next piece of an owner whose results come this way? */
static ringtree_status check(struct rt_engine *engine, const struct rt_operation *op, uint32_t lane, uint32_t from,
                             const struct rt_piece_head *head, struct rt_piece *piece, struct rt_error *error)
{
    const struct rt_compressor *c = engine->compressor;
    uint32_t source = RT_NONE;
    const bool known = head->owner < engine->fabric.nranks && head->owner != engine->fabric.rank;
    if (known && rt_result_route(engine, op, head->owner, &source) == lane && source == from &&
        head->index == c->results[head->owner].got && rt_piece_of(c, head->owner, head->index, piece))
        return RINGTREE_OK;
    rt_fail(error, RINGTREE_MISMATCH, "piece %u of owner %u, which is not the next one", head->index, head->owner);
    return rt_bad_piece(engine, op, from, error);
}

/* The pieces of this owner go on to the other ranks of this node. */
static bool passes_on(const struct rt_engine *engine, const struct rt_operation *op, uint32_t owner)
{
    const struct rt_squad *s = engine->compressor->squad;
    const uint32_t self = engine->fabric.rank, root = rt_compress_root(op);
    if (s->node_of[owner] == s->node_of[self]) return false;
    if (root != RT_NONE && s->node_of[root] == s->node_of[self]) return false;
    return rt_leader(s, s->node_of[self], owner) == self;
}

static ringtree_status result_advance(struct rt_engine *engine, struct rt_operation *op, uint32_t owner, bool *moved,
                                      struct rt_error *error)
{
    struct rt_compressor *c = engine->compressor;
    uint32_t from;
    const uint32_t lane = rt_result_route(engine, op, owner, &from);
    struct rt_piece_head head = { owner, c->results[owner].got };
    const unsigned char *data = c->results[owner].held;
    size_t length = c->results[owner].length;
    struct rt_wire *blocked;
    struct rt_piece piece;
    ringtree_status status = RINGTREE_OK;
    if (!data) status = rt_piece_take(engine, op, lane, from, &head, &data, &length, &blocked, error);
    if (status == RINGTREE_OK) status = check(engine, op, lane, from, &head, &piece, error);
    if (status != RINGTREE_OK) return status;
    struct rt_result *result = &c->results[head.owner];
    if (!result->held) status = rt_piece_deliver(engine, op, &piece, data, length, from, error);
    if (status == RINGTREE_OK && passes_on(engine, op, head.owner)) {
        result->held = data;
        result->length = length;
        status = rt_node_spread(engine, op, RT_FORWARD, &result->at, &piece, data, length, &blocked, error);
    }
    if (status != RINGTREE_OK) return status;
    rt_piece_release(engine, lane, from);
    *result = (struct rt_result){ .got = result->got + 1 };
    c->missing--;
    *moved = true;
    return RINGTREE_OK;
}

ringtree_status rt_results_advance(struct rt_engine *engine, struct rt_operation *op, bool *moved,
                                   struct rt_error *error)
{
    struct rt_compressor *c = engine->compressor;
    for (uint32_t owner = 0; c->missing && owner < engine->fabric.nranks; owner++) {
        ringtree_status status = RINGTREE_OK;
        while (status == RINGTREE_OK && owner != engine->fabric.rank && c->results[owner].got < rt_pieces_of(c, owner))
            status = result_advance(engine, op, owner, moved, error);
        if (status > RINGTREE_IN_PROGRESS) return status;
    }
    return c->missing ? RINGTREE_IN_PROGRESS : RINGTREE_OK;
}
