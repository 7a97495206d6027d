/* Every way in which ranks fail to meet, or lose each other, ends in one sentence on every rank that is left. */
#include "ranks.h"
#include "bootstrap/meeting.h"
#include <netinet/in.h>
#include <sys/socket.h>

/* Those that fork come first: sanitizers do not follow processes forked beside a thread, and a failed meeting
 * lingers. */

/* ------------------------------------------------------------------ lost */

struct news {
    _Atomic uint64_t ready, killed_ms, heard_ms[RANKS_MOST];
};

static void wait_for_news(struct rank_case *c)
{
    struct news *news = c->shared;
    uint64_t late = now_ms() + 20000;

    atomic_fetch_add(&news->ready, 1);
    while (!rt_control_failed(c->control) && now_ms() < late)
        sleep_ms(1);
    atomic_store(&news->heard_ms[c->rank], now_ms());
    CHECK_EQ(rt_control_failure(c->control, &c->error), RINGTREE_PEER_LOST);
    rt_control_close(c->control, 1000);
}

/* Kills `victim` of `n` processes: every other must name it. */
static void kill_one(uint32_t victim, uint32_t n)
{
    struct rank_case model = { .run = wait_for_news, .shared = shared_memory(sizeof(struct news)) };
    struct news *news = model.shared;
    pid_t pids[RANKS_MOST];
    uint64_t worst = 0, killed;

    rank_processes(&model, n, 20000, pids);
    for (int i = 0; i < 10000 && atomic_load(&news->ready) < n; i++)
        sleep_ms(1);
    killed = now_ms();
    CHECK_EQ(atomic_load(&news->ready), n);
    kill(pids[victim], SIGKILL);
    rank_reap(pids, n, victim);
    for (uint32_t r = 0; r < n; r++)
        if (r != victim && atomic_load(&news->heard_ms[r]) - killed > worst)
            worst = atomic_load(&news->heard_ms[r]) - killed;
    printf("         rank %u of %u killed: known to all within %" PRIu64 " ms\n", victim, n, worst);
    CHECK(worst < 2000);
    munmap(model.shared, sizeof(struct news));
}

TEST(a_killed_rank_is_lost_to_all_within_two_seconds)
{
    kill_one(1, 2);
    kill_one(15, 16); /* a leaf */
    kill_one(8, 16);  /* the root's greatest child, with seven behind it */
    kill_one(0, 16);  /* the root */
    kill_one(64, 128);
}

static void name_the_dead(struct rank_case *c)
{
    uint64_t late = now_ms() + 10000;

    if (c->rank == 2)
        _exit(0); /* ends without a word, as a crash does */
    while (!rt_control_failed(c->control) && now_ms() < late)
        sleep_ms(1);
    rt_control_failure(c->control, &c->error);
    CHECK_HAS(c->error.text, "rank 2 (host ");
    CHECK_HAS(c->error.text, "is gone");
    CHECK_HAS(c->error.text, "killed, or ended without ringtree_destroy()");
    rt_control_close(c->control, 1000);
}

TEST(the_sentence_names_the_lost_rank_with_host_and_pid)
{
    struct rank_case model = { .run = name_the_dead };
    pid_t pids[8];

    rank_processes(&model, 8, 20000, pids);
    rank_reap(pids, 8, RT_NONE);
}

static void fail_on_three(struct rank_case *c)
{
    uint64_t late = now_ms() + 10000;
    uint32_t mine = 0, all[16];

    if (c->rank == 3)
        rt_control_fail(c->control, RINGTREE_ABORTED, "rank 3 has had enough");
    else if (c->rank % 2) /* in the middle of an exchange that cannot finish */
        CHECK_EQ(rt_control_all_gather(c->control, &mine, sizeof(mine), all, &c->error), RINGTREE_ABORTED);
    while (!rt_control_failed(c->control) && now_ms() < late)
        sleep_ms(1);
    CHECK_EQ(rt_control_failure(c->control, &c->error), RINGTREE_ABORTED);
    CHECK_HAS(c->error.text, "rank 3 has had enough");
    rt_control_fail(c->control, RINGTREE_INTERNAL, "later ones are ignored");
    CHECK_EQ(rt_control_failure(c->control, NULL), RINGTREE_ABORTED);
    CHECK_EQ(rt_control_all_gather(c->control, &mine, sizeof(mine), all, &c->error), RINGTREE_ABORTED);
    rt_control_close(c->control, 10000);
}

