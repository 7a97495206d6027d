/* The collectives of ringtree.h: checks arguments, describes the call, starts it. */
#include "collective.h"
#include <stdlib.h>
#include <string.h>

static ringtree_status bad(ringtree_comm *comm, const char *name, const char *what)
{
    return rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT, "ringtree_%s on rank %u: %s", name, comm->rank, what);
}

static ringtree_status check_type(ringtree_comm *comm, const char *name, ringtree_type type)
{
    if (ringtree_type_size(type)) return RINGTREE_OK;
    return rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT, "ringtree_%s on rank %u: %d is no ringtree_type", name,
                   comm->rank, (int)type);
}

static ringtree_status check_peer(ringtree_comm *comm, const char *name, const char *role, uint32_t peer)
{
    if (peer < comm->nranks) return RINGTREE_OK;
    return rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT, "ringtree_%s on rank %u: %s %u is not below the %u ranks",
                   name, comm->rank, role, peer, comm->nranks);
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return a_bytes && b_bytes && x < y + b_bytes && y < x + a_bytes;
}

/* In place means exactly the one alias that the call allows; any other overlap is an error. */
static ringtree_status check_buffers(ringtree_comm *comm, const char *name, const struct rt_buffers *b,
                                     struct rt_call *call)
{
    const size_t most = b->input_blocks > b->output_blocks ? b->input_blocks : b->output_blocks;
    size_t block, all;
    if (__builtin_mul_overflow(call->count, call->element, &block) || __builtin_mul_overflow(block, most, &all) ||
        all > SIZE_MAX / 2)
        return bad(comm, name, "count times the size of the type is more than memory can hold");
    if (block && b->input_blocks && !b->input) return bad(comm, name, "input is NULL and count is not 0");
    if (block && b->output_blocks && !b->output) return bad(comm, name, "output is NULL and count is not 0");
    if (!b->input_blocks || !b->output_blocks) return RINGTREE_OK;
    call->in_place = block && (const unsigned char *)b->input + b->in_place_input * block ==
                                  (const unsigned char *)b->output + b->in_place_output * block;
    if (!call->in_place && overlap(b->input, block * b->input_blocks, b->output, block * b->output_blocks))
        return bad(comm, name, "input and output overlap without being in place as ringtree.h defines it");
    return RINGTREE_OK;
}

static bool is_narrow(ringtree_type type)
{
    return type == RINGTREE_FLOAT16 || type == RINGTREE_BFLOAT16 || type == RINGTREE_FLOAT8_E4M3 ||
           type == RINGTREE_FLOAT8_E5M2;
}

static ringtree_status take_premul(ringtree_comm *comm, const char *name, ringtree_op op, struct rt_call *call)
{
    const uint32_t index = op - RT_PREMUL_OP;
    if (op < RT_PREMUL_OP || index >= RT_MOST_OPS || !comm->premul[index].used)
        return rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT, "ringtree_%s on rank %u: %u is no live ringtree_op",
                       name, comm->rank, op);
    if (comm->premul[index].type != call->type)
        return rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT,
                       "ringtree_%s on rank %u: this premul_sum operation was made for %s, not %s", name, comm->rank,
                       ringtree_type_name(comm->premul[index].type), ringtree_type_name(call->type));
    call->scaled = true;
    call->op = RINGTREE_SUM;
    call->frame.op = RT_PREMUL_OP;
    memcpy(call->scalar, comm->premul[index].scalar, sizeof call->scalar);
    return RINGTREE_OK;
}

static ringtree_status take_op(ringtree_comm *comm, const char *name, ringtree_op op, struct rt_call *call)
{
    if (op > RINGTREE_AVG) return take_premul(comm, name, op, call);
    call->op = op == RINGTREE_AVG ? RINGTREE_SUM : op;
    call->frame.op = op;
    call->divided_first = op == RINGTREE_AVG && is_narrow(call->type);
    call->divided_last = op == RINGTREE_AVG && !call->divided_first;
    return RINGTREE_OK;
}

static struct rt_call new_call(ringtree_collective collective, const void *input, void *output, size_t count,
                               ringtree_type type, uint32_t root)
{
    return (struct rt_call){
        .frame = { .count = count, .root = root, .collective = (uint8_t)collective, .type = (uint8_t)type },
        .input = input, .output = output, .count = count, .element = ringtree_type_size(type), .type = type,
    };
}

ringtree_status rt_call_make(ringtree_comm *comm, struct rt_call *call, ringtree_collective which,
                             const struct rt_buffers *b, size_t count, ringtree_type type, const ringtree_op *op,
                             uint32_t root)
{
    const char *name = ringtree_collective_name(which);
    *call = new_call(which, b->input, b->output, count, type, root);
    ringtree_status status = check_type(comm, name, type);
    if (status == RINGTREE_OK && op) status = take_op(comm, name, *op, call);
    return status == RINGTREE_OK ? check_buffers(comm, name, b, call) : status;
}

