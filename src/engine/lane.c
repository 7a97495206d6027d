/*
 * The reader of steps: for each slice, for each step of a lane: receive, reduce or keep, send.
 *
 * Both ends of a message compute its length from the same chunk numbers and the same slice, so a message of no bytes
 * is skipped by both. A step keeps what it has done so far in struct rt_lane, so it can stop at any missing message or
 * slot and go on later.
 */
#include "engine.h"
#include "reduce/reduce.h"
#include <string.h>

struct span {
    const struct rt_operation *operation;
    const struct rt_step      *step;
    size_t                     slice;
    size_t                     bytes; /* of the whole message */
};

static size_t slice_elements(const struct rt_operation *op, uint32_t chunk, size_t slice, bool blocks)
{
    size_t length = op->chunk_elements;
    if (!blocks) {
        const size_t begin = chunk * op->chunk_elements;
        if (begin >= op->call.count) return 0;
        if (length > op->call.count - begin) length = op->call.count - begin;
    }
    const size_t skip = slice * op->slice_elements;
    if (skip >= length) return 0;
    return length - skip < op->slice_elements ? length - skip : op->slice_elements;
}

static bool has_blocks(const struct rt_operation *op)
{
    const uint8_t c = op->call.frame.collective;
    return c == RINGTREE_REDUCE_SCATTER || c == RINGTREE_ALL_GATHER || c == RINGTREE_ALL_TO_ALL ||
           c == RINGTREE_GATHER || c == RINGTREE_SCATTER;
}

/* Chunk number i of a span, for a buffer; a buffer with one chunk has span 1. */
static uint32_t span_chunk(const struct rt_operation *op, const struct rt_step *step, uint32_t first, uint32_t i)
{
    return (uint32_t)((first + (uint64_t)i * step->stride) % op->program->chunks);
}

/* Elements of message part i: those of its chunk in the array. */
static size_t part_elements(const struct span *span, uint32_t i)
{
    const struct rt_operation *op = span->operation;
    const struct rt_step *step = span->step;
    const uint32_t first = rt_step_length_chunk(step);
    return slice_elements(op, span_chunk(op, step, first, i), span->slice, has_blocks(op));
}

static unsigned char *part_memory(const struct span *span, uint32_t lane, uint8_t buffer, uint32_t first, uint32_t i)
{
    const struct rt_operation *op = span->operation;
    const size_t element = op->call.element;
    if (buffer == RT_SCRATCH) {
        const uint32_t chunk = (uint32_t)((first + (uint64_t)i * span->step->stride) % op->program->scratch[lane]);
        return op->program->memory[lane] + (size_t)chunk * op->slice_elements * element;
    }
    const uint32_t chunk = span->step->span == 1 ? first : span_chunk(op, span->step, first, i);
    const size_t at = (chunk * op->chunk_elements + span->slice * op->slice_elements) * element;
    unsigned char *base = buffer == RT_INPUT ? (unsigned char *)(uintptr_t)op->call.input : op->call.output;
    return base + at;
}

static size_t span_bytes(const struct span *span)
{
    size_t elements = 0;
    for (uint32_t i = 0; i < span->step->span; i++) elements += part_elements(span, i);
    return elements * span->operation->call.element;
}

static bool is_scaled(const struct rt_operation *op, uint8_t buffer)
{
    return buffer == RT_INPUT && (op->call.scaled || op->call.divided_first);
}

/* Input as the sum wants it: multiplied (premul_sum) or divided (AVG of narrow floats). */
static void scale_into(struct rt_engine *engine, const struct rt_operation *op, void *target, const void *source,
                       size_t elements)
{
    if (op->call.scaled) rt_scale(target, source, elements, op->call.type, op->call.scalar);
    else rt_divide(target, source, elements, op->call.type, engine->fabric.nranks);
}

static void part_copy(struct rt_engine *engine, const struct rt_operation *op, uint8_t buffer, void *target,
                      const void *source, size_t elements)
{
    if (is_scaled(op, buffer)) scale_into(engine, op, target, source, elements);
    else if (target != source) rt_copy(target, source, elements * op->call.element);
}

static void part_reduce(struct rt_engine *engine, const struct span *span, uint32_t lane, void *target,
                        const void *own, const void *got, const void *got2, size_t elements)
{
    const struct rt_operation *op = span->operation;
    const bool own_first = span->step->flags & RT_OWN_FIRST;
    if (is_scaled(op, span->step->source)) {
        scale_into(engine, op, engine->bounce[lane], own, elements);
        own = engine->bounce[lane];
    }
    if (got2) {
        const void *values[3] = { own_first ? own : got, own_first ? got : got2, own_first ? got2 : own };
        rt_reduce_many(target, values, 3, elements, op->call.type, op->call.op);
    } else {
        rt_reduce(target, own_first ? own : got, own_first ? got : own, elements, op->call.type, op->call.op);
    }
}

