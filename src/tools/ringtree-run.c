/* ringtree-run: starts the ranks of a program on this machine, and ends as they do. Options, help, last words. */
#include "ringtree-run.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <ringtree/ringtree.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_RANKS 4096

static const char help[] =
    "Usage: ringtree-run -n N [options] [--] PROGRAM [ARGUMENTS...]\n"
    "\n"
    "Starts N ranks of PROGRAM on this machine; ringtree_init() in them finds the others.\n"
    "\n"
    "  -n, --ranks N      how many (1 to 4096)\n"
    "      --timeout S    stop everything after S seconds and end with status 124 (default: never)\n"
    "      --grace S      seconds between SIGTERM and SIGKILL when stopping (default 5)\n"
    "      --bind         pin rank r to the core number r of those allowed, round robin (default: not pinned)\n"
    "      --no-prefix    ranks write straight to this terminal or file, without \"[rank] \" before each line\n"
    "      --help         this text\n"
    "      --version      the library's version\n"
    "\n"
    "Standard input goes to rank 0; the others read /dev/null. SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are\n"
    "passed on to every rank's process group. When a rank fails the others get SIGTERM, after the grace SIGKILL. When\n"
    "ringtree-run itself is killed, its ranks are too.\n"
    "Each rank finds RINGTREE_ID (it holds a secret: keep the environment private), RINGTREE_RANK, RINGTREE_SIZE,\n"
    "RINGTREE_LOCAL_RANK and RINGTREE_LOCAL_SIZE in its environment.\n"
    "\n"
    "Exit status: 0 all ranks ended with 0; that of the first rank to fail (128 + number for a signal);\n"
    "124 --timeout; 125 ringtree-run could not go on; 126, 127 PROGRAM could not be started, was not found;\n"
    "2 bad command line.\n"
    "\n"
    "Examples:\n"
    "  ringtree-run -n 4 ./train --epochs 3\n"
    "  ringtree-run -n 2 --bind --no-prefix all_reduce_perf -b 8 -e 64M\n"
    "Several machines: use mpirun, srun or torchrun; ringtree_init() understands them.\n";

uint64_t run_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void run_say(const char *format, ...)
{
    char    text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "ringtree-run: %s\n", text);
}

static bool parse_seconds(const char *text, double *seconds)
{
    char *end;
    errno = 0;
    *seconds = strtod(text, &end);
    return !errno && end != text && !*end && isfinite(*seconds) && *seconds >= 0 && *seconds <= 1e8;
}

static bool parse_ranks(const char *text, uint32_t *ranks)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < 1 || value > MAX_RANKS) return false;
    *ranks = (uint32_t)value;
    return true;
}

static int usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int usage(const char *format, ...)
{
    char    text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    run_say("%s. See ringtree-run --help", text);
    return RUN_USAGE_STATUS;
}

static int help_and_leave(const char *text)
{
    bool written = fputs(text, stdout) >= 0 && fflush(stdout) == 0;
    exit(written ? 0 : 1);
}

static int take_option(struct run_options *options, int letter)
{
    switch (letter) {
    case 'n':
        if (parse_ranks(optarg, &options->ranks)) return 0;
        return usage("-n takes a number from 1 to %d, not \"%s\"", MAX_RANKS, optarg);
    case 't':
        if (parse_seconds(optarg, &options->timeout_s) && options->timeout_s > 0) return 0;
        return usage("--timeout takes seconds above 0, not \"%s\"", optarg);
    case 'g':
        if (parse_seconds(optarg, &options->grace_s)) return 0;
        return usage("--grace takes seconds, not \"%s\"", optarg);
    case 'b': options->bind = true; return 0;
    case 'p': options->prefix = false; return 0;
    case 'h': return help_and_leave(help);
    case 'v':
        printf("ringtree-run, ringtree %s\n", ringtree_version());
        exit(fflush(stdout) ? 1 : 0);
    }
    return 0;
}

