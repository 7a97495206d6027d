/*
 * Direct exchange in shared memory. Each rank owns an area that all read and only it writes:
 *
 *   line[2]    one cache line each: a tag (turn and the call's fingerprint) and 56 bytes: a tiny array, or where this
 *              rank's buffers lie. Payload and tag travel in one line with one writer.
 *   frame[2]   the call in full, read only when fingerprints differ, to name it
 *   done       the last turn whose result cell is ready, or whose direct writes are finished
 *   in[2]      cells of input;  out[2]  cells of results
 *
 * A turn is one block of one operation; turns are numbered through the communicator's life, alike on all ranks, and
 * alternate between the two lines and cells. Why two are enough: a rank publishes turn t only after it has finished
 * reading turn t-2 of everybody, and nobody writes turn t+2 before it saw everybody's turn t+1.
 *   - one-shot and block exchanges: a rank publishes t+1 after it finished reading t, and waits for all t+1 before t+2.
 *   - two-shot all-reduce looks one block ahead: it publishes t+1 before it reduces t, but only after it saw all t; it
 *     publishes t+2 after it saw every done >= t, and a peer's done >= t means that it has read all in-cells of t. The
 *     out-cell of t is written again at t+2, after all t+2 lines were seen, which peers publish after copying t.
 */
#include "engine.h"
#include "reduce/reduce.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TINY       56
#define HEADER     4096
#define MOST_CELL  (256 << 10)
#define MOST_LOCAL 256
#define TAG_BITS   24
/* One-shot reads n times the array where two-shot reads twice; measured on 2 cores to break even near here. */
#define ONE_SHOT   (32 << 10)

struct whereabouts { /* of a rank's buffers; fits a line */
    uint64_t input, output;               /* addresses, for ranks of the same process */
    uint64_t input_offset, output_offset; /* in the shared file */
    uint32_t in_heap, direct_allowed;
};

struct line {
    _Atomic uint64_t tag;
    unsigned char    payload[TINY];
};

struct area {
    struct line line[2];
    unsigned char pad1[128];
    struct {
        struct rt_frame frame;
        unsigned char   pad[32];
    } call[2];
    unsigned char    pad2[128];
    _Atomic uint64_t done, left; /* left: the last turn that this rank gave up */
};

struct rt_exchange {
    struct rt_node *node;
    uint32_t        n, self;
    size_t          cell;
    uint64_t        turn; /* the next one */
    bool            one_process;
    struct area   **area;
    const void    **sources; /* n, for rt_reduce_many() */
    unsigned char **inputs, **outputs;
};

static unsigned char *in_cell(const struct rt_exchange *x, uint32_t i, uint64_t turn)
{
    return (unsigned char *)x->area[i] + HEADER + (turn & 1) * x->cell;
}

static unsigned char *out_cell(const struct rt_exchange *x, uint32_t i, uint64_t turn)
{
    return (unsigned char *)x->area[i] + HEADER + (2 + (turn & 1)) * x->cell;
}

struct rt_exchange *rt_exchange_open(struct rt_node *node)
{
    const uint32_t n = rt_node_size(node);
    struct rt_exchange *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    *x = (struct rt_exchange){ .node = node, .n = n, .self = rt_node_index(node), .one_process = true, .turn = 1 };
    x->area = calloc(n, sizeof *x->area);
    x->sources = calloc(n, sizeof *x->sources);
    x->inputs = calloc(n, sizeof *x->inputs);
    x->outputs = calloc(n, sizeof *x->outputs);
    if (!x->area || !x->sources || !x->inputs || !x->outputs) {
        rt_exchange_close(x);
        return NULL;
    }
    size_t bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        x->area[i] = rt_node_area(node, i, &bytes);
        x->one_process &= i == x->self || rt_node_reads(node, i) == 2;
    }
    x->cell = (bytes - HEADER) / 4 / 4096 * 4096;
    if (x->cell > MOST_CELL) x->cell = MOST_CELL;
    return x;
}

void rt_exchange_close(struct rt_exchange *x)
{
    free(x->area);
    free(x->sources);
    free(x->inputs);
    free(x->outputs);
    free(x);
}

