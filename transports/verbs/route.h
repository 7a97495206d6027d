/*
 * Which GID a port takes, and which ports of two ranks can talk: pure functions of what the ports are.
 *
 * A GID is an address of the port's interface. On InfiniBand the first one serves. On RoCE there are several, one per
 * address and version; the one taken is that of the address which ringtree uses for everything else, so that whoever
 * set RINGTREE_INTERFACE, or has ringtree find the way by itself, gets the same network here.
 */
#ifndef RT_VERBS_ROUTE_H
#define RT_VERBS_ROUTE_H

#include "topology/place.h"

#define RT_VERBS_PORTS 4  /* of a rank, used at once */
#define RT_VERBS_GIDS  64 /* looked at, per port */

enum rt_verbs_layer { RT_VERBS_INFINIBAND = 1, RT_VERBS_ETHERNET = 2 };

struct rt_verbs_gid {
    uint8_t  bytes[16];
    uint8_t  version; /* 2: RoCE v2, 1: RoCE v1, 0: InfiniBand */
    uint8_t  prefix;  /* bits of its subnet; 0: not known */
    uint16_t index;
    char     interface[16];
};

/* The index in `gids` of the one to use, or -1. `asked`: RINGTREE_VERBS_GID_INDEX, or -1. `why` tells the reason. */
int rt_verbs_choose_gid(const struct rt_verbs_gid *gids, uint32_t count, int asked,
                        const struct rt_address addresses[RT_MAX_ADDRESSES], char *why, size_t capacity);

bool rt_verbs_gid_is_link_local(const uint8_t gid[16]);
bool rt_verbs_gid_is_ipv4(const uint8_t gid[16]);
bool rt_verbs_gid_same_subnet(const uint8_t a[16], const uint8_t b[16], uint32_t prefix);

/* What a rank tells of a port before anything is connected. */
struct rt_verbs_end {
    uint8_t  gid[16];
    uint8_t  layer, prefix, mtu; /* mtu as enum ibv_mtu */
    uint16_t lid;
};

/* Can these two talk? 2: in one subnet, 1: through routers, perhaps, 0: no. */
int rt_verbs_ends_meet(const struct rt_verbs_end *a, const struct rt_verbs_end *b);

/*
 * Partners for the ports: pair[i] is the upper rank's port for port i of the lower rank, or -1. Both ranks compute the
 * same. Ports in one subnet come first; ports behind routers are used only when there are none. Returns how many.
 */
uint32_t rt_verbs_match(const struct rt_verbs_end *lower, uint32_t lowers, const struct rt_verbs_end *upper,
                        uint32_t uppers, int pair[RT_VERBS_PORTS]);

#endif
