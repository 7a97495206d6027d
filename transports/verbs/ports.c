/* Devices: which ports a rank uses, with which GID, and what happens to them. */
#include "summary.h"
#include "verbs.h"
#include "base/log.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static uint64_t number_of(const struct rt_verbs *v, enum rt_setting setting)
{
    return v->fabric->settings->number[setting];
}

/* ---- what the kernel says of a device and its interface */

static int numa_of(const char *device)
{
    char path[128], text[16] = "";
    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device/numa_node", device);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0) close(fd);
    return n > 0 ? atoi(text) : -1;
}

/* Emulated ones hang on no bus. */
static bool is_soft(const char *device)
{
    char path[128];
    snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device", device);
    return access(path, F_OK) != 0;
}

static uint8_t bits_set(const unsigned char *mask, size_t bytes)
{
    uint8_t bits = 0;
    for (size_t i = 0; i < bytes; i++) bits = (uint8_t)(bits + __builtin_popcount(mask[i]));
    return bits;
}

/* The subnet's bits of the interface address that is this GID; 0: none is. */
static uint8_t prefix_of(const struct ifaddrs *list, const uint8_t gid[16])
{
    for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
        struct rt_address address, mask;
        if (!i->ifa_addr || !i->ifa_netmask || !rt_address_from_sockaddr(&address, i->ifa_addr)) continue;
        if (!rt_address_from_sockaddr(&mask, i->ifa_netmask)) continue;
        if (address.family == AF_INET && rt_verbs_gid_is_ipv4(gid) && !memcmp(gid + 12, address.bytes, 4))
            return (uint8_t)(96 + bits_set(mask.bytes, 4));
        if (address.family == AF_INET6 && !memcmp(gid, address.bytes, 16)) return bits_set(mask.bytes, 16);
    }
    return 0;
}

/* ---- one port */

static uint8_t version_of(const struct ibv_gid_entry *entry)
{
    return entry->gid_type == IBV_GID_TYPE_ROCE_V2 ? 2 : entry->gid_type == IBV_GID_TYPE_ROCE_V1 ? 1 : 0;
}

static uint32_t read_gids(const struct rt_verbs *v, const struct rt_verbs_port *port, struct rt_verbs_gid *gids)
{
    struct ibv_gid_entry entries[RT_VERBS_GIDS];
    struct ifaddrs *list = NULL;
    uint32_t count = 0;
    const ssize_t n = v->api->query_gid_table(port->context, entries, RT_VERBS_GIDS, 0, sizeof(entries[0]));
    if (getifaddrs(&list)) list = NULL;
    for (ssize_t i = 0; i < n; i++) {
        if (entries[i].port_num != port->number) continue;
        struct rt_verbs_gid *gid = &gids[count++];
        *gid = (struct rt_verbs_gid){ .version = version_of(&entries[i]), .index = (uint16_t)entries[i].gid_index };
        memcpy(gid->bytes, entries[i].gid.raw, 16);
        gid->prefix = prefix_of(list, gid->bytes);
        char name[IF_NAMESIZE] = "";
        if (entries[i].ndev_ifindex && if_indextoname(entries[i].ndev_ifindex, name)) memcpy(gid->interface, name, 16);
    }
    if (list) freeifaddrs(list);
    return count;
}

static bool find_gid(struct rt_verbs *v, struct rt_verbs_port *port, char *why, size_t capacity)
{
    struct rt_verbs_gid gids[RT_VERBS_GIDS];
    const struct rt_settings *settings = v->fabric->settings;
    const uint32_t count = read_gids(v, port, gids);
    const int asked = settings->text[RT_VERBS_GID_INDEX][0] ? (int)settings->number[RT_VERBS_GID_INDEX] : -1;
    const struct rt_place *place = &rt_control_places(v->fabric->control)[v->fabric->rank];
    const int chosen = rt_verbs_choose_gid(gids, count, asked, place->address, why, capacity);
    if (chosen < 0) return false;
    memcpy(port->end.gid, gids[chosen].bytes, 16);
    memcpy(port->interface, gids[chosen].interface, sizeof(port->interface));
    port->end.prefix = gids[chosen].prefix;
    port->gid_index = gids[chosen].index;
    return true;
}

static bool find_pkey(struct rt_verbs *v, struct rt_verbs_port *port, uint32_t length, char *why, size_t capacity)
{
    const uint64_t wanted = number_of(v, RT_VERBS_PKEY);
    for (uint32_t i = 0; wanted && i < length; i++) {
        __be16 key = 0;
        if (v->api->query_pkey(port->context, (uint8_t)port->number, (int)i, &key)) break;
        if (((uint32_t)(key << 8 | key >> 8) & 0x7fff) != (wanted & 0x7fff)) continue;
        port->pkey_index = i;
        return true;
    }
    if (wanted) snprintf(why, capacity, "it is not in partition %" PRIu64 " (RINGTREE_VERBS_PKEY)", wanted);
    return !wanted;
}

