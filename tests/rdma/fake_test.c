/*
 * The verbs transport on devices that exist in memory alone: the conformance suite in several shapes, and what happens
 * when things break. The same transport over a kernel's soft-RoCE is tested in virtual machines (rdma_test).
 */
#include "exchange.h"
#include "fake.h"
#include "test.h"
#include "transports/conformance.h"
#include "through.h"
#include "transports/standin_control.h"
#include "verbs/verbs.h"
#include <poll.h>
#include <time.h>

struct shape {
    uint32_t devices, qps, inline_most;
    uint64_t slot_bytes;
};

static enum ibv_mtu mtu_of_second; /* 0: that of the first */

static const char *fake_start(const struct fixture *fixture, struct rt_fabric fabric[2], void **made)
{
    const struct shape *shape = fixture->options;
    unsigned char all[2][RT_ANNOUNCEMENT] = { { 0 } };
    struct standin *world = standin_start(AF_UNIX, 1);
    rt_verbs_replace(&fake_api);
    fake_reset(shape->devices);
    fake_inline(shape->inline_most);
    world->settings.number[RT_VERBS_QPS] = shape->qps;
    world->settings.given[RT_TRANSPORTS] = 2;
    if (shape->slot_bytes) world->settings.number[RT_VERBS_SLOT_BYTES] = shape->slot_bytes;
    world->settings.given[RT_VERBS_SLOT_BYTES] = shape->slot_bytes != 0;
    standin_fabric(world, fabric);
    rt_transport_verbs.announce(&fabric[0], all[0]);
    if (mtu_of_second) fake_mtu(0, mtu_of_second);
    rt_transport_verbs.announce(&fabric[1], all[1]);
    for (int r = 0; r < 2; r++) rt_transport_verbs.hear(&fabric[r], all, RT_ANNOUNCEMENT);
    *made = world;
    return NULL;
}

/* The suite's pair holds the fabrics; it is closed link by link before. */
static struct rt_fabric *last_fabric;

static const char *kept_start(const struct fixture *fixture, struct rt_fabric fabric[2], void **made)
{
    last_fabric = fabric;
    return fake_start(fixture, fabric, made);
}

static void fake_stop(void *made)
{
    for (int r = 0; r < 2; r++) rt_transport_verbs.leave(&last_fabric[r]);
    if (fake_leaks()) TEST_FAIL("%u objects of the device were not given back", fake_leaks());
    standin_stop(made);
}

static const struct shape plain = { 1, 1, 256, 0 }, wide = { 2, 2, 64, 0 }, tiny = { 1, 1, 0, 4096 };
static const struct fixture one = { "1 queue pair", &rt_transport_verbs, true, &plain, kept_start, fake_stop };
static const struct fixture four = { "2 ports", &rt_transport_verbs, true, &wide, kept_start, fake_stop };
static const struct fixture small_slots = { "4K", &rt_transport_verbs, true, &tiny, kept_start, fake_stop };

CONFORMANCE(one_queue_pair, &one)
CONFORMANCE(four_queue_pairs_on_two_ports, &four)
CONFORMANCE(small_slots_and_nothing_inline, &small_slots)

/* ---- failures */

static const char *slice(struct pair *pair, uint64_t number, uint32_t bytes)
{
    static unsigned char memory[256 * 1024];
    const struct rt_frame frame = pair_frame(number, bytes);
    const void *data = NULL;
    struct rt_frame got;
    pair_fill(memory, number, bytes);
    const char *why = pair_first(pair, &frame, memory);
    if (!why) why = pair_recv(pair, &frame, NULL, bytes, &got, &data);
    if (!why && (!data || !pair_filled(data, number, bytes))) why = wrong("slice %" PRIu64 " is broken", number);
    pair->transport->release(pair->in);
    return why;
}

static void check_through(const struct fixture *fixture, void (*trouble)(struct pair *pair), const char *then)
{
    struct pair pair;
    bool skip;
    char text[300] = "";
    const char *why = pair_open(&pair, fixture, &skip);
    if (!why) why = through(&pair, trouble, 60);
    CHECK_THAT(!why, "%s", why);
    if (!why) CHECK_HAS(rt_transport_verbs.describe(pair.out, text, sizeof(text)), then);
    pair_close(&pair);
}

static void retry_exceeded(struct pair *pair)
{
    (void)pair;
    fake_next_status(IBV_WC_RETRY_EXC_ERR);
}

static void first_port_down(struct pair *pair)
{
    (void)pair;
    fake_port(0, false);
}

