/* A plan in words. */
#include "ringtree-plan.h"
#include "base/text.h"
#include <string.h>

void plan_chunk_words(const struct plan *plan, uint8_t buffer, uint32_t first, const struct rt_step *step, char *text,
                      size_t capacity)
{
    const uint64_t wrap = buffer == RT_SCRATCH ? UINT64_MAX : plan->chunks;
    const uint32_t last = (uint32_t)((first + (uint64_t)(step->span - 1) * step->stride) % wrap);
    if (step->span == 1) snprintf(text, capacity, "%u", first);
    else if (step->stride == 1) snprintf(text, capacity, "%u..%u", first, last);
    else snprintf(text, capacity, "%u, %u, .. %u", first, (uint32_t)((first + (uint64_t)step->stride) % wrap), last);
}

static void append_chunks(const struct plan *plan, const struct rt_step *step, uint8_t buffer, uint32_t first,
                          char *text, size_t capacity)
{
    static const char *const names[] = { "INPUT", "OUTPUT", "SCRATCH" };
    char chunks[64];
    plan_chunk_words(plan, buffer, first, step, chunks, sizeof chunks);
    rt_append(text, capacity, "%s[%s]", names[buffer], chunks);
}

static void append_send(const struct rt_step *step, char *text, size_t capacity)
{
    if (step->to != RT_NONE) rt_append(text, capacity, "%s to %u", step->verb == RT_SEND ? "" : ", send", step->to);
    if (step->to2 != RT_NONE) rt_append(text, capacity, " and %u", step->to2);
    if (step->flags & RT_COPIED) rt_append(text, capacity, " (copied when in place)");
}

static void append_local(const struct plan *plan, const struct rt_step *step, char *text, size_t capacity)
{
    rt_append(text, capacity, step->verb == RT_SEND ? "send " : step->verb == RT_COPY ? "copy " : "add ");
    append_chunks(plan, step, step->source, step->source_chunk, text, capacity);
    if (step->verb == RT_SEND) return;
    rt_append(text, capacity, " to ");
    append_chunks(plan, step, step->target, step->target_chunk, text, capacity);
}

static void append_received(const struct plan *plan, const struct rt_step *step, char *text, size_t capacity)
{
    rt_append(text, capacity, "receive from %u", step->from);
    if (step->from2 != RT_NONE) rt_append(text, capacity, " and %u", step->from2);
    if (rt_step_reduces(step)) {
        rt_append(text, capacity, step->flags & RT_OWN_FIRST ? ", add behind " : ", add ");
        append_chunks(plan, step, step->source, step->source_chunk, text, capacity);
    }
    if (!rt_step_keeps(step)) return;
    rt_append(text, capacity, ", keep as ");
    append_chunks(plan, step, step->target, step->target_chunk, text, capacity);
}

void plan_step_words(const struct plan *plan, const struct rt_step *step, char *text, size_t capacity)
{
    text[0] = '\0';
    if (step->wait_lane != RT_NONE) rt_append(text, capacity, "wait for lane %u, ", step->wait_lane);
    if (step->verb == RT_NOTHING) {
        rt_append(text, capacity, "nothing");
        return;
    }
    if (step->verb == RT_SEND || step->verb == RT_COPY || step->verb == RT_REDUCE)
        append_local(plan, step, text, capacity);
    else append_received(plan, step, text, capacity);
    if (step->flags & RT_FINAL) rt_append(text, capacity, ", final");
    append_send(step, text, capacity);
}

struct rt_shape plan_shape(const struct plan *plan, uint32_t rank, uint32_t lane)
{
    return (struct rt_shape){ .nranks = plan->nranks, .rank = rank, .root = plan->root, .lane = lane,
                              .layout = plan->layout };
}

static void print_lane(const struct plan *plan, uint32_t rank, uint32_t lane, FILE *out)
{
    const struct rt_shape shape = plan_shape(plan, rank, lane);
    const uint32_t count = plan->algorithm->steps(&shape);
    char words[256];
    if (plan->lanes > 1) fprintf(out, "rank %u, lane %u\n", rank, lane);
    else fprintf(out, "rank %u\n", rank);
    for (uint32_t i = 0; i < count; i++) {
        const struct rt_step step = plan->algorithm->step(&shape, i);
        plan_step_words(plan, &step, words, sizeof words);
        fprintf(out, "%5u  %s\n", i, words);
    }
    if (count == 0) fprintf(out, "       no steps\n");
}

static void print_head(const struct plan *plan, FILE *out)
{
    fprintf(out, "%s %s: %u rank%s", ringtree_collective_name(plan->algorithm->collective), plan->algorithm->name,
            plan->nranks, plan->nranks == 1 ? "" : "s");
    if (plan->root != RT_NONE) fprintf(out, ", root %u", plan->root);
    if (plan->layout) fprintf(out, ", %u nodes", plan->layout->nnodes);
    fprintf(out, ", %u chunk%s, %u lane%s, at least %u slot%s per link\n", plan->chunks, plan->chunks == 1 ? "" : "s",
            plan->lanes, plan->lanes == 1 ? "" : "s", plan->algorithm->min_slots,
            plan->algorithm->min_slots == 1 ? "" : "s");
}

void plan_print(const struct plan *plan, uint32_t rank, FILE *out)
{
    print_head(plan, out);
    for (uint32_t r = 0; r < plan->nranks; r++)
        for (uint32_t lane = 0; lane < plan->lanes; lane++)
            if (rank == RT_NONE || rank == r) print_lane(plan, r, lane, out);
}
