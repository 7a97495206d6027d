/* The handle's bytes; handle.h says what they are. */
#include "handle.h"
#include "bootstrap/bytes.h"
#include <string.h>

#define MAGIC   0x4e585452u /* "RTXN" */
#define VERSION 2
#define HEAD    42 /* magic, version, addresses, transports, port, number, host key, secret; then the port of verbs */
#define ADDRESS 21 /* family 4 or 6, zone, bytes */

_Static_assert(HEAD + RT_MAX_ADDRESSES * ADDRESS <= NET_HANDLE_BYTES, "NCCL carries no more");
_Static_assert(HEAD + RT_VERBS_END_BYTES + ADDRESS <= NET_HANDLE_BYTES, "one address at least");

/* Where addresses begin. */
static uint32_t head_of(const struct net_handle *handle)
{
    return HEAD + (handle->transports >> NET_VERBS & 1 ? RT_VERBS_END_BYTES : 0);
}

void net_handle_put(uint8_t bytes[NET_HANDLE_BYTES], const struct net_handle *handle)
{
    uint8_t *at = bytes + head_of(handle);
    memset(bytes, 0, NET_HANDLE_BYTES);
    rt_put_u32(bytes, MAGIC);
    rt_put_u16(bytes + 4, VERSION);
    bytes[7] = (uint8_t)handle->transports;
    rt_put_u64(bytes + 10, handle->number);
    rt_put_u64(bytes + 18, handle->host_key);
    memcpy(bytes + 26, handle->secret, 16);
    if (head_of(handle) > HEAD) memcpy(bytes + HEAD, handle->end, RT_VERBS_END_BYTES);
    for (uint32_t i = 0; i < RT_MAX_ADDRESSES && at + ADDRESS <= bytes + NET_HANDLE_BYTES; i++) {
        const struct rt_address *address = &handle->address[i];
        if (address->family == 0) continue;
        bytes[6]++;
        rt_put_u16(bytes + 8, address->port);
        at[0] = address->family == AF_INET ? 4 : 6;
        rt_put_u32(at + 1, address->scope);
        memcpy(at + 5, address->bytes, 16);
        at += ADDRESS;
    }
}

bool net_handle_parse(const uint8_t bytes[NET_HANDLE_BYTES], struct net_handle *handle)
{
    *handle = (struct net_handle){ .number = rt_get_u64(bytes + 10), .host_key = rt_get_u64(bytes + 18),
                                   .transports = bytes[7] };
    memcpy(handle->secret, bytes + 26, 16);
    if (rt_get_u32(bytes) != MAGIC || rt_get_u16(bytes + 4) != VERSION) return false;
    if (handle->transports == 0 || handle->transports >> NET_TRANSPORTS != 0) return false;
    const uint32_t head = head_of(handle);
    if (bytes[6] > RT_MAX_ADDRESSES || head + bytes[6] * ADDRESS > NET_HANDLE_BYTES) return false;
    memcpy(handle->end, bytes + HEAD, head - HEAD);
    for (uint32_t i = 0; i < bytes[6]; i++) {
        const uint8_t *at = bytes + head + ADDRESS * i;
        if (at[0] != 4 && at[0] != 6) return false;
        handle->address[i].family = at[0] == 4 ? AF_INET : AF_INET6;
        handle->address[i].port = rt_get_u16(bytes + 8);
        handle->address[i].scope = rt_get_u32(at + 1);
        memcpy(handle->address[i].bytes, at + 5, 16);
    }
    return bytes[6] > 0 && rt_get_u16(bytes + 8) != 0;
}
