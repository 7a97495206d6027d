/* Requests and groups: any pattern of sends and receives, any order of waiting, no deadlock. */
#include "ranks.h"
#include "test.h"
#include <unistd.h>

#define MANY 300000

static float element(uint32_t from, uint32_t to, size_t i)
{
    return (float)(from * 100 + to) + (float)(i % 89) * 1000;
}

static float *filled(uint32_t from, uint32_t to, size_t count)
{
    float *x = malloc(count * sizeof(*x) + 1);
    for (size_t i = 0; i < count; i++) x[i] = element(from, to, i);
    return x;
}

static bool matches(const float *x, uint32_t from, uint32_t to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (x[i] != element(from, to, i)) return false;
    return true;
}

/* Everybody sends to everybody, itself included, all in one group, receives noted last. */
static void everyone_to_everyone(struct rank *self)
{
    const uint32_t n = self->size, me = self->rank;
    float         *in[RANKS_MOST], *out[RANKS_MOST];
    CHECK_EQ(ringtree_group_begin(self->comm), RINGTREE_OK);
    for (uint32_t p = 0; p < n; p++) {
        in[p] = filled(me, p, MANY);
        out[p] = calloc(MANY, sizeof(float));
        CHECK_EQ(ringtree_send(self->comm, in[p], MANY, RINGTREE_FLOAT32, p, NULL), RINGTREE_OK);
    }
    for (uint32_t p = n; p-- > 0;)
        CHECK_EQ(ringtree_recv(self->comm, out[p], MANY, RINGTREE_FLOAT32, p, NULL), RINGTREE_OK);
    CHECK_THAT(ringtree_group_end(self->comm, NULL) == RINGTREE_OK, "%s", ringtree_last_error(self->comm));
    for (uint32_t p = 0; p < n; p++) {
        CHECK_THAT(matches(out[p], p, me, MANY), "from %u to %u", p, me);
        free(in[p]);
        free(out[p]);
    }
}

TEST(a_group_of_sends_and_receives_in_any_pattern_does_not_deadlock)
{
    RANKS(everyone_to_everyone, .ranks = 5);
    RANKS(everyone_to_everyone, .ranks = 4, .processes = 4);
    RANKS(everyone_to_everyone, .ranks = 4, .processes = 4, .transports = "tcp");
    RANKS(everyone_to_everyone, .ranks = 4, .processes = 4, .hosts = "aabb", .transports = "shm,tcp");
}

/* Two ranks send large arrays to each other at once, then receive; several in flight, waited for in reverse. */
static void cross(struct rank *self)
{
    enum { TIMES = 6 };
    const uint32_t    me = self->rank, peer = 1 - me;
    ringtree_request *sends[TIMES], *receives[TIMES];
    float            *in[TIMES], *out[TIMES];
    for (uint32_t k = 0; k < TIMES; k++) {
        size_t count = k % 2 ? MANY : k;
        in[k] = filled(me * 10 + k, peer, count);
        out[k] = calloc(count + 1, sizeof(float));
        sends[k] = receives[k] = NULL;
        CHECK_EQ(ringtree_send(self->comm, in[k], count, RINGTREE_FLOAT32, peer, &sends[k]), RINGTREE_OK);
    }
    for (uint32_t k = 0; k < TIMES; k++)
        CHECK_EQ(ringtree_recv(self->comm, out[k], k % 2 ? MANY : k, RINGTREE_FLOAT32, peer, &receives[k]),
                 RINGTREE_OK);
    for (uint32_t k = TIMES; k-- > 0;) {
        CHECK_EQ(ringtree_wait(&receives[k]), RINGTREE_OK);
        CHECK_EQ(ringtree_wait(&sends[k]), RINGTREE_OK);
        CHECK_THAT(matches(out[k], peer * 10 + k, me, k % 2 ? MANY : k), "message %u", k);
        free(in[k]);
        free(out[k]);
    }
}

TEST(crossing_sends_and_receives_as_requests_may_be_waited_for_in_any_order)
{
    RANKS(cross, .ranks = 2);
    RANKS(cross, .ranks = 2, .processes = 2);
    RANKS(cross, .ranks = 2, .processes = 2, .transports = "tcp");
}

