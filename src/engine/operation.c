/* Operations: from the pool, into the queue, through the engine, back to the pool. */
#include "engine.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct rt_operation *rt_engine_operation(struct rt_engine *engine)
{
    struct rt_operation *operation = engine->pool;
    if (operation) engine->pool = operation->next;
    else operation = calloc(1, sizeof *operation);
    return operation;
}

struct rt_transfer *rt_engine_transfer(struct rt_engine *engine)
{
    struct rt_transfer *transfer = engine->transfer_pool;
    if (!transfer) return calloc(1, sizeof *transfer);
    engine->transfer_pool = transfer->next;
    memset(transfer, 0, sizeof *transfer);
    return transfer;
}

void rt_operation_drop(struct rt_engine *engine, struct rt_operation *operation)
{
    free(operation->sends);
    free(operation->recvs);
    operation->sends = operation->recvs = NULL;
    operation->next = engine->pool;
    engine->pool = operation;
}

void rt_transfer_drop(struct rt_engine *engine, struct rt_transfer *transfer)
{
    transfer->next = engine->transfer_pool;
    engine->transfer_pool = transfer;
}

static size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

bool rt_cuts_array(uint8_t collective)
{
    return collective == RINGTREE_ALL_REDUCE || collective == RINGTREE_REDUCE || collective == RINGTREE_BROADCAST ||
           collective == RINGTREE_BARRIER;
}

/* Chunks begin on cache lines of the array; a slice times the largest span fits a slot. */
void rt_operation_cut(struct rt_engine *engine, struct rt_operation *operation)
{
    const struct rt_program *program = operation->program;
    const size_t element = operation->call.element, line = 64 / element, count = operation->call.count;
    operation->chunk_elements = count;
    if (rt_cuts_array(operation->call.frame.collective)) {
        const size_t part = count / program->chunks + (count % program->chunks != 0);
        operation->chunk_elements = program->chunks == 1 ? count : round_up(part, line);
    }
    size_t most = engine->slot_bytes / program->max_span;
    if (operation->slice_bytes && operation->slice_bytes < most) most = operation->slice_bytes;
    const size_t slice = most / element > line ? most / element / line * line : most / element;
    operation->slice_elements = slice ? slice : 1;
    operation->slices = operation->chunk_elements / operation->slice_elements +
                        (operation->chunk_elements % operation->slice_elements != 0);
    if (operation->slices == 0) operation->slices = 1;
}

void rt_engine_record(struct rt_engine *engine, const struct rt_frame *frame)
{
    engine->last_call = *frame;
    rt_control_record(engine->fabric.control, frame);
}

static void number(struct rt_engine *engine, struct rt_operation *operation)
{
    operation->call.frame.sequence = ++engine->sequence;
    rt_engine_record(engine, &operation->call.frame);
    if (operation->method != RT_BY_TRANSFERS) return;
    for (uint32_t peer = 0; peer < engine->fabric.nranks; peer++)
        operation->sends[peer].frame.sequence = operation->recvs[peer].frame.sequence = engine->sequence;
}

static void append(struct rt_engine *engine, struct rt_operation *operation)
{
    operation->next = NULL;
    if (engine->last) engine->last->next = operation;
    else engine->first = operation;
    engine->last = operation;
}

void rt_engine_start(struct rt_engine *engine, struct rt_operation *operation)
{
    number(engine, operation);
    if (operation->method == RT_BY_DIRECT) {
        memset(&operation->direct, 0, sizeof operation->direct);
    } else if (operation->method == RT_BY_PROGRAM) {
        memset(operation->lane, 0, operation->program->lanes * sizeof operation->lane[0]);
        rt_operation_cut(engine, operation);
    }
    append(engine, operation);
}

#ifdef RINGTREE_FAULT_SWITCHES
/* RINGTREE_FAULT=corrupt:RANK flips a bit of that rank's results, so that checkers can be seen to fail. */
void rt_engine_corrupt(const struct rt_engine *engine, const struct rt_call *call)
{
    const char *fault = engine->fabric.settings->text[RT_FAULT];
    if (!*fault || strncmp(fault, "corrupt:", 8) != 0 || (uint32_t)atoi(fault + 8) != engine->fabric.rank) return;
    if (call->output && call->count) ((unsigned char *)call->output)[call->count / 2 * call->element] ^= 0x10;
}
#endif

static void operation_finish(struct rt_engine *engine)
{
    struct rt_operation *operation = engine->first;
    rt_engine_corrupt(engine, &operation->call);
    engine->first = operation->next;
    if (!engine->first) engine->last = NULL;
    rt_control_record_done(engine->fabric.control, operation->call.frame.sequence);
    operation->request->pending--;
    rt_operation_drop(engine, operation);
}

