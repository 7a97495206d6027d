/*
 * The verifier must be able to say no. Each case changes one thing in a right formula, at one rank or at all, and names
 * the verdict that must follow.
 */
#include "check.h"

#define ALL_RANKS UINT32_MAX
#define ANY_STEP  UINT32_MAX

struct mutation {
    const char         *what;
    ringtree_collective collective;
    const char         *name;
    uint32_t            nranks, rank, lane, index; /* where it applies; the index may be ANY_STEP */
    void              (*change)(struct rt_step *step, const struct rt_shape *shape);
    enum rt_verdict     expected;
};

static const struct mutation  *current;
static const struct rt_algorithm *original;

static struct rt_step mutated_step(const struct rt_shape *shape, uint32_t index)
{
    struct rt_step step = original->step(shape, index);
    const bool here = (current->rank == ALL_RANKS || current->rank == shape->rank) && current->lane == shape->lane &&
                      (current->index == ANY_STEP || current->index == index);
    if (here) current->change(&step, shape);
    return step;
}

#define CHANGE(change_name) static void change_name(struct rt_step *s, const struct rt_shape *shape)
#define IGNORE_SHAPE (void)shape

CHANGE(to_one_further)        { s->to = (s->to + 1) % shape->nranks; }
CHANGE(to_itself)             { s->to = shape->rank; }
CHANGE(from_two_further)      { s->from = (s->from + 2) % shape->nranks; }
CHANGE(source_one_further)    { s->source_chunk = (s->source_chunk + 1) % shape->nranks; }
CHANGE(target_one_further)    { s->target_chunk = (s->target_chunk + 1) % shape->nranks; }
CHANGE(both_one_further)      { source_one_further(s, shape); target_one_further(s, shape); }
CHANGE(chunk_outside)         { s->source_chunk = shape->nranks; }
CHANGE(nothing)               { IGNORE_SHAPE; *s = rt_step_new(RT_NOTHING); }
CHANGE(keep_not_reduce)       { IGNORE_SHAPE; s->verb = RT_RECV_KEEP; s->flags = 0; }
CHANGE(keep_send_not_reduce)  { IGNORE_SHAPE; s->verb = RT_RECV_KEEP_SEND; s->flags = 0; }
CHANGE(reduce_not_keep)       { IGNORE_SHAPE; s->verb = RT_RECV_REDUCE_KEEP_SEND; s->source = RT_OUTPUT; }
CHANGE(reduce_input_again)    { IGNORE_SHAPE; s->verb = RT_RECV_REDUCE_KEEP; s->source = RT_INPUT; }
CHANGE(do_not_pass_on)        { IGNORE_SHAPE; s->verb = RT_RECV_KEEP; s->to = s->to2 = RT_NONE; }
CHANGE(forget_second_child)   { IGNORE_SHAPE; s->to2 = RT_NONE; }
CHANGE(forget_second_source)  { IGNORE_SHAPE; s->from2 = RT_NONE; }
CHANGE(other_operand_order)   { IGNORE_SHAPE; s->flags ^= RT_OWN_FIRST; }
CHANGE(forget_final)          { IGNORE_SHAPE; s->flags &= (uint8_t)~RT_FINAL; }
CHANGE(final_now)             { IGNORE_SHAPE; s->flags |= RT_FINAL; }
CHANGE(same_partner_again)    { if (s->to != RT_NONE) s->to = shape->rank ^ 1;
                                if (s->from != RT_NONE) s->from = shape->rank ^ 1; }
CHANGE(forget_wait)           { IGNORE_SHAPE; s->wait_lane = RT_NONE; }
CHANGE(lend_the_source)       { IGNORE_SHAPE; s->flags = 0; }
CHANGE(one_scratch_for_all)   { IGNORE_SHAPE; if (s->source == RT_SCRATCH) s->source_chunk = 0;
                                if (s->target == RT_SCRATCH) s->target_chunk = 0; }
