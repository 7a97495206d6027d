/* TCP: the suite over stand-in connections of both families, the suite against broken transports, and byte by byte. */
#include "broken.h"
#include "conformance.h"
#include "standin_control.h"
#include "tcp/tcp.h"
#include "test.h"
#include <endian.h>
#include <poll.h>
#include <unistd.h>

struct options {
    int      family;
    uint64_t sockets;
};

static const char *start(const struct fixture *fixture, struct rt_fabric fabric[2], void **world)
{
    const struct options *options = fixture->options;
    struct standin *standin = standin_start(options->family, options->sockets);
    if (!standin) return "this machine has no loopback address of that family";
    standin_fabric(standin, fabric);
    *world = standin;
    return NULL;
}

static void stop(void *world)
{
    standin_stop(world);
}

#define FIXTURE(name, ...)                                                                                             \
    static const struct options name##_options = { __VA_ARGS__ };                                                      \
    static const struct fixture name = { #name, &rt_transport_tcp, true, &name##_options, start, stop };
FIXTURE(ipv4_1, AF_INET, 1)
FIXTURE(ipv4_3, AF_INET, 3)
FIXTURE(ipv6_1, AF_INET6, 1)
FIXTURE(ipv6_3, AF_INET6, 3)
FIXTURE(unix_2, AF_UNIX, 2)

CONFORMANCE(ipv4_1_socket, &ipv4_1)
CONFORMANCE(ipv4_3_sockets, &ipv4_3)
CONFORMANCE(ipv6_1_socket, &ipv6_1)
CONFORMANCE(ipv6_3_sockets, &ipv6_3)

/* How many checks of the suite a broken kind fails, counted up to the first. */
static int refusals(enum broken_kind kind, char *who, size_t capacity)
{
    struct fixture fixture = ipv4_1;
    int n = 0;
    fixture.transport = broken_transport(&rt_transport_tcp, kind);
    who[0] = 0;
    for (size_t i = conformance_count; i-- > 0;) { /* from the end: the shortest are there */
        const struct conformance_check *check = &conformance_checks[i];
        bool skip = false;
        if (strstr(check->name, "threads")) continue; /* the tampering is for one thread */
        const char *verdict = conformance_run(check, &fixture, &skip);
        if (!verdict) continue;
        snprintf(who, capacity, "%s: %s", check->name, verdict);
        n++;
        if (kind != BROKEN_NOT) break; /* one refusal is enough */
    }
    return n;
}

TEST(suite_refuses_every_transport_that_is_broken_on_purpose)
{
    char who[1600];
    const uint64_t patience = conformance_patience_ns;
    for (int kind = BROKEN_NOT; kind < BROKEN_KINDS; kind++) {
        const int n = refusals((enum broken_kind)kind, who, sizeof(who));
        conformance_patience_ns = UINT64_C(500000000); /* for those that stand still */
        if (kind == BROKEN_NOT) CHECK_THAT(n == 0, "the sound one is refused by %s", who);
        else CHECK_THAT(n > 0, "a transport that %s passes the suite", broken_names[kind]);
    }
    conformance_patience_ns = patience;
}

TEST(parts_of_a_payload_cover_it_once_for_every_length_and_number_of_sockets)
{
    for (uint32_t sockets = 1; sockets <= RT_TCP_MOST_SOCKETS; sockets++)
        for (uint32_t bytes = 0; bytes < 70000000; bytes = bytes < 70000 ? bytes + 61 : bytes * 3 + 1) {
            uint32_t covered = 0, begin;
            for (uint32_t i = 0; i < sockets; i++) {
                const uint32_t length = rt_tcp_part(bytes, sockets, i, &begin);
                if (length && begin != covered) covered = UINT32_MAX / 2;
                covered += length;
            }
            CHECK_THAT(covered == bytes, "%u bytes over %u sockets", bytes, sockets);
        }
}

/* ------------------------------------------------------------------ the receiver, byte by byte */

struct raw {
    struct pair pair;
    int         peer; /* the other end of the first connection */
};

static bool raw_open(struct raw *raw)
{
    bool skip;
    int ends[2];
    const char *why = pair_open(&raw->pair, &unix_2, &skip);
    if (!why && !standin_pair(AF_UNIX, ends)) why = "no socketpair";
    CHECK_THAT(!why, "%s", why);
    if (why) return false;
    pair_close_out(&raw->pair);
    standin_park(raw->pair.world, 0, ends[0]);
    raw->peer = ends[1];
    return true;
}

static void raw_close(struct raw *raw)
{
    if (raw->peer >= 0) close(raw->peer);
    pair_close(&raw->pair);
}

static void raw_write(struct raw *raw, const void *bytes, size_t count)
{
    CHECK_EQ(write(raw->peer, bytes, count), count);
}

static const unsigned char greeting[8] = { 'R', 'T', 'C', 1, 1 };

/* A slice as it is on the wire. */
static size_t wire_slice(unsigned char *wire, uint64_t sequence, uint32_t bytes)
{
    struct rt_frame frame = pair_frame(sequence, bytes);
    frame.sequence = htole64(frame.sequence);
    frame.count = htole64(frame.count);
    frame.op = htole32(frame.op);
    frame.root = htole32(frame.root);
    frame.bytes = htole32(frame.bytes);
    memcpy(wire, &frame, sizeof(frame));
    pair_fill(wire + sizeof(frame), sequence, bytes);
    return sizeof(frame) + bytes;
}

static ringtree_status raw_recv(struct raw *raw, uint64_t sequence, uint32_t bytes, const void **data,
                                struct rt_error *error)
{
    const struct rt_frame expect = pair_frame(sequence, bytes);
    struct rt_frame frame;
    rt_error_clear(error);
    return rt_transport_tcp.recv(raw->pair.in, &expect, NULL, bytes, &frame, data, error);
}

TEST(a_slice_that_comes_byte_by_byte_is_whole)
{
    struct raw raw;
    unsigned char wire[400];
    struct rt_error error;
    const void *data = NULL;
    if (!raw_open(&raw)) return;
    for (uint64_t sequence = 0; sequence < 3; sequence++) {
        const size_t length = wire_slice(wire, sequence, 100);
        if (sequence == 0)
            for (int i = 0; i < 8; i++) {
                CHECK_EQ(raw_recv(&raw, sequence, 100, &data, &error), RINGTREE_IN_PROGRESS);
                raw_write(&raw, greeting + i, 1);
            }
        for (size_t i = 0; i < length; i++) {
            CHECK_EQ(raw_recv(&raw, sequence, 100, &data, &error), RINGTREE_IN_PROGRESS);
            raw_write(&raw, wire + i, 1);
        }
        CHECK_EQ(raw_recv(&raw, sequence, 100, &data, &error), RINGTREE_OK);
        CHECK(data && pair_filled(data, sequence, 100));
        rt_transport_tcp.release(raw.pair.in);
    }
    raw_close(&raw);
}

TEST(slices_that_come_in_one_piece_are_told_apart)
{
    struct raw raw;
    unsigned char wire[6000];
    struct rt_error error;
    const void *data = NULL;
    size_t length = 8;
    if (!raw_open(&raw)) return;
    memcpy(wire, greeting, 8);
    for (uint64_t i = 0; i < 20; i++) length += wire_slice(wire + length, i, (uint32_t)i * 13);
    raw_write(&raw, wire, length);
    for (uint64_t i = 0; i < 20; i++) {
        ringtree_status status = RINGTREE_IN_PROGRESS;
        for (int tries = 0; tries < 4 && status == RINGTREE_IN_PROGRESS; tries++)
            status = raw_recv(&raw, i, (uint32_t)i * 13, &data, &error);
        CHECK_EQ(status, RINGTREE_OK);
        CHECK(data && pair_filled(data, i, i * 13));
        rt_transport_tcp.release(raw.pair.in);
    }
    CHECK_EQ(raw_recv(&raw, 20, 4, &data, &error), RINGTREE_IN_PROGRESS);
    raw_close(&raw);
}

TEST(an_end_at_every_byte_is_a_loss_with_words_for_its_place)
{
    unsigned char wire[200];
    memcpy(wire, greeting, 8);
    const size_t length = 8 + wire_slice(wire + 8, 0, 50);
    for (size_t cut = 0; cut <= length; cut++) {
        struct raw raw;
        struct rt_error error;
        const void *data = NULL;
        if (!raw_open(&raw)) return;
        raw_write(&raw, wire, cut);
        close(raw.peer);
        raw.peer = -1;
        ringtree_status status = RINGTREE_IN_PROGRESS;
        for (int i = 0; i < 8 && status <= RINGTREE_IN_PROGRESS; i++) {
            status = raw_recv(&raw, 0, 50, &data, &error);
            if (status == RINGTREE_OK) CHECK_EQ(cut, length);
            if (status == RINGTREE_OK) rt_transport_tcp.release(raw.pair.in);
        }
        CHECK_EQ(status, RINGTREE_PEER_LOST);
        CHECK_HAS(error.text, "rank 0 (host testhost");
        CHECK_HAS(error.text, cut < 8 ? "before the first slice" : cut == 8 || cut == length ? "between two slices"
                              : cut < 40 ? "in the middle of a frame" : "in the middle of a slice");
        raw_close(&raw);
    }
}

TEST(another_greeting_is_refused_with_words)
{
    for (int i = 0; i < 8; i++) {
        struct raw raw;
        struct rt_error error;
        const void *data = NULL;
        unsigned char bad[8];
        if (!raw_open(&raw)) return;
        memcpy(bad, greeting, 8);
        bad[i] ^= 0x41;
        raw_write(&raw, bad, 8);
        CHECK_EQ(raw_recv(&raw, 0, 4, &data, &error), RINGTREE_UNSUPPORTED);
        CHECK_HAS(error.text, "same version");
        CHECK_EQ(raw_recv(&raw, 0, 4, &data, &error), RINGTREE_UNSUPPORTED);
        raw_close(&raw);
    }
}

TEST(a_frame_of_4_GiB_is_refused_before_memory_is_touched)
{
    struct raw raw;
    unsigned char wire[64];
    struct rt_error error;
    const void *data = wire;
    const uint32_t huge = htole32(UINT32_MAX);
    if (!raw_open(&raw)) return;
    wire_slice(wire, 0, 0);
    memcpy(wire + 28, &huge, 4);
    raw_write(&raw, greeting, 8);
    raw_write(&raw, wire, 32);
    CHECK_EQ(raw_recv(&raw, 0, 4, &data, &error), RINGTREE_OK);
    CHECK(data == NULL);
    raw_close(&raw);
}

/* ------------------------------------------------------------------ the sender */

TEST(reserved_memory_survives_the_sending_of_other_memory)
{
    struct pair pair;
    bool skip;
    const void *data = NULL;
    struct rt_frame got;
    const char *why = pair_open(&pair, &ipv4_1, &skip);
    CHECK_THAT(!why, "%s", why);
    for (uint64_t i = 0; i < 30 && !why; i += 2) {
        const struct rt_frame first = pair_frame(i, 5000), second = pair_frame(i + 1, 5000);
        unsigned char other[5000], *memory = NULL;
        pair_fill(other, i, 5000);
        while (!memory) memory = rt_transport_tcp.reserve(pair.out, NULL);
        pair_fill(memory, i + 1, 5000);
        CHECK((why = pair_send(&pair, &first, other)) == NULL);
        CHECK(rt_transport_tcp.reserve(pair.out, NULL) == memory);
        CHECK((why = pair_send(&pair, &second, memory)) == NULL);
        for (uint64_t k = i; k < i + 2 && !why; k++) {
            const struct rt_frame expect = pair_frame(k, 5000);
            CHECK((why = pair_recv(&pair, &expect, NULL, 5000, &got, &data)) == NULL);
            CHECK(data && pair_filled(data, k, 5000));
            rt_transport_tcp.release(pair.in);
        }
    }
    pair_close(&pair);
}

TEST(a_refused_dial_is_told_by_every_call_with_its_words)
{
    struct pair pair;
    bool skip;
    struct rt_error error = { 0 };
    const struct rt_frame frame = pair_frame(0, 1);
    const char *why = pair_open(&pair, &ipv4_3, &skip);
    CHECK_THAT(!why, "%s", why);
    ((struct standin *)pair.world)->refuses = true;
    ringtree_status status = RINGTREE_IN_PROGRESS;
    for (int i = 0; i < 10 && status == RINGTREE_IN_PROGRESS; i++)
        status = rt_transport_tcp.send(pair.out, &frame, "x", &error);
    CHECK_EQ(status, RINGTREE_UNREACHABLE);
    CHECK_HAS(error.text, "the stand-in refuses");
    rt_error_clear(&error);
    CHECK(rt_transport_tcp.reserve(pair.out, &error) == NULL);
    CHECK_EQ(error.status, RINGTREE_UNREACHABLE);
    CHECK(rt_transport_tcp.flushed(pair.out));
    pair_close(&pair);
}

TEST(some_connections_of_several_are_not_a_link_yet)
{
    struct raw raw;
    struct rt_error error;
    const void *data = NULL;
    unsigned char wire[64];
    const unsigned char three[8] = { 'R', 'T', 'C', 1, 3 };
    int more[2], yet[2];
    if (!raw_open(&raw)) return;
    raw_write(&raw, three, 8);
    raw_write(&raw, wire, wire_slice(wire, 0, 4));
    CHECK(standin_pair(AF_UNIX, more) && standin_pair(AF_UNIX, yet));
    standin_park(raw.pair.world, 2, more[0]);
    for (int i = 0; i < 5; i++) CHECK_EQ(raw_recv(&raw, 0, 4, &data, &error), RINGTREE_IN_PROGRESS);
    short events = 0;
    CHECK_EQ(rt_transport_tcp.pollfd(raw.pair.in, &events), -1); /* the control plane wakes when the rest comes */
    standin_park(raw.pair.world, 1, yet[0]);
    CHECK_EQ(raw_recv(&raw, 0, 4, &data, &error), RINGTREE_OK);
    CHECK(data && pair_filled(data, 0, 4));
    close(more[1]);
    close(yet[1]);
    raw_close(&raw);
}

TEST_MAIN
