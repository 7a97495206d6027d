/* Links in shared memory: order, back-pressure, sizes, wrap-around, and what a damaged ring does. */
#include "control_standin.h"
#include "shm/inside.h"
#include "test.h"
#include "../transports/conformance.h"
#include <sched.h>

/* ---- the suite of all transports */

static const char *suite_start(const struct fixture *fixture, struct rt_fabric fabric[2], void **result)
{
    (void)fixture;
    struct standin *world = standin_new(2);
    standin_open(world);
    if (!world->node[0] || !world->node[1]) {
        standin_close(world);
        return "no shared memory on this machine";
    }
    fabric[0] = world->fabric[0];
    fabric[1] = world->fabric[1];
    *result = world;
    return NULL;
}

static void suite_stop(void *world)
{
    standin_close(world);
}

static const struct fixture suite = { "shm", &rt_transport_shm, false, NULL, suite_start, suite_stop };
CONFORMANCE(shm, &suite)

/* ---- a pair of links */

struct wire {
    struct standin *world;
    struct rt_link *out, *in;
    struct rt_error error;
};

static struct rt_link *link_new(struct standin *world, uint32_t self, uint32_t peer, uint32_t lane, bool sender)
{
    struct rt_link *link = calloc(1, rt_transport_shm.link_size);
    if (!link) abort();
    *link = (struct rt_link){ &rt_transport_shm, &world->fabric[self], peer, lane, sender, 0, 0 };
    return link;
}

static struct wire wire_open(uint64_t slots, uint64_t slot_bytes)
{
    struct wire w = { .world = standin_new(2) };
    w.world->settings.number[RT_SHM_SLOTS] = slots;
    w.world->settings.number[RT_SHM_SLOT_BYTES] = slot_bytes;
    standin_open(w.world);
    w.out = link_new(w.world, 0, 1, 3, true);
    w.in = link_new(w.world, 1, 0, 3, false);
    CHECK_THAT(rt_transport_shm.open(w.out, &w.error) == RINGTREE_OK, "%s", w.error.text);
    CHECK_THAT(rt_transport_shm.open(w.in, &w.error) == RINGTREE_OK, "%s", w.error.text);
    return w;
}

static void wire_close(struct wire *w)
{
    rt_transport_shm.close(w->out);
    rt_transport_shm.close(w->in);
    free(w->out);
    free(w->in);
    standin_close(w->world);
}

static struct rt_frame frame_of(uint64_t sequence, uint32_t bytes)
{
    return (struct rt_frame){ .sequence = sequence, .count = 5, .op = 1, .root = RT_NONE, .type = 7, .lane = 3,
                              .bytes = bytes };
}

static ringtree_status put(struct wire *w, uint64_t sequence, const void *data, uint32_t bytes)
{
    const struct rt_frame frame = frame_of(sequence, bytes);
    return rt_transport_shm.send(w->out, &frame, data, &w->error);
}

static ringtree_status take(struct wire *w, uint64_t sequence, uint32_t bytes, void *into, const void **data)
{
    const struct rt_frame expect = frame_of(sequence, bytes);
    struct rt_frame frame;
    return rt_transport_shm.recv(w->in, &expect, into, bytes, &frame, data, &w->error);
}

TEST(slices_of_every_size_around_a_line_and_a_slot_pass_by_both_ways_of_building_and_delivering)
{
    struct wire w = wire_open(4, 8192);
    const uint32_t sizes[] = { 0, 1, 7, 23, 24, 25, 63, 64, 65, 4095, 4096, 8191, 8192 };
    unsigned char from[8192], into[8192];
    uint64_t sequence = 0;
    for (uint32_t turn = 0; turn < 4 * 13 * 3; turn++, sequence++) {
        const uint32_t bytes = sizes[turn % 13];
        pair_fill(from, sequence, bytes);
        unsigned char *memory = turn & 1 ? rt_transport_shm.reserve(w.out, &w.error) : from;
        CHECK(memory != NULL);
        if (memory != from) memcpy(memory, from, bytes);
        CHECK_EQ(put(&w, sequence, memory, bytes), RINGTREE_OK);
        const void *data = NULL;
        CHECK_EQ(take(&w, sequence, bytes, turn & 2 ? into : NULL, &data), RINGTREE_OK);
        CHECK_THAT(data && pair_filled(data, sequence, bytes), "%u bytes, turn %u", bytes, turn);
        CHECK(!(turn & 2) || data == into);
        rt_transport_shm.release(w.in);
    }
    CHECK_EQ(rt_transport_shm.sent(w.out, NULL), sequence);
    wire_close(&w);
}