static void all_ports_down(struct pair *pair)
{
    (void)pair;
    for (uint32_t i = 0; i < FAKE_DEVICES; i++) fake_port(i, false);
}

static void queue_pair_to_error(struct pair *pair)
{
    struct rt_verbs_pair *in = ((struct rt_verbs_link *)pair->in)->pair;
    rt_verbs_queue_empty(in, &in->queue[0]);
}

TEST(a_connection_that_breaks_once_is_made_anew_and_no_slice_is_lost)
{
    check_through(&one, retry_exceeded, "fake0 port 1");
    check_through(&four, retry_exceeded, "4 queue pairs");
}

static void request_forgotten(struct pair *pair)
{
    ((struct standin *)pair->world)->settings.number[RT_TIMEOUT_MS] = 400;
    fake_forgotten();
}

TEST(a_queue_pair_that_neither_completes_nor_fails_is_made_anew)
{
    check_through(&one, request_forgotten, "fake0 port 1");
    check_through(&four, request_forgotten, "4 queue pairs");
}

/* Most short slices go without a completion, and nobody may look for long. */
TEST(a_short_slice_without_completion_breaks_nothing_however_seldom_it_is_looked_at)
{
    const struct timespec moment = { .tv_nsec = 150000000 };
    struct pair pair;
    bool skip;
    char text[400];
    short events;
    const char *why = pair_open(&pair, &one, &skip);
    ((struct standin *)pair.world)->settings.number[RT_TIMEOUT_MS] = 400;
    if (!why) why = slice(&pair, 0, 8);
    CHECK_THAT(!why, "%s", why);
    for (int i = 0; i < 4; i++) {
        rt_transport_verbs.pollfd(pair.out, &events);
        nanosleep(&moment, NULL);
    }
    CHECK_HAS(rt_transport_verbs.describe(pair.out, text, sizeof(text)), "up (epoch 1)");
    pair_close(&pair);
}

TEST(a_queue_pair_forced_to_error_at_the_receiver_is_made_anew)
{
    check_through(&one, queue_pair_to_error, "fake0 port 1");
    check_through(&four, queue_pair_to_error, "4 queue pairs");
}

TEST(a_port_that_goes_down_is_replaced_by_another)
{
    check_through(&four, first_port_down, "fake1 port 1");
}

TEST(tcp_takes_over_when_no_port_is_left)
{
    check_through(&one, all_ports_down, "verbs, now over tcp");
    check_through(&four, all_ports_down, "verbs, now over tcp");
}

/* It breaks while the port is down, and both ends notice. */
static void port_down_for_a_moment(struct pair *pair)
{
    const struct timespec moment = { .tv_nsec = 1000000 };
    struct rt_verbs_pair *out = ((struct rt_verbs_link *)pair->out)->pair;
    fake_port(0, false);
    queue_pair_to_error(pair);
    rt_verbs_queue_empty(out, &out->queue[0]);
    for (int i = 0; i < 50; i++) {
        pair->transport->sent(pair->out, NULL);
        rt_transport_verbs.step(&pair->fabric[0]);
        rt_transport_verbs.step(&pair->fabric[1]);
        nanosleep(&moment, NULL);
    }
    CHECK(out->state != RT_VERBS_UP);
    fake_port(0, true);
}

TEST(a_port_that_is_down_for_a_moment_is_waited_for)
{
    check_through(&one, port_down_for_a_moment, "fake0 port 1");
}

static void first_device_removed(struct pair *pair)
{
    (void)pair;
    fake_remove(0);
}

static void all_devices_removed(struct pair *pair)
{
    (void)pair;
    for (uint32_t i = 0; i < FAKE_DEVICES; i++) fake_remove(i);
}

TEST(a_device_that_is_removed_is_replaced_by_another_or_by_tcp_though_it_completes_nothing)
{
    check_through(&four, first_device_removed, "fake1 port 1");
    check_through(&one, all_devices_removed, "verbs, now over tcp");
    check_through(&four, all_devices_removed, "verbs, now over tcp");
}

static const char *refused(struct pair *pair, const char *failover, void (*trouble)(struct pair *pair))
{
    struct standin *world = pair->world;
    strcpy(world->settings.text[RT_VERBS_FAILOVER], failover);
    const char *why = through(pair, trouble, 60);
    return why ? why : "nothing failed";
}

