/*
 * The one place that waits, and its policy: poll while there is a core for every rank on the machine, then give the
 * core away, then sleep in poll(2) with doorbells. Oversubscribed ranks poll a little only: each would burn the core
 * that its peer needs.
 */
#include "base/log.h"
#include "engine.h"
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define POLLS_ALONE   4000 /* about 0.3 ms of polls of shared memory */
#define POLLS_CROWDED 20   /* more only delays the peer (2-core machine, 4 and 8 ranks) */
#define YIELDS        100
#define LEAST_A_YIELD 2 /* polls; a peer that the scheduler put on this core gets it, instead of a tick (4 ms) later */
#define MOST_A_YIELD  512
#define LONG_A_YIELD  1024
#define SLEEP_MS      2 /* a doorbell can be missed once in a long while; see shm/node.h */
#define CLOCK_POLLS   4096
#define MOST_GAP_NS   UINT64_C(100000000)
#define MAX_FDS       64

uint32_t rt_wait_polls(const struct rt_engine *engine)
{
    const struct rt_fabric *fabric = &engine->fabric;
    if (fabric->settings->number[RT_SPIN_POLLS]) return (uint32_t)fabric->settings->number[RT_SPIN_POLLS];
    const struct rt_place *places = rt_control_places(fabric->control);
    struct rt_core_count cores = { 0 };
    uint32_t ranks = 0;
    for (uint32_t r = 0; r < fabric->nranks; r++) {
        if (places[r].machine_key != places[fabric->rank].machine_key) continue;
        rt_core_count_add(&cores, &places[r]);
        ranks++;
    }
    return ranks > rt_core_count_total(&cores) ? POLLS_CROWDED : POLLS_ALONE;
}

static void wait_anew(struct rt_engine *engine)
{
    engine->waited_ns = engine->looked_ns = 0;
}

static void sleep_once(struct rt_engine *engine)
{
    struct rt_fabric *fabric = &engine->fabric;
    struct pollfd fds[MAX_FDS];
    uint32_t count = 0;
    fds[count++] = (struct pollfd){ .fd = rt_control_wake_fd(fabric->control), .events = POLLIN };
    if (fabric->node) {
        fds[count++] = (struct pollfd){ .fd = rt_node_bell_fd(fabric->node), .events = POLLIN };
        rt_node_sleep_begin(fabric->node);
    }
    rt_engine_step(engine);
    if (!rt_engine_progress(engine)) {
        count += rt_blocked_fds(engine, fds + count, MAX_FDS - count);
        rt_engine_unlock(engine);
        poll(fds, count, SLEEP_MS);
        rt_engine_lock(engine);
    } else {
        wait_anew(engine);
    }
    if (fabric->node) rt_node_sleep_end(fabric->node);
    rt_control_wake_clear(fabric->control);
}

#define LONG_YIELD_NS UINT64_C(1000000) /* back from one who computes after a tick, from one who polls much sooner */

uint64_t rt_wait_yield(const struct rt_engine *engine)
{
    const uint64_t before = rt_now_ns(engine->fabric.clock);
    sched_yield();
    return rt_now_ns(engine->fabric.clock) - before;
}

static uint64_t yield_once(struct rt_engine *engine)
{
    rt_engine_unlock(engine);
    const uint64_t gone = rt_wait_yield(engine);
    rt_engine_lock(engine);
    return gone;
}

void rt_wait_learn(struct rt_engine *engine, uint64_t gone_ns, bool helped)
{
    uint32_t *polls = &engine->polls_a_yield;
    if (gone_ns > LONG_YIELD_NS) {
        *polls = LONG_A_YIELD;
        return;
    }
    *polls = helped ? *polls / 2 : *polls * 2;
    if (*polls < LEAST_A_YIELD) *polls = LEAST_A_YIELD;
    if (*polls > MOST_A_YIELD) *polls = MOST_A_YIELD;
}

static size_t append_call(char *text, size_t used, size_t capacity, const struct rt_frame *frame)
{
    char call[200];
    const int n = snprintf(text + used, capacity - used, "%s", rt_call_text(frame, call, sizeof call));
    return n > 0 && used + (size_t)n < capacity ? used + (size_t)n : used;
}

