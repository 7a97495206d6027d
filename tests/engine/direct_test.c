/*
 * The direct paths under random schedules: every rank's state machine is stepped in one process in random order, a rank
 * may run far ahead as its protocol lets it, and many operations follow one another without pause. A wrong turn of the
 * double buffers shows as a wrong sum.
 */
#include "engine/engine.h"
#include "node_standin.h"
#include "reduce/reduce.h"
#include "test.h"
#include <stdlib.h>

#define MOST 16
#define AREA (12288 + 4 * 4096) /* small cells, so that small arrays need many blocks */

static uint64_t state = 88172645463325252u;
static uint32_t random_below(uint32_t n)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (uint32_t)(state >> 33) % n;
}

enum reach { PRIVATE, REMOTE, ONE_PROCESS, HEAP, MIXED }; /* mixed: now and then, a rank's arrays are private */

struct world {
    uint32_t            n;
    enum reach          reach;
    uint64_t            lines; /* calls that went the short way */
    unsigned char      *areas, *heap;
    struct rt_node     *node[MOST];
    struct rt_exchange *exchange[MOST];
};

static void world_open(struct world *world, uint32_t n, enum reach reach, size_t heap_bytes)
{
    world->n = n;
    world->reach = reach;
    world->lines = 0;
    world->areas = aligned_alloc(4096, (size_t)n * AREA);
    memset(world->areas, 0, (size_t)n * AREA);
    world->heap = calloc(1, heap_bytes);
    for (uint32_t r = 0; r < n; r++) {
        world->node[r] = standin_node(n, r, world->areas, AREA, reach == ONE_PROCESS ? 2 : 0,
                                      reach >= HEAP ? world->heap : NULL, heap_bytes);
        world->exchange[r] = rt_exchange_open(world->node[r], reach == REMOTE);
    }
}

static void world_close(struct world *world)
{
    for (uint32_t r = 0; r < world->n; r++) {
        rt_exchange_close(world->exchange[r]);
        free(world->node[r]);
    }
    free(world->areas);
    free(world->heap);
}

struct job { /* one operation as all ranks call it */
    ringtree_collective which;
    size_t              count;
    bool                in_place, scaled;
    uint32_t            root;
};

static bool is_rooted(const struct job *job)
{
    return job->which == RINGTREE_BROADCAST || job->which == RINGTREE_REDUCE || job->which == RINGTREE_GATHER ||
           job->which == RINGTREE_SCATTER;
}

static size_t in_count(const struct job *job, uint32_t n)
{
    return job->count * (job->which == RINGTREE_REDUCE_SCATTER || job->which == RINGTREE_ALL_TO_ALL ||
                                 job->which == RINGTREE_SCATTER
                             ? n : 1);
}
static size_t out_count(const struct job *job, uint32_t n, uint32_t rank)
{
    if ((job->which == RINGTREE_REDUCE || job->which == RINGTREE_GATHER) && rank != job->root) return 0;
    return job->count * (job->which == RINGTREE_ALL_GATHER || job->which == RINGTREE_ALL_TO_ALL ||
                                 job->which == RINGTREE_GATHER
                             ? n : 1);
}

static int32_t value_of(uint32_t job, uint32_t rank, size_t i)
{
    return (int32_t)(job * 1000003u + rank * 7919u + (uint32_t)i * 31u);
}

static int32_t expected(const struct job *job, uint32_t number, uint32_t n, uint32_t rank, size_t i)
{
    int32_t sum = 0;
    switch (job->which) {
    case RINGTREE_BROADCAST: return value_of(number, job->root, i);
    case RINGTREE_SCATTER: return value_of(number, job->root, rank * job->count + i);
    case RINGTREE_GATHER:
    case RINGTREE_ALL_GATHER: return value_of(number, (uint32_t)(i / job->count), i % job->count);
    case RINGTREE_ALL_TO_ALL: return value_of(number, (uint32_t)(i / job->count), rank * job->count + i % job->count);
    case RINGTREE_REDUCE_SCATTER: i += rank * job->count; /* fall through */
    default:
        for (uint32_t r = 0; r < n; r++) sum = (int32_t)((uint32_t)sum + (uint32_t)value_of(number, r, i));
        return job->scaled ? (int32_t)((uint32_t)sum * 3u) : sum;
    }
}

struct rank_run {
    uint32_t         job;
    bool             begun;
    struct rt_call   call;
    struct rt_direct direct;
    int32_t         *input, *output;
};