/* Mbit/s, from width and speed as InfiniBand encodes them. */
static uint64_t speed_of(const struct ibv_port_attr *attr)
{
    const uint64_t lanes = attr->active_width == 2 ? 4 : attr->active_width == 4 ? 8 : attr->active_width == 8 ? 12
                                                   : attr->active_width == 16 ? 2 : 1;
    static const uint64_t lane[] = { 2500, 5000, 10000, 10000, 14000, 25000, 50000, 100000 };
    uint32_t bit = 0;
    while (bit < 7 && !(attr->active_speed >> bit & 1)) bit++;
    return lanes * lane[attr->active_speed ? bit : 0];
}

static bool query(const struct rt_verbs *v, const struct rt_verbs_port *port, struct ibv_port_attr *attr)
{
    memset(attr, 0, sizeof(*attr));
    return v->api->query_port(port->context, (uint8_t)port->number, attr) == 0;
}

static const char *inspect(struct rt_verbs *v, struct rt_verbs_port *port, char *why, size_t capacity)
{
    struct ibv_port_attr attr;
    if (!query(v, port, &attr)) return "it cannot be queried";
    if (attr.state != IBV_PORT_ACTIVE) return "it is down";
    if (attr.link_layer != IBV_LINK_LAYER_ETHERNET && attr.link_layer != IBV_LINK_LAYER_INFINIBAND &&
        attr.link_layer != IBV_LINK_LAYER_UNSPECIFIED)
        return "its link layer is none that this version knows";
    port->end.layer = attr.link_layer == IBV_LINK_LAYER_ETHERNET ? RT_VERBS_ETHERNET : RT_VERBS_INFINIBAND;
    port->end.mtu = (uint8_t)attr.active_mtu;
    port->end.lid = attr.lid;
    port->speed = speed_of(&attr);
    if (!rt_verbs_mtu_bytes(port->end.mtu)) return "its MTU is none";
    if (!find_pkey(v, port, attr.pkey_tbl_len, why, capacity) || !find_gid(v, port, why, capacity)) return why;
    return NULL;
}

bool rt_verbs_port_is_up(const struct rt_verbs *v, const struct rt_verbs_port *port)
{
    struct ibv_port_attr attr;
    return query(v, port, &attr) && attr.state == IBV_PORT_ACTIVE;
}

const char *rt_verbs_port_text(const struct rt_verbs_port *port, char *text, size_t capacity)
{
    char gid[64];
    snprintf(text, capacity, "%s port %u (GID %s)", port->device, port->number,
             rt_verbs_gid_text(port->end.gid, gid, sizeof(gid)));
    return text;
}

/* ---- all ports */

/* Is this one in RINGTREE_VERBS_DEVICES ("mlx5_0,mlx5_1:2")? Empty: all are. */
static bool is_listed(const char *list, const char *device, uint32_t number)
{
    char item[64], with_port[64];
    if (!list[0]) return true;
    snprintf(with_port, sizeof(with_port), "%.40s:%u", device, number);
    for (uint32_t i = 0; rt_list_item(list, i, item, sizeof(item)); i++)
        if (!strcmp(item, device) || !strcmp(item, with_port)) return true;
    return false;
}

static void add_reason(struct rt_verbs *v, const char *device, uint32_t number, const char *reason)
{
    const size_t used = strlen(v->why);
    snprintf(v->why + used, sizeof(v->why) - used, "%s%s port %u: %s", used ? "; " : "", device, number, reason);
    rt_log(RT_LOG_INFO, "verbs: %s port %u is not used: %s", device, number, reason);
}

/* Nearer first, then faster. */
static bool is_better(const struct rt_verbs_port *a, const struct rt_verbs_port *b, int node)
{
    const bool a_near = a->numa < 0 || a->numa == node, b_near = b->numa < 0 || b->numa == node;
    return a_near != b_near ? a_near : a->speed > b->speed;
}

static void keep(struct rt_verbs *v, const struct rt_verbs_port *port, int node)
{
    uint32_t at = v->ports;
    while (at > 0 && is_better(port, &v->port[at - 1], node)) at--;
    if (at == RT_VERBS_PORTS) return;
    if (v->ports == RT_VERBS_PORTS) v->ports--;
    memmove(&v->port[at + 1], &v->port[at], (v->ports - at) * sizeof(v->port[0]));
    v->port[at] = *port;
    v->ports++;
}