/* Waits until a receiver may sleep; then nothing must wake it. */
static const char *sleeps(struct rt_link *link)
{
    struct rt_frame frame;
    const void *data;
    for (int i = 0; i < 1000; i++) {
        struct pollfd fd = { 0 };
        rt_transport_verbs.recv(link, NULL, NULL, 0, &frame, &data, NULL);
        fd.fd = rt_transport_verbs.pollfd(link, &fd.events);
        if (fd.events == POLLIN && poll(&fd, 1, 0) == 0) return NULL;
    }
    return "something wakes it all the time";
}

TEST(a_device_that_was_removed_wakes_no_rank_that_sleeps)
{
    struct pair pair;
    bool skip;
    const char *why = pair_open(&pair, &four, &skip);
    if (!why) why = through(&pair, first_device_removed, 60);
    if (!why) why = sleeps(pair.in);
    CHECK_THAT(!why, "%s", why);
    pair_close(&pair);
}

static void removed_then_other_event(struct pair *pair)
{
    (void)pair;
    fake_remove(0);
    fake_port(1, true);
}

TEST(the_reason_for_leaving_a_device_is_its_own_event)
{
    struct pair pair;
    bool skip;
    pair_open(&pair, &four, &skip);
    CHECK_HAS(refused(&pair, "off", removed_then_other_event),
              "broke: fake0 port 1 (GID ::ffff:10.0.0.1): the device failed or was removed");
    pair_close(&pair);
}

static void nothing(struct pair *pair)
{
    (void)pair;
}

TEST(ends_with_different_mtu_use_the_lesser)
{
    mtu_of_second = IBV_MTU_4096;
    check_through(&one, nothing, "fake0 port 1");
    mtu_of_second = IBV_MTU_256;
    check_through(&one, nothing, "fake0 port 1");
    mtu_of_second = 0;
}

TEST(failover_can_be_limited_and_the_sentence_says_what_broke_and_where_to_look)
{
    struct pair pair;
    bool skip;
    pair_open(&pair, &one, &skip);
    const char *why = refused(&pair, "off", retry_exceeded);
    CHECK_HAS(why, "(host testhost) broke: fake0 port 1 (GID ::ffff:10.0.0.1) to GID ::ffff:10.0.0.1: retry exceeded");
    CHECK_HAS(why, "VLAN");
    CHECK_HAS(why, "RINGTREE_VERBS_FAILOVER=off");
    pair_close(&pair);
    pair_open(&pair, &one, &skip);
    CHECK_HAS(refused(&pair, "port", all_ports_down), "RINGTREE_VERBS_FAILOVER=port");
    pair_close(&pair);
    pair_open(&pair, &one, &skip);
    CHECK_HAS(refused(&pair, "off", all_devices_removed),
              "fake0 port 1 (GID ::ffff:10.0.0.1): the device failed or was removed");
    pair_close(&pair);
}

/* ---- breaks while both ranks send and receive */

static void break_queue(struct exchange *x, int rank)
{
    struct rt_verbs_pair *pair = ((struct rt_verbs_link *)x->in[rank])->pair;
    if (pair->queues) rt_verbs_queue_empty(pair, &pair->queue[0]);
}

static void break_somehow(struct exchange *x)
{
    switch (random_next(&x->random) % 8) {
    case 7: fake_forgotten(); break;
    case 0: fake_next_status(IBV_WC_RETRY_EXC_ERR); break;
    case 1: fake_unheard(); break;
    case 2: break_queue(x, 0); break;
    case 3: break_queue(x, 1); break;
    case 4:
        break_queue(x, 0);
        break_queue(x, 1);
        break;
    case 5: fake_remove(1); break; /* while it greets, too; there may be no such device */
    default:
        fake_port(0, false);
        fake_port(0, random_next(&x->random) & 1);
    }
}

static void now_and_then(struct exchange *x, uint64_t came)
{
    (void)came;
    if (random_next(&x->random) % *(const uint32_t *)x->context == 0) break_somehow(x);
}

static const char *exchange_over(const struct fixture *fixture, uint64_t seed, uint32_t one_in)
{
    struct rt_fabric fabric[2];
    void *world;
    const char *why = fixture->start(fixture, fabric, &world);
    struct exchange x = { fabric, 200, seed, now_and_then, .context = &one_in };
    if (!why) ((struct standin *)world)->settings.number[RT_TIMEOUT_MS] = 400;
    if (!why) why = exchange_run(&x);
    exchange_close(&x);
    fixture->stop(world);
    return why;
}

