/* Handing the core over by sched_yield() between two threads that share it: half of a round trip. */
#include "limits.h"

#include <sched.h>

#define ROUNDS 3000u

struct hand_over {
    atomic_uint turn; /* both on one core: it stays in the cache */
    uint32_t    repeats;
    double      samples[MOST_REPEATS];
};

static void side_of_hand_over(struct side *side)
{
    struct hand_over *hand_over = side->context;
    for (uint32_t r = 0; r < hand_over->repeats; r++) {
        pair_meet(side);
        const double start = now_ns();
        for (unsigned i = 0; i < ROUNDS; i++) {
            const unsigned mine = 2 * (r * ROUNDS + i) + side->number;
            while (atomic_load_explicit(&hand_over->turn, memory_order_acquire) != mine)
                sched_yield();
            atomic_store_explicit(&hand_over->turn, mine + 1, memory_order_release);
        }
        if (side->number == 0) hand_over->samples[r] = (now_ns() - start) / ROUNDS / 2e3;
    }
}

void meter_yield(struct limits *limits)
{
    const struct figure figure = { .name = "yield", .unit = "us",
                                   .what = "hand the core to the other by sched_yield()" };
    const int           cores[2] = { limits->cores[0], limits->cores[0] };
    struct hand_over    hand_over = { .repeats = limits->repeats };
    if (!pair_run(cores, side_of_hand_over, &hand_over)) figure_missing(limits, figure, "cannot pin two threads");
    else figure_add(limits, figure, hand_over.samples, hand_over.repeats);
}