static void look_at_device(struct rt_verbs *v, struct ibv_device *device, struct ibv_context *context, int node)
{
    const char *name = v->api->get_device_name(device);
    const char *list = v->fabric->settings->text[RT_VERBS_DEVICES];
    struct ibv_device_attr attr;
    char why[200];
    memset(&attr, 0, sizeof(attr));
    if (v->api->query_device(context, &attr)) return;
    for (uint32_t number = 1; number <= attr.phys_port_cnt; number++) {
        struct rt_verbs_port port = { .context = context, .number = number, .numa = numa_of(name),
                                      .soft = is_soft(name) };
        if (!is_listed(list, name, number)) continue;
        snprintf(port.device, sizeof(port.device), "%s", name);
        const char *fault = inspect(v, &port, why, sizeof(why));
        if (fault) {
            add_reason(v, name, number, fault);
            continue;
        }
        rt_log(RT_LOG_INFO, "verbs: %s port %u can be used, %" PRIu64 " Mbit/s, MTU %u, %s", name, number, port.speed,
               rt_verbs_mtu_bytes(port.end.mtu), why);
        keep(v, &port, node);
    }
}

/* Without a list: only ports as near and as fast as the best, since a slice is cut into equal parts. */
static void drop_lesser(struct rt_verbs *v)
{
    uint32_t kept = 0;
    if (v->fabric->settings->text[RT_VERBS_DEVICES][0]) return;
    for (uint32_t i = 0; i < v->ports; i++)
        if (v->port[i].speed == v->port[0].speed && v->port[i].numa == v->port[0].numa) v->port[kept++] = v->port[i];
    v->ports = kept;
}

/* Protection domains for the contexts that are used. */
static void own_contexts(struct rt_verbs *v)
{
    for (uint32_t i = 0; i < v->ports; i++) {
        struct rt_verbs_port *port = &v->port[i];
        for (uint32_t k = 0; k < i; k++)
            if (v->port[k].context == port->context) port->pd = v->port[k].pd;
        if (port->pd) continue;
        port->pd = v->api->alloc_pd(port->context);
        port->owner = true;
        const int flags = fcntl(port->context->async_fd, F_GETFL);
        if (flags >= 0) fcntl(port->context->async_fd, F_SETFL, flags | O_NONBLOCK);
        if (!port->pd) add_reason(v, port->device, port->number, "no protection domain can be had");
    }
    for (uint32_t i = 0; i < v->ports; i++)
        if (!v->port[i].pd) v->ports = i; /* those after it are not used either */
}

static bool is_used(const struct rt_verbs *v, const struct ibv_context *context)
{
    for (uint32_t i = 0; i < v->ports; i++)
        if (v->port[i].context == context) return true;
    return false;
}

static void find_ports(struct rt_verbs *v)
{
    unsigned cpu, node = 0;
    int count = 0;
    struct ibv_device **devices = v->api->get_device_list(&count);
    getcpu(&cpu, &node);
    struct ibv_context **contexts = calloc((size_t)count + 1, sizeof(*contexts));
    for (int i = 0; devices && contexts && i < count; i++) {
        contexts[i] = v->api->open_device(devices[i]);
        if (contexts[i]) look_at_device(v, devices[i], contexts[i], (int)node);
        else add_reason(v, v->api->get_device_name(devices[i]), 1, rt_errno_words(errno));
    }
    drop_lesser(v);
    own_contexts(v);
    for (int i = 0; contexts && i < count; i++)
        if (contexts[i] && !is_used(v, contexts[i])) v->api->close_device(contexts[i]);
    free(contexts);
    if (devices) v->api->free_device_list(devices);
    const char *list = v->fabric->settings->text[RT_VERBS_DEVICES];
    if (!v->ports && !v->why[0])
        snprintf(v->why, sizeof(v->why), "there is no RDMA device %s%.150s%s",
                 list[0] ? "named by RINGTREE_VERBS_DEVICES=" : "", list, list[0] ? " " : "");
    if (!v->ports && !strncmp(v->why, "there is no RDMA device ", 24))
        strcat(v->why, "here");
}

static void tell(const struct rt_verbs_port *port, struct rt_verbs_seen *seen)
{
    *seen = (struct rt_verbs_seen){ .number = port->number, .speed_mbps = port->speed, .soft = port->soft };
    memcpy(seen->device, port->device, sizeof(seen->device));
    memcpy(&seen->guid, port->end.gid + 8, sizeof(seen->guid));
    rt_verbs_end_put(&port->end, seen->end);
}

uint32_t rt_verbs_see(struct rt_fabric *fabric, struct rt_verbs_seen *seen, uint32_t most)
{
    const char *why;
    int count = 0;
    uint32_t found = 0;
    const struct rt_verbs_api *api = rt_verbs_load(&why);
    struct ibv_device **devices = api ? api->get_device_list(&count) : NULL;
    for (int i = 0; devices && i < count; i++) {
        struct rt_verbs v = { .api = api, .fabric = fabric };
        struct ibv_context *context = api->open_device(devices[i]);
        if (!context) continue;
        look_at_device(&v, devices[i], context, -1);
        for (uint32_t k = 0; k < v.ports && found < most; k++) tell(&v.port[k], &seen[found++]);
        api->close_device(context);
    }
    if (devices) api->free_device_list(devices);
    return found;
}