#define VICTIM_GRACE_NS UINT64_C(1500000000)
#define MOST_ASKED      3

/* What the first awaited rank says that is in no call; true if all are in one, be it this or an earlier: they wait for
 * someone else, and know better for whom. */
static bool ask(struct rt_control *control, const uint32_t *peers, uint32_t count, char *state, size_t capacity)
{
    for (uint32_t i = 0; i < count && i < MOST_ASKED; i++) {
        const int n = snprintf(state, capacity, "; of rank %u it is known that ", peers[i]);
        if (!rt_control_ask(control, peers[i], 500, state + n, capacity - (size_t)n)) return false;
    }
    return count > 0;
}

/* Who is missing in what, and what they say of themselves. */
static ringtree_status timed_out(struct rt_engine *engine)
{
    const struct rt_fabric *fabric = &engine->fabric;
    const struct rt_place *places = rt_control_places(fabric->control);
    uint32_t peers[8];
    const uint32_t count = rt_blocked_peers(engine, peers, 8);
    char what[300] = "a message", who[500] = "", state[400] = "", links[600];
    if (engine->first) append_call(what, 0, sizeof what, &engine->first->call.frame);
    size_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        const int n = snprintf(who + used, sizeof who - used, "%srank %u (host %s, pid %u)", i ? ", " : "", peers[i],
                               places[peers[i]].host, places[peers[i]].pid);
        if (n > 0 && (size_t)n < sizeof who - used) used += (size_t)n;
    }
    const bool all_victims = ask(fabric->control, peers, count, state, sizeof state);
    if (all_victims && rt_engine_verdict(engine, VICTIM_GRACE_NS)) return engine->error.status;
    struct rt_error error;
    rt_blocked_links(engine, links, sizeof links);
    rt_fail(&error, RINGTREE_TIMEOUT,
            "rank %u: no answer from %s in %s for %u ms%s. Look at that rank, or raise RINGTREE_TIMEOUT_MS%s%s",
            fabric->rank, count ? who : "any rank", what, engine->timeout_ms, state, links[0] ? ". Links:" : "", links);
    return rt_engine_fail(engine, &error);
}

/* Only time spent looking counts: a caller that computes between two looks, or a process that was stopped, has not
 * waited for anybody. */
static bool waited_too_long(struct rt_engine *engine)
{
    const uint64_t now = rt_now_ns(engine->fabric.clock);
    const uint64_t gap = engine->looked_ns ? now - engine->looked_ns : 0;
    engine->waited_ns += gap < MOST_GAP_NS ? gap : MOST_GAP_NS;
    engine->looked_ns = now;
    if (engine->waited_ns <= (uint64_t)engine->timeout_ms * 1000000) return false;
    timed_out(engine);
    return true;
}

static ringtree_status outcome(const struct rt_engine *engine, const ringtree_request *request)
{
    return request->pending ? engine->error.status : request->status;
}

ringtree_status rt_engine_wait(struct rt_engine *engine, ringtree_request *request)
{
    uint64_t idle = 0;
    uint32_t polls = 0; /* since the last yield */
    bool yielded = false;
    uint64_t gone = 0;
    rt_engine_lock(engine);
    engine->callers++;
    wait_anew(engine);
    while (request->pending) {
        const bool moved = rt_engine_progress(engine);
        if (yielded) rt_wait_learn(engine, gone, moved);
        yielded = false;
        if (moved) {
            idle = polls = 0;
            wait_anew(engine);
            continue;
        }
        if (rt_engine_failed(engine)) break;
        const bool spins = ++idle < engine->spin_polls;
        if ((!spins || idle % CLOCK_POLLS == 0) && waited_too_long(engine)) break;
        if (spins && ++polls < engine->polls_a_yield) {
            rt_pause();
        } else if (spins || idle < (uint64_t)engine->spin_polls + YIELDS) {
            gone = yield_once(engine);
            yielded = true;
            polls = 0;
        } else {
            sleep_once(engine);
        }
    }
    wait_anew(engine);
    ringtree_status status = outcome(engine, request);
    engine->callers--;
    if (engine->first || engine->transfers) rt_engine_wake(engine);
    rt_engine_unlock(engine);
    return status;
}

