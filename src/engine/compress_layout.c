/* Who leads whom, who owns what, and which ranks exchange what: see compress.h. */
#include "compress.h"
#include "engine.h"
#include <stdlib.h>

static void squad_sort(struct rt_squad *s, uint32_t nranks)
{
    uint32_t at = 0, largest = 0;
    for (uint32_t g = 0; g < s->nodes; g++) {
        s->start[g] = at;
        at += s->size[g];
        if (s->size[g] > largest) largest = s->size[g];
        s->size[g] = 0;
    }
    for (uint32_t r = 0; r < nranks; r++) {
        const uint32_t node = s->node_of[r];
        s->local_of[r] = s->size[node]++;
        s->members[s->start[node] + s->local_of[r]] = r;
    }
    at = 0;
    for (uint32_t local = 0; local < largest; local++)
        for (uint32_t g = 0; g < s->nodes; g++)
            if (local < s->size[g]) s->order[at++] = s->members[s->start[g] + local];
}

static bool squad_make(struct rt_squad *s, const struct rt_engine *engine, bool apart)
{
    const uint32_t n = engine->fabric.nranks;
    s->memory = calloc((size_t)6 * n, sizeof *s->memory);
    if (!s->memory) return false;
    s->node_of = s->memory;
    s->local_of = s->node_of + n;
    s->size = s->local_of + n;
    s->start = s->size + n;
    s->members = s->start + n;
    s->order = s->members + n;
    s->nodes = apart ? n : engine->layout.nnodes;
    for (uint32_t r = 0; r < n; r++) {
        s->node_of[r] = apart ? r : engine->node_of[r];
        s->size[s->node_of[r]]++;
    }
    squad_sort(s, n);
    return true;
}

bool rt_squads_make(const struct rt_engine *engine, struct rt_compressor *c)
{
    return squad_make(&c->squads[0], engine, false) && squad_make(&c->squads[1], engine, true);
}

uint32_t rt_leader(const struct rt_squad *s, uint32_t node, uint32_t owner)
{
    if (s->node_of[owner] == node) return owner;
    return s->members[s->start[node] + s->local_of[owner] % s->size[node]];
}

/* ---- ranges */

static uint64_t at_most(uint64_t value, uint64_t most)
{
    return value < most ? value : most;
}

/* Equal parts for nodes, except `without`, and for ranks within; in whole units of the codec. */
static void cut_by_node(struct rt_compressor *c, uint64_t count, size_t align, uint32_t without)
{
    const struct rt_squad *s = c->squad;
    const uint64_t units = (count + align - 1) / align, nodes = s->nodes - (without != RT_NONE);
    uint32_t turn = 0;
    for (uint32_t g = 0; g < s->nodes; g++) {
        if (g == without) continue;
        const uint64_t from = units * turn / nodes, all = units * (turn + 1) / nodes - from;
        turn++;
        for (uint32_t i = 0; i < s->size[g]; i++) {
            const uint32_t owner = s->members[s->start[g] + i];
            c->begin[owner] = at_most((from + all * i / s->size[g]) * align, count);
            c->end[owner] = at_most((from + all * (i + 1) / s->size[g]) * align, count);
        }
    }
}

void rt_ranges_make(struct rt_engine *engine, const struct rt_operation *op)
{
    struct rt_compressor *c = engine->compressor;
    const uint32_t root = rt_compress_root(op);
    const uint64_t count = op->call.count;
    for (uint32_t r = 0; r < engine->fabric.nranks; r++) {
        c->begin[r] = c->end[r] = 0;
        if (op->call.frame.collective != RINGTREE_REDUCE_SCATTER && op->call.frame.collective != RINGTREE_ALL_GATHER)
            continue;
        c->begin[r] = r * count;
        c->end[r] = (r + 1) * count;
    }
    const size_t align = rt_codec_align(&op->compression.codec);
    if (op->call.frame.collective == RINGTREE_ALL_REDUCE) cut_by_node(c, count, align, RT_NONE);
    else if (op->call.frame.collective == RINGTREE_BROADCAST && c->squad->nodes > 1)
        cut_by_node(c, count, align, c->squad->node_of[root]);
}

uint32_t rt_pieces_of(const struct rt_compressor *c, uint32_t owner)
{
    return (uint32_t)((c->end[owner] - c->begin[owner] + c->piece - 1) / c->piece);
}

bool rt_piece_of(const struct rt_compressor *c, uint32_t owner, uint64_t index, struct rt_piece *piece)
{
    const uint64_t first = c->begin[owner] + index * c->piece;
    if (first >= c->end[owner]) return false;
    *piece = (struct rt_piece){ owner, (uint32_t)index, first, (size_t)at_most(c->end[owner] - first, c->piece) };
    return true;
}

void rt_rounds_count(struct rt_engine *engine, const struct rt_operation *op)
{
    struct rt_compressor *c = engine->compressor;
    c->rounds = c->missing = 0;
    for (uint32_t r = 0; r < engine->fabric.nranks; r++) {
        const uint32_t pieces = rt_pieces_of(c, r);
        if (pieces > c->rounds) c->rounds = pieces;
        if (r != engine->fabric.rank && rt_has_results(op)) c->missing += pieces;
    }
    if (rt_compress_root(op) == engine->fabric.rank) c->missing = 0; /* the root of a broadcast has it all */
}

/* ---- who exchanges what */

static bool up_serves(const struct rt_squad *s, ringtree_collective collective, uint32_t root, uint32_t lane,
                      uint32_t from, uint32_t to)
{
    const bool together = s->node_of[from] == s->node_of[to];
    if (collective == RINGTREE_BROADCAST) return lane == RT_TO_OWNER && from == root && !together;
    if (collective == RINGTREE_ALL_GATHER) return false;
    return together || (lane == RT_TO_OWNER && rt_leader(s, s->node_of[from], to) == from);
}

bool rt_lane_serves(const struct rt_squad *s, const struct rt_compression *compression, ringtree_collective collective,
                    uint32_t root, uint32_t lane, uint32_t from, uint32_t to)
{
    if (from == to) return false;
    if (lane <= RT_UP)
        return compression->way != RT_BY_OWNER || up_serves(s, collective, root, lane, from, to);
    if (collective == RINGTREE_REDUCE_SCATTER) return false;
    if (s->node_of[from] == s->node_of[to]) return true;
    return lane == RT_RESULT && rt_leader(s, s->node_of[to], from) == to;
}

uint32_t rt_result_route(const struct rt_engine *engine, const struct rt_operation *op, uint32_t owner, uint32_t *from)
{
    const struct rt_squad *s = engine->compressor->squad;
    const uint32_t self = engine->fabric.rank, root = rt_compress_root(op), node = s->node_of[self];
    *from = root;
    if (root != RT_NONE && s->node_of[root] == node) return RT_RESULT;
    *from = rt_leader(s, node, owner);
    if (*from != owner && *from != self) return RT_FORWARD;
    *from = owner;
    return RT_RESULT;
}
