/* Data connections, the shared descriptor, strangers, and what is left behind. */
#include "ranks.h"
#include "bootstrap/auth.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* ------------------------------------------------------------------ data connections */

static int dial(struct rank_case *c, uint32_t peer, uint32_t lane, uint32_t stripe)
{
    struct rt_claim claim = { RT_CONNECT_DATA, c->rank, lane, stripe, 2, 77 };
    struct rt_dial *d = rt_dial_start(c->control, peer, &claim, rt_now_ns(&rt_system_clock) + 5000000000ull);
    ringtree_status status;
    int fd = -1;

    while ((status = rt_dial_go(d, &fd, &c->error)) == RINGTREE_IN_PROGRESS) {
        struct pollfd p = { .events = 0 };
        p.fd = rt_dial_pollfd(d, &p.events);
        poll(&p, 1, 20);
    }
    CHECK_THAT(status == RINGTREE_OK, "%s", c->error.text);
    rt_dial_end(d);
    return fd;
}

static int take(struct rank_case *c, uint32_t peer, uint32_t lane, uint32_t stripe)
{
    struct rt_claim claim = { RT_CONNECT_DATA, peer, lane, stripe, 2, 0 };
    int fd = -1;

    for (int i = 0; i < 5000 && (fd = rt_control_take(c->control, &claim)) < 0; i++) {
        struct pollfd p = { rt_control_wake_fd(c->control), POLLIN, 0 };
        poll(&p, 1, 1);
        rt_control_wake_clear(c->control);
    }
    return fd;
}

static void connect_in_a_ring(struct rank_case *c)
{
    const uint32_t next = (c->rank + 1) % c->nranks, prev = (c->rank + c->nranks - 1) % c->nranks;
    struct rt_claim other = { RT_CONNECT_DATA, prev, 5, 0, 2, 0 };

    for (uint32_t stripe = 0; stripe < 2; stripe++) {
        uint32_t word = c->rank * 10 + stripe, got = 0;
        int out = dial(c, next, 1, stripe), in = take(c, prev, 1, stripe);
        CHECK(in >= 0 && out >= 0);
        CHECK_EQ(send(out, &word, sizeof(word), MSG_NOSIGNAL), sizeof(word));
        CHECK(fcntl(in, F_GETFL) & O_NONBLOCK);
        CHECK(fcntl(in, F_GETFD) & FD_CLOEXEC);
        for (int i = 0; i < 2000 && recv(in, &got, sizeof(got), 0) != sizeof(got); i++)
            sleep_ms(1);
        CHECK_EQ(got, prev * 10 + stripe);
        close(in);
        close(out);
    }
    CHECK_EQ(rt_control_take(c->control, &other), -1);
    CHECK_EQ(rt_control_rejected(c->control), 0);
    rt_control_close(c->control, 5000);
}

TEST(data_connections_reach_the_right_rank_and_stripe)
{
    struct rank_case model = { .run = connect_in_a_ring }, cases[5];

    rank_meet(&model, 20000);
    rank_threads(&model, 5, cases);
    CHECK_EQ(cases[0].status, RINGTREE_OK);
}

static void share_fd(struct rank_case *c)
{
    char word[6] = "";
    int fd = -1;

    if (c->rank == 0) {
        int pipes[2];
        CHECK_EQ(pipe(pipes), 0);
        sleep_ms(50); /* some ask before it is offered */
        rt_control_offer_fd(c->control, pipes[0]);
        CHECK_EQ(write(pipes[1], "helloworldagain", 15), 15);
        close(pipes[0]);
        close(pipes[1]);
    } else {
        ringtree_status status = rt_control_fetch_fd(c->control, 0, 3000, &fd, &c->error);
        CHECK_THAT(status == RINGTREE_OK, "%s", c->error.text);
        CHECK_EQ(read(fd, word, 5), 5);
        close(fd);
    }
    rt_control_close(c->control, 5000);
}

TEST(a_descriptor_is_handed_to_the_ranks_of_this_machine)
{
    struct rank_case model = { .run = share_fd };
    pid_t pids[4];

    rank_processes(&model, 4, 20000, pids);
    rank_reap(pids, 4, RT_NONE);
}

static void fetch_nothing(struct rank_case *c)
{
    int fd = -1;

    if (c->rank == 1) {
        CHECK_EQ(rt_control_fetch_fd(c->control, 0, 200, &fd, &c->error), RINGTREE_TIMEOUT);
        CHECK_HAS(c->error.text, "200 ms");
    }
    rt_control_close(c->control, 5000);
}

TEST(a_descriptor_that_is_never_offered_is_waited_for_with_a_limit)
{
    struct rank_case model = { .run = fetch_nothing }, cases[2];

    rank_meet(&model, 20000);
    rank_threads(&model, 2, cases);
}