bool rt_direct_serves(ringtree_collective collective)
{
    return collective == RINGTREE_ALL_REDUCE || collective == RINGTREE_BARRIER || collective == RINGTREE_ALL_GATHER ||
           collective == RINGTREE_REDUCE_SCATTER || collective == RINGTREE_ALL_TO_ALL;
}

#define LEAVE_NS UINT64_C(2000000000)

static bool is_inside(const struct area *area, uint64_t turn)
{
    return atomic_load(&area->line[turn & 1].tag) >> TAG_BITS == turn && atomic_load(&area->done) < turn &&
           atomic_load(&area->left) < turn;
}

void rt_direct_leave(struct rt_exchange *x, const struct rt_direct *direct)
{
    if (direct->turn == 0) return;
    struct area *mine = x->area[x->self];
    const uint64_t turn = direct->turn + direct->block, end = rt_now_ns(&rt_system_clock) + LEAVE_NS;
    const struct timespec moment = { .tv_nsec = 100000 };
    atomic_store(&mine->line[turn & 1].tag, 0); /* who has not seen it will not come */
    atomic_store(&mine->left, turn);
    for (uint32_t i = 0; i < x->n; i++)
        while (i != x->self && is_inside(x->area[i], turn) && rt_now_ns(&rt_system_clock) < end)
            nanosleep(&moment, NULL);
}

uint32_t rt_direct_awaits(const struct rt_exchange *x, const struct rt_direct *direct)
{
    return rt_node_rank(x->node, direct->peer < x->n ? direct->peer : x->self);
}

/* ---- turns */

static uint64_t call_tag(const struct rt_frame *frame, uint64_t turn)
{
    uint64_t hash = frame->sequence * UINT64_C(0x9e3779b97f4a7c15) ^ frame->count;
    hash = hash * UINT64_C(0x9e3779b97f4a7c15) ^ frame->op ^ ((uint64_t)frame->root << 32);
    hash = hash * UINT64_C(0x9e3779b97f4a7c15) ^ frame->collective ^ ((uint64_t)frame->type << 8);
    hash *= UINT64_C(0x9e3779b97f4a7c15);
    return turn << TAG_BITS | hash >> (64 - TAG_BITS);
}

static struct line *line_begin(struct rt_exchange *x, const struct rt_call *call, uint64_t turn)
{
    struct area *mine = x->area[x->self];
    mine->call[turn & 1].frame = call->frame;
    return &mine->line[turn & 1];
}

static void line_publish(struct rt_exchange *x, const struct rt_call *call, uint64_t turn)
{
    struct line *line = &x->area[x->self]->line[turn & 1];
    atomic_store_explicit(&line->tag, call_tag(&call->frame, turn), memory_order_release);
    for (uint32_t i = 0; i < x->n; i++)
        if (i != x->self) rt_node_ring(x->node, i);
}

static void done_publish(struct rt_exchange *x, uint64_t turn)
{
    atomic_store_explicit(&x->area[x->self]->done, turn, memory_order_release);
    for (uint32_t i = 0; i < x->n; i++)
        if (i != x->self) rt_node_ring(x->node, i);
}

/* OK when every line of `turn` is there and says the same call; direct->peer remembers who is awaited. */
static ringtree_status lines_wait(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call,
                                  uint64_t turn)
{
    const uint64_t tag = call_tag(&call->frame, turn);
    for (; direct->peer < x->n; direct->peer++) {
        if (direct->peer == x->self) continue;
        const struct line *line = &x->area[direct->peer]->line[turn & 1];
        const uint64_t seen = atomic_load_explicit(&line->tag, memory_order_acquire);
        if (seen == tag) continue;
        return seen >> TAG_BITS >= turn ? RINGTREE_MISMATCH : RINGTREE_IN_PROGRESS;
    }
    direct->peer = 0;
    return RINGTREE_OK;
}

static bool done_wait(struct rt_exchange *x, struct rt_direct *direct, uint64_t turn)
{
    for (; direct->peer < x->n; direct->peer++) {
        if (direct->peer == x->self) continue;
        if (atomic_load_explicit(&x->area[direct->peer]->done, memory_order_acquire) < turn) return false;
    }
    direct->peer = 0;
    return true;
}

