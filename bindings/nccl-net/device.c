/*
 * What NCCL is told of this machine: the devices of one transport, the one that RINGTREE_TRANSPORTS puts first or that
 * costs least. NCCL spreads its channels over all devices that it is given, so that two transports over one cable would
 * only be in each other's way. The others serve for connections whose other end has not got the first.
 */
#include "net.h"
#include "topology/interfaces.h"
#include "ucx/summary.h"
#include <limits.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define DESCRIPTORS 16 /* of a connection, at most: sockets, or those of UCX's worker, or of a queue pair */

struct net_device {
    enum net_transport transport;
    char               name[64], pci_path[PATH_MAX];
    uint64_t           guid;
    int                speed_mbps, port;
    uint8_t            end[RT_VERBS_END_BYTES];
    struct rt_settings settings;
};

const struct rt_transport *const net_transport[NET_TRANSPORTS] = {
    [NET_TCP] = &rt_transport_tcp, [NET_UCX] = &rt_transport_ucx, [NET_VERBS] = &rt_transport_verbs };

struct rt_place net_place;
nccl_logger     net_log;

static pthread_once_t     once = PTHREAD_ONCE_INIT;
static ringtree_status    started;
static struct rt_error    failure;
static struct rt_settings settings;
static struct net_device  device[NET_MOST_DEVICES];
static uint32_t           devices, orders;
static enum net_transport order[NET_TRANSPORTS]; /* that may be used here, best first */

/* ---- which */

/* The two classes of the library's choice, between machines (docs/decisions/0011). */
static double cost_of(enum net_transport t)
{
    const struct rt_link_guess *guess = &net_transport[t]->guess[1];
    return (guess->latency + 8 * guess->byte) * (guess->latency + 1048576 * guess->byte);
}

static void order_by_cost(uint32_t usable)
{
    for (uint32_t t = 0; t < NET_TRANSPORTS; t++) {
        if (!(usable >> t & 1) || !rt_list_allows(settings.text[RT_TRANSPORTS], net_transport[t]->name)) continue;
        uint32_t at = orders++;
        for (; at > 0 && cost_of((enum net_transport)t) < cost_of(order[at - 1]); at--) order[at] = order[at - 1];
        order[at] = (enum net_transport)t;
    }
}

static void order_by_list(uint32_t usable)
{
    char word[32];
    for (uint32_t i = 0; rt_list_item(settings.text[RT_TRANSPORTS], i, word, sizeof(word)); i++)
        for (uint32_t t = 0; t < NET_TRANSPORTS; t++) {
            if (!(usable >> t & 1) || strcmp(word, net_transport[t]->name) != 0) continue;
            usable &= ~(1u << t);
            order[orders++] = (enum net_transport)t;
        }
}

static ringtree_status choose(uint32_t usable)
{
    char ucx[200], verbs[200];
    if (settings.text[RT_TRANSPORTS][0] == '^') order_by_cost(usable);
    else order_by_list(usable);
    if (orders) return RINGTREE_OK;
    return rt_fail(&failure, RINGTREE_UNREACHABLE, "RINGTREE_TRANSPORTS=%s leaves nothing that goes between machines "
                   "from here. verbs: %s. ucx: %s. tcp: always", settings.text[RT_TRANSPORTS],
                   rt_verbs_summary(verbs, sizeof(verbs)), rt_ucx_summary(ucx, sizeof(ucx)));
}

/* ---- what the kernel says of them */

/* NCCL finds the way to a GPU by it; empty: it hangs on no bus. */
static void find_pci_path(struct net_device *d, const char *class, const char *name)
{
    char path[128], real[PATH_MAX];
    snprintf(path, sizeof(path), "/sys/class/%s/%.31s/device", class, name);
    if (realpath(path, real) && strstr(real, "/pci")) memcpy(d->pci_path, real, sizeof(real));
}

static struct net_device *add(enum net_transport transport)
{
    struct net_device *d = &device[devices++];
    *d = (struct net_device){ .transport = transport, .guid = devices, .port = 1, .settings = settings };
    snprintf(d->name, sizeof(d->name), "ringtree-%s", net_transport[transport]->name);
    return d;
}

/* tcp, and ucx by networks without RDMA: all interfaces that may be used, of which the best stands for all. */
static void add_interfaces(enum net_transport transport)
{
    struct net_device *d = add(transport);
    find_pci_path(d, "net", net_place.address[0].interface);
    const uint32_t mbit = rt_interface_mbit(net_place.address[0].interface);
    d->speed_mbps = mbit ? (int)mbit : 10000; /* many do not tell */
}

static void look_at_port(struct net_device *d, const struct rt_verbs_seen *seen)
{
    find_pci_path(d, "infiniband", seen->device);
    d->guid = seen->guid;
    d->port = (int)seen->number;
    d->speed_mbps = (int)seen->speed_mbps;
}

/* A port each, whose connections are kept to it. They cannot go on over tcp when it fails: NCCL's listener is gone. */
static void add_port(const struct rt_verbs_seen *seen)
{
    struct net_device *d = add(NET_VERBS);
    struct rt_error unused = { 0 };
    look_at_port(d, seen);
    snprintf(d->name, sizeof(d->name), "ringtree-verbs-%.31s:%u", seen->device, seen->number);
    memcpy(d->end, seen->end, sizeof(d->end));
    rt_setting_set(&d->settings, RT_VERBS_DEVICES, d->name + strlen("ringtree-verbs-"), "the device's name", &unused);
    if (!d->settings.text[RT_VERBS_FAILOVER][0])
        rt_setting_set(&d->settings, RT_VERBS_FAILOVER, "port", "the device", &unused);
}

