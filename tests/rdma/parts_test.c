/* The pure parts of the verbs transport: words, the choice of a GID, partners of ports, messages, notes, memlock. */
#include "test.h"
#include "verbs/verbs.h"
#include <arpa/inet.h>
#include <sys/resource.h>

/* ---- words */

TEST(every_status_and_event_has_words)
{
    for (int i = 0; i <= IBV_WC_TM_RNDV_INCOMPLETE; i++) {
        CHECK(!strstr(rt_verbs_status_meaning((enum ibv_wc_status)i), "does not know"));
        CHECK(i == 0 || rt_verbs_status_advice((enum ibv_wc_status)i)[0]);
    }
    for (int i = 0; i <= IBV_EVENT_WQ_FATAL; i++)
        CHECK(!strstr(rt_verbs_event_meaning((enum ibv_event_type)i), "does not know"));
    CHECK_HAS(rt_verbs_status_meaning((enum ibv_wc_status)999), "does not know");
    CHECK_HAS(rt_verbs_status_meaning((enum ibv_wc_status)-1), "does not know");
    CHECK_HAS(rt_verbs_event_meaning((enum ibv_event_type)999), "does not know");
    for (const char *const *word = (const char *const[]){ "alive", "VLAN", "flow control", "MTU", NULL }; *word; word++)
        CHECK_HAS(rt_verbs_status_advice(IBV_WC_RETRY_EXC_ERR), *word);
}

TEST(only_a_port_or_device_that_is_gone_is_fatal)
{
    CHECK(rt_verbs_event_is_fatal(IBV_EVENT_PORT_ERR) && rt_verbs_event_is_fatal(IBV_EVENT_DEVICE_FATAL));
    CHECK(!rt_verbs_event_is_fatal(IBV_EVENT_GID_CHANGE) && !rt_verbs_event_is_fatal(IBV_EVENT_PORT_ACTIVE));
}

/* ---- GIDs */

static struct rt_verbs_gid gid(uint16_t index, uint8_t version, const char *address, const char *interface)
{
    struct rt_verbs_gid g = { .index = index, .version = version };
    if (!inet_pton(AF_INET6, address, g.bytes)) abort();
    strcpy(g.interface, interface);
    return g;
}

static struct rt_address address(const char *text, const char *interface)
{
    struct rt_address a = { .family = strchr(text, ':') ? AF_INET6 : AF_INET };
    if (!inet_pton(a.family, text, a.bytes)) abort();
    strcpy(a.interface, interface);
    return a;
}

TEST(the_gid_is_that_of_the_address_which_ringtree_uses)
{
    const struct rt_verbs_gid gids[] = {
        gid(0, 1, "fe80::1", "eth0"), gid(1, 2, "fe80::1", "eth0"), gid(2, 1, "::ffff:10.0.0.1", "eth0"),
        gid(3, 2, "::ffff:10.0.0.1", "eth0"), gid(4, 2, "::ffff:192.168.7.1", "eth1"), gid(5, 2, "2001:db8::1", "eth1"),
    };
    struct rt_address use[RT_MAX_ADDRESSES] = { { 0 } };
    char why[200];
    use[0] = address("192.168.7.1", "eth1");
    use[1] = address("10.0.0.1", "eth0");
    CHECK_EQ(rt_verbs_choose_gid(gids, 6, -1, use, why, sizeof(why)), 4);
    CHECK_HAS(why, "GID 4 (::ffff:192.168.7.1, RoCE v2, eth1): the address that ringtree uses");
    use[0] = address("2001:db8::1", "eth1");
    CHECK_EQ(rt_verbs_choose_gid(gids, 6, -1, use, why, sizeof(why)), 5);
    use[0] = use[1] = address("10.9.9.9", "eth0");
    CHECK_EQ(rt_verbs_choose_gid(gids, 6, -1, use, why, sizeof(why)), 3);
    CHECK_HAS(why, "of the interface");
    use[0] = use[1] = address("127.0.0.1", "lo");
    CHECK_EQ(rt_verbs_choose_gid(gids, 6, -1, use, why, sizeof(why)), 3);
    CHECK_EQ(rt_verbs_choose_gid(gids, 6, 2, use, why, sizeof(why)), 2);
    CHECK_HAS(why, "RINGTREE_VERBS_GID_INDEX");
    CHECK_EQ(rt_verbs_choose_gid(gids, 6, 77, use, why, sizeof(why)), -1);
    CHECK_HAS(why, "no GID 77");
    CHECK_EQ(rt_verbs_choose_gid(gids, 2, -1, use, why, sizeof(why)), 1);
    CHECK_HAS(why, "link-local");
    CHECK_EQ(rt_verbs_choose_gid(gids, 1, -1, use, why, sizeof(why)), 0);
    CHECK_EQ(rt_verbs_choose_gid(gids, 0, -1, use, why, sizeof(why)), -1);
    CHECK_HAS(why, "ip addr add");
}

