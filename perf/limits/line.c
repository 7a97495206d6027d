/*
 * One cache line between two cores. One way: the sides answer each other in turns, half of the round trip. Exchange:
 * both write their own line at once and wait for the other's, which is what the smallest all_reduce cannot avoid.
 */
#include "limits.h"

#define ROUNDS 20000u
#define PROBE_REPEATS 15u

struct lines {
    struct { _Alignas(2 * LINE) atomic_uint word; } of[2]; /* apart by two: lines are fetched in pairs */
    uint32_t repeats, rounds;
    bool     in_turns;
    double   samples[MOST_REPEATS];
};

/* The writer may be one round ahead of who reads here. */
static void wait_for(atomic_uint *word, unsigned value)
{
    while (atomic_load_explicit(word, memory_order_acquire) < value) {}
}

static void take_turns(struct lines *lines, unsigned me, unsigned first)
{
    for (unsigned i = first; i < first + lines->rounds; i++) {
        if (me) wait_for(&lines->of[0].word, i);
        atomic_store_explicit(&lines->of[me].word, i, memory_order_release);
        if (!me) wait_for(&lines->of[1].word, i);
    }
}

static void write_at_once(struct lines *lines, unsigned me, unsigned first)
{
    for (unsigned i = first; i < first + lines->rounds; i++) {
        atomic_store_explicit(&lines->of[me].word, i, memory_order_release);
        wait_for(&lines->of[!me].word, i);
    }
}

static void side_of_lines(struct side *side)
{
    struct lines *lines = side->context;
    for (uint32_t r = 0; r < lines->repeats; r++) {
        const unsigned first = 1 + r * lines->rounds;
        pair_meet(side);
        const double start = now_ns();
        (lines->in_turns ? take_turns : write_at_once)(lines, side->number, first);
        const double each = (now_ns() - start) / lines->rounds;
        if (side->number == 0) lines->samples[r] = lines->in_turns ? each / 2 : each;
    }
}

static void measure(struct limits *limits, bool in_turns, struct figure figure)
{
    struct lines lines = { .repeats = limits->repeats, .rounds = ROUNDS, .in_turns = in_turns };
    if (limits->cores[0] == limits->cores[1]) figure_missing(limits, figure, "one core only");
    else if (!pair_run(limits->cores, side_of_lines, &lines)) figure_missing(limits, figure, "cannot pin two threads");
    else figure_add(limits, figure, lines.samples, lines.repeats);
}

void meter_line(struct limits *limits)
{
    measure(limits, true, (struct figure){ .name = "line_one_way", .unit = "ns",
            .what = "a cache line to the other core, half a round trip" });
    measure(limits, false, (struct figure){ .name = "line_exchange", .unit = "ns",
            .what = "both cores write a line and read the other's at once" });
}

double line_one_way_ns(const struct limits *limits)
{
    struct limits scratch = { .cores = { limits->cores[0], limits->cores[1] }, .repeats = PROBE_REPEATS };
    measure(&scratch, true, (struct figure){ .name = "line_one_way" });
    return scratch.figures[0].repeats ? scratch.figures[0].median : 0;
}