static ringtree_status direct_advance(struct rt_engine *engine, struct rt_operation *operation, bool *moved,
                                      struct rt_error *error)
{
    struct rt_difference differ;
    ringtree_status status =
        rt_direct_advance(engine->exchange, &operation->direct, &operation->call, moved, &differ);
    if (status == RINGTREE_MISMATCH) return rt_mismatch(engine, &differ.mine, differ.peer, &differ.theirs, error);
    if (status == RINGTREE_PEER_LOST)
        return rt_fail(error, status,
                       "rank %u cannot reach the memory of rank %u (host %s, pid %u): %s. It has ended, or gave an "
                       "array that is not there; RINGTREE_SHM_READS=off goes without",
                       engine->fabric.rank, differ.peer, rt_control_places(engine->fabric.control)[differ.peer].host,
                       rt_control_places(engine->fabric.control)[differ.peer].pid, strerror(errno));
    if (status == RINGTREE_NO_MEMORY)
        return rt_fail(error, status,
                       "rank %u cannot map the memory that its peers got from ringtree_mem_alloc(): address "
                       "space or mappings are used up; raise ulimit -v, or use less of it",
                       engine->fabric.rank);
    return status;
}

void rt_engine_resume(struct rt_engine *engine, struct rt_operation *operation)
{
    append(engine, operation);
}

static ringtree_status operation_advance(struct rt_engine *engine, bool *moved, struct rt_error *error)
{
    struct rt_operation *operation = engine->first;
    if (operation->method == RT_BY_NOTHING) return RINGTREE_OK;
    if (operation->method == RT_BY_DIRECT) return direct_advance(engine, operation, moved, error);
    if (operation->method == RT_BY_TRANSFERS) return rt_transfers_advance(engine, operation, moved, error);
    if (operation->method == RT_BY_CODEC) return rt_compress_advance(engine, operation, moved, error);
    return rt_lanes_advance(engine, operation, moved, error);
}

#define ROUNDS_A_STEP 256

bool rt_engine_progress(struct rt_engine *engine)
{
    bool moved = false;
    struct rt_error error;
    error.status = RINGTREE_OK;
    if (rt_engine_failed(engine)) return false;
    ringtree_status status = RINGTREE_OK;
    while (engine->first && (status = operation_advance(engine, &moved, &error)) == RINGTREE_OK) {
        operation_finish(engine);
        moved = true;
    }
    if (status <= RINGTREE_IN_PROGRESS && engine->transfers) moved |= rt_queues_advance(engine, &error, &status);
    if (status > RINGTREE_IN_PROGRESS) rt_engine_fail(engine, &error);
    if (!moved && engine->steps && ++engine->rounds % ROUNDS_A_STEP == 0) rt_engine_step(engine);
    return moved;
}

bool rt_engine_verdict(struct rt_engine *engine, uint64_t wait_ns)
{
    const uint64_t end = rt_now_ns(engine->fabric.clock) + wait_ns;
    const struct timespec moment = { .tv_nsec = 1000000 };
    while (!rt_control_failed(engine->fabric.control) && rt_now_ns(engine->fabric.clock) < end)
        nanosleep(&moment, NULL);
    return rt_engine_failed(engine);
}

/* A connection that ends is often the end of a story that the control plane is about to tell: who was lost, or which
 * calls differed. It is given a moment before the connection's own words are used. */
#define VERDICT_NS UINT64_C(300000000)

ringtree_status rt_engine_fail(struct rt_engine *engine, const struct rt_error *error)
{
    if (error->status == RINGTREE_PEER_LOST) rt_engine_verdict(engine, VERDICT_NS);
    rt_control_fail(engine->fabric.control, error->status, error->text);
    rt_engine_failed(engine);
    return engine->error.status;
}

bool rt_engine_failed(struct rt_engine *engine)
{
    if (engine->failed) return true;
    if (!rt_control_failed(engine->fabric.control)) return false;
    rt_control_failure(engine->fabric.control, &engine->error);
    engine->failed = true;
    if (engine->first && engine->first->method == RT_BY_DIRECT)
        rt_direct_leave(engine->exchange, &engine->first->direct);
    return true;
}

ringtree_status rt_mismatch(struct rt_engine *engine, const struct rt_frame *mine, uint32_t peer,
                            const struct rt_frame *theirs, struct rt_error *error)
{
    char here[200], there[200];
    rt_call_text(mine, here, sizeof here);
    rt_call_text(theirs, there, sizeof there);
    const struct rt_place *places = rt_control_places(engine->fabric.control);
    return rt_fail(error, RINGTREE_MISMATCH,
                   "the ranks called different things: rank %u (host %s, pid %u) called %s, but rank %u (host %s, pid "
                   "%u) "
                   "called %s; every rank must make the same calls in the same order",
                   peer, places[peer].host, places[peer].pid, there, engine->fabric.rank,
                   places[engine->fabric.rank].host, places[engine->fabric.rank].pid, here);
}