TEST(links_that_break_at_any_slice_while_both_ranks_send_lose_nothing_and_stand_still_nowhere)
{
    for (uint64_t seed = 1; seed <= 918; seed += seed == 80 ? 838 : 1) { /* 918: a device removed while they greet */
        const char *why = exchange_over(seed % 3 ? &one : &four, seed, seed % 2 ? 100 : 30);
        CHECK_THAT(!why, "seed %" PRIu64 ": %s", seed, why);
    }
}

/* A rank that has sent a short slice counts it as sent, and only waits for others from then on. */
static const char *lost_short(uint32_t broken_before, const char *then)
{
    struct pair pair;
    bool skip;
    const void *data = NULL;
    struct rt_frame got;
    char text[400] = "";
    const char *why = pair_open(&pair, &one, &skip);
    for (uint64_t number = 0; !why && number <= broken_before; number++) {
        if (number) fake_next_status(IBV_WC_RETRY_EXC_ERR);
        why = slice(&pair, number, 8);
    }
    fake_next_status(IBV_WC_RETRY_EXC_ERR);
    const struct rt_frame frame = pair_frame(broken_before + 1, 8);
    unsigned char memory[8];
    pair_fill(memory, frame.sequence, 8);
    if (!why) why = pair_send(&pair, &frame, memory);
    const uint64_t end = rt_now_ns(&rt_system_clock) + UINT64_C(3000000000);
    while (!why && !data) {
        rt_transport_verbs.step(&pair.fabric[0]);
        if (rt_transport_verbs.recv(pair.in, &frame, NULL, 8, &got, &data, NULL) > RINGTREE_IN_PROGRESS) why = "recv";
        if (!data && rt_now_ns(&rt_system_clock) > end)
            why = wrong("it did not come: %s", rt_transport_verbs.describe(pair.out, text, sizeof(text)));
    }
    if (!why && !strstr(rt_transport_verbs.describe(pair.out, text, sizeof(text)), then)) why = wrong("%s", text);
    pair_close(&pair);
    return why;
}

TEST(a_short_slice_that_gets_lost_is_sent_again_though_nobody_asks_its_sender)
{
    const char *why = lost_short(0, "up (epoch 2)");
    CHECK_THAT(!why, "%s", why);
    why = lost_short(1, "now over tcp");
    CHECK_THAT(!why, "%s", why);
}

/* What came whole is still given. */
static ringtree_status receive_to_the_end(struct pair *pair, struct rt_error *error)
{
    const uint64_t end = rt_now_ns(&rt_system_clock) + UINT64_C(5000000000);
    ringtree_status status = RINGTREE_IN_PROGRESS;
    const void *data;
    struct rt_frame got;
    while (status <= RINGTREE_IN_PROGRESS && rt_now_ns(&rt_system_clock) < end) {
        status = pair->transport->recv(pair->in, NULL, NULL, pair->in->slot_bytes, &got, &data, error);
        pair->transport->release(pair->in);
    }
    return status;
}

TEST(where_tcp_cannot_take_over_both_ends_say_so)
{
    struct pair pair;
    struct rt_error error = { 0 };
    bool skip;
    pair_open(&pair, &one, &skip);
    ((struct standin *)pair.world)->settings.number[RT_TCP_SLOT_BYTES] = 4096;
    const char *why = through(&pair, all_ports_down, 60);
    CHECK_HAS(why ? why : "nothing failed", "RINGTREE_TCP_SLOT_BYTES is below");
    CHECK_EQ(receive_to_the_end(&pair, &error), RINGTREE_PEER_LOST);
    CHECK_HAS(error.text, "RINGTREE_TCP_SLOT_BYTES is below");
    pair_close(&pair);
}

static void lose_and_break(struct pair *pair)
{
    (void)pair;
    fake_lose(1);
}

TEST(a_device_that_loses_what_it_acknowledged_is_found_out)
{
    struct pair pair;
    bool skip;
    pair_open(&pair, &one, &skip);
    const char *why = through(&pair, lose_and_break, 60);
    CHECK_HAS(why ? why : "all came", "acknowledged did not come there");
    pair_close(&pair);
}

/* ---- a peer that is not ours */