/* Part i of the step: from what was received and the source, into the target or the slot. */
static void part_compute(struct rt_engine *engine, const struct span *span, uint32_t lane, uint32_t i, size_t offset,
                         unsigned char *slot)
{
    const struct rt_operation *op = span->operation;
    const struct rt_step *step = span->step;
    const struct rt_lane *state = &op->lane[lane];
    const size_t elements = part_elements(span, i), bytes = elements * op->call.element;
    const unsigned char *got = state->data ? (const unsigned char *)state->data + offset : NULL;
    const unsigned char *got2 = state->data2 ? (const unsigned char *)state->data2 + offset : NULL;
    unsigned char *target = slot ? slot + offset : NULL;
    if (bytes == 0) return;
    if (rt_step_keeps(step)) target = part_memory(span, lane, step->target, step->target_chunk, i);
    if (rt_step_receives(step) && !rt_step_reduces(step))
        part_copy(engine, op, RT_OUTPUT, target, got, elements);
    else if (!rt_step_reduces(step))
        part_copy(engine, op, step->source, target,
                  part_memory(span, lane, step->source, step->source_chunk, i), elements);
    else
        part_reduce(engine, span, lane, target, part_memory(span, lane, step->source, step->source_chunk, i),
                    step->verb == RT_REDUCE ? target : got, got2, elements);
    if ((step->flags & RT_FINAL) && op->call.divided_last)
        rt_divide(target, target, elements, op->call.type, engine->fabric.nranks);
    if (slot && target != slot + offset) memcpy(slot + offset, target, bytes);
}

static ringtree_status receive(struct rt_engine *engine, const struct span *span, uint32_t lane, uint32_t from,
                               bool *received, const void **data, struct rt_error *error)
{
    if (from == RT_NONE || *received) return RINGTREE_OK;
    struct rt_link *link = rt_wire(engine, false, lane, from)->link;
    const struct rt_step *step = span->step;
    const bool at_once = step->span == 1 && !rt_step_reduces(step);
    void *into = at_once ? part_memory(span, lane, step->target, step->target_chunk, 0) : NULL;
    struct rt_frame expect = span->operation->call.frame, frame;
    expect.lane = (uint8_t)lane;
    expect.bytes = (uint32_t)span->bytes;
    ringtree_status status = link->transport->recv(link, &expect, into, span->bytes, &frame, data, error);
    if (status != RINGTREE_OK) return status;
    if (!*data || memcmp(&frame, &expect, sizeof frame) != 0)
        return rt_mismatch(engine, &expect, from, &frame, error);
    *received = true;
    return RINGTREE_OK;
}

static void release(struct rt_engine *engine, uint32_t lane, uint32_t from)
{
    if (from == RT_NONE) return;
    struct rt_link *link = rt_wire(engine, false, lane, from)->link;
    link->transport->release(link);
}

/* Where the message is built when it cannot be sent from where it lies. NULL and error OK: no slot free yet. */
static unsigned char *slot_of(struct rt_engine *engine, uint32_t lane, uint32_t to, struct rt_error *error)
{
    struct rt_link *link = rt_wire(engine, true, lane, to)->link;
    return link->transport->reserve(link, error);
}

static ringtree_status post(struct rt_engine *engine, const struct span *span, uint32_t lane, uint32_t to,
                            const void *data, struct rt_error *error)
{
    struct rt_frame frame = span->operation->call.frame;
    frame.lane = (uint8_t)lane;
    frame.bytes = (uint32_t)span->bytes;
    return rt_wire_send(rt_wire(engine, true, lane, to), &frame, data, error);
}

static void compute(struct rt_engine *engine, const struct span *span, uint32_t lane, unsigned char *slot,
                    unsigned char *slot2)
{
    size_t offset = 0;
    for (uint32_t i = 0; i < span->step->span; i++) {
        part_compute(engine, span, lane, i, offset, slot);
        offset += part_elements(span, i) * span->operation->call.element;
    }
    if (slot2) memcpy(slot2, slot, span->bytes);
    release(engine, lane, span->step->from);
    release(engine, lane, span->step->from2);
}

/* Must the message be built in a slot? Else it is sent from where it lies. */
static bool is_packed(const struct rt_operation *op, const struct rt_step *step)
{
    if (step->span > 1 || step->verb == RT_RECV_REDUCE_SEND) return true;
    if (step->verb != RT_SEND) return false;
    return is_scaled(op, step->source) || ((step->flags & RT_COPIED) && op->call.in_place);
}

