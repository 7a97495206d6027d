/* ringtree-run in four parts: options and words (ringtree-run.c), starting, output, watching. */
#ifndef RT_RINGTREE_RUN_H
#define RT_RINGTREE_RUN_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RUN_USAGE_STATUS   2
#define RUN_TIMEOUT_STATUS 124
#define RUN_OWN_STATUS     125 /* ringtree-run itself could not go on */

struct run_options {
    uint32_t ranks;
    double   timeout_s; /* 0: none */
    double   grace_s;   /* between SIGTERM and SIGKILL */
    bool     bind, prefix;
    char   **command; /* NULL-terminated */
};

/* One output stream of one rank, until its end. */
struct run_stream {
    int    fd; /* read end; -1: ended */
    char  *line;
    size_t used, capacity;
};

struct run_rank {
    pid_t             pid; /* 0: not started, or reaped */
    pid_t             started_pid;
    int               status; /* as waitpid() gives it, once reaped */
    struct run_stream out[2]; /* stdout, stderr */
};

struct run {
    const struct run_options *options;
    struct run_rank          *ranks;
    char                     *id_text; /* 512 hex digits; given to the ranks in their environment only */
    int                       signal_fd;
    int                       input_fd; /* write end of rank 0's stdin when a terminal is passed on; -1: not */
    sigset_t                  caller_mask;
    void                    (*caller_sigpipe)(int);
    struct pollfd            *polls; /* 2 + 2 * ranks */
    uint64_t                  deadline_ns, kill_ns; /* 0: none */
    uint64_t                  abandon_ns; /* when streams that strangers hold open are given up; 0: not yet */
    uint32_t                  living;
    int                       first_failed; /* rank; -1: none */
    bool                      stopping, timed_out, output_lost;
};

uint64_t run_now_ns(void);

/* Says "ringtree-run: ..." on stderr. */
void run_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- starting: forks all ranks; 0, or the status to end with (already said; some may run: stop them). */
int run_start(struct run *run);

/* ---- watching */

/* Signals, dead children, deadlines: everything that must go on even while output is blocked. Never blocks, prints
 * nothing. */
void run_attend(struct run *run);
/* When run_attend() has to be called again at the latest, or `also_ns` (0: never): milliseconds for poll(), or -1. */
int run_attend_within_ms(const struct run *run, uint64_t also_ns);
/* SIGTERM to all, SIGKILL after the grace. Idempotent. */
void run_stop(struct run *run);
/* Until all ranks have ended and their output is out. */
void run_watch(struct run *run);

/* ---- output */

/* Takes what can be read; emits whole lines. False: the stream has ended. */
bool run_stream_read(struct run *run, uint32_t rank, int which);
/* The rest of a line that will not be completed. */
void run_stream_end(struct run *run, uint32_t rank, int which);

#endif