/* Blocking, in a ring, one after another: even ranks send first. */
static void blocking_ring(struct rank *self)
{
    const uint32_t n = self->size, me = self->rank, next = (me + 1) % n, prev = (me + n - 1) % n;
    float         *in = filled(me, next, MANY), *out = calloc(MANY, sizeof(float));
    for (int times = 0; times < 3; times++) {
        for (int half = 0; half < 2; half++) {
            ringtree_status status;
            if ((me + (uint32_t)half) % 2 == 0)
                status = ringtree_send(self->comm, in, MANY, RINGTREE_FLOAT32, next, NULL);
            else
                status = ringtree_recv(self->comm, out, MANY, RINGTREE_FLOAT32, prev, NULL);
            CHECK_EQ(status, RINGTREE_OK);
        }
        CHECK(matches(out, prev, me, MANY));
    }
    free(in);
    free(out);
}

TEST(blocking_sends_meet_blocking_receives)
{
    RANKS(blocking_ring, .ranks = 4);
    RANKS(blocking_ring, .ranks = 4, .processes = 4, .transports = "tcp");
}

/* Many collectives in flight, waited for out of order, polled and in bulk; sends between them. */
static void many_in_flight(struct rank *self)
{
    enum { FLIGHTS = 24 };
    ringtree_request *requests[FLIGHTS] = { NULL };
    int32_t          *x[FLIGHTS];
    for (int k = 0; k < FLIGHTS; k++) {
        const size_t count = (size_t)(k % 3 == 0 ? 1 : k % 3 == 1 ? 1000 : 200000);
        x[k] = malloc(count * sizeof(int32_t));
        for (size_t i = 0; i < count; i++) x[k][i] = (int32_t)self->rank + k;
        CHECK_EQ(ringtree_all_reduce(self->comm, x[k], x[k], count, RINGTREE_INT32, RINGTREE_SUM, &requests[k]),
                 RINGTREE_OK);
    }
    CHECK_EQ(ringtree_wait(&requests[17]), RINGTREE_OK);
    CHECK_EQ(ringtree_wait(&requests[3]), RINGTREE_OK);
    ringtree_status status;
    while ((status = ringtree_test(&requests[20])) == RINGTREE_IN_PROGRESS) { }
    CHECK_EQ(status, RINGTREE_OK);
    CHECK_EQ(ringtree_wait_all(requests, FLIGHTS), RINGTREE_OK);
    const int32_t n = (int32_t)self->size, ranks = n * (n - 1) / 2;
    for (int k = 0; k < FLIGHTS; k++) {
        CHECK(requests[k] == NULL);
        CHECK_EQ(x[k][0], ranks + n * k);
        free(x[k]);
    }
}

TEST(requests_are_waited_for_out_of_order_polled_and_in_bulk)
{
    RANKS(many_in_flight, .ranks = 4);
    RANKS(many_in_flight, .ranks = 4, .processes = 4, .hosts = "aabb", .transports = "shm,tcp");
    RANKS(many_in_flight, .ranks = 3, .processes = 3, .transports = "tcp");
}

/* With a progress thread an operation finishes while its rank only computes. */
static void progress_by_itself(struct rank *self)
{
    enum { LARGE = 1 << 20 };
    float            *x = calloc(LARGE, sizeof(float));
    ringtree_request *request = NULL;
    ringtree_status   status = RINGTREE_IN_PROGRESS;
    CHECK_EQ(ringtree_all_reduce(self->comm, x, x, LARGE, RINGTREE_FLOAT32, RINGTREE_SUM, &request), RINGTREE_OK);
    ranks_sleep_ms(1500);
    status = ringtree_test(&request); /* the very first look */
    CHECK_EQ(status, RINGTREE_OK);
    if (request) ringtree_wait(&request);
    free(x);
}

TEST(a_progress_thread_finishes_requests_by_itself)
{
    const char *const settings[] = { "RINGTREE_PROGRESS_THREAD=1", NULL };
    RANKS(progress_by_itself, .ranks = 3, .processes = 3, .settings = settings);
    RANKS(progress_by_itself, .ranks = 3, .processes = 3, .transports = "tcp", .settings = settings);
}

