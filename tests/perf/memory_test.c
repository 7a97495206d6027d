/* What ringtree-info says of a communicator's memory, against what a rank's heap grows by when it joins one. */
#include "test.h"
#include <malloc.h>
#include <ringtree/ringtree.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BOUND 1.15 /* either way; beside the structures there are the allocator's own bytes and small lists */
#define SLACK 4096

static size_t heap_bytes(void)
{
    const struct mallinfo2 heap = mallinfo2();
    return heap.uordblks + heap.hblkhd;
}

static void run_rank(const ringtree_id *id, uint32_t rank, uint32_t n, size_t *grown)
{
    ringtree_comm *comm;
    free(malloc(1)); /* the heap itself */
    const size_t before = heap_bytes();
    if (ringtree_init_id(&comm, id, n, rank, NULL)) _exit(1);
    if (rank == n - 1) *grown = heap_bytes() - before;
    _exit(ringtree_destroy(comm) != RINGTREE_OK);
}

/* Of the last rank, whose process has not made the id. 0: it did not work. */
static size_t measured(uint32_t n)
{
    ringtree_id id;
    int ended, failed = 0;
    size_t *grown = mmap(NULL, sizeof *grown, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int fds[2];
    if (grown == MAP_FAILED || pipe(fds)) return 0;
    for (uint32_t r = 0; r < n; r++)
        if (fork() == 0) {
            if (read(fds[0], &id, sizeof id) != sizeof id) _exit(1);
            run_rank(&id, r, n, grown);
        }
    if (ringtree_id_create(&id)) return 0;
    for (uint32_t r = 0; r < n; r++)
        if (write(fds[1], &id, sizeof id) != sizeof id) return 0;
    while (wait(&ended) > 0) failed |= ended;
    close(fds[0]);
    close(fds[1]);
    return failed ? 0 : *grown;
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
    static const uint32_t ranks[] = { 2, 16, 64 };
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        const size_t said = stated(ranks[i]), grown = measured(ranks[i]);
        printf("%u ranks: %zu bytes stated, %zu measured\n", ranks[i], said, grown);
        CHECK(said && grown);
        CHECK_THAT(agree(said, grown), "%u ranks: %zu bytes stated, %zu measured", ranks[i], said, grown);
    }
}

TEST(a_statement_that_is_half_or_twice_the_truth_is_found)
{
    const size_t grown = measured(16);
    CHECK(grown);
    CHECK(!agree(grown / 2, grown));
    CHECK(!agree(grown * 2, grown));
}

TEST_MAIN