static ringtree_status step_send(struct rt_engine *engine, const struct span *span, uint32_t lane,
                                 struct rt_error *error)
{
    const struct rt_step *step = span->step;
    struct rt_lane *state = &((struct rt_operation *)(uintptr_t)span->operation)->lane[lane];
    const bool packed = is_packed(span->operation, step);
    unsigned char *slot = NULL, *slot2 = NULL;
    if (packed && !state->posted && !(slot = slot_of(engine, lane, step->to, error)))
        return error->status ? error->status : RINGTREE_IN_PROGRESS;
    if (packed && step->to2 != RT_NONE && !(slot2 = slot_of(engine, lane, step->to2, error)))
        return error->status ? error->status : RINGTREE_IN_PROGRESS;
    if (!state->computed && (packed || step->verb != RT_SEND)) compute(engine, span, lane, slot, slot2);
    state->computed = true;
    const void *value = packed ? NULL
                               : step->verb == RT_SEND
                                     ? part_memory(span, lane, step->source, step->source_chunk, 0)
                                     : part_memory(span, lane, step->target, step->target_chunk, 0);
    if (!state->posted) {
        ringtree_status status = post(engine, span, lane, step->to, packed ? slot : value, error);
        if (status != RINGTREE_OK) return status;
        state->posted = true;
    }
    return step->to2 == RT_NONE ? RINGTREE_OK : post(engine, span, lane, step->to2, packed ? slot2 : value, error);
}

static ringtree_status step_run(struct rt_engine *engine, struct rt_operation *op, uint32_t lane,
                                const struct rt_step *step, struct rt_error *error)
{
    struct rt_lane *state = &op->lane[lane];
    struct span span = { op, step, state->slice, 0 };
    span.bytes = step->verb == RT_NOTHING ? 0 : span_bytes(&span);
    if (span.bytes == 0) return RINGTREE_OK;
    ringtree_status status = receive(engine, &span, lane, step->from, &state->received, &state->data, error);
    if (status == RINGTREE_OK)
        status = receive(engine, &span, lane, step->from2, &state->received2, &state->data2, error);
    if (status != RINGTREE_OK) return status;
    if (step->to != RT_NONE) return step_send(engine, &span, lane, error);
    compute(engine, &span, lane, NULL, NULL);
    return RINGTREE_OK;
}

static bool lane_past(const struct rt_operation *op, uint32_t lane, size_t slice)
{
    const struct rt_lane *other = &op->lane[lane];
    return other->done || other->slice > slice ||
           (other->slice == slice && other->step == op->program->nsteps[lane]);
}

bool rt_program_sent(const struct rt_program *program, struct rt_error *error)
{
    bool all = true;
    for (uint32_t i = 0; i < program->nsenders; i++) all &= rt_wire_idle(program->senders[i], error);
    return all;
}

static ringtree_status lane_advance(struct rt_engine *engine, struct rt_operation *op, uint32_t lane, bool *moved,
                                    struct rt_error *error)
{
    struct rt_lane *state = &op->lane[lane];
    while (!state->done) {
        if (state->step == op->program->nsteps[lane]) {
            if (op->program->scratch[lane] && !rt_program_sent(op->program, error))
                return error->status ? error->status : RINGTREE_IN_PROGRESS; /* scratch may still be borrowed */
            state->step = 0;
            state->done = ++state->slice >= op->slices;
            continue;
        }
        const struct rt_step *step = &op->program->steps[lane][state->step];
        if (step->wait_lane != RT_NONE && !lane_past(op, step->wait_lane, state->slice)) return RINGTREE_IN_PROGRESS;
        ringtree_status status = step_run(engine, op, lane, step, error);
        if (status != RINGTREE_OK) return status;
        const struct rt_lane next = { .slice = state->slice, .step = state->step + 1 };
        *state = next;
        *moved = true;
    }
    return RINGTREE_OK;
}

ringtree_status rt_lanes_advance(struct rt_engine *engine, struct rt_operation *op, bool *moved,
                                 struct rt_error *error)
{
    bool again = true, done = false;
    while (again) {
        again = false;
        done = true;
        for (uint32_t lane = 0; lane < op->program->lanes; lane++) {
            ringtree_status status = lane_advance(engine, op, lane, &again, error);
            if (status > RINGTREE_IN_PROGRESS) return status;
            done &= op->lane[lane].done;
        }
        *moved |= again;
    }
    if (rt_program_sent(op->program, error) && done) return RINGTREE_OK;
    return error->status ? error->status : RINGTREE_IN_PROGRESS;
}