TEST(a_full_ring_takes_no_more_until_one_is_released)
{
    struct wire w = wire_open(3, 4096);
    const char word[] = "word";
    const void *data;
    for (uint64_t i = 0; i < 3; i++) CHECK_EQ(put(&w, i, word, 4), RINGTREE_OK);
    CHECK_EQ(put(&w, 3, word, 4), RINGTREE_IN_PROGRESS);
    CHECK(rt_transport_shm.reserve(w.out, &w.error) == NULL);
    CHECK_EQ(w.error.status, RINGTREE_OK);
    CHECK_EQ(take(&w, 0, 4, NULL, &data), RINGTREE_OK);
    CHECK_EQ(put(&w, 3, word, 4), RINGTREE_IN_PROGRESS); /* held, not released */
    rt_transport_shm.release(w.in);
    CHECK_EQ(put(&w, 3, word, 4), RINGTREE_OK);
    for (uint64_t i = 1; i < 4; i++, rt_transport_shm.release(w.in)) CHECK_EQ(take(&w, i, 4, NULL, &data), RINGTREE_OK);
    CHECK_EQ(take(&w, 4, 4, NULL, &data), RINGTREE_IN_PROGRESS);
    wire_close(&w);
}

TEST(a_slice_longer_than_a_slot_is_refused_with_a_sentence)
{
    struct wire w = wire_open(2, 4096);
    unsigned char much[4097] = { 0 };
    CHECK_EQ(put(&w, 0, much, 4097), RINGTREE_INTERNAL);
    CHECK_HAS(w.error.text, "4097");
    wire_close(&w);
}

TEST(a_link_opened_again_goes_on_where_it_was)
{
    struct wire w = wire_open(4, 4096);
    const void *data;
    for (uint64_t i = 0; i < 7; i++) {
        CHECK_EQ(put(&w, i, "word", 4), RINGTREE_OK);
        if (i == 6) break;
        CHECK_EQ(take(&w, i, 4, NULL, &data), RINGTREE_OK);
        rt_transport_shm.release(w.in);
    }
    rt_transport_shm.close(w.out);
    rt_transport_shm.close(w.in);
    CHECK_EQ(rt_transport_shm.open(w.out, &w.error), RINGTREE_OK);
    CHECK_EQ(rt_transport_shm.open(w.in, &w.error), RINGTREE_OK);
    CHECK_EQ(rt_transport_shm.sent(w.out, NULL), 0);
    CHECK_EQ(put(&w, 7, "more", 4), RINGTREE_OK);
    for (uint64_t i = 6; i < 8; i++) {
        CHECK_EQ(take(&w, i, 4, NULL, &data), RINGTREE_OK);
        CHECK(data && memcmp(data, i == 6 ? "word" : "more", 4) == 0);
        rt_transport_shm.release(w.in);
    }
    wire_close(&w);
}

/* ---- damage. The ring as shm.c lays it out: taken at 0, slots from RT_NODE_LINE on, the frame 8 bytes into each */

static unsigned char *ring_of(struct wire *w)
{
    return rt_node_link(w->world->node[0], 0, 1, 3);
}

TEST(a_frame_that_claims_more_than_a_slot_is_not_delivered)
{
    struct wire w = wire_open(4, 4096);
    unsigned char into[64];
    const void *data = into;
    CHECK_EQ(put(&w, 0, "word", 4), RINGTREE_OK);
    const uint32_t huge = UINT32_MAX;
    memcpy(ring_of(&w) + RT_NODE_LINE + 8 + offsetof(struct rt_frame, bytes), &huge, 4);
    CHECK_EQ(take(&w, 0, 4, NULL, &data), RINGTREE_OK);
    CHECK(data == NULL);
    CHECK_EQ(take(&w, 0, 4, into, &data), RINGTREE_OK);
    CHECK(data == NULL);
    wire_close(&w);
}

TEST(an_impossible_turn_is_an_error_that_names_both_ranks)
{
    struct wire w = wire_open(4, 4096);
    const void *data;
    const uint64_t turn = 77;
    memcpy(ring_of(&w) + RT_NODE_LINE, &turn, 8);
    CHECK_EQ(take(&w, 0, 4, NULL, &data), RINGTREE_INTERNAL);
    CHECK_HAS(w.error.text, "rank 1");
    CHECK_HAS(w.error.text, "rank 0");
    CHECK_HAS(w.error.text, "77");
    wire_close(&w);
}

TEST(an_impossible_count_of_the_receiver_is_an_error_of_both_reserve_and_send)
{
    struct wire w = wire_open(2, 4096);
    const uint64_t taken = 9;
    CHECK_EQ(put(&w, 0, "word", 4), RINGTREE_OK);
    CHECK_EQ(put(&w, 1, "word", 4), RINGTREE_OK);
    memcpy(ring_of(&w), &taken, 8);
    CHECK(rt_transport_shm.reserve(w.out, &w.error) == NULL);
    CHECK_EQ(w.error.status, RINGTREE_INTERNAL);
    CHECK_EQ(put(&w, 2, "word", 4), RINGTREE_INTERNAL);
    rt_transport_shm.close(w.out);
    CHECK_EQ(rt_transport_shm.open(w.out, &w.error), RINGTREE_INTERNAL);
    wire_close(&w);
}