TEST(on_infiniband_the_first_gid_serves_and_one_of_zeros_never)
{
    const struct rt_verbs_gid gids[] = { gid(0, 0, "::", ""), gid(1, 0, "fe80::2:c903:1:2", "") };
    const struct rt_address use[RT_MAX_ADDRESSES] = { { 0 } };
    char why[200];
    CHECK_EQ(rt_verbs_choose_gid(gids, 2, -1, use, why, sizeof(why)), 1);
    CHECK_HAS(why, "InfiniBand");
}

/* ---- partners */

static struct rt_verbs_end end(const char *address, uint8_t prefix, uint8_t layer)
{
    struct rt_verbs_end e = { .prefix = prefix, .layer = layer, .mtu = IBV_MTU_1024 };
    if (!inet_pton(AF_INET6, address, e.gid)) abort();
    return e;
}

TEST(ports_in_one_subnet_are_partners_and_routers_come_last)
{
    const struct rt_verbs_end a[] = { end("::ffff:10.1.0.1", 120, 2), end("::ffff:10.2.0.1", 120, 2) };
    const struct rt_verbs_end b[] = { end("::ffff:10.2.0.2", 120, 2), end("::ffff:10.1.0.2", 120, 2) };
    const struct rt_verbs_end c[] = { end("::ffff:10.3.0.2", 120, 2), end("fe80::9", 64, 2), end("fe80::9", 64, 1) };
    int pair[RT_VERBS_PORTS];
    CHECK_EQ(rt_verbs_match(a, 2, b, 2, pair), 2);
    CHECK_EQ(pair[0], 1);
    CHECK_EQ(pair[1], 0);
    CHECK_EQ(rt_verbs_match(a, 2, b, 1, pair), 1);
    CHECK_EQ(pair[0], -1);
    CHECK_EQ(rt_verbs_match(a, 2, c, 1, pair), 1); /* routed */
    CHECK_EQ(rt_verbs_match(a, 2, c + 1, 2, pair), 0);
    CHECK_EQ(rt_verbs_match(c + 1, 1, c + 1, 1, pair), 1);
    CHECK_EQ(rt_verbs_match(a, 0, b, 2, pair), 0);
}

TEST(a_subnet_is_compared_bit_by_bit)
{
    const struct rt_verbs_end a = end("::ffff:10.1.0.127", 121, 2), b = end("::ffff:10.1.0.128", 121, 2);
    CHECK(!rt_verbs_gid_same_subnet(a.gid, b.gid, 121));
    CHECK(rt_verbs_gid_same_subnet(a.gid, b.gid, 120));
    CHECK(rt_verbs_gid_same_subnet(a.gid, b.gid, 0));
    CHECK(!rt_verbs_gid_same_subnet(a.gid, a.gid, 129));
}

/* ---- messages */

static struct rt_verbs_hello hello_of(uint32_t queues)
{
    struct rt_verbs_hello h = { .epoch = 3, .slot_bytes = 131072, .queues = queues, .arrived = 70000,
                                .released = 69998 };
    for (uint32_t i = 0; i < queues; i++)
        h.queue[i] = (struct rt_verbs_queue_end){ 0xabcdef - i, 0x123456 + i, end("::ffff:10.1.0.1", 120, 2),
                                                  (uint8_t)(i % RT_VERBS_PORTS) };
    return h;
}