ringtree_status rt_call_enter(ringtree_comm *comm, ringtree_collective which, ringtree_request **request)
{
    static const char *const names[RINGTREE_COLLECTIVE_COUNT] = {
        "ringtree_all_reduce", "ringtree_reduce", "ringtree_broadcast", "ringtree_reduce_scatter",
        "ringtree_all_gather", "ringtree_all_to_all", "ringtree_gather", "ringtree_scatter", "ringtree_barrier",
        "ringtree_send or recv", "ringtree_all_to_all_v",
    };
    if (request) *request = NULL;
    ringtree_status status = rt_comm_check(comm, names[which]);
    if (status != RINGTREE_OK) return status;
    if (comm->grouping && request)
        return bad(comm, ringtree_collective_name(which),
                   "request must be NULL inside a group; ringtree_group_end gives one");
    return RINGTREE_OK;
}

static bool is_one_of(ringtree_collective which, uint32_t bits)
{
    return bits >> which & 1;
}

/* false: the call has ended with *status: done like an earlier one, or refused. */
static bool begins(ringtree_comm *comm, const struct rt_asked *asked, ringtree_request **request,
                   ringtree_status *status)
{
    const uint32_t rooted =
        1u << RINGTREE_REDUCE | 1u << RINGTREE_BROADCAST | 1u << RINGTREE_GATHER | 1u << RINGTREE_SCATTER;
    if (!request && rt_collective_again(comm, asked, status)) return false;
    *status = rt_call_enter(comm, asked->collective, request);
    if (*status == RINGTREE_OK && is_one_of(asked->collective, rooted))
        *status = check_peer(comm, ringtree_collective_name(asked->collective), "root", asked->root);
    return *status == RINGTREE_OK;
}

static ringtree_status collective(ringtree_comm *comm, const struct rt_asked *asked, const struct rt_buffers *b,
                                  ringtree_request **request)
{
    const uint32_t reducing = 1u << RINGTREE_ALL_REDUCE | 1u << RINGTREE_REDUCE | 1u << RINGTREE_REDUCE_SCATTER;
    struct rt_call call;
    ringtree_status status =
        rt_call_make(comm, &call, asked->collective, b, asked->count, asked->type,
                     is_one_of(asked->collective, reducing) ? &asked->op : NULL, asked->root);
    return status == RINGTREE_OK ? rt_collective_start(comm, &call, request) : status;
}

ringtree_status ringtree_all_reduce(ringtree_comm *comm, const void *input, void *output, size_t count,
                                    ringtree_type type, ringtree_op op, ringtree_request **request)
{
    const struct rt_asked asked = { RINGTREE_ALL_REDUCE, input, output, count, type, op, RT_NONE };
    ringtree_status status;
    if (!begins(comm, &asked, request, &status)) return status;
    const struct rt_buffers b = { input, output, 1, 1, 0, 0 };
    return collective(comm, &asked, &b, request);
}

ringtree_status ringtree_reduce(ringtree_comm *comm, const void *input, void *output, size_t count,
                                ringtree_type type, ringtree_op op, uint32_t root, ringtree_request **request)
{
    const struct rt_asked asked = { RINGTREE_REDUCE, input, output, count, type, op, root };
    ringtree_status status;
    if (!begins(comm, &asked, request, &status)) return status;
    const struct rt_buffers b = { input, output, 1, comm->rank == root, 0, 0 };
    return collective(comm, &asked, &b, request);
}

ringtree_status ringtree_broadcast(ringtree_comm *comm, const void *input, void *output, size_t count,
                                   ringtree_type type, uint32_t root, ringtree_request **request)
{
    const struct rt_asked asked = { RINGTREE_BROADCAST, input, output, count, type, 0, root };
    ringtree_status status;
    if (!begins(comm, &asked, request, &status)) return status;
    const struct rt_buffers b = { input, output, comm->rank == root, 1, 0, 0 };
    return collective(comm, &asked, &b, request);
}

ringtree_status ringtree_reduce_scatter(ringtree_comm *comm, const void *input, void *output, size_t count,
                                        ringtree_type type, ringtree_op op, ringtree_request **request)
{
    const struct rt_asked asked = { RINGTREE_REDUCE_SCATTER, input, output, count, type, op, RT_NONE };
    ringtree_status status;
    if (!begins(comm, &asked, request, &status)) return status;
    const struct rt_buffers b = { input, output, comm->nranks, 1, comm->rank, 0 };
    return collective(comm, &asked, &b, request);
}

