/* Ranks for tests of the control plane: threads of this process, or forked processes that report by their exit
 * status. */
#ifndef RT_TEST_RANKS_H
#define RT_TEST_RANKS_H

#include "bootstrap/control.h"
#include "entries.h"
#include "test.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RANKS_MOST 256

#ifdef __SANITIZE_THREAD__ /* forked ranks start threads too */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}
#endif

static inline uint64_t now_ms(void)
{
    return rt_now_ns(&rt_system_clock) / 1000000;
}

static inline void sleep_ms(unsigned ms)
{
    nanosleep(&(struct timespec){ ms / 1000, (long)(ms % 1000) * 1000000 }, NULL);
}

struct rank_case {
    struct rt_meeting  meeting;
    struct rt_settings settings;
    uint32_t           rank, nranks, timeout_ms;
    ringtree_status    status; /* of rt_control_open */
    struct rt_error    error;
    struct rt_control *control;
    void (*run)(struct rank_case *); /* after a good open; closes */
    void              *shared;
};

static inline void rank_settings(struct rt_settings *settings, uint32_t timeout_ms)
{
    rt_settings_defaults(settings);
    settings->number[RT_TIMEOUT_MS] = timeout_ms;
}

/* A meeting at any free port. */
static inline void rank_meet(struct rank_case *c, uint32_t timeout_ms)
{
    struct rt_error error = { 0 };

    rank_settings(&c->settings, timeout_ms);
    c->timeout_ms = timeout_ms;
    CHECK_THAT(rt_meeting_serve(&c->meeting, NULL, &c->settings, &error) == RINGTREE_OK, "%s", error.text);
}

static inline void rank_open(struct rank_case *c)
{
    struct rt_control_options options = { c->rank, c->nranks, c->timeout_ms, &c->meeting, &c->settings,
                                          &rt_system_clock };

    rt_error_clear(&c->error);
    c->status = rt_control_open(&c->control, &options, &c->error);
}

static inline void *rank_thread(void *argument)
{
    struct rank_case *c = argument;

    rank_open(c);
    if (c->status == RINGTREE_OK && c->run)
        c->run(c);
    return NULL;
}

/* Runs `n` copies of *model as threads, numbered 0 .. n-1; cases[] keeps what each found. */
static inline void rank_threads(const struct rank_case *model, uint32_t n, struct rank_case *cases)
{
    pthread_t threads[RANKS_MOST];

    for (uint32_t r = 0; r < n; r++) {
        cases[r] = *model;
        cases[r].rank = r;
        cases[r].nranks = n;
        if (pthread_create(&threads[r], NULL, rank_thread, &cases[r]))
            abort();
    }
    for (uint32_t r = 0; r < n; r++)
        pthread_join(threads[r], NULL);
}

static inline void *shared_memory(size_t bytes)
{
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

/* Where rank 0's process tells the others its meeting, as a launcher would carry an id. */
struct rank_board {
    atomic_int        ready;
    struct rt_meeting meeting;
};

/* The life of a child process: it exits with 0 only if everything it checks is right. */
static inline void rank_process(struct rank_case *c, struct rank_board *board, uint32_t timeout_ms)
{
    atomic_store(&test_failures, 0);
    rank_settings(&c->settings, timeout_ms);
    c->timeout_ms = timeout_ms;
    if (c->rank == 0) {
        rank_meet(c, timeout_ms);
        board->meeting = c->meeting;
        atomic_store(&board->ready, 1);
    }
    for (int i = 0; i < 30000 && !atomic_load(&board->ready); i++)
        sleep_ms(1);
    c->meeting = board->meeting;
    rank_open(c);
    CHECK_THAT(c->status == RINGTREE_OK, "rank %u: %s", c->rank, c->error.text);
    if (c->status == RINGTREE_OK && c->run)
        c->run(c);
    _exit(atomic_load(&test_failures) ? 1 : 0);
}

/* Forks `n` ranks. The parent starts no thread, so that sanitizers can follow the children. */
static inline void rank_processes(const struct rank_case *model, uint32_t n, uint32_t timeout_ms, pid_t *pids)
{
    struct rank_board *board = shared_memory(sizeof(*board));

    fflush(NULL);
    for (uint32_t r = 0; r < n; r++) {
        pids[r] = fork();
        if (pids[r] == 0) {
            struct rank_case c = *model;
            c.rank = r;
            c.nranks = n;
            rank_process(&c, board, timeout_ms);
        }
    }
    munmap(board, sizeof(*board));
}

/* The exit status of each is checked, except that of the one that was `killed`. */
static inline void rank_reap(const pid_t *pids, uint32_t n, uint32_t killed)
{
    for (uint32_t r = 0; r < n; r++) {
        int status = 0;
        waitpid(pids[r], &status, 0);
        if (r != killed)
            CHECK_THAT(WIFEXITED(status) && WEXITSTATUS(status) == 0, "rank %u ended with %d", r, status);
    }
}

#endif
