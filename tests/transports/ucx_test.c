/* UCX over a real control plane: between threads here, over UCX's shared memory and, with UCX_TLS=tcp, over its TCP. */
#include "control_world.h"

/* For LeakSanitizer: what UCX keeps of its own, 100 bytes after a peer was killed. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libuct.so";
}

static const uint64_t none = 0;

struct ucx_world {
    void             *control;
    struct rt_fabric *fabric[2];
};

static const char *ucx_start(const struct fixture *fixture, struct rt_fabric fabric[2], void **made)
{
    static char why[200];
    if (!rt_transport_ucx.reaches(NULL, 0, why, sizeof(why))) return why;
    struct ucx_world *world = calloc(1, sizeof(*world));
    *made = world;
    control_start(fixture, fabric, &world->control);
    unsigned char mine[2][RT_ANNOUNCEMENT] = { { 0 } };
    for (int r = 0; r < 2; r++) rt_transport_ucx.announce(world->fabric[r] = &fabric[r], mine[r]);
    for (int r = 0; r < 2; r++) rt_transport_ucx.hear(&fabric[r], mine, sizeof(mine[0]));
    return NULL;
}

static void ucx_stop(void *made)
{
    struct ucx_world *world = made;
    for (int r = 0; r < 2; r++) rt_transport_ucx.leave(world->fabric[r]);
    control_stop(world->control);
    free(world);
}

static const struct fixture ucx = { "ucx", &rt_transport_ucx, true, &none, ucx_start, ucx_stop };

CONFORMANCE(ucx, &ucx)

/* ---- beside tcp */

static struct rt_link *opened(const struct rt_transport *transport, struct rt_fabric *fabric, uint32_t lane,
                              bool sender)
{
    struct rt_link *link = calloc(1, transport->link_size);
    struct rt_error error = { 0 };
    *link = (struct rt_link){ .transport = transport, .fabric = fabric, .peer = 1 - fabric->rank, .lane = lane,
                              .sender = sender };
    CHECK_THAT(transport->open(link, &error) == RINGTREE_OK, "%s", error.text);
    return link;
}

static void closed(struct rt_link *link)
{
    link->transport->close(link);
    free(link);
}

/* As between a rank that has UCX and one that has not, while both run. */
static void check_message_by_tcp(struct rt_fabric fabric[2])
{
    struct rt_link *ucx_link = opened(&rt_transport_ucx, &fabric[1], 0, false);
    struct rt_link *out = opened(&rt_transport_tcp, &fabric[0], RT_P2P_LANE, true);
    const struct rt_frame frame = pair_frame(0, 4);
    const void *data = NULL;
    struct rt_frame got;
    ringtree_status status = RINGTREE_IN_PROGRESS;
    for (const uint64_t end = now_ms() + 5000; status == RINGTREE_IN_PROGRESS && now_ms() < end;)
        status = rt_transport_tcp.send(out, &frame, "tcp", NULL);
    for (const uint64_t end = now_ms() + 200; now_ms() < end;) rt_transport_ucx.step(&fabric[1]);
    CHECK_EQ(status, RINGTREE_OK);
    struct rt_link *in = opened(&rt_transport_tcp, &fabric[1], RT_P2P_LANE, false);
    for (const uint64_t end = now_ms() + 5000; !data && now_ms() < end;)
        rt_transport_tcp.recv(in, &frame, NULL, 4, &got, &data, NULL);
    CHECK(data && memcmp(data, "tcp", 4) == 0);
    closed(in);
    closed(out);
    closed(ucx_link);
}

TEST(connections_for_messages_by_tcp_are_left_to_tcp)
{
    struct rt_fabric fabric[2];
    void *world;
    const char *why = ucx_start(&ucx, fabric, &world);
    if (why) SKIP("%s", why);
    check_message_by_tcp(fabric);
    ucx_stop(world);
}

/* ---- processes */

/* Rank 0 sends ten slices and is killed in the middle of the next; rank 1 must get the ten and then the loss. */
static void sends_and_dies(struct rt_link *link, unsigned char *memory)
{
    struct rt_error error = { 0 };
    uint64_t n = 0;
    for (const uint64_t end = now_ms() + 15000; now_ms() < end;) {
        const struct rt_frame frame = pair_frame(n, n < 10 ? 1000 : link->slot_bytes);
        if (n < 10) pair_fill(memory, n, 1000);
        const ringtree_status status = rt_transport_ucx.send(link, &frame, memory, &error);
        CHECK_THAT(status <= RINGTREE_IN_PROGRESS, "%s", error.text);
        n += status == RINGTREE_OK;
        while (n <= 10 && rt_transport_ucx.sent(link, NULL) < n && now_ms() < end) continue;
        if (n > 10 && status == RINGTREE_IN_PROGRESS) raise(SIGKILL);
    }
}

