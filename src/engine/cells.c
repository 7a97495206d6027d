/*
 * Larger arrays whose memory cannot be reached: block after block through cells. Givers copy their block in, takers
 * read everybody's straight from the cells; a rank's own part never leaves its array.
 */
#include "exchange.h"
#include "reduce/reduce.h"

static uint32_t pieces_of(const struct rt_exchange *x, const struct rt_call *call)
{
    return rt_has_pieces(call) ? x->n : 1;
}

#define BLOCK        ((size_t)128 << 10) /* half a cell: ranks that do the same at the same time meet sooner */
#define ROOTED_BLOCK ((size_t)128 << 10)
#define LEAST_ROOTED ((size_t)16 << 10)

/* Where only a root gives or takes, the other side copies while it does: many blocks must be under way. Ranks that
 * share a core copy after it at best, and every block may be a hand-over. */
static size_t block_bytes(const struct rt_exchange *x, const struct rt_call *call, size_t pieces)
{
    if (!rt_root_gives(call) && !rt_root_takes(call)) return BLOCK;
    const bool halved = !x->crowded || rt_is_reducing(call);
    const size_t part = call->count * call->element * pieces / (halved ? 2 : 1);
    return part < LEAST_ROOTED ? LEAST_ROOTED : part < ROOTED_BLOCK ? part : ROOTED_BLOCK;
}

size_t rt_cells_most(const struct rt_exchange *x, const struct rt_call *call)
{
    const size_t line = 64 / call->element, pieces = pieces_of(x, call), wanted = block_bytes(x, call, pieces);
    const size_t bytes = (wanted < x->cell ? wanted : x->cell) / pieces;
    return bytes < 64 ? line : bytes / call->element / line * line;
}

struct block {
    size_t at, elements; /* of each piece */
};

static struct block block_of(const struct rt_direct *direct, const struct rt_call *call, size_t b)
{
    const size_t at = b * direct->most;
    return (struct block){ at, call->count - at < direct->most ? call->count - at : direct->most };
}

void rt_cells_write(struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call, size_t b,
                    uint64_t turn)
{
    const struct block block = block_of(direct, call, b);
    const size_t bytes = block.elements * call->element;
    const uint32_t pieces = pieces_of(x, call);
    if (!rt_gives(direct, call, x->self)) return;
    for (uint32_t i = 0; i < pieces; i++) {
        if (pieces > 1 && i == x->self && !rt_is_prepared(call)) continue;
        rt_prepare(x, call, rt_in_cell(x, x->self, turn) + i * bytes,
                   (const unsigned char *)call->input + (i * call->count + block.at) * call->element, block.elements);
    }
}

static const unsigned char *own_source(const struct rt_exchange *x, const struct rt_call *call, size_t at)
{
    const size_t piece = rt_has_pieces(call) ? x->self * call->count : 0;
    return (const unsigned char *)call->input + (piece + at) * call->element;
}

/* What a rank gives to itself needs no meeting: it is copied while the others come. */
static void keep_own(const struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call, size_t b)
{
    const struct block block = block_of(direct, call, b);
    const size_t place = (rt_root_gives(call) ? 0 : x->self * call->count) + block.at;
    if (rt_is_reducing(call) || !rt_gives(direct, call, x->self) || !rt_takes(direct, call, x->self)) return;
    rt_put(direct, (unsigned char *)call->output + place * call->element, own_source(x, call, block.at),
           block.elements * call->element);
}

static void read_block(struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call, size_t b,
                       uint64_t turn)
{
    const struct block block = block_of(direct, call, b);
    const size_t skip = rt_has_pieces(call) ? x->self * block.elements * call->element : 0;
    for (uint32_t i = 0; i < x->n; i++) x->sources[i] = rt_in_cell(x, i, turn) + skip;
    if (!rt_is_reducing(call)) x->sources[x->self] = NULL;
    else if (!rt_is_prepared(call)) x->sources[x->self] = own_source(x, call, block.at);
    rt_only_givers(x, direct, call);
    rt_combine(x, direct, call, block.at, block.elements);
}

ringtree_status rt_cells_advance(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call,
                                 bool *moved)
{
    for (;; direct->block++) {
        const uint64_t turn = direct->turn + direct->block;
        if (direct->phase == 0 && !(direct->begun && direct->block == 0)) {
            ringtree_status status = rt_gate(x, direct, turn, RT_CELLS);
            if (status != RINGTREE_OK) return status;
            rt_cells_write(x, direct, call, direct->block, turn);
            rt_publish(x, direct, call, turn, NULL, 0);
            *moved = true;
        }
        if (direct->phase == 0) keep_own(x, direct, call, direct->block);
        direct->phase = 1;
        if (rt_takes(direct, call, x->self)) {
            ringtree_status status =
                rt_root_gives(call) ? rt_await_root(x, direct, turn) : rt_await(x, direct, turn);
            if (status != RINGTREE_OK) return status;
            read_block(x, direct, call, direct->block, turn);
            *moved = true;
        }
        direct->phase = 0;
        const struct block block = block_of(direct, call, direct->block);
        if (block.at + block.elements == call->count) return RINGTREE_OK;
    }
}
