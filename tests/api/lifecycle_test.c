/* Start and end many times, in many shapes: nothing is left behind; split; abort. */
#include "entries.h"
#include "ranks.h"
#include "test.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static long resident_pages(void)
{
    long  all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%ld %ld", &all, &resident) != 2) resident = 0;
    if (file) fclose(file);
    return resident;
}

/* ---- many times: two ranks as threads, and one rank alone */

struct cycle {
    ringtree_id id;
    atomic_int  failed;
};

static void *join_and_add(void *argument)
{
    struct cycle    *cycle = argument;
    ringtree_comm   *comm = NULL;
    ringtree_options options = RINGTREE_OPTIONS_DEFAULT;
    int32_t          one = 1, sum = 0;
    options.timeout_ms = 20000;
    if (ringtree_init_id(&comm, &cycle->id, 2, 1, &options) != RINGTREE_OK ||
        ringtree_all_reduce(comm, &one, &sum, 1, RINGTREE_INT32, RINGTREE_SUM, NULL) != RINGTREE_OK || sum != 2)
        atomic_fetch_add(&cycle->failed, 1);
    ringtree_destroy(comm);
    return NULL;
}

static void one_cycle(struct cycle *cycle)
{
    pthread_t        thread;
    ringtree_comm   *comm = NULL;
    ringtree_options options = RINGTREE_OPTIONS_DEFAULT;
    int32_t          one = 1, sum = 0;
    options.timeout_ms = 20000;
    if (ringtree_id_create(&cycle->id) != RINGTREE_OK) {
        atomic_fetch_add(&cycle->failed, 1);
        return;
    }
    if (pthread_create(&thread, NULL, join_and_add, cycle) != 0) abort();
    if (ringtree_init_id(&comm, &cycle->id, 2, 0, &options) != RINGTREE_OK ||
        ringtree_all_reduce(comm, &one, &sum, 1, RINGTREE_INT32, RINGTREE_SUM, NULL) != RINGTREE_OK || sum != 2)
        atomic_fetch_add(&cycle->failed, 1);
    ringtree_destroy(comm);
    pthread_join(thread, NULL);
}

static void cycles(struct rank *self)
{
    const uint32_t times = *(uint32_t *)self->argument;
    struct cycle   cycle = { .failed = 0 };
    for (uint32_t i = 0; i < 20; i++) one_cycle(&cycle);
    ranks_sleep_ms(200); /* a meeting's thread ends by itself a moment after its communicator is complete */
    const int descriptors = count_entries("/proc/self/fd"), threads = count_entries("/proc/self/task");
    const long     pages = resident_pages();
    for (uint32_t i = 0; i < times; i++) one_cycle(&cycle);
    ranks_sleep_ms(200);
    CHECK_EQ(atomic_load(&cycle.failed), 0);
    CHECK_EQ(count_entries("/proc/self/fd"), descriptors);
    CHECK_EQ(count_entries("/proc/self/task"), threads);
    CHECK_THAT(SANITIZED || resident_pages() < pages + 512, "memory grew from %ld to %ld pages", pages,
               resident_pages());
}

TEST(a_thousand_starts_and_ends_keep_descriptors_threads_and_memory_flat)
{
    uint32_t times = SANITIZED ? 50 : 1000;
    RANKS(cycles, .ranks = 1, .bare = true, .argument = &times, .wait_s = 110);
}

TEST(a_hundred_starts_and_ends_over_tcp_keep_them_flat_too)
{
    uint32_t times = SANITIZED ? 20 : 100;
    RANKS(cycles, .ranks = 1, .bare = true, .argument = &times, .transports = "tcp", .wait_s = 110);
}

/* ---- leaving */

static void leave_with_requests(struct rank *self)
{
    static _Thread_local float in[1 << 16], out[1 << 16];
    ringtree_request          *request = NULL;
    CHECK_EQ(ringtree_all_reduce(self->comm, in, out, 1 << 16, RINGTREE_FLOAT32, RINGTREE_SUM, &request), RINGTREE_OK);
    /* not waited for: ringtree_destroy() cancels it */
}

TEST(requests_that_nobody_waited_for_are_cancelled_at_the_end)
{
    RANKS(leave_with_requests, .ranks = 3, .processes = 3, .wait_s = 20, .timeout_ms = 4000);
}

static void leave_late(struct rank *self)
{
    static _Thread_local float in[1000], out[1000];
    if (self->rank == 2) ranks_sleep_ms(300);
    CHECK_EQ(ringtree_broadcast(self->comm, in, out, 1000, RINGTREE_FLOAT32, 0, NULL), RINGTREE_OK);
}

TEST(a_rank_that_leaves_early_does_not_cut_short_the_others)
{
    RANKS(leave_late, .ranks = 3, .processes = 3);
    RANKS(leave_late, .ranks = 3, .processes = 3, .transports = "tcp");
}

/* ---- split */

