/*
 * The protocol of perf/compare: its check of results passes what plain loops compute and finds one wrong element of
 * every collective; a library that computes nothing, or fails, is found out; the barrier holds.
 */
#include "perf/compare/board.h"
#include "perf/compare/pattern.h"
#include "perf/compare/protocol.h"
#include "test.h"

#include <pthread.h>
#include <unistd.h>

#define RANKS 4u
#define COUNT 37u

struct array {
    float value[RANKS * COUNT];
};

static struct array inputs[RANKS], outputs[RANKS];

static float sum_of(size_t i)
{
    float sum = 0;
    for (uint32_t r = 0; r < RANKS; r++)
        sum += inputs[r].value[i];
    return sum;
}

/* Element i of rank r's output, from the definitions in ringtree.h. */
static float reference(uint32_t collective, uint32_t root, uint32_t r, size_t i)
{
    const size_t block = i / COUNT, within = i % COUNT;
    switch (collective) {
    case ALL_REDUCE:
    case REDUCE: return sum_of(i);
    case REDUCE_SCATTER: return sum_of(r * COUNT + i);
    case BROADCAST: return inputs[root].value[i];
    case SCATTER: return inputs[root].value[r * COUNT + i];
    case ALL_GATHER:
    case GATHER: return inputs[block].value[within];
    case ALL_TO_ALL: return inputs[block].value[r * COUNT + within];
    default: return inputs[0].value[i]; /* there and back */
    }
}

static struct call call_of(uint32_t collective, uint32_t root, uint32_t rank)
{
    return (struct call){ .collective = collective, .root = root, .count = COUNT, .input = inputs[rank].value,
                          .output = outputs[rank].value };
}

static void compute(uint32_t collective, uint32_t root, uint32_t seed)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        const struct call call = call_of(collective, root, r);
        pattern_fill(&call, r, RANKS, seed);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        const struct call call = call_of(collective, root, r);
        for (size_t i = 0; i < output_count(&call, r, RANKS); i++)
            outputs[r].value[i] = reference(collective, root, r, i);
    }
}

TEST(right_results_of_every_collective_pass)
{
    for (uint32_t collective = 0; collective < COLLECTIVES; collective++)
        for (uint32_t root = 0; root < RANKS; root++) {
            compute(collective, root, root + 5);
            for (uint32_t r = 0; r < RANKS; r++) {
                const struct call call = call_of(collective, root, r);
                CHECK_EQ(pattern_wrong(&call, r, RANKS, root + 5), 0);
            }
        }
}

TEST(one_wrong_element_anywhere_is_counted)
{
    for (uint32_t collective = 0; collective < COLLECTIVES; collective++) {
        compute(collective, 1, 3);
        for (uint32_t r = 0; r < RANKS; r++) {
            const struct call call = call_of(collective, 1, r);
            for (size_t i = 0; i < output_count(&call, r, RANKS); i++) {
                call.output[i] += 1;
                CHECK_EQ(pattern_wrong(&call, r, RANKS, 3), 1);
                call.output[i] -= 1;
            }
        }
    }
}

TEST(the_result_of_the_repeat_before_is_wrong_in_every_element)
{
    compute(ALL_REDUCE, 0, 3);
    const struct call call = call_of(ALL_REDUCE, 0, 2);
    CHECK_EQ(pattern_wrong(&call, 2, RANKS, 4), COUNT);
}

/* ---- the whole of one rank, alone, with a library of a few lines */

static int open_nothing(void *context, uint32_t rank, uint32_t nranks)
{
    (void)context;
    return rank != 0 || nranks != 1;
}

static void close_nothing(void *context)
{
    (void)context;
}

static int copy(void *context, const struct call *call)
{
    (void)context;
    memcpy(call->output, call->input, call->count * sizeof(float));
    return 0;
}

static int do_nothing(void *context, const struct call *call)
{
    (void)context;
    (void)call;
    return 0;
}

static int fail(void *context, const struct call *call)
{
    (void)context;
    (void)call;
    return 9;
}

/* The lines of JSON that it wrote. */
static int run_alone(int (*run)(void *, const struct call *), char *text, size_t room)
{
    char board[] = "compare-board-XXXXXX", out[] = "compare-out-XXXXXX";
    close(mkstemp(board));
    close(mkstemp(out));
    const struct options options = { .board = board, .out = out, .nranks = 1, .budget_ms = 1, .least = 3,
                                     .jobs = "all_reduce:out:private:4,16384+barrier:out:private:0" };
    const struct peer    peer = { NULL, false, open_nothing, run, NULL, close_nothing };
    const int            status = protocol_rank(&options, &peer, 0);
    FILE *file = fopen(out, "r");
    text[file ? fread(text, 1, room - 1, file) : 0] = 0;
    if (file) fclose(file);
    unlink(board);
    unlink(out);
    return status;
}

TEST(a_library_that_copies_is_right_for_one_rank)
{
    char text[4096];
    CHECK_EQ(run_alone(copy, text, sizeof(text)), 0);
    CHECK_HAS(text, "\"bytes\": 4,");
    CHECK_HAS(text, "\"bytes\": 16384,");
    CHECK_HAS(text, "\"dirty\": true, \"wrong\": 0");
    CHECK_HAS(text, "\"collective\": \"barrier\"");
    CHECK(!strstr(text, "\"wrong\": 1"));
}

TEST(a_library_that_does_nothing_is_wrong_in_every_element)
{
    char text[4096];
    CHECK_EQ(run_alone(do_nothing, text, sizeof(text)), 0);
    CHECK_HAS(text, "\"dirty\": false, \"wrong\": 2}");    /* one element, checked before and after */
    CHECK_HAS(text, "\"dirty\": true, \"wrong\": 12288}"); /* 4096, and the last timed result, too */
}

TEST(a_library_that_fails_ends_the_rank_with_its_status)
{
    char text[4096];
    CHECK_EQ(run_alone(fail, text, sizeof(text)), 9);
    CHECK_EQ(strlen(text), 0);
}

/* ---- the board */

#define MEETINGS 2000u

static struct board  shared_board;
static atomic_uint   turns;

static void *meet_often(void *argument)
{
    const uint32_t rank = *(uint32_t *)argument;
    struct seat    seat = { .board = &shared_board, .rank = rank, .nranks = RANKS, .patience = PATIENCE_YIELD };
    for (uint32_t i = 0; i < MEETINGS; i++) {
        atomic_fetch_add(&turns, 1);
        board_barrier(&seat);
        CHECK_EQ(atomic_load(&turns), RANKS * (i + 1));
        CHECK_EQ(board_agree(&seat, rank == 0 ? i : 0), i);
    }
    shared_board.samples[rank][0] = rank == 2 ? 5 : 1;
    board_slowest(&seat, 1);
    CHECK(shared_board.samples[0][0] == 5);
    return NULL;
}

TEST(nobody_leaves_the_barrier_before_all_have_come)
{
    pthread_t threads[RANKS];
    uint32_t  ranks[RANKS];
    for (uint32_t r = 0; r < RANKS; r++) {
        ranks[r] = r;
        CHECK_EQ(pthread_create(&threads[r], NULL, meet_often, &ranks[r]), 0);
    }
    for (uint32_t r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
}

TEST_MAIN
