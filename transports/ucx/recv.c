/*
 * The receiving end. UCX gives what came to rt_ucx_slice_came(), which only checks and remembers it; rt_ucx_recv()
 * gives it on in order: in UCX's own memory where that will do, fetched or copied where the caller wants it.
 */
#include "ucx.h"
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define CHECKED_BYTES 28 /* of the frame: all but `bytes` */
/* Payloads that are copied out of UCX's memory at once. A kept buffer costs the next message that comes by its place a
 * cache line from the other core, and gets dearer than a copy only beyond about this (perf/baseline/ucx.md). */
#define COPIED_BYTES  2048
#define GONE_GRACE_NS UINT64_C(100000000) /* what a dead process had sent may still be under way */

static struct rt_ucx_link *ucx_link(struct rt_link *link)
{
    return (struct rt_ucx_link *)link;
}

struct rt_ucx_inbound *rt_ucx_inbound(struct rt_ucx_pair *pair, uint32_t lane)
{
    if (pair->in[lane]) return pair->in[lane];
    struct rt_ucx_inbound *in = calloc(1, sizeof(*in));
    if (!in) return NULL;
    in->ucx = pair->ucx;
    in->pair = pair;
    in->lane = lane;
    for (uint32_t i = 0; i < RT_UCX_SLOTS; i++) in->arrival[i].of = in;
    return pair->in[lane] = in;
}

static void forget(struct rt_ucx *ucx, struct rt_ucx_arrival *a)
{
    if (a->retained || a->state == RT_UCX_OFFERED) ucx->call->ucp_am_data_release(ucx->worker, a->data);
    a->retained = false;
    a->state = RT_UCX_NONE;
}

void rt_ucx_inbound_drop(struct rt_ucx_inbound *in)
{
    struct rt_ucx *ucx = in->pair->ucx;
    in->pair->in[in->lane] = NULL;
    for (uint32_t i = 0; i < RT_UCX_SLOTS; i++)
        if (in->arrival[i].state != RT_UCX_COMING) forget(ucx, &in->arrival[i]);
    in->orphan = ucx->inbound_orphans;
    ucx->inbound_orphans = in;
}

/* ---- what UCX calls */

/* Whose message it is; NULL: a stranger's, or one that comes after all is over. */
static struct rt_ucx_pair *pair_of(struct rt_ucx *ucx, const void *header, size_t header_bytes,
                                   struct rt_ucx_header *h)
{
    const bool right = header_bytes == RT_UCX_SHORT_BYTES || header_bytes == sizeof(*h);
    if (right) memcpy(h, header, header_bytes);
    if (right && le32toh(h->rank) < ucx->fabric->nranks && h->way < RT_UCX_WAYS &&
        h->lane < RT_LINK_LANES) {
        struct rt_ucx_pair *pair = ucx->pairs[le32toh(h->rank) * RT_UCX_WAYS + h->way];
        if (pair && pair->token_in == le64toh(h->token)) return pair;
    }
    ucx->strays++;
    return NULL;
}

ucs_status_t rt_ucx_credit_came(void *argument, const void *header, size_t header_bytes, void *data, size_t bytes,
                                const ucp_am_recv_param_t *param)
{
    struct rt_ucx_header h;
    (void)data, (void)bytes, (void)param;
    const struct rt_ucx_pair *pair = pair_of(argument, header, header_bytes, &h);
    if (pair && pair->out[h.lane]) rt_ucx_taken(pair->out[h.lane], h.taken);
    return UCS_OK;
}

/* A place of our own for the payload; NULL: no memory. Most arrivals are short, and have one for all of a lane. */
static void *own_place(struct rt_ucx_arrival *a, size_t bytes)
{
    struct rt_ucx_inbound *in = a->of;
    if (bytes <= COPIED_BYTES) {
        if (!in->copies) in->copies = malloc(RT_UCX_SLOTS * COPIED_BYTES);
        return in->copies ? in->copies + (size_t)(a - in->arrival) * COPIED_BYTES : NULL;
    }
    if (!a->memory) a->memory = malloc(in->ucx->fabric->settings->number[RT_UCX_SLOT_BYTES]);
    return a->memory;
}

/* What UCX calls with a payload is its own memory, which may be kept only where it says so. */
static ucs_status_t keep(struct rt_ucx_arrival *a, void *data, size_t bytes, uint64_t attributes)
{
    static unsigned char nothing;
    struct rt_ucx *ucx = a->of->ucx;
    a->data = bytes ? data : &nothing;
    a->state = bytes && (attributes & UCP_AM_RECV_ATTR_FLAG_RNDV) ? RT_UCX_OFFERED : RT_UCX_HERE;
    a->retained = false;
    if (!bytes) return UCS_OK;
    const bool may_keep = attributes & UCP_AM_RECV_ATTR_FLAG_DATA;
    if (a->state == RT_UCX_OFFERED || (may_keep && (bytes > COPIED_BYTES || !ucx->host_only))) {
        a->retained = a->state == RT_UCX_HERE;
        return UCS_INPROGRESS;
    }
    a->data = own_place(a, bytes);
    if (a->data) memcpy(a->data, data, bytes);
    else rt_ucx_pair_failed(a->of->pair, UCS_ERR_NO_MEMORY);
    if (!a->data) a->state = RT_UCX_NONE;
    return UCS_OK;
}

