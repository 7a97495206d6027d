/*
 * How long ranks take to start, and the first operation against a steady one. Each rank is a process, pinned to a core
 * in turn, with memory that it has written itself before.
 *
 * Usage: start_time RANKS BYTES
 * Prints, as JSON: ready_ms from the first fork until every rank has its communicator; then of an all_reduce of
 * float32 on rank 0 the first and second time, and the median of those that follow; faults and sleeps of the first.
 * BYTES 0: only the start.
 */
#include <ringtree/ringtree.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STEADY 21
#define RANKS_MOST 4096u
#define APART_US 300e3 /* every rank has long been ready, and has nothing left to do from its start */

struct times { /* shared by all */
    double ready[RANKS_MOST], first, second, steady;
    long   faults, switches; /* of the first */
};

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void pin(uint32_t rank)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(rank % (uint32_t)sysconf(_SC_NPROCESSORS_ONLN), &set);
    sched_setaffinity(0, sizeof(set), &set);
}

static ringtree_status reduce(ringtree_comm *comm, float *in, float *out, size_t count, double *took)
{
    const double    start = now_us();
    ringtree_status status = ringtree_all_reduce(comm, in, out, count, RINGTREE_FLOAT32, RINGTREE_SUM, NULL);
    *took = now_us() - start;
    return status;
}

/* All ranks begin at the same moment, agreed on by the clock: a barrier would be the first operation. */
static void wait_for_all(uint32_t ranks, const struct times *times)
{
    double last = 0;
    for (uint32_t r = 0; r < ranks; r++) {
        while (*(const volatile double *)&times->ready[r] <= 0) usleep(100);
        if (times->ready[r] > last) last = times->ready[r];
    }
    while (now_us() < last + APART_US) {}
}

static ringtree_status measure(ringtree_comm *comm, float *in, float *out, size_t bytes, struct times *times)
{
    const size_t  count = bytes / sizeof(float);
    double        samples[STEADY], first = 0, second = 0;
    struct rusage before, after;
    wait_for_all(ringtree_size(comm), times);
    getrusage(RUSAGE_THREAD, &before);
    ringtree_status status = reduce(comm, in, out, count, &first);
    getrusage(RUSAGE_THREAD, &after);
    if (!status) status = reduce(comm, in, out, count, &second);
    for (int i = 0; !status && i < STEADY; i++)
        status = reduce(comm, in, out, count, &samples[i]);
    if (status || ringtree_rank(comm)) return status;
    qsort(samples, STEADY, sizeof(*samples), by_value);
    times->first = first;
    times->second = second;
    times->steady = samples[STEADY / 2];
    times->faults = after.ru_minflt - before.ru_minflt;
    times->switches = after.ru_nvcsw - before.ru_nvcsw;
    return status;
}

static ringtree_status measure_touched(ringtree_comm *comm, size_t bytes, struct times *times)
{
    float          *in = malloc(bytes), *out = malloc(bytes);
    ringtree_status status = RINGTREE_NO_MEMORY;
    if (in && out) {
        memset(in, 1, bytes);
        memset(out, 2, bytes); /* not 0: that may become calloc(), which touches nothing */
        status = measure(comm, in, out, bytes, times);
    }
    free(in);
    free(out);
    return status;
}

static int run_rank(const ringtree_id *id, uint32_t rank, uint32_t ranks, size_t bytes, struct times *times)
{
    ringtree_comm *comm;
    if (ranks <= (uint32_t)sysconf(_SC_NPROCESSORS_ONLN)) pin(rank);
    if (ringtree_init_id(&comm, id, ranks, rank, NULL)) {
        fprintf(stderr, "rank %u: %s\n", rank, ringtree_last_error(NULL));
        return 1;
    }
    times->ready[rank] = now_us();
    const ringtree_status status = bytes ? measure_touched(comm, bytes, times) : RINGTREE_OK;
    if (status) fprintf(stderr, "rank %u: %s\n", rank, ringtree_last_error(comm));
    return ringtree_destroy(comm) || status;
}

/* Forks the ranks and gives them an id; true: all ended well. */
static bool run_ranks(uint32_t ranks, size_t bytes, struct times *times)
{
    ringtree_id id;
    int         ended, fds[2];
    if (pipe(fds)) return perror("start_time"), false;
    for (uint32_t r = 0; r < ranks; r++)
        if (fork() == 0)
            exit(read(fds[0], &id, sizeof(id)) == sizeof(id) ? run_rank(&id, r, ranks, bytes, times) : 1);
    close(fds[0]);
    bool good = !ringtree_id_create(&id);
    if (!good) fprintf(stderr, "%s\n", ringtree_last_error(NULL));
    for (uint32_t r = 0; good && r < ranks; r++)
        good = write(fds[1], &id, sizeof(id)) == sizeof(id);
    close(fds[1]);
    while (wait(&ended) > 0)
        good = good && !ended;
    return good;
}

int main(int argc, char **argv)
{
    const uint32_t ranks = argc == 3 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    const size_t   bytes = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    if (!ranks || ranks > RANKS_MOST || bytes % sizeof(float))
        return fputs("usage: start_time RANKS BYTES\n", stderr), 2;
    struct times *times = mmap(NULL, sizeof(*times), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (times == MAP_FAILED) return perror("start_time"), 1;
    const double start = now_us();
    const bool   good = run_ranks(ranks, bytes, times);
    double       last = start;
    for (uint32_t r = 0; r < ranks; r++)
        if (times->ready[r] > last) last = times->ready[r];
    printf("{\"ranks\": %u, \"ready_ms\": %.2f, \"bytes\": %zu, \"first_us\": %.2f, \"second_us\": %.2f, "
           "\"steady_us\": %.2f, \"first_faults\": %ld, \"first_sleeps\": %ld}\n", ranks, (last - start) / 1e3, bytes,
           times->first, times->second, times->steady, times->faults, times->switches);
    return good ? 0 : 1;
}