/* ------------------------------------------------------------------ strangers */

static int knock(uint16_t port)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CHECK_EQ(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    return fd;
}

/* Sends `count` bytes; what comes back beyond the challenge goes into *verdict: 0 ended, 1 refused by word, 2
 * accepted. */
static void pester(uint16_t port, const uint8_t *bytes, size_t count)
{
    uint8_t challenge[RT_CHALLENGE_BYTES], verdict[RT_VERDICT_BYTES];
    int fd = knock(port);
    bool accepted = false;

    CHECK_EQ(recv(fd, challenge, sizeof(challenge), MSG_WAITALL), (long)sizeof(challenge));
    if (send(fd, bytes, count, MSG_NOSIGNAL) == (ssize_t)count && count >= RT_PROOF_BYTES)
        if (recv(fd, verdict, sizeof(verdict), MSG_WAITALL) == (ssize_t)sizeof(verdict))
            CHECK(rt_verdict_parse(verdict, &accepted) && !accepted);
    close(fd);
}

/* A whole honest handshake as bytes: what an eavesdropper would have. Then the same bytes once more. */
static void replay(struct rank_case *c, uint16_t port)
{
    struct rt_handshake h;
    struct rt_claim claim = { RT_CONNECT_DATA, 1, 3, 0, 1, 0 };
    uint8_t key[RT_AUTH_KEY];
    int fd = knock(port);
    ringtree_status status;
    uint64_t before = rt_control_rejected(c->control);

    rt_auth_key(key, rt_control_secret(c->control), rt_control_number(c->control));
    rt_handshake_ask(&h, key, rt_control_number(c->control), &claim);
    while ((status = rt_handshake_go(&h, fd)) == RINGTREE_IN_PROGRESS)
        sleep_ms(1);
    CHECK_EQ(status, RINGTREE_OK); /* the checker can tell: the honest one is accepted */
    close(fd);
    CHECK_EQ(rt_control_rejected(c->control), before);
    pester(port, h.proof, sizeof(h.proof));
    for (int i = 0; i < 1000 && rt_control_rejected(c->control) == before; i++)
        sleep_ms(1);
    CHECK_EQ(rt_control_rejected(c->control), before + 1);
}

static void work_among_strangers(struct rank_case *c)
{
    const uint16_t port = rt_control_places(c->control)[0].address[0].port;
    uint8_t garbage[4096];
    uint32_t all[4];
    int idle[300], half[20];

    if (c->rank == 0) {
        replay(c, port);
        for (int i = 0; i < 300; i++)
            idle[i] = knock(port); /* more than the table holds, and never a word */
        for (int i = 0; i < 20; i++) {
            half[i] = knock(port);
            CHECK(send(half[i], "RTH1\1\0\1\0", 8, MSG_NOSIGNAL) >= 0); /* the beginning of a proof */
        }
        for (size_t i = 0; i < sizeof(garbage); i++)
            garbage[i] = (uint8_t)(i * 31);
        pester(port, garbage, sizeof(garbage));
        memset(garbage, 0xff, sizeof(garbage)); /* every length is huge */
        pester(port, garbage, sizeof(garbage));
        pester(port, garbage, 3);
    }
    for (uint32_t i = 0; i < 100; i++) {
        CHECK_EQ(rt_control_all_gather(c->control, &i, sizeof(i), all, &c->error), RINGTREE_OK);
        CHECK_EQ(all[3], i);
    }
    if (c->rank == 0) {
        CHECK_THAT(rt_control_rejected(c->control) >= 4, "%" PRIu64, rt_control_rejected(c->control));
        for (int i = 0; i < 300; i++)
            close(idle[i]);
        for (int i = 0; i < 20; i++)
            close(half[i]);
        for (int i = 0; i < 5000 && rt_control_rejected(c->control) < 324; i++)
            sleep_ms(1);
        CHECK_EQ(rt_control_rejected(c->control), 324);
    }
    int fd = c->rank == 1 ? dial(c, 0, 2, 0) : c->rank == 0 ? take(c, 1, 2, 0) : -2;
    CHECK(fd != -1);
    if (fd >= 0)
        close(fd);
    CHECK_EQ(rt_control_failed(c->control), false);
    rt_control_close(c->control, 8000);
}

TEST(strangers_cost_a_counter_and_the_communicator_goes_on)
{
    struct rank_case model = { .run = work_among_strangers }, cases[4];

    rank_meet(&model, 20000);
    rank_threads(&model, 4, cases);
    for (int r = 0; r < 4; r++)
        CHECK_EQ(cases[r].status, RINGTREE_OK);
}

