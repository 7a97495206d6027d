/* From a checked call to a running operation: plan, program, queue, group. */
#include "collective.h"
#include "base/log.h"
#include "plan.h"
#include <stdlib.h>
#include <string.h>

void rt_lent_back(struct rt_lent *lent, bool well)
{
    for (struct rt_lent *next; lent; lent = next) {
        int is = RT_LENT_OUT;
        next = lent->next; /* not ours any more once it is back */
        const bool back = atomic_compare_exchange_strong(&lent->is, &is, well ? RT_LENT_FREE : RT_LENT_SPOILT);
        if (!back && is == RT_LENT_ORPHAN) lent->drop(lent);
    }
}

static ringtree_status no_memory(ringtree_comm *comm)
{
    return rt_fail(&comm->error, RINGTREE_NO_MEMORY, "rank %u: no memory for an operation", comm->rank);
}

/* The others go on with this call, so not being able to join it is a failure of the communicator. */
static ringtree_status give_up(ringtree_comm *comm, const struct rt_call *call, ringtree_status status)
{
    if (status != RINGTREE_OK) rt_lent_back(call->held, false);
    const bool no_effect = status == RINGTREE_INVALID_SETTING || status == RINGTREE_INVALID_ARGUMENT;
    if (status == RINGTREE_OK || no_effect) return status;
    rt_engine_fail(comm->engine, &comm->error);
    return rt_comm_failed(comm);
}

static void lend(ringtree_request *request, struct rt_call *call)
{
    if (!call->held) return;
    call->held->next = request->held;
    request->held = call->held;
    call->held = NULL;
}

/* Groups note operations and start them later; everybody else starts at once. */
static ringtree_status begin(ringtree_comm *comm, struct rt_operation *operation, bool begun,
                             ringtree_request **request)
{
    operation->next = NULL;
    if (comm->grouping) {
        if (comm->group_last) comm->group_last->next = operation;
        else comm->group_first = operation;
        comm->group_last = operation;
        comm->group_parts++;
        return RINGTREE_OK;
    }
    operation->request = rt_request_new(comm, 1);
    if (!operation->request) {
        const ringtree_status status = give_up(comm, &operation->call, no_memory(comm));
        rt_operation_drop(comm->engine, operation);
        return status;
    }
    ringtree_request *mine = operation->request;
    lend(mine, &operation->call);
    rt_engine_lock(comm->engine);
    if (begun) rt_engine_resume(comm->engine, operation);
    else rt_engine_start(comm->engine, operation);
    rt_engine_unlock(comm->engine);
    return rt_request_hand(comm, mine, request);
}

static size_t plan_bytes(const struct rt_call *call)
{
    return call->count * call->element;
}

/* Once for each collective. */
static void log_direct(ringtree_comm *comm, uint8_t collective)
{
    if (comm->engine->direct_logged >> collective & 1) return;
    comm->engine->direct_logged |= UINT32_C(1) << collective;
    rt_log(RT_LOG_INFO, "%s through shared memory that all ranks reach",
           ringtree_collective_name((ringtree_collective)collective));
}

static bool is_alone(const ringtree_comm *comm)
{
    const struct rt_engine *engine = comm->engine;
    return !comm->grouping && !engine->first && !engine->transfers && !engine->progress_thread_runs;
}

/* program and slice_bytes: RT_BY_PROGRAM's. NULL: no memory. */
static struct rt_operation *operation_of(ringtree_comm *comm, const struct rt_call *call, enum rt_method method,
                                         const struct rt_program *program, size_t slice_bytes)
{
    struct rt_operation *operation = rt_engine_operation(comm->engine);
    if (!operation) return NULL;
    operation->method = method;
    operation->program = program;
    operation->slice_bytes = slice_bytes;
    operation->call = *call;
    return operation;
}

static ringtree_status go_on(ringtree_comm *comm, const struct rt_call *call, const struct rt_direct *direct)
{
    struct rt_operation *operation = operation_of(comm, call, RT_BY_DIRECT, NULL, 0);
    if (!operation) return give_up(comm, call, no_memory(comm));
    operation->direct = *direct;
    return begin(comm, operation, true, NULL);
}

static ringtree_status run_plain(ringtree_comm *comm, struct rt_operation *operation)
{
    if (!rt_engine_plain(comm->engine, operation)) return begin(comm, operation, true, NULL);
    rt_lent_back(operation->call.held, true);
    rt_operation_drop(comm->engine, operation);
    return RINGTREE_OK;
}

/* ---- calls like an earlier one. They must give what the long way gives, so what is unusual takes that. */

