/* The sending end: slices go from where they lie into the receiver's slots. */
#include "verbs.h"
#include "transports/frame.h"
#include <stdio.h>
#include <string.h>

/* The memory for a slice's frame, or for all of it if it is short. */
static unsigned char *small(const struct rt_verbs_link *l, uint64_t number)
{
    return l->slots.memory + RT_VERBS_STAGING * (size_t)l->link.slot_bytes + number % RT_VERBS_RING * RT_VERBS_SMALL;
}

static unsigned char *staging(const struct rt_verbs_link *l, int32_t slot)
{
    return l->slots.memory + (size_t)slot * l->link.slot_bytes;
}

static uint32_t port_index(const struct rt_verbs_pair *pair, const struct rt_verbs_queue *queue)
{
    return (uint32_t)(queue->port - pair->verbs->port);
}

static bool has_room(const struct rt_verbs_queue *queue)
{
    return queue->posted - queue->done < RT_VERBS_SENDS - 2;
}

/* ---- requests */

static ringtree_status post(struct rt_verbs_pair *pair, struct rt_verbs_queue *queue, struct ibv_send_wr *wr,
                            bool completes)
{
    struct ibv_send_wr *bad;
    char here[120], reason[200];
    wr->wr_id = ++queue->posted;
    queue->quiet = completes || queue->quiet >= RT_VERBS_QUIET ? 0 : queue->quiet + 1;
    if (queue->quiet == 0) wr->send_flags |= IBV_SEND_SIGNALED;
    const int failed = ibv_post_send(queue->qp, wr, &bad);
    if (!failed) return RINGTREE_OK;
    snprintf(reason, sizeof(reason), "%s takes no request: %s", rt_verbs_port_text(queue->port, here, sizeof(here)),
             rt_errno_words(failed));
    rt_verbs_break(pair, queue->port, reason);
    return RINGTREE_IN_PROGRESS;
}

bool rt_verbs_send_credit(struct rt_verbs_pair *pair, uint64_t released)
{
    struct rt_verbs_queue *queue = &pair->queue[0];
    struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_IMM };
    if (pair->state != RT_VERBS_UP || !has_room(queue)) return false;
    wr.imm_data = htobe32(rt_verbs_note_put(RT_VERBS_CREDIT, 0, 0, released));
    return post(pair, queue, &wr, false) == RINGTREE_OK;
}

/* The frame, and what queue `i` carries of the payload. */
static int gather(const struct rt_verbs_link *l, uint64_t number, uint32_t i, struct ibv_sge sge[2], uint32_t *at)
{
    const struct rt_verbs_slice *slice = &l->slice[number % RT_VERBS_RING];
    const uint32_t port = port_index(l->pair, &l->pair->queue[i]);
    uint32_t begin, length = rt_verbs_part(slice->frame.bytes, l->pair->queues, i, &begin);
    int count = 0;
    *at = i == 0 ? RT_VERBS_HEAD - RT_VERBS_FRAME : RT_VERBS_HEAD + begin;
    if (i == 0)
        sge[count++] = (struct ibv_sge){ (uintptr_t)small(l, number),
                                         RT_VERBS_FRAME + (slice->is_short ? length : 0), l->slots.mr[port]->lkey };
    if (length && !slice->is_short)
        sge[count++] = (struct ibv_sge){ (uintptr_t)slice->data + begin, length, slice->mr[port]->lkey };
    return count;
}

static ringtree_status issue_part(struct rt_verbs_link *l, uint64_t number, uint32_t i)
{
    struct rt_verbs_pair *pair = l->pair;
    struct rt_verbs_queue *queue = &pair->queue[i];
    struct rt_verbs_slice *slice = &l->slice[number % RT_VERBS_RING];
    struct ibv_sge sge[2];
    uint32_t at;
    struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .sg_list = sge };
    wr.num_sge = gather(l, number, i, sge, &at);
    wr.imm_data = htobe32(rt_verbs_note_put(RT_VERBS_SLICE, i, number, pair->in ? pair->in->released : 0));
    wr.wr.rdma.remote_addr = pair->rings.address + number % RT_VERBS_RING * l->stride + at;
    wr.wr.rdma.rkey = pair->rings.key[queue->their_port];
    if (slice->is_short && sge[0].length <= queue->inline_bytes) wr.send_flags = IBV_SEND_INLINE;
    slice->post[i] = queue->posted + 1;
    return post(pair, queue, &wr, !slice->is_short || !(wr.send_flags & IBV_SEND_INLINE));
}

