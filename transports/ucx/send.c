/* The sending end: one active message a slice; UCX chooses between copying and rendezvous. */
#include "ucx.h"
#include <endian.h>
#include <string.h>

static struct rt_ucx_link *ucx_link(struct rt_link *link)
{
    return (struct rt_ucx_link *)link;
}

static void slice_left(void *request, ucs_status_t status, void *argument)
{
    struct rt_ucx_slice *slice = argument;
    struct rt_ucx_sending *sending = slice->of;
    slice->pending = false;
    sending->pending--;
    if (status != UCS_OK && sending->failure == UCS_OK) sending->failure = status;
    sending->ucx->call->ucp_request_free(request);
}

/* What has happened to the link meanwhile. OK: it may go on. */
static ringtree_status look(struct rt_ucx_link *l)
{
    struct rt_ucx_pair *pair = l->pair;
    if (l->failure.status != RINGTREE_OK) return l->failure.status;
    if (pair->stage != RT_UCX_CONNECTED) {
        const ringtree_status status = rt_ucx_pair_connect(l);
        if (status != RINGTREE_OK) return status;
    }
    if (pair->failure.status != RINGTREE_OK)
        return rt_ucx_fail(l, pair->failure.status, "%s", pair->failure.text);
    if (l->sending->failure != UCS_OK) return rt_ucx_lost(l, l->sending->failure, "while sending");
    if (pair->gone || pair->out_closed[l->link.lane]) return rt_ucx_ended(l, "while slices were sent to it");
    return RINGTREE_OK;
}

void rt_ucx_taken(struct rt_ucx_link *l, uint8_t taken)
{
    const uint32_t more = (uint8_t)(taken - l->taken);
    if (more <= (uint32_t)l->posted - l->taken) l->taken += more;
}

static unsigned char *staging(const struct rt_ucx_link *l)
{
    return l->sending->memory + (size_t)(l->posted % RT_UCX_SLOTS) * l->link.slot_bytes;
}

/* OK: a slice can be sent now. */
static ringtree_status make_room(struct rt_ucx_link *l)
{
    ringtree_status status = look(l);
    l->wants_room = false;
    if (status != RINGTREE_OK || rt_ucx_room(l)) return status;
    rt_ucx_progress(l->ucx);
    status = look(l);
    l->wants_room = !rt_ucx_room(l);
    return status == RINGTREE_OK && l->wants_room ? RINGTREE_IN_PROGRESS : status;
}

void *rt_ucx_reserve(struct rt_link *link, struct rt_error *error)
{
    struct rt_ucx_link *l = ucx_link(link);
    const ringtree_status status = make_room(l);
    if (status > RINGTREE_IN_PROGRESS) rt_ucx_failed(l, error);
    return status == RINGTREE_OK ? staging(l) : NULL;
}

/* Is this frame told by the last one and how much later it is? */
static bool is_later(const struct rt_frame *frame, const struct rt_frame *last)
{
    const size_t at = offsetof(struct rt_frame, count);
    return frame->sequence - last->sequence <= UINT32_MAX &&
           memcmp((const char *)frame + at, (const char *)last + at, offsetof(struct rt_frame, bytes) - at) == 0;
}

/* Returns how many bytes of the header go. */
static size_t fill_header(const struct rt_ucx_link *l, struct rt_ucx_header *header, const struct rt_frame *frame)
{
    const struct rt_ucx_pair *pair = l->pair;
    const struct rt_ucx_inbound *in = pair->in[l->link.lane];
    header->token = htole64(pair->token_out);
    header->rank = htole32(l->link.fabric->rank);
    header->number = (uint8_t)l->posted;
    header->taken = in ? (uint8_t)in->next : 0;
    header->way = (uint8_t)rt_ucx_way_there(pair->way);
    header->lane = (uint8_t)l->link.lane;
    header->later = htole32((uint32_t)(frame->sequence - l->sending->last.sequence));
    const bool brief = l->posted && is_later(frame, &l->sending->last);
    l->sending->last = *frame;
    if (brief) return RT_UCX_SHORT_BYTES;
    header->frame = *frame;
    rt_ucx_frame_order(&header->frame);
    return sizeof(*header);
}

/* Hands the slice to UCX. */
static ringtree_status post(struct rt_ucx_link *l, struct rt_ucx_slice *slice, size_t header_bytes, const void *data,
                            uint32_t bytes)
{
    const ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                        UCP_OP_ATTR_FIELD_FLAGS,
                                        .flags = bytes <= l->pair->eager_bytes ? UCP_AM_SEND_FLAG_EAGER : 0,
                                        .cb.send = slice_left, .user_data = slice };
    void *request = l->ucx->call->ucp_am_send_nbx(l->pair->endpoint, RT_UCX_SLICE, &slice->header,
                                                  header_bytes, data, bytes, &param);
    if (UCS_PTR_IS_ERR(request)) return rt_ucx_lost(l, UCS_PTR_STATUS(request), "while sending");
    slice->pending = request != NULL;
    l->sending->pending += request != NULL;
    return RINGTREE_OK;
}

ringtree_status rt_ucx_send(struct rt_link *link, const struct rt_frame *frame, const void *data,
                            struct rt_error *error)
{
    struct rt_ucx_link *l = ucx_link(link);
    if (frame->bytes > link->slot_bytes)
        return rt_fail(error, RINGTREE_INTERNAL, "a slice of %u bytes was given to a ucx link of %u", frame->bytes,
                       link->slot_bytes);
    ringtree_status status = make_room(l);
    if (status == RINGTREE_IN_PROGRESS) return status;
    if (status != RINGTREE_OK) return rt_ucx_failed(l, error);
    struct rt_ucx_slice *slice = &l->sending->slice[l->posted % RT_UCX_SLOTS];
    const size_t header_bytes = fill_header(l, &slice->header, frame);
    if (post(l, slice, header_bytes, data, frame->bytes) != RINGTREE_OK) return rt_ucx_failed(l, error);
    struct rt_ucx_inbound *in = l->pair->in[link->lane];
    if (in) in->told = in->next;
    l->posted++;
    return RINGTREE_OK;
}

uint64_t rt_ucx_sent(struct rt_link *link, struct rt_error *error)
{
    struct rt_ucx_link *l = ucx_link(link);
    l->wants_room = false;
    if (look(l) == RINGTREE_OK && l->sending->pending) rt_ucx_progress(l->ucx);
    if (look(l) > RINGTREE_IN_PROGRESS) {
        rt_ucx_failed(l, error);
        return l->sent;
    }
    while (l->sent < l->posted && !l->sending->slice[l->sent % RT_UCX_SLOTS].pending) l->sent++;
    return l->sent;
}

bool rt_ucx_flushed(struct rt_link *link)
{
    struct rt_ucx_link *l = ucx_link(link);
    return !link->sender || l->sent == l->posted || rt_ucx_sent(link, NULL) == l->posted ||
           l->failure.status != RINGTREE_OK;
}
