/* Every bug that random sequences of calls and hard use found brings its test. */
#include "ranks.h"
#include "test.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define MANY (1 << 20)

static const char *const without_direct[] = { "RINGTREE_DIRECT=0", NULL };

static float *filled(size_t count, float value)
{
    float *x = malloc(count * sizeof(*x));
    for (size_t i = 0; i < count; i++) x[i] = value;
    return x;
}

static size_t others_than(const float *x, size_t count, float value)
{
    size_t others = 0;
    for (size_t i = 0; i < count; i++) others += x[i] != value;
    return others;
}

static void expect_ok(const struct rank *self, ringtree_status status, const char *what)
{
    CHECK_THAT(status == RINGTREE_OK, "rank %u: %s: %s", self->rank, what, ringtree_last_error(self->comm));
}

/* ---- scratch */

/* The root moves on, so a rank's part of the tree, and with it the scratch that the next request needs, grows. */
static void gather_to_all_roots(struct rank *self)
{
    enum { COUNT = 27 };
    static _Thread_local unsigned char out[RANKS_MOST][RANKS_MOST * COUNT];
    unsigned char                      in[COUNT];
    ringtree_request                  *requests[RANKS_MOST] = { NULL };
    memset(in, (int)self->rank + 1, sizeof(in));
    for (uint32_t i = 0; i < self->size; i++)
        expect_ok(self,
                  ringtree_gather(self->comm, in, out[i], COUNT, RINGTREE_UINT8, self->size - 1 - i, &requests[i]),
                  "gather");
    expect_ok(self, ringtree_wait_all(requests, self->size), "wait_all");
    const unsigned char *mine = out[self->size - 1 - self->rank];
    size_t               wrong = 0;
    for (size_t i = 0; i < self->size * COUNT; i++) wrong += mine[i] != i / COUNT + 1;
    CHECK_THAT(wrong == 0, "root %u: %zu elements are wrong", self->rank, wrong);
}

/* Small and large reductions in turn go by different algorithms. */
static void reduce_in_turn(struct rank *self)
{
    enum { TIMES = 8 };
    ringtree_request *requests[TIMES] = { NULL };
    float            *x[TIMES];
    for (uint32_t k = 0; k < TIMES; k++) {
        const size_t count = (size_t)1 << (2 * k + 2);
        x[k] = filled(count, (float)(k + 1));
        expect_ok(self,
                  ringtree_all_reduce(self->comm, x[k], x[k], count, RINGTREE_FLOAT32, RINGTREE_SUM, &requests[k]),
                  "all_reduce");
    }
    expect_ok(self, ringtree_wait_all(requests, TIMES), "wait_all");
    for (uint32_t k = 0; k < TIMES; k++) {
        CHECK_EQ(others_than(x[k], (size_t)1 << (2 * k + 2), (float)((k + 1) * self->size)), 0);
        free(x[k]);
    }
}

TEST(requests_in_flight_keep_their_scratch_when_a_later_one_needs_more)
{
    RANKS(gather_to_all_roots, .ranks = 8, .transports = "tcp");
    RANKS(gather_to_all_roots, .ranks = 8, .processes = 4, .settings = without_direct);
    RANKS(reduce_in_turn, .ranks = 7, .processes = 7, .settings = without_direct);
    RANKS(reduce_in_turn, .ranks = 7, .transports = "tcp");
}

/* ---- memory that cannot be mapped */