static ringtree_status issue(struct rt_verbs_link *l, uint64_t number)
{
    struct rt_verbs_pair *pair = l->pair;
    const uint8_t parts = rt_verbs_parts(l->slice[number % RT_VERBS_RING].frame.bytes, pair->queues);
    for (uint32_t i = 0; i < pair->queues; i++)
        if (parts >> i & 1 && !has_room(&pair->queue[i])) return RINGTREE_IN_PROGRESS;
    for (uint32_t i = 0; i < pair->queues; i++) {
        if (!(parts >> i & 1)) continue;
        const ringtree_status status = issue_part(l, number, i);
        if (status != RINGTREE_OK) return status;
    }
    if (pair->in) pair->in->told = pair->in->released; /* they carried it */
    return RINGTREE_OK;
}

/* ---- what is done */

void rt_verbs_forget(struct rt_verbs_link *l, uint64_t until)
{
    for (; l->sent < until; l->sent++) {
        struct rt_verbs_slice *slice = &l->slice[l->sent % RT_VERBS_RING];
        if (slice->staged >= 0) l->slots_used &= ~(1u << slice->staged);
        if (slice->held) rt_verbs_cache_release(slice->held);
        slice->staged = -1;
        slice->held = NULL;
    }
}

static bool is_acknowledged(const struct rt_verbs_link *l, const struct rt_verbs_slice *slice)
{
    const uint8_t parts = rt_verbs_parts(slice->frame.bytes, l->pair->queues);
    for (uint32_t i = 0; i < l->pair->queues; i++)
        if (parts >> i & 1 && l->pair->queue[i].done < slice->post[i]) return false;
    return true;
}

void rt_verbs_count_sent(struct rt_verbs_link *l)
{
    if (l->pair->state != RT_VERBS_UP && l->pair->state != RT_VERBS_BREAKING) return;
    while (l->sent < l->issued) {
        const struct rt_verbs_slice *slice = &l->slice[l->sent % RT_VERBS_RING];
        if (!slice->is_short && !is_acknowledged(l, slice)) break;
        rt_verbs_forget(l, l->sent + 1);
    }
}

ringtree_status rt_verbs_credit(struct rt_verbs_link *l, uint32_t low)
{
    const uint32_t ahead = (low - (uint32_t)l->credited) & RT_VERBS_NUMBER_MASK;
    const uint32_t behind = ((uint32_t)l->credited - low) & RT_VERBS_NUMBER_MASK;
    if (ahead <= l->issued - l->credited) l->credited += ahead;
    else if (behind > 2 * RT_VERBS_RING) return RINGTREE_PEER_LOST; /* else an older one, by another queue */
    return RINGTREE_OK;
}

/* ---- the table's calls */

ringtree_status rt_verbs_issue(struct rt_verbs_link *l)
{
    if (l->plain) return rt_verbs_plain_push(l);
    if (!l->pair->heard_rings) return RINGTREE_IN_PROGRESS;
    while (l->issued < l->posted && issue(l, l->issued) == RINGTREE_OK) l->issued++;
    rt_verbs_count_sent(l);
    return rt_verbs_failed(l->pair, NULL);
}

static ringtree_status push(struct rt_verbs_link *l)
{
    const ringtree_status status = rt_verbs_progress(l->pair);
    if (status != RINGTREE_OK) return status;
    l->news = false;
    return rt_verbs_issue(l);
}

static bool is_full(const struct rt_verbs_link *l)
{
    const uint64_t over = l->sent < l->credited ? l->sent : l->credited;
    return l->posted - over >= RT_VERBS_RING;
}

void *rt_verbs_reserve(struct rt_link *link, struct rt_error *error)
{
    struct rt_verbs_link *l = rt_verbs_link_of(link);
    if (l->reserved < 0) {
        if (push(l) != RINGTREE_OK) {
            rt_verbs_failed(l->pair, error);
            return NULL;
        }
        if (is_full(l)) return NULL;
        l->reserved = __builtin_ctz(~l->slots_used); /* fewer slices than slots are under way, so one is free */
    }
    return staging(l, l->reserved);
}

