/* Ranks meet, exchange, and leave: threads and processes, 1 to 256 of them. */
#include "ranks.h"

static void gather_and_leave(struct rank_case *c)
{
    uint32_t mine[3] = { c->rank, c->rank * c->rank, 7 }, *all = calloc(c->nranks, sizeof(mine));
    struct rt_error error = { 0 };

    for (int round = 0; round < 3; round++) {
        mine[2] = 7 + (uint32_t)round;
        memset(all, 0, c->nranks * sizeof(mine));
        CHECK_THAT(rt_control_all_gather(c->control, mine, sizeof(mine), all, &error) == RINGTREE_OK, "%s", error.text);
        for (uint32_t r = 0; r < c->nranks; r++)
            CHECK_THAT(all[3 * r] == r && all[3 * r + 1] == r * r && all[3 * r + 2] == 7 + (uint32_t)round,
                       "rank %u of %u sees %u %u %u from rank %u", c->rank, c->nranks, all[3 * r], all[3 * r + 1],
                       all[3 * r + 2], r);
    }
    free(all);
    CHECK_EQ(rt_control_failed(c->control), false);
    rt_control_close(c->control, 10000);
}

TEST(one_rank_needs_no_meeting_and_no_thread)
{
    struct rank_case c = { .rank = 0, .nranks = 1, .timeout_ms = 1000 };
    struct rt_control_options options = { 0, 1, 1000, NULL, &c.settings, &rt_system_clock };
    int threads = count_entries("/proc/self/task");

    rank_settings(&c.settings, 1000);
    CHECK_EQ(rt_control_open(&c.control, &options, &c.error), RINGTREE_OK);
    CHECK_EQ(count_entries("/proc/self/task"), threads);
    gather_and_leave(&c);
}

TEST(threads_meet_and_gather)
{
    static const uint32_t sizes[] = { 2, 3, 5, 8, 17, 64 };
    static struct rank_case cases[RANKS_MOST];

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        struct rank_case model = { .run = gather_and_leave };
        rank_meet(&model, 20000);
        rank_threads(&model, sizes[i], cases);
        for (uint32_t r = 0; r < sizes[i]; r++)
            CHECK_THAT(cases[r].status == RINGTREE_OK, "rank %u of %u: %s", r, sizes[i], cases[r].error.text);
    }
}

static void start_processes(uint32_t n)
{
    struct rank_case model = { .run = gather_and_leave };
    pid_t pids[RANKS_MOST];

    uint64_t begun = now_ms();
    rank_processes(&model, n, 30000, pids);
    rank_reap(pids, n, RT_NONE);
    uint64_t took = now_ms() - begun;
    printf("         %u processes: fork, meet, 4 gathers, leave in %" PRIu64 " ms\n", n, took);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    CHECK_THAT(took < 3000, "%" PRIu64 " ms", took);
#endif
}

TEST(processes_of_all_sizes_meet_within_three_seconds)
{
    start_processes(2);
    start_processes(8);
    start_processes(64);
    start_processes(256);
}

TEST(an_id_carries_the_meeting_and_a_damaged_one_is_refused)
{
    struct rank_case model = { .run = gather_and_leave };
    struct rt_meeting again;
    struct rt_error error;
    ringtree_id id;

    rank_meet(&model, 500);
    rt_meeting_to_id(&model.meeting, &id);
    CHECK_EQ(rt_meeting_from_id(&again, &id, &error), RINGTREE_OK);
    CHECK_EQ(memcmp(&again, &model.meeting, sizeof(again)), 0);
    id.bytes[20] ^= 1;
    CHECK_EQ(rt_meeting_from_id(&again, &id, &error), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(error.text, "ringtree_id_create");
}

TEST_MAIN
