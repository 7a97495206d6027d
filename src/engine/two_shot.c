/*
 * All-reduce of arrays that cannot be reached: of each block every rank sums one part, and takes the other parts from
 * their ranks' result cells. It copies in only what others need: its own part is read from, and its result written to,
 * its own array.
 */
#include "exchange.h"
#include "reduce/reduce.h"

#define STEP (8 << 10)

struct block {
    size_t at, part, end; /* elements: of the array; of one rank's part; one past the block */
};

static struct block block_of(const struct rt_exchange *x, const struct rt_call *call, size_t b)
{
    const size_t line = 64 / call->element, whole = x->cell / call->element / x->n / line * line * x->n;
    const size_t at = b * whole, end = call->count - at > whole ? at + whole : call->count;
    return (struct block){ at, ((end - at + x->n - 1) / x->n + line - 1) / line * line, end };
}

/* Part i of the block, clipped. */
static size_t part_of(const struct block *block, uint32_t i, size_t *at)
{
    *at = block->at + i * block->part;
    if (*at >= block->end) return 0;
    return block->end - *at < block->part ? block->end - *at : block->part;
}

void rt_two_shot_write(struct rt_exchange *x, const struct rt_call *call, size_t b, uint64_t turn)
{
    const struct block block = block_of(x, call, b);
    for (uint32_t i = 0; i < x->n; i++) {
        size_t at;
        const size_t elements = part_of(&block, i, &at);
        if (i == x->self && !rt_is_prepared(call)) continue;
        rt_prepare(x, call, rt_in_cell(x, x->self, turn) + (at - block.at) * call->element,
                   (const unsigned char *)call->input + at * call->element, elements);
    }
}

/* In steps that stay in the first cache between the sum and its second copy. */
static void reduce_part(struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call,
                        uint64_t turn)
{
    const struct block block = block_of(x, call, direct->block);
    const bool prepared = rt_is_prepared(call);
    const size_t step = STEP / call->element;
    size_t at;
    const size_t elements = part_of(&block, x->self, &at);
    for (size_t done = 0; done < elements; done += step) {
        const size_t now = elements - done < step ? elements - done : step, byte = (at + done) * call->element;
        const size_t cell = (at + done - block.at) * call->element;
        unsigned char *result = rt_out_cell(x, x->self, turn) + done * call->element;
        for (uint32_t i = 0; i < x->n; i++) x->sources[i] = rt_in_cell(x, i, turn) + cell;
        if (!prepared) x->sources[x->self] = (const unsigned char *)call->input + byte;
        rt_add_up(x, call, result, now);
        rt_put(direct, (unsigned char *)call->output + byte, result, now * call->element);
    }
    rt_done_publish(x, turn);
}

static bool take_parts(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call, uint64_t turn,
                       bool *moved)
{
    const struct block block = block_of(x, call, direct->block);
    for (; direct->peer < x->n; direct->peer++) {
        const uint32_t i = direct->peer;
        size_t at;
        const size_t elements = part_of(&block, i, &at);
        if (i == x->self) continue;
        if (atomic_load_explicit(&x->area[i]->done, memory_order_acquire) < turn) return false;
        rt_put(direct, (unsigned char *)call->output + at * call->element, rt_out_cell(x, i, turn),
               elements * call->element);
        *moved = true;
    }
    direct->peer = 0;
    return true;
}

static ringtree_status begin(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call)
{
    ringtree_status status = RINGTREE_OK;
    if (!direct->begun) {
        status = rt_gate(x, direct, direct->turn, RT_CELLS);
        if (status != RINGTREE_OK) return status;
        rt_two_shot_write(x, call, 0, direct->turn);
        rt_publish(x, direct, call, direct->turn, NULL, 0);
        direct->begun = true;
    }
    return rt_await(x, direct, direct->turn);
}

/* Phases: 0 look ahead, 1 wait for lines, 2 take. */
ringtree_status rt_two_shot_advance(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call,
                                    bool *moved)
{
    for (;;) {
        const uint64_t turn = direct->turn + direct->block;
        const struct block block = block_of(x, call, direct->block);
        if (direct->phase == 0 && direct->block == 0) {
            ringtree_status status = begin(x, direct, call);
            if (status != RINGTREE_OK) return status;
        }
        if (direct->phase == 0 && block.end < call->count) {
            rt_two_shot_write(x, call, direct->block + 1, turn + 1);
            rt_publish(x, direct, call, turn + 1, NULL, 0);
        }
        if (direct->phase <= 1) {
            direct->phase = 1;
            ringtree_status status = rt_await(x, direct, turn);
            if (status != RINGTREE_OK) return status;
            reduce_part(x, direct, call, turn);
            direct->phase = 2;
            *moved = true;
        }
        if (!take_parts(x, direct, call, turn, moved)) return RINGTREE_IN_PROGRESS;
        if (block.end == call->count) return RINGTREE_OK;
        direct->phase = 0;
        direct->block++;
    }
}