/* Where it lies, if that memory is registered; else a copy of it in a free slot. */
static void place_long(struct rt_verbs_link *l, struct rt_verbs_slice *slice, const void *data, bool reserved)
{
    const uint32_t bytes = slice->frame.bytes;
    struct rt_verbs_cache *cache = l->pair->verbs->cache;
    slice->data = data;
    if (!reserved && cache && bytes >= RT_VERBS_ZERO_COPY) slice->held = rt_verbs_cache_find(cache, data, bytes);
    if (slice->held) {
        slice->mr = slice->held->registered;
        return;
    }
    const uint32_t kept = l->slots_used | (l->reserved >= 0 ? 1u << l->reserved : 0);
    slice->staged = reserved ? l->reserved : __builtin_ctz(~kept);
    slice->data = staging(l, slice->staged);
    if (!reserved) memcpy(staging(l, slice->staged), data, bytes);
    l->slots_used |= 1u << slice->staged;
}

/* Registered memory for the payload; that of a short one is behind its frame. */
static void place(struct rt_verbs_link *l, struct rt_verbs_slice *slice, const void *data)
{
    const uint32_t bytes = slice->frame.bytes;
    const bool reserved = l->reserved >= 0 && data == staging(l, l->reserved);
    unsigned char *at = small(l, l->posted);
    rt_frame_to_wire(&slice->frame, at);
    slice->mr = l->slots.mr;
    slice->staged = -1;
    slice->held = NULL;
    slice->is_short = RT_VERBS_FRAME + bytes <= RT_VERBS_INLINE;
    slice->data = at + RT_VERBS_FRAME;
    if (!slice->is_short) place_long(l, slice, data, reserved);
    else if (bytes) memcpy(at + RT_VERBS_FRAME, data, bytes);
    if (reserved) l->reserved = -1;
}

ringtree_status rt_verbs_send(struct rt_link *link, const struct rt_frame *frame, const void *data,
                              struct rt_error *error)
{
    struct rt_verbs_link *l = rt_verbs_link_of(link);
    if (frame->bytes > link->slot_bytes)
        return rt_fail(error, RINGTREE_INTERNAL, "a slice of %u bytes was given to a verbs link of %u", frame->bytes,
                       link->slot_bytes);
    const ringtree_status status = push(l);
    if (status > RINGTREE_IN_PROGRESS) return rt_verbs_failed(l->pair, error);
    if (status == RINGTREE_IN_PROGRESS || is_full(l)) return RINGTREE_IN_PROGRESS;
    struct rt_verbs_slice *slice = &l->slice[l->posted % RT_VERBS_RING];
    slice->frame = *frame;
    place(l, slice, data);
    l->posted++;
    rt_verbs_issue(l); /* what came was taken a moment ago */
    return rt_verbs_failed(l->pair, error);
}

uint64_t rt_verbs_sent(struct rt_link *link, struct rt_error *error)
{
    struct rt_verbs_link *l = rt_verbs_link_of(link);
    push(l);
    rt_verbs_failed(l->pair, error);
    return l->sent;
}

bool rt_verbs_is_drained(struct rt_verbs_pair *pair, struct rt_verbs_queue *queue)
{
    struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE };
    if (queue->done == queue->posted) return true;
    if (queue->quiet && has_room(queue)) post(pair, queue, &wr, true);
    return false;
}

bool rt_verbs_flushed(struct rt_link *link)
{
    struct rt_verbs_link *l = rt_verbs_link_of(link);
    struct rt_verbs_pair *pair = l->pair;
    if (!link->sender || !pair || l->posted == 0) return true;
    const ringtree_status status = push(l);
    if (status > RINGTREE_IN_PROGRESS) return true;
    if (status == RINGTREE_IN_PROGRESS || l->issued < l->posted) return false;
    if (l->plain) return l->plain->transport->flushed(l->plain);
    bool all = true;
    for (uint32_t i = 0; i < pair->queues; i++) all &= rt_verbs_is_drained(pair, &pair->queue[i]);
    return all;
}