ringtree_status ringtree_all_gather(ringtree_comm *comm, const void *input, void *output, size_t count,
                                    ringtree_type type, ringtree_request **request)
{
    const struct rt_asked asked = { RINGTREE_ALL_GATHER, input, output, count, type, 0, RT_NONE };
    ringtree_status status;
    if (!begins(comm, &asked, request, &status)) return status;
    const struct rt_buffers b = { input, output, 1, comm->nranks, 0, comm->rank };
    return collective(comm, &asked, &b, request);
}

ringtree_status ringtree_all_to_all(ringtree_comm *comm, const void *input, void *output, size_t count,
                                    ringtree_type type, ringtree_request **request)
{
    const struct rt_asked asked = { RINGTREE_ALL_TO_ALL, input, output, count, type, 0, RT_NONE };
    ringtree_status status;
    if (!begins(comm, &asked, request, &status)) return status;
    const struct rt_buffers b = { input, output, comm->nranks, comm->nranks, 0, 0 };
    return collective(comm, &asked, &b, request);
}

ringtree_status ringtree_gather(ringtree_comm *comm, const void *input, void *output, size_t count,
                                ringtree_type type, uint32_t root, ringtree_request **request)
{
    const struct rt_asked asked = { RINGTREE_GATHER, input, output, count, type, 0, root };
    ringtree_status status;
    if (!begins(comm, &asked, request, &status)) return status;
    const struct rt_buffers b = { input, output, 1, comm->rank == root ? comm->nranks : 0, 0, root };
    return collective(comm, &asked, &b, request);
}

ringtree_status ringtree_scatter(ringtree_comm *comm, const void *input, void *output, size_t count,
                                 ringtree_type type, uint32_t root, ringtree_request **request)
{
    const struct rt_asked asked = { RINGTREE_SCATTER, input, output, count, type, 0, root };
    ringtree_status status;
    if (!begins(comm, &asked, request, &status)) return status;
    const struct rt_buffers b = { input, output, comm->rank == root ? comm->nranks : 0, 1, root, 0 };
    return collective(comm, &asked, &b, request);
}

ringtree_status ringtree_barrier(ringtree_comm *comm, ringtree_request **request)
{
    const struct rt_asked asked = { RINGTREE_BARRIER, NULL, NULL, 1, RINGTREE_UINT8, 0, RT_NONE };
    ringtree_status status;
    if (!begins(comm, &asked, request, &status)) return status;
    /* where it goes as an all_reduce it carries one byte that nobody reads */
    struct rt_call call =
        new_call(RINGTREE_BARRIER, comm->barrier_byte, comm->barrier_byte + 1, 1, RINGTREE_UINT8, RT_NONE);
    call.frame.count = 0;
    return rt_collective_start(comm, &call, request);
}

/* ---- messages */

static ringtree_status message(ringtree_comm *comm, const char *name, const void *memory, size_t count,
                               ringtree_type type, uint32_t peer, ringtree_request **request)
{
    ringtree_status status = rt_call_enter(comm, RINGTREE_SEND_RECV, request);
    if (status == RINGTREE_OK) status = check_peer(comm, name, "peer", peer);
    if (status == RINGTREE_OK) status = check_type(comm, name, type);
    if (status != RINGTREE_OK) return status;
    const size_t element = ringtree_type_size(type);
    if (count > SIZE_MAX / 2 / element)
        return bad(comm, name, "count times the size of the type is more than memory can hold");
    if (count && !memory) return bad(comm, name, "the buffer is NULL and count is not 0");
    if (peer == comm->rank && !request && !comm->grouping)
        return bad(comm, name, "a rank exchanges messages with itself only by requests or in a group");
    const struct rt_transfer transfer = {
        .frame = { .count = count, .root = RT_NONE, .collective = RINGTREE_SEND_RECV, .type = (uint8_t)type },
        .memory = (unsigned char *)(uintptr_t)memory, .bytes = count * element, .peer = peer,
    };
    return rt_message_start(comm, &transfer, strcmp(name, "send") == 0, request);
}

ringtree_status ringtree_send(ringtree_comm *comm, const void *input, size_t count, ringtree_type type,
                              uint32_t peer, ringtree_request **request)
{
    return message(comm, "send", input, count, type, peer, request);
}

ringtree_status ringtree_recv(ringtree_comm *comm, void *output, size_t count, ringtree_type type,
                              uint32_t peer, ringtree_request **request)
{
    return message(comm, "recv", output, count, type, peer, request);
}

/* ---- all_to_all_v */

struct side {
    const char   *name;
    void         *memory;
    const size_t *counts, *offsets;
};

