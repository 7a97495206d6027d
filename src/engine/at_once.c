/*
 * Blocking calls while nothing else is under way, which is most calls of most programs: no queue and no request. What
 * does not come soon is put into the queue by the caller and goes on from where it is.
 *
 * Two kinds: the direct paths of shared memory, and plain programs, which pass whole arrays that fit one slice from
 * rank to rank. Of these the reader here does what the reader of steps does, without chunks, spans and lanes: over TCP
 * that reader took 1.3 of 5.6 us.
 */
#include "engine.h"
#include "reduce/reduce.h"
#include <string.h>

/* Polls with nothing between them first: a peer that comes at the same time is seen soonest. */
#define QUICK_POLLS 40
/* Then failures, timeouts and other requests are looked at too. */
#define MOST_POLLS  4000
#define MOST_YIELDS 100

/* A wait of a while: how often something was looked for in vain. */
struct patience {
    uint32_t all, polls, yields; /* polls: since the last yield */
    uint64_t gone_ns;
    bool     yielded;
};

/* After a look; found: it was not in vain. */
static void looked(struct rt_engine *engine, const struct patience *p, bool found)
{
    if (p->yielded) rt_wait_learn(engine, p->gone_ns, found);
}

/* Until the next look. false: this has taken long enough. */
static bool wait_on(struct rt_engine *engine, struct patience *p)
{
    p->yielded = ++p->polls >= engine->polls_a_yield || p->all >= engine->spin_polls;
    if (p->yielded) {
        p->gone_ns = rt_wait_yield(engine);
        p->polls = 0;
        p->yields++;
    } else if (p->all >= QUICK_POLLS) {
        rt_pause();
    }
    return ++p->all < MOST_POLLS && p->yields < MOST_YIELDS;
}

static bool done(struct rt_engine *engine, const struct rt_call *call)
{
    rt_engine_corrupt(engine, call);
    rt_control_record_done(engine->fabric.control, call->frame.sequence);
    return true;
}

/* ---- the direct paths */

/* From `direct` on until it is done; false: not soon, or it failed. */
static bool direct_run(struct rt_engine *engine, const struct rt_call *call, struct rt_direct *direct, bool recorded)
{
    struct rt_difference differ;
    struct patience patience = { 0 };
    do {
        bool moved = false;
        ringtree_status status = rt_direct_advance(engine->exchange, direct, call, &moved, &differ);
        if (patience.all == 0 && !recorded) rt_engine_record(engine, &call->frame); /* what was published travels */
        looked(engine, &patience, moved || status == RINGTREE_OK);
        if (status == RINGTREE_OK) return done(engine, call);
        if (status != RINGTREE_IN_PROGRESS) return false;
    } while (wait_on(engine, &patience));
    return false;
}

bool rt_engine_direct(struct rt_engine *engine, struct rt_call *call, struct rt_direct *direct)
{
    call->frame.sequence = ++engine->sequence;
    return direct_run(engine, call, direct, false);
}

bool rt_engine_again(struct rt_engine *engine, struct rt_call *call, struct rt_direct *direct)
{
    call->frame.sequence = ++engine->sequence;
    if (!rt_line_publish(engine->exchange, direct, call)) {
        *direct = (struct rt_direct){ 0 };
        return direct_run(engine, call, direct, false);
    }
    rt_engine_record(engine, &call->frame);
    if (!rt_line_take(engine->exchange, direct, call)) return direct_run(engine, call, direct, true);
    return done(engine, call);
}

/* ---- plain programs */

bool rt_program_is_plain(const struct rt_program *program)
{
    if (program->lanes != 1 || program->chunks != 1 || program->max_span != 1) return false;
    if (!rt_cuts_array((uint8_t)program->algorithm->collective)) return false;
    for (uint32_t i = 0; i < program->nsteps[0]; i++) {
        const struct rt_step *step = &program->steps[0][i];
        const bool known = step->verb == RT_SEND || step->verb == RT_RECV_KEEP || step->verb == RT_RECV_REDUCE_KEEP;
        if (!known || step->from2 != RT_NONE || step->to2 != RT_NONE || step->wait_lane != RT_NONE) return false;
    }
    return true;
}

