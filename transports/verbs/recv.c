/* The receiving end: slices lie in this link's slots, where the sender wrote them. */
#include "verbs.h"
#include "transports/frame.h"
#include <string.h>

#define CHECKED_BYTES 28 /* of the frame: all but `bytes` */

static unsigned char *slot(const struct rt_verbs_link *l, uint64_t number)
{
    return l->slots.memory + number % RT_VERBS_RING * l->stride;
}

/* The sender can still write there: take it once, believe only what was taken. */
static void read_frame(const struct rt_verbs_link *l, uint64_t number, struct rt_frame *frame)
{
    rt_frame_from_wire(slot(l, number) + RT_VERBS_HEAD - RT_VERBS_FRAME, frame);
}

/* Is slice `number` all there? *frame is it. */
static bool is_whole(const struct rt_verbs_link *l, uint64_t number, struct rt_frame *frame)
{
    const uint8_t have = l->parts[number % RT_VERBS_RING];
    if (!(have & 1) || number - l->released >= RT_VERBS_RING) return false;
    read_frame(l, number, frame);
    const uint8_t need = frame->bytes > l->link.slot_bytes ? 1 : rt_verbs_parts(frame->bytes, l->pair->queues);
    return (have & need) == need;
}

uint64_t rt_verbs_whole(const struct rt_verbs_link *l)
{
    struct rt_frame frame;
    uint64_t number = l->released;
    while (is_whole(l, number, &frame)) number++;
    return number;
}

ringtree_status rt_verbs_arrived(struct rt_verbs_link *l, const struct rt_verbs_note *note)
{
    uint64_t number;
    if (!rt_verbs_number(l->released, note->slice, RT_VERBS_RING - 1, &number)) return RINGTREE_PEER_LOST;
    uint8_t *parts = &l->parts[number % RT_VERBS_RING];
    if (*parts >> note->queue & 1) return RINGTREE_PEER_LOST;
    *parts |= (uint8_t)(1u << note->queue);
    l->news = true;
    return RINGTREE_OK;
}

void rt_verbs_owe(struct rt_verbs_link *l)
{
    const uint64_t released = l->released;
    l->owes = released - l->told >= RT_VERBS_OWED;
    if (!l->owes || !rt_verbs_send_credit(l->pair, released)) return;
    l->told = released;
    l->owes = false;
}

/* The slot is the sender's again. */
static void give_back(struct rt_verbs_link *l)
{
    l->parts[l->released % RT_VERBS_RING] = 0;
    l->released++;
    if (l->pair->failure.status == RINGTREE_OK) rt_verbs_owe(l);
}

static bool is_wanted(const struct rt_verbs_link *l, const struct rt_frame *expect, const void *into, size_t capacity)
{
    return l->frame.bytes <= l->link.slot_bytes && (!into || l->frame.bytes <= capacity) &&
           (!expect || memcmp(&l->frame, expect, CHECKED_BYTES) == 0);
}

static void deliver(struct rt_verbs_link *l, void *into, const void **data)
{
    const unsigned char *payload = slot(l, l->released) + RT_VERBS_HEAD;
    l->holds = true;
    l->holds_slot = into == NULL;
    *data = into ? into : payload;
    if (!into) return;
    if (l->frame.bytes) memcpy(into, payload, l->frame.bytes);
    give_back(l);
}

static ringtree_status recv_plain(struct rt_verbs_link *l, const struct rt_frame *expect, void *into, size_t capacity,
                                  struct rt_frame *frame, const void **data, struct rt_error *error)
{
    const ringtree_status status = l->plain->transport->recv(l->plain, expect, into, capacity, frame, data, error);
    l->holds = l->holds_plain = status == RINGTREE_OK && *data;
    return status;
}

ringtree_status rt_verbs_recv(struct rt_link *link, const struct rt_frame *expect, void *into, size_t capacity,
                              struct rt_frame *frame, const void **data, struct rt_error *error)
{
    struct rt_verbs_link *l = rt_verbs_link_of(link);
    *data = NULL;
    if (l->holds)
        return rt_fail(error, RINGTREE_INTERNAL, "a verbs link was asked for a slice while one is held");
    l->news = false;
    if (!is_whole(l, l->released, &l->frame)) {
        rt_verbs_progress(l->pair);
        if (!is_whole(l, l->released, &l->frame)) {
            if (l->plain) return recv_plain(l, expect, into, capacity, frame, data, error);
            return l->pair->failure.status == RINGTREE_OK ? RINGTREE_IN_PROGRESS : rt_verbs_failed(l->pair, error);
        }
    }
    *frame = l->frame;
    if (is_wanted(l, expect, into, capacity)) deliver(l, into, data);
    return RINGTREE_OK;
}

void rt_verbs_release(struct rt_link *link)
{
    struct rt_verbs_link *l = rt_verbs_link_of(link);
    if (!l->holds) return;
    if (l->holds_plain) l->plain->transport->release(l->plain);
    else if (l->holds_slot) give_back(l);
    l->holds = l->holds_slot = l->holds_plain = false;
}
