/* topk: exactly the largest are kept, ties included; what is sent and what is kept add up; sums of sparse arrays. */
#include "reduce/reference.h"
#include "two_shot.h"

static const double ratios[] = { 0.001, 0.01, 0.1 };

static uint32_t magnitude(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & 0x7fffffff;
}

static bool is_kept(const float *values, size_t i, struct rt_cut cut)
{
    const uint32_t m = magnitude(values[i]);
    return m && (m > cut.magnitude || (m == cut.magnitude && i < cut.ties_end));
}

struct number {
    uint32_t magnitude;
    size_t   at;
};

/* Larger first, of equals the first. */
static int by_rank(const void *a, const void *b)
{
    const struct number *x = a, *y = b;
    if (x->magnitude != y->magnitude) return x->magnitude < y->magnitude ? 1 : -1;
    return x->at < y->at ? -1 : x->at > y->at;
}

/* By sorting all: 0, or how many elements the cut keeps or drops wrongly. */
static size_t differs_from_sorting(const float *values, size_t count, size_t kept, struct rt_cut cut)
{
    struct number *order = malloc((count + 1) * sizeof *order);
    size_t finite = 0, wrong = 0;
    for (size_t i = 0; i < count; i++)
        if (isfinite(values[i])) order[finite++] = (struct number){ magnitude(values[i]), i };
    qsort(order, finite, sizeof *order, by_rank);
    for (size_t i = 0; i < finite; i++)
        wrong += is_kept(values, order[i].at, cut) != (i < kept && order[i].magnitude);
    free(order);
    return wrong;
}

static void check_cut(const float *values, size_t count, size_t kept, const char *what)
{
    uint32_t *scratch = malloc(rt_topk_scratch(count, kept) * sizeof *scratch + 1);
    const struct rt_cut cut = rt_topk_select(values, 0, count, kept, scratch);
    const struct rt_cut slow = rt_topk_select(values, 0, count, kept, NULL);
    const size_t wrong = differs_from_sorting(values, count, kept, cut);
    CHECK_THAT(!wrong, "%s: %zu of %zu, %zu kept", what, wrong, count, kept);
    CHECK_THAT(cut.magnitude == slow.magnitude && cut.ties_end == slow.ties_end, "%s: the sample matters", what);
    free(scratch);
}

EVERY_PATH(the_largest_are_kept_exactly_so_many_and_of_equal_ones_the_first)
{
    static const size_t counts[] = { 1, 2, 63, 64, 65, 1000, 4096, 70001 };
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (int r = 0; r < 3; r++)
            for (int inputs = 0; inputs < INPUTS; inputs++) {
                float *values = new_floats(counts[c]);
                const struct rt_codec codec = { .kind = RT_CODEC_TOPK, .ratio = (float)ratios[r] };
                fill_inputs(values, counts[c], (enum inputs)inputs, 0, c);
                check_cut(values, counts[c], rt_topk_kept(&codec, counts[c]), input_names[inputs]);
                free(values);
            }
}

TEST(selection_holds_where_the_sample_misleads)
{
    const size_t count = 200000;
    float *values = new_floats(count);
    check_cut(values, count, 2000, "zeros");
    for (size_t i = 0; i < count; i++) values[i] = 1;
    check_cut(values, count, 2000, "ones");
    for (size_t i = 0; i < count; i++) values[i] = i % 12 ? 2 : 1e-9f; /* the sample sees every 12th */
    check_cut(values, count, 2000, "large between the sampled");
    for (size_t i = 0; i < count; i++) values[i] = i % 12 ? 1e-9f : 2;
    check_cut(values, count, 20000, "small between the sampled");
    for (size_t i = 0; i < count; i++) values[i] = 1 + (float)(i * 7919 % 1000) * 2e-7f;
    check_cut(values, count, 20000, "many all but equal, with ties");
    for (size_t i = 0; i < count; i++) values[i] = (float)(i * 7919 % 1009);
    check_cut(values, count, 2000, "ties among many apart");
    for (size_t i = 0; i < count; i += 300) values[i] = i % 2 ? NAN : INFINITY;
    check_cut(values, count, 2000, "the same, with some that are not finite");
    for (size_t i = 0; i < count; i++) values[i] = i > count / 2 ? (float)i : -(float)(i % 7) * FLT_TRUE_MIN;
    check_cut(values, count, 2000, "rising");
    for (size_t i = 0; i < count; i += 3) values[i] = i % 2 ? NAN : INFINITY;
    check_cut(values, count, 2000, "a third not finite");
    for (size_t i = 0; i < count; i++) values[i] = NAN;
    check_cut(values, count, 2000, "all NaN");
    free(values);
}