CHANGE(send_from_input)       { IGNORE_SHAPE; s->source = RT_INPUT; s->source_chunk = 0; }
CHANGE(source_is_output)      { IGNORE_SHAPE; s->source = RT_OUTPUT; }
CHANGE(target_is_input)       { IGNORE_SHAPE; s->target = RT_INPUT; }
CHANGE(length_of_another)     { IGNORE_SHAPE; s->length_chunk = s->length_chunk == RT_NONE ? 1 - s->source_chunk : 1; }
CHANGE(span_one_less)         { IGNORE_SHAPE; s->span--; }
CHANGE(span_too_large)        { s->span = shape->nranks + 1; }
CHANGE(stride_two)            { IGNORE_SHAPE; s->stride = 2; }
CHANGE(no_such_lane)          { IGNORE_SHAPE; s->wait_lane = 7; }
CHANGE(other_root)            { s->to = (shape->root + 1) % shape->nranks; }
CHANGE(receive_before_send)   { *s = original->step(shape, current->index + 1); }

static const struct mutation mutations[] = {
    { "a send goes to the wrong peer", RINGTREE_BROADCAST, "ring", 5, 1, 0, 0, to_one_further, RT_VERDICT_DEADLOCK },
    { "a message overtakes the one that went to the wrong peer",
      RINGTREE_ALL_REDUCE, "ring", 5, 2, 0, 0, to_one_further, RT_VERDICT_MISMATCH },
    { "a rank sends to itself", RINGTREE_ALL_REDUCE, "ring", 5, 2, 0, 0, to_itself, RT_VERDICT_SHAPE },
    { "a receive waits for the wrong peer",
      RINGTREE_ALL_REDUCE, "ring", 5, 2, 0, 3, from_two_further, RT_VERDICT_DEADLOCK },
    { "all ranks start with another chunk",
      RINGTREE_ALL_REDUCE, "ring", 6, ALL_RANKS, 0, 0, source_one_further, RT_VERDICT_MISMATCH },
    { "one rank sends another chunk",
      RINGTREE_REDUCE_SCATTER, "ring", 6, 3, 0, 0, source_one_further, RT_VERDICT_COVERAGE },
    { "one rank works on another chunk",
      RINGTREE_ALL_REDUCE, "ring", 6, 1, 0, 2, both_one_further, RT_VERDICT_MISMATCH },
    { "a chunk number is outside the array",
      RINGTREE_ALL_REDUCE, "ring", 6, 1, 0, 0, chunk_outside, RT_VERDICT_SHAPE },
    { "a block lands on one that is lent",
      RINGTREE_ALL_GATHER, "ring", 6, 1, 0, 6, target_one_further, RT_VERDICT_HAZARD },
    { "a block lands in the wrong place",
      RINGTREE_GATHER, "linear", 6, 0, 0, 5, target_one_further, RT_VERDICT_COVERAGE },
    { "two blocks change places",
      RINGTREE_ALL_GATHER, "direct", 6, 1, 0, 7, target_one_further, RT_VERDICT_COVERAGE },
    { "a step is missing: nobody sends", RINGTREE_BROADCAST, "ring", 5, 0, 0, 0, nothing, RT_VERDICT_DEADLOCK },
    { "a step is missing: nobody receives", RINGTREE_BROADCAST, "ring", 5, 4, 0, 0, nothing, RT_VERDICT_LEFTOVER },
    { "a step is missing: the own block", RINGTREE_ALL_GATHER, "bruck", 5, 3, 0, 0, nothing, RT_VERDICT_UNWRITTEN },
    { "a contribution is kept, not added",
      RINGTREE_REDUCE_SCATTER, "bruck", 8, 3, 0, 3, keep_not_reduce, RT_VERDICT_FINAL },
    { "the result is never completed",
      RINGTREE_REDUCE_SCATTER, "ring", 4, 3, 0, 3, keep_not_reduce, RT_VERDICT_COVERAGE },
    { "the last rank passes on what is incomplete",
      RINGTREE_ALL_REDUCE, "ring", 4, 3, 0, 3, keep_send_not_reduce, RT_VERDICT_COVERAGE },
    { "a finished chunk is added to",
      RINGTREE_ALL_REDUCE, "ring", 4, 3, 0, 4, reduce_not_keep, RT_VERDICT_UNWRITTEN },
    { "ranks add each other twice",
      RINGTREE_ALL_REDUCE, "doubling", 4, ALL_RANKS, 0, ANY_STEP, same_partner_again, RT_VERDICT_COVERAGE },
    { "a complete value is added to", RINGTREE_ALL_REDUCE, "tree", 5, 0, 1, 0, reduce_input_again, RT_VERDICT_FINAL },
    { "a tree node does not pass on", RINGTREE_BROADCAST, "tree", 8, 4, 0, 0, do_not_pass_on, RT_VERDICT_DEADLOCK },
    { "a tree node forgets its second child",
      RINGTREE_BROADCAST, "tree", 8, 4, 0, 0, forget_second_child, RT_VERDICT_DEADLOCK },
    { "a tree node forgets its second child's sum",
      RINGTREE_REDUCE, "tree", 8, 4, 0, 0, forget_second_source, RT_VERDICT_FINAL },
    { "one rank adds in another order",
      RINGTREE_ALL_REDUCE, "doubling", 8, 3, 0, 5, other_operand_order, RT_VERDICT_EXPRESSION },
    { "the owner adds in another order",
      RINGTREE_ALL_REDUCE, "doubling", 6, 1, 0, 2, other_operand_order, RT_VERDICT_EXPRESSION },
    { "AVG would not divide", RINGTREE_ALL_REDUCE, "halving", 8, 2, 0, 5, forget_final, RT_VERDICT_FINAL },
    { "AVG would divide too early", RINGTREE_ALL_REDUCE, "halving", 8, 2, 0, 3, final_now, RT_VERDICT_FINAL },
    { "AVG would divide what is only received",
      RINGTREE_ALL_REDUCE, "halving", 8, 2, 0, 11, final_now, RT_VERDICT_SHAPE },
    { "AVG would divide on a broadcast", RINGTREE_BROADCAST, "ring", 4, 0, 0, 1, final_now, RT_VERDICT_FINAL },
    { "the top sends down before it has added",
      RINGTREE_ALL_REDUCE, "tree", 7, 3, 1, 0, forget_wait, RT_VERDICT_UNWRITTEN },
    { "the slice is sent between nodes before it is added inside",
      RINGTREE_ALL_REDUCE, "hierarchical", 8, 2, 1, 0, forget_wait, RT_VERDICT_UNWRITTEN },
    { "a pairwise exchange lends what it overwrites",
      RINGTREE_ALL_TO_ALL, "pairwise", 4, ALL_RANKS, 0, ANY_STEP, lend_the_source, RT_VERDICT_HAZARD },
    { "doubling has one scratch chunk for all rounds",
      RINGTREE_ALL_REDUCE, "doubling", 8, ALL_RANKS, 0, ANY_STEP, one_scratch_for_all, RT_VERDICT_HAZARD },
    { "doubling lends INPUT",
      RINGTREE_ALL_REDUCE, "doubling", 4, ALL_RANKS, 0, 0, lend_the_source, RT_VERDICT_HAZARD },
    { "the wrong buffer: OUTPUT before it is written",
      RINGTREE_ALL_REDUCE, "halving", 8, 3, 0, 0, source_is_output, RT_VERDICT_UNWRITTEN },
    { "the wrong buffer: INPUT after it was overwritten",
      RINGTREE_ALL_REDUCE, "halving", 8, 3, 0, 2, send_from_input, RT_VERDICT_HAZARD },
    { "INPUT is written to", RINGTREE_ALL_REDUCE, "ring", 4, 3, 0, 4, target_is_input, RT_VERDICT_SHAPE },
    { "a broadcast's rank sends its own INPUT",
      RINGTREE_BROADCAST, "hierarchical", 8, 4, 0, 1, send_from_input, RT_VERDICT_SHAPE },
    { "the ends disagree on a message's length",
      RINGTREE_ALL_REDUCE, "tree", 4, 0, 0, 0, length_of_another, RT_VERDICT_MISMATCH },
    { "the ends disagree on the length of scratch",
      RINGTREE_ALL_REDUCE, "doubling", 8, 3, 0, 2, length_of_another, RT_VERDICT_MISMATCH },
    { "a span is one too short", RINGTREE_ALL_GATHER, "bruck", 8, 3, 0, 3, span_one_less, RT_VERDICT_MISMATCH },
    { "a span is larger than promised", RINGTREE_ALL_GATHER, "bruck", 8, 3, 0, 3, span_too_large, RT_VERDICT_SHAPE },
    { "a stride is wrong", RINGTREE_ALL_GATHER, "bruck", 8, 3, 0, 3, stride_two, RT_VERDICT_UNWRITTEN },
    { "a wait for a lane that is none", RINGTREE_ALL_REDUCE, "tree", 4, 2, 1, 0, no_such_lane, RT_VERDICT_SHAPE },
    { "a rank has another root in mind", RINGTREE_GATHER, "linear", 5, 3, 0, 0, other_root, RT_VERDICT_DEADLOCK },
    { "both receive before they send",
      RINGTREE_ALL_REDUCE, "halving", 2, ALL_RANKS, 0, 0, receive_before_send, RT_VERDICT_DEADLOCK },
};