ucs_status_t rt_ucx_slice_came(void *argument, const void *header, size_t header_bytes, void *data, size_t bytes,
                               const ucp_am_recv_param_t *param)
{
    struct rt_ucx_header h;
    struct rt_ucx_pair *pair = pair_of(argument, header, header_bytes, &h);
    if (!pair) return UCS_OK;
    if (pair->out[h.lane]) rt_ucx_taken(pair->out[h.lane], h.taken);
    struct rt_ucx_inbound *in = rt_ucx_inbound(pair, h.lane);
    const bool brief = header_bytes == RT_UCX_SHORT_BYTES;
    struct rt_ucx_arrival *a = in ? &in->arrival[h.number % RT_UCX_SLOTS] : NULL;
    if (!a || (uint8_t)(h.number - in->next) >= RT_UCX_SLOTS || a->state != RT_UCX_NONE ||
        (!brief && le32toh(h.frame.bytes) != bytes)) {
        rt_ucx_pair_failed(pair, a ? UCS_ERR_INVALID_PARAM : UCS_ERR_NO_MEMORY);
        return UCS_OK;
    }
    a->brief = brief;
    if (brief) {
        a->frame.sequence = le32toh(h.later);
        a->frame.bytes = (uint32_t)bytes;
    } else {
        a->frame = h.frame;
        rt_ucx_frame_order(&a->frame);
    }
    if (bytes > pair->ucx->fabric->settings->number[RT_UCX_SLOT_BYTES]) {
        a->state = RT_UCX_UNWANTED;
        return UCS_OK;
    }
    return keep(a, data, bytes, param->recv_attr);
}

/* ---- fetching and copying */

static void fetched(void *request, ucs_status_t status, size_t bytes, void *argument)
{
    struct rt_ucx_arrival *a = argument;
    (void)bytes;
    a->of->fetching--;
    a->state = RT_UCX_HERE;
    if (status != UCS_OK && a->of->failure == UCS_OK) a->of->failure = status;
    a->of->ucx->call->ucp_request_free(request);
}

/* UCX brings the payload to `place`, whatever kind of memory that is. */
static ringtree_status fetch(struct rt_ucx_link *l, struct rt_ucx_arrival *a, void *place)
{
    const ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                        .cb.recv_am = fetched, .user_data = a };
    void *offer = a->data;
    a->retained = false;
    a->data = place;
    a->state = RT_UCX_COMING;
    l->inbound->fetching++;
    void *request = l->ucx->call->ucp_am_recv_data_nbx(l->ucx->worker, offer, place, a->frame.bytes, &param);
    if (UCS_PTR_IS_PTR(request)) return RINGTREE_IN_PROGRESS;
    l->inbound->fetching--;
    a->state = RT_UCX_HERE;
    return UCS_PTR_IS_ERR(request) ? rt_ucx_lost(l, UCS_PTR_STATUS(request), "in the middle of a slice") : RINGTREE_OK;
}

/* Its payload to where it belongs. */
static ringtree_status bring(struct rt_ucx_link *l, struct rt_ucx_arrival *a, void *into)
{
    if (a->state == RT_UCX_OFFERED) {
        if (!into && !a->memory && !(a->memory = malloc(l->link.slot_bytes)))
            return rt_ucx_fail(l, RINGTREE_NO_MEMORY, "rank %u: no memory for a slice of the ucx link from rank %u",
                               l->link.fabric->rank, l->link.peer);
        return fetch(l, a, into ? into : a->memory);
    }
    if (!into || !a->retained) {
        if (into && a->data != into) memcpy(into, a->data, a->frame.bytes); /* it was empty, or fetched before */
        if (into) a->data = into;
        return RINGTREE_OK;
    }
    if (!l->ucx->host_only) return fetch(l, a, into);
    memcpy(into, a->data, a->frame.bytes);
    l->ucx->call->ucp_am_data_release(l->ucx->worker, a->data);
    a->retained = false;
    a->data = into;
    return RINGTREE_OK;
}

/* ---- the contract's side */

static struct rt_ucx_arrival *next_of(const struct rt_ucx_link *l)
{
    return &l->inbound->arrival[l->inbound->next % RT_UCX_SLOTS];
}

bool rt_ucx_has_next(const struct rt_ucx_link *l)
{
    const enum rt_ucx_state state = next_of(l)->state;
    return state != RT_UCX_NONE && state != RT_UCX_COMING;
}

static void credit_left(void *request, ucs_status_t status, void *argument)
{
    struct rt_ucx_inbound *in = argument;
    (void)status; /* the endpoint's own failure tells */
    in->crediting = false;
    in->ucx->call->ucp_request_free(request);
}

