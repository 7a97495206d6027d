/*
 * A link in shared memory: a ring of slots. A slot has one cache line with its turn, the frame, and the payload itself
 * while that is at most RT_SLOT_INLINE bytes; longer payload lies in the slot's own memory. Message number k (from 1)
 * goes into slot (k - 1) mod slots; its turn becomes k once all of it is written. The receiver counts what it has taken
 * in a line of its own, which the sender reads only when its own copy says that the ring is full.
 *
 * Each word has one writer. What comes from the peer is read once and checked: a damaged ring is an error, not a crash.
 */
#include "inside.h"
#include "reduce/reduce.h"
#include <stdio.h>
#include <string.h>

struct ring_slot {
    _Atomic uint64_t turn; /* 0: never used */
    _Atomic uint64_t frame[sizeof(struct rt_frame) / 8];
    unsigned char    tiny[RT_SLOT_INLINE];
};
_Static_assert(sizeof(struct ring_slot) == 64, "one line");

struct ring {
    _Atomic uint64_t taken; /* messages; written by the receiver */
    unsigned char    pad[RT_NODE_LINE - 8];
    struct ring_slot slot[];
};

struct shm_link {
    struct rt_link link;
    struct ring   *ring; /* NULL until open() succeeded */
    unsigned char *payload;
    uint32_t       peer; /* local index */
    uint64_t       count; /* sender: messages sent. Receiver: taken */
    uint64_t       base;  /* count at open() */
    uint64_t       taken; /* sender: a copy */
};

static struct shm_link *shm(struct rt_link *link)
{
    return (struct shm_link *)link;
}

static bool shm_reaches(const struct rt_fabric *fabric, uint32_t peer, char *why, size_t capacity)
{
    if (fabric->node && rt_node_find(fabric->node, peer) != RT_NONE) return true;
    if (!why) return false;
    const struct rt_place *places = fabric->control ? rt_control_places(fabric->control) : NULL;
    const bool one_host = places && places[peer].host_key == places[fabric->rank].host_key;
    snprintf(why, capacity, "rank %u shares no memory with rank %u%s", fabric->rank, peer,
             one_host ? " (why not is in the log of RINGTREE_LOG=warn)" : "");
    return false;
}

static ringtree_status damaged(const struct shm_link *self, const char *what, uint64_t found, uint64_t expected,
                               struct rt_error *error)
{
    const struct rt_link *link = &self->link;
    return rt_fail(error, RINGTREE_INTERNAL, "rank %u: the memory of the shm link %s rank %u, lane %u, is damaged: "
                   "%s is %" PRIu64 " near message %" PRIu64 "; some code here writes outside of its buffers",
                   link->fabric->rank, link->sender ? "to" : "from", link->peer, link->lane, what, found, expected);
}

/* ---- opening. The state is in the ring, so a link may be closed and opened again. */

static ringtree_status resume_sender(struct shm_link *self, struct rt_error *error)
{
    for (uint32_t i = 0; i < self->link.slots; i++) {
        const uint64_t turn = atomic_load_explicit(&self->ring->slot[i].turn, memory_order_relaxed);
        if (turn && (turn - 1) % self->link.slots != i) return damaged(self, "a turn", turn, i, error);
        if (turn > self->count) self->count = turn;
    }
    self->taken = atomic_load_explicit(&self->ring->taken, memory_order_acquire);
    if (self->taken > self->count || self->count - self->taken > self->link.slots)
        return damaged(self, "the receiver's count", self->taken, self->count, error);
    return RINGTREE_OK;
}

static ringtree_status link_open(struct rt_link *link, struct rt_error *error)
{
    struct shm_link *self = shm(link);
    struct rt_node *node = link->fabric->node;
    const uint32_t peer = node ? rt_node_find(node, link->peer) : RT_NONE;
    if (peer == RT_NONE || link->lane >= RT_LINK_LANES)
        return rt_fail(error, RINGTREE_UNREACHABLE, "rank %u has no shm link to rank %u, lane %u: they share no memory",
                       link->fabric->rank, link->peer, link->lane);
    const uint32_t own = rt_node_index(node), from = link->sender ? own : peer, to = link->sender ? peer : own;
    unsigned char *memory = rt_node_link(node, from, to, link->lane);
    link->slots = node->file.layout.slots;
    link->slot_bytes = node->file.layout.slot_bytes;
    self->payload = memory + node->file.layout.link_payload;
    self->peer = peer;
    self->ring = (struct ring *)memory;
    ringtree_status status = RINGTREE_OK;
    if (link->sender) status = resume_sender(self, error);
    else self->count = atomic_load_explicit(&self->ring->taken, memory_order_relaxed);
    self->base = self->count;
    return status;
}

static void link_close(struct rt_link *link)
{
    shm(link)->ring = NULL; /* the memory is the node's */
}

/* ---- sending */

static ringtree_status slot_free(struct shm_link *self, struct rt_error *error)
{
    if (self->count - self->taken < self->link.slots) return RINGTREE_OK;
    const uint64_t taken = atomic_load_explicit(&self->ring->taken, memory_order_acquire);
    if (taken < self->taken || taken > self->count)
        return damaged(self, "the receiver's count", taken, self->count, error);
    self->taken = taken;
    return self->count - taken < self->link.slots ? RINGTREE_OK : RINGTREE_IN_PROGRESS;
}

