/* Rows for the drawing: which message a step receives, and the earliest row in which that is possible. */
#include "ringtree-plan.h"
#include <stdlib.h>

static uint32_t count_steps(const struct plan *plan)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < plan->nranks; r++)
        for (uint32_t lane = 0; lane < plan->lanes; lane++) {
            const struct rt_shape shape = plan_shape(plan, r, lane);
            count += plan->algorithm->steps(&shape);
        }
    return count;
}

static uint32_t collect(const struct plan *plan, struct plan_event *events)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < plan->nranks; r++)
        for (uint32_t lane = 0; lane < plan->lanes; lane++) {
            const struct rt_shape shape = plan_shape(plan, r, lane);
            const uint32_t steps = plan->algorithm->steps(&shape);
            for (uint32_t i = 0; i < steps; i++) {
                const struct rt_step step = plan->algorithm->step(&shape, i);
                if (step.verb != RT_NOTHING || step.wait_lane != RT_NONE)
                    events[count++] = (struct plan_event){ .step = step, .rank = r, .lane = lane, .index = i,
                                                           .sender = { RT_NONE, RT_NONE }, .after = RT_NONE };
            }
        }
    return count;
}

/* Messages are first in, first out: the k-th receive from a rank in a lane meets its k-th send. */
static uint32_t matching_send(const struct plan_event *events, uint32_t count, uint32_t at, uint32_t from)
{
    const uint32_t to = events[at].rank, lane = events[at].lane;
    uint32_t before = 0;
    for (uint32_t i = at; i-- > 0 && events[i].rank == to && events[i].lane == lane;)
        before += events[i].step.from == from || events[i].step.from2 == from;
    for (uint32_t i = 0; i < count; i++) {
        if (events[i].rank != from || events[i].lane != lane) continue;
        if (events[i].step.to != to && events[i].step.to2 != to) continue;
        if (before-- == 0) return i;
    }
    return RT_NONE;
}

static uint32_t last_of_lane(const struct plan_event *events, uint32_t count, uint32_t rank, uint32_t lane)
{
    uint32_t last = RT_NONE;
    for (uint32_t i = 0; i < count; i++)
        if (events[i].rank == rank && events[i].lane == lane) last = i;
    return last;
}

static void connect_events(struct plan_event *events, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct plan_event *e = &events[i];
        if (e->step.from != RT_NONE) e->sender[0] = matching_send(events, count, i, e->step.from);
        if (e->step.from2 != RT_NONE) e->sender[1] = matching_send(events, count, i, e->step.from2);
        if (e->step.wait_lane != RT_NONE) e->after = last_of_lane(events, count, e->rank, e->step.wait_lane);
    }
}

static uint32_t row_after(const struct plan_event *events, uint32_t i)
{
    const struct plan_event *e = &events[i];
    const bool follows = i > 0 && events[i - 1].rank == e->rank && events[i - 1].lane == e->lane;
    const uint32_t before[4] = { e->sender[0], e->sender[1], e->after, follows ? i - 1 : RT_NONE };
    uint32_t row = 0;
    for (uint32_t k = 0; k < 4; k++)
        if (before[k] != RT_NONE && events[before[k]].row + 1 > row) row = events[before[k]].row + 1;
    return row;
}

/* Rows only grow, and no formula is a cycle: `count` passes are enough for any. */
static void set_rows(struct plan_event *events, uint32_t count)
{
    bool changed = true;
    for (uint32_t pass = 0; changed && pass < count; pass++) {
        changed = false;
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t row = row_after(events, i);
            changed |= row != events[i].row;
            events[i].row = row;
        }
    }
}

struct plan_event *plan_schedule(const struct plan *plan, uint32_t *count)
{
    struct plan_event *events = calloc(count_steps(plan) + 1, sizeof *events);
    if (!events) return NULL;
    *count = collect(plan, events);
    connect_events(events, *count);
    set_rows(events, *count);
    return events;
}