static void try_mutation(const struct mutation *mutation)
{
    uint32_t node_of[16];
    const struct rt_layout layout = layout_of(node_of, mutation->nranks, 2, false);
    current = mutation;
    original = rt_algorithm_find(mutation->collective, mutation->name);
    struct rt_algorithm wrong = *original;
    wrong.step = mutated_step;
    const struct rt_verify_options o = { .nranks = mutation->nranks, .layout = &layout, .in_place = true };
    CHECK_THAT(rt_verify(original, &o, &(struct rt_report){ 0 }) == RT_VERDICT_OK,
               "the original of: %s", mutation->what);
    if (!check_verdict(&wrong, &o, mutation->expected)) TEST_SAY("that was: %s", mutation->what);
}

TEST(every_mutation_of_a_formula_is_rejected_for_what_it_is)
{
    for (size_t i = 0; i < sizeof mutations / sizeof *mutations; i++) try_mutation(&mutations[i]);
}

/* Whatever single step is dropped, anywhere in a small formula, it is noticed. */
static uint32_t dropped_rank, dropped_lane, dropped_index;

static struct rt_step dropping_step(const struct rt_shape *shape, uint32_t index)
{
    const bool here = shape->rank == dropped_rank && shape->lane == dropped_lane && index == dropped_index;
    return here ? rt_step_new(RT_NOTHING) : original->step(shape, index);
}