TEST(an_abort_floods_and_ends_every_wait)
{
    struct rank_case model = { .run = fail_on_three }, cases[16];

    rank_meet(&model, 20000);
    uint64_t begun = now_ms();
    rank_threads(&model, 16, cases);
    CHECK_THAT(now_ms() - begun < 3000, "took %" PRIu64 " ms", now_ms() - begun);
}

static void never_call(struct rank_case *c)
{
    uint32_t mine = 0, all[4];

    if (c->rank == 3)
        sleep_ms(1500);
    else
        CHECK_EQ(rt_control_all_gather(c->control, &mine, sizeof(mine), all, &c->error), RINGTREE_TIMEOUT);
    CHECK_EQ(rt_control_failure(c->control, &c->error), RINGTREE_TIMEOUT);
    CHECK_HAS(c->error.text, "waiting for rank 3");
    rt_control_close(c->control, 0);
}

TEST(a_rank_that_does_not_come_to_an_exchange_is_named)
{
    struct rank_case model = { .run = never_call }, cases[4];

    rank_meet(&model, 500);
    rank_threads(&model, 4, cases);
}

/* ------------------------------------------------------------------ never met */

static void expect_all(struct rank_case *cases, uint32_t n, ringtree_status status, const char *part)
{
    for (uint32_t r = 0; r < n; r++) {
        CHECK_THAT(cases[r].status == status, "rank %u: %s %s", r, ringtree_status_name(cases[r].status),
                   cases[r].error.text);
        CHECK_HAS(cases[r].error.text, part);
        CHECK_EQ(cases[r].control == NULL, 1);
    }
}

