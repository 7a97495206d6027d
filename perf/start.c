/*
 * Ranks: those that a launcher started, or processes forked here before any thread exists. The parent of forked ones
 * only makes the id, hands it over a pipe, and waits. Either way each process may have several threads as ranks.
 */
#include "perf.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* After one rank has failed the others hear of it within milliseconds; who has not ended by then is killed. */
#define STOP_MS 5000

struct member { /* one thread */
    const struct options *options;
    const ringtree_id    *id;
    uint32_t              rank, nranks;
    int                   status;
};

/* The sentence says which rank it was, where that is known. */
static int say_failure(const struct options *options, ringtree_status status)
{
    fprintf(stderr, "%s: %s: %s\n", options->program, ringtree_status_name(status), ringtree_last_error(NULL));
    if (status == RINGTREE_TIMEOUT) return EXIT_TIMEOUT;
    return status == RINGTREE_INVALID_SETTING ? EXIT_USAGE : EXIT_LIBRARY;
}

static void *run_member(void *context)
{
    struct member  *member = context;
    ringtree_comm  *comm;
    ringtree_status status = ringtree_init_id(&comm, member->id, member->nranks, member->rank, NULL);
    member->status = status ? say_failure(member->options, status) : run_rank(member->options, comm);
    return NULL;
}

/* The process's first thread is the last of its ranks to start. */
static int run_threads(const struct options *options, const ringtree_id *id, uint32_t process, uint32_t processes)
{
    const uint32_t threads = options->threads;
    struct member *members = calloc(threads, sizeof(*members));
    pthread_t     *handles = calloc(threads, sizeof(*handles));
    int            status = EXIT_GOOD;
    if (!members || !handles) exit(EXIT_LIBRARY);
    for (uint32_t t = threads; t-- > 0;) {
        members[t] = (struct member){ options, id, process * threads + t, processes * threads, 0 };
        if (t == 0) run_member(&members[0]);
        else if (pthread_create(&handles[t], NULL, run_member, &members[t])) {
            fprintf(stderr, "rank %u: cannot start a thread: %s\n", members[t].rank, strerror(errno));
            exit(EXIT_LIBRARY);
        }
    }
    for (uint32_t t = 0; t < threads; t++) {
        if (t) pthread_join(handles[t], NULL);
        if (members[t].status > status) status = members[t].status;
    }
    free(members);
    free(handles);
    return status;
}

/* ---- under a launcher */

static bool is_launched(void)
{
    static const char *const signs[] = { "RINGTREE_ID",  "RINGTREE_RANK",        "WORLD_SIZE",
                                         "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK" };
    for (size_t i = 0; i < sizeof(signs) / sizeof(*signs); i++)
        if (getenv(signs[i])) return true;
    return false;
}

/* Rank 0 of the processes makes an id for all threads and broadcasts it. */
static int run_launched_threads(const struct options *options, ringtree_comm *processes)
{
    const uint32_t  rank = ringtree_rank(processes), n = ringtree_size(processes);
    ringtree_id     id;
    ringtree_status status = rank == 0 ? ringtree_id_create(&id) : RINGTREE_OK;
    if (status) return ringtree_abort(processes, "rank 0 could not make an id"), say_failure(options, status);
    status = ringtree_broadcast(processes, &id, &id, sizeof(id), RINGTREE_UINT8, 0, NULL);
    if (status == RINGTREE_ABORTED) return EXIT_LIBRARY; /* rank 0 says why */
    if (status) return fprintf(stderr, "rank %u: %s\n", rank, ringtree_last_error(processes)), EXIT_LIBRARY;
    return run_threads(options, &id, rank, n);
}

static int run_launched(const struct options *options)
{
    if (options->processes_given) {
        fprintf(stderr, "%s: -g starts ranks, but a launcher has started them already. See %s --help\n",
                options->program, options->program);
        return EXIT_USAGE;
    }
    ringtree_comm  *comm;
    ringtree_status status = ringtree_init(&comm);
    if (status) return say_failure(options, status);
    if (options->threads == 1) return run_rank(options, comm);
    int ended = run_launched_threads(options, comm);
    ringtree_destroy(comm);
    return ended;
}

/* ---- started here */

static int run_child(const struct options *options, int id_pipe, int ready, uint32_t process, pid_t parent)
{
    ringtree_id id;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || (options->link && !link_leave_network(ready))) return EXIT_LIBRARY;
    ssize_t got = read(id_pipe, &id, sizeof(id)); /* 256 bytes are written, and so read, as one */
    close(id_pipe);
    if (got != sizeof(id)) return EXIT_LIBRARY; /* the parent says why */
    if (options->link) { /* what was made in the parent's network is of no use here; the root's address is known */
        link_settings(options, process);
        ringtree_comm  *comm;
        ringtree_status status = ringtree_init(&comm);
        return status ? say_failure(options, status) : run_rank(options, comm);
    }
    return run_threads(options, &id, process, options->processes);
}