static void limit_address_space(size_t more_bytes)
{
    long  pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld", &pages) == 1);
    if (file) fclose(file);
    const rlim_t        most = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + more_bytes;
    const struct rlimit limit = { most, most };
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

static void add_what_one_cannot_map(struct rank *self)
{
    float *x;
    CHECK_EQ(ringtree_mem_alloc(self->comm, MANY * sizeof(*x), (void **)&x), RINGTREE_OK);
    for (size_t i = 0; i < MANY; i++) x[i] = 1;
    ranks_meet(self);
    if (self->rank == 1) limit_address_space(1 << 20);
    const ringtree_status status = ringtree_all_reduce(self->comm, x, x, MANY, RINGTREE_FLOAT32, RINGTREE_SUM, NULL);
    CHECK_THAT(status != RINGTREE_OK, "rank %u: OK, with %zu elements wrong", self->rank,
               others_than(x, MANY, (float)self->size));
    CHECK_HAS(ringtree_last_error(self->comm), "rank 1");
    ranks_meet(self);
}

TEST(a_rank_that_cannot_map_its_peers_memory_fails_and_so_do_all_others)
{
    if (SANITIZED) SKIP("a sanitizer reserves more address space than the limit leaves");
    RANKS(add_what_one_cannot_map, .ranks = 2, .processes = 2, .timeout_ms = 5000);
    RANKS(add_what_one_cannot_map, .ranks = 3, .processes = 3, .timeout_ms = 5000);
}

/* ---- abort */

struct aborter {
    ringtree_comm *comm;
    uint32_t       after_ms;
};

static void *abort_later(void *argument)
{
    const struct aborter *aborter = argument;
    ranks_sleep_ms(aborter->after_ms);
    CHECK_EQ(ringtree_abort(aborter->comm, "the test says so"), RINGTREE_OK);
    return NULL;
}

/* Large memory goes back to the system when it is freed: a peer that still reads or writes there is killed. */
static void add_until_aborted(struct rank *self)
{
    struct aborter  aborter = { self->comm, *(const uint32_t *)self->argument };
    pthread_t       thread;
    ringtree_status status = RINGTREE_OK;
    float          *x = filled(8 * MANY, 0);
    ranks_meet(self);
    if (self->rank == 0) CHECK_EQ(pthread_create(&thread, NULL, abort_later, &aborter), 0);
    while (status == RINGTREE_OK)
        status = ringtree_all_reduce(self->comm, x, x, 8 * MANY, RINGTREE_FLOAT32, RINGTREE_SUM, NULL);
    free(x);
    CHECK_EQ(status, RINGTREE_ABORTED);
    if (self->rank == 0) pthread_join(thread, NULL);
}

TEST(memory_may_be_freed_as_soon_as_an_aborted_call_returns)
{
    for (uint32_t after_ms = 20; after_ms < 200; after_ms += 37)
        RANKS(add_until_aborted, .ranks = 4, .argument = &after_ms);
}

/* ---- arguments */

static void ask_for_no_op(struct rank *self)
{
    const ringtree_op op = UINT32_MAX;
    float             x[RANKS_MOST] = { 0 }, y[RANKS_MOST] = { 0 };
    CHECK_EQ(ringtree_all_reduce(self->comm, x, y, 1, RINGTREE_FLOAT32, op, NULL), RINGTREE_INVALID_ARGUMENT);
    CHECK_EQ(ringtree_reduce(self->comm, x, y, 1, RINGTREE_FLOAT32, op, 0, NULL), RINGTREE_INVALID_ARGUMENT);
    CHECK_EQ(ringtree_reduce_scatter(self->comm, x, y, 1, RINGTREE_FLOAT32, op, NULL), RINGTREE_INVALID_ARGUMENT);
    expect_ok(self, ringtree_barrier(self->comm, NULL), "barrier afterwards");
}

TEST(the_largest_number_is_no_operation)
{
    RANKS(ask_for_no_op, .ranks = 2);
}

/* Blocks in the order in, out, in, out ... of one array. */
static void exchange_interleaved(struct rank *self)
{
    enum { COUNT = 5 };
    const uint32_t n = self->size;
    int32_t        x[2 * RANKS_MOST * COUNT] = { 0 };
    size_t         counts[RANKS_MOST] = { 0 }, from[RANKS_MOST] = { 0 }, to[RANKS_MOST] = { 0 };
    for (uint32_t r = 0; r < n; r++) {
        counts[r] = COUNT;
        from[r] = 2 * r * COUNT;
        to[r] = from[r] + COUNT;
        for (uint32_t i = 0; i < COUNT; i++) x[from[r] + i] = (int32_t)(100 * self->rank + r), x[to[r] + i] = -1;
    }
    expect_ok(self, ringtree_all_to_all_v(self->comm, x, counts, from, x, counts, to, RINGTREE_INT32, NULL),
              "all_to_all_v");
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t i = 0; i < COUNT; i++) {
            CHECK_EQ(x[from[r] + i], 100 * self->rank + r);
            CHECK_EQ(x[to[r] + i], 100 * r + self->rank);
        }
    to[n - 1]--; /* into the last block of the input */
    CHECK_EQ(ringtree_all_to_all_v(self->comm, x, counts, from, x, counts, to, RINGTREE_INT32, NULL),
             RINGTREE_INVALID_ARGUMENT);
}

TEST(all_to_all_v_takes_blocks_that_lie_between_each_other_but_none_that_overlap)
{
    RANKS(exchange_interleaved, .ranks = 3);
    RANKS(exchange_interleaved, .ranks = 3, .processes = 3, .transports = "tcp");
}

