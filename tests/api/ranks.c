/* Ranks as processes and threads: see ranks.h. */
#include "ranks.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct seat { /* one rank of this process */
    const struct ranks_layout *layout;
    void                     (*body)(struct rank *);
    atomic_int                *failures;
    struct rank                self;
    pthread_t                  thread;
};

uint64_t ranks_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void ranks_sleep_ms(uint32_t ms)
{
    nanosleep(&(struct timespec){ ms / 1000, (long)(ms % 1000) * 1000000 }, NULL);
}

void ranks_meet(struct rank *self)
{
    self->meetings++;
    atomic_fetch_add(&self->shared->arrived, 1);
    while (atomic_load(&self->shared->arrived) < self->meetings * self->size) usleep(100);
}

static bool fail(struct seat *seat, const char *what, const char *why)
{
    atomic_fetch_add(seat->failures, 1);
    fprintf(stderr, "rank %u of %u: %s: %s\n", seat->self.rank, seat->self.size, what, why);
    return false;
}

static bool get_id(struct seat *seat)
{
    struct ranks_shared *shared = seat->self.shared;
    if (seat->self.rank == 0) {
        bool made = ringtree_id_create(&shared->id) == RINGTREE_OK;
        atomic_store(&shared->id_ready, made ? 1 : -1);
        if (!made) return fail(seat, "ringtree_id_create", ringtree_last_error(NULL));
    }
    while (atomic_load(&shared->id_ready) == 0) usleep(100);
    return atomic_load(&shared->id_ready) == 1;
}

static void *sit(void *argument)
{
    struct seat *seat = argument;
    struct rank *self = &seat->self;
    if (seat->layout->bare) {
        seat->body(self);
        return NULL;
    }
    ringtree_options options = RINGTREE_OPTIONS_DEFAULT;
    options.timeout_ms = seat->layout->timeout_ms ? seat->layout->timeout_ms : 30000;
    if (!get_id(seat)) return NULL;
    if (ringtree_init_id(&self->comm, &self->shared->id, self->size, self->rank, &options) != RINGTREE_OK) {
        fail(seat, "ringtree_init_id", ringtree_last_error(NULL));
        return NULL;
    }
    seat->body(self);
    ringtree_destroy(self->comm);
    return NULL;
}

static void set(const char *name, const char *value)
{
    if (value) setenv(name, value, 1);
}

static void prepare(const struct ranks_layout *layout, uint32_t process)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    set("RINGTREE_TRANSPORTS", layout->transports);
    set("RINGTREE_ALGORITHM", layout->algorithm);
    if (layout->hosts) {
        char host[] = "pretended-?";
        host[sizeof(host) - 2] = layout->hosts[process];
        set("RINGTREE_HOST", host);
    }
    for (size_t i = 0; layout->settings && layout->settings[i]; i++) putenv((char *)layout->settings[i]);
}

/* In the child: the ranks of `process`, the first of them on the main thread. */
static int run_process(const struct ranks_layout *layout, uint32_t processes, uint32_t process,
                       struct ranks_shared *shared, void (*body)(struct rank *), atomic_int *failures)
{
    static struct seat seats[RANKS_MOST];
    uint32_t           count = 0;
    int                before = atomic_load(failures);
    prepare(layout, process);
    for (uint32_t r = 0; r < layout->ranks; r++) {
        if (r * processes / layout->ranks != process) continue;
        seats[count++] = (struct seat){ .layout = layout, .body = body, .failures = failures,
                                        .self = { .rank = r, .size = layout->ranks, .process = process,
                                                  .argument = layout->argument, .shared = shared } };
    }
    for (uint32_t i = 1; i < count; i++) {
        if (pthread_create(&seats[i].thread, NULL, sit, &seats[i]) != 0) abort();
    }
    sit(&seats[0]);
    for (uint32_t i = 1; i < count; i++) pthread_join(seats[i].thread, NULL);
    return atomic_load(failures) != before;
}

static bool ended_well(const struct ranks_layout *layout, uint32_t process, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    if (layout->may_die[process] && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return true;
    if (WIFSIGNALED(status)) fprintf(stderr, "process %u was killed by signal %d\n", process, WTERMSIG(status));
    return false;
}

static uint32_t wait_for(const struct ranks_layout *layout, const pid_t *pid, uint32_t processes)
{
    const uint64_t end_ms = ranks_now_ms() + 1000 * (layout->wait_s ? layout->wait_s : 60);
    bool           ended[RANKS_MOST] = { false };
    uint32_t       left = processes, bad = 0;
    while (left > 0) {
        for (uint32_t p = 0; p < processes; p++) {
            int status;
            if (ended[p] || waitpid(pid[p], &status, WNOHANG) != pid[p]) continue;
            ended[p] = true;
            left--;
            bad += !ended_well(layout, p, status);
        }
        if (left == 0) break;
        if (ranks_now_ms() > end_ms) {
            for (uint32_t p = 0; p < processes; p++) {
                if (ended[p]) continue;
                fprintf(stderr, "process %u hung and was killed\n", p);
                kill(pid[p], SIGKILL);
                waitpid(pid[p], NULL, 0);
            }
            return bad + left;
        }
        usleep(500);
    }
    return bad;
}

uint32_t ranks_run(const struct ranks_layout *layout, void (*body)(struct rank *), atomic_int *failures)
{
    const uint32_t processes = layout->processes ? layout->processes : 1;
    pid_t          pid[RANKS_MOST];
    struct ranks_shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) abort();
    fflush(NULL);
    for (uint32_t p = 0; p < processes; p++) {
        pid[p] = fork();
        if (pid[p] < 0) abort();
        if (pid[p] == 0) exit(run_process(layout, processes, p, shared, body, failures));
    }
    uint32_t bad = wait_for(layout, pid, processes);
    munmap(shared, sizeof(*shared));
    atomic_fetch_add(failures, (int)bad);
    return bad;
}

const char *rank_chosen_way(const struct rank *self)
{
    static _Thread_local ringtree_way ways[RINGTREE_MOST_WAYS];
    size_t number = 0;
    if (ringtree_plan_ways(self->comm, RINGTREE_ALL_REDUCE, 1000, RINGTREE_FLOAT32, ways, RINGTREE_MOST_WAYS, &number))
        return "no ways";
    for (size_t i = 0; i < number; i++)
        if (ways[i].chosen) return ways[i].name;
    return "none";
}