ringtree_status rt_engine_test(struct rt_engine *engine, ringtree_request *request)
{
    ringtree_status status = RINGTREE_IN_PROGRESS;
    rt_engine_lock(engine);
    if (request->pending && rt_engine_progress(engine)) wait_anew(engine);
    if (!request->pending || rt_engine_failed(engine) || waited_too_long(engine)) {
        wait_anew(engine);
        status = outcome(engine, request);
    }
    rt_engine_unlock(engine);
    return status;
}

struct beside {
    void      (*work)(void *context);
    void       *context;
    atomic_bool over;
};

static void *work_beside(void *argument)
{
    struct beside *beside = argument;
    beside->work(beside->context);
    atomic_store(&beside->over, true);
    return NULL;
}

void rt_engine_beside(struct rt_engine *engine, void (*work)(void *context), void *context)
{
    const struct timespec moment = { .tv_nsec = 200000 };
    struct beside beside = { .work = work, .context = context };
    const bool pending = !engine->progress_thread_runs && (engine->first || engine->transfers);
    pthread_t thread;
    if (!pending || pthread_create(&thread, NULL, work_beside, &beside) != 0) {
        work(context);
        return;
    }
    while (!atomic_load(&beside.over))
        if (!rt_engine_progress(engine)) nanosleep(&moment, NULL);
    pthread_join(thread, NULL);
}

/* ---- the optional progress thread */

void rt_engine_lock(struct rt_engine *engine)
{
    if (engine->progress_thread_runs) pthread_mutex_lock(&engine->lock);
}

void rt_engine_unlock(struct rt_engine *engine)
{
    if (engine->progress_thread_runs) pthread_mutex_unlock(&engine->lock);
}

void rt_engine_wake(struct rt_engine *engine)
{
    if (engine->progress_thread_runs) pthread_cond_signal(&engine->work);
}

#define CROWDED_SLEEPS 1000
#define KEPT_NS        UINT64_C(50000) /* the thread's peers are computing: long before a tick */

/* Gives the core away. Whether somebody kept it who computes: a thread that yields to him gets it back a tick later,
 * one that sleeps as soon as its socket moves (16 MiB at 1 Gbit/s, both ranks computing: 55 % hidden, 70 % so). */
static bool yield_to_long(struct rt_engine *engine)
{
    return yield_once(engine) > KEPT_NS;
}

static void *progress_main(void *argument)
{
    struct rt_engine *engine = argument;
    uint32_t idle = 0, crowded = 0; /* crowded: sleeps until yielding is tried again */
    rt_log_thread(engine->fabric.rank);
    pthread_mutex_lock(&engine->lock);
    while (!engine->progress_thread_stop) {
        if (!(engine->first || engine->transfers) || engine->callers || rt_engine_failed(engine)) {
            pthread_cond_wait(&engine->work, &engine->lock);
            idle = 0;
            continue;
        }
        idle = rt_engine_progress(engine) ? 0 : idle + 1;
        if (crowded ? idle : idle > YIELDS) {
            crowded -= crowded > 0;
            sleep_once(engine);
        } else if (idle && yield_to_long(engine)) {
            crowded = CROWDED_SLEEPS;
        }
    }
    pthread_mutex_unlock(&engine->lock);
    return NULL;
}

ringtree_status rt_progress_start(struct rt_engine *engine, struct rt_error *error)
{
    engine->progress_thread_runs = true;
    const int failed = pthread_create(&engine->progress_thread, NULL, progress_main, engine);
    if (!failed) return RINGTREE_OK;
    engine->progress_thread_runs = false;
    errno = failed;
    return rt_fail_errno(error, "rank %u: cannot start the progress thread", engine->fabric.rank);
}

void rt_progress_stop(struct rt_engine *engine)
{
    if (!engine->progress_thread_runs) return;
    pthread_mutex_lock(&engine->lock);
    engine->progress_thread_stop = true;
    pthread_cond_signal(&engine->work);
    pthread_mutex_unlock(&engine->lock);
    pthread_join(engine->progress_thread, NULL);
    engine->progress_thread_runs = false;
}
