/*
 * What a receiver tells its sender, by NCCL's own bootstrap: where it listens, and the secret of this one connection.
 * Little endian, 126 bytes of NCCL's 128; whatever comes is checked.
 */
#ifndef RT_NET_HANDLE_H
#define RT_NET_HANDLE_H

#include "topology/place.h"

#define NET_HANDLE_BYTES 128
#define NET_BY_TCP 1u /* bits of `transports` */
#define NET_BY_UCX 2u

struct net_handle {
    uint8_t           secret[16];
    uint64_t          number, host_key;
    uint32_t          transports; /* that the receiver can use */
    struct rt_address address[RT_MAX_ADDRESSES];
};

void net_handle_put(uint8_t bytes[NET_HANDLE_BYTES], const struct net_handle *handle);
/* False: not a handle of this plugin. */
bool net_handle_parse(const uint8_t bytes[NET_HANDLE_BYTES], struct net_handle *handle);

#endif
