/*
 * What arrives, over ranks that are threads: to the bit what the sum by owner written out in one process gives, equal
 * on all ranks, and within the stated bound of the exact sum. Small tensors are exact.
 */
#include "api/ranks.h"
#include "codec/two_shot.h"
#include "test.h"

#define COUNT_MOST 30011

/* Shared by the threads of a run. */
static float *inputs[RANKS_MOST], *outputs[RANKS_MOST];

static const enum rt_codec_kind kinds[] = { RT_CODEC_BF16, RT_CODEC_FP16, RT_CODEC_Q8, RT_CODEC_Q4, RT_CODEC_TOPK };

static ringtree_codec codec_of(enum rt_codec_kind kind)
{
    ringtree_codec codec = RINGTREE_CODEC_DEFAULT;
    codec.kind = (ringtree_codec_kind)kind;
    codec.flags = RINGTREE_CODEC_FORCE | RINGTREE_CODEC_SMALL;
    codec.ratio = 0.05f;
    return codec;
}

/* What the collective must give, from the inputs of all. */
static struct two_shot expected(enum rt_codec_kind kind, uint32_t n, size_t count, enum inputs family)
{
    const struct rt_codec codec = { .kind = kind, .ratio = 0.05f };
    struct two_shot run = new_two_shot(codec, n, count, family, count);
    run.cuts = calloc(n, sizeof *run.cuts);
    for (uint32_t r = 0; r < n; r++)
        run.cuts[r] = rt_topk_select(run.inputs[r], 0, count, rt_topk_kept(&codec, count), NULL);
    CHECK_EQ(run_two_shot(&run), 0);
    return run;
}

static void check_bits(uint32_t n, enum rt_codec_kind kind, size_t count, enum inputs family)
{
    struct two_shot run = expected(kind, n, count, family);
    for (uint32_t r = 0; r < n; r++)
        CHECK_THAT(memcmp(outputs[r], run.result, count * sizeof(float)) == 0,
                   "%s of %zu %s, %u ranks: rank %u has other bits", rt_codec_name(kind), count, input_names[family],
                   n, r);
    if (kind != RT_CODEC_TOPK)
        CHECK_THAT(worst_share(&run) <= 1, "%s, %s, %u ranks: %g of the bound", rt_codec_name(kind),
                   input_names[family], n, worst_share(&run));
    free_two_shot(&run);
}

static void all_kinds(struct rank *self)
{
    const uint32_t n = self->size, me = self->rank;
    inputs[me] = new_floats(COUNT_MOST);
    outputs[me] = new_floats(COUNT_MOST);
    uint64_t random = ranks_now_ms() + me;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (int family = 0; family < INPUTS; family++) {
            const size_t count = n > 16 ? 5003 : family % 2 ? COUNT_MOST : 4099;
            const ringtree_codec codec = codec_of(kinds[k]);
            fill_inputs(inputs[me], count, (enum inputs)family, me, count);
            if (draw(&random) % 4 == 0) ranks_sleep_ms((uint32_t)(draw(&random) % 4)); /* timing is not in the bits */
            const ringtree_status status =
                ringtree_all_reduce_compressed(self->comm, inputs[me], outputs[me], count, RINGTREE_FLOAT32,
                                               RINGTREE_SUM, &codec, NULL, NULL);
            CHECK_THAT(status == RINGTREE_OK, "%s", ringtree_last_error(self->comm));
            ranks_meet(self);
            if (me == 0) check_bits(n, kinds[k], count, (enum inputs)family);
            ranks_meet(self);
        }
    free(inputs[me]);
    free(outputs[me]);
}

TEST(a_sum_by_owner_is_what_it_should_be_to_the_bit)
{
    static const uint32_t sizes[] = { 1, 2, 3, 4, 5, 7, 8, 13, 16, 64 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) RANKS(all_kinds, .ranks = sizes[i]);
}

/* ---- what stays exact unless the caller says otherwise */

static void check_spared(struct rank *self, size_t count, uint32_t dimensions, uint32_t flags, bool spared)
{
    float in[1024], exact[1024], out[1024];
    ringtree_codec codec = codec_of(RT_CODEC_Q8);
    ringtree_codec_report report = { .size = sizeof report };
    ringtree_codec_state *state;
    codec.flags = RINGTREE_CODEC_FORCE | flags;
    codec.dimensions = dimensions;
    fill_inputs(in, count, GAUSSIAN, self->rank, 7);
    CHECK_EQ(ringtree_codec_state_create(&state, count, &codec), RINGTREE_OK);
    CHECK_EQ(ringtree_all_reduce(self->comm, in, exact, count, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_OK);
    CHECK_EQ(ringtree_all_reduce_compressed(self->comm, in, out, count, RINGTREE_FLOAT32, RINGTREE_SUM, &codec, state,
                                            NULL), RINGTREE_OK);
    CHECK_EQ(ringtree_codec_state_report(state, &report), RINGTREE_OK);
    CHECK_THAT((memcmp(exact, out, count * sizeof *out) == 0) == spared &&
                   (report.last_kind == RINGTREE_CODEC_NONE) == spared && (report.sent_bytes == 0) == spared,
               "%zu elements, %u dimensions, flags %u: not as it should be, %s", count, dimensions, flags,
               spared ? "exact" : "rounded");
    ringtree_codec_state_free(state);
}

static void spare_some(struct rank *self)
{
    for (uint32_t dimensions = 0; dimensions < 3; dimensions++) {
        check_spared(self, 1023, dimensions, 0, true);
        check_spared(self, 1024, dimensions, 0, dimensions == 1);
        check_spared(self, 1023, dimensions, RINGTREE_CODEC_SMALL, false);
    }
}

TEST(tensors_of_one_dimension_or_under_1024_elements_are_exact_unless_asked_for)
{
    RANKS(spare_some, .ranks = 3);
}

TEST_MAIN
