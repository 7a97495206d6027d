/* The verbs transport's table; opening, closing, describing. */
#include "verbs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reaches(const struct rt_fabric *fabric, uint32_t peer, char *why, size_t capacity)
{
    static const char *const reasons[] = { "told nothing of its ports", "",
                                           "has no usable RDMA port, or does not use verbs",
                                           "has RDMA ports, but none that meets ours" };
    const struct rt_verbs *v = fabric->verbs;
    const uint32_t meets = v && v->meets ? v->meets[peer] : 0;
    if (meets == 1) return true;
    if (!why) return false;
    if (v && v->why[0]) snprintf(why, capacity, "%s", v->why);
    else snprintf(why, capacity, "rank %u %s", peer, reasons[meets]);
    return false;
}

/* Pinned for every peer, so it shrinks where there are many: at most 96 MiB for all peers of a lane and direction. */
static uint32_t slot_bytes(const struct rt_settings *settings, uint32_t nranks)
{
    uint32_t bytes = (uint32_t)settings->number[RT_VERBS_SLOT_BYTES];
    if (settings->given[RT_VERBS_SLOT_BYTES]) return bytes;
    while (bytes > 16 * 1024 && (uint64_t)bytes * nranks > 16 * 1024 * 1024) bytes /= 2;
    return bytes;
}

static ringtree_status open_link(struct rt_link *link, struct rt_error *error)
{
    struct rt_verbs_link *l = rt_verbs_link_of(link);
    struct rt_verbs *v = link->fabric->verbs;
    if (!v || !v->ports)
        return rt_fail(error, RINGTREE_INTERNAL, "rank %u: a verbs link without ports%s%s", link->fabric->rank,
                       v && v->why[0] ? ": " : "", v ? v->why : "");
    link->slots = RT_VERBS_SLOTS;
    link->slot_bytes = slot_bytes(link->fabric->settings, link->fabric->nranks);
    l->stride = link->slot_bytes + RT_VERBS_HEAD;
    l->reserved = -1;
    const size_t bytes = link->sender ? rt_verbs_send_bytes(link->slot_bytes) : rt_verbs_receive_bytes(l->stride);
    struct rt_error why = { 0 };
    const ringtree_status status = rt_verbs_slots_open(v, &l->slots, bytes, !link->sender, &why);
    if (status != RINGTREE_OK)
        return rt_fail(error, status, "rank %u: no verbs link with rank %u: %s", link->fabric->rank, link->peer,
                       why.text);
    if (link->sender) rt_verbs_cache_start(v);
    return rt_verbs_pair_open(l, error);
}

static void close_link(struct rt_link *link)
{
    struct rt_verbs_link *l = rt_verbs_link_of(link);
    rt_verbs_pair_close(l);
    for (uint32_t i = 0; i < RT_VERBS_RING; i++)
        if (l->slice[i].held) rt_verbs_cache_release(l->slice[i].held);
    if (l->plain) l->plain->transport->close(l->plain);
    free(l->plain);
    l->plain = NULL;
    if (l->slots.memory) rt_verbs_slots_close(link->fabric->verbs, &l->slots);
}

/* How far it has come. */
static void tell_state(const struct rt_verbs_link *l, char *text, size_t capacity)
{
    static const char *const states[] = { "connecting", "greeting", "up", "emptying queue pairs", "over tcp" };
    const struct rt_verbs_pair *pair = l->pair;
    const struct rt_verbs_queue *queue = &pair->queue[0];
    const size_t used = strlen(text);
    char *at = text + used;
    const size_t left = capacity - used;
    if (l->link.sender)
        snprintf(at, left, ", %s (epoch %u), slices: %" PRIu64 " given, %" PRIu64 " posted, %" PRIu64 " acknowledged, %"
                 PRIu64 " released there; requests: %" PRIu64 " of %" PRIu64 " completed", states[pair->state],
                 pair->epoch, l->posted, l->issued, l->sent, l->credited, queue->done, queue->posted);
    else
        snprintf(at, left, ", %s (epoch %u), slices: %" PRIu64 " came, %" PRIu64 " released, %" PRIu64 " credited%s; "
                 "%u receive requests", states[pair->state], pair->epoch, rt_verbs_whole(l), l->released, l->told,
                 l->owes ? ", a credit due" : "", queue->receives);
}

static const char *describe(struct rt_link *link, char *text, size_t capacity)
{
    struct rt_verbs_link *l = rt_verbs_link_of(link);
    const struct rt_verbs_pair *pair = l->pair;
    char here[120], there[64], plain[120];
    if (!pair || pair->state < RT_VERBS_UP || (!pair->queues && !l->plain))
        snprintf(text, capacity, "verbs, not connected");
    else if (l->plain)
        snprintf(text, capacity, "verbs, now over %s", l->plain->transport->describe(l->plain, plain, sizeof(plain)));
    else
        snprintf(text, capacity, "verbs %s to GID %s, %u queue pair%s",
                 rt_verbs_port_text(pair->queue[0].port, here, sizeof(here)),
                 rt_verbs_gid_text(pair->queue[0].theirs.gid, there, sizeof(there)), pair->queues,
                 pair->queues == 1 ? "" : "s");
    if (pair) tell_state(l, text, capacity);
    return text;
}

const struct rt_transport rt_transport_verbs = {
    .size = sizeof(struct rt_transport),
    .name = "verbs",
    .link_size = sizeof(struct rt_verbs_link),
    .reaches = reaches,
    .open = open_link,
    .reserve = rt_verbs_reserve,
    .send = rt_verbs_send,
    .sent = rt_verbs_sent,
    .recv = rt_verbs_recv,
    .release = rt_verbs_release,
    .pollfd = rt_verbs_pollfd,
    .flushed = rt_verbs_flushed,
    .close = close_link,
    .describe = describe,
    .announce = rt_verbs_announce,
    .hear = rt_verbs_hear,
    .leave = rt_verbs_leave,
    .step = rt_verbs_step,
    .slot_bytes = slot_bytes,
    .guess = { { 2e-6, 0.1e-9 }, { 3e-6, 0.1e-9 } },
};
