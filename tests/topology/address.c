/* Addresses: there and back, text, comparison. */
#include "test.h"
#include "topology/interfaces.h"
#include <arpa/inet.h>

static struct rt_address make(const char *digits, uint16_t port, uint32_t scope, const char *interface)
{
    struct rt_address address = { .port = port, .scope = scope };

    address.family = strchr(digits, ':') ? AF_INET6 : AF_INET;
    CHECK_EQ(inet_pton(address.family, digits, address.bytes), 1);
    snprintf(address.interface, sizeof(address.interface), "%s", interface);
    return address;
}

static void check_text(struct rt_address address, const char *expected)
{
    char text[96];

    CHECK_THAT(strcmp(rt_address_text(&address, text, sizeof(text)), expected) == 0, "%s, not %s", text, expected);
}

TEST(an_address_survives_the_way_to_a_sockaddr_and_back)
{
    static const char *const digits[] = { "10.1.2.3", "0.0.0.0", "255.255.255.255", "::", "fd00::2", "fe80::1" };

    for (size_t i = 0; i < sizeof(digits) / sizeof(digits[0]); i++) {
        const struct rt_address address = make(digits[i], 4242, digits[i][1] == 'e' ? 4000 : 0, "");
        struct sockaddr_storage storage;
        struct rt_address back;
        socklen_t length = rt_address_to_sockaddr(&address, &storage);
        CHECK_EQ(length, address.family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
        CHECK(rt_address_from_sockaddr(&back, (struct sockaddr *)&storage));
        CHECK_THAT(memcmp(&back, &address, sizeof(back)) == 0, "%s", digits[i]);
    }
}

TEST(an_unused_address_and_a_foreign_family_are_refused)
{
    struct rt_address address = { 0 };
    struct sockaddr_storage storage;
    const struct sockaddr unix_name = { .sa_family = AF_UNIX };

    CHECK_EQ(rt_address_to_sockaddr(&address, &storage), 0);
    address.family = 77;
    CHECK_EQ(rt_address_to_sockaddr(&address, &storage), 0);
    CHECK(!rt_address_from_sockaddr(&address, &unix_name));
    CHECK_EQ(address.family, 0);
}

TEST(an_ipv4_peer_of_an_ipv6_socket_is_ipv4)
{
    const struct rt_address mapped = make("::ffff:10.0.0.1", 7, 0, "");
    struct sockaddr_storage storage;
    struct rt_address back;

    rt_address_to_sockaddr(&mapped, &storage);
    CHECK(rt_address_from_sockaddr(&back, (struct sockaddr *)&storage));
    check_text(back, "10.0.0.1:7");
}

TEST(addresses_read_as_people_write_them)
{
    struct rt_address hostile = make("10.0.0.1", 1, 0, "");

    check_text(make("10.0.0.1", 4242, 0, "eth0"), "10.0.0.1:4242 (eth0)");
    check_text(make("10.0.0.1", 0, 0, "eth0"), "10.0.0.1 (eth0)");
    check_text(make("10.0.0.1", 65535, 0, ""), "10.0.0.1:65535");
    check_text(make("fd00::2", 4242, 0, "eth0"), "[fd00::2]:4242 (eth0)");
    check_text(make("fe80::1", 4242, 3, "eth0"), "[fe80::1%3]:4242 (eth0)");
    check_text((struct rt_address){ 0 }, "no address");
    check_text((struct rt_address){ .family = 99, .port = 5 }, "no address");
    memset(hostile.interface, 'x', sizeof(hostile.interface));
    check_text(hostile, "10.0.0.1:1 (xxxxxxxxxxxxxxx)");
}

TEST(a_short_buffer_gets_what_fits)
{
    const char *const longest = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    const struct rt_address address = make(longest, 65535, UINT32_MAX, "fifteen-letters");
    char text[96];

    for (size_t capacity = 1; capacity <= sizeof(text); capacity++) {
        memset(text, '!', sizeof(text));
        rt_address_text(&address, text, capacity);
        CHECK(strlen(text) < capacity);
    }
}

TEST(link_local_addresses_are_equal_only_in_the_same_zone)
{
    const struct rt_address a = make("fe80::1", 1, 2, "a"), b = make("fe80::1", 2, 3, "b");
    const struct rt_address c = make("fe80::1", 3, 2, ""), d = make("10.0.0.1", 1, 0, "");
    const struct rt_address e = make("10.0.0.1", 2, 0, "x"), f = make("10.0.0.2", 1, 0, "");

    CHECK(!rt_address_same_host(&a, &b));
    CHECK(rt_address_same_host(&a, &c));
    CHECK(rt_address_same_host(&d, &e));
    CHECK(!rt_address_same_host(&d, &f));
    CHECK(!rt_address_same_host(&a, &d));
    CHECK(rt_address_is_link_local(&a));
    const struct rt_address g = make("169.254.3.4", 1, 0, ""), h = make("169.253.3.4", 1, 0, "");
    const struct rt_address i = make("fec0::1", 1, 0, "");
    CHECK(rt_address_is_link_local(&g));
    CHECK(!rt_address_is_link_local(&h));
    CHECK(!rt_address_is_link_local(&i));
}

TEST(a_peers_link_local_address_is_reached_through_our_own_zone)
{
    struct rt_place self = { 0 };
    struct rt_address peer = make("fe80::9", 1, 77, "eth1"), other = make("fe80::9", 1, 77, "wlan0");
    struct rt_address global = make("fd00::9", 1, 77, "");

    rt_address_adopt_zone(&peer, &self);
    CHECK_EQ(peer.scope, 0);
    self.address[0] = make("10.0.0.1", 1, 0, "eth0");
    self.address[1] = make("fe80::1", 1, 4, "eth0");
    self.address[2] = make("fe80::2", 1, 5, "eth1");
    rt_address_adopt_zone(&peer, &self);
    CHECK_EQ(peer.scope, 5);
    rt_address_adopt_zone(&other, &self);
    CHECK_EQ(other.scope, 4);
    rt_address_adopt_zone(&global, &self);
    CHECK_EQ(global.scope, 77);
}

TEST_MAIN