/* ---- pieces of arrays */

static void copy_in(const struct rt_exchange *x, const struct rt_call *call, void *target, const void *source,
                    size_t elements)
{
    if (elements == 0) return;
    if (call->scaled) rt_scale(target, source, elements, call->type, call->scalar);
    else if (call->divided_first) rt_divide(target, source, elements, call->type, x->n);
    else rt_copy(target, source, elements * call->element);
}

/* target = sum of x->sources in rank order, divided for AVG */
static void add_up(struct rt_exchange *x, const struct rt_call *call, void *target, size_t elements)
{
    if (elements == 0) return;
    rt_reduce_many(target, x->sources, x->n, elements, call->type, call->op);
    if (call->divided_last) rt_divide(target, target, elements, call->type, x->n);
}

static bool reduces(const struct rt_call *call)
{
    return call->frame.collective == RINGTREE_ALL_REDUCE || call->frame.collective == RINGTREE_REDUCE_SCATTER;
}

/* Does this rank's input consist of one block for each rank? */
static bool has_input_blocks(const struct rt_call *call)
{
    return call->frame.collective == RINGTREE_REDUCE_SCATTER || call->frame.collective == RINGTREE_ALL_TO_ALL;
}

static bool has_output_blocks(const struct rt_call *call)
{
    return call->frame.collective == RINGTREE_ALL_GATHER || call->frame.collective == RINGTREE_ALL_TO_ALL;
}

/* ---- whose memory can be reached */

static void whereabouts_write(struct rt_exchange *x, const struct rt_call *call, uint64_t turn)
{
    struct whereabouts at = { .input = (uintptr_t)call->input, .output = (uintptr_t)call->output };
    const size_t in = call->count * call->element * (has_input_blocks(call) ? x->n : 1);
    const size_t out = call->count * call->element * (has_output_blocks(call) ? x->n : 1);
    at.in_heap = rt_node_offset(x->node, call->input, in, &at.input_offset) &&
                 rt_node_offset(x->node, call->output, out, &at.output_offset);
    at.direct_allowed = !call->scaled && !call->divided_first &&
                        !(call->in_place && call->frame.collective == RINGTREE_ALL_TO_ALL);
    memcpy(line_begin(x, call, turn)->payload, &at, sizeof at);
}

/* OK, or UNSUPPORTED: the same answer on all ranks, since all read the same lines. NO_MEMORY: they are to be reached,
 * but this rank cannot map them, which ends the communicator. Fills inputs and outputs. */
static ringtree_status all_reachable(struct rt_exchange *x, const struct rt_call *call, uint64_t turn)
{
    const size_t in = call->count * call->element * (has_input_blocks(call) ? x->n : 1);
    const size_t out = call->count * call->element * (has_output_blocks(call) ? x->n : 1);
    bool heap = true, direct = true;
    struct whereabouts at;
    for (uint32_t i = 0; i < x->n; i++) {
        memcpy(&at, x->area[i]->line[turn & 1].payload, sizeof at);
        heap &= at.in_heap != 0;
        direct &= at.direct_allowed != 0;
    }
    if (!direct || !(heap || x->one_process)) return RINGTREE_UNSUPPORTED;
    for (uint32_t i = 0; i < x->n; i++) {
        memcpy(&at, x->area[i]->line[turn & 1].payload, sizeof at);
        const bool by_address = x->one_process || i == x->self;
        x->inputs[i] = by_address ? (unsigned char *)(uintptr_t)at.input : rt_node_map(x->node, at.input_offset, in);
        x->outputs[i] =
            by_address ? (unsigned char *)(uintptr_t)at.output : rt_node_map(x->node, at.output_offset, out);
        if (!x->inputs[i] || !x->outputs[i]) return RINGTREE_NO_MEMORY;
    }
    return RINGTREE_OK;
}

/* ---- 1. everything in the line, or in one cell: each rank computes the whole result from everybody's input */

