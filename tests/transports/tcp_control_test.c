/* TCP over real authenticated connections, between threads and between processes. */
#include "control_world.h"
#include "tcp/tcp.h"
#include <netinet/tcp.h>

static const uint64_t one = 1, three = 3;
static const struct fixture control_1 = { "1 socket", &rt_transport_tcp, true, &one, control_start, control_stop };
static const struct fixture control_3 = { "3 sockets", &rt_transport_tcp, true, &three, control_start, control_stop };

CONFORMANCE(real_1_socket, &control_1)
CONFORMANCE(real_3_sockets, &control_3)

TEST(a_link_is_described_with_address_interface_and_sockets)
{
    struct pair pair;
    bool skip;
    char text[200];
    const void *data = NULL;
    struct rt_frame got;
    const struct rt_frame frame = pair_frame(0, 1);
    const char *why = pair_open(&pair, &control_3, &skip);
    if (!why) why = pair_first(&pair, &frame, "x");
    if (!why) why = pair_recv(&pair, &frame, NULL, 1, &got, &data);
    CHECK_THAT(!why, "%s", why);
    CHECK_HAS(rt_transport_tcp.describe(pair.out, text, sizeof(text)), "(lo), 3 sockets");
    CHECK_HAS(rt_transport_tcp.describe(pair.in, text, sizeof(text)), "tcp 127.0.0.1:");
    pair_close(&pair);
}

/* The control plane sets one, by which the kernel would cut off a receiver that only computes for a while. */
TEST(no_user_timeout_stays_on_data_connections)
{
    struct pair pair;
    bool skip;
    short events;
    int timeout = -1;
    socklen_t length = sizeof(timeout);
    const void *data = NULL;
    struct rt_frame got;
    const struct rt_frame frame = pair_frame(0, 1);
    const char *why = pair_open(&pair, &control_1, &skip);
    if (!why) why = pair_first(&pair, &frame, "x");
    if (!why) why = pair_recv(&pair, &frame, NULL, 1, &got, &data);
    CHECK_THAT(!why, "%s", why);
    rt_transport_tcp.release(pair.in);
    const int fd = rt_transport_tcp.pollfd(pair.in, &events);
    CHECK_EQ(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, &length), 0);
    CHECK_EQ(timeout, 0);
    const struct rt_tcp_link *out = (const struct rt_tcp_link *)pair.out;
    CHECK_EQ(getsockopt(out->pair->fd[0], IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, &length), 0);
    CHECK_EQ(timeout, 0);
    pair_close(&pair);
}

/* ------------------------------------------------------------------ processes */

/* Rank 0 sends 10 slices and is killed in the middle of the next; rank 1 must get the ten and then the loss. */
static void die_sending(struct rank_case *c)
{
    struct rt_fabric fabric = { .rank = c->rank, .nranks = 2, .settings = &c->settings, .clock = &rt_system_clock,
                                .control = c->control };
    struct rt_link *link = calloc(1, rt_transport_tcp.link_size);
    struct rt_error error = { 0 };
    *link = (struct rt_link){ .transport = &rt_transport_tcp, .fabric = &fabric, .peer = 1 - c->rank, .lane = 2,
                              .sender = c->rank == 0 };
    CHECK_EQ(rt_transport_tcp.open(link, &error), RINGTREE_OK);
    unsigned char *memory = calloc(1, link->slot_bytes);
    const uint64_t end = now_ms() + 15000;
    uint64_t n = 0;
    ringtree_status status = RINGTREE_OK;
    while (status <= RINGTREE_IN_PROGRESS && now_ms() < end) {
        const struct rt_frame frame = pair_frame(n, n < 10 ? 1000 : link->slot_bytes);
        const void *data = NULL;
        struct rt_frame got;
        if (n < 10) pair_fill(memory, n, 1000);
        if (c->rank == 0) status = rt_transport_tcp.send(link, &frame, memory, &error);
        else status = rt_transport_tcp.recv(link, &frame, NULL, frame.bytes, &got, &data, &error);
        if (status == RINGTREE_OK) n++;
        if (status == RINGTREE_OK && c->rank == 1) CHECK(data && (n > 10 || pair_filled(data, n - 1, 1000)));
        if (c->rank == 1) rt_transport_tcp.release(link);
        while (c->rank == 0 && n <= 10 && rt_transport_tcp.sent(link, NULL) < n && now_ms() < end) continue;
        if (c->rank == 0 && n > 10 && status == RINGTREE_IN_PROGRESS) raise(SIGKILL);
        if (c->rank == 1 && n >= 10) sleep_ms(1); /* lets the sender run into a full connection */
    }
    CHECK_THAT(status == RINGTREE_PEER_LOST, "%d: %s", status, error.text);
    CHECK_HAS(error.text, "rank 0");
    CHECK_THAT(n >= 10, "%" PRIu64 " slices", n);
    rt_transport_tcp.close(link);
    free(link);
    free(memory);
    rt_control_close(c->control, 0);
}

TEST(a_killed_sender_is_named_and_what_it_had_sent_arrives)
{
    struct rank_case model = { .run = die_sending };
    pid_t pids[2];
    const uint64_t begun = now_ms();
    rank_processes(&model, 2, 20000, pids);
    rank_reap(pids, 2, 0);
    CHECK_THAT(now_ms() - begun < 5000, "it took %" PRIu64 " ms", now_ms() - begun);
}

TEST_MAIN