/* Roots mostly take turns. */
static struct rt_again *again_of(ringtree_comm *comm, uint32_t collective, uint32_t root)
{
    return &comm->again[(collective * 3 + root + 1) % RT_AGAINS]; /* a root of RT_NONE is -1 */
}

/* Where one block lies in place, as ringtree.h defines it. */
static uintptr_t alias_of(const ringtree_comm *comm, const struct rt_call *call)
{
    const uintptr_t block = call->count * call->element;
    switch (call->frame.collective) {
    case RINGTREE_ALL_GATHER:
    case RINGTREE_GATHER: return comm->rank * block;
    case RINGTREE_REDUCE_SCATTER:
    case RINGTREE_SCATTER: return -(comm->rank * block);
    default: return 0;
    }
}

/* Keeps what was checked and planned; program NULL: it goes by lines. */
static void remember(ringtree_comm *comm, const struct rt_call *call, const struct rt_program *program,
                     size_t slice_bytes)
{
    const uint8_t which = call->frame.collective;
    if (comm->settings.number[RT_REVIEW_EVERY]) return;
    if (program ? which != RINGTREE_ALL_REDUCE : !rt_line_fits(comm->engine->exchange, call)) return;
    const bool root = call->frame.root == comm->rank, nothing = which == RINGTREE_BARRIER;
    struct rt_again *again = again_of(comm, which, call->frame.root);
    *again = (struct rt_again){
        .call = *call, .program = program, .slice_bytes = slice_bytes,
        .reads = !nothing && (root || (which != RINGTREE_BROADCAST && which != RINGTREE_SCATTER)),
        .writes = !nothing && (root || (which != RINGTREE_REDUCE && which != RINGTREE_GATHER)),
        .span = call->count * call->element * (rt_cuts_array(which) ? 1 : comm->nranks),
        .alias = alias_of(comm, call),
    };
    again->both = again->reads && again->writes;
    again->call.held = NULL;
}

static ringtree_status again_plain(ringtree_comm *comm, const struct rt_again *again)
{
    struct rt_operation *operation =
        operation_of(comm, &again->call, RT_BY_PROGRAM, again->program, again->slice_bytes);
    if (!operation) return give_up(comm, &again->call, no_memory(comm));
    rt_operation_cut(comm->engine, operation);
    return run_plain(comm, operation);
}

bool rt_collective_again(ringtree_comm *comm, const struct rt_asked *asked, ringtree_status *status)
{
    if (!comm || comm->live != rt_comm_live || comm->planner.asking) return false;
    struct rt_again *again = again_of(comm, asked->collective, asked->root);
    struct rt_call *call = &again->call;
    /* below the span either way: they overlap */
    const uintptr_t apart = (uintptr_t)asked->input - (uintptr_t)asked->output;
    if (call->count != asked->count || call->type != asked->type || call->frame.op != asked->op || !asked->count ||
        call->frame.collective != asked->collective || call->frame.root != asked->root)
        return false;
    if ((!asked->input && again->reads) || (!asked->output && again->writes)) return false;
    if (again->both && apart != again->alias && (apart < again->span || -apart < again->span)) return false;
    if (!is_alone(comm) || rt_engine_failed(comm->engine)) return false;
    struct rt_direct direct;
    call->input = asked->input;
    call->output = asked->output;
    call->in_place = again->both && apart == again->alias;
    if (again->program) *status = again_plain(comm, again);
    else *status = rt_engine_again(comm->engine, call, &direct) ? RINGTREE_OK : go_on(comm, call, &direct);
    return true;
}

static ringtree_status choose(ringtree_comm *comm, const struct rt_call *call, const struct rt_plan **plan)
{
    static const struct rt_plan nowhere = { .method = RT_BY_NOTHING };
    const bool nothing = comm->nranks == 1 && call->frame.collective == RINGTREE_BARRIER;
    *plan = &nowhere;
    if (nothing || !(call->count || call->frame.collective == RINGTREE_BARRIER)) return RINGTREE_OK;
    return rt_plan_choose(comm, (ringtree_collective)call->frame.collective, plan_bytes(call), call->frame.root, plan,
                          &comm->error);
}

ringtree_status rt_collective_plan(ringtree_comm *comm, const struct rt_call *call)
{
    const struct rt_plan *plan;
    const ringtree_status status = choose(comm, call, &plan);
    return status == RINGTREE_OK ? status : give_up(comm, call, status);
}

