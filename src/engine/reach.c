/*
 * Arrays that can be reached where they are: memory of ringtree_mem_alloc(), or ranks that are threads of one process.
 * Every rank tells where its arrays lie; all decide alike from what all (or the root) told, then read and write them in
 * place, and nobody leaves before the others are done with its arrays.
 *
 * A rank whose own arrays could be reached takes it that the others' can be, and does not copy its first block in; if
 * that was wrong, the blocks begin one turn later.
 */
#include "exchange.h"
#include "reduce/reduce.h"

#define STEP (16 << 10)

struct whereabouts {
    uint64_t input, output;               /* addresses, for ranks of the same process */
    uint64_t input_offset, output_offset; /* in the shared file */
    uint8_t  input_shared, output_shared, allowed, skipped, remote;
};
_Static_assert(sizeof(struct whereabouts) <= RT_PAYLOAD, "it travels in a line");

/* What must be reachable of rank i. */
static bool needs_input(const struct rt_direct *direct, const struct rt_call *call, uint32_t i)
{
    return rt_root_gives(call) ? i == direct->root : call->frame.collective != RINGTREE_GATHER;
}

static bool needs_output(const struct rt_direct *direct, const struct rt_call *call, uint32_t i)
{
    return call->frame.collective == RINGTREE_ALL_REDUCE || (rt_root_takes(call) && i == direct->root);
}

/* Only the root's arrays matter, so only its line is waited for. */
static bool root_decides(const struct rt_call *call)
{
    return rt_root_gives(call) || call->frame.collective == RINGTREE_GATHER;
}

static size_t block_bytes(const struct rt_call *call)
{
    return call->count * call->element;
}

static bool is_enough(const struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call,
                      uint32_t i, const struct whereabouts *at)
{
    if (!at->allowed || x->one_process) return at->allowed;
    return (at->input_shared || !needs_input(direct, call, i)) && (at->output_shared || !needs_output(direct, call, i));
}

/*
 * Blocks between private arrays in one copy by the kernel instead of two through cells, where that is faster on a
 * 2-core Xeon (perf/baseline/tried-shm.md). Ranks that share cores meet the root first, which costs them hand-overs.
 */
#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static bool is_remote(const struct rt_exchange *x, const struct rt_call *call)
{
    const size_t block = block_bytes(call);
    if (!x->reads) return false;
    switch (call->frame.collective) {
    case RINGTREE_ALL_GATHER:
    case RINGTREE_ALL_TO_ALL: return block >= 256 * KIB && block <= 8 * MIB;
    case RINGTREE_GATHER: return block >= (x->crowded ? 2 * MIB : 4 * KIB) && block <= 4 * MIB;
    default: return false;
    }
}

static struct whereabouts whereabouts(struct rt_exchange *x, const struct rt_direct *direct,
                                      const struct rt_call *call)
{
    const uint32_t self = x->self;
    struct whereabouts at = { .input = (uintptr_t)call->input, .output = (uintptr_t)call->output };
    if (needs_input(direct, call, self))
        at.input_shared = rt_node_offset(x->node, call->input, block_bytes(call) * rt_input_blocks(x, direct, call),
                                         &at.input_offset);
    if (needs_output(direct, call, self))
        at.output_shared = rt_node_offset(x->node, call->output,
                                          block_bytes(call) * rt_output_blocks(x, direct, call), &at.output_offset);
    at.allowed = !rt_is_prepared(call) && !(call->in_place && call->frame.collective == RINGTREE_ALL_TO_ALL);
    at.remote = at.allowed && is_remote(x, call);
    at.skipped = is_enough(x, direct, call, self, &at) || at.remote || call->frame.collective == RINGTREE_GATHER;
    return at;
}

/* Rank i's blocks as it counts them itself. */
static bool map(struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call, uint32_t i,
                const struct whereabouts *at)
{
    struct rt_direct theirs = *direct;
    const bool by_address = x->one_process || direct->remote || i == x->self, is_root = i == direct->root;
    theirs.root = is_root ? x->self : RT_NONE; /* counts of the root's arrays, seen from here */
    x->inputs[i] = x->outputs[i] = NULL;
    if (needs_input(direct, call, i))
        x->inputs[i] = by_address ? (unsigned char *)(uintptr_t)at->input
                                  : rt_node_map(x->node, at->input_offset,
                                                block_bytes(call) * rt_input_blocks(x, &theirs, call));
    if (needs_output(direct, call, i))
        x->outputs[i] = by_address ? (unsigned char *)(uintptr_t)at->output
                                   : rt_node_map(x->node, at->output_offset,
                                                 block_bytes(call) * rt_output_blocks(x, &theirs, call));
    return (x->inputs[i] || !needs_input(direct, call, i)) && (x->outputs[i] || !needs_output(direct, call, i));
}

/* OK: all are mapped. UNSUPPORTED: the same answer on all ranks, since all read the same lines; *skipped: the first
 * block is not in everybody's cell. NO_MEMORY: they are to be reached, but this rank cannot map them. */
static ringtree_status decide(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call,
                              bool *skipped)
{
    const uint32_t from = root_decides(call) ? direct->root : 0, to = root_decides(call) ? direct->root + 1 : x->n;
    bool all = true, remote = true;
    struct whereabouts at;
    *skipped = false;
    for (uint32_t i = from; i < to; i++) {
        memcpy(&at, rt_line(x, i, direct->turn)->payload, sizeof at);
        all &= is_enough(x, direct, call, i, &at);
        remote &= at.remote != 0;
        *skipped |= at.skipped != 0;
    }
    if (!all && !remote) return RINGTREE_UNSUPPORTED;
    direct->remote = !all;
    for (uint32_t i = from; i < to; i++) {
        memcpy(&at, rt_line(x, i, direct->turn)->payload, sizeof at);
        if (!map(x, direct, call, i, &at)) return RINGTREE_NO_MEMORY;
    }
    return RINGTREE_OK;
}

