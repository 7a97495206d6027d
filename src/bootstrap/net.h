/* Sockets of the control plane: non-blocking, close-on-exec, never SIGPIPE. Results are descriptors or -errno. */
#ifndef RT_NET_H
#define RT_NET_H

#include "control.h"

#define RT_UNIX_NAME 40

/* Where a connection goes: a socket address, TCP or abstract unix, and its words. */
struct rt_target {
    struct sockaddr_storage address;
    socklen_t               length;
    char                    text[72];
};

void rt_target_unix(struct rt_target *target, const char *name);
/* False: an unused address. */
bool rt_target_tcp(struct rt_target *target, const struct rt_address *address);

/* Listen on `at`, or with `at` NULL on every address (IPv6 and IPv4); *port 0: any, and it is filled. */
int rt_listen_tcp(const struct rt_address *at, uint16_t *port);
int rt_listen_unix(const char *name);
/* A connection begun; it may still be in progress. */
int rt_connect_start(const struct rt_target *target);
/* No delay, and end within about 15 s when the other machine is silent. Harmless on unix sockets. */
void rt_tune_connection(int fd);
/* A TCP connection to oneself, which Linux makes when nobody listens on an ephemeral port. */
bool rt_is_self_connected(int fd);
/* Who is at the other end, in words. */
const char *rt_peer_text(int fd, char *text, size_t capacity);

/* Whole messages on a non-blocking socket until `deadline_ns`. 0, or -errno: -ETIMEDOUT, -EPIPE when it ended. */
int rt_send_all(int fd, const void *bytes, size_t count, const struct rt_clock *clock, uint64_t deadline_ns);
int rt_recv_all(int fd, void *bytes, size_t count, const struct rt_clock *clock, uint64_t deadline_ns);

/* Milliseconds for poll(): rounded up, at most a minute; 0 when it has passed. */
int rt_poll_ms(uint64_t now_ns, uint64_t deadline_ns);

#endif