static ringtree_status start_call(ringtree_comm *comm, struct rt_call *call, ringtree_request **request)
{
    const struct rt_plan *plan;
    struct rt_direct direct = { 0 };
    const struct rt_program *program = NULL;
    ringtree_status status = choose(comm, call, &plan);
    call->frame.plan = plan->told;
    if (plan->method == RT_BY_DIRECT) log_direct(comm, call->frame.collective);
    if (plan->method == RT_BY_DIRECT && !request && is_alone(comm)) {
        remember(comm, call, NULL, 0);
        if (!rt_engine_direct(comm->engine, call, &direct)) return go_on(comm, call, &direct);
        rt_lent_back(call->held, true);
        return RINGTREE_OK;
    }
    rt_engine_lock(comm->engine);
    if (status == RINGTREE_OK && plan->method == RT_BY_PROGRAM)
        status = rt_engine_program(comm->engine, plan->algorithm, call->frame.root, &program, &comm->error);
    struct rt_operation *operation =
        status == RINGTREE_OK ? operation_of(comm, call, plan->method, program, plan->slice_bytes) : NULL;
    rt_engine_unlock(comm->engine);
    if (status != RINGTREE_OK) return give_up(comm, call, status);
    if (!operation) return give_up(comm, call, no_memory(comm));
    if (!request && program && is_alone(comm) && rt_operation_is_plain(comm->engine, operation)) {
        remember(comm, call, program, plan->slice_bytes);
        return run_plain(comm, operation);
    }
    return begin(comm, operation, false, request);
}

/* With RINGTREE_REVIEW_EVERY: all calls are counted, alike on all ranks, and blocking ones timed. */
static ringtree_status start_timed(ringtree_comm *comm, struct rt_call *call, ringtree_request **request)
{
    ringtree_status status = RINGTREE_OK;
    if (++comm->planner.calls % comm->settings.number[RT_REVIEW_EVERY] == 0) status = rt_review(comm);
    if (status != RINGTREE_OK) return give_up(comm, call, status);
    const ringtree_collective collective = (ringtree_collective)call->frame.collective;
    const size_t bytes = plan_bytes(call);
    const uint32_t root = call->frame.root;
    const bool timed = !request && is_alone(comm);
    const uint64_t begun = rt_now_ns(&rt_system_clock);
    status = start_call(comm, call, request);
    const uint64_t took = rt_now_ns(&rt_system_clock) - begun;
    if (timed && status == RINGTREE_OK) rt_review_note(comm, collective, bytes, root, (double)took * 1e-9);
    return status;
}

ringtree_status rt_collective_start(ringtree_comm *comm, struct rt_call *call, ringtree_request **request)
{
    if (comm->settings.number[RT_REVIEW_EVERY]) return start_timed(comm, call, request);
    return start_call(comm, call, request);
}

ringtree_status rt_transfers_start(ringtree_comm *comm, struct rt_call *call, struct rt_transfer *sends,
                                   struct rt_transfer *recvs, ringtree_request **request)
{
    ringtree_status status = RINGTREE_OK;
    rt_engine_lock(comm->engine);
    for (uint32_t peer = 0; peer < comm->nranks && status == RINGTREE_OK; peer++) {
        if (peer == comm->rank) continue;
        status = rt_wire_open(comm->engine, true, RT_LANE_ALL_TO_ALL_V, peer, &comm->error);
        if (status == RINGTREE_OK)
            status = rt_wire_open(comm->engine, false, RT_LANE_ALL_TO_ALL_V, peer, &comm->error);
    }
    struct rt_operation *operation = status == RINGTREE_OK ? operation_of(comm, call, RT_BY_TRANSFERS, NULL, 0) : NULL;
    rt_engine_unlock(comm->engine);
    if (!operation) {
        free(sends);
        free(recvs);
        return give_up(comm, call, status == RINGTREE_OK ? no_memory(comm) : status);
    }
    operation->sends = sends;
    operation->recvs = recvs;
    return begin(comm, operation, false, request);
}

ringtree_status rt_compressed_start(ringtree_comm *comm, const struct rt_call *call,
                                    const struct rt_compression *compression, ringtree_request **request)
{
    rt_engine_lock(comm->engine);
    ringtree_status status =
        rt_compress_open(comm->engine, compression, (ringtree_collective)call->frame.collective, call->frame.root,
                         &comm->error);
    struct rt_operation *operation = status == RINGTREE_OK ? operation_of(comm, call, RT_BY_CODEC, NULL, 0) : NULL;
    rt_engine_unlock(comm->engine);
    if (!operation) return give_up(comm, call, status == RINGTREE_OK ? no_memory(comm) : status);
    operation->compression = *compression;
    return begin(comm, operation, false, request);
}