static void rank_begin(struct world *world, struct rank_run *run, const struct job *job, uint32_t rank, int32_t *memory,
                       size_t half)
{
    run->input = memory;
    run->output = memory + half;
    const bool is_root = is_rooted(job) && rank == job->root;
    if (job->in_place && (job->which == RINGTREE_ALL_GATHER || (job->which == RINGTREE_GATHER && is_root)))
        run->input = run->output + rank * job->count;
    else if (job->in_place && (job->which == RINGTREE_REDUCE_SCATTER || (job->which == RINGTREE_SCATTER && is_root)))
        run->output = run->input + rank * job->count;
    else if (job->in_place && (!is_rooted(job) || is_root)) run->output = run->input;
    const size_t used = job->count * world->n < half ? job->count * world->n : half; /* of each half, at most */
    memset(memory, 0x55, used * sizeof *memory);
    memset(memory + half, 0x55, used * sizeof *memory);
    for (size_t i = 0; i < in_count(job, world->n); i++) run->input[i] = value_of(run->job, rank, i);
    const int32_t three = 3;
    if (world->reach == MIXED) standin_hide(world->node[rank], random_below(2 * world->n) == 0);
    run->call = (struct rt_call){
        .frame = { .sequence = run->job + 1, .count = job->count, .root = is_rooted(job) ? job->root : RT_NONE,
                   .collective = (uint8_t)job->which,
                   .type = RINGTREE_INT32 },
        .input = run->input, .output = run->output, .count = job->count, .element = 4, .type = RINGTREE_INT32,
        .op = RINGTREE_SUM, .in_place = run->input == run->output, .scaled = job->scaled,
    };
    memcpy(run->call.scalar, &three, sizeof three);
    run->direct = (struct rt_direct){ 0 };
    run->begun = true;
}

/* As an engine does: now and then the short way for one line, else step by step. OK: finished. */
static ringtree_status rank_step(struct world *world, struct rank_run *run, uint32_t r, bool first)
{
    bool moved = false;
    struct rt_difference differ;
    if (!first || random_below(2) || !rt_line_fits(world->exchange[r], &run->call) ||
        !rt_line_publish(world->exchange[r], &run->direct, &run->call))
        return rt_direct_advance(world->exchange[r], &run->direct, &run->call, &moved, &differ);
    world->lines++;
    return rt_line_take(world->exchange[r], &run->direct, &run->call) ? RINGTREE_OK : RINGTREE_IN_PROGRESS;
}

/* Every rank runs all jobs; the next one to step is drawn at random. Returns the number of wrong elements. */
static size_t run_jobs(struct world *world, const struct job *jobs, uint32_t count, int32_t *memory, size_t half)
{
    struct rank_run run[MOST] = { { 0 } };
    size_t wrong = 0;
    for (uint64_t steps = 0, finished = 0; finished < world->n && steps < 50000000; steps++) {
        const uint32_t r = random_below(world->n), burst = random_below(20) ? 1 : 40;
        for (uint32_t k = 0; k < burst && run[r].job < count; k++) {
            const struct job *job = &jobs[run[r].job];
            const bool first = !run[r].begun;
            if (first) rank_begin(world, &run[r], job, r, memory + (size_t)r * 2 * half, half);
            if (rank_step(world, &run[r], r, first)) continue;
            for (size_t i = 0; job->which != RINGTREE_BARRIER && i < out_count(job, world->n, r); i++)
                wrong += run[r].output[i] != expected(job, run[r].job, world->n, r, i);
            run[r].begun = false;
            finished += ++run[r].job == count;
        }
        CHECK(steps + 1 < 50000000);
    }
    return wrong;
}

static struct job random_job(uint32_t n)
{
    static const ringtree_collective which[] = {
        RINGTREE_ALL_REDUCE,     RINGTREE_ALL_REDUCE, RINGTREE_BARRIER, RINGTREE_ALL_GATHER,
        RINGTREE_REDUCE_SCATTER, RINGTREE_ALL_TO_ALL, RINGTREE_REDUCE,  RINGTREE_BROADCAST,
        RINGTREE_GATHER,         RINGTREE_SCATTER };
    static const size_t counts[] = { 1, 2, 3, 14, 15, 17, 100, 300, 1000, 1025, 5000, 9999 };
    struct job job = { which[random_below(10)], counts[random_below(12)], random_below(2), false, random_below(n) };
    if (job.which == RINGTREE_BARRIER) return (struct job){ .which = job.which, .count = 1 };
    const bool reduces = job.which == RINGTREE_ALL_REDUCE || job.which == RINGTREE_REDUCE_SCATTER ||
                         job.which == RINGTREE_REDUCE;
    job.scaled = reduces && random_below(4) == 0;
    return job;
}

static void try_worlds(enum reach reach)
{
    enum { JOBS = 120 };
    const size_t half = 10000 * MOST;
    for (uint32_t n = 2; n <= MOST; n += n < 5 ? 1 : 3) {
        struct world world;
        struct job jobs[JOBS];
        world_open(&world, n, reach, (size_t)n * 2 * half * 4);
        for (uint32_t j = 0; j < JOBS; j++) jobs[j] = random_job(n);
        int32_t *memory = reach >= HEAP ? (int32_t *)world.heap : malloc((size_t)n * 2 * half * 4);
        CHECK_EQ(run_jobs(&world, jobs, JOBS, memory, half), 0);
        CHECK(world.lines > 0);
        if (reach < HEAP) free(memory);
        world_close(&world);
    }
}

