/*
 * The calls whose instructions instructions_test.py counts under callgrind. Counts must not depend on time, so one
 * thread is both ranks: rank 0 starts a call by a request and goes as far as it can, then rank 1 makes the same call,
 * which finds all that it waits for. No instruction is spent waiting, and each function named counted_... is one entry
 * point, whose calls are counted with all that they call.
 *
 * Usage: instructions ITERATIONS. The first calls, which open links and make plans, are not counted. Prints, as JSON,
 * which reduction was chosen and the compiler, since the counts depend on them.
 */
#include "reduce/reduce.h"

#include <pthread.h>
#include <ringtree/ringtree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <valgrind/callgrind.h>

#define COUNTED __attribute__((noinline, used)) static
#define LARGE 16384 /* floats: 64 KiB */
#define WARM_UP 20
#define TCP_ARRIVES_NS 2000000 /* for what was sent on the loopback, pacing included */

struct world {
    ringtree_comm *comm[2];
    float          in[2][LARGE], out[2][LARGE];
};

static void check(const struct world *world, int rank, ringtree_status status)
{
    if (!status) return;
    fprintf(stderr, "rank %d: %s\n", rank, ringtree_last_error(world->comm[rank]));
    exit(1);
}

/* ---- entry points */

COUNTED ringtree_status counted_all_reduce_4_shm(struct world *w)
{
    return ringtree_all_reduce(w->comm[1], w->in[1], w->out[1], 1, RINGTREE_FLOAT32, RINGTREE_SUM, NULL);
}

COUNTED ringtree_status counted_all_reduce_1024_shm(struct world *w)
{
    return ringtree_all_reduce(w->comm[1], w->in[1], w->out[1], 256, RINGTREE_FLOAT32, RINGTREE_SUM, NULL);
}

COUNTED ringtree_status counted_all_reduce_4_tcp(struct world *w)
{
    return ringtree_all_reduce(w->comm[1], w->in[1], w->out[1], 1, RINGTREE_FLOAT32, RINGTREE_SUM, NULL);
}

/* By a request, from start to end: the rank that comes first. */
COUNTED ringtree_status counted_all_reduce_4_shm_start(struct world *w, ringtree_request **request)
{
    return ringtree_all_reduce(w->comm[0], w->in[0], w->out[0], 1, RINGTREE_FLOAT32, RINGTREE_SUM, request);
}

COUNTED ringtree_status counted_all_reduce_4_shm_wait(ringtree_request **request)
{
    return ringtree_wait(request);
}

/* Both ranks, in turns until both have finished. */
COUNTED void counted_all_reduce_65536_shm_both(struct world *w)
{
    ringtree_request *requests[2];
    for (int r = 0; r < 2; r++)
        check(w, r, ringtree_all_reduce(w->comm[r], w->in[r], w->out[r], LARGE, RINGTREE_FLOAT32, RINGTREE_SUM,
                                        &requests[r]));
    for (int r = 0; requests[0] || requests[1]; r = !r) {
        const ringtree_status status = ringtree_test(&requests[r]);
        if (status != RINGTREE_IN_PROGRESS) check(w, r, status);
    }
}

COUNTED ringtree_status counted_barrier_shm(struct world *w)
{
    return ringtree_barrier(w->comm[1], NULL);
}

COUNTED ringtree_status counted_broadcast_4_shm_leaf(struct world *w)
{
    return ringtree_broadcast(w->comm[1], NULL, w->out[1], 1, RINGTREE_FLOAT32, 0, NULL);
}

COUNTED ringtree_status counted_send_4_shm(struct world *w)
{
    return ringtree_send(w->comm[0], w->in[0], 1, RINGTREE_FLOAT32, 1, NULL);
}

COUNTED ringtree_status counted_recv_4_shm(struct world *w)
{
    return ringtree_recv(w->comm[1], w->out[1], 1, RINGTREE_FLOAT32, 0, NULL);
}

/* ---- what surrounds them */

static void all_reduce_by(struct world *w, size_t count, ringtree_status (*counted)(struct world *), bool tcp)
{
    const struct timespec arrives = { 0, TCP_ARRIVES_NS };
    ringtree_request     *request;
    check(w, 0, ringtree_all_reduce(w->comm[0], w->in[0], w->out[0], count, RINGTREE_FLOAT32, RINGTREE_SUM, &request));
    if (tcp) nanosleep(&arrives, NULL);
    check(w, 1, counted(w));
    if (tcp) nanosleep(&arrives, NULL);
    check(w, 0, ringtree_wait(&request));
    if (w->out[0][0] == 3 && w->out[1][count - 1] == 3) return;
    fputs("1 + 2 is not 3\n", stderr);
    exit(1);
}

static void all_reduce_4(struct world *w)
{
    all_reduce_by(w, 1, counted_all_reduce_4_shm, false);
}

static void all_reduce_1024(struct world *w)
{
    all_reduce_by(w, 256, counted_all_reduce_1024_shm, false);
}

static void all_reduce_4_tcp(struct world *w)
{
    all_reduce_by(w, 1, counted_all_reduce_4_tcp, true);
}