TEST(messages_come_out_as_they_went_in)
{
    unsigned char bytes[RT_VERBS_MOST];
    struct rt_verbs_heard heard;
    const char *why = NULL;
    const struct rt_verbs_hello hello = hello_of(RT_VERBS_QUEUES);
    int n = (int)rt_verbs_hello_put(&hello, bytes);
    CHECK(n <= RT_VERBS_MOST);
    for (int i = 0; i < n; i++) CHECK_EQ(rt_verbs_message_get(&heard, bytes, (size_t)i, &why), 0);
    CHECK_EQ(rt_verbs_message_get(&heard, bytes, (size_t)n, &why), n);
    CHECK(heard.kind == RT_VERBS_HELLO && heard.hello.arrived == 70000 && heard.hello.released == 69998);
    CHECK(heard.hello.queue[7].qp == hello.queue[7].qp && heard.hello.queue[7].port == 3);
    CHECK(!memcmp(heard.hello.queue[5].end.gid, hello.queue[5].end.gid, 16));
    const struct rt_verbs_rings rings = { UINT64_C(0x7fff12345678), 2, { 1, UINT32_MAX } };
    n = (int)rt_verbs_rings_put(&rings, bytes);
    CHECK_EQ(rt_verbs_message_get(&heard, bytes, sizeof(bytes), &why), n);
    CHECK(heard.rings.address == rings.address && heard.rings.key[1] == UINT32_MAX && heard.rings.key[2] == 0);
    n = (int)rt_verbs_ready_put(9, bytes);
    CHECK_EQ(rt_verbs_message_get(&heard, bytes, sizeof(bytes), &why), n);
    CHECK_EQ(heard.epoch, 9);
}

static void refuses(void (*spoil)(struct rt_verbs_hello *), const char *part)
{
    unsigned char bytes[RT_VERBS_MOST];
    struct rt_verbs_heard heard;
    const char *why = "";
    struct rt_verbs_hello hello = hello_of(2);
    spoil(&hello);
    const size_t n = rt_verbs_hello_put(&hello, bytes);
    CHECK_EQ(rt_verbs_message_get(&heard, bytes, n, &why), -1);
    CHECK_HAS(why, part);
}

static void wide_qp(struct rt_verbs_hello *h) { h->queue[1].qp = 1u << 24; }
static void far_port(struct rt_verbs_hello *h) { h->queue[1].port = RT_VERBS_PORTS; }
static void no_mtu(struct rt_verbs_hello *h) { h->queue[0].end.mtu = 6; }
static void no_layer(struct rt_verbs_hello *h) { h->queue[0].end.layer = 3; }
static void too_many(struct rt_verbs_hello *h) { h->released -= RT_VERBS_RING; }
static void backwards(struct rt_verbs_hello *h) { h->released = h->arrived + 1; }

TEST(a_message_with_a_wrong_field_is_refused_in_words)
{
    refuses(wide_qp, "24 bits");
    refuses(far_port, "port beyond");
    refuses(no_mtu, "MTU");
    refuses(no_layer, "link layer");
    refuses(too_many, "slots");
    refuses(backwards, "slots");
}

TEST(an_announcement_of_another_version_is_none)
{
    unsigned char bytes[RT_VERBS_ANNOUNCEMENT];
    struct rt_verbs_announcement a = { 2, { end("::ffff:10.1.0.1", 120, 2), end("fe80::1", 64, 1) } }, b;
    _Static_assert(RT_VERBS_ANNOUNCEMENT <= RT_ANNOUNCEMENT, "it has to fit");
    rt_verbs_announcement_put(&a, bytes);
    CHECK(rt_verbs_announcement_get(&b, bytes) && b.ports == 2 && b.end[1].layer == 1);
    bytes[2]++;
    CHECK(!rt_verbs_announcement_get(&b, bytes));
    bytes[2]--;
    bytes[3] = RT_VERBS_PORTS + 1;
    CHECK(!rt_verbs_announcement_get(&b, bytes));
    memset(bytes, 0, sizeof(bytes)); /* who does not use verbs */
    CHECK(!rt_verbs_announcement_get(&b, bytes));
}