static bool hand_out_id(const struct options *options, int id_pipe)
{
    ringtree_id id;
    if (ringtree_id_create(&id)) {
        fprintf(stderr, "%s: %s\n", options->program, ringtree_last_error(NULL));
        return false;
    }
    for (uint32_t p = 0; p < options->processes; p++)
        if (write(id_pipe, &id, sizeof(id)) != sizeof(id)) return false;
    return true;
}

static void kill_all(const pid_t *pids, uint32_t count)
{
    for (uint32_t p = 0; p < count; p++)
        if (pids[p] > 0) kill(pids[p], SIGKILL);
}

/* The status of one that ended; says when it was killed. */
static int judge(const pid_t *pids, const struct options *options, uint32_t p, int status, bool stopping)
{
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    const int number = WTERMSIG(status);
    if (stopping && number == SIGKILL) return EXIT_LIBRARY;
    fprintf(stderr, "%s: rank %u (pid %d) was killed by signal %d (%s)\n", options->program, p * options->threads,
            (int)pids[p], number, strsignal(number));
    return 128 + number;
}

static uint32_t number_of(const pid_t *pids, uint32_t count, pid_t pid)
{
    uint32_t p = 0;
    while (p < count && pids[p] != pid) p++;
    return p;
}

/* The worst status: a signal's tells more than those of the ranks that lost their peer. */
static int wait_for_all(const struct options *options, pid_t *pids, uint32_t started, int worst)
{
    double stop_us = worst ? now_us() + STOP_MS * 1e3 : 0;
    bool   stopping = false;
    for (uint32_t left = started; left > 0;) {
        int   status;
        pid_t pid = waitpid(-1, &status, worst && !stopping ? WNOHANG : 0);
        if (pid == 0) {
            if (now_us() >= stop_us) {
                kill_all(pids, started);
                stopping = true;
            } else nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
            continue;
        }
        uint32_t p = number_of(pids, started, pid);
        if (pid < 0 && errno == EINTR) continue;
        if (pid < 0 || p == started) break;
        int ended = judge(pids, options, p, status, stopping);
        pids[p] = 0;
        left--;
        if (ended && !worst) stop_us = now_us() + STOP_MS * 1e3;
        if (ended > worst) worst = ended;
    }
    return worst;
}

static int run_here(const struct options *options)
{
    const pid_t parent = getpid();
    pid_t      *pids = calloc(options->processes, sizeof(*pids));
    int         id_pipe[2], ready[2], status = 0;
    uint32_t    started = 0;
    if (!pids || pipe(id_pipe) || pipe(ready)) return perror(options->program), EXIT_LIBRARY;
    fflush(NULL);
    for (; started < options->processes; started++) {
        pids[started] = fork();
        if (pids[started] < 0) break;
        if (pids[started] > 0) continue;
        close(id_pipe[1]);
        free(pids);
        exit(run_child(options, id_pipe[0], ready[1], started, parent));
    }
    if (started < options->processes) {
        fprintf(stderr, "%s: cannot start process %u: %s\n", options->program, started, strerror(errno));
        status = EXIT_LIBRARY;
    }
    signal(SIGPIPE, SIG_IGN);
    close(id_pipe[0]);
    if (!status && options->link && !link_join(options, pids, ready[0])) status = EXIT_LIBRARY;
    close(ready[0]);
    close(ready[1]);
    if (!status && !hand_out_id(options, id_pipe[1])) status = EXIT_LIBRARY;
    close(id_pipe[1]);
    status = wait_for_all(options, pids, started, status);
    free(pids);
    return status;
}

/* ---- settings that the command line stands for */

/* "tree" alone would force it on the benchmark's own exchange of figures too. */
static void set_algorithm(const struct options *options)
{
    const char *given = options->algorithm ? options->algorithm : getenv("RINGTREE_ALGORITHM");
    char        text[256];
    if (!given || !*given) return;
    if (strchr(given, '=')) snprintf(text, sizeof(text), "%s", given);
    else snprintf(text, sizeof(text), "%s=%s", ringtree_collective_name(options->collective->kind), given);
    setenv("RINGTREE_ALGORITHM", text, 1);
}

int start_ranks(struct options *options)
{
    char ms[32];
    set_algorithm(options);
    if (options->transport) setenv("RINGTREE_TRANSPORTS", options->transport, 1);
    snprintf(ms, sizeof(ms), "%llu", 1000ull * options->timeout_s);
    if (options->timeout_s) setenv("RINGTREE_TIMEOUT_MS", ms, 1);
    return is_launched() ? run_launched(options) : run_here(options);
}