void rt_ucx_fill_credit(const struct rt_ucx_pair *pair, uint32_t lane, struct rt_ucx_header *header)
{
    const struct rt_ucx_inbound *in = pair->in[lane];
    *header = (struct rt_ucx_header){ .token = htole64(pair->token_out), .rank = htole32(pair->ucx->fabric->rank),
                                      .taken = in ? (uint8_t)in->next : 0, .lane = (uint8_t)lane,
                                      .way = (uint8_t)rt_ucx_way_there(pair->way) };
}

/* A message of its own, once half of the slots are free and nothing that goes back has said so. */
static void tell_credit(struct rt_ucx_inbound *in)
{
    struct rt_ucx_pair *pair = in->pair;
    if (in->next - in->told < RT_UCX_SLOTS / 2 || in->crediting || !pair->endpoint) return;
    const ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                        .cb.send = credit_left, .user_data = in };
    rt_ucx_fill_credit(pair, in->lane, &in->credit);
    void *request = pair->ucx->call->ucp_am_send_nbx(pair->endpoint, RT_UCX_CREDIT, &in->credit, RT_UCX_SHORT_BYTES,
                                                     NULL, 0, &param);
    if (UCS_PTR_IS_ERR(request)) return;
    in->crediting = request != NULL;
    in->told = in->next;
}

/* Nothing came: is it that nothing can come any more? */
static ringtree_status look(struct rt_ucx_link *l)
{
    const struct rt_ucx_pair *pair = l->pair;
    const struct rt_ucx_inbound *in = l->inbound;
    const char *when = next_of(l)->state == RT_UCX_COMING ? "in the middle of a slice" : "between two slices";
    if (in->failure != UCS_OK) return rt_ucx_lost(l, in->failure, "in the middle of a slice");
    if (in->ended && in->next >= in->end) return rt_ucx_ended(l, when);
    if (pair->failure.status != RINGTREE_OK) return rt_ucx_fail(l, pair->failure.status, "%s", pair->failure.text);
    if (pair->gone && rt_now_ns(l->link.fabric->clock) - pair->gone_ns > GONE_GRACE_NS) return rt_ucx_ended(l, when);
    return RINGTREE_IN_PROGRESS;
}

/* The frame of what is given next. UCX may have brought slices out of order, but here they are in it. */
static void complete(const struct rt_ucx_inbound *in, struct rt_ucx_arrival *a)
{
    const struct rt_frame brief = a->frame;
    if (!a->brief) return;
    a->brief = false;
    a->frame = in->last;
    a->frame.sequence += brief.sequence;
    a->frame.bytes = brief.bytes;
}

/* OK: the next slice's arrival is there and not on its way. */
static ringtree_status await(struct rt_ucx_link *l)
{
    if (l->pair->stage != RT_UCX_CONNECTED) {
        const ringtree_status status = rt_ucx_pair_connect(l);
        if (status != RINGTREE_OK) return status;
    }
    if (!rt_ucx_has_next(l)) {
        tell_credit(l->inbound);
        rt_ucx_progress(l->ucx);
        if (!rt_ucx_has_next(l)) return look(l);
    }
    if (l->inbound->failure != UCS_OK || (l->inbound->ended && l->inbound->next >= l->inbound->end)) return look(l);
    complete(l->inbound, next_of(l));
    return RINGTREE_OK;
}

static bool is_wanted(const struct rt_ucx_arrival *a, const struct rt_frame *expect, const void *into, size_t capacity)
{
    return a->state != RT_UCX_UNWANTED && (!into || a->frame.bytes <= capacity) &&
           (!expect || memcmp(&a->frame, expect, CHECKED_BYTES) == 0);
}

ringtree_status rt_ucx_recv(struct rt_link *link, const struct rt_frame *expect, void *into, size_t capacity,
                            struct rt_frame *frame, const void **data, struct rt_error *error)
{
    struct rt_ucx_link *l = ucx_link(link);
    *data = NULL;
    if (l->failure.status != RINGTREE_OK) return rt_ucx_failed(l, error);
    struct rt_ucx_arrival *a = next_of(l);
    if (l->holds || (a->state == RT_UCX_COMING && into && into != a->data))
        return rt_fail(error, RINGTREE_INTERNAL, "a ucx link was asked for %s",
                       l->holds ? "a slice while one is held" : "the rest of a slice in another place");
    ringtree_status status = await(l);
    if (status == RINGTREE_OK && is_wanted(a, expect, into, capacity)) {
        status = bring(l, a, into);
        l->holds = status == RINGTREE_OK;
    }
    if (status == RINGTREE_IN_PROGRESS) return status;
    if (status != RINGTREE_OK) return rt_ucx_failed(l, error);
    if (l->holds) *data = a->data;
    *frame = a->frame;
    return RINGTREE_OK;
}

void rt_ucx_release(struct rt_link *link)
{
    struct rt_ucx_link *l = ucx_link(link);
    if (!l->holds) return;
    l->holds = false;
    l->inbound->last = next_of(l)->frame;
    forget(l->ucx, next_of(l));
    l->inbound->next++;
    tell_credit(l->inbound);
}
