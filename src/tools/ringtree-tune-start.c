/* Starts a job's ranks as processes of this machine and collects what rank 0 measured. */
#include "ringtree-tune.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAILED 77 /* point.collective of a sentence */

static void write_all(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes) {
        const ssize_t n = write(fd, at, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        at += n;
        bytes -= (size_t)n;
    }
}

static bool read_all(int fd, void *data, size_t bytes)
{
    char *at = data;
    while (bytes) {
        const ssize_t n = read(fd, at, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

static void send_point(const struct tune_point *point, void *context)
{
    write_all(*(const int *)context, point, sizeof *point);
}

/* Does not return. */
static void run_rank(const struct tune_job *job, const ringtree_id *id, uint32_t rank, int out)
{
    ringtree_comm *comm = NULL;
    ringtree_options options = RINGTREE_OPTIONS_DEFAULT;
    options.timeout_ms = 60000;
    if (job->uncorrected) setenv("RINGTREE_CALIBRATE", "off", 1);
    setenv("RINGTREE_TRANSPORTS", job->tcp ? "tcp" : "shm", 1);
    ringtree_status status = ringtree_init_id(&comm, id, job->ranks, rank, &options);
    if (status == RINGTREE_OK) status = tune_measure(comm, job, send_point, &out);
    if (status != RINGTREE_OK && rank == 0) {
        struct tune_point point = { .collective = FAILED };
        write_all(out, &point, sizeof point);
        write_all(out, ringtree_last_error(comm), strlen(ringtree_last_error(comm)));
    }
    ringtree_destroy(comm);
    _exit(status != RINGTREE_OK);
}

static bool collect(int in, struct tune_point **points, size_t *count, char *why, size_t capacity)
{
    struct tune_point point;
    while (read_all(in, &point, sizeof point)) {
        if (point.collective == FAILED) {
            const ssize_t n = read(in, why, capacity - 1);
            why[n > 0 ? n : 0] = '\0';
            return false;
        }
        struct tune_point *more = realloc(*points, (*count + 1) * sizeof *more);
        if (!more) return snprintf(why, capacity, "no memory"), false;
        *points = more;
        more[(*count)++] = point;
    }
    return true;
}

bool tune_run(const struct tune_job *job, struct tune_point **points, size_t *count, char *why, size_t capacity)
{
    ringtree_id id;
    int ends[2], ended;
    bool good = true;
    if (ringtree_id_create(&id) != RINGTREE_OK || pipe(ends) != 0)
        return snprintf(why, capacity, "cannot start: %s", ringtree_last_error(NULL)), false;
    pid_t *pids = calloc(job->ranks, sizeof *pids);
    for (uint32_t r = 0; pids && r < job->ranks; r++) {
        pids[r] = fork();
        if (pids[r] == 0) {
            close(ends[0]);
            run_rank(job, &id, r, ends[1]);
        }
        good &= pids[r] > 0;
    }
    close(ends[1]);
    if (good) good = pids && collect(ends[0], points, count, why, capacity);
    else snprintf(why, capacity, "cannot start a process: %s", strerror(errno));
    close(ends[0]);
    for (uint32_t r = 0; pids && r < job->ranks; r++)
        if (pids[r] > 0 && waitpid(pids[r], &ended, 0) == pids[r] && ended != 0 && good) {
            snprintf(why, capacity, "rank %u ended with %d", r, ended);
            good = false;
        }
    free(pids);
    return good;
}