static void group_append(ringtree_comm *comm, struct rt_transfer *transfer, bool sends)
{
    struct rt_transfer ***end = sends ? &comm->group_sends_end : &comm->group_recvs_end;
    transfer->next = NULL;
    **end = transfer;
    *end = &transfer->next;
    comm->group_parts++;
}

ringtree_status rt_message_start(ringtree_comm *comm, const struct rt_transfer *message, bool sends,
                                 ringtree_request **request)
{
    ringtree_status status = RINGTREE_OK;
    rt_engine_lock(comm->engine);
    if (message->peer != comm->rank)
        status = rt_wire_open(comm->engine, sends, RT_P2P_LANE, message->peer, &comm->error);
    struct rt_transfer *transfer = status == RINGTREE_OK ? rt_engine_transfer(comm->engine) : NULL;
    rt_engine_unlock(comm->engine);
    static const struct rt_call nothing;
    if (status != RINGTREE_OK) return give_up(comm, &nothing, status);
    if (!transfer) return give_up(comm, &nothing, no_memory(comm));
    *transfer = *message;
    if (comm->grouping) {
        group_append(comm, transfer, sends);
        return RINGTREE_OK;
    }
    ringtree_request *mine = rt_request_new(comm, 1);
    if (!mine) {
        rt_transfer_drop(comm->engine, transfer);
        return no_memory(comm);
    }
    transfer->request = mine;
    rt_engine_lock(comm->engine);
    rt_engine_transfer_start(comm->engine, transfer, sends);
    rt_engine_unlock(comm->engine);
    return rt_request_hand(comm, mine, request);
}

/* ---- groups */

ringtree_status ringtree_group_begin(ringtree_comm *comm)
{
    ringtree_status status = rt_comm_check(comm, "ringtree_group_begin");
    if (status != RINGTREE_OK) return status;
    if (comm->grouping)
        return rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT,
                       "ringtree_group_begin: a group is open; groups do not nest");
    comm->grouping = true;
    comm->group_parts = 0;
    comm->group_first = comm->group_last = NULL;
    comm->group_sends = comm->group_recvs = NULL;
    comm->group_sends_end = &comm->group_sends;
    comm->group_recvs_end = &comm->group_recvs;
    return RINGTREE_OK;
}

static void start_transfers(ringtree_comm *comm, struct rt_transfer *transfer, ringtree_request *request, bool sends)
{
    while (transfer) {
        struct rt_transfer *next = transfer->next;
        transfer->request = request;
        rt_engine_transfer_start(comm->engine, transfer, sends);
        transfer = next;
    }
}

static void start_all(ringtree_comm *comm, ringtree_request *request)
{
    rt_engine_lock(comm->engine);
    while (comm->group_first) {
        struct rt_operation *operation = comm->group_first;
        comm->group_first = operation->next;
        operation->request = request;
        lend(request, &operation->call);
        rt_engine_start(comm->engine, operation);
    }
    start_transfers(comm, comm->group_sends, request, true);
    start_transfers(comm, comm->group_recvs, request, false);
    rt_engine_unlock(comm->engine);
}

void rt_group_drop(ringtree_comm *comm)
{
    rt_engine_lock(comm->engine);
    while (comm->group_first) {
        struct rt_operation *operation = comm->group_first;
        comm->group_first = operation->next;
        rt_lent_back(operation->call.held, false);
        rt_operation_drop(comm->engine, operation);
    }
    for (int sends = 0; sends < 2; sends++) {
        struct rt_transfer *transfer = sends ? comm->group_sends : comm->group_recvs;
        while (transfer) {
            struct rt_transfer *next = transfer->next;
            rt_transfer_drop(comm->engine, transfer);
            transfer = next;
        }
    }
    comm->group_sends = comm->group_recvs = NULL;
    rt_engine_unlock(comm->engine);
}

ringtree_status ringtree_group_end(ringtree_comm *comm, ringtree_request **request)
{
    if (request) *request = NULL;
    if (comm && comm->live == rt_comm_live && !comm->grouping)
        return rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT, "ringtree_group_end: no group is open");
    ringtree_status status = rt_comm_check(comm, "ringtree_group_end");
    ringtree_request *mine = status == RINGTREE_OK ? rt_request_new(comm, comm->group_parts) : NULL;
    if (comm && comm->live == rt_comm_live) comm->grouping = false;
    if (status == RINGTREE_OK && !mine) status = no_memory(comm);
    if (status != RINGTREE_OK) {
        if (comm && comm->live == rt_comm_live) rt_group_drop(comm);
        return status;
    }
    start_all(comm, mine);
    return rt_request_hand(comm, mine, request);
}
