/* Error feedback: over many steps, what was sent and what is left is what came in; without it, much is lost. */
#include "reduce/reference.h"
#include "two_shot.h"

#define STEPS 16

static const struct rt_codec codecs[] = {
    { .kind = RT_CODEC_BF16, .feedback = true },
    { .kind = RT_CODEC_FP16, .feedback = true },
    { .kind = RT_CODEC_Q8, .feedback = true },
    { .kind = RT_CODEC_Q8, .rounding = RT_ROUND_STOCHASTIC, .feedback = true },
    { .kind = RT_CODEC_Q4, .feedback = true },
    { .kind = RT_CODEC_Q4, .block = 32, .rounding = RT_ROUND_STOCHASTIC, .feedback = true },
    { .kind = RT_CODEC_TOPK, .ratio = 0.01f, .feedback = true },
    { .kind = RT_CODEC_TOPK, .ratio = 0.1f, .values = RT_VALUES_INT8, .feedback = true },
};
#define CODECS (sizeof codecs / sizeof *codecs)

/* Where the sums of what came in, of what went out and of what is left are, after STEPS steps. */
struct books {
    double *in, *out, *left, *moved;
};

static struct two_shot new_run(struct rt_codec codec, uint32_t nranks, size_t count, bool feedback)
{
    struct two_shot run = new_two_shot(codec, nranks, count, GAUSSIAN, 1);
    run.cuts = calloc(nranks, sizeof *run.cuts);
    if (!feedback) return run;
    run.residuals = calloc(nranks, sizeof *run.residuals);
    for (uint32_t r = 0; r < nranks; r++) run.residuals[r] = new_floats(count);
    run.owned = new_floats(count);
    return run;
}

/* topk selects from residual + input, which run_two_shot() will form again. */
static void select_cuts(struct two_shot *run, float *sum)
{
    for (uint32_t r = 0; r < run->nranks; r++) {
        memcpy(sum, run->inputs[r], run->count * sizeof *sum);
        if (run->residuals) rt_codec_prepare(run->residuals[r], sum, run->count);
        run->cuts[r] = rt_topk_select(sum, 0, run->count, rt_topk_kept(&run->codec, run->count), NULL);
    }
}

static void run_steps(struct two_shot *run, struct books *books)
{
    float *sum = new_floats(run->count);
    for (run->step = 0; run->step < STEPS; run->step++) {
        for (uint32_t r = 0; r < run->nranks; r++)
            fill_inputs(run->inputs[r], run->count, (enum inputs)(run->step % INPUTS), r, 50 + run->step);
        if (run->codec.kind == RT_CODEC_TOPK) select_cuts(run, sum);
        CHECK_EQ(run_two_shot(run), 0);
        for (size_t i = 0; i < run->count; i++) {
            for (uint32_t r = 0; r < run->nranks; r++) {
                books->in[i] += (double)run->inputs[r][i];
                books->moved[i] += fabs((double)run->inputs[r][i]);
            }
            books->out[i] += (double)run->result[i];
        }
    }
    for (size_t i = 0; run->residuals && i < run->count; i++) {
        for (uint32_t r = 0; r < run->nranks; r++) books->left[i] += (double)run->residuals[r][i];
        books->left[i] += (double)run->owned[i];
    }
    free(sum);
}

/* The largest of |in - out - left| / (what all float32 additions on the way may round), and of |in - out| / moved. */
static void balance(struct rt_codec codec, uint32_t n, bool feedback, double *lost, double *sent_wrongly)
{
    const size_t count = n > 8 ? 1203 : 4803;
    struct two_shot run = new_run(codec, n, count, feedback);
    struct books books = { calloc(count, 8), calloc(count, 8), calloc(count, 8), calloc(count, 8) };
    run_steps(&run, &books);
    *lost = *sent_wrongly = 0;
    for (size_t i = 0; i < count; i++) {
        const double roundings = (2 + n + 2) * STEPS * 0x1p-24 * books.moved[i];
        *lost = fmax(*lost, fabs(books.in[i] - books.out[i] - books.left[i]) / (roundings + DBL_MIN));
        *sent_wrongly = fmax(*sent_wrongly, fabs(books.in[i] - books.out[i]) / books.moved[i]);
    }
    free(books.in), free(books.out), free(books.left), free(books.moved);
    free_two_shot(&run);
}

EVERY_PATH(what_was_sent_and_what_is_left_is_what_came_in)
{
    for (size_t c = 0; c < CODECS; c++) {
        double lost, sent_wrongly;
        balance(codecs[c], 4, true, &lost, &sent_wrongly);
        CHECK_THAT(lost <= 1, "%s: %g of float32's rounding is lost", rt_codec_name(codecs[c].kind), lost);
    }
}

TEST(whatever_the_ranks_nothing_is_lost)
{
    static const uint32_t rank_counts[] = { 1, 2, 3, 5, 7, 8, 13, 16, 64 };
    for (size_t k = 0; k < sizeof rank_counts / sizeof *rank_counts; k++)
        for (size_t c = 0; c < CODECS; c++) {
            double lost, sent_wrongly;
            balance(codecs[c], rank_counts[k], true, &lost, &sent_wrongly);
            CHECK_THAT(lost <= 1, "%s, %u ranks: %g of float32's rounding is lost", rt_codec_name(codecs[c].kind),
                       rank_counts[k], lost);
        }
}

TEST(without_feedback_the_books_do_not_balance)
{
    for (size_t c = 0; c < CODECS; c++) {
        double lost, sent_wrongly;
        balance(codecs[c], 4, false, &lost, &sent_wrongly);
        CHECK_THAT(lost > 10, "%s: %g", rt_codec_name(codecs[c].kind), lost);
    }
}

/* With feedback the error of the sum over all steps is that of about one step, so its share falls with the steps. */
TEST(feedback_keeps_the_error_of_many_q4_steps_at_that_of_one)
{
    double lost, with, without;
    const struct rt_codec q4 = { .kind = RT_CODEC_Q4, .feedback = true };
    balance(q4, 4, true, &lost, &with);
    balance(q4, 4, false, &lost, &without);
    CHECK_THAT(with < without / 2, "%g with, %g without", with, without);
}

TEST_MAIN