TEST(queue_pairs_of_both_hellos_meet_alike_on_both_ranks)
{
    struct rt_verbs_hello low = { .queues = 3 }, up = { .queues = 3 };
    uint8_t lower[RT_VERBS_QUEUES], upper[RT_VERBS_QUEUES];
    low.queue[0] = (struct rt_verbs_queue_end){ .end = end("::ffff:10.1.0.1", 120, 2), .port = 0 };
    low.queue[1] = (struct rt_verbs_queue_end){ .end = end("::ffff:10.2.0.1", 120, 2), .port = 1 };
    low.queue[2] = (struct rt_verbs_queue_end){ .end = end("::ffff:10.1.0.1", 120, 2), .port = 0 };
    up.queue[0] = (struct rt_verbs_queue_end){ .end = end("::ffff:10.2.0.2", 120, 2), .port = 2 };
    up.queue[1] = (struct rt_verbs_queue_end){ .end = end("::ffff:10.1.0.2", 120, 2), .port = 1 };
    up.queue[2] = (struct rt_verbs_queue_end){ .end = end("::ffff:10.2.0.2", 120, 2), .port = 2 };
    CHECK_EQ(rt_verbs_meet(&low, &up, lower, upper), 2);
    CHECK(lower[0] == 0 && upper[0] == 1 && lower[1] == 1 && upper[1] == 0);
    up.queues = 0;
    CHECK_EQ(rt_verbs_meet(&low, &up, lower, upper), 0);
}

/* ---- notes, parts and credits */

TEST(a_note_carries_its_four_fields_and_numbers_wrap)
{
    const struct rt_verbs_note n = rt_verbs_note_get(rt_verbs_note_put(RT_VERBS_SLICE, 7, 0x12345, 0xfffff));
    uint64_t number;
    CHECK(n.kind == RT_VERBS_SLICE && n.queue == 7 && n.slice == 0x345 && n.credit == 0xfff);
    CHECK(rt_verbs_number(4095, 0, 5, &number) && number == 4096);
    CHECK(rt_verbs_number(UINT64_C(1) << 40, 5, 5, &number) && number == (UINT64_C(1) << 40) + 5);
    CHECK(!rt_verbs_number(4095, 4094, 5, &number));
    CHECK(!rt_verbs_number(0, 6, 5, &number));
}

TEST(parts_cover_a_payload_once_for_any_length_and_number_of_queues)
{
    for (uint32_t queues = 1; queues <= RT_VERBS_QUEUES; queues++)
        for (uint32_t bytes = 0; bytes < 300000; bytes += bytes < 65000 ? 4999 : 1) {
            uint32_t next = 0, begin;
            uint8_t parts = 0;
            for (uint32_t i = 0; i < queues; i++) {
                const uint32_t length = rt_verbs_part(bytes, queues, i, &begin);
                if (length) CHECK_EQ(begin, next);
                next += length;
                if (length || i == 0) parts |= (uint8_t)(1u << i);
            }
            if (next != bytes || parts != rt_verbs_parts(bytes, queues))
                TEST_FAIL("%u bytes over %u queues: %u are covered", bytes, queues, next);
        }
}

TEST(credits_move_forward_only_within_what_was_sent)
{
    struct rt_verbs_link l = { .issued = 4100, .credited = 4094 };
    CHECK_EQ(rt_verbs_credit(&l, 4095), RINGTREE_OK);
    CHECK_EQ(l.credited, 4095);
    CHECK_EQ(rt_verbs_credit(&l, 4), RINGTREE_OK);
    CHECK_EQ(l.credited, 4100);
    CHECK_EQ(rt_verbs_credit(&l, 4095), RINGTREE_OK); /* an older one, by another queue */
    CHECK_EQ(l.credited, 4100);
    CHECK_EQ(rt_verbs_credit(&l, 5), RINGTREE_PEER_LOST);
    CHECK_EQ(rt_verbs_credit(&l, 2000), RINGTREE_PEER_LOST);
    CHECK_EQ(l.credited, 4100);
}

/* ---- memory */

TEST(too_low_a_memlock_limit_is_told_with_its_remedies)
{
    struct rt_error error = { 0 };
    CHECK_EQ(rt_verbs_check_memlock(65537, 65536, false, &error), RINGTREE_NO_MEMORY);
    for (const char *const *word = (const char *const[]){ "ulimit -l unlimited", "limits.conf", "LimitMEMLOCK",
             "docker", "RINGTREE_VERBS_SLOT_BYTES", "65537", "65536", NULL }; *word; word++)
        CHECK_HAS(error.text, *word);
    CHECK_EQ(rt_verbs_check_memlock(65536, 65536, false, &error), RINGTREE_OK);
    CHECK_EQ(rt_verbs_check_memlock(1u << 30, 65536, true, &error), RINGTREE_OK);
    CHECK_EQ(rt_verbs_check_memlock(1u << 30, RLIM_INFINITY, false, &error), RINGTREE_OK);
}

TEST_MAIN