/* ---- the table's calls */

void rt_verbs_announce(struct rt_fabric *fabric, void *mine)
{
    const char *why;
    struct rt_verbs_announcement a = { .ports = 0 };
    struct rt_verbs *v = calloc(1, sizeof(*v));
    fabric->verbs = v;
    if (!v) return;
    v->fabric = fabric;
    v->poller = epoll_create1(EPOLL_CLOEXEC);
    v->asked_for = fabric->settings->given[RT_TRANSPORTS] != 0;
    v->api = rt_verbs_load(&why);
    if (!v->api) snprintf(v->why, sizeof(v->why), "%s", why);
    else find_ports(v);
    bool soft = v->ports > 0;
    for (uint32_t i = 0; i < v->ports; i++) soft &= v->port[i].soft;
    if (soft && !v->asked_for)
        snprintf(v->why, sizeof(v->why), "%s is emulated in software, and slower than tcp; put verbs into "
                 "RINGTREE_TRANSPORTS to use it all the same", v->port[0].device);
    else a.ports = v->ports;
    for (uint32_t i = 0; i < a.ports; i++) a.end[i] = v->port[i].end;
    rt_verbs_announcement_put(&a, mine);
}

static uint8_t judge(const struct rt_verbs_announcement *mine, const struct rt_verbs_announcement *theirs)
{
    int pair[RT_VERBS_PORTS];
    if (!theirs->ports) return 2;
    return rt_verbs_match(mine->end, mine->ports, theirs->end, theirs->ports, pair) ? 1 : 3;
}

void rt_verbs_hear(struct rt_fabric *fabric, const void *all, size_t stride)
{
    struct rt_verbs *v = fabric->verbs;
    struct rt_verbs_announcement mine, theirs;
    const unsigned char *at = all;
    if (!v || !(v->meets = calloc(fabric->nranks, 1))) return;
    if (!rt_verbs_announcement_get(&mine, at + fabric->rank * stride) || !mine.ports) return;
    for (uint32_t r = 0; r < fabric->nranks; r++)
        v->meets[r] = rt_verbs_announcement_get(&theirs, at + r * stride) ? judge(&mine, &theirs) : 2;
}

void rt_verbs_leave(struct rt_fabric *fabric)
{
    struct rt_verbs *v = fabric->verbs;
    if (!v) return;
    rt_verbs_cache_stop(v);
    for (uint32_t i = 0; i < v->ports; i++) {
        if (!v->port[i].owner) continue;
        v->api->dealloc_pd(v->port[i].pd);
        v->api->close_device(v->port[i].context);
    }
    if (v->poller >= 0) close(v->poller);
    free(v->meets);
    free(v);
    fabric->verbs = NULL;
}

/* ---- events */

static void obey(struct rt_verbs *v, const struct rt_verbs_port *owner, const struct ibv_async_event *event)
{
    const enum ibv_event_type type = event->event_type;
    const bool of_port = type == IBV_EVENT_PORT_ERR || type == IBV_EVENT_PORT_ACTIVE || type == IBV_EVENT_GID_CHANGE ||
                         type == IBV_EVENT_LID_CHANGE || type == IBV_EVENT_PKEY_CHANGE;
    char text[120];
    for (uint32_t i = 0; i < v->ports; i++) {
        struct rt_verbs_port *port = &v->port[i];
        if (port->context != owner->context || (of_port && event->element.port_num != (int)port->number)) continue;
        if (type == IBV_EVENT_PORT_ACTIVE) port->down = false;
        else if (rt_verbs_event_is_fatal(type)) port->down = true;
        port->gone |= type == IBV_EVENT_DEVICE_FATAL;
        snprintf(port->event, sizeof(port->event), "%s: %s", rt_verbs_port_text(port, text, sizeof(text)),
                 rt_verbs_event_meaning(type));
        rt_log(RT_LOG_WARN, "verbs: %s", port->event);
    }
    for (struct rt_verbs_pair *pair = v->pairs; pair && type == IBV_EVENT_DEVICE_FATAL; pair = pair->next)
        epoll_ctl(pair->poller, EPOLL_CTL_DEL, owner->context->async_fd, NULL);
}

void rt_verbs_events(struct rt_verbs *v)
{
    struct ibv_async_event event;
    for (uint32_t i = 0; i < v->ports; i++)
        while (v->port[i].owner && v->api->get_async_event(v->port[i].context, &event) == 0) {
            obey(v, &v->port[i], &event);
            v->api->ack_async_event(&event);
        }
}
