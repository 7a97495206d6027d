/*
 * The first message on a pair's authenticated connection: what each end must know of the other to reach it by UCX.
 *
 * A worker's address is parsed by UCX without a length, so it is believed only with a MAC under the communicator's
 * secret over all of the message: it comes whole from a rank of this very communicator, for this pair.
 *
 *     magic, UCX's version, from, to, way, slots, slot_bytes, address bytes   4 bytes each, little endian
 *     token                                                                   8: goes ahead of every slice sent back
 *     address, MAC                                                            up to 16384, 32
 */
#ifndef RT_UCX_HELLO_H
#define RT_UCX_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RT_UCX_HELLO_HEAD   40
#define RT_UCX_MAC          32
#define RT_UCX_ADDRESS_MOST 16384
#define RT_UCX_HELLO_MOST   (RT_UCX_HELLO_HEAD + RT_UCX_ADDRESS_MOST + RT_UCX_MAC)

struct rt_ucx_hello {
    uint32_t version, from, to, way, slots, slot_bytes, address_bytes;
    uint64_t token;
};

/* Into `bytes` of RT_UCX_HELLO_MOST; returns the length. address_bytes is at most RT_UCX_ADDRESS_MOST. */
size_t rt_ucx_hello_put(uint8_t *bytes, const struct rt_ucx_hello *hello, const void *address, const uint8_t key[32]);
/* From the head alone: the length of all, or 0: this is no hello. */
size_t rt_ucx_hello_length(const uint8_t head[RT_UCX_HELLO_HEAD]);
/* The whole, of `length` bytes. False: not from one who knows the secret. The address begins after the head. */
bool rt_ucx_hello_check(const uint8_t *bytes, size_t length, const uint8_t key[32], struct rt_ucx_hello *hello);

#endif
