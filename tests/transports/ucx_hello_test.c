/* What a peer says of its worker is believed only whole and proven; what UCX brings is believed only with the token. */
#include "test.h"
#include "ucx/hello.h"
#include <sodium.h>

static const struct rt_ucx_hello hello = { .version = 0x1000d, .from = 3, .to = 5, .way = 1, .slots = 8,
                                           .slot_bytes = 262144, .address_bytes = 100, .token = 0x1122334455667788 };

static size_t put(uint8_t *bytes, const uint8_t key[32])
{
    uint8_t address[100];
    for (int i = 0; i < 100; i++) address[i] = (uint8_t)(i * 7);
    return rt_ucx_hello_put(bytes, &hello, address, key);
}

TEST(a_hello_comes_out_as_it_went_in)
{
    static uint8_t bytes[RT_UCX_HELLO_MOST];
    const uint8_t key[32] = { 1, 2, 3 };
    struct rt_ucx_hello got;
    const size_t length = put(bytes, key);
    CHECK_EQ(length, RT_UCX_HELLO_HEAD + 100 + RT_UCX_MAC);
    CHECK_EQ(rt_ucx_hello_length(bytes), length);
    CHECK(rt_ucx_hello_check(bytes, length, key, &got));
    CHECK(got.version == 0x1000d && got.from == 3 && got.to == 5 && got.way == 1 && got.slots == 8);
    CHECK(got.slot_bytes == 262144 && got.address_bytes == 100 && got.token == hello.token);
    for (int i = 0; i < 100; i++) CHECK_EQ(bytes[RT_UCX_HELLO_HEAD + i], (uint8_t)(i * 7));
}

TEST(a_hello_with_any_bit_changed_is_refused)
{
    static uint8_t bytes[RT_UCX_HELLO_MOST];
    const uint8_t key[32] = { 1, 2, 3 };
    struct rt_ucx_hello got;
    const size_t length = put(bytes, key);
    for (size_t i = 0; i < length * 8; i++) {
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
        CHECK_THAT(!rt_ucx_hello_check(bytes, length, key, &got), "bit %zu", i);
        bytes[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    CHECK(rt_ucx_hello_check(bytes, length, key, &got));
}

TEST(a_hello_of_another_secret_or_length_is_refused)
{
    static uint8_t bytes[RT_UCX_HELLO_MOST];
    const uint8_t key[32] = { 1, 2, 3 }, other[32] = { 1, 2, 4 };
    struct rt_ucx_hello got;
    const size_t length = put(bytes, key);
    CHECK(!rt_ucx_hello_check(bytes, length, other, &got));
    for (size_t wrong = 0; wrong < length; wrong++) CHECK(!rt_ucx_hello_check(bytes, wrong, key, &got));
    CHECK(!rt_ucx_hello_check(bytes, length + 1, key, &got));
    memset(bytes + 28, 0xff, 4); /* an address of 4 GiB */
    CHECK_EQ(rt_ucx_hello_length(bytes), 0);
    memset(bytes + 28, 0, 4);
    CHECK_EQ(rt_ucx_hello_length(bytes), 0);
}

TEST_MAIN