static const unsigned char *one_shot_input(const struct rt_exchange *x, uint32_t i, uint64_t turn, bool tiny)
{
    return tiny ? x->area[i]->line[turn & 1].payload : in_cell(x, i, turn);
}

static void one_shot_read(struct rt_exchange *x, const struct rt_call *call, uint64_t turn, bool tiny)
{
    const size_t block = call->count * call->element;
    const size_t skip = has_input_blocks(call) ? x->self * block : 0;
    for (uint32_t i = 0; i < x->n; i++) x->sources[i] = one_shot_input(x, i, turn, tiny) + skip;
    if (reduces(call)) {
        add_up(x, call, call->output, call->count);
        return;
    }
    for (uint32_t i = 0; i < x->n && block; i++)
        memcpy((unsigned char *)call->output + i * block, x->sources[i], block);
}

static ringtree_status one_shot(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call,
                                bool tiny, bool *moved)
{
    if (direct->phase == 0) {
        const size_t elements = call->count * (has_input_blocks(call) ? x->n : 1);
        struct line *line = line_begin(x, call, direct->turn);
        copy_in(x, call, tiny ? line->payload : in_cell(x, x->self, direct->turn), call->input, elements);
        line_publish(x, call, direct->turn);
        direct->phase = 1;
        *moved = true;
    }
    ringtree_status status = lines_wait(x, direct, call, direct->turn);
    if (status != RINGTREE_OK) return status;
    if (call->frame.collective != RINGTREE_BARRIER) one_shot_read(x, call, direct->turn, tiny);
    x->turn = direct->turn + 1;
    return RINGTREE_OK;
}

/* ---- 2. every rank's memory is reachable: read it and write it where it is */

static void all_reduce_in_place_of_all(struct rt_exchange *x, const struct rt_call *call)
{
    const size_t line = 64 / call->element;
    const size_t part = (call->count / x->n + line) / line * line, step = (16 << 10) / call->element;
    size_t at = part * x->self;
    const size_t end = at + part < call->count ? at + part : call->count;
    for (; at < end; at += step) {
        const size_t elements = end - at < step ? end - at : step, byte = at * call->element;
        for (uint32_t i = 0; i < x->n; i++) x->sources[i] = x->inputs[i] + byte;
        add_up(x, call, x->outputs[x->self] + byte, elements);
        for (uint32_t i = 0; i < x->n; i++)
            if (i != x->self)
                memcpy(x->outputs[i] + byte, x->outputs[x->self] + byte, elements * call->element);
    }
}

static void reach(struct rt_exchange *x, const struct rt_call *call)
{
    const size_t block = call->count * call->element;
    const size_t skip = has_input_blocks(call) ? x->self * block : 0;
    if (call->frame.collective == RINGTREE_ALL_REDUCE) {
        all_reduce_in_place_of_all(x, call);
        return;
    }
    for (uint32_t i = 0; i < x->n; i++) x->sources[i] = x->inputs[i] + skip;
    if (reduces(call)) {
        add_up(x, call, call->output, call->count);
        return;
    }
    for (uint32_t i = 0; i < x->n; i++) {
        unsigned char *target = (unsigned char *)call->output + i * block;
        if (target != x->sources[i]) rt_copy(target, x->sources[i], block);
    }
}

static ringtree_status reach_all(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call,
                                 bool *moved)
{
    if (direct->phase == 2) {
        reach(x, call);
        done_publish(x, direct->turn);
        direct->phase = 3;
        *moved = true;
    }
    if (!done_wait(x, direct, direct->turn)) return RINGTREE_IN_PROGRESS;
    x->turn = direct->turn + 1;
    return RINGTREE_OK;
}

/* ---- 3. private memory, all-reduce: two-shot through cells, one block ahead */

struct block {
    size_t at, part, end; /* elements: of the array; of one rank's part; one past the block */
};

static struct block block_of(const struct rt_exchange *x, const struct rt_call *call, size_t b)
{
    const size_t line = 64 / call->element, whole = x->cell / call->element / x->n / line * line * x->n;
    const size_t at = b * whole, end = at + whole < call->count ? at + whole : call->count;
    return (struct block){ at, ((end - at + x->n - 1) / x->n + line - 1) / line * line, end };
}

