/* Messages between two ranks: send, recv, and the blocks of all_to_all_v. A message of no bytes is one empty slice. */
#include "engine.h"
#include "reduce/reduce.h"
#include <string.h>

static size_t next_bytes(const struct rt_engine *engine, const struct rt_transfer *transfer)
{
    const size_t left = transfer->bytes - transfer->moved;
    return left < engine->slot_bytes ? left : engine->slot_bytes;
}

static struct rt_frame next_frame(const struct rt_engine *engine, const struct rt_transfer *transfer, uint32_t lane)
{
    struct rt_frame frame = transfer->frame;
    frame.lane = (uint8_t)lane;
    frame.bytes = (uint32_t)next_bytes(engine, transfer);
    return frame;
}

ringtree_status rt_transfer_send(struct rt_engine *engine, struct rt_transfer *transfer, uint32_t lane, bool *moved,
                                 struct rt_error *error)
{
    struct rt_wire *wire = rt_wire(engine, true, lane, transfer->peer);
    while (!transfer->started || transfer->moved < transfer->bytes) {
        const struct rt_frame frame = next_frame(engine, transfer, lane);
        ringtree_status status = rt_wire_send(wire, &frame, transfer->memory + transfer->moved, error);
        if (status != RINGTREE_OK) return status;
        transfer->started = true;
        transfer->moved += frame.bytes;
        *moved = true;
    }
    if (rt_wire_idle(wire, error)) return RINGTREE_OK;
    return error->status ? error->status : RINGTREE_IN_PROGRESS;
}

ringtree_status rt_transfer_recv(struct rt_engine *engine, struct rt_transfer *transfer, uint32_t lane, bool *moved,
                                 struct rt_error *error)
{
    struct rt_link *link = rt_wire(engine, false, lane, transfer->peer)->link;
    while (!transfer->started || transfer->moved < transfer->bytes) {
        const struct rt_frame expect = next_frame(engine, transfer, lane);
        static unsigned char nowhere;
        void *into = transfer->memory ? transfer->memory + transfer->moved : &nowhere;
        struct rt_frame frame;
        const void *data;
        ringtree_status status = link->transport->recv(link, &expect, into, expect.bytes, &frame, &data, error);
        if (status != RINGTREE_OK) return status;
        if (!data || memcmp(&frame, &expect, sizeof frame) != 0)
            return rt_mismatch(engine, &expect, transfer->peer, &frame, error);
        link->transport->release(link);
        transfer->started = true;
        transfer->moved += frame.bytes;
        *moved = true;
    }
    return RINGTREE_OK;
}

/* A message to oneself: the first send and the first recv of this rank meet. */
static ringtree_status self_advance(struct rt_engine *engine, struct rt_transfer *send, struct rt_transfer *recv,
                                    struct rt_error *error)
{
    if (send->frame.count != recv->frame.count || send->frame.type != recv->frame.type)
        return rt_mismatch(engine, &recv->frame, engine->fabric.rank, &send->frame, error);
    if (send->bytes) rt_copy(recv->memory, send->memory, send->bytes);
    return RINGTREE_OK;
}

/* One block of all_to_all_v in each direction per peer; all of them move side by side. */
ringtree_status rt_transfers_advance(struct rt_engine *engine, struct rt_operation *operation, bool *moved,
                                     struct rt_error *error)
{
    ringtree_status result = RINGTREE_OK;
    for (uint32_t i = 1; i < engine->fabric.nranks; i++) {
        /* Every rank begins with its right neighbour, so that not all send to rank 0 first. */
        const uint32_t to = (engine->fabric.rank + i) % engine->fabric.nranks;
        const uint32_t from = (engine->fabric.rank + engine->fabric.nranks - i) % engine->fabric.nranks;
        ringtree_status sent = rt_transfer_send(engine, &operation->sends[to], RT_LANE_ALL_TO_ALL_V, moved, error);
        if (sent > RINGTREE_IN_PROGRESS) return sent;
        ringtree_status got = rt_transfer_recv(engine, &operation->recvs[from], RT_LANE_ALL_TO_ALL_V, moved, error);
        if (got > RINGTREE_IN_PROGRESS) return got;
        if (sent != RINGTREE_OK || got != RINGTREE_OK) result = RINGTREE_IN_PROGRESS;
    }
    if (result != RINGTREE_OK) return result;
    const uint32_t self = engine->fabric.rank;
    return self_advance(engine, &operation->sends[self], &operation->recvs[self], error);
}

static void transfer_finish(struct rt_engine *engine, struct rt_queue *queue)
{
    struct rt_transfer *transfer = queue->first;
    queue->first = transfer->next;
    if (!queue->first) queue->last = NULL;
    transfer->request->pending--;
    rt_transfer_drop(engine, transfer);
    engine->transfers--;
}

static ringtree_status peer_advance(struct rt_engine *engine, uint32_t peer, bool *moved, struct rt_error *error)
{
    struct rt_queue *sending = &engine->sending[peer], *receiving = &engine->receiving[peer];
    ringtree_status status = RINGTREE_OK;
    if (peer == engine->fabric.rank) {
        while (sending->first && receiving->first && status == RINGTREE_OK) {
            status = self_advance(engine, sending->first, receiving->first, error);
            if (status != RINGTREE_OK) return status;
            transfer_finish(engine, sending);
            transfer_finish(engine, receiving);
            *moved = true;
        }
        return status;
    }
    while (sending->first) {
        status = rt_transfer_send(engine, sending->first, RT_P2P_LANE, moved, error);
        if (status != RINGTREE_OK) break;
        transfer_finish(engine, sending);
        *moved = true;
    }
    if (status > RINGTREE_IN_PROGRESS) return status;
    while (receiving->first) {
        status = rt_transfer_recv(engine, receiving->first, RT_P2P_LANE, moved, error);
        if (status != RINGTREE_OK) return status;
        transfer_finish(engine, receiving);
        *moved = true;
    }
    return RINGTREE_OK;
}

bool rt_queues_advance(struct rt_engine *engine, struct rt_error *error, ringtree_status *status)
{
    bool moved = false;
    *status = RINGTREE_OK;
    for (uint32_t peer = 0; peer < engine->fabric.nranks && engine->transfers; peer++) {
        if (!engine->sending[peer].first && !engine->receiving[peer].first) continue;
        ringtree_status here = peer_advance(engine, peer, &moved, error);
        if (here > RINGTREE_IN_PROGRESS) {
            *status = here;
            break;
        }
    }
    return moved;
}

void rt_engine_transfer_start(struct rt_engine *engine, struct rt_transfer *transfer, bool sends)
{
    struct rt_queue *queue = sends ? &engine->sending[transfer->peer] : &engine->receiving[transfer->peer];
    transfer->frame.sequence = ++queue->sequence;
    transfer->next = NULL;
    if (queue->last) queue->last->next = transfer;
    else queue->first = transfer;
    queue->last = transfer;
    engine->transfers++;
}
