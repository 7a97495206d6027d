/* The few socket calls that the control plane makes; see net.h. */
#include "net.h"
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 4096 /* ranks that may knock at once; the kernel cuts it to net.core.somaxconn */
#define STREAM  (SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC)

void rt_target_unix(struct rt_target *target, const char *name)
{
    struct sockaddr_un *address = (struct sockaddr_un *)&target->address;
    size_t length = strnlen(name, RT_UNIX_NAME - 1);

    memset(target, 0, sizeof(*target));
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path + 1, name, length); /* a leading zero byte: no file, gone with its last descriptor */
    target->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    snprintf(target->text, sizeof(target->text), "unix socket @%.*s", (int)length, name);
}

bool rt_target_tcp(struct rt_target *target, const struct rt_address *address)
{
    memset(target, 0, sizeof(*target));
    target->length = rt_address_to_sockaddr(address, &target->address);
    rt_address_text(address, target->text, sizeof(target->text));
    return target->length != 0 && address->port != 0;
}

static int set_option(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof(value));
}

/* A connection made under a pacing congestion control (BBR is the default of some machines) stays paced when it gets
 * another later, which costs up to half of loopback's speed. So all are made with one that every machine has, and a
 * transport chooses its own once a connection is there. Harmless on unix sockets. */
static void make_unpaced(int fd)
{
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

static int close_with(int fd, int error)
{
    close(fd);
    return -error;
}

/* Binds and listens; the port it got goes to *port. */
static int listen_at(const struct sockaddr_storage *at, socklen_t length, uint16_t *port)
{
    struct sockaddr_storage bound;
    socklen_t bound_length = sizeof(bound);
    struct rt_address address;
    int fd = socket(at->ss_family, STREAM, 0);

    if (fd < 0)
        return -errno;
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1); /* connections of an earlier run in TIME_WAIT are no obstacle */
    if (at->ss_family == AF_INET6)
        set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    make_unpaced(fd); /* what it accepts inherits that */
    if (bind(fd, (const struct sockaddr *)at, length) || listen(fd, BACKLOG))
        return close_with(fd, errno);
    if (getsockname(fd, (struct sockaddr *)&bound, &bound_length))
        return close_with(fd, errno);
    if (!rt_address_from_sockaddr(&address, (struct sockaddr *)&bound))
        return close_with(fd, EAFNOSUPPORT);
    *port = address.port;
    return fd;
}

int rt_listen_tcp(const struct rt_address *at, uint16_t *port)
{
    struct rt_address any = { .family = AF_INET6, .port = *port }, chosen;
    struct sockaddr_storage address;

    if (at) {
        chosen = *at;
        chosen.port = *port;
        socklen_t length = rt_address_to_sockaddr(&chosen, &address);
        return listen_at(&address, length, port);
    }
    int fd = listen_at(&address, rt_address_to_sockaddr(&any, &address), port);
    if (fd != -EAFNOSUPPORT && fd != -EADDRNOTAVAIL)
        return fd;
    any.family = AF_INET; /* a machine without IPv6 */
    return listen_at(&address, rt_address_to_sockaddr(&any, &address), port);
}

int rt_listen_unix(const char *name)
{
    struct rt_target target;
    int fd = socket(AF_UNIX, STREAM, 0);

    if (fd < 0)
        return -errno;
    rt_target_unix(&target, name);
    if (bind(fd, (struct sockaddr *)&target.address, target.length) || listen(fd, BACKLOG))
        return close_with(fd, errno);
    return fd;
}

int rt_connect_start(const struct rt_target *target)
{
    int fd = socket(target->address.ss_family, STREAM, 0);

    if (fd < 0)
        return -errno;
    make_unpaced(fd);
    if (connect(fd, (const struct sockaddr *)&target->address, target->length) && errno != EINPROGRESS)
        return close_with(fd, errno);
    return fd;
}

void rt_tune_connection(int fd)
{
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 5);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 3);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 15000);
}

bool rt_is_self_connected(int fd)
{
    struct sockaddr_storage here, there;
    socklen_t here_length = sizeof(here), there_length = sizeof(there);

    memset(&here, 0, sizeof(here));
    memset(&there, 0, sizeof(there));
    return getsockname(fd, (struct sockaddr *)&here, &here_length) == 0 && here.ss_family != AF_UNIX &&
           getpeername(fd, (struct sockaddr *)&there, &there_length) == 0 && here_length == there_length &&
           memcmp(&here, &there, here_length) == 0;
}

const char *rt_peer_text(int fd, char *text, size_t capacity)
{
    struct sockaddr_storage there;
    socklen_t length = sizeof(there);
    struct rt_address address;

    if (getpeername(fd, (struct sockaddr *)&there, &length) == 0 &&
        rt_address_from_sockaddr(&address, (struct sockaddr *)&there))
        return rt_address_text(&address, text, capacity);
    snprintf(text, capacity, "a local process");
    return text;
}

int rt_poll_ms(uint64_t now_ns, uint64_t deadline_ns)
{
    if (deadline_ns <= now_ns)
        return 0;
    uint64_t ms = (deadline_ns - now_ns + 999999) / 1000000;
    return ms > 60000 ? 60000 : (int)ms;
}

/* Waits for `events`. 0, or -errno. */
static int wait_for(int fd, short events, const struct rt_clock *clock, uint64_t deadline_ns)
{
    struct pollfd poll_fd = { fd, events, 0 };
    uint64_t now = rt_now_ns(clock);

    if (now >= deadline_ns)
        return -ETIMEDOUT;
    if (poll(&poll_fd, 1, rt_poll_ms(now, deadline_ns)) < 0 && errno != EINTR)
        return -errno;
    return 0;
}

int rt_send_all(int fd, const void *bytes, size_t count, const struct rt_clock *clock, uint64_t deadline_ns)
{
    const char *at = bytes;
    int failed;

    while (count) {
        ssize_t sent = send(fd, at, count, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) {
            at += sent;
            count -= (size_t)sent;
        } else if (errno != EAGAIN && errno != EINTR) {
            return -errno;
        } else if ((failed = wait_for(fd, POLLOUT, clock, deadline_ns)) != 0) {
            return failed;
        }
    }
    return 0;
}

int rt_recv_all(int fd, void *bytes, size_t count, const struct rt_clock *clock, uint64_t deadline_ns)
{
    char *at = bytes;
    int failed;

    while (count) {
        ssize_t got = recv(fd, at, count, MSG_DONTWAIT);
        if (got == 0)
            return -EPIPE;
        if (got > 0) {
            at += got;
            count -= (size_t)got;
        } else if (errno != EAGAIN && errno != EINTR) {
            return -errno;
        } else if ((failed = wait_for(fd, POLLIN, clock, deadline_ns)) != 0) {
            return failed;
        }
    }
    return 0;
}