/* Part i of the block, clipped. */
static size_t part_of(const struct block *block, uint32_t i, size_t *at)
{
    *at = block->at + i * block->part;
    if (*at >= block->end) return 0;
    return block->end - *at < block->part ? block->end - *at : block->part;
}

static void block_in(struct rt_exchange *x, const struct rt_call *call, size_t b, uint64_t turn)
{
    const struct block block = block_of(x, call, b);
    copy_in(x, call, in_cell(x, x->self, turn), (const unsigned char *)call->input + block.at * call->element,
            block.end - block.at);
    line_publish(x, call, turn);
}

static void block_reduce(struct rt_exchange *x, const struct rt_call *call, size_t b, uint64_t turn)
{
    const struct block block = block_of(x, call, b);
    size_t at;
    const size_t elements = part_of(&block, x->self, &at);
    for (uint32_t i = 0; i < x->n; i++) x->sources[i] = in_cell(x, i, turn) + (at - block.at) * call->element;
    add_up(x, call, out_cell(x, x->self, turn), elements);
    done_publish(x, turn);
    if (elements)
        memcpy((unsigned char *)call->output + at * call->element, out_cell(x, x->self, turn),
               elements * call->element);
}

static bool block_out(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call, uint64_t turn,
                      bool *moved)
{
    const struct block block = block_of(x, call, direct->block);
    for (; direct->peer < x->n; direct->peer++) {
        const uint32_t i = direct->peer;
        size_t at;
        const size_t elements = part_of(&block, i, &at);
        if (i == x->self) continue;
        if (atomic_load_explicit(&x->area[i]->done, memory_order_acquire) < turn) return false;
        if (elements)
            rt_copy((unsigned char *)call->output + at * call->element, out_cell(x, i, turn), elements * call->element);
        *moved = true;
    }
    direct->peer = 0;
    return true;
}

/* Phases: 2 look ahead, 3 wait for lines, 4 copy out. Phase 2 of block 0 comes after all lines of block 0 were seen. */
static ringtree_status two_shot(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call,
                                bool *moved)
{
    for (;;) {
        const uint64_t turn = direct->turn + direct->block;
        if (direct->phase == 2) {
            if (direct->block + 1 < direct->blocks) {
                line_begin(x, call, turn + 1);
                block_in(x, call, direct->block + 1, turn + 1);
            }
            direct->phase = 3;
        }
        if (direct->phase == 3) {
            ringtree_status status = lines_wait(x, direct, call, turn);
            if (status != RINGTREE_OK) return status;
            block_reduce(x, call, direct->block, turn);
            direct->phase = 4;
            *moved = true;
        }
        if (!block_out(x, direct, call, turn, moved)) return RINGTREE_IN_PROGRESS;
        direct->phase = 2;
        if (++direct->block < direct->blocks) continue;
        x->turn = direct->turn + direct->blocks;
        return RINGTREE_OK;
    }
}

static ringtree_status all_reduce(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call,
                                  bool *moved)
{
    const size_t bytes = call->count * call->element;
    if (bytes <= TINY) return one_shot(x, direct, call, true, moved);
    if (bytes <= x->cell && bytes <= ONE_SHOT / (x->n - 1)) return one_shot(x, direct, call, false, moved);
    if (direct->phase == 0) {
        whereabouts_write(x, call, direct->turn);
        block_in(x, call, 0, direct->turn);
        direct->phase = 1;
        *moved = true;
    }
    if (direct->phase == 1) {
        ringtree_status status = lines_wait(x, direct, call, direct->turn);
        if (status != RINGTREE_OK) return status;
        const struct block first = block_of(x, call, 0);
        direct->blocks = call->count / first.end + (call->count % first.end != 0);
        status = all_reachable(x, call, direct->turn);
        if (status == RINGTREE_NO_MEMORY) return status;
        direct->shared = status == RINGTREE_OK;
        direct->phase = 2;
    }
    return direct->shared ? reach_all(x, direct, call, moved) : two_shot(x, direct, call, moved);
}

