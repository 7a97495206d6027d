/*
 * Starting the ranks. The meeting point's thread already runs, so between fork() and exec() only async-signal-safe
 * calls are made: environments are built beforehand. Every descriptor of ringtree-run is close-on-exec.
 */
#include "ringtree-run.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

extern char **environ;

static const char *const given[] = { "RINGTREE_ID=", "RINGTREE_RANK=", "RINGTREE_SIZE=", "RINGTREE_LOCAL_RANK=",
                                     "RINGTREE_LOCAL_SIZE=" };
#define GIVEN (sizeof(given) / sizeof(*given))

/* What one child needs; made before the fork. */
struct child {
    char   **environment;
    char     text[4][40]; /* RANK, SIZE, LOCAL_RANK, LOCAL_SIZE */
    char    *id;
    int      input, output, error, report; /* descriptors; report carries errno when exec fails */
    pid_t    parent;
    int      core; /* -1: do not pin */
};

static bool is_given(const char *entry)
{
    for (size_t i = 0; i < GIVEN; i++)
        if (!strncmp(entry, given[i], strlen(given[i]))) return true;
    return false;
}

static bool build_environment(struct child *child, const struct run *run)
{
    size_t count = 0, kept = 0;
    while (environ[count]) count++;
    child->environment = calloc(count + GIVEN + 1, sizeof(char *));
    child->id = malloc(strlen(given[0]) + strlen(run->id_text) + 1);
    if (!child->environment || !child->id) return false;
    for (size_t i = 0; i < count; i++)
        if (!is_given(environ[i])) child->environment[kept++] = environ[i];
    sprintf(child->id, "%s%s", given[0], run->id_text);
    child->environment[kept++] = child->id;
    for (size_t i = 0; i < 4; i++)
        child->environment[kept++] = child->text[i];
    return true;
}

static void number_environment(struct child *child, uint32_t rank, uint32_t ranks)
{
    for (size_t i = 0; i < 4; i++)
        snprintf(child->text[i], sizeof(child->text[i]), "%s%u", given[i + 1], i % 2 ? ranks : rank);
}

/* The number of the core for `rank`, round robin over those this process may use; -1: unknown. */
static int core_of(uint32_t rank)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) || !CPU_COUNT(&allowed)) return -1;
    int skip = (int)(rank % (uint32_t)CPU_COUNT(&allowed));
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &allowed) && skip-- == 0) return core;
    return -1;
}

static void child_says_and_ends(const struct child *child, int error)
{
    ssize_t written = write(child->report, &error, sizeof(error));
    _exit(written == sizeof(error) ? 127 : 126);
}

/* In the child. dup2() clears close-on-exec on the copy; a descriptor that is in place already is cleared by hand. */
static void place(const struct child *child, int from, int to)
{
    if (from < 0) return;
    int done = from == to ? fcntl(to, F_SETFD, 0) : dup2(from, to);
    if (done < 0) child_says_and_ends(child, errno);
}

static void run_child(const struct child *child, const struct run *run)
{
    setpgid(0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != child->parent) _exit(128 + SIGKILL);
    place(child, child->input, 0);
    place(child, child->output, 1);
    place(child, child->error, 2);
    if (child->core >= 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((size_t)child->core, &one);
        sched_setaffinity(0, sizeof(one), &one);
    }
    signal(SIGPIPE, run->caller_sigpipe);
    sigprocmask(SIG_SETMASK, &run->caller_mask, NULL);
    execvpe(run->options->command[0], run->options->command, child->environment);
    child_says_and_ends(child, errno);
}

/* A pipe whose ends avoid 0, 1 and 2, so that placing one of them cannot overwrite another. */
static bool high_pipe(int ends[2])
{
    int raw[2];
    ends[0] = ends[1] = -1;
    if (pipe2(raw, O_CLOEXEC)) return false;
    for (int i = 0; i < 2; i++) {
        ends[i] = fcntl(raw[i], F_DUPFD_CLOEXEC, 3);
        close(raw[i]);
    }
    return ends[0] >= 0 && ends[1] >= 0;
}