static ringtree_status check_side(ringtree_comm *comm, const struct side *side, size_t element)
{
    if (!side->counts || !side->offsets)
        return rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT,
                       "ringtree_all_to_all_v on rank %u: %s counts or offsets "
                       "are NULL",
                       comm->rank, side->name);
    for (uint32_t peer = 0; peer < comm->nranks; peer++) {
        const size_t most = SIZE_MAX / 4 / element;
        if (side->counts[peer] > most || side->offsets[peer] > most)
            return rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT,
                           "ringtree_all_to_all_v on rank %u: %s count or offset "
                           "of rank %u is more than memory can hold",
                           comm->rank, side->name, peer);
        if (side->counts[peer] && !side->memory)
            return rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT, "ringtree_all_to_all_v on rank %u: %s is NULL and "
                           "count of rank %u is not 0", comm->rank, side->name, peer);
    }
    return RINGTREE_OK;
}

/* From the lowest byte used to one past the highest. */
static void extent(const ringtree_comm *comm, const struct side *side, size_t element, uintptr_t *begin, uintptr_t *end)
{
    *begin = UINTPTR_MAX;
    *end = 0;
    for (uint32_t peer = 0; peer < comm->nranks; peer++) {
        if (!side->counts[peer]) continue;
        const uintptr_t at = (uintptr_t)side->memory + side->offsets[peer] * element;
        const uintptr_t past = at + side->counts[peer] * element;
        if (at < *begin) *begin = at;
        if (past > *end) *end = past;
    }
}

/* Blocks may lie between each other. */
static bool blocks_overlap(const ringtree_comm *comm, const struct side *in, const struct side *out, size_t element)
{
    for (uint32_t i = 0; i < comm->nranks; i++)
        for (uint32_t j = 0; j < comm->nranks; j++)
            if (overlap((const char *)in->memory + in->offsets[i] * element, in->counts[i] * element,
                        (const char *)out->memory + out->offsets[j] * element, out->counts[j] * element))
                return true;
    return false;
}

static ringtree_status check_sides(ringtree_comm *comm, const struct side *in, const struct side *out, size_t element)
{
    ringtree_status status = check_side(comm, in, element);
    if (status == RINGTREE_OK) status = check_side(comm, out, element);
    if (status != RINGTREE_OK) return status;
    uintptr_t in_begin, in_end, out_begin, out_end;
    extent(comm, in, element, &in_begin, &in_end);
    extent(comm, out, element, &out_begin, &out_end);
    if (in_begin < out_end && out_begin < in_end && blocks_overlap(comm, in, out, element))
        return bad(comm, "all_to_all_v", "input and output overlap; it cannot run in place");
    return RINGTREE_OK;
}

static struct rt_transfer *side_transfers(const ringtree_comm *comm, const struct side *side, ringtree_type type)
{
    struct rt_transfer *transfers = calloc(comm->nranks, sizeof *transfers);
    const size_t element = ringtree_type_size(type);
    for (uint32_t peer = 0; transfers && peer < comm->nranks; peer++)
        transfers[peer] = (struct rt_transfer){
            .frame = { .count = side->counts[peer], .root = RT_NONE, .collective = RINGTREE_ALL_TO_ALL_V,
                       .type = (uint8_t)type },
            .memory = side->memory ? (unsigned char *)side->memory + side->offsets[peer] * element : NULL,
            .bytes = side->counts[peer] * element, .peer = peer,
        };
    return transfers;
}

ringtree_status ringtree_all_to_all_v(ringtree_comm *comm, const void *input, const size_t *input_counts,
                                      const size_t *input_offsets, void *output, const size_t *output_counts,
                                      const size_t *output_offsets, ringtree_type type, ringtree_request **request)
{
    ringtree_status status = rt_call_enter(comm, RINGTREE_ALL_TO_ALL_V, request);
    if (status == RINGTREE_OK) status = check_type(comm, "all_to_all_v", type);
    if (status != RINGTREE_OK) return status;
    const struct side in = { "input", (void *)(uintptr_t)input, input_counts, input_offsets };
    const struct side out = { "output", output, output_counts, output_offsets };
    status = check_sides(comm, &in, &out, ringtree_type_size(type));
    if (status != RINGTREE_OK) return status;
    struct rt_transfer *sends = side_transfers(comm, &in, type), *recvs = side_transfers(comm, &out, type);
    if (!sends || !recvs) {
        free(sends);
        free(recvs);
        return rt_fail(&comm->error, RINGTREE_NO_MEMORY, "rank %u: no memory for all_to_all_v", comm->rank);
    }
    /* counts differ from rank to rank, so the order of calls is compared without them */
    struct rt_call call = new_call(RINGTREE_ALL_TO_ALL_V, NULL, NULL, 0, type, RT_NONE);
    return rt_transfers_start(comm, &call, sends, recvs, request);
}