/* ---- 4. private memory, the others: blocks through cells, each read by all who need it */

/* Elements of each of the n (or 1) pieces that fit a cell. */
static size_t piece_of(const struct rt_exchange *x, const struct rt_call *call)
{
    const size_t line = 64 / call->element, pieces = has_input_blocks(call) ? x->n : 1;
    return x->cell / pieces / call->element / line * line;
}

static void pieces_in(struct rt_exchange *x, const struct rt_call *call, size_t at, size_t elements, uint64_t turn)
{
    const uint32_t pieces = has_input_blocks(call) ? x->n : 1;
    for (uint32_t i = 0; i < pieces; i++)
        copy_in(x, call, in_cell(x, x->self, turn) + i * elements * call->element,
                (const unsigned char *)call->input + (i * call->count + at) * call->element, elements);
    line_publish(x, call, turn);
}

static void pieces_out(struct rt_exchange *x, const struct rt_call *call, size_t at, size_t elements, uint64_t turn)
{
    const size_t skip = has_input_blocks(call) ? x->self * elements * call->element : 0;
    unsigned char *output = (unsigned char *)call->output + at * call->element;
    for (uint32_t i = 0; i < x->n; i++) x->sources[i] = in_cell(x, i, turn) + skip;
    if (reduces(call)) {
        add_up(x, call, output, elements);
        return;
    }
    for (uint32_t i = 0; i < x->n; i++) {
        /* in place, all_gather's own block is there already and must not be touched before it was read */
        if (i == x->self &&
            output + i * call->count * call->element == (const unsigned char *)call->input + at * call->element)
            continue;
        rt_copy(output + i * call->count * call->element, x->sources[i], elements * call->element);
    }
}

static ringtree_status blocks(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call, bool *moved)
{
    const size_t whole = piece_of(x, call);
    for (;;) {
        const uint64_t turn = direct->turn + direct->block;
        const size_t at = direct->block * whole;
        const size_t elements = call->count - at < whole ? call->count - at : whole;
        if (direct->phase == 0) {
            if (direct->block == 0) whereabouts_write(x, call, turn);
            else line_begin(x, call, turn);
            pieces_in(x, call, at, elements, turn);
            direct->phase = 1;
            *moved = true;
        }
        ringtree_status status = lines_wait(x, direct, call, turn);
        if (status != RINGTREE_OK) return status;
        if (direct->block == 0) status = all_reachable(x, call, turn);
        if (status == RINGTREE_NO_MEMORY) return status;
        if (direct->block == 0 && status == RINGTREE_OK) {
            direct->shared = true;
            direct->phase = 2;
            return reach_all(x, direct, call, moved);
        }
        pieces_out(x, call, at, elements, turn);
        direct->phase = 0;
        *moved = true;
        if (at + elements < call->count) {
            direct->block++;
            continue;
        }
        x->turn = turn + 1;
        return RINGTREE_OK;
    }
}

static ringtree_status advance(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call, bool *moved)
{
    if (direct->turn == 0) direct->turn = x->turn;
    if (call->frame.collective == RINGTREE_ALL_REDUCE) return all_reduce(x, direct, call, moved);
    if (direct->shared) return reach_all(x, direct, call, moved);
    const size_t bytes = call->count * call->element * (has_input_blocks(call) ? x->n : 1);
    if (call->frame.collective == RINGTREE_BARRIER || bytes <= TINY) return one_shot(x, direct, call, true, moved);
    return blocks(x, direct, call, moved);
}

ringtree_status rt_direct_advance(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call,
                                  bool *moved, uint32_t *peer, struct rt_frame *theirs)
{
    ringtree_status status = advance(x, direct, call, moved);
    if (status == RINGTREE_MISMATCH) {
        const uint64_t seen = atomic_load(&x->area[direct->peer]->line[(direct->turn + direct->block) & 1].tag);
        *peer = rt_node_rank(x->node, direct->peer);
        *theirs = x->area[direct->peer]->call[(seen >> TAG_BITS) & 1].frame;
    }
    return status;
}