static void drop_each_step(const struct rt_algorithm *a, const struct rt_layout *layout, uint32_t n, uint32_t lane)
{
    struct rt_algorithm wrong = *a;
    original = a;
    wrong.step = dropping_step;
    dropped_lane = lane;
    for (dropped_rank = 0; dropped_rank < n; dropped_rank++) {
        const struct rt_shape shape = { .nranks = n, .rank = dropped_rank, .root = 1, .lane = lane, .layout = layout };
        for (dropped_index = 0; dropped_index < a->steps(&shape); dropped_index++) {
            if (a->step(&shape, dropped_index).verb == RT_NOTHING) continue;
            struct rt_report report;
            const struct rt_verify_options o = { .nranks = n, .root = 1, .layout = layout };
            CHECK_THAT(rt_verify(&wrong, &o, &report) != RT_VERDICT_OK, "%s %s without rank %u's step %u",
                       ringtree_collective_name(a->collective), a->name, dropped_rank, dropped_index);
        }
    }
}

TEST(no_step_of_any_formula_can_be_left_out)
{
    uint32_t node_of[6];
    const struct rt_layout layout = layout_of(node_of, 6, 2, false);
    for (uint32_t i = 0; i < rt_algorithm_count; i++) {
        const struct rt_shape shape = { .nranks = 6, .root = 1, .layout = &layout };
        for (uint32_t lane = 0; lane < rt_algorithms[i]->lanes(&shape); lane++)
            drop_each_step(rt_algorithms[i], &layout, 6, lane);
    }
}

TEST_MAIN
