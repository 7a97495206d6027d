/* One rank's life: calls, waits in any order and splits, drawn from the seed. See stress.h. */
#include "numbers.h"
#include "stress.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { DRAWS = 10 };

/* splitmix64: https://prng.di.unimi.it/splitmix64.c is the definition. */
uint64_t stress_mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t stress_draw(uint64_t *state)
{
    return stress_mix((*state)++);
}

void stress_die(const struct stress_rank *me, const char *what, const char *why)
{
    fprintf(stderr, "seed %llu, rank %u of %u: %s: %s\n", (unsigned long long)me->plan->seed, me->self->rank,
            me->self->size, what, why);
    fflush(NULL);
    _exit(1);
}

/* Finishes some of what is finished; `half` leaves every second job alone. Returns how many are left. */
static uint32_t look(struct stress_rank *me, bool half)
{
    const uint32_t first = (uint32_t)(stress_draw(&me->own) % STRESS_PENDING);
    uint32_t       left = 0;
    for (uint32_t k = 0; k < STRESS_PENDING; k++) {
        struct stress_job *job = &me->jobs[(first + k) % STRESS_PENDING];
        if (!job->live) continue;
        if ((half && stress_draw(&me->own) % 2) || !stress_job_test(me, job)) left++;
        else stress_job_finish(me, job);
    }
    return left;
}

static void drain(struct stress_rank *me)
{
    while (look(me, false) > 0) sched_yield();
}

static void leave(struct stress_rank *me, struct stress_comm *on)
{
    if (on->comm && ringtree_destroy(on->comm) != RINGTREE_OK)
        stress_die(me, "ringtree_destroy", ringtree_last_error(NULL));
    on->comm = NULL;
}

/* A communicator other than the first is made anew from another; some ranks stay out. */
static void split(struct stress_rank *me, const uint64_t *draws)
{
    const uint32_t      target = 1 + (uint32_t)(draws[2] % (STRESS_COMMS - 1));
    uint32_t            source = draws[3] % 2 ? 0 : (uint32_t)(draws[0] % STRESS_COMMS);
    ringtree_comm      *comm;
    struct stress_comm *on = &me->comms[target];
    if (source == target) source = 0;
    drain(me);
    leave(me, on);
    struct stress_comm *from = &me->comms[source];
    if (!from->comm) return;
    uint32_t color = (uint32_t)(stress_mix(draws[4] ^ from->rank) % 3);
    uint32_t key = (uint32_t)stress_mix(draws[5] ^ from->rank) % 4;
    if (color == 2 && draws[6] % 2) color = RINGTREE_NO_COLOR;
    if (ringtree_split(from->comm, color, key, &comm) != RINGTREE_OK)
        stress_die(me, "ringtree_split", ringtree_last_error(from->comm));
    *on = (struct stress_comm){ comm, ringtree_size(comm), ringtree_rank(comm) };
}

/* None, a few, some hundreds, or many; a block for each rank shares them. */
static size_t draw_count(const struct stress_rank *me, enum stress_kind kind, uint32_t size, uint64_t random)
{
    const uint64_t rest = random / 8;
    const bool     blocks = (kind >= STRESS_REDUCE_SCATTER && kind <= STRESS_SCATTER) || kind == STRESS_ALL_TO_ALL_V;
    uint64_t count = random % 8 == 0 ? rest % 4 : random % 8 < 4 ? rest % 300 : rest % (me->plan->most_elements + 1);
    return (size_t)(blocks ? count / size : count);
}

static void choose(const struct stress_rank *me, struct stress_job *job, const uint64_t *draws, struct stress_comm *on)
{
    job->on = on;
    job->slot = (uint32_t)(on - me->comms);
    job->kind = (enum stress_kind)(draws[2] % STRESS_KINDS);
    job->asks_in_place = draws[3] % 2;
    job->op = (uint32_t)(draws[4] % NUMBERS_OPS);
    job->type = (ringtree_type)(draws[5] % RINGTREE_TYPE_COUNT);
    job->values = stress_mix(draws[6]);
    job->count = draw_count(me, job->kind, on->size, draws[7]);
    job->root = (uint32_t)(draws[8] % on->size);
    job->premul = 0;
    job->live = true;
}

static struct stress_job *free_job(struct stress_rank *me)
{
    for (uint32_t k = 0; k < STRESS_PENDING; k++)
        if (!me->jobs[k].live) return &me->jobs[k];
    drain(me);
    return &me->jobs[0];
}

static void operate(struct stress_rank *me, uint32_t number, const uint64_t *draws)
{
    struct stress_comm *on = &me->comms[draws[0] % STRESS_COMMS];
    const bool          wait = draws[9] % 4 == 0;
    if (!on->comm) return;
    if (wait) drain(me);
    struct stress_job *job = free_job(me);
    if (stress_draw(&me->own) % 50 == 0) usleep((useconds_t)(stress_draw(&me->own) % 3000));
    job->number = number;
    choose(me, job, draws, on);
    stress_job_start(me, job, wait);
    if (wait) stress_job_finish(me, job);
    else if (stress_draw(&me->own) % 3 == 0) look(me, true);
}

void stress_run(struct rank *self)
{
    struct stress_rank *me = calloc(1, sizeof(*me));
    if (!me) abort();
    me->self = self;
    me->plan = self->argument;
    me->own = stress_mix(me->plan->seed * 1000 + self->rank);
    me->shared = stress_mix(me->plan->seed) >> 1;
    me->comms[0] = (struct stress_comm){ self->comm, self->size, self->rank };
    for (uint32_t i = 0; i < me->plan->operations; i++) {
        uint64_t draws[DRAWS];
        for (uint32_t k = 0; k < DRAWS; k++) draws[k] = stress_draw(&me->shared);
        if (draws[1] % 100 < 6) split(me, draws);
        else operate(me, i, draws);
    }
    drain(me);
    const uint32_t first = (uint32_t)(stress_mix(me->plan->seed ^ 77) % STRESS_COMMS);
    for (uint32_t i = 0; i < STRESS_COMMS; i++) leave(me, &me->comms[(first + i) % STRESS_COMMS]);
    self->comm = NULL; /* ended here, in any order among the others */
    free(me);
}
