/* Ranks that die, stop or do not call: all the others are told who it was, in time. */
#include "ranks.h"
#include "test.h"

#include <signal.h>
#include <unistd.h>

#define MANY (1 << 20)

/* Rank 2 kills itself in the midst of a stream of operations. */
static void survive(struct rank *self)
{
    float          *x = calloc(MANY, sizeof(*x));
    ringtree_status status = RINGTREE_OK;
    for (int i = 0; status == RINGTREE_OK && i < 100000; i++) {
        if (self->rank == 2 && i == 20) {
            atomic_store(&self->shared->note[0], ranks_now_ms());
            kill(getpid(), SIGKILL);
        }
        status = ringtree_all_reduce(self->comm, x, x, i % 2 ? MANY : 10, RINGTREE_FLOAT32, RINGTREE_SUM, NULL);
    }
    const uint64_t took_ms = ranks_now_ms() - atomic_load(&self->shared->note[0]);
    CHECK_EQ(status, RINGTREE_PEER_LOST);
    CHECK_THAT(took_ms < 2000, "rank %u learnt it after %llu ms", self->rank, (unsigned long long)took_ms);
    CHECK_HAS(ringtree_last_error(self->comm), "rank 2");
    CHECK_EQ(ringtree_barrier(self->comm, NULL), RINGTREE_PEER_LOST);
    free(x);
}

TEST(a_killed_rank_is_named_by_all_others_within_two_seconds)
{
    RANKS(survive, .ranks = 4, .processes = 4, .may_die = { [2] = true }, .wait_s = 30);
    RANKS(survive, .ranks = 4, .processes = 4, .transports = "tcp", .may_die = { [2] = true }, .wait_s = 30);
    RANKS(survive, .ranks = 4, .processes = 4, .hosts = "aabb", .transports = "shm,tcp", .may_die = { [2] = true },
          .wait_s = 30);
}

/* A rank that is killed while nobody talks to it is known at the next call. */
static void survive_idle(struct rank *self)
{
    CHECK_EQ(ringtree_barrier(self->comm, NULL), RINGTREE_OK);
    ranks_meet(self);
    if (self->rank == 0) kill(getpid(), SIGKILL); /* the one that hosted the meeting, too */
    ranks_sleep_ms(500);
    const uint64_t began_ms = ranks_now_ms();
    CHECK_EQ(ringtree_barrier(self->comm, NULL), RINGTREE_PEER_LOST);
    CHECK_THAT(ranks_now_ms() - began_ms < 1000, "took %llu ms", (unsigned long long)(ranks_now_ms() - began_ms));
    CHECK_HAS(ringtree_last_error(self->comm), "rank 0");
}

TEST(a_root_killed_in_a_pause_is_named_at_the_next_call)
{
    RANKS(survive_idle, .ranks = 5, .processes = 5, .may_die = { [0] = true }, .wait_s = 30);
}

/* A rank that does not call: the others' timeout names it and what it did last. */
static void wait_for_absent(struct rank *self)
{
    float x = 1;
    CHECK_EQ(ringtree_all_reduce(self->comm, &x, &x, 1, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_OK);
    if (self->rank == 1) {
        ranks_sleep_ms(2200);
        return;
    }
    const uint64_t  began_ms = ranks_now_ms();
    ringtree_status status = ringtree_all_reduce(self->comm, &x, &x, 1, RINGTREE_FLOAT32, RINGTREE_SUM, NULL);
    const uint64_t  took_ms = ranks_now_ms() - began_ms;
    CHECK_EQ(status, RINGTREE_TIMEOUT);
    CHECK_THAT(took_ms >= 800 && took_ms < 2200, "took %llu ms", (unsigned long long)took_ms);
    CHECK_HAS(ringtree_last_error(self->comm), "rank 1");
    CHECK_HAS(ringtree_last_error(self->comm), "all_reduce");
    CHECK_HAS(ringtree_last_error(self->comm), "RINGTREE_TIMEOUT_MS");
}

TEST(a_timeout_names_the_rank_that_is_missing)
{
    RANKS(wait_for_absent, .ranks = 3, .processes = 3, .timeout_ms = 1000);
    RANKS(wait_for_absent, .ranks = 3, .processes = 3, .transports = "tcp", .timeout_ms = 1000);
}

/* Rank 1 is a call ahead and waits for rank 0, which waits for rank 2: named is who is missing, not who is between. */
static void wait_in_a_chain(struct rank *self)
{
    float x = 1, all[3];
    CHECK_EQ(ringtree_barrier(self->comm, NULL), RINGTREE_OK);
    if (self->rank == 2) {
        ranks_sleep_ms(3000);
        return;
    }
    if (self->rank == 0) ranks_sleep_ms(400); /* so rank 1's time is over first */
    ringtree_status status = ringtree_gather(self->comm, &x, all, 1, RINGTREE_FLOAT32, 0, NULL);
    if (self->rank == 1) {
        CHECK_EQ(status, RINGTREE_OK);
        status = ringtree_broadcast(self->comm, &x, &x, 1, RINGTREE_FLOAT32, 0, NULL);
    }
    CHECK_EQ(status, RINGTREE_TIMEOUT);
    CHECK_HAS(ringtree_last_error(self->comm), "no answer from rank 2");
}

TEST(a_timeout_names_the_rank_that_is_missing_and_not_one_that_waits_for_it_in_an_earlier_call)
{
    RANKS(wait_in_a_chain, .ranks = 3, .processes = 3, .timeout_ms = 1000);
    RANKS(wait_in_a_chain, .ranks = 3, .processes = 3, .transports = "tcp", .timeout_ms = 1000);
}

/* A stopped process answers nothing, but its sockets stay open. */
static void wait_for_stopped(struct rank *self)
{
    float x = 1;
    CHECK_EQ(ringtree_barrier(self->comm, NULL), RINGTREE_OK);
    atomic_store(&self->shared->note[self->rank], (unsigned)getpid());
    ranks_meet(self);
    if (self->rank == 1) {
        raise(SIGSTOP); /* until rank 0 has had its answer and kills it */
        return;
    }
    const uint64_t began_ms = ranks_now_ms();
    CHECK_EQ(ringtree_all_reduce(self->comm, &x, &x, 1, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_TIMEOUT);
    CHECK_THAT(ranks_now_ms() - began_ms < 3500, "took %llu ms", (unsigned long long)(ranks_now_ms() - began_ms));
    CHECK_HAS(ringtree_last_error(self->comm), "rank 1");
    if (self->rank == 0) {
        ranks_sleep_ms(500);
        kill((pid_t)atomic_load(&self->shared->note[1]), SIGKILL);
    }
}

TEST(a_stopped_rank_is_named_when_the_time_is_up)
{
    RANKS(wait_for_stopped, .ranks = 3, .processes = 3, .timeout_ms = 1000, .may_die = { [1] = true }, .wait_s = 30);
}

TEST_MAIN