/* ---- waiting */

static void wait_spinning(struct rank *self)
{
    float x = 1;
    if (self->rank == 0) {
        const uint64_t began_ms = ranks_now_ms();
        CHECK_EQ(ringtree_all_reduce(self->comm, &x, &x, 1, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_TIMEOUT);
        const uint64_t took_ms = ranks_now_ms() - began_ms;
        CHECK_THAT(took_ms >= 1800 && took_ms < 4000, "took %llu ms", (unsigned long long)took_ms);
    }
    ranks_meet(self);
}

TEST(a_rank_that_spins_without_end_still_times_out)
{
    const char *const spins[] = { "RINGTREE_SPIN_POLLS=4294967295", NULL };
    RANKS(wait_spinning, .ranks = 2, .processes = 2, .timeout_ms = 2000, .settings = spins);
    RANKS(wait_spinning, .ranks = 2, .processes = 2, .timeout_ms = 2000, .settings = spins, .transports = "tcp");
}

static void compute_longer_than_the_timeout(struct rank *self)
{
    ringtree_request *request = NULL;
    float            *x = filled(MANY, 1);
    expect_ok(self, ringtree_all_reduce(self->comm, x, x, MANY, RINGTREE_FLOAT32, RINGTREE_SUM, &request),
              "all_reduce");
    const ringtree_status first = ringtree_test(&request);
    CHECK_THAT(first == RINGTREE_OK || first == RINGTREE_IN_PROGRESS, "%s", ringtree_last_error(self->comm));
    ranks_sleep_ms(1500 + 100 * self->rank);
    expect_ok(self, ringtree_wait(&request), "wait");
    CHECK_EQ(others_than(x, MANY, (float)self->size), 0);
    free(x);
}

TEST(computing_between_test_and_wait_is_not_waiting)
{
    RANKS(compute_longer_than_the_timeout, .ranks = 2, .processes = 2, .timeout_ms = 1000);
    RANKS(compute_longer_than_the_timeout, .ranks = 2, .processes = 2, .timeout_ms = 1000, .settings = without_direct);
    RANKS(compute_longer_than_the_timeout, .ranks = 2, .processes = 2, .timeout_ms = 1000, .transports = "tcp");
}

/* ---- split */

/* Rank 0 has both an all_reduce and a message in flight when it splits; the others are still in them, blocking. */
static void split_with_requests(struct rank *self)
{
    ringtree_request *sum = NULL, *message = NULL;
    ringtree_comm    *part = NULL;
    float            *x = filled(4 * MANY, 1), *y = filled(4 * MANY, (float)self->rank + 7);
    const bool        first = self->rank == 0;
    ringtree_request **request = first ? &sum : NULL;
    expect_ok(self, ringtree_all_reduce(self->comm, x, x, 4 * MANY, RINGTREE_FLOAT32, RINGTREE_SUM, request),
              "all_reduce");
    if (first) expect_ok(self, ringtree_send(self->comm, y, 4 * MANY, RINGTREE_FLOAT32, 1, &message), "send");
    if (self->rank == 1) expect_ok(self, ringtree_recv(self->comm, y, 4 * MANY, RINGTREE_FLOAT32, 0, NULL), "recv");
    expect_ok(self, ringtree_split(self->comm, 0, 0, &part), "split");
    expect_ok(self, ringtree_wait(&sum), "wait for all_reduce");
    expect_ok(self, ringtree_wait(&message), "wait for send");
    CHECK_EQ(others_than(x, 4 * MANY, (float)self->size), 0);
    if (self->rank == 1) CHECK_EQ(others_than(y, 4 * MANY, 7), 0);
    CHECK_EQ(ringtree_barrier(part, NULL), RINGTREE_OK);
    CHECK_EQ(ringtree_destroy(part), RINGTREE_OK);
    free(x);
    free(y);
}

TEST(a_rank_may_split_with_requests_pending_while_others_block_in_them)
{
    RANKS(split_with_requests, .ranks = 3, .processes = 3, .timeout_ms = 8000);
    RANKS(split_with_requests, .ranks = 3, .processes = 3, .timeout_ms = 8000, .settings = without_direct);
    RANKS(split_with_requests, .ranks = 3, .processes = 3, .timeout_ms = 8000, .transports = "tcp");
    RANKS(split_with_requests, .ranks = 3, .timeout_ms = 8000);
}

/* ---- settings that differ */

struct differing {
    const char     *name, *value[2]; /* of rank 0 and of rank 1 */
    ringtree_status status;
};

static void join_with_own_setting(struct rank *self)
{
    const struct differing *d = self->argument;
    float                   x = 1;
    setenv(d->name, d->value[self->rank], 1);
    setenv("RINGTREE_TIMEOUT_MS", "8000", 1);
    if (self->rank == 0) expect_ok(self, ringtree_id_create(&self->shared->id), "id_create");
    ranks_meet(self);
    const ringtree_status status = ringtree_init_id(&self->comm, &self->shared->id, 2, self->rank, NULL);
    CHECK_THAT(status == d->status, "rank %u: %s: %s", self->rank, ringtree_status_name(status),
               ringtree_last_error(NULL));
    if (status == RINGTREE_OK) {
        expect_ok(self, ringtree_all_reduce(self->comm, &x, &x, 1, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), "all_reduce");
        CHECK(x == 2);
    } else
        CHECK_HAS(ringtree_last_error(NULL), d->name);
    ringtree_destroy(self->comm);
}

TEST(transports_in_another_order_on_another_rank_are_a_mismatch_that_names_the_setting)
{
    struct differing order = { "RINGTREE_TRANSPORTS", { "shm,tcp", "tcp,shm" }, RINGTREE_MISMATCH };
    RANKS(join_with_own_setting, .ranks = 2, .processes = 2, .bare = true, .argument = &order);
}

TEST(the_same_size_written_in_two_ways_is_the_same_setting)
{
    struct differing same = { "RINGTREE_SLICE_BYTES", { "64K", "65536" }, RINGTREE_OK };
    RANKS(join_with_own_setting, .ranks = 2, .processes = 2, .bare = true, .argument = &same);
}

/* ---- destroy */

/* Rank 1 stops with a message to it on its way; rank 0, when it has had its answer, kills it. */
static void leave_a_stopped_rank(struct rank *self)
{
    ringtree_request *request = NULL;
    float            *x = filled(4 * MANY, 1);
    expect_ok(self, ringtree_barrier(self->comm, NULL), "barrier");
    atomic_store(&self->shared->note[self->rank], (unsigned)getpid());
    ranks_meet(self);
    if (self->rank == 1) {
        raise(SIGSTOP);
        return;
    }
    expect_ok(self, ringtree_send(self->comm, x, 4 * MANY, RINGTREE_FLOAT32, 1, &request), "send");
    ranks_sleep_ms(200);
    const uint64_t        began_ms = ranks_now_ms();
    const ringtree_status status = ringtree_destroy(self->comm);
    const uint64_t        took_ms = ranks_now_ms() - began_ms;
    self->comm = NULL;
    CHECK_THAT(status == RINGTREE_TIMEOUT, "%s: %s", ringtree_status_name(status), ringtree_last_error(NULL));
    CHECK_THAT(took_ms < 4500, "took %llu ms of a timeout of 3000", (unsigned long long)took_ms);
    kill((pid_t)atomic_load(&self->shared->note[1]), SIGKILL);
    free(x);
}

TEST(destroy_waits_for_a_stopped_rank_no_longer_than_one_timeout)
{
    RANKS(leave_a_stopped_rank, .ranks = 2, .processes = 2, .timeout_ms = 3000, .may_die = { [1] = true });
    RANKS(leave_a_stopped_rank, .ranks = 2, .processes = 2, .timeout_ms = 3000, .may_die = { [1] = true },
          .transports = "tcp");
}

/* Everybody is in ringtree_destroy(), so nobody will receive it. */
static void leave_a_message(struct rank *self)
{
    ringtree_request *request = NULL;
    float            *x = filled(4 * MANY, 1);
    if (self->rank == 0) expect_ok(self, ringtree_send(self->comm, x, 4 * MANY, RINGTREE_FLOAT32, 1, &request), "send");
    ranks_meet(self);
    const uint64_t began_ms = ranks_now_ms();
    ringtree_destroy(self->comm);
    const uint64_t took_ms = ranks_now_ms() - began_ms;
    self->comm = NULL;
    CHECK_THAT(took_ms < 3000, "rank %u took %llu ms", self->rank, (unsigned long long)took_ms);
    free(x);
}

TEST(destroy_does_not_wait_for_a_message_that_nobody_receives)
{
    RANKS(leave_a_message, .ranks = 2, .processes = 2, .timeout_ms = 6000);
    RANKS(leave_a_message, .ranks = 2, .processes = 2, .timeout_ms = 6000, .transports = "tcp");
}

TEST_MAIN