/* 0, or the status to end with. */
static int parse(struct run_options *options, int argc, char **argv)
{
    static const struct option longs[] = {
        { "ranks", required_argument, NULL, 'n' },   { "timeout", required_argument, NULL, 't' },
        { "grace", required_argument, NULL, 'g' },   { "bind", no_argument, NULL, 'b' },
        { "no-prefix", no_argument, NULL, 'p' },     { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'v' },       { NULL, 0, NULL, 0 },
    };
    *options = (struct run_options){ .grace_s = 5, .prefix = true };
    int letter, status = 0;
    opterr = 0;
    while (!status) {
        int at = optind;
        letter = getopt_long(argc, argv, "+:n:h", longs, NULL);
        if (letter == -1) break;
        if (letter == '?' || letter == ':')
            return usage("%s %s", argv[at], letter == '?' ? "is not an option" : "takes a value");
        status = take_option(options, letter);
    }
    if (status) return status;
    options->command = argv + optind;
    if (!options->ranks) return usage("say how many ranks with -n");
    if (!options->command[0]) return usage("name the program to start");
    return 0;
}

static char *hex_id(const ringtree_id *id)
{
    char *text = malloc(2 * sizeof(id->bytes) + 1);
    if (!text) return NULL;
    for (size_t i = 0; i < sizeof(id->bytes); i++)
        snprintf(text + 2 * i, 3, "%02x", id->bytes[i]);
    return text;
}

/* Signals are blocked before the library starts its thread, so that they all arrive at signal_fd. */
static bool take_signals(struct run *run)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD };
    sigset_t taken;
    sigemptyset(&taken);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        sigaddset(&taken, numbers[i]);
    sigprocmask(SIG_BLOCK, &taken, &run->caller_mask);
    signal(SIGCHLD, SIG_DFL); /* a caller that ignores it would make the kernel reap our ranks */
    run->caller_sigpipe = signal(SIGPIPE, SIG_IGN);
    run->signal_fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
    return run->signal_fd >= 0;
}

/* The status to end with, and why, in words. */
static int last_words(const struct run *run)
{
    const uint32_t n = run->options->ranks;
    const char *others = n > 1 ? "; the others were stopped" : "";
    if (run->timed_out) {
        run_say("not finished after %g s (--timeout); all ranks were stopped", run->options->timeout_s);
        return RUN_TIMEOUT_STATUS;
    }
    if (run->output_lost) {
        run_say("the reader of the output has gone; all ranks were stopped");
        return 128 + SIGPIPE;
    }
    if (run->first_failed >= 0) {
        const struct run_rank *rank = &run->ranks[run->first_failed];
        if (WIFSIGNALED(rank->status)) {
            int number = WTERMSIG(rank->status);
            run_say("rank %d (pid %d) was killed by signal %d (%s)%s", run->first_failed, (int)rank->started_pid,
                    number, strsignal(number), others);
            return 128 + number;
        }
        run_say("rank %d (pid %d) ended with status %d%s", run->first_failed, (int)rank->started_pid,
                WEXITSTATUS(rank->status), others);
        return WEXITSTATUS(rank->status);
    }
    return 0;
}

static int go(struct run *run)
{
    ringtree_id id;
    if (!take_signals(run)) return run_say("cannot watch signals: %s", strerror(errno)), RUN_OWN_STATUS;
    if (ringtree_id_create(&id)) return run_say("%s", ringtree_last_error(NULL)), RUN_OWN_STATUS;
    run->id_text = hex_id(&id);
    run->ranks = calloc(run->options->ranks, sizeof(*run->ranks));
    run->polls = calloc(2 + 2 * (size_t)run->options->ranks, sizeof(*run->polls));
    if (!run->id_text || !run->ranks || !run->polls) return run_say("out of memory"), RUN_OWN_STATUS;
    for (uint32_t r = 0; r < run->options->ranks; r++)
        run->ranks[r].out[0].fd = run->ranks[r].out[1].fd = -1;

    int status = run_start(run);
    if (status) run_stop(run);
    else if (run->options->timeout_s > 0)
        run->deadline_ns = run_now_ns() + (uint64_t)(run->options->timeout_s * 1e9);
    run_watch(run);
    return status ? status : last_words(run);
}

int main(int argc, char **argv)
{
    struct run_options options;
    int status = parse(&options, argc, argv);
    if (status) return status;
    struct run run = { .options = &options, .signal_fd = -1, .input_fd = -1, .first_failed = -1 };
    status = go(&run);
    free(run.ranks);
    free(run.polls);
    free(run.id_text);
    return status;
}