static void split(struct rank *self)
{
    ringtree_comm *half = NULL, *reversed = NULL, *none = NULL;
    int32_t        mine = (int32_t)self->rank, sum = 0, all[8];
    CHECK_EQ(ringtree_split(self->comm, self->rank % 2, 0, &half), RINGTREE_OK);
    CHECK_EQ(ringtree_size(half), self->size / 2);
    CHECK_EQ(ringtree_rank(half), self->rank / 2);
    CHECK_EQ(ringtree_all_reduce(half, &mine, &sum, 1, RINGTREE_INT32, RINGTREE_SUM, NULL), RINGTREE_OK);
    CHECK_EQ(sum, self->rank % 2 ? 1 + 3 + 5 : 0 + 2 + 4);
    CHECK_EQ(ringtree_split(self->comm, 7, self->size - self->rank, &reversed), RINGTREE_OK);
    CHECK_EQ(ringtree_rank(reversed), self->size - 1 - self->rank);
    CHECK_EQ(ringtree_all_gather(reversed, &mine, all, 1, RINGTREE_INT32, NULL), RINGTREE_OK);
    for (int32_t i = 0; i < 6; i++) CHECK_EQ(all[i], 5 - i);
    CHECK_EQ(ringtree_split(self->comm, self->rank == 4 ? RINGTREE_NO_COLOR : 0, 0, &none), RINGTREE_OK);
    CHECK((none == NULL) == (self->rank == 4));
    CHECK_EQ(ringtree_size(none), self->rank == 4 ? 0 : 5);
    ringtree_destroy(none);
    ringtree_destroy(half);
    /* The parent still works, and the child outlives it. */
    CHECK_EQ(ringtree_barrier(self->comm, NULL), RINGTREE_OK);
    ringtree_destroy(self->comm);
    self->comm = NULL;
    CHECK_EQ(ringtree_barrier(reversed, NULL), RINGTREE_OK);
    ringtree_destroy(reversed);
}

TEST(a_communicator_splits_by_color_and_key_and_its_parts_are_independent)
{
    RANKS(split, .ranks = 6);
    RANKS(split, .ranks = 6, .processes = 3, .hosts = "aab", .transports = "shm,tcp");
}

/* ---- abort */

static void *abort_soon(void *argument)
{
    ranks_sleep_ms(150);
    ringtree_abort(argument, "enough of this");
    return NULL;
}

static void aborted(struct rank *self)
{
    float     x = 1;
    pthread_t thread;
    if (self->rank == 1 && pthread_create(&thread, NULL, abort_soon, self->comm) != 0) abort();
    const uint64_t began_ms = ranks_now_ms();
    /* rank 2 does not come, so all others wait */
    ringtree_status status = RINGTREE_OK;
    if (self->rank == 2) ranks_sleep_ms(400);
    if (self->rank != 2) status = ringtree_all_reduce(self->comm, &x, &x, 1, RINGTREE_FLOAT32, RINGTREE_SUM, NULL);
    else                 status = ringtree_barrier(self->comm, NULL);
    CHECK_EQ(status, RINGTREE_ABORTED);
    CHECK_THAT(ranks_now_ms() - began_ms < 2000, "took too long");
    CHECK_HAS(ringtree_last_error(self->comm), "enough of this");
    CHECK_HAS(ringtree_last_error(self->comm), "rank 1");
    CHECK_EQ(ringtree_barrier(self->comm, NULL), RINGTREE_ABORTED);
    if (self->rank == 1) pthread_join(thread, NULL);
}

TEST(abort_from_another_thread_ends_every_wait_on_every_rank_with_its_reason)
{
    RANKS(aborted, .ranks = 4);
    RANKS(aborted, .ranks = 4, .processes = 4);
    RANKS(aborted, .ranks = 4, .processes = 4, .transports = "tcp");
}

/* ---- who is where */

static void look_around(struct rank *self)
{
    CHECK_EQ(ringtree_rank(self->comm), self->rank);
    CHECK_EQ(ringtree_size(self->comm), 5);
    CHECK_EQ(ringtree_local_size(self->comm), self->rank < 2 ? 2 : 3);
    CHECK_EQ(ringtree_local_rank(self->comm), self->rank < 2 ? self->rank : self->rank - 2);
    CHECK(strcmp(ringtree_last_error(self->comm), "") == 0);
}

TEST(local_ranks_are_those_that_share_memory)
{
    RANKS(look_around, .ranks = 5, .processes = 5, .hosts = "aabbb", .transports = "shm,tcp");
}

/* ---- at rest */

static double cpu_s(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

static void rest(struct rank *self)
{
    int32_t one = 1, sum = 0;
    CHECK_EQ(ringtree_all_reduce(self->comm, &one, &sum, 1, RINGTREE_INT32, RINGTREE_SUM, NULL), RINGTREE_OK);
    ranks_meet(self);
    const double before = cpu_s();
    ranks_sleep_ms(1000);
    const double used = cpu_s() - before;
    CHECK_THAT(used < 0.05, "rank %u: %.3f s of a core in a second", self->rank, used);
    ranks_meet(self); /* nobody leaves before all have looked */
}

TEST(a_rank_that_calls_nothing_uses_no_core)
{
    static const char *const thread[] = { "RINGTREE_PROGRESS_THREAD=1", NULL };
    RANKS(rest, .ranks = 2, .processes = 2);
    RANKS(rest, .ranks = 3, .processes = 3, .transports = "tcp", .settings = thread);
}

TEST_MAIN