/* A group of collectives and messages, as one request. */
static void mixed_group(struct rank *self)
{
    const uint32_t    n = self->size, next = (self->rank + 1) % n, prev = (self->rank + n - 1) % n;
    int32_t           one = 1, sum = 0, mine = (int32_t)self->rank, theirs = -1, all[RANKS_MOST];
    ringtree_request *request = NULL;
    CHECK_EQ(ringtree_group_begin(self->comm), RINGTREE_OK);
    CHECK_EQ(ringtree_all_reduce(self->comm, &one, &sum, 1, RINGTREE_INT32, RINGTREE_SUM, NULL), RINGTREE_OK);
    CHECK_EQ(ringtree_recv(self->comm, &theirs, 1, RINGTREE_INT32, prev, NULL), RINGTREE_OK);
    CHECK_EQ(ringtree_all_gather(self->comm, &mine, all, 1, RINGTREE_INT32, NULL), RINGTREE_OK);
    CHECK_EQ(ringtree_send(self->comm, &mine, 1, RINGTREE_INT32, next, NULL), RINGTREE_OK);
    CHECK_EQ(ringtree_group_end(self->comm, &request), RINGTREE_OK);
    CHECK_EQ(ringtree_wait(&request), RINGTREE_OK);
    CHECK_EQ(sum, n);
    CHECK_EQ(theirs, prev);
    for (uint32_t r = 0; r < n; r++) CHECK_EQ(all[r], r);
}

TEST(a_group_may_hold_collectives_and_messages_and_be_waited_for_as_one)
{
    RANKS(mixed_group, .ranks = 4);
    RANKS(mixed_group, .ranks = 4, .processes = 2, .hosts = "ab", .transports = "shm,tcp");
}

/*
 * Some ranks block, which takes the shortest way there is, others make a request, and one comes late: one call all the
 * same, in place and not, for sizes around what one slice holds, again and again as the blocking ones remember it.
 */
#define SLICE_BYTES 4096

static void some_block(struct rank *self)
{
    static const size_t counts[] = { 1, 14, 300, SLICE_BYTES / 4, SLICE_BYTES / 4 + 1, 5000 };
    const uint32_t n = self->size, me = self->rank;
    float in[5000], out[5000];
    for (uint32_t k = 0; k < 60; k++) {
        const size_t count = counts[k / 2 % 6];
        const bool average = k % 5 == 4, in_place = k % 3 == 1;
        const float whole = (float)(n * (n - 1) / 2 + n * k), expected = average ? whole / (float)n : whole;
        ringtree_request *request = NULL;
        float *source = in_place ? out : in;
        for (size_t i = 0; i < count; i++) source[i] = (float)(me + k);
        if (k % 15 == 7 && me == k % n) usleep(20000);
        ringtree_status status = ringtree_all_reduce(self->comm, source, out, count, RINGTREE_FLOAT32,
                                                     average ? RINGTREE_AVG : RINGTREE_SUM,
                                                     (me + k) % 3 == 0 ? &request : NULL);
        if (status == RINGTREE_OK && request) status = ringtree_wait(&request);
        CHECK_THAT(status == RINGTREE_OK, "%s", ringtree_last_error(self->comm));
        for (size_t i = 0; i < count; i++)
            if (out[i] != expected) {
                CHECK_THAT(false, "call %u of %zu elements: element %zu is %g, not %g", k, count, i, (double)out[i],
                           (double)expected);
                return;
            }
        out[0] = me == k % n ? (float)k : -1;
        status = ringtree_broadcast(self->comm, out, out, 1, RINGTREE_FLOAT32, k % n, NULL);
        CHECK_THAT(status == RINGTREE_OK && out[0] == (float)k, "broadcast %u gave %g", k, (double)out[0]);
    }
}

TEST(blocking_calls_and_requests_meet_in_one_call)
{
    const char *slices[] = { "RINGTREE_SLICE_BYTES=4096", NULL };
    for (uint32_t n = 2; n <= 5; n++) {
        RANKS(some_block, .ranks = n, .processes = n, .transports = "tcp", .algorithm = "all_reduce=doubling",
              .settings = slices);
        RANKS(some_block, .ranks = n, .processes = n, .transports = "tcp");
        RANKS(some_block, .ranks = n, .processes = n);
    }
}

TEST_MAIN