static void open_threads(struct rank_case *cases, uint32_t n)
{
    pthread_t threads[RANKS_MOST];

    for (uint32_t i = 0; i < n; i++)
        if (pthread_create(&threads[i], NULL, rank_thread, &cases[i]))
            abort();
    for (uint32_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

TEST(missing_ranks_are_named_to_those_that_came)
{
    struct rank_case model = { .nranks = 8 }, cases[6];
    static const uint32_t ranks[6] = { 0, 1, 2, 4, 5, 6 };

    rank_meet(&model, 400);
    for (int i = 0; i < 6; i++) {
        cases[i] = model;
        cases[i].rank = ranks[i];
    }
    uint64_t begun = now_ms();
    open_threads(cases, 6);
    CHECK_THAT(now_ms() - begun < 1500, "took %" PRIu64 " ms", now_ms() - begun);
    expect_all(cases, 6, RINGTREE_TIMEOUT, "ranks 3, 7 of 8 did not come within");
    expect_all(cases, 6, RINGTREE_TIMEOUT, "RINGTREE_TIMEOUT_MS");
}

TEST(a_missing_root_is_named_with_its_address)
{
    struct rank_case c = { .rank = 1, .nranks = 2, .timeout_ms = 300 };
    struct rt_address nobody = { .family = AF_INET, .port = 9, .bytes = { 127, 0, 0, 1 } };

    rank_settings(&c.settings, 300);
    c.meeting.secret[0] = 1;
    c.meeting.address[0] = nobody;
    uint64_t begun = now_ms();
    rank_open(&c);
    CHECK_THAT(now_ms() - begun >= 290 && now_ms() - begun < 1000, "took %" PRIu64 " ms", now_ms() - begun);
    expect_all(&c, 1, RINGTREE_TIMEOUT, "127.0.0.1:9");
    CHECK_HAS(c.error.text, "300 ms");
    CHECK_HAS(c.error.text, "refused");
}

TEST(another_version_is_refused_at_once_and_both_are_named)
{
    struct rank_case c = { .nranks = 2 };
    struct rt_join join = { .rank = 1, .nranks = 2, .timeout_ms = 5000, .version = "9.8.7" };
    struct rt_seat seat;

    rank_meet(&c, 5000);
    CHECK_EQ(rt_place_find(&join.place, &c.settings, &c.error), RINGTREE_OK);
    CHECK_EQ(rt_join(&c.meeting, &join, &rt_system_clock, &seat, &c.error), RINGTREE_REFUSED);
    CHECK_HAS(c.error.text, "rank 1");
    CHECK_HAS(c.error.text, "9.8.7");
    CHECK_HAS(c.error.text, ringtree_version());
}

TEST(two_ranks_with_one_number_are_both_told_of_the_other)
{
    struct rank_case model = { .nranks = 3 }, cases[3];
    char pid[40];

    rank_meet(&model, 5000);
    for (uint32_t i = 0; i < 3; i++) {
        cases[i] = model;
        cases[i].rank = i == 2 ? 1 : i;
    }
    uint64_t begun = now_ms();
    open_threads(cases, 3);
    CHECK(now_ms() - begun < 1000);
    expect_all(cases, 3, RINGTREE_REFUSED, "rank 1 was given to two processes");
    snprintf(pid, sizeof(pid), "pid %d and host", (int)getpid());
    CHECK_HAS(cases[1].error.text, pid);
}

TEST(world_sizes_that_differ_are_refused_on_all)
{
    struct rank_case model = { .nranks = 3 }, cases[3];

    rank_meet(&model, 5000);
    for (uint32_t i = 0; i < 3; i++) {
        cases[i] = model;
        cases[i].rank = i;
        cases[i].nranks = i == 1 ? 4 : 3;
    }
    open_threads(cases, 3);
    expect_all(cases, 3, RINGTREE_REFUSED, "disagree on how many they are");
    CHECK_HAS(cases[0].error.text, "one of 4");
    CHECK_HAS(cases[0].error.text, "one of 3");
}

TEST(a_wrong_secret_is_refused_at_once)
{
    struct rank_case c = { .rank = 1, .nranks = 2 };

    rank_meet(&c, 1000);
    c.meeting.secret[15] ^= 1;
    uint64_t begun = now_ms();
    rank_open(&c);
    CHECK(now_ms() - begun < 500);
    expect_all(&c, 1, RINGTREE_REFUSED, "did not accept this rank's secret");
}

TEST(a_meeting_that_waits_in_vain_says_whom_it_turned_away)
{
    struct rank_case model = { .nranks = 2 }, cases[2];

    rank_meet(&model, 600);
    for (uint32_t i = 0; i < 2; i++) {
        cases[i] = model;
        cases[i].rank = i;
    }
    cases[1].meeting.secret[15] ^= 1;
    open_threads(cases, 2);
    expect_all(&cases[0], 1, RINGTREE_TIMEOUT, "rank 1 of 2 did not come within");
    CHECK_HAS(cases[0].error.text, "turned away, as with another secret; look at the output of that rank");
    expect_all(&cases[1], 1, RINGTREE_REFUSED, "secret");
}

TEST(a_taken_port_is_named_with_what_to_do)
{
    struct rt_settings settings;
    struct rt_meeting meeting = { 0 };
    struct rt_error error = { 0 };
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof(at);
    char where[40];
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    rank_settings(&settings, 1000);
    CHECK_EQ(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    CHECK_EQ(listen(fd, 1), 0);
    getsockname(fd, (struct sockaddr *)&at, &length);
    snprintf(where, sizeof(where), "127.0.0.1:%u", ntohs(at.sin_port));
    CHECK_EQ(rt_meeting_serve(&meeting, where, &settings, &error), RINGTREE_UNREACHABLE);
    CHECK_HAS(error.text, where);
    CHECK_HAS(error.text, "in use");
    CHECK_HAS(error.text, "RINGTREE_ROOT");
    close(fd);
}

/* ------------------------------------------------------------------ the watchdog */

static struct rt_frame call(uint64_t sequence, uint64_t count)
{
    return (struct rt_frame){ .sequence = sequence, .count = count, .op = RINGTREE_SUM, .root = RT_NONE,
                              .collective = RINGTREE_ALL_REDUCE, .type = RINGTREE_FLOAT32 };
}

static void differ_at_last(struct rank_case *c)
{
    const uint64_t before = (uint64_t)(uintptr_t)c->shared;
    struct rt_frame frame;
    uint64_t begun;

    for (uint64_t i = 0; i < before; i++) {
        frame = call(i, 100);
        rt_control_record(c->control, &frame);
        rt_control_record_done(c->control, i);
    }
    sleep_ms(300);
    frame = call(before, c->rank == 5 ? 101 : 100);
    if (c->rank == 5)
        frame.collective = RINGTREE_BROADCAST, frame.root = 2;
    begun = now_ms();
    rt_control_record(c->control, &frame);
    while (!rt_control_failed(c->control) && now_ms() < begun + 5000)
        sleep_ms(1);
    CHECK_THAT(now_ms() - begun < 1000, "rank %u: %" PRIu64 " ms", c->rank, now_ms() - begun);
    CHECK_EQ(rt_control_failure(c->control, &c->error), RINGTREE_MISMATCH);
    CHECK_HAS(c->error.text, "rank 5 (host ");
    CHECK_HAS(c->error.text, "called broadcast #");
    CHECK_HAS(c->error.text, "(count 101, float32, root 2)");
    CHECK_HAS(c->error.text, "(count 100, float32, sum)");
    rt_control_close(c->control, 0);
}

TEST(different_calls_are_found_within_a_second)
{
    static const uintptr_t before[] = { 0, 5, 3000 };
    struct rank_case cases[8];

    for (int i = 0; i < 3; i++) {
        struct rank_case model = { .run = differ_at_last, .shared = (void *)before[i] };
        rank_meet(&model, 20000);
        rank_threads(&model, 8, cases);
    }
}

static void differ_late(struct rank_case *c)
{
    struct rt_frame frame = call(1, 100);

    sleep_ms(2500); /* nothing was called for long */
    if (c->rank == 1)
        frame.collective = RT_CALL_DESTROY;
    uint64_t begun = now_ms();
    rt_control_record(c->control, &frame);
    while (!rt_control_failed(c->control) && now_ms() < begun + 5000)
        sleep_ms(1);
    CHECK(now_ms() - begun < 1000);
    CHECK_EQ(rt_control_failure(c->control, &c->error), RINGTREE_MISMATCH);
    CHECK_HAS(c->error.text, "called destroy #1");
    rt_control_close(c->control, 0);
}

TEST(a_rank_that_leaves_after_a_long_rest_is_seen)
{
    struct rank_case model = { .run = differ_late }, cases[2];

    rank_meet(&model, 20000);
    rank_threads(&model, 2, cases);
}

static void agree(struct rank_case *c)
{
    for (uint64_t i = 0; i < 20000; i++) {
        struct rt_frame frame = call(i, i % 7);
        rt_control_record(c->control, &frame);
        rt_control_record_done(c->control, i);
        if (i % 2000 == 0)
            sleep_ms(c->rank * 10); /* out of step, as ranks are */
    }
    sleep_ms(600);
    CHECK_THAT(!rt_control_failed(c->control), "rank %u: %d", c->rank, rt_control_failure(c->control, &c->error));
    CHECK_HAS(c->error.text, "");
    rt_control_close(c->control, 10000);
}

TEST(equal_calls_out_of_step_are_no_mismatch)
{
    struct rank_case model = { .run = agree }, cases[8];

    rank_meet(&model, 20000);
    rank_threads(&model, 8, cases);
}

static void ask_each_other(struct rank_case *c)
{
    char text[400];
    struct rt_frame frame = call(6, 10);

    rt_control_record(c->control, &frame);
    if (c->rank == 1)
        rt_control_record_done(c->control, 6);
    sleep_ms(500);
    CHECK_EQ(rt_control_ask(c->control, 1 - c->rank, 1000, text, sizeof(text)), c->rank == 1);
    CHECK_HAS(text, c->rank == 0 ? "it last finished all_reduce #6 (count 10, float32, sum)" : "is in all_reduce #6");
    if (c->rank == 0)
        CHECK_HAS(text, "has not called #7");
    rt_control_close(c->control, 5000);
}

TEST(a_rank_can_be_asked_what_it_last_did)
{
    struct rank_case model = { .run = ask_each_other }, cases[2];

    rank_meet(&model, 20000);
    rank_threads(&model, 2, cases);
}

TEST_MAIN
