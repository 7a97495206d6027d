/* The sending end: slices go from where they lie into the kernel, each connection at its own pace. */
#include "tcp.h"
#include "transports/frame.h"
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

static struct rt_tcp_link *tcp(struct rt_link *link)
{
    return (struct rt_tcp_link *)link;
}

/* What connection `i` has still to write of a slice: at most the frame and its part. Returns the bytes. */
static size_t rest_of(const struct rt_tcp_link *l, uint32_t i, const struct rt_tcp_slice *slice, struct iovec iov[2],
                      int *count)
{
    uint32_t begin, done = l->socket[i].done;
    const uint32_t length = rt_tcp_part(slice->bytes, l->pair->sockets, i, &begin);
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
        if (rest) n = sendmsg(l->pair->fd[i], &message, MSG_NOSIGNAL | MSG_DONTWAIT);
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

/* Slices up to `least` are in the kernel: their staging slots are free. */
static void free_slots(struct rt_tcp_link *l, uint64_t least)
{
    for (; l->sent < least; l->sent++) {
        const int32_t slot = l->slices[l->sent % RT_TCP_SLOTS].slot;
        if (slot >= 0) l->slots_used &= ~(1u << slot);
    }
}

static ringtree_status push(struct rt_tcp_link *l)
{
    if (l->failure.status != RINGTREE_OK) return l->failure.status;
    ringtree_status status = l->pair->connected ? RINGTREE_OK : rt_tcp_pair_connect(l);
    if (status != RINGTREE_OK || l->sent == l->posted) return status;
    uint64_t least = l->posted;
    for (uint32_t i = 0; i < l->pair->sockets; i++) {
        status = push_one(l, i);
        if (status != RINGTREE_OK) return status;
        if (l->socket[i].slice < least) least = l->socket[i].slice;
    }
    free_slots(l, least);
    return RINGTREE_OK;
}

#define WHOLE 1024 /* of a payload that is copied behind its frame: less than a second piece costs the kernel */

/* The newest slice, a small one with nothing before it: in one piece. What does not go now is left to push(). */
static void push_whole(struct rt_tcp_link *l, const struct rt_tcp_slice *slice)
{
    unsigned char whole[RT_TCP_FRAME_BYTES + WHOLE];
    const size_t bytes = RT_TCP_FRAME_BYTES + slice->bytes;
    memcpy(whole, slice->frame, RT_TCP_FRAME_BYTES);
    memcpy(whole + RT_TCP_FRAME_BYTES, slice->data, slice->bytes);
    const ssize_t n = send(l->pair->fd[0], whole, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EINTR && !rt_tcp_would_block(errno)) {
        rt_tcp_lost(l, errno, "while sending");
    } else if (n == (ssize_t)bytes && l->pair->sockets == 1) {
        l->socket[0].slice++;
        free_slots(l, l->posted);
    } else {
        if (n > 0) l->socket[0].done = (uint32_t)n;
        push(l);
    }
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
    rt_frame_to_wire(frame, slice->frame);
    slice->data = data;
    slice->bytes = frame->bytes;
    slice->slot = staged ? l->reserved : -1;
    if (staged) {
        l->slots_used |= 1u << l->reserved;
        l->reserved = -1;
    }
    l->posted++;
    if (slice->bytes <= WHOLE && l->posted == l->sent + 1 && l->pair->connected) push_whole(l, slice);
    else push(l);
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
    if (!l->pair->connected) return rt_tcp_pair_pollfd(l->pair, events);
    *events = POLLOUT;
    for (uint32_t i = 0; i < l->pair->sockets; i++)
        if (l->socket[i].slice < l->posted) return l->pair->fd[i];
    return -1;
}
