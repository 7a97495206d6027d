/*
 * What a receiver tells its sender, by NCCL's own bootstrap: where it listens, by what it can be reached, and the secret
 * of this one connection. Little endian, as many addresses as NCCL's 128 bytes have room for; whatever comes is checked.
 */
#ifndef RT_NET_HANDLE_H
#define RT_NET_HANDLE_H

#include "topology/place.h"
#include "verbs/summary.h"

#define NET_HANDLE_BYTES 128

enum net_transport { NET_TCP, NET_UCX, NET_VERBS, NET_TRANSPORTS }; /* as in connections' claims */

struct net_handle {
    uint8_t           secret[16];
    uint64_t          number, host_key;
    uint32_t          transports; /* that the receiver can use, a bit each */
    uint8_t           end[RT_VERBS_END_BYTES]; /* its port, with NET_VERBS */
    struct rt_address address[RT_MAX_ADDRESSES];
};

void net_handle_put(uint8_t bytes[NET_HANDLE_BYTES], const struct net_handle *handle);
/* False: not a handle of this plugin. */
bool net_handle_parse(const uint8_t bytes[NET_HANDLE_BYTES], struct net_handle *handle);

#endif