static unsigned char *place(const struct rt_operation *op, uint8_t buffer, uint32_t chunk)
{
    if (buffer == RT_INPUT) return (unsigned char *)(uintptr_t)op->call.input;
    if (buffer == RT_OUTPUT) return op->call.output;
    return op->program->memory[0] + chunk * op->slice_elements * op->call.element;
}

static struct rt_frame frame_of(const struct rt_call *call)
{
    struct rt_frame frame = call->frame;
    frame.bytes = (uint32_t)(call->count * call->element);
    return frame;
}

static ringtree_status plain_send(struct rt_engine *engine, const struct rt_operation *op, const struct rt_step *step,
                                  struct rt_error *error)
{
    struct rt_wire *wire = rt_wire(engine, true, 0, step->to);
    const struct rt_frame frame = frame_of(&op->call);
    const void *data = place(op, step->source, step->source_chunk);
    if ((step->flags & RT_COPIED) && op->call.in_place) {
        void *slot = wire->link->transport->reserve(wire->link, error);
        if (!slot) return error->status ? error->status : RINGTREE_IN_PROGRESS;
        data = memcpy(slot, data, frame.bytes);
    }
    return rt_wire_send(wire, &frame, data, error);
}

static ringtree_status plain_receive(struct rt_engine *engine, const struct rt_operation *op,
                                     const struct rt_step *step, struct rt_error *error)
{
    const struct rt_call *call = &op->call;
    struct rt_link *link = rt_wire(engine, false, 0, step->from)->link;
    const struct rt_frame expect = frame_of(call);
    const bool reduces = step->verb == RT_RECV_REDUCE_KEEP;
    void *target = place(op, step->target, step->target_chunk);
    struct rt_frame frame;
    const void *got;
    ringtree_status status =
        link->transport->recv(link, &expect, reduces ? NULL : target, expect.bytes, &frame, &got, error);
    if (status != RINGTREE_OK) return status;
    if (!got || memcmp(&frame, &expect, sizeof frame) != 0)
        return rt_mismatch(engine, &expect, step->from, &frame, error);
    if (reduces) {
        const void *own = place(op, step->source, step->source_chunk);
        const bool own_first = step->flags & RT_OWN_FIRST;
        rt_reduce(target, own_first ? own : got, own_first ? got : own, call->count, call->type, call->op);
    } else if (got != target) {
        rt_copy(target, got, expect.bytes);
    }
    if ((step->flags & RT_FINAL) && call->divided_last)
        rt_divide(target, target, call->count, call->type, engine->fabric.nranks);
    link->transport->release(link);
    return RINGTREE_OK;
}

/* As far as it goes. OK: finished. */
static ringtree_status plain_advance(struct rt_engine *engine, struct rt_operation *op, bool *moved,
                                     struct rt_error *error)
{
    struct rt_lane *state = &op->lane[0];
    for (; state->step < op->program->nsteps[0]; state->step++) {
        const struct rt_step *step = &op->program->steps[0][state->step];
        ringtree_status status = step->verb == RT_SEND ? plain_send(engine, op, step, error)
                                                       : plain_receive(engine, op, step, error);
        if (status != RINGTREE_OK) return status;
        *moved = true;
    }
    if (rt_program_sent(op->program, error)) return RINGTREE_OK;
    return error->status ? error->status : RINGTREE_IN_PROGRESS;
}

bool rt_operation_is_plain(struct rt_engine *engine, struct rt_operation *op)
{
    if (!op->program->plain || op->call.scaled || op->call.divided_first) return false;
    rt_operation_cut(engine, op);
    return op->slices == 1;
}

bool rt_engine_plain(struct rt_engine *engine, struct rt_operation *op)
{
    struct patience patience = { 0 };
    struct rt_error error;
    error.status = RINGTREE_OK;
    op->call.frame.sequence = ++engine->sequence;
    op->lane[0] = (struct rt_lane){ 0 };
    rt_engine_record(engine, &op->call.frame);
    do {
        bool moved = false;
        ringtree_status status = plain_advance(engine, op, &moved, &error);
        looked(engine, &patience, moved);
        if (status == RINGTREE_OK) return done(engine, &op->call);
        if (status > RINGTREE_IN_PROGRESS) rt_engine_fail(engine, &error);
        if (status > RINGTREE_IN_PROGRESS) return false;
        if (moved) patience = (struct patience){ 0 };
    } while (wait_on(engine, &patience));
    return false;
}
