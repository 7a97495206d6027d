/*
 * One rank in a network namespace.
 *   check            a few verified operations, then says how many ranks share its memory, and the plan
 *   stream SECONDS   operations until one fails, which it must within that time; says how
 */
#include <ringtree/ringtree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT 700001

static int fail(ringtree_comm *comm, const char *what)
{
    printf("FAILED %s: %s\n", what, ringtree_last_error(comm));
    return 1;
}

static int check(ringtree_comm *comm)
{
    const uint32_t n = ringtree_size(comm), rank = ringtree_rank(comm);
    int32_t       *in = malloc(COUNT * sizeof(*in)), *out = malloc(COUNT * sizeof(*out)), mine = (int32_t)rank, all[64];
    char           plan[4096];
    for (int32_t i = 0; i < COUNT; i++) in[i] = i + (int32_t)rank;
    if (ringtree_all_reduce(comm, in, out, COUNT, RINGTREE_INT32, RINGTREE_SUM, NULL)) return fail(comm, "all_reduce");
    for (int32_t i = 0; i < COUNT; i++)
        if (out[i] != (int32_t)n * i + (int32_t)(n * (n - 1) / 2)) return printf("FAILED: element %d\n", i), 1;
    if (ringtree_broadcast(comm, in, out, COUNT, RINGTREE_INT32, n - 1, NULL)) return fail(comm, "broadcast");
    if (out[COUNT - 1] != COUNT - 1 + (int32_t)n - 1) return printf("FAILED: broadcast\n"), 1;
    if (ringtree_all_gather(comm, &mine, all, 1, RINGTREE_INT32, NULL)) return fail(comm, "all_gather");
    for (int32_t r = 0; r < (int32_t)n; r++)
        if (all[r] != r) return printf("FAILED: all_gather\n"), 1;
    if (ringtree_plan_explain(comm, RINGTREE_ALL_REDUCE, COUNT, RINGTREE_INT32, RINGTREE_SUM, plan, sizeof(plan)))
        return fail(comm, "plan_explain");
    printf("rank %u of %u: %u share its memory\n%s\n", rank, n, ringtree_local_size(comm), plan);
    free(in);
    free(out);
    return ringtree_destroy(comm) ? 1 : 0;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int stream(ringtree_comm *comm, double limit_s)
{
    float          *x = calloc(COUNT, sizeof(*x));
    ringtree_status status = RINGTREE_OK;
    double          last = now();
    printf("streaming\n");
    fflush(stdout);
    while (!(status = ringtree_all_reduce(comm, x, x, COUNT, RINGTREE_FLOAT32, RINGTREE_SUM, NULL))) last = now();
    const double took_s = now() - last;
    printf("%s after %.1f s without progress: %s\n", ringtree_status_name(status), took_s, ringtree_last_error(comm));
    free(x);
    ringtree_destroy(comm);
    return took_s > limit_s;
}

int main(int argc, char **argv)
{
    ringtree_comm *comm = NULL;
    if (ringtree_init(&comm)) return fail(NULL, "init");
    return argc > 2 && !strcmp(argv[1], "stream") ? stream(comm, atof(argv[2])) : check(comm);
}
