/* What ringtree-info says of a communicator's memory, against what a rank's heap and its memory in use grow by when it
 * joins one. */
#include "test.h"
#include <malloc.h>
#include <ringtree/ringtree.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BOUND 1.15 /* either way; beside the structures there are the allocator's own bytes and small lists */
#define SLACK 4096
/* Of memory in use: whole pages, the stacks of threads, what libraries write when they are first called. */
#define USED_BOUND 1.3
#define USED_SLACK (192 << 10)

struct grown {
    size_t heap, used;
};

static size_t heap_bytes(void)
{
    const struct mallinfo2 heap = mallinfo2();
    return heap.uordblks + heap.hblkhd;
}

/* Pages of this process's own that are in memory. */
static size_t used_bytes(void)
{
    char line[128];
    size_t kib = 0;
    FILE *status = fopen("/proc/self/status", "re");
    while (status && fgets(line, sizeof line, status)) sscanf(line, "RssAnon: %zu", &kib);
    if (status) fclose(status);
    return kib << 10;
}

static void run_rank(const ringtree_id *id, uint32_t rank, uint32_t n, struct grown *grown)
{
    ringtree_comm *comm;
    free(malloc(1)); /* the heap itself */
    const struct grown before = { heap_bytes(), used_bytes() };
    if (ringtree_init_id(&comm, id, n, rank, NULL)) _exit(1);
    if (rank == n - 1) *grown = (struct grown){ heap_bytes() - before.heap, used_bytes() - before.used };
    _exit(ringtree_destroy(comm) != RINGTREE_OK);
}

/* Of the last rank, whose process has not made the id. Zeros: it did not work. */
static struct grown measured(uint32_t n)
{
    ringtree_id id;
    int ended, failed = 0;
    const struct grown none = { 0, 0 };
    struct grown *grown = mmap(NULL, sizeof *grown, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int fds[2];
    if (grown == MAP_FAILED || pipe(fds)) return none;
    for (uint32_t r = 0; r < n; r++)
        if (fork() == 0) {
            if (read(fds[0], &id, sizeof id) != sizeof id) _exit(1);
            run_rank(&id, r, n, grown);
        }
    if (ringtree_id_create(&id)) return none;
    for (uint32_t r = 0; r < n; r++)
        if (write(fds[1], &id, sizeof id) != sizeof id) return none;
    while (wait(&ended) > 0) failed |= ended;
    close(fds[0]);
    close(fds[1]);
    return failed ? none : *grown;
}

static size_t stated(uint32_t n)
{
    char command[512], line[256];
    size_t bytes = 0;
    snprintf(command, sizeof command, "'%s' --memory -n %u", INFO, n);
    FILE *pipe = popen(command, "r");
    while (pipe && fgets(line, sizeof line, pipe))
        if (strstr(line, "at the start")) sscanf(line, " at the start %zu", &bytes);
    return pipe && pclose(pipe) == 0 ? bytes : 0;
}

static bool agree(size_t said, size_t grown)
{
    return (double)grown <= (double)said * BOUND + SLACK && (double)said <= (double)grown * BOUND + SLACK;
}

TEST(what_a_communicator_takes_at_the_start_is_what_is_stated)
{
    static const uint32_t ranks[] = { 2, 8, 64 };
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        const size_t said = stated(ranks[i]);
        const struct grown grown = measured(ranks[i]);
        printf("%u ranks: %zu bytes stated; heap %zu, %.2f times; in use %zu, %.2f times\n", ranks[i], said, grown.heap,
               (double)grown.heap / (double)said, grown.used, (double)grown.used / (double)said);
        CHECK(said && grown.heap);
        CHECK_THAT(agree(said, grown.heap), "%u ranks: %zu bytes stated, heap of %zu", ranks[i], said, grown.heap);
        CHECK_THAT((double)grown.used <= (double)said * USED_BOUND + USED_SLACK,
                   "%u ranks: %zu bytes stated, %zu in use", ranks[i], said, grown.used);
    }
}

TEST(a_statement_that_is_half_or_twice_the_truth_is_found)
{
    const size_t grown = measured(16).heap;
    CHECK(grown);
    CHECK(!agree(grown / 2, grown));
    CHECK(!agree(grown * 2, grown));
}

TEST_MAIN
