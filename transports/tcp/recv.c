/*
 * The receiving end. A slice without a place of its own, as one that is added to something, is read into the link's
 * memory, frame and payload in one call, and given from there. One that has a place is read straight into it once its
 * frame was checked; a short one is read with its frame and copied. What was read is at [begin, end) of the memory.
 * Nothing is read while a slice is held, so what was given stays where it is.
 */
#include "tcp.h"
#include "transports/frame.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define CHECKED_BYTES 28 /* of the frame: all but `bytes` */

static struct rt_tcp_link *tcp(struct rt_link *link)
{
    return (struct rt_tcp_link *)link;
}

/* One read. *n: bytes that came. IN_PROGRESS: none now. */
static ringtree_status read_some(struct rt_tcp_link *l, uint32_t i, void *to, size_t most, uint32_t *n,
                                 const char *when)
{
    ssize_t got;
    do got = recv(l->pair->fd[i], to, most, MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    *n = got > 0 ? (uint32_t)got : 0;
    if (got > 0) return RINGTREE_OK;
    if (got < 0 && rt_tcp_would_block(errno)) return RINGTREE_IN_PROGRESS;
    return rt_tcp_lost(l, got < 0 ? errno : 0, when);
}

/* How much to read when a frame is due: it alone, or with the payload that is expected. */
static uint32_t head_bytes(const struct rt_tcp_link *l, const struct rt_frame *expect, const void *into)
{
    uint32_t begin;
    if (!expect || expect->bytes > l->link.slot_bytes || (into && expect->bytes > RT_TCP_COPIED))
        return RT_TCP_FRAME_BYTES;
    return RT_TCP_FRAME_BYTES + rt_tcp_part(expect->bytes, l->pair->sockets, 0, &begin);
}

/* Reads until a frame is there. */
static ringtree_status read_head(struct rt_tcp_link *l, const struct rt_frame *expect, const void *into)
{
    uint32_t have = l->end - l->begin, n;
    if (have >= RT_TCP_FRAME_BYTES) return RINGTREE_OK;
    if (have) memmove(l->memory, l->memory + l->begin, have);
    l->begin = 0;
    l->end = have;
    const ringtree_status status = read_some(l, 0, l->memory + have, head_bytes(l, expect, into) - have, &n,
                                             have ? "in the middle of a frame" : "between two slices");
    if (status != RINGTREE_OK) return status;
    l->end += n;
    return l->end < RT_TCP_FRAME_BYTES ? RINGTREE_IN_PROGRESS : RINGTREE_OK;
}

static bool is_wanted(const struct rt_tcp_link *l, const struct rt_frame *expect, const void *into, size_t capacity)
{
    return l->frame.bytes <= l->link.slot_bytes && (!into || l->frame.bytes <= capacity) &&
           (!expect || memcmp(&l->frame, expect, CHECKED_BYTES) == 0);
}

/* The frame is good: find the payload's place, and bring there what was read of it. true: that is all of it. */
static bool begin_body(struct rt_tcp_link *l, void *into)
{
    uint32_t begin;
    const uint32_t part = rt_tcp_part(l->frame.bytes, l->pair->sockets, 0, &begin);
    uint32_t here = l->end - l->begin - RT_TCP_FRAME_BYTES;
    if (here > part) here = part;
    unsigned char *at = l->memory + l->begin + RT_TCP_FRAME_BYTES;
    l->begin += RT_TCP_FRAME_BYTES + here;
    unsigned char *place = l->memory + RT_TCP_FRAME_BYTES;
    if (l->begin < l->end) place += l->link.slot_bytes; /* the next one waits there, while other stripes are missing */
    l->target = into ? into : here == l->frame.bytes ? at : place;
    if (here && l->target != at) memmove(l->target, at, here);
    for (uint32_t i = 0; i < l->pair->sockets; i++) l->socket[i].done = 0;
    l->socket[0].done = here;
    l->phase = RT_TCP_BODY;
    return here == l->frame.bytes;
}

static ringtree_status read_part(struct rt_tcp_link *l, uint32_t i)
{
    struct rt_tcp_socket *socket = &l->socket[i];
    uint32_t begin, n;
    const uint32_t length = rt_tcp_part(l->frame.bytes, l->pair->sockets, i, &begin);
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
    for (uint32_t i = 0; i < l->pair->sockets; i++) {
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
    ringtree_status status = l->pair->connected ? RINGTREE_OK : rt_tcp_pair_connect(l);
    if (status != RINGTREE_OK) return status;
    if (l->phase == RT_TCP_HEAD) {
        status = read_head(l, expect, into);
        if (status != RINGTREE_OK) return status;
        rt_frame_from_wire(l->memory + l->begin, &l->frame);
        *unwanted = !is_wanted(l, expect, into, capacity);
        if (*unwanted) return RINGTREE_OK; /* stays at the head: nothing of it has been taken */
        if (begin_body(l, into)) return RINGTREE_OK;
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
    if (!l->pair->connected) return rt_tcp_pair_pollfd(l->pair, events);
    *events = POLLIN;
    if (l->phase == RT_TCP_HEAD) return l->pair->fd[0];
    for (uint32_t i = 0; l->phase == RT_TCP_BODY && i < l->pair->sockets; i++) {
        uint32_t begin;
        if (l->socket[i].done < rt_tcp_part(l->frame.bytes, l->pair->sockets, i, &begin)) return l->pair->fd[i];
    }
    return -1;
}