static unsigned char *slot_memory(const struct shm_link *self)
{
    return self->payload + self->count % self->link.slots * self->link.slot_bytes;
}

static void *slot_reserve(struct rt_link *link, struct rt_error *error)
{
    struct shm_link *self = shm(link);
    return slot_free(self, error) == RINGTREE_OK ? slot_memory(self) : NULL;
}

static void frame_write(struct ring_slot *slot, const struct rt_frame *frame)
{
    uint64_t words[sizeof *frame / 8];
    memcpy(words, frame, sizeof words);
    for (size_t i = 0; i < sizeof words / 8; i++)
        atomic_store_explicit(&slot->frame[i], words[i], memory_order_relaxed);
}

static ringtree_status slice_send(struct rt_link *link, const struct rt_frame *frame, const void *data,
                            struct rt_error *error)
{
    struct shm_link *self = shm(link);
    ringtree_status status = slot_free(self, error);
    if (status != RINGTREE_OK) return status;
    if (frame->bytes > link->slot_bytes)
        return rt_fail(error, RINGTREE_INTERNAL, "rank %u: a slice of %u bytes for rank %u is longer than a slot of %u",
                       link->fabric->rank, frame->bytes, link->peer, link->slot_bytes);
    struct ring_slot *slot = &self->ring->slot[self->count % link->slots];
    if (frame->bytes > RT_SLOT_INLINE) {
        unsigned char *memory = slot_memory(self);
        if (data != memory) rt_copy(memory, data, frame->bytes);
    } else if (frame->bytes) {
        memcpy(slot->tiny, data, frame->bytes);
    }
    frame_write(slot, frame);
    atomic_store_explicit(&slot->turn, ++self->count, memory_order_release);
    rt_node_ring(link->fabric->node, self->peer);
    return RINGTREE_OK;
}

static uint64_t slices_sent(struct rt_link *link, struct rt_error *error)
{
    (void)error;
    return shm(link)->count - shm(link)->base; /* all is copied: nothing is ever borrowed */
}

static bool link_flushed(struct rt_link *link)
{
    (void)link;
    return true;
}

/* ---- receiving */

static void frame_read(const struct ring_slot *slot, struct rt_frame *frame)
{
    uint64_t words[sizeof *frame / 8];
    for (size_t i = 0; i < sizeof words / 8; i++)
        words[i] = atomic_load_explicit(&slot->frame[i], memory_order_relaxed);
    memcpy(frame, words, sizeof *frame);
}

static ringtree_status turn_wait(const struct shm_link *self, const struct ring_slot *slot, struct rt_error *error)
{
    const uint64_t next = self->count + 1, slots = self->link.slots;
    const uint64_t turn = atomic_load_explicit(&slot->turn, memory_order_acquire);
    if (turn == next) return RINGTREE_OK;
    if (turn == (next > slots ? next - slots : 0)) return RINGTREE_IN_PROGRESS;
    return damaged(self, "a turn", turn, next, error);
}

static ringtree_status slice_recv(struct rt_link *link, const struct rt_frame *expect, void *into, size_t capacity,
                            struct rt_frame *frame, const void **data, struct rt_error *error)
{
    struct shm_link *self = shm(link);
    const uint64_t index = self->count % link->slots;
    const struct ring_slot *slot = &self->ring->slot[index];
    *data = NULL;
    ringtree_status status = turn_wait(self, slot, error);
    if (status != RINGTREE_OK) return status;
    frame_read(slot, frame);
    if (frame->bytes > link->slot_bytes) return RINGTREE_OK;
    const void *memory = frame->bytes > RT_SLOT_INLINE ? self->payload + index * link->slot_bytes : slot->tiny;
    if (!into) {
        *data = memory;
        return RINGTREE_OK;
    }
    if (frame->bytes > capacity || (expect && memcmp(frame, expect, offsetof(struct rt_frame, bytes)) != 0))
        return RINGTREE_OK;
    if (frame->bytes) rt_copy(into, memory, frame->bytes);
    *data = into;
    return RINGTREE_OK;
}

static void slice_release(struct rt_link *link)
{
    struct shm_link *self = shm(link);
    atomic_store_explicit(&self->ring->taken, ++self->count, memory_order_release);
    rt_node_ring(link->fabric->node, self->peer);
}

static int link_pollfd(struct rt_link *link, short *events)
{
    (void)link;
    *events = 0;
    return -1;
}

static const char *link_describe(struct rt_link *link, char *text, size_t capacity)
{
    (void)link;
    snprintf(text, capacity, "shm");
    return text;
}

const struct rt_transport rt_transport_shm = {
    .size = sizeof(struct rt_transport),
    .name = "shm",
    .link_size = sizeof(struct shm_link),
    .reaches = shm_reaches,
    .open = link_open,
    .reserve = slot_reserve,
    .send = slice_send,
    .sent = slices_sent,
    .recv = slice_recv,
    .release = slice_release,
    .pollfd = link_pollfd,
    .flushed = link_flushed,
    .close = link_close,
    .describe = link_describe,
    .guess = { { 0.32e-6, 0.071e-9 } },
};
