/* The hello's bytes; hello.h says what they are. */
#include "hello.h"
#include "bootstrap/bytes.h"
#include <sodium.h>
#include <string.h>

#define MAGIC 0x31585452u /* "RTX1" */

_Static_assert(crypto_auth_BYTES == RT_UCX_MAC && crypto_auth_KEYBYTES == 32, "HMAC-SHA512-256");

size_t rt_ucx_hello_put(uint8_t *bytes, const struct rt_ucx_hello *hello, const void *address, const uint8_t key[32])
{
    const uint32_t word[8] = { MAGIC, hello->version, hello->from, hello->to, hello->way, hello->slots,
                               hello->slot_bytes, hello->address_bytes };
    const size_t body = RT_UCX_HELLO_HEAD + (size_t)hello->address_bytes;
    for (uint32_t i = 0; i < 8; i++) rt_put_u32(bytes + 4 * i, word[i]);
    rt_put_u64(bytes + 32, hello->token);
    memcpy(bytes + RT_UCX_HELLO_HEAD, address, hello->address_bytes);
    crypto_auth(bytes + body, bytes, body, key);
    return body + RT_UCX_MAC;
}

size_t rt_ucx_hello_length(const uint8_t head[RT_UCX_HELLO_HEAD])
{
    const uint32_t address = rt_get_u32(head + 28);
    if (rt_get_u32(head) != MAGIC || address == 0 || address > RT_UCX_ADDRESS_MOST) return 0;
    return RT_UCX_HELLO_HEAD + (size_t)address + RT_UCX_MAC;
}

bool rt_ucx_hello_check(const uint8_t *bytes, size_t length, const uint8_t key[32], struct rt_ucx_hello *hello)
{
    if (length < RT_UCX_HELLO_HEAD || rt_ucx_hello_length(bytes) != length) return false;
    if (crypto_auth_verify(bytes + length - RT_UCX_MAC, bytes, length - RT_UCX_MAC, key) != 0) return false;
    *hello = (struct rt_ucx_hello){ .version = rt_get_u32(bytes + 4), .from = rt_get_u32(bytes + 8),
                                    .to = rt_get_u32(bytes + 12), .way = rt_get_u32(bytes + 16),
                                    .slots = rt_get_u32(bytes + 20), .slot_bytes = rt_get_u32(bytes + 24),
                                    .address_bytes = rt_get_u32(bytes + 28), .token = rt_get_u64(bytes + 32) };
    return true;
}