ringtree_status rt_reach_begin(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call,
                               bool *moved)
{
    bool skipped = false;
    if (direct->phase == 0) {
        ringtree_status status = rt_gate(x, direct, direct->turn, RT_CELLS);
        if (status != RINGTREE_OK) return status;
        const struct whereabouts at = whereabouts(x, direct, call);
        if (!at.skipped && rt_goes_two_shot(x, call)) rt_two_shot_write(x, call, 0, direct->turn);
        else if (!at.skipped) rt_cells_write(x, direct, call, 0, direct->turn);
        rt_publish(x, direct, call, direct->turn, &at, sizeof at);
        direct->phase = 1;
        *moved = true;
    }
    ringtree_status status =
        root_decides(call) ? rt_await_root(x, direct, direct->turn) : rt_await(x, direct, direct->turn);
    if (status == RINGTREE_OK) status = decide(x, direct, call, &skipped);
    if (status != RINGTREE_OK && status != RINGTREE_UNSUPPORTED) return status;
    direct->way = status == RINGTREE_OK ? RT_WAY_REACH
                  : rt_goes_two_shot(x, call) ? RT_WAY_TWO_SHOT : RT_WAY_CELLS;
    direct->phase = 0;
    direct->begun = true;
    if (status != RINGTREE_OK && skipped) {
        direct->turn++;
        direct->begun = false;
    }
    return RINGTREE_OK;
}

/* ---- the work */

/* This rank's part of the sum, to the output of all (or of the root). In steps that stay in the first cache between the
 * sum and its copies. */
static void reduce_part(struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call)
{
    const size_t line = 64 / call->element;
    const size_t part = (call->count / x->n + line) / line * line, step = STEP / call->element;
    const uint32_t first = direct->root == RT_NONE ? x->self : direct->root;
    unsigned char passing[STEP] __attribute__((aligned(64)));
    size_t at = part * x->self;
    const size_t end = at + part < call->count ? at + part : call->count;
    for (; at < end; at += step) {
        const size_t elements = end - at < step ? end - at : step, byte = at * call->element;
        unsigned char *sum = direct->streams ? passing : x->outputs[first] + byte;
        for (uint32_t i = 0; i < x->n; i++) x->sources[i] = x->inputs[i] + byte;
        rt_add_up(x, call, sum, elements);
        for (uint32_t i = 0; i < x->n; i++)
            if (x->outputs[i]) rt_put(direct, x->outputs[i] + byte, sum, elements * call->element);
    }
}

/* The block of rank i for this one, straight into its output. */
static bool fetch(struct rt_exchange *x, const struct rt_call *call, uint32_t i, size_t skip)
{
    const size_t block = block_bytes(call);
    x->unread = i;
    return rt_node_fetch(x->node, i, (unsigned char *)call->output + i * block, (uintptr_t)x->inputs[i] + skip, block);
}

/* Not all from the same rank at once. */
static bool fetch_blocks(struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call)
{
    const size_t block = block_bytes(call), skip = rt_has_pieces(call) ? x->self * block : 0;
    unsigned char *own = (unsigned char *)call->output + x->self * block;
    rt_put(direct, own, (const unsigned char *)call->input + skip, block);
    for (uint32_t k = 1; k < x->n; k++)
        if (!fetch(x, call, (x->self + k) % x->n, skip)) return false;
    return true;
}

/* This rank's block straight into the root's output. */
static bool give_block(struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call)
{
    const size_t block = block_bytes(call);
    unsigned char *target = x->outputs[direct->root] + x->self * block;
    x->unread = direct->root;
    if (direct->root != x->self) return rt_node_give(x->node, direct->root, (uintptr_t)target, call->input, block);
    rt_put(direct, target, call->input, block);
    return true;
}

static bool work_remote(struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call)
{
    return call->frame.collective == RINGTREE_GATHER ? give_block(x, direct, call) : fetch_blocks(x, direct, call);
}

static void work(struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call)
{
    const uint8_t c = call->frame.collective;
    const size_t block = block_bytes(call);
    if (c == RINGTREE_ALL_REDUCE || c == RINGTREE_REDUCE) {
        reduce_part(x, direct, call);
        return;
    }
    if (c == RINGTREE_GATHER) {
        unsigned char *target = x->outputs[direct->root] + x->self * block;
        rt_put(direct, target, call->input, block);
        return;
    }
    for (uint32_t i = 0; i < x->n; i++)
        x->sources[i] = rt_gives(direct, call, i) ? x->inputs[i] + (rt_has_pieces(call) ? x->self * block : 0) : NULL;
    rt_combine(x, direct, call, 0, call->count);
}

/* Phases: 0 work, 1 wait until the others have done theirs in this rank's arrays. */
ringtree_status rt_reach_advance(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call,
                                 bool *moved)
{
    if (direct->phase == 0) {
        if (direct->remote && !work_remote(x, direct, call)) return RINGTREE_PEER_LOST;
        if (!direct->remote) work(x, direct, call);
        rt_done_publish(x, direct->turn);
        direct->phase = 1;
        *moved = true;
    }
    if (root_decides(call) && direct->root != x->self) return RINGTREE_OK; /* nobody reaches into its arrays */
    return rt_done_await(x, direct, direct->turn) ? RINGTREE_OK : RINGTREE_IN_PROGRESS;
}
