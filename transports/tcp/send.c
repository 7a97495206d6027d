/* The sending end: slices go from where they lie into the kernel, each connection at its own pace. */
#include "tcp.h"
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

static struct rt_tcp_link *tcp(struct rt_link *link)
{
    return (struct rt_tcp_link *)link;
}

ringtree_status rt_tcp_send_open(struct rt_tcp_link *l, struct rt_error *error)
{
    struct rt_fabric *fabric = l->link.fabric;
    const uint64_t timeout_ns = fabric->settings->number[RT_TIMEOUT_MS] * UINT64_C(1000000);
    l->sockets = rt_tcp_choose_sockets(&l->link);
    for (uint32_t i = 0; i < l->sockets; i++) {
        const struct rt_claim claim = { .kind = RT_CONNECT_DATA, .rank = fabric->rank, .lane = l->link.lane,
                                        .stripe = i, .stripes = l->sockets };
        l->socket[i].dial = rt_dial_start(fabric->control, l->link.peer, &claim, rt_now_ns(fabric->clock) + timeout_ns);
        if (!l->socket[i].dial)
            return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory to connect to rank %u", fabric->rank,
                           l->link.peer);
    }
    return RINGTREE_OK;
}

/* The first bytes of the first connection. A new connection has room for them. */
static ringtree_status greet(struct rt_tcp_link *l, int fd)
{
    const unsigned char greeting[RT_TCP_GREETING] = { 'R', 'T', 'C', 1, (unsigned char)l->sockets };
    const ssize_t n = send(fd, greeting, sizeof(greeting), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n == (ssize_t)sizeof(greeting)) return RINGTREE_OK;
    return rt_tcp_lost(l, n < 0 ? errno : ENOBUFS, "before the first slice");
}

static ringtree_status connect_one(struct rt_tcp_link *l, struct rt_tcp_socket *socket)
{
    struct rt_error why = { 0 };
    int fd = -1;
    ringtree_status status = rt_dial_go(socket->dial, &fd, &why);
    if (status == RINGTREE_IN_PROGRESS) return status;
    if (status != RINGTREE_OK) return rt_tcp_fail(l, status, "%s", why.text);
    rt_dial_end(socket->dial);
    socket->dial = NULL;
    socket->fd = fd;
    rt_tcp_tune(l, fd);
    return socket == &l->socket[0] ? greet(l, fd) : RINGTREE_OK;
}

static ringtree_status connect_all(struct rt_tcp_link *l)
{
    bool waiting = false;
    if (l->connected || l->failure.status != RINGTREE_OK) return l->failure.status;
    for (uint32_t i = 0; i < l->sockets; i++) {
        if (l->socket[i].fd >= 0) continue;
        const ringtree_status status = connect_one(l, &l->socket[i]);
        if (status > RINGTREE_IN_PROGRESS) return status;
        waiting |= status == RINGTREE_IN_PROGRESS;
    }
    l->connected = !waiting;
    return waiting ? RINGTREE_IN_PROGRESS : RINGTREE_OK;
}

/* What connection `i` has still to write of a slice: at most the frame and its part. Returns the bytes. */
static size_t rest_of(const struct rt_tcp_link *l, uint32_t i, const struct rt_tcp_slice *slice, struct iovec iov[2],
                      int *count)
{
    uint32_t begin, done = l->socket[i].done;
    const uint32_t length = rt_tcp_part(slice->bytes, l->sockets, i, &begin);
    const uint32_t head = i == 0 ? RT_TCP_FRAME_BYTES : 0;
    *count = 0;
    if (done < head) iov[(*count)++] = (struct iovec){ (void *)(uintptr_t)(slice->frame + done), head - done };
    done = done > head ? done - head : 0;
    if (done < length)
        iov[(*count)++] = (struct iovec){ (void *)(uintptr_t)(slice->data + begin + done), length - done };
    return *count == 0 ? 0 : iov[0].iov_len + (*count == 2 ? iov[1].iov_len : 0);
}

