/*
 * Watching the ranks: one poll() over signals, output and rank 0's input. A rank is a process group; it is reaped
 * only after its group has been dealt with, so that a signal can never reach a stranger who got the number.
 */
#include "ringtree-run.h"

#include <errno.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* When all ranks have ended: how long a silent stream, held open by what they left behind, is still listened to. */
#define LINGER_NS ((uint64_t)1000000000)

static uint64_t after_ns(double seconds)
{
    return run_now_ns() + (uint64_t)(seconds * 1e9);
}

static void signal_all(const struct run *run, int number)
{
    for (uint32_t r = 0; r < run->options->ranks; r++)
        if (run->ranks[r].pid) kill(-run->ranks[r].pid, number);
}

void run_stop(struct run *run)
{
    if (run->stopping) return;
    run->stopping = true;
    signal_all(run, SIGTERM);
    signal_all(run, SIGCONT); /* a stopped rank would not see it */
    run->kill_ns = after_ns(run->options->grace_s);
}

static void take_signal(struct run *run, int number)
{
    if (number == SIGCHLD) return;
    signal_all(run, number);
    bool ends = number == SIGINT || number == SIGTERM || number == SIGHUP;
    if (ends && !run->living) run->output_lost = true; /* only a reader that does not read keeps us */
    if (ends && !run->kill_ns) run->kill_ns = after_ns(run->options->grace_s);
}

/* Has the rank ended? Leaves it as a zombie. */
static bool has_ended(const struct run_rank *rank)
{
    siginfo_t info = { .si_pid = 0 };
    return rank->pid && !waitid(P_PID, (id_t)rank->pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid;
}

/* Of ranks found dead together, one that was killed is the cause rather than one that ended by itself. */
static void note_failure(struct run *run, uint32_t r, int *found)
{
    if (run->ranks[r].status == 0) return;
    if (*found < 0 || (WIFSIGNALED(run->ranks[r].status) && !WIFSIGNALED(run->ranks[*found].status))) *found = (int)r;
}

static void reap(struct run *run)
{
    int found = -1;
    for (uint32_t r = 0; r < run->options->ranks; r++) {
        struct run_rank *rank = &run->ranks[r];
        if (!has_ended(rank)) continue;
        if (run->stopping) kill(-rank->pid, SIGKILL);
        if (waitpid(rank->pid, &rank->status, 0) != rank->pid) rank->status = RUN_OWN_STATUS << 8;
        rank->pid = 0;
        run->living--;
        note_failure(run, r, &found);
    }
    if (found >= 0 && run->first_failed < 0) {
        run->first_failed = found;
        run_stop(run);
    }
    if (!run->living && !run->abandon_ns) run->abandon_ns = run_now_ns() + LINGER_NS;
}

static void mind_deadlines(struct run *run)
{
    uint64_t now = run_now_ns();
    if (run->deadline_ns && now >= run->deadline_ns && run->living) {
        run->deadline_ns = 0;
        run->timed_out = run->first_failed < 0;
        run_stop(run);
    }
    if (run->kill_ns && now >= run->kill_ns) {
        run->kill_ns = 0;
        signal_all(run, SIGKILL);
    }
}

void run_attend(struct run *run)
{
    struct signalfd_siginfo info;
    while (read(run->signal_fd, &info, sizeof(info)) == sizeof(info))
        take_signal(run, (int)info.ssi_signo);
    mind_deadlines(run);
    reap(run);
}

int run_attend_within_ms(const struct run *run, uint64_t also_ns)
{
    uint64_t next = UINT64_MAX, now = run_now_ns();
    const uint64_t times[] = { run->living ? run->deadline_ns : 0, run->living ? run->kill_ns : 0, also_ns };
    for (size_t i = 0; i < 3; i++)
        if (times[i] && times[i] < next) next = times[i];
    if (next == UINT64_MAX) return -1;
    uint64_t ms = next > now ? (next - now + 999999) / 1000000 : 0;
    return ms > 60000 ? 60000 : (int)ms;
}

/* ---- the terminal's input for rank 0 */

static void end_input(struct run *run)
{
    if (run->input_fd >= 0) close(run->input_fd);
    run->input_fd = -1;
}

static void copy_input(struct run *run)
{
    char text[4096];
    ssize_t got = read(0, text, sizeof(text));
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    /* A terminal gives a line at a time, less than a pipe holds; a rank that never reads loses what does not fit. */
    if (got <= 0 || (write(run->input_fd, text, (size_t)got) < 0 && errno != EAGAIN)) end_input(run);
}

/* Reading the terminal from the background would stop us. */
static bool may_read_terminal(const struct run *run)
{
    return run->input_fd >= 0 && tcgetpgrp(0) == getpgrp();
}

/* ---- the loop */

static nfds_t gather_polls(struct run *run)
{
    const uint32_t n = run->options->ranks;
    struct pollfd *polls = run->polls;
    polls[0] = (struct pollfd){ .fd = run->signal_fd, .events = POLLIN };
    polls[1] = (struct pollfd){ .fd = may_read_terminal(run) ? 0 : -1, .events = POLLIN };
    for (uint32_t r = 0; r < n; r++)
        for (int which = 0; which < 2; which++)
            polls[2 + 2 * r + (uint32_t)which] =
                (struct pollfd){ .fd = run->ranks[r].out[which].fd, .events = POLLIN };
    return 2 + 2 * (nfds_t)n;
}

static void serve_output(struct run *run)
{
    for (uint32_t r = 0; r < run->options->ranks; r++)
        for (int which = 0; which < 2; which++) {
            if (!run->polls[2 + 2 * r + (uint32_t)which].revents) continue;
            if (run->abandon_ns) run->abandon_ns = run_now_ns() + LINGER_NS;
            if (!run_stream_read(run, r, which)) run_stream_end(run, r, which);
        }
}

static bool has_output(const struct run *run)
{
    for (uint32_t r = 0; r < run->options->ranks; r++)
        for (int which = 0; which < 2; which++)
            if (run->ranks[r].out[which].fd >= 0) return true;
    return false;
}

static void end_output(struct run *run)
{
    for (uint32_t r = 0; r < run->options->ranks; r++)
        for (int which = 0; which < 2; which++)
            if (run->ranks[r].out[which].fd >= 0) run_stream_end(run, r, which);
}

void run_watch(struct run *run)
{
    run_attend(run);
    while (run->living || (has_output(run) && run_now_ns() < run->abandon_ns)) {
        nfds_t count = gather_polls(run);
        int ready = poll(run->polls, count, run_attend_within_ms(run, run->abandon_ns));
        run_attend(run);
        if (ready <= 0) continue;
        if (run->polls[1].revents) copy_input(run);
        serve_output(run);
    }
    end_output(run);
    end_input(run);
}