TEST(there_is_no_link_to_a_rank_on_another_host)
{
    struct standin *world = standin_new(3);
    struct rt_error error = { 0 };
    char why[200] = "";
    world->place[2].host_key = 8;
    standin_open(world);
    CHECK(rt_transport_shm.reaches(&world->fabric[0], 1, why, sizeof why));
    CHECK(!rt_transport_shm.reaches(&world->fabric[0], 2, why, sizeof why));
    CHECK_HAS(why, "shares no memory with rank 2");
    CHECK(!rt_transport_shm.reaches(&world->fabric[2], 0, NULL, 0));
    struct rt_link *link = link_new(world, 0, 2, 0, true);
    CHECK_EQ(rt_transport_shm.open(link, &error), RINGTREE_UNREACHABLE);
    rt_transport_shm.close(link);
    free(link);
    standin_close(world);
}

TEST(links_of_all_pairs_and_lanes_are_apart)
{
    struct standin *world = standin_new(3);
    standin_open(world);
    struct rt_error error = { 0 };
    for (uint32_t turn = 0; turn < 2; turn++)
        for (uint32_t i = 0; i < 9 * RT_LINK_LANES; i++) {
            const uint32_t from = i / 3 % 3, to = i % 3, lane = i / 9;
            struct rt_link *link = link_new(world, turn ? to : from, turn ? from : to, lane, turn == 0);
            struct rt_frame frame = { .sequence = i, .bytes = 100 }, got;
            unsigned char memory[100];
            const void *data = NULL;
            pair_fill(memory, i, 100);
            CHECK_THAT(rt_transport_shm.open(link, &error) == RINGTREE_OK, "%s", error.text);
            if (turn == 0) CHECK_EQ(rt_transport_shm.send(link, &frame, memory, &error), RINGTREE_OK);
            else CHECK_EQ(rt_transport_shm.recv(link, &frame, NULL, 100, &got, &data, &error), RINGTREE_OK);
            CHECK_THAT(turn == 0 || (data && pair_filled(data, i, 100)), "from %u to %u, lane %u", from, to, lane);
            rt_transport_shm.close(link);
            free(link);
        }
    standin_close(world);
}

/* ---- ranks as threads, with every slice checked; two at once, in both directions */

struct half {
    struct rt_link *link;
    uint64_t        slices;
};

static uint32_t size_of(uint64_t i)
{
    return (uint32_t)(i % 5 == 0 ? i % 60 : i * 37 % 4097);
}

static void *sender(void *argument)
{
    struct half *half = argument;
    struct rt_error error = { 0 };
    unsigned char memory[4096];
    for (uint64_t i = 0; i < half->slices;) {
        const struct rt_frame frame = frame_of(i, size_of(i));
        unsigned char *at = i % 3 ? memory : rt_transport_shm.reserve(half->link, &error);
        if (at) pair_fill(at, i, frame.bytes);
        ringtree_status status = at ? rt_transport_shm.send(half->link, &frame, at, &error) : RINGTREE_IN_PROGRESS;
        if (status == RINGTREE_OK) i++;
        else sched_yield();
        CHECK(status <= RINGTREE_IN_PROGRESS);
        if (status > RINGTREE_IN_PROGRESS) break;
    }
    return NULL;
}

static void *receiver(void *argument)
{
    struct half *half = argument;
    struct rt_error error = { 0 };
    unsigned char into[4096];
    for (uint64_t i = 0; i < half->slices;) {
        const struct rt_frame expect = frame_of(i, size_of(i));
        struct rt_frame frame;
        const void *data;
        ringtree_status status = rt_transport_shm.recv(half->link, &expect, i % 2 ? into : NULL, 4096, &frame, &data,
                                                       &error);
        if (status == RINGTREE_IN_PROGRESS) sched_yield();
        if (status == RINGTREE_IN_PROGRESS) continue;
        const bool good = status == RINGTREE_OK && data && frame.bytes == expect.bytes &&
                          pair_filled(data, i, frame.bytes);
        CHECK_THAT(good, "slice %" PRIu64, i);
        if (!good) break;
        rt_transport_shm.release(half->link);
        i++;
    }
    return NULL;
}

TEST(threads_as_ranks_exchange_slices_in_both_directions)
{
    struct standin *world = standin_new(2);
    struct rt_error error = { 0 };
    struct half half[4];
    pthread_t thread[4];
    world->settings.number[RT_SHM_SLOT_BYTES] = 4096;
    standin_open(world);
    for (uint32_t i = 0; i < 4; i++) {
        half[i] = (struct half){ link_new(world, i / 2, 1 - i / 2, 0, i % 2 == 0), 20000 };
        CHECK_EQ(rt_transport_shm.open(half[i].link, &error), RINGTREE_OK);
        pthread_create(&thread[i], NULL, i % 2 ? receiver : sender, &half[i]);
    }
    for (uint32_t i = 0; i < 4; i++) {
        pthread_join(thread[i], NULL);
        free(half[i].link);
    }
    standin_close(world);
}

TEST_MAIN