/* Writes what connection `i` takes now. */
static ringtree_status push_one(struct rt_tcp_link *l, uint32_t i)
{
    struct rt_tcp_socket *socket = &l->socket[i];
    while (socket->slice < l->posted) {
        struct iovec iov[2];
        struct msghdr message = { .msg_iov = iov };
        int count;
        const size_t rest = rest_of(l, i, &l->slices[socket->slice % RT_TCP_SLOTS], iov, &count);
        ssize_t n = 0;
        message.msg_iovlen = (size_t)count;
        if (rest) n = sendmsg(socket->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && rt_tcp_would_block(errno)) return RINGTREE_OK;
        if (n < 0) return rt_tcp_lost(l, errno, "while sending");
        socket->done += (uint32_t)n;
        if ((size_t)n < rest) continue; /* the kernel may have made room meanwhile; EAGAIN ends it */
        socket->slice++;
        socket->done = 0;
    }
    return RINGTREE_OK;
}

static ringtree_status push(struct rt_tcp_link *l)
{
    ringtree_status status = connect_all(l);
    if (status != RINGTREE_OK || l->sent == l->posted) return status;
    uint64_t least = l->posted;
    for (uint32_t i = 0; i < l->sockets; i++) {
        status = push_one(l, i);
        if (status != RINGTREE_OK) return status;
        if (l->socket[i].slice < least) least = l->socket[i].slice;
    }
    for (; l->sent < least; l->sent++) {
        const int32_t slot = l->slices[l->sent % RT_TCP_SLOTS].slot;
        if (slot >= 0) l->slots_used &= ~(1u << slot);
    }
    return RINGTREE_OK;
}

static bool is_full(const struct rt_tcp_link *l)
{
    return l->posted - l->sent == RT_TCP_SLOTS;
}

static unsigned char *slot_memory(const struct rt_tcp_link *l, int32_t slot)
{
    return l->memory + (size_t)slot * l->link.slot_bytes;
}

void *rt_tcp_reserve(struct rt_link *link, struct rt_error *error)
{
    struct rt_tcp_link *l = tcp(link);
    if (l->reserved < 0) {
        if (push(l) != RINGTREE_OK) {
            rt_tcp_failed(l, error);
            return NULL;
        }
        if (is_full(l)) return NULL;
        l->reserved = __builtin_ctz(~l->slots_used); /* fewer slices than slots are under way, so one is free */
    }
    return slot_memory(l, l->reserved);
}

static void frame_to_wire(const struct rt_frame *frame, unsigned char *wire)
{
    const struct rt_frame little = { .sequence = htole64(frame->sequence), .count = htole64(frame->count),
                                     .op = htole32(frame->op), .root = htole32(frame->root),
                                     .collective = frame->collective, .type = frame->type, .lane = frame->lane,
                                     .reserved = frame->reserved, .bytes = htole32(frame->bytes) };
    memcpy(wire, &little, sizeof(little));
}

ringtree_status rt_tcp_send(struct rt_link *link, const struct rt_frame *frame, const void *data,
                            struct rt_error *error)
{
    struct rt_tcp_link *l = tcp(link);
    if (frame->bytes > link->slot_bytes)
        return rt_fail(error, RINGTREE_INTERNAL, "a slice of %u bytes was given to a tcp link of %u", frame->bytes,
                       link->slot_bytes);
    ringtree_status status = push(l);
    if (status > RINGTREE_IN_PROGRESS) return rt_tcp_failed(l, error);
    if (status == RINGTREE_IN_PROGRESS || is_full(l)) return RINGTREE_IN_PROGRESS;
    struct rt_tcp_slice *slice = &l->slices[l->posted % RT_TCP_SLOTS];
    const bool staged = l->reserved >= 0 && data == slot_memory(l, l->reserved);
    frame_to_wire(frame, slice->frame);
    slice->data = data;
    slice->bytes = frame->bytes;
    slice->slot = staged ? l->reserved : -1;
    if (staged) {
        l->slots_used |= 1u << l->reserved;
        l->reserved = -1;
    }
    l->posted++;
    push(l);
    return rt_tcp_failed(l, error);
}

uint64_t rt_tcp_sent(struct rt_link *link, struct rt_error *error)
{
    struct rt_tcp_link *l = tcp(link);
    push(l);
    rt_tcp_failed(l, error);
    return l->sent;
}

int rt_tcp_send_pollfd(struct rt_tcp_link *l, short *events)
{
    for (uint32_t i = 0; i < l->sockets; i++) {
        struct rt_tcp_socket *socket = &l->socket[i];
        if (socket->dial) return rt_dial_pollfd(socket->dial, events);
        if (socket->slice == l->posted) continue;
        *events = POLLOUT;
        return socket->fd;
    }
    return -1;
}