static void close_if_open(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* Rank 0 reads what ringtree-run would. A terminal cannot be handed on, as the rank is not in its foreground group:
 * it is copied by run_watch(). */
static bool open_input(struct run *run, struct child *child, uint32_t rank)
{
    child->input = -1;
    if (rank == 0 && isatty(0)) {
        int ends[2];
        if (!high_pipe(ends)) return false;
        child->input = ends[0];
        run->input_fd = ends[1];
        fcntl(run->input_fd, F_SETFL, O_NONBLOCK);
        return true;
    }
    if (rank == 0) return true;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    child->input = null < 0 ? -1 : fcntl(null, F_DUPFD_CLOEXEC, 3);
    close_if_open(&null);
    return child->input >= 0;
}

static bool open_output(struct run *run, struct child *child, uint32_t rank)
{
    child->output = child->error = -1;
    if (!run->options->prefix) return true;
    int *ends[2] = { &child->output, &child->error };
    for (int i = 0; i < 2; i++) {
        int both[2];
        bool opened = high_pipe(both);
        run->ranks[rank].out[i].fd = both[0];
        *ends[i] = both[1];
        if (!opened) return false;
        fcntl(both[0], F_SETFL, O_NONBLOCK);
    }
    return true;
}

/* 0, or errno of the exec. */
static int exec_error(int report)
{
    int error = 0;
    ssize_t got;
    do got = read(report, &error, sizeof(error));
    while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof(error) ? error : 0;
}

/* errno, with *started telling fork's failures from exec's. */
static int fork_one(struct run *run, struct child *child, uint32_t rank, bool *started)
{
    int report[2];
    *started = false;
    if (!high_pipe(report)) return errno;
    child->report = report[1];
    child->core = run->options->bind ? core_of(rank) : -1;
    child->parent = getpid();
    pid_t pid = fork();
    if (pid == 0) run_child(child, run);
    int error = pid < 0 ? errno : 0;
    close(report[1]);
    if (pid > 0) {
        setpgid(pid, pid); /* also here: a signal may have to go to the group before the child has run */
        run->ranks[rank].pid = run->ranks[rank].started_pid = pid;
        run->living++;
        *started = true;
        error = exec_error(report[0]);
    }
    close(report[0]);
    return error;
}

static int start_one(struct run *run, struct child *child, uint32_t rank)
{
    bool started = false;
    bool opened = open_input(run, child, rank) && open_output(run, child, rank);
    int error = opened ? 0 : errno;
    if (opened) {
        number_environment(child, rank, run->options->ranks);
        error = fork_one(run, child, rank, &started);
    }
    close_if_open(&child->input);
    close_if_open(&child->output);
    close_if_open(&child->error);
    if (!error) return 0;
    if (started) {
        run_say("cannot start %s: %s", run->options->command[0], strerror(error));
        return error == ENOENT ? 127 : 126;
    }
    run_say("cannot start rank %u of %u: %s%s", rank, run->options->ranks, strerror(error),
            error == EAGAIN                      ? ". Lower -n or raise the limit on processes (ulimit -u)"
            : error == EMFILE || error == ENFILE ? ". Lower -n or raise the limit on open files (ulimit -n)"
            : !opened                            ? " (/dev/null or a pipe for its output)"
                                                 : "");
    return RUN_OWN_STATUS;
}

int run_start(struct run *run)
{
    struct child child = { .environment = NULL };
    int status = 0;
    if (!build_environment(&child, run)) {
        run_say("out of memory");
        status = RUN_OWN_STATUS;
    }
    for (uint32_t rank = 0; !status && rank < run->options->ranks; rank++)
        status = start_one(run, &child, rank);
    free(child.environment);
    free(child.id);
    return status;
}