/* The residual is completed in the pass that collects, or before it. */
EVERY_PATH(selecting_while_the_residual_is_completed_gives_the_bits_of_completing_it_first)
{
    static const size_t counts[] = { 1, 63, 4095, 70001, 200003 };
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        const size_t count = counts[c], bytes = count * sizeof(float);
        float *values = new_floats(count), *first = new_floats(count), *fused = new_floats(count);
        uint32_t *scratch = malloc(rt_topk_scratch(count, count / 100 + 1) * sizeof *scratch);
        fill_inputs(values, count, GAUSSIAN, 0, c);
        fill_inputs(first, count, STUDENT, 1, c);
        memcpy(fused, first, bytes);
        const struct rt_topk_source source = { .values = values, .residual = fused };
        struct rt_topk_found found;
        const struct rt_cut cut = rt_topk_find(&source, 0, count, count / 100 + 1, scratch, &found);
        rt_codec_prepare(values, first, count);
        CHECK_THAT(!memcmp(first, fused, bytes), "%zu elements", count);
        CHECK_EQ(differs_from_sorting(first, count, count / 100 + 1, cut), 0);
        free(values);
        free(first);
        free(fused);
        free(scratch);
    }
}

TEST(a_cut_one_step_off_is_seen)
{
    float values[1000];
    fill_inputs(values, 1000, GAUSSIAN, 0, 1);
    struct rt_cut cut = rt_topk_select(values, 0, 1000, 100, NULL);
    CHECK_EQ(differs_from_sorting(values, 1000, 100, cut), 0);
    cut.magnitude--, cut.ties_end = 0;
    CHECK_EQ(differs_from_sorting(values, 1000, 100, cut), 0); /* the same set, said otherwise */
    cut.magnitude++;
    CHECK_EQ(differs_from_sorting(values, 1000, 100, cut), 1);
}

/* ------------------------------------------------------------------ encode and decode */

struct sent {
    size_t  count, kept, length;
    float  *values, *decoded, *residual;
    uint8_t *bytes;
    struct rt_cut cut;
    struct rt_codec_report report;
};

static struct sent send_all(const struct rt_codec *codec, size_t count, enum inputs inputs)
{
    struct sent sent = { .count = count, .kept = rt_topk_kept(codec, count) };
    sent.values = new_floats(count);
    sent.decoded = new_floats(count);
    sent.residual = new_floats(count);
    sent.bytes = malloc(rt_codec_max_bytes(codec, count) + 1);
    fill_inputs(sent.values, count, inputs, 0, 9);
    sent.cut = rt_topk_select(sent.values, 0, count, sent.kept, NULL);
    const struct rt_part part = { .count = count, .cut = sent.cut };
    sent.length = rt_codec_encode(codec, &part, sent.values, sent.residual, sent.bytes, &sent.report);
    CHECK_EQ(rt_codec_decode(codec, sent.decoded, count, sent.bytes, sent.length, NULL), RINGTREE_OK);
    return sent;
}

static void free_sent(struct sent *sent)
{
    free(sent->values);
    free(sent->decoded);
    free(sent->residual);
    free(sent->bytes);
}

