/* The TCP transport's table, and what both ends share: opening, closing, describing. */
#include "tcp.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

static struct rt_tcp_link *tcp(struct rt_link *link)
{
    return (struct rt_tcp_link *)link;
}

static bool reaches(const struct rt_fabric *fabric, uint32_t peer, char *why, size_t capacity)
{
    const struct rt_place *place = &rt_control_places(fabric->control)[peer];
    for (uint32_t i = 0; i < RT_MAX_ADDRESSES; i++)
        if (place->address[i].family != 0) return true;
    if (why)
        snprintf(why, capacity, "rank %u on host %s has no network address (see RINGTREE_INTERFACE there)", peer,
                 place->host);
    return false;
}

static ringtree_status open_link(struct rt_link *link, struct rt_error *error)
{
    struct rt_tcp_link *l = tcp(link);
    link->slots = RT_TCP_SLOTS;
    link->slot_bytes = (uint32_t)link->fabric->settings->number[RT_TCP_SLOT_BYTES];
    l->reserved = -1;
    const size_t bytes =
        link->sender ? (size_t)RT_TCP_SLOTS * link->slot_bytes : (size_t)2 * link->slot_bytes + RT_TCP_FRAME_BYTES;
    l->memory = malloc(bytes); /* pages are touched only when used */
    if (!l->memory)
        return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory for the tcp link with rank %u (%zu bytes); lower "
                       "RINGTREE_TCP_SLOT_BYTES", link->fabric->rank, link->peer, bytes);
    return rt_tcp_pair_open(l, error);
}

static int pollfd_of(struct rt_link *link, short *events)
{
    *events = 0;
    if (tcp(link)->failure.status != RINGTREE_OK) return -1; /* nothing to wait for: the next call tells */
    return link->sender ? rt_tcp_send_pollfd(tcp(link), events) : rt_tcp_recv_pollfd(tcp(link), events);
}

static bool flushed(struct rt_link *link)
{
    struct rt_tcp_link *l = tcp(link);
    if (!link->sender || l->failure.status != RINGTREE_OK) return true;
    const uint64_t sent = rt_tcp_sent(link, NULL);
    return sent == l->posted || l->failure.status != RINGTREE_OK;
}

static void close_link(struct rt_link *link)
{
    struct rt_tcp_link *l = tcp(link);
    rt_tcp_pair_close(l);
    free(l->memory);
    l->memory = NULL;
}

static const char *describe(struct rt_link *link, char *text, size_t capacity)
{
    struct rt_tcp_link *l = tcp(link);
    const struct rt_tcp_pair *pair = l->pair;
    if (!pair || !pair->where[0])
        snprintf(text, capacity, "tcp, not connected");
    else if (pair->sockets > 1)
        snprintf(text, capacity, "tcp %s, %u sockets", pair->where, pair->sockets);
    else
        snprintf(text, capacity, "tcp %s", pair->where);
    return text;
}

const struct rt_transport rt_transport_tcp = {
    .size = sizeof(struct rt_transport),
    .name = "tcp",
    .link_size = sizeof(struct rt_tcp_link),
    .reaches = reaches,
    .open = open_link,
    .reserve = rt_tcp_reserve,
    .send = rt_tcp_send,
    .sent = rt_tcp_sent,
    .recv = rt_tcp_recv,
    .release = rt_tcp_release,
    .pollfd = pollfd_of,
    .flushed = flushed,
    .close = close_link,
    .describe = describe,
    .guess = { { 3.3e-6, 0.12e-9 }, { 15e-6, 0.8e-9 } },
};
