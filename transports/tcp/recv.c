/*
 * The receiving end. The frame is read first and checked; only then is the payload's place known, and the payload is
 * read straight into it. Where a small message is expected the frame is read together with what follows, and what was
 * read ahead is given from there. Nothing is read ahead while a slice is held, so what was given stays where it is.
 */
#include "tcp.h"
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define CHECKED_BYTES 28 /* of the frame: all but `bytes` */

static struct rt_tcp_link *tcp(struct rt_link *link)
{
    return (struct rt_tcp_link *)link;
}

ringtree_status rt_tcp_recv_open(struct rt_tcp_link *l, struct rt_error *error)
{
    (void)error;
    l->ahead = l->memory + l->link.slot_bytes;
    return RINGTREE_OK;
}

/* One read. *n: bytes that came. IN_PROGRESS: none now. */
static ringtree_status read_some(struct rt_tcp_link *l, uint32_t i, void *to, size_t most, uint32_t *n,
                                 const char *when)
{
    ssize_t got;
    do got = recv(l->socket[i].fd, to, most, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    *n = got > 0 ? (uint32_t)got : 0;
    if (got > 0) return RINGTREE_OK;
    if (got < 0 && rt_tcp_would_block(errno)) return RINGTREE_IN_PROGRESS;
    return rt_tcp_lost(l, got < 0 ? errno : 0, when);
}

static bool take(struct rt_tcp_link *l, uint32_t i)
{
    const struct rt_claim claim = { .kind = RT_CONNECT_DATA, .rank = l->link.peer, .lane = l->link.lane, .stripe = i,
                                    .stripes = l->sockets };
    if (l->socket[i].fd < 0) {
        l->socket[i].fd = rt_control_take(l->link.fabric->control, &claim);
        if (l->socket[i].fd >= 0) rt_tcp_tune(l, l->socket[i].fd);
    }
    return l->socket[i].fd >= 0;
}

static ringtree_status read_greeting(struct rt_tcp_link *l)
{
    uint32_t n;
    const ringtree_status status =
        read_some(l, 0, l->ahead + l->end, RT_TCP_GREETING - l->end, &n, "before the first slice");
    if (status != RINGTREE_OK) return status;
    l->end += n;
    if (l->end < RT_TCP_GREETING) return RINGTREE_IN_PROGRESS;
    const unsigned char *g = l->ahead;
    if (memcmp(g, "RTC\1", 4) != 0 || g[4] == 0 || g[4] > RT_TCP_MOST_SOCKETS || g[5] || g[6] || g[7])
        return rt_tcp_fail(l, RINGTREE_UNSUPPORTED, "rank %u: rank %u (%s) does not begin its tcp link as this version "
                           "of ringtree does; use the same version on all ranks", l->link.fabric->rank, l->link.peer,
                           l->where);
    l->sockets = g[4];
    l->end = 0;
    return RINGTREE_OK;
}

/* Until all connections of the link are here. */
static ringtree_status arrive(struct rt_tcp_link *l)
{
    if (!take(l, 0)) return RINGTREE_IN_PROGRESS;
    if (l->sockets == 0) {
        const ringtree_status status = read_greeting(l);
        if (status != RINGTREE_OK) return status;
    }
    for (uint32_t i = 1; i < l->sockets; i++)
        if (!take(l, i)) return RINGTREE_IN_PROGRESS;
    l->connected = true;
    return RINGTREE_OK;
}

/* Reads until a frame is there. Alone when a long message is expected, to let its payload go straight to its place. */
static ringtree_status read_head(struct rt_tcp_link *l, const struct rt_frame *expect)
{
    uint32_t have = l->end - l->begin, n;
    if (have >= RT_TCP_FRAME_BYTES) return RINGTREE_OK;
    memmove(l->ahead, l->ahead + l->begin, have);
    l->begin = 0;
    l->end = have;
    const bool small = expect && expect->bytes <= RT_TCP_AHEAD - RT_TCP_FRAME_BYTES;
    const size_t most = (small ? RT_TCP_AHEAD : RT_TCP_FRAME_BYTES) - have;
    const ringtree_status status =
        read_some(l, 0, l->ahead + have, most, &n, have ? "in the middle of a frame" : "between two slices");
    if (status != RINGTREE_OK) return status;
    l->end += n;
    return l->end < RT_TCP_FRAME_BYTES ? RINGTREE_IN_PROGRESS : RINGTREE_OK;
}

static void frame_from_wire(const unsigned char *wire, struct rt_frame *frame)
{
    memcpy(frame, wire, sizeof(*frame));
    frame->sequence = le64toh(frame->sequence);
    frame->count = le64toh(frame->count);
    frame->op = le32toh(frame->op);
    frame->root = le32toh(frame->root);
    frame->bytes = le32toh(frame->bytes);
}

static bool is_wanted(const struct rt_tcp_link *l, const struct rt_frame *expect, const void *into, size_t capacity)
{
    return l->frame.bytes <= l->link.slot_bytes && (!into || l->frame.bytes <= capacity) &&
           (!expect || memcmp(&l->frame, expect, CHECKED_BYTES) == 0);
}

/* The frame is good: find the payload's place, and bring there what was read ahead of it. */
static void begin_body(struct rt_tcp_link *l, void *into)
{
    uint32_t begin;
    const uint32_t part = rt_tcp_part(l->frame.bytes, l->sockets, 0, &begin);
    uint32_t here = l->end - l->begin - RT_TCP_FRAME_BYTES;
    if (here > part) here = part;
    l->begin += RT_TCP_FRAME_BYTES;
    l->target = into ? into : here == l->frame.bytes ? l->ahead + l->begin : l->memory;
    if (here && l->target != l->ahead + l->begin) memcpy(l->target, l->ahead + l->begin, here);
    l->begin += here;
    for (uint32_t i = 0; i < l->sockets; i++) l->socket[i].done = 0;
    l->socket[0].done = here;
    l->phase = RT_TCP_BODY;
}

static ringtree_status read_part(struct rt_tcp_link *l, uint32_t i)
{
    struct rt_tcp_socket *socket = &l->socket[i];
    uint32_t begin, n;
    const uint32_t length = rt_tcp_part(l->frame.bytes, l->sockets, i, &begin);
    if (socket->done == length) return RINGTREE_OK;
    const ringtree_status status =
        read_some(l, i, l->target + begin + socket->done, length - socket->done, &n, "in the middle of a slice");
    socket->done += n;
    if (status != RINGTREE_OK) return status;
    return socket->done < length ? RINGTREE_IN_PROGRESS : RINGTREE_OK;
}

static ringtree_status read_body(struct rt_tcp_link *l)
{
    ringtree_status result = RINGTREE_OK;
    for (uint32_t i = 0; i < l->sockets; i++) {
        const ringtree_status status = read_part(l, i);
        if (status > RINGTREE_IN_PROGRESS) return status;
        if (status == RINGTREE_IN_PROGRESS) result = status;
    }
    return result;
}

/* One step of the way to the next slice. */
static ringtree_status advance(struct rt_tcp_link *l, const struct rt_frame *expect, void *into, size_t capacity,
                               bool *unwanted)
{
    ringtree_status status = l->connected ? RINGTREE_OK : arrive(l);
    if (status != RINGTREE_OK) return status;
    if (l->phase == RT_TCP_HEAD) {
        status = read_head(l, expect);
        if (status != RINGTREE_OK) return status;
        frame_from_wire(l->ahead + l->begin, &l->frame);
        *unwanted = !is_wanted(l, expect, into, capacity);
        if (*unwanted) return RINGTREE_OK; /* stays at the head: nothing of it has been taken */
        begin_body(l, into);
    }
    return read_body(l);
}

ringtree_status rt_tcp_recv(struct rt_link *link, const struct rt_frame *expect, void *into, size_t capacity,
                            struct rt_frame *frame, const void **data, struct rt_error *error)
{
    struct rt_tcp_link *l = tcp(link);
    bool unwanted = false;
    *data = NULL;
    if (l->failure.status != RINGTREE_OK) return rt_tcp_failed(l, error);
    if (l->phase == RT_TCP_HELD || (l->phase == RT_TCP_BODY && into && into != l->target))
        return rt_fail(error, RINGTREE_INTERNAL, "a tcp link was asked for %s",
                       l->phase == RT_TCP_HELD ? "a slice while one is held" : "the rest of a slice in another place");
    const ringtree_status status = advance(l, expect, into, capacity, &unwanted);
    if (status > RINGTREE_IN_PROGRESS) return rt_tcp_failed(l, error);
    if (status != RINGTREE_OK) return status;
    *frame = l->frame;
    if (unwanted) return RINGTREE_OK;
    *data = l->target;
    l->phase = RT_TCP_HELD;
    return RINGTREE_OK;
}

void rt_tcp_release(struct rt_link *link)
{
    struct rt_tcp_link *l = tcp(link);
    if (l->phase == RT_TCP_HELD) l->phase = RT_TCP_HEAD;
}

int rt_tcp_recv_pollfd(struct rt_tcp_link *l, short *events)
{
    *events = POLLIN;
    if (!l->connected) return l->sockets == 0 ? l->socket[0].fd : -1;
    if (l->phase == RT_TCP_HEAD) return l->socket[0].fd;
    for (uint32_t i = 0; l->phase == RT_TCP_BODY && i < l->sockets; i++) {
        uint32_t begin;
        if (l->socket[i].done < rt_tcp_part(l->frame.bytes, l->sockets, i, &begin)) return l->socket[i].fd;
    }
    return -1;
}