EVERY_PATH(what_is_dropped_is_at_most_its_share_and_no_larger_than_what_is_kept)
{
    for (int r = 0; r < 3; r++)
        for (int inputs = 0; inputs < INPUTS; inputs++) {
            const struct rt_codec codec = { .kind = RT_CODEC_TOPK, .ratio = (float)ratios[r] };
            struct sent sent = send_all(&codec, 50021, (enum inputs)inputs);
            double all = 0, dropped = 0;
            float least_kept = INFINITY, most_dropped = 0;
            for (size_t i = 0; i < sent.count; i++) {
                const float v = sent.values[i];
                all += (double)v * (double)v;
                if (is_kept(sent.values, i, sent.cut)) least_kept = fminf(least_kept, fabsf(v));
                if (sent.decoded[i] != v) most_dropped = fmaxf(most_dropped, fabsf(v));
                if (sent.decoded[i] != v) dropped += (double)v * (double)v;
                CHECK(sent.decoded[i] == v || sent.decoded[i] == 0);
                CHECK(sent.decoded[i] + sent.residual[i] == v);
            }
            const double share = 1 - (double)sent.kept / (double)sent.count;
            CHECK_THAT(dropped <= share * all * (1 + 1e-12), "%s at %g: %g of %g", input_names[inputs], ratios[r],
                       dropped, all);
            CHECK_THAT(most_dropped <= least_kept, "%s at %g", input_names[inputs], ratios[r]);
            free_sent(&sent);
        }
}

EVERY_PATH(of_equal_elements_the_first_travel_and_no_more)
{
    const struct rt_codec codec = { .kind = RT_CODEC_TOPK, .ratio = 0.25f };
    float values[20000], decoded[20000];
    static uint8_t bytes[20000 * 5];
    for (int i = 0; i < 20000; i++) values[i] = 1;
    const struct rt_part part = { .count = 20000, .cut = rt_topk_select(values, 0, 20000, 5000, NULL) };
    const size_t length = rt_codec_encode(&codec, &part, values, NULL, bytes, NULL);
    CHECK_EQ(rt_codec_decode(&codec, decoded, 20000, bytes, length, NULL), RINGTREE_OK);
    for (int i = 0; i < 20000; i++) CHECK_EQ(decoded[i], i < 5000);
}

EVERY_PATH(int8_values_are_within_half_a_code_of_their_group)
{
    const struct rt_codec codec = { .kind = RT_CODEC_TOPK, .ratio = 0.01f, .values = RT_VALUES_INT8 };
    for (int inputs = 0; inputs < INPUTS; inputs++) {
        struct sent sent = send_all(&codec, 50021, (enum inputs)inputs);
        for (size_t i = 0; i < sent.count; i++) {
            const size_t group = i / RT_TOPK_GROUP * RT_TOPK_GROUP;
            double peak = 0;
            if (!is_kept(sent.values, i, sent.cut)) continue;
            for (size_t j = group; j < group + RT_TOPK_GROUP && j < sent.count; j++)
                peak = fmax(peak, fabs((double)sent.values[j]));
            const double error = fabs((double)sent.decoded[i] - (double)sent.values[i]);
            CHECK_THAT(error <= rt_codec_error_bound(&codec, peak), "%s: %g of %g", input_names[inputs], error, peak);
            CHECK(fabsf(sent.decoded[i] + sent.residual[i] - sent.values[i]) <= fabsf(sent.values[i]) * 0x1p-23f);
        }
        free_sent(&sent);
    }
}

TEST(one_percent_costs_under_six_bytes_for_each_kept_float_and_three_for_each_int8)
{
    struct rt_codec codec = { .kind = RT_CODEC_TOPK, .ratio = 0.01f };
    struct sent floats = send_all(&codec, 1 << 20, GAUSSIAN);
    codec.values = RT_VALUES_INT8;
    struct sent ints = send_all(&codec, 1 << 20, GAUSSIAN);
    CHECK_THAT(floats.length < floats.kept * 6, "%zu bytes for %zu", floats.length, floats.kept);
    CHECK_THAT(ints.length < ints.kept * 3, "%zu bytes for %zu", ints.length, ints.kept);
    CHECK_EQ(floats.report.kept, floats.kept);
    free_sent(&floats);
    free_sent(&ints);
}

