/* Both directions of one or several sockets at once, without blocking but for poll() when nothing can move. */
#include "limits.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

struct flow { /* one socket's share, both directions */
    const char *source;
    char       *target;
    size_t      bytes, sent, received;
};

static bool is_done(const struct flow *flow)
{
    return flow->sent == flow->bytes && flow->received == flow->bytes;
}

/* Bytes moved now; -1: the socket failed or was closed. */
static ssize_t move(const struct duplex *duplex, uint32_t i, struct flow *flow)
{
    ssize_t out = 0, in = 0;
    if (flow->sent < flow->bytes) {
        out = send(duplex->out[i], flow->source + flow->sent, flow->bytes - flow->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (out < 0 && errno != EAGAIN && errno != EINTR) return -1;
    }
    if (flow->received < flow->bytes) {
        in = recv(duplex->in[i], flow->target + flow->received, flow->bytes - flow->received, MSG_DONTWAIT);
        if (in == 0 || (in < 0 && errno != EAGAIN && errno != EINTR)) return -1;
    }
    if (out > 0) flow->sent += (size_t)out;
    if (in > 0) flow->received += (size_t)in;
    return (out > 0 ? out : 0) + (in > 0 ? in : 0);
}

static bool wait_for_any(const struct duplex *duplex, const struct flow *flows)
{
    struct pollfd waits[2 * DUPLEX_SOCKETS];
    for (uint32_t i = 0; i < duplex->sockets; i++) {
        waits[2 * i] = (struct pollfd){ flows[i].sent < flows[i].bytes ? duplex->out[i] : -1, POLLOUT, 0 };
        waits[2 * i + 1] = (struct pollfd){ flows[i].received < flows[i].bytes ? duplex->in[i] : -1, POLLIN, 0 };
    }
    return poll(waits, 2 * duplex->sockets, duplex->wait_ms) > 0;
}

static void share(const struct duplex *duplex, const void *source, void *target, size_t bytes, struct flow *flows)
{
    for (uint32_t i = 0; i < duplex->sockets; i++) {
        const size_t begin = bytes * i / duplex->sockets, end = bytes * (i + 1) / duplex->sockets;
        flows[i] = (struct flow){ (const char *)source + begin, (char *)target + begin, end - begin, 0, 0 };
    }
}

bool duplex_exchange(const struct duplex *duplex, const void *source, void *target, size_t bytes)
{
    struct flow flows[DUPLEX_SOCKETS];
    uint32_t    empty = 0;
    share(duplex, source, target, bytes, flows);
    for (;;) {
        ssize_t moved = 0;
        bool    done = true;
        for (uint32_t i = 0; i < duplex->sockets; i++) {
            const ssize_t now = move(duplex, i, &flows[i]);
            if (now < 0) return false;
            moved += now;
            done = done && is_done(&flows[i]);
        }
        if (done) return true;
        empty = moved ? 0 : empty + 1;
        if (empty > duplex->spins && !wait_for_any(duplex, flows)) return false;
    }
}

/* ---- two sockets on the loopback */

static int listen_on_loopback(struct sockaddr_in *address)
{
    socklen_t length = sizeof(*address);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *address = (struct sockaddr_in){ .sin_family = AF_INET };
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0) return -1;
    if (!bind(fd, (struct sockaddr *)address, length) && !listen(fd, 1) &&
        !getsockname(fd, (struct sockaddr *)address, &length))
        return fd;
    close(fd);
    return -1;
}

bool loopback_pair(int ends[2])
{
    struct sockaddr_in address;
    const int on = 1, listening = listen_on_loopback(&address);
    ends[0] = ends[1] = -1;
    if (listening < 0) return false;
    ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (ends[0] >= 0 && !connect(ends[0], (struct sockaddr *)&address, sizeof(address)))
        ends[1] = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    close(listening);
    if (ends[1] >= 0 && !setsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) &&
        !setsockopt(ends[1], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
        return true;
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0) close(ends[i]);
    return false;
}