static void receives_and_loses(struct rt_link *link)
{
    struct rt_error error = { 0 };
    ringtree_status status = RINGTREE_OK;
    uint64_t n = 0;
    for (const uint64_t end = now_ms() + 15000; status <= RINGTREE_IN_PROGRESS && now_ms() < end;) {
        const struct rt_frame frame = pair_frame(n, n < 10 ? 1000 : link->slot_bytes);
        const void *data = NULL;
        struct rt_frame got;
        status = rt_transport_ucx.recv(link, &frame, NULL, frame.bytes, &got, &data, &error);
        if (status == RINGTREE_OK) CHECK(data && (n >= 10 || pair_filled(data, n, 1000)));
        n += status == RINGTREE_OK;
        rt_transport_ucx.release(link);
        if (n >= 10) sleep_ms(1); /* lets the sender run into a full link */
    }
    CHECK_THAT(status == RINGTREE_PEER_LOST, "%d: %s", status, error.text);
    CHECK_HAS(error.text, "rank 0");
    CHECK_THAT(n >= 10, "%" PRIu64 " slices", n);
}

/* Rank 0 goes away at once when all is sent, by its own account; rank 1 looks late, and gets all of it. */
#define LAST_WORDS 8
static void sends_and_closes(struct rt_link *link, unsigned char *memory)
{
    struct rt_error error = { 0 };
    uint64_t n = 0;
    for (const uint64_t end = now_ms() + 15000; n < LAST_WORDS && now_ms() < end;) {
        const struct rt_frame frame = pair_frame(n, link->slot_bytes);
        pair_fill(memory, n, link->slot_bytes);
        const ringtree_status status = rt_transport_ucx.send(link, &frame, memory, &error);
        CHECK_THAT(status <= RINGTREE_IN_PROGRESS, "%s", error.text);
        n += status == RINGTREE_OK;
        while (rt_transport_ucx.sent(link, NULL) < n && now_ms() < end) continue;
    }
    CHECK_EQ(n, LAST_WORDS);
}

static void receives_late(struct rt_link *link)
{
    struct rt_error error = { 0 };
    ringtree_status status = RINGTREE_OK;
    uint64_t n = 0;
    for (const uint64_t end = now_ms() + 15000; status <= RINGTREE_IN_PROGRESS && now_ms() < end;) {
        const struct rt_frame frame = pair_frame(n, link->slot_bytes);
        const void *data = NULL;
        struct rt_frame got;
        status = rt_transport_ucx.recv(link, &frame, NULL, frame.bytes, &got, &data, &error);
        if (status != RINGTREE_OK) continue;
        CHECK(data && pair_filled(data, n++, link->slot_bytes));
        rt_transport_ucx.release(link);
        if (n == 1) sleep_ms(300);
    }
    CHECK_EQ(n, LAST_WORDS);
    CHECK_THAT(status == RINGTREE_PEER_LOST, "%d: %s", status, error.text);
}

static void on_a_link(struct rank_case *c, void (*sends)(struct rt_link *, unsigned char *),
                      void (*receives)(struct rt_link *))
{
    struct rt_fabric fabric = { .rank = c->rank, .nranks = 2, .settings = &c->settings, .clock = &rt_system_clock,
                                .control = c->control };
    struct rt_link *link = calloc(1, rt_transport_ucx.link_size);
    struct rt_error error = { 0 };
    *link = (struct rt_link){ .transport = &rt_transport_ucx, .fabric = &fabric, .peer = 1 - c->rank, .lane = 2,
                              .sender = c->rank == 0 };
    CHECK_THAT(rt_transport_ucx.open(link, &error) == RINGTREE_OK, "%s", error.text);
    unsigned char *memory = calloc(1, link->slot_bytes);
    if (link->sender) sends(link, memory);
    else receives(link);
    rt_transport_ucx.close(link);
    rt_transport_ucx.leave(&fabric);
    free(link);
    free(memory);
    rt_control_close(c->control, 0);
}

static void live_or_die(struct rank_case *c)
{
    on_a_link(c, sends_and_dies, receives_and_loses);
}

static void send_or_wait(struct rank_case *c)
{
    on_a_link(c, sends_and_closes, receives_late);
}

TEST(what_was_accepted_arrives_after_its_sender_has_closed_and_ended)
{
    char why[200];
    struct rank_case model = { .run = send_or_wait };
    pid_t pids[2];
    if (!rt_transport_ucx.reaches(NULL, 0, why, sizeof(why))) SKIP("%s", why);
    rank_processes(&model, 2, 20000, pids);
    rank_reap(pids, 2, RT_NONE);
}

TEST(a_killed_sender_is_named_and_what_it_had_sent_arrives)
{
    char why[200];
    struct rank_case model = { .run = live_or_die };
    pid_t pids[2];
    if (!rt_transport_ucx.reaches(NULL, 0, why, sizeof(why))) SKIP("%s", why);
    const uint64_t begun = now_ms();
    rank_processes(&model, 2, 20000, pids);
    rank_reap(pids, 2, 0);
    CHECK_THAT(now_ms() - begun < 8000, "it took %" PRIu64 " ms", now_ms() - begun);
}

TEST_MAIN
