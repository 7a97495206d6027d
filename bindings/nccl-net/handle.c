/* The handle's bytes; handle.h says what they are. */
#include "handle.h"
#include "bootstrap/bytes.h"
#include <string.h>

#define MAGIC   0x4e585452u /* "RTXN" */
#define VERSION 1
#define HEAD    42 /* magic, version, addresses, transports, port, number, host key, secret */
#define ADDRESS 21 /* family 4 or 6, zone, bytes */

_Static_assert(HEAD + RT_MAX_ADDRESSES * ADDRESS <= NET_HANDLE_BYTES, "NCCL carries no more");

void net_handle_put(uint8_t bytes[NET_HANDLE_BYTES], const struct net_handle *handle)
{
    memset(bytes, 0, NET_HANDLE_BYTES);
    rt_put_u32(bytes, MAGIC);
    rt_put_u16(bytes + 4, VERSION);
    bytes[7] = (uint8_t)handle->transports;
    rt_put_u64(bytes + 10, handle->number);
    rt_put_u64(bytes + 18, handle->host_key);
    memcpy(bytes + 26, handle->secret, 16);
    for (uint32_t i = 0; i < RT_MAX_ADDRESSES; i++) {
        const struct rt_address *address = &handle->address[i];
        uint8_t *at = bytes + HEAD + ADDRESS * bytes[6];
        if (address->family == 0) continue;
        bytes[6]++;
        rt_put_u16(bytes + 8, address->port);
        at[0] = address->family == AF_INET ? 4 : 6;
        rt_put_u32(at + 1, address->scope);
        memcpy(at + 5, address->bytes, 16);
    }
}

bool net_handle_parse(const uint8_t bytes[NET_HANDLE_BYTES], struct net_handle *handle)
{
    *handle = (struct net_handle){ .number = rt_get_u64(bytes + 10), .host_key = rt_get_u64(bytes + 18),
                                   .transports = bytes[7] };
    memcpy(handle->secret, bytes + 26, 16);
    if (rt_get_u32(bytes) != MAGIC || rt_get_u16(bytes + 4) != VERSION || bytes[6] > RT_MAX_ADDRESSES) return false;
    for (uint32_t i = 0; i < bytes[6]; i++) {
        const uint8_t *at = bytes + HEAD + ADDRESS * i;
        if (at[0] != 4 && at[0] != 6) return false;
        handle->address[i].family = at[0] == 4 ? AF_INET : AF_INET6;
        handle->address[i].port = rt_get_u16(bytes + 8);
        handle->address[i].scope = rt_get_u32(at + 1);
        memcpy(handle->address[i].bytes, at + 5, 16);
    }
    return bytes[6] > 0 && rt_get_u16(bytes + 8) != 0 && (handle->transports & NET_BY_TCP) &&
           handle->transports <= (NET_BY_TCP | NET_BY_UCX);
}
