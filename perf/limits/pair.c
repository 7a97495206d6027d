/* The same function on two threads at once, each pinned to a core. */
#include "limits.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>

#define SPINS_BEFORE_YIELD 10000

double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

bool pin_to(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    return !sched_setaffinity(0, sizeof(set), &set);
}

void pair_meet(struct side *side)
{
    struct pair *pair = side->pair;
    const unsigned meeting = ++side->meetings;
    atomic_store_explicit(&pair->arrived[side->number].count, meeting, memory_order_release);
    for (int spins = 0; atomic_load_explicit(&pair->arrived[!side->number].count, memory_order_acquire) < meeting;)
        if (++spins > SPINS_BEFORE_YIELD) sched_yield();
        else pause_briefly();
}

struct member {
    struct side side;
    int         core;
    void      (*body)(struct side *side);
};

/* Meets before the first line of the body: whoever could not be pinned lets neither side start. */
static void *run_member(void *context)
{
    struct member *member = context;
    struct pair   *pair = member->side.pair;
    if (!pin_to(member->core)) atomic_store(&pair->failed, true);
    pair_meet(&member->side);
    if (!atomic_load(&pair->failed)) member->body(&member->side);
    return NULL;
}

bool pair_run(const int cores[2], void (*body)(struct side *side), void *context)
{
    struct pair   pair = { .failed = false };
    struct member members[2];
    pthread_t     threads[2];
    for (unsigned i = 0; i < 2; i++)
        members[i] = (struct member){ { &pair, context, i, 0 }, cores[i], body };
    if (pthread_create(&threads[0], NULL, run_member, &members[0])) return false;
    if (pthread_create(&threads[1], NULL, run_member, &members[1])) {
        atomic_store(&pair.failed, true);
        atomic_store(&pair.arrived[1].count, 1u);
        pthread_join(threads[0], NULL);
        return false;
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return !atomic_load(&pair.failed);
}