static void all_reduce_4_request(struct world *w)
{
    ringtree_request *request;
    check(w, 0, counted_all_reduce_4_shm_start(w, &request));
    check(w, 1, ringtree_all_reduce(w->comm[1], w->in[1], w->out[1], 1, RINGTREE_FLOAT32, RINGTREE_SUM, NULL));
    check(w, 0, counted_all_reduce_4_shm_wait(&request));
}

static void barrier(struct world *w)
{
    ringtree_request *request;
    check(w, 0, ringtree_barrier(w->comm[0], &request));
    check(w, 1, counted_barrier_shm(w));
    check(w, 0, ringtree_wait(&request));
}

static void broadcast(struct world *w)
{
    ringtree_request *request;
    check(w, 0, ringtree_broadcast(w->comm[0], w->in[0], w->out[0], 1, RINGTREE_FLOAT32, 0, &request));
    check(w, 1, counted_broadcast_4_shm_leaf(w));
    check(w, 0, ringtree_wait(&request));
}

static void message(struct world *w)
{
    check(w, 0, counted_send_4_shm(w));
    check(w, 1, counted_recv_4_shm(w));
}

/* ---- the two ranks */

struct joining {
    ringtree_id     id;
    struct world   *world;
    int             rank;
    ringtree_status status;
};

static void *join_world(void *context)
{
    struct joining *joining = context;
    joining->status = ringtree_init_id(&joining->world->comm[joining->rank], &joining->id, 2, (uint32_t)joining->rank,
                                       NULL);
    if (joining->status) fprintf(stderr, "rank %d: %s\n", joining->rank, ringtree_last_error(NULL));
    return NULL;
}

/* Opens all links and makes all plans, which takes both ranks at once. */
static void *warm_up(void *context)
{
    struct joining *joining = context;
    struct world   *w = joining->world;
    const int       r = joining->rank;
    for (int i = 0; i < WARM_UP; i++) {
        for (size_t count = 1; count <= LARGE; count *= count < 256 ? 256 : LARGE / 256)
            check(w, r, ringtree_all_reduce(w->comm[r], w->in[r], w->out[r], count, RINGTREE_FLOAT32, RINGTREE_SUM,
                                            NULL));
        check(w, r, ringtree_barrier(w->comm[r], NULL));
        check(w, r, ringtree_broadcast(w->comm[r], w->in[r], w->out[r], 1, RINGTREE_FLOAT32, 0, NULL));
        check(w, r, r ? ringtree_recv(w->comm[1], w->out[1], 1, RINGTREE_FLOAT32, 0, NULL)
                      : ringtree_send(w->comm[0], w->in[0], 1, RINGTREE_FLOAT32, 1, NULL));
    }
    return NULL;
}

static void *leave_world(void *context)
{
    struct joining *joining = context;
    joining->status = ringtree_destroy(joining->world->comm[joining->rank]);
    return NULL;
}

static void both(struct world *world, const ringtree_id *id, void *(*body)(void *))
{
    struct joining joinings[2];
    pthread_t      thread;
    for (int r = 0; r < 2; r++) {
        joinings[r] = (struct joining){ .world = world, .rank = r };
        if (id) joinings[r].id = *id;
    }
    if (pthread_create(&thread, NULL, body, &joinings[1])) exit(1);
    body(&joinings[0]);
    pthread_join(thread, NULL);
    if (joinings[0].status || joinings[1].status) exit(1);
}

static void open_world(struct world *world, const char *transport)
{
    ringtree_id id;
    for (int r = 0; r < 2; r++)
        for (size_t i = 0; i < LARGE; i++)
            world->in[r][i] = (float)(r + 1);
    setenv("RINGTREE_TRANSPORTS", transport, 1);
    setenv("RINGTREE_CALIBRATE", "off", 1);      /* a link measured while others work may choose another algorithm */
    setenv("RINGTREE_TIMEOUT_MS", "20000", 1);   /* a call that waits for the other rank all the same ends here */
    if (ringtree_id_create(&id)) exit(1);
    both(world, &id, join_world);
    both(world, NULL, warm_up);
}

static void run_all(struct world *shm, struct world *tcp, unsigned iterations)
{
    static void (*const calls[])(struct world *) = { all_reduce_4, all_reduce_1024, all_reduce_4_request, barrier,
                                                     broadcast, message, counted_all_reduce_65536_shm_both };
    for (size_t c = 0; c < sizeof(calls) / sizeof(*calls); c++)
        for (unsigned i = 0; i < iterations; i++)
            calls[c](shm);
    for (unsigned i = 0; i < iterations; i++)
        all_reduce_4_tcp(tcp);
}

int main(int argc, char **argv)
{
    static struct world shm, tcp;
    const unsigned iterations = argc == 2 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
    if (!iterations) return fputs("usage: instructions ITERATIONS\n", stderr), 2;
    open_world(&shm, "shm");
    open_world(&tcp, "tcp");
    run_all(&shm, &tcp, WARM_UP);
    CALLGRIND_ZERO_STATS;
    run_all(&shm, &tcp, iterations);
    printf("{\"reduction\": \"%s\", \"compiler\": \"%s\"}\n", rt_reduce_path(), __VERSION__);
    both(&shm, NULL, leave_world);
    both(&tcp, NULL, leave_world);
    return 0;
}
