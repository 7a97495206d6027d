/* The UCX transport's table, and what both ends share: opening, closing, sleeping, describing. */
#include "ucx.h"
#include "summary.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_ROUNDS 16 /* of moving UCX on before it can be slept on */

static struct rt_ucx_link *ucx_link(struct rt_link *link)
{
    return (struct rt_ucx_link *)link;
}

const char *rt_ucx_summary(char *text, size_t capacity)
{
    const char *missing = NULL;
    const struct rt_ucx_calls *calls = rt_ucx_load(&missing);
    unsigned major, minor, patch;
    if (!calls) return snprintf(text, capacity, "%s", missing), text;
    calls->ucp_get_version(&major, &minor, &patch);
    snprintf(text, capacity, "%u.%u.%u, UCX_TLS=%s", major, minor, patch, rt_ucx_tls());
    return text;
}

size_t rt_ucx_pair_bytes(void)
{
    return sizeof(struct rt_ucx_pair);
}

size_t rt_ucx_link_bytes(void)
{
    return 2 * sizeof(struct rt_ucx_link) + sizeof(struct rt_ucx_sending) + sizeof(struct rt_ucx_inbound);
}

unsigned rt_ucx_slots(void)
{
    return RT_UCX_SLOTS;
}

/* Ranks tell each other whether they have UCX, so that both ends of a link choose alike. */
static void announce(struct rt_fabric *fabric, void *mine)
{
    const struct rt_ucx *ucx = rt_ucx_state(fabric);
    *(unsigned char *)mine = ucx && ucx->call;
}

static void hear(struct rt_fabric *fabric, const void *all, size_t stride)
{
    struct rt_ucx *ucx = fabric->ucx;
    if (ucx) ucx->can = malloc(fabric->nranks);
    for (uint32_t r = 0; ucx && ucx->can && r < fabric->nranks; r++)
        ucx->can[r] = ((const unsigned char *)all)[r * stride] == 1;
}

/* Whether UCX has a way to that peer is seen when the link is made: then it names the transports. */
static bool reaches(const struct rt_fabric *fabric, uint32_t peer, char *why, size_t capacity)
{
    const char *missing = NULL;
    if (!rt_ucx_load(&missing)) {
        if (why) snprintf(why, capacity, "%s", missing);
        return false;
    }
    if (!fabric || !fabric->ucx || !fabric->ucx->can || fabric->ucx->can[peer]) return true;
    if (why) snprintf(why, capacity, "rank %u has no UCX: see ringtree-info there", peer);
    return false;
}

/* Besides connecting: what UCX has taken over its TCP it may still hold, and moves it on only when it is asked to. */
static void step(struct rt_fabric *fabric)
{
    if (fabric->ucx && fabric->ucx->worker) rt_ucx_progress(fabric->ucx);
}

static uint32_t slot_bytes(const struct rt_settings *settings, uint32_t nranks)
{
    (void)nranks;
    return (uint32_t)settings->number[RT_UCX_SLOT_BYTES];
}

static bool make_end(struct rt_ucx_link *l)
{
    if (!l->link.sender) return (l->inbound = rt_ucx_inbound(l->pair, l->link.lane)) != NULL;
    l->sending = calloc(1, sizeof(*l->sending));
    if (!l->sending) return false;
    l->sending->ucx = l->ucx;
    for (uint32_t i = 0; i < RT_UCX_SLOTS; i++) l->sending->slice[i].of = l->sending;
    l->pair->out[l->link.lane] = l;
    return (l->sending->memory = malloc((size_t)RT_UCX_SLOTS * l->link.slot_bytes)) != NULL; /* touched when used */
}

static ringtree_status open_link(struct rt_link *link, struct rt_error *error)
{
    struct rt_ucx_link *l = ucx_link(link);
    link->slots = RT_UCX_SLOTS / 2 + 1; /* so many are free once all were released: the rest may not be told yet */
    link->slot_bytes = (uint32_t)link->fabric->settings->number[RT_UCX_SLOT_BYTES];
    ringtree_status status = rt_ucx_open(link->fabric, error);
    if (status != RINGTREE_OK) return status;
    l->ucx = link->fabric->ucx; /* from here on close() counts it */
    status = rt_ucx_pair_open(l, error);
    if (status != RINGTREE_OK || make_end(l)) return status;
    return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory for the ucx link with rank %u (%u slots of %u bytes)"
                   "; lower RINGTREE_UCX_SLOT_BYTES", link->fabric->rank, link->peer, RT_UCX_SLOTS, link->slot_bytes);
}

/* What this link waits for is there. */
static bool can_go(const struct rt_ucx_link *l)
{
    if (!l->link.sender) return rt_ucx_has_next(l);
    return (l->wants_room && rt_ucx_room(l)) ||
           (l->sent < l->posted && !l->sending->slice[l->sent % RT_UCX_SLOTS].pending);
}

static int pollfd_of(struct rt_link *link, short *events)
{
    struct rt_ucx_link *l = ucx_link(link);
    *events = POLLIN;
    if (l->failure.status != RINGTREE_OK) return -1; /* nothing to wait for: the next call tells */
    if (l->pair->stage != RT_UCX_CONNECTED) return rt_ucx_pair_pollfd(l->pair, events);
    for (int i = 0; i < MOST_ROUNDS && !can_go(l); i++)
        if (rt_ucx_arm(l->ucx)) return l->ucx->set;
    return l->ucx->ready;
}

/* What UCX still does for this link ends with the endpoint; its memory lives as long as the worker. */
static void close_link(struct rt_link *link)
{
    struct rt_ucx_link *l = ucx_link(link);
    if (!l->ucx) return;
    if (l->sending && l->sending->pending) rt_ucx_pair_break(l->pair);
    if (l->inbound && l->inbound->fetching) rt_ucx_pair_break(l->pair);
    rt_ucx_pair_close(l);
    if (l->sending) {
        l->sending->orphan = l->ucx->sending_orphans;
        l->ucx->sending_orphans = l->sending;
    }
    rt_ucx_close(l->ucx);
    l->ucx = NULL;
}

static const char *describe(struct rt_link *link, char *text, size_t capacity)
{
    const struct rt_ucx_pair *pair = ucx_link(link)->pair;
    snprintf(text, capacity, pair && pair->lanes[0] ? "ucx by %s" : "ucx, not connected", pair ? pair->lanes : "");
    return text;
}

const struct rt_transport rt_transport_ucx = {
    .size = sizeof(struct rt_transport),
    .name = "ucx",
    .link_size = sizeof(struct rt_ucx_link),
    .reaches = reaches,
    .open = open_link,
    .reserve = rt_ucx_reserve,
    .send = rt_ucx_send,
    .sent = rt_ucx_sent,
    .recv = rt_ucx_recv,
    .release = rt_ucx_release,
    .pollfd = pollfd_of,
    .flushed = rt_ucx_flushed,
    .close = close_link,
    .describe = describe,
    .announce = announce,
    .hear = hear,
    .leave = rt_ucx_leave,
    .step = step,
    .slot_bytes = slot_bytes,
    .guess = { { 4e-6, 0.12e-9 }, { 16e-6, 0.8e-9 } },
};
