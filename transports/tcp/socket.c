/*
 * Options of the connections, and words for what goes wrong with them.
 *
 * No TCP_USER_TIMEOUT: the kernel also counts the time in which a living receiver keeps its window shut, so a rank that
 * computes for longer than that between two collectives would be cut off. A machine that goes silent is found by
 * the control plane's own connections and by keepalive here; any wait ends with the engine's timeout.
 * No SO_SNDBUF or SO_RCVBUF: set by hand they are cut to net.core.[rw]mem_max (208 KiB on many machines), while the
 * kernel's own growth reaches a plain exchange's speed (tests/transports/tcp_speed.c: 7.2 to 8.1 GB/s for both).
 * No TCP_QUICKACK: holding ACKs back saves 1 us of 5 on loopback, until the first long slice, and slows slow start.
 */
#include "tcp.h"
#include "base/log.h"
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void set_option(int fd, int level, int option, int value)
{
    setsockopt(fd, level, option, &value, sizeof(value)); /* each is an improvement, none a need */
}

/* Both ends have one address: the connection does not leave the machine. */
static bool is_local(const struct rt_address *here, const struct rt_address *there)
{
    return here->family == there->family && memcmp(here->bytes, there->bytes, sizeof(here->bytes)) == 0;
}

/* The name of the interface that the peer listed with this address. */
static const char *interface_of(const struct rt_place *place, const struct rt_address *address)
{
    for (uint32_t i = 0; i < RT_MAX_ADDRESSES; i++)
        if (is_local(&place->address[i], address)) return place->address[i].interface;
    const unsigned char loopback6[16] = { [15] = 1 };
    if (address->family == AF_INET ? address->bytes[0] == 127 : !memcmp(address->bytes, loopback6, 16)) return "lo";
    return "";
}

static bool addresses(int fd, struct rt_address *here, struct rt_address *there)
{
    struct sockaddr_storage name;
    memset(&name, 0, sizeof(name));
    socklen_t length = sizeof(name);
    if (getsockname(fd, (struct sockaddr *)&name, &length)) return false;
    if (!rt_address_from_sockaddr(here, (struct sockaddr *)&name)) return false;
    length = sizeof(name);
    return getpeername(fd, (struct sockaddr *)&name, &length) == 0 &&
           rt_address_from_sockaddr(there, (struct sockaddr *)&name);
}

#define NEAR_US 2000

/* Packets go there and back in a data centre's time, as shaking hands has shown. */
static bool is_near(int fd)
{
    struct tcp_info info;
    socklen_t length = sizeof(info);
    memset(&info, 0, sizeof(info));
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_rtt && info.tcpi_rtt < NEAR_US;
}

/*
 * Connections are made with reno (bootstrap/net.c), which within a machine they keep; between machines they take what
 * the system has chosen, but for bbr to a peer that is near. It paces: what it has learned from small messages holds
 * up a large one, and rates learned one peer at a time are not those of all peers together. Two namespaces joined by
 * veth, single all_reduces of 64 KiB as one message: 45 us, with reno 28; 4 ranks on 1 Gbit/s, 8 MiB in five ways:
 * 105 to 573 ms, with reno all 105.
 */
static void choose_congestion(const struct rt_tcp_pair *pair, int fd)
{
    char name[32] = "";
    socklen_t length = sizeof(name) - 1;
    const char *wanted = pair->fabric->settings->text[RT_TCP_CONGESTION];
    if (!wanted[0]) {
        const int fresh = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fresh >= 0 && getsockopt(fresh, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0) wanted = name;
        if (fresh >= 0) close(fresh);
        if (!strncmp(name, "bbr", 3) && is_near(fd)) return;
    }
    if (wanted[0] && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, wanted, (socklen_t)strlen(wanted)))
        rt_log(RT_LOG_WARN, "the system does not grant congestion control %s: %s", wanted, rt_errno_words(errno));
}

void rt_tcp_tune(struct rt_tcp_pair *pair, int fd)
{
    struct rt_address here, there;
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 0);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
    if (!addresses(fd, &here, &there)) {
        snprintf(pair->where, sizeof(pair->where), "(unnamed)");
        return;
    }
    if (!is_local(&here, &there)) choose_congestion(pair, fd);
    const char *interface = interface_of(&rt_control_places(pair->fabric->control)[pair->peer], &there);
    snprintf(there.interface, sizeof(there.interface), "%s", interface);
    rt_address_text(&there, pair->where, sizeof(pair->where));
}

uint32_t rt_tcp_choose_sockets(const struct rt_link *link)
{
    const struct rt_place *places = rt_control_places(link->fabric->control);
    const uint64_t asked = link->fabric->settings->number[RT_TCP_SOCKETS];
    if (asked) return asked < RT_TCP_MOST_SOCKETS ? (uint32_t)asked : RT_TCP_MOST_SOCKETS;
    if (link->lane == RT_P2P_LANE) return 1;
    const bool near = places[link->fabric->rank].host_key == places[link->peer].host_key;
    return near || !link->fabric->connections ? 1 : link->fabric->connections;
}

bool rt_tcp_would_block(int number)
{
    return number == EAGAIN || number == EWOULDBLOCK;
}

ringtree_status rt_tcp_fail(struct rt_tcp_link *l, ringtree_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (l->failure.status == RINGTREE_OK) rt_vfail(&l->failure, status, format, args);
    va_end(args);
    return l->failure.status;
}

ringtree_status rt_tcp_lost(struct rt_tcp_link *l, int number, const char *when)
{
    const struct rt_link *link = &l->link;
    const char *host = rt_control_places(link->fabric->control)[link->peer].host;
    return rt_tcp_fail(l, RINGTREE_PEER_LOST,
                       "rank %u: the tcp connection %s rank %u (host %s, %s) %s %s; its process has ended or the "
                       "network between is broken: look at rank %u", link->fabric->rank, link->sender ? "to" : "from",
                       link->peer, host, l->pair->where, number ? rt_errno_words(number) : "was closed by it", when,
                       link->peer);
}

ringtree_status rt_tcp_failed(const struct rt_tcp_link *l, struct rt_error *error)
{
    if (l->failure.status != RINGTREE_OK && error) *error = l->failure;
    return l->failure.status;
}