/* Whole groups with blocks that travel as they are, because they are dense or hold NaN. */
EVERY_PATH(a_residual_that_is_the_values_themselves_changes_nothing_of_what_is_sent)
{
    enum { COUNT = 3 * RT_TOPK_GROUP + 700 };
    static float values[COUNT], apart[COUNT], same[COUNT];
    static uint8_t bytes[COUNT * 6], others[COUNT * 6];
    for (int int8 = 0; int8 < 2; int8++) {
        const struct rt_codec codec = { .kind = RT_CODEC_TOPK, .ratio = 0.1f,
                                        .values = int8 ? RT_VALUES_INT8 : RT_VALUES_FLOAT32 };
        for (int i = 0; i < COUNT; i++) values[i] = (float)(i % 7 + 1) * (i / 300 % 9 == 3 ? 100 : 1);
        values[5000] = NAN;
        const struct rt_part part = { .count = COUNT, .cut = rt_topk_select(values, 0, COUNT, COUNT / 10, NULL) };
        memcpy(same, values, sizeof same);
        struct rt_codec_report report = { 0 };
        const size_t length = rt_codec_encode(&codec, &part, values, apart, bytes, &report);
        CHECK_EQ(rt_codec_encode(&codec, &part, same, same, others, NULL), length);
        CHECK(memcmp(bytes, others, length) == 0);
        CHECK(memcmp(apart, same, sizeof same) == 0);
        CHECK_EQ(report.nonfinite_blocks, 1);
        CHECK_EQ(rt_codec_decode(&codec, same, COUNT, bytes, length, NULL), RINGTREE_OK);
        CHECK(isnan(same[5000]));
        for (int i = 0; i < COUNT && !int8; i++) CHECK(i == 5000 || same[i] + apart[i] == values[i]);
    }
}

/* ------------------------------------------------------------------ sums */

static void select_all(struct two_shot *run)
{
    for (uint32_t r = 0; r < run->nranks; r++)
        run->cuts[r] = rt_topk_select(run->inputs[r], 0, run->count, rt_topk_kept(&run->codec, run->count), NULL);
}

EVERY_PATH(a_sum_of_sparse_arrays_is_the_sum_of_what_was_sent_and_turns_dense_where_that_is_smaller)
{
    static const uint32_t nranks[] = { 1, 2, 3, 7, 64 };
    for (int k = 0; k < 5; k++) {
        struct two_shot run = new_two_shot((struct rt_codec){ .kind = RT_CODEC_TOPK, .ratio = 0.1f }, nranks[k], 30011,
                                           GAUSSIAN, 2);
        run.cuts = calloc(run.nranks, sizeof *run.cuts);
        select_all(&run);
        CHECK_EQ(run_two_shot(&run), 0);
        size_t wrong = 0;
        for (size_t i = 0; i < run.count; i++) {
            float sum = 0;
            for (uint32_t r = 0; r < run.nranks; r++)
                if (is_kept(run.inputs[r], i, run.cuts[r])) sum += run.inputs[r][i];
            wrong += sum != run.result[i];
        }
        CHECK_THAT(!wrong, "%u ranks: %zu elements", run.nranks, wrong);
        CHECK(run.bytes < run.count * 4 + run.count / 200 + run.nranks * (run.count / 10 * 6 + 300));
        free_two_shot(&run);
    }
}

TEST(sums_of_sparse_arrays_do_not_depend_on_how_the_tensor_is_cut)
{
    for (int values = 0; values < 2; values++) {
        struct two_shot run = new_two_shot((struct rt_codec){ .kind = RT_CODEC_TOPK, .ratio = 0.01f,
                                           .values = (enum rt_codec_values)values }, 4, 100003, STUDENT, 2);
        float *first = new_floats(run.count);
        run.cuts = calloc(run.nranks, sizeof *run.cuts);
        select_all(&run);
        for (uint32_t slices = 1; slices < 30; slices += 7) {
            run.slices = slices;
            CHECK_EQ(run_two_shot(&run), 0);
            if (slices == 1) memcpy(first, run.result, run.count * sizeof *first);
            CHECK(!memcmp(first, run.result, run.count * sizeof *first));
        }
        free(first);
        free_two_shot(&run);
    }
}

TEST_MAIN