TEST(private_memory_gives_right_sums_under_any_schedule)
{
    try_worlds(PRIVATE);
}

TEST(private_memory_that_the_kernel_copies_gives_right_sums_under_any_schedule)
{
    struct world world;
    const struct job jobs[] = { { .which = RINGTREE_ALL_GATHER, .count = 70000 },
                                { .which = RINGTREE_ALL_TO_ALL, .count = 66000 },
                                { .which = RINGTREE_ALL_TO_ALL, .count = 66000, .in_place = true },
                                { .which = RINGTREE_GATHER, .count = 2000, .root = 1 },
                                { .which = RINGTREE_SCATTER, .count = 3000, .root = 1 },
                                { .which = RINGTREE_GATHER, .count = 70000, .in_place = true },
                                { .which = RINGTREE_SCATTER, .count = 70000, .in_place = true },
                                { .which = RINGTREE_ALL_GATHER, .count = 70000, .in_place = true } };
    for (uint32_t n = 2; n < 5; n++) {
        const size_t half = (size_t)70000 * n;
        int32_t *memory = malloc((size_t)n * 2 * half * 4);
        world_open(&world, n, REMOTE, 64);
        CHECK_EQ(run_jobs(&world, jobs, sizeof jobs / sizeof *jobs, memory, half), 0);
        world_close(&world);
        free(memory);
    }
    try_worlds(REMOTE);
}

TEST(memory_of_one_process_gives_right_sums_under_any_schedule)
{
    try_worlds(ONE_PROCESS);
}

TEST(memory_of_the_shared_heap_gives_right_sums_under_any_schedule)
{
    try_worlds(HEAP);
}

TEST(memory_that_only_some_ranks_share_gives_right_sums_under_any_schedule)
{
    try_worlds(MIXED);
}

TEST(ranks_that_call_different_counts_both_see_it)
{
    struct world world;
    world_open(&world, 2, PRIVATE, 64);
    int32_t in[200] = { 0 }, out[200];
    struct rt_call call[2];
    struct rt_direct direct[2] = { { 0 } };
    for (uint32_t r = 0; r < 2; r++)
        call[r] = (struct rt_call){ .frame = { .sequence = 1, .count = r ? 200 : 3, .collective = RINGTREE_ALL_REDUCE,
                                               .type = RINGTREE_INT32 },
                                    .input = in, .output = out, .count = r ? 200 : 3, .element = 4,
                                    .type = RINGTREE_INT32 };
    bool moved;
    struct rt_difference differ = { .peer = 9 };
    CHECK_EQ(rt_direct_advance(world.exchange[0], &direct[0], &call[0], &moved, &differ), RINGTREE_IN_PROGRESS);
    CHECK_EQ(rt_direct_advance(world.exchange[1], &direct[1], &call[1], &moved, &differ), RINGTREE_MISMATCH);
    CHECK_EQ(differ.peer, 0);
    CHECK_EQ(differ.theirs.count, 3);
    CHECK_EQ(rt_direct_advance(world.exchange[0], &direct[0], &call[0], &moved, &differ), RINGTREE_MISMATCH);
    CHECK_EQ(differ.peer, 1);
    CHECK_EQ(differ.theirs.count, 200);
    world_close(&world);
}

/* Negative control: with every turn on the same line and cell, a fast rank overwrites what a slow one still reads. */
TEST(the_checker_sees_a_rank_that_overwrites_its_cell)
{
    struct world world;
    const struct job jobs[2] = { { .which = RINGTREE_ALL_REDUCE, .count = 1000 },
                                 { .which = RINGTREE_ALL_REDUCE, .count = 1000 } };
    const size_t half = 10000;
    world_open(&world, 2, PRIVATE, 64);
    int32_t *memory = malloc(4 * half * 4);
    CHECK_EQ(run_jobs(&world, jobs, 1, memory, half), 0);
    world_close(&world);
    world_open(&world, 2, PRIVATE, 64);
    struct rank_run run = { 0 };
    bool moved;
    struct rt_difference differ;
    rank_begin(&world, &run, &jobs[0], 1, memory, half);
    rt_direct_advance(world.exchange[1], &run.direct, &run.call, &moved, &differ);
    memset(world.areas + AREA + 12288, 0x11, AREA - 12288); /* rank 1's cells change after it published them */
    struct rank_run other = { 0 };
    rank_begin(&world, &other, &jobs[0], 0, memory + 2 * half, half);
    CHECK_EQ(rt_direct_advance(world.exchange[0], &other.direct, &other.call, &moved, &differ), RINGTREE_OK);
    size_t wrong = 0;
    for (size_t i = 0; i < 1000; i++) wrong += other.output[i] != expected(&jobs[0], 0, 2, 0, i);
    CHECK(wrong > 0);
    free(memory);
    world_close(&world);
}

TEST_MAIN