static void stay_silent(struct rank_case *c)
{
    if (c->rank == 0) {
        int fd = knock(rt_control_places(c->control)[0].address[0].port);
        char byte[64];
        uint64_t begun = now_ms();
        while (recv(fd, byte, sizeof(byte), 0) > 0)
            ;
        CHECK_THAT(now_ms() - begun >= 4500 && now_ms() - begun < 7000, "%" PRIu64 " ms", now_ms() - begun);
        CHECK_EQ(rt_control_rejected(c->control), 1);
        close(fd);
    }
    rt_control_close(c->control, 10000);
}

TEST(a_silent_stranger_is_dropped_after_five_seconds)
{
    struct rank_case model = { .run = stay_silent }, cases[2];

    rank_meet(&model, 20000);
    rank_threads(&model, 2, cases);
}

/* ------------------------------------------------------------------ no descriptor is left */

static ringtree_status shake(int fd, const struct rt_meeting *meeting)
{
    const struct rt_claim claim = { .kind = RT_CONNECT_MEET, .rank = 1 };
    struct rt_handshake h;
    uint8_t key[RT_AUTH_KEY];
    ringtree_status status;

    rt_auth_key(key, meeting->secret, meeting->number);
    rt_handshake_ask(&h, key, meeting->number, &claim);
    for (int i = 0; (status = rt_handshake_go(&h, fd)) == RINGTREE_IN_PROGRESS && i < 3000; i++)
        sleep_ms(1);
    return status;
}

TEST(a_listener_without_descriptors_says_so_at_once_and_recovers)
{
    struct rank_case model = { .nranks = 2 };
    int filler[64], nfillers = 0, early, asking[3];
    struct rlimit before, few;

    rank_meet(&model, 20000);
    early = knock(model.meeting.address[0].port);
    CHECK_EQ(shake(early, &model.meeting), RINGTREE_OK); /* the checker can tell: with descriptors all is well */
    for (int i = 0; i < 3; i++)
        asking[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){ (rlim_t)asking[2] + 1, before.rlim_max };
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    while (nfillers < 64 && (filler[nfillers] = dup(asking[0])) >= 0)
        nfillers++;
    for (int i = 0; i < 3; i++) {
        const struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(model.meeting.address[0].port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        CHECK_EQ(connect(asking[i], (const struct sockaddr *)&at, sizeof(at)), 0);
        CHECK_EQ(shake(asking[i], &model.meeting), RINGTREE_NO_MEMORY);
    }
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    while (nfillers)
        close(filler[--nfillers]);
    int late = knock(model.meeting.address[0].port);
    CHECK_EQ(shake(late, &model.meeting), RINGTREE_OK);
    for (int i = 0; i < 3; i++)
        close(asking[i]);
    close(early);
    close(late);
}

/* ------------------------------------------------------------------ nothing is left */

static void just_leave(struct rank_case *c)
{
    rt_control_close(c->control, c->shared ? 0 : 5000);
}

static void cycle(bool failing, bool hasty)
{
    struct rank_case model = { .run = just_leave, .shared = hasty ? &model : NULL }, cases[3];

    rank_meet(&model, 5000);
    if (failing) { /* two ranks, both number 1 of 2 */
        pthread_t threads[2];
        for (int i = 0; i < 2; i++) {
            cases[i] = model;
            cases[i].rank = 1;
            cases[i].nranks = 2;
            pthread_create(&threads[i], NULL, rank_thread, &cases[i]);
        }
        for (int i = 0; i < 2; i++) {
            pthread_join(threads[i], NULL);
            CHECK_EQ(cases[i].status, RINGTREE_REFUSED);
        }
        return;
    }
    rank_threads(&model, 3, cases);
    for (int i = 0; i < 3; i++)
        CHECK_THAT(cases[i].status == RINGTREE_OK, "%s", cases[i].error.text);
}

static bool settles(const char *path, int at_most)
{
    for (int i = 0; i < 3000 && count_entries(path) > at_most; i++)
        sleep_ms(1);
    return count_entries(path) <= at_most;
}

TEST(a_thousand_cycles_leave_no_descriptor_and_no_thread)
{
    cycle(false, false);
    sleep_ms(50);
    int fds = count_entries("/proc/self/fd"), threads = count_entries("/proc/self/task");

    for (int i = 0; i < 1000; i++)
        cycle(i % 10 == 3, i % 10 == 5);
    CHECK_THAT(settles("/proc/self/fd", fds), "%d descriptors, then %d", fds, count_entries("/proc/self/fd"));
    CHECK_THAT(settles("/proc/self/task", threads), "%d threads, then %d", threads, count_entries("/proc/self/task"));
}

TEST_MAIN