/* Soft ones are slower than tcp: only for those who ask, as in the library. */
static uint32_t see_ports(struct rt_verbs_seen *seen)
{
    struct rt_control self = { .place[0] = net_place };
    struct rt_fabric fabric = { .nranks = 2, .settings = &settings, .clock = &rt_system_clock, .control = &self };
    const uint32_t found = rt_verbs_see(&fabric, seen, NET_MOST_DEVICES);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < found; i++)
        if (!seen[i].soft || settings.given[RT_TRANSPORTS]) seen[kept++] = seen[i];
    return kept;
}

static void find_devices(void)
{
    struct rt_verbs_seen seen[NET_MOST_DEVICES];
    const uint32_t ports = see_ports(seen);
    const bool ucx = rt_transport_ucx.reaches(NULL, 0, NULL, 0);
    started = choose(1u << NET_TCP | (uint32_t)ucx << NET_UCX | (uint32_t)(ports > 0) << NET_VERBS);
    if (started != RINGTREE_OK) return;
    for (uint32_t i = 0; i < ports && order[0] == NET_VERBS; i++) add_port(&seen[i]);
    if (order[0] == NET_VERBS) return;
    add_interfaces(order[0]);
    if (order[0] == NET_UCX && ports) look_at_port(&device[0], &seen[0]); /* UCX takes RDMA where it is */
}

static void start(void)
{
    if (sodium_init() < 0) started = rt_fail(&failure, RINGTREE_SYSTEM, "libsodium finds no source of random numbers");
    if (started == RINGTREE_OK) started = rt_settings_load(&settings, &failure);
    if (started == RINGTREE_OK) started = rt_place_find(&net_place, &settings, &failure);
    if (started == RINGTREE_OK && net_place.address[0].family == 0)
        started = rt_fail(&failure, RINGTREE_UNREACHABLE, "no network address may be used (RINGTREE_INTERFACE)");
    if (started == RINGTREE_OK) find_devices();
}

/* ---- for the other files */

enum nccl_result net_start(nccl_logger logger)
{
    if (logger) net_log = logger;
    pthread_once(&once, start);
    return started == RINGTREE_OK ? NCCL_SUCCESS : net_say(started, failure.text);
}

uint32_t net_device_count(void)
{
    return devices;
}

const struct net_device *net_device(int number)
{
    struct rt_error error = { 0 };
    if (number >= 0 && number < (int)devices) return &device[number];
    net_say(rt_fail(&error, RINGTREE_INVALID_ARGUMENT, "there is no device %d, only %u", number, devices), error.text);
    return NULL;
}

const struct rt_settings *net_device_settings(const struct net_device *d)
{
    return &d->settings;
}

uint32_t net_device_offers(const struct net_device *d, uint8_t end[RT_VERBS_END_BYTES])
{
    uint32_t transports = 0;
    for (uint32_t i = 0; i < orders; i++)
        if (order[i] != NET_VERBS || d->transport == NET_VERBS) transports |= 1u << order[i];
    memcpy(end, d->end, RT_VERBS_END_BYTES);
    return transports;
}

enum net_transport net_device_choice(const struct net_device *d, const struct net_handle *theirs)
{
    uint8_t end[RT_VERBS_END_BYTES];
    const uint32_t both = net_device_offers(d, end) & theirs->transports;
    uint32_t i = 0;
    while (i < orders && (!(both >> order[i] & 1) || (order[i] == NET_VERBS && !rt_verbs_meets(end, theirs->end)))) i++;
    return i < orders ? order[i] : NET_TRANSPORTS;
}

static int most_connections(void)
{
    struct rlimit limit = { .rlim_cur = RLIM_INFINITY };
    getrlimit(RLIMIT_NOFILE, &limit);
    const rlim_t most = limit.rlim_cur / DESCRIPTORS;
    return most > 65536 ? 65536 : most > 0 ? (int)most : 1;
}

/* Registrations are a connection's own: verbs pins for its queue pair's device. */
void net_properties(struct nccl_properties_12 *properties, int number)
{
    const size_t most = (size_t)1 << 40;
    struct net_device *d = &device[number];
    *properties = (struct nccl_properties_12){
        .name = d->name, .pci_path = d->pci_path[0] ? d->pci_path : NULL, .guid = d->guid,
        .ptr_support = NCCL_PTR_HOST, .speed_mbps = d->speed_mbps, .port = d->port,
        .latency_us = (float)(net_transport[d->transport]->guess[1].latency * 1e6), .max_comms = most_connections(),
        .max_recvs = 1, .devices = 1, .device = { number }, .max_p2p_bytes = most, .max_coll_bytes = most,
        .max_multi_request = 1, .rail = -1, .plane = -1 };
}

void net_tell_way(const struct net_device *d, const struct rt_control *control)
{
    if (net_log)
        net_log(NCCL_LOG_INFO, NCCL_LOG_NET, __FILE__, __LINE__, "NET/ringtree: a connection of %s goes by %s", d->name,
                net_transport[control->value & 3]->name);
}

enum nccl_result net_say(ringtree_status status, const char *sentence)
{
    if (net_log) net_log(NCCL_LOG_WARN, NCCL_LOG_NET, __FILE__, __LINE__, "NET/ringtree: %s", sentence);
    switch (status) {
    case RINGTREE_PEER_LOST:
    case RINGTREE_REFUSED:
    case RINGTREE_UNREACHABLE: return NCCL_REMOTE_ERROR;
    case RINGTREE_INVALID_ARGUMENT: return NCCL_INVALID_ARGUMENT;
    case RINGTREE_INVALID_SETTING:
    case RINGTREE_MISMATCH: return NCCL_INVALID_USAGE;
    case RINGTREE_INTERNAL: return NCCL_INTERNAL_ERROR;
    default: return NCCL_SYSTEM_ERROR;
    }
}