static const char *after_note(uint32_t note, bool writes, uint32_t offset, uint32_t count)
{
    static const unsigned char bytes[256] = { 0 };
    struct pair pair;
    bool skip;
    struct rt_frame got;
    const void *data;
    struct rt_error error = { 0 };
    const struct rt_frame expect = pair_frame(1, 8);
    const char *why = pair_open(&pair, &one, &skip);
    if (!why) why = slice(&pair, 0, 8);
    const struct rt_verbs_link *in = (struct rt_verbs_link *)pair.in;
    if (!fake_hostile(in->pair->queue[0].qp->qp_num, (uintptr_t)in->slots.memory + offset, in->slots.mr[0]->rkey, bytes,
                      count, note, writes))
        why = why ? why : "the device refused";
    for (int i = 0; !why && i < 1000; i++)
        if (rt_transport_verbs.recv(pair.in, &expect, NULL, 8, &got, &data, &error) > RINGTREE_IN_PROGRESS)
            why = wrong("%s", error.text);
    pair_close(&pair);
    return why ? why : "nothing was noticed";
}

TEST(a_note_that_belongs_to_no_slice_is_an_error)
{
    CHECK_HAS(after_note(0, true, 0, 0), "belongs to no slice");
    CHECK_HAS(after_note(UINT32_MAX, true, 0, 0), "belongs to no slice");
    CHECK_HAS(after_note(rt_verbs_note_put(RT_VERBS_SLICE, 0, 900, 0), true, 0, 0), "belongs to no slice");
    CHECK_HAS(after_note(rt_verbs_note_put(RT_VERBS_SLICE, 3, 1, 0), true, 0, 0), "belongs to no slice");
    CHECK_HAS(after_note(rt_verbs_note_put(RT_VERBS_SLICE, 0, 1, 0), false, 0, 0), "belongs to no slice");
    CHECK_HAS(after_note(rt_verbs_note_put(RT_VERBS_CREDIT, 0, 0, 0), true, 0, 0), "belongs to no slice");
}

TEST(a_write_beyond_the_slots_is_refused_by_the_device)
{
    CHECK_HAS(after_note(rt_verbs_note_put(RT_VERBS_SLICE, 0, 1, 0), true, RT_VERBS_RING * (128 * 1024 + 64) - 10, 11),
              "the device refused");
    CHECK_HAS(after_note(rt_verbs_note_put(RT_VERBS_SLICE, 0, 1, 0), true, (uint32_t)-8, 16), "the device refused");
}

/* ---- choice */

TEST(an_emulated_device_is_used_only_when_it_is_asked_for)
{
    struct standin *world = standin_start(AF_UNIX, 1);
    struct rt_fabric fabric[2];
    unsigned char all[2][RT_ANNOUNCEMENT] = { { 0 } };
    char why[300] = "";
    rt_verbs_replace(&fake_api);
    fake_reset(1);
    standin_fabric(world, fabric);
    for (int r = 0; r < 2; r++) rt_transport_verbs.announce(&fabric[r], all[r]);
    for (int r = 0; r < 2; r++) rt_transport_verbs.hear(&fabric[r], all, RT_ANNOUNCEMENT);
    CHECK(!rt_transport_verbs.reaches(&fabric[0], 1, why, sizeof(why)));
    CHECK_HAS(why, "emulated in software");
    for (int r = 0; r < 2; r++) rt_transport_verbs.leave(&fabric[r]);
    standin_stop(world);
}

static void reaches_says(const char *devices, uint32_t count, const char *part)
{
    struct standin *world = standin_start(AF_UNIX, 1);
    struct rt_fabric fabric[2];
    unsigned char all[2][RT_ANNOUNCEMENT] = { { 0 } };
    char why[300] = "";
    rt_verbs_replace(&fake_api);
    fake_reset(count);
    world->settings.given[RT_TRANSPORTS] = 2;
    strcpy(world->settings.text[RT_VERBS_DEVICES], devices);
    standin_fabric(world, fabric);
    if (count == 3) fake_port(0, false);
    rt_transport_verbs.announce(&fabric[0], all[0]);
    rt_transport_verbs.hear(&fabric[0], all, RT_ANNOUNCEMENT);
    CHECK(!rt_transport_verbs.reaches(&fabric[0], 1, why, sizeof(why)));
    CHECK_HAS(why, part);
    rt_transport_verbs.leave(&fabric[0]);
    standin_stop(world);
}

TEST(why_a_rank_is_not_reached_is_told)
{
    reaches_says("", 0, "there is no RDMA device here");
    reaches_says("mlx5_0", 1, "RINGTREE_VERBS_DEVICES=mlx5_0");
    reaches_says("fake0", 3, "fake0 port 1: it is down");
    reaches_says("fake1", 2, "rank 1 has no usable RDMA port");
}

TEST_MAIN
