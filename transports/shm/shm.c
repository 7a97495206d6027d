/*
 * Links in shared memory: a ring of slots from one rank to another. The sender owns the slots' headers, the receiver
 * owns the tail. A header is one cache line with the slice's number, its frame and up to 16 bytes of payload, so that a
 * tiny message crosses in one line; larger payload follows behind it.
 *
 * The number says that slot is full: slice k (from 1) lies in slot k mod slots. Release and acquire on it, and on the
 * tail, are all the ordering there is.
 */
#include "inside.h"
#include "reduce/reduce.h"
#include <stdio.h>
#include <string.h>

#define INLINE 16

struct slot {
    _Atomic uint64_t number;
    struct rt_frame  frame;
    unsigned char    payload[INLINE];
    unsigned char    pad[8];
};
_Static_assert(sizeof(struct slot) == 64, "one cache line");

struct shm_link {
    struct rt_link    link;
    struct rt_node   *node;
    unsigned char    *memory;
    _Atomic uint64_t *tail; /* slices released by the receiver */
    uint64_t          next; /* number of the next slice */
    uint64_t          seen_tail;
    uint32_t          peer; /* local index */
};

static bool shm_reaches(const struct rt_fabric *fabric, uint32_t peer, char *why, size_t capacity)
{
    if (fabric->node && rt_node_find(fabric->node, peer) != RT_NONE) return true;
    if (why) snprintf(why, capacity, "they share no memory (another machine, network namespace or RINGTREE_HOST)");
    return false;
}

static ringtree_status shm_open(struct rt_link *link, struct rt_error *error)
{
    struct shm_link *shm = (struct shm_link *)link;
    struct rt_node *node = shm->node = link->fabric->node;
    const uint32_t self = rt_node_index(node);
    shm->peer = rt_node_find(node, link->peer);
    shm->memory = link->sender ? rt_node_map_link(node, self, shm->peer, link->lane)
                               : rt_node_map_link(node, shm->peer, self, link->lane);
    if (!shm->memory)
        return rt_fail_errno(error, "rank %u: cannot map the link with rank %u", link->fabric->rank, link->peer);
    shm->tail = (_Atomic uint64_t *)shm->memory;
    shm->next = 1;
    link->slots = node->slots;
    link->slot_bytes = node->slot_bytes;
    return RINGTREE_OK;
}

static struct slot *slot_of(const struct shm_link *shm, uint64_t number)
{
    return (struct slot *)(shm->memory + RT_LINK_HEADER + number % shm->link.slots * RT_SLOT_STRIDE(shm->link.slot_bytes));
}

static unsigned char *payload_of(struct slot *slot)
{
    return (unsigned char *)(slot + 1);
}

static bool has_room(struct shm_link *shm)
{
    if (shm->next - shm->seen_tail <= shm->link.slots) return true;
    shm->seen_tail = atomic_load_explicit(shm->tail, memory_order_acquire);
    return shm->next - shm->seen_tail <= shm->link.slots;
}

static void *shm_reserve(struct rt_link *link, struct rt_error *error)
{
    struct shm_link *shm = (struct shm_link *)link;
    (void)error;
    return has_room(shm) ? payload_of(slot_of(shm, shm->next)) : NULL;
}

static ringtree_status shm_send(struct rt_link *link, const struct rt_frame *frame, const void *data,
                                struct rt_error *error)
{
    struct shm_link *shm = (struct shm_link *)link;
    if (frame->bytes > link->slot_bytes)
        return rt_fail(error, RINGTREE_INTERNAL, "a slice of %u bytes for slots of %u", frame->bytes, link->slot_bytes);
    if (!has_room(shm)) return RINGTREE_IN_PROGRESS;
    struct slot *slot = slot_of(shm, shm->next);
    slot->frame = *frame;
    if (frame->bytes && frame->bytes <= INLINE) memcpy(slot->payload, data, frame->bytes);
    else if (frame->bytes && data != payload_of(slot)) rt_copy(payload_of(slot), data, frame->bytes);
    atomic_store_explicit(&slot->number, shm->next++, memory_order_release);
    rt_node_ring(shm->node, shm->peer);
    return RINGTREE_OK;
}

static uint64_t shm_sent(struct rt_link *link, struct rt_error *error)
{
    (void)error;
    return ((struct shm_link *)link)->next - 1; /* always copied */
}

static ringtree_status shm_recv(struct rt_link *link, const struct rt_frame *expect, void *into, size_t capacity,
                                struct rt_frame *frame, const void **data, struct rt_error *error)
{
    struct shm_link *shm = (struct shm_link *)link;
    struct slot *slot = slot_of(shm, shm->next);
    (void)error;
    if (atomic_load_explicit(&slot->number, memory_order_acquire) != shm->next) return RINGTREE_IN_PROGRESS;
    *frame = slot->frame; /* read once: what is checked is what is used */
    *data = NULL;
    if (memcmp(frame, expect, 28) != 0 || frame->bytes > link->slot_bytes || (into && frame->bytes > capacity))
        return RINGTREE_OK;
    const unsigned char *payload = frame->bytes <= INLINE ? slot->payload : payload_of(slot);
    if (into && frame->bytes) rt_copy(into, payload, frame->bytes);
    *data = into ? into : payload;
    return RINGTREE_OK;
}

static void shm_release(struct rt_link *link)
{
    struct shm_link *shm = (struct shm_link *)link;
    atomic_store_explicit(shm->tail, shm->next++, memory_order_release);
    rt_node_ring(shm->node, shm->peer);
}

static int shm_pollfd(struct rt_link *link, short *events)
{
    (void)link;
    (void)events;
    return -1;
}

static bool shm_flushed(struct rt_link *link)
{
    (void)link;
    return true; /* the slots outlive this process for as long as the receiver maps them */
}

static void shm_close(struct rt_link *link)
{
    struct shm_link *shm = (struct shm_link *)link;
    if (shm->memory) rt_node_unmap_link(shm->node, shm->memory);
    shm->memory = NULL;
}

static const char *shm_describe(struct rt_link *link, char *text, size_t capacity)
{
    snprintf(text, capacity, "shm, %u slots of %u bytes", link->slots, link->slot_bytes);
    return text;
}

const struct rt_transport rt_transport_shm = {
    .size = sizeof(struct rt_transport), .name = "shm", .link_size = sizeof(struct shm_link), .reaches = shm_reaches,
    .open = shm_open, .reserve = shm_reserve, .send = shm_send, .sent = shm_sent, .recv = shm_recv,
    .release = shm_release, .pollfd = shm_pollfd, .flushed = shm_flushed, .close = shm_close, .describe = shm_describe,
};
