/*
 * Does a network learn as well from compressed gradients? Fashion-MNIST, four ranks of 64 pictures a step, SGD with
 * momentum, the same weights and the same pictures in the same order for every codec.
 *
 *     learn [--epochs 3] [--seeds 3] [--first-seed 1] [--short]
 *
 * Prints each codec's accuracy on the 10,000 test pictures and the bytes that it sent, as a mean over the seeds.
 * Exit 1 when a gate is missed: dense learns; q8 and topk with momentum correction stay close to dense; topk
 * without feedback does not, or else the feedback would prove nothing. 77: the data set is not installed. --short
 * is two epochs and one seed with gates of its own.
 */
#include "codec/inputs.h"
#include "exchange.h"
#include "network.h"
#include <stdio.h>
#include <string.h>

#define BATCH 64
#define MOMENTUM 0.9f
#define RATE 0.1f /* of the first step; it falls evenly to 0 */
#define WARM_STEPS 100

static const struct trial {
    const char     *name;
    struct rt_codec codec;
} trials[] = {
    { "dense", { .kind = RT_CODEC_NONE } },
    { "q8", { .kind = RT_CODEC_Q8 } },
    { "topk 1 %, momentum", { .kind = RT_CODEC_TOPK, .ratio = 0.01f, .feedback = true } },
    { "topk 1 %, no feedback", { .kind = RT_CODEC_TOPK, .ratio = 0.01f } },
};
enum { DENSE, Q8, TOPK, TOPK_BARE, TRIALS };

struct options {
    uint32_t epochs, seeds, first_seed;
    double   dense, q8, topk, bare; /* least accuracy; most points lost; least points lost */
};

struct outcome {
    double accuracy, sent_share; /* of the bytes that dense would have sent */
};

static void shuffle(uint32_t *order, size_t count, uint64_t seed)
{
    for (size_t i = count; i > 1; i--) {
        const size_t j = (size_t)(draw(&seed) % i);
        const uint32_t swapped = order[i - 1];
        order[i - 1] = order[j], order[j] = swapped;
    }
}

/* weights -= rate * step. Where the codec keeps the momentum the sum is the step; else the optimiser keeps it. */
static void move(float *weights, float *velocity, const struct exchange *exchange, float rate)
{
    for (size_t i = 0; i < exchange->count; i++) {
        float step = exchange->sum[i];
        if (!exchange->codec.feedback) step = velocity[i] = MOMENTUM * velocity[i] + step;
        weights[i] -= rate * step;
    }
}

struct training {
    struct network  weights, velocity, gradients[RANKS];
    struct exchange exchanges[TENSORS];
};

static void train_step(struct training *training, const struct images *images, const uint32_t *chosen, float rate)
{
    for (size_t r = 0; r < RANKS; r++)
        find_gradients(&training->weights, &training->gradients[r], images, chosen + r * BATCH, BATCH);
    for (int t = 0; t < TENSORS; t++) {
        float *gradients[RANKS];
        for (int r = 0; r < RANKS; r++) gradients[r] = training->gradients[r].tensors[t];
        exchange_mean(&training->exchanges[t], gradients, MOMENTUM);
        move(training->weights.tensors[t], training->velocity.tensors[t], &training->exchanges[t], rate);
    }
}

static struct training new_training(const struct rt_codec *codec, uint32_t seed)
{
    static const struct rt_codec exact = { .kind = RT_CODEC_NONE };
    struct training training = { .weights = new_network(), .velocity = new_network() };
    for (int r = 0; r < RANKS; r++) training.gradients[r] = new_network();
    for (int t = 0; t < TENSORS; t++) {
        const bool spared = rt_codec_spares(tensor_dimensions(t), tensor_counts[t]);
        training.exchanges[t] = new_exchange(spared ? &exact : codec, tensor_counts[t], WARM_STEPS);
    }
    draw_weights(&training.weights, seed);
    return training;
}

static struct outcome finish(struct training *training, const struct images *test, double steps)
{
    struct outcome outcome = { accuracy(&training->weights, test), 0 };
    double dense = 0;
    for (int t = 0; t < TENSORS; t++) {
        outcome.sent_share += (double)training->exchanges[t].sent;
        dense += (double)tensor_counts[t] * sizeof(float) * (RANKS + 1) * steps;
        free_exchange(&training->exchanges[t]);
    }
    outcome.sent_share /= dense;
    free_network(&training->weights);
    free_network(&training->velocity);
    for (int r = 0; r < RANKS; r++) free_network(&training->gradients[r]);
    return outcome;
}

static struct outcome learn(const struct rt_codec *codec, const struct images *train, const struct images *test,
                            uint32_t epochs, uint32_t seed)
{
    struct training training = new_training(codec, seed);
    uint32_t *order = malloc(train->count * sizeof *order);
    const size_t steps = train->count / (RANKS * BATCH);
    if (!order) abort();
    for (uint32_t i = 0; i < train->count; i++) order[i] = i;
    for (uint32_t epoch = 0; epoch < epochs; epoch++) {
        shuffle(order, train->count, seed * 1000 + epoch);
        for (size_t s = 0; s < steps; s++) {
            const float left = 1 - (float)(epoch * steps + s) / (float)(epochs * steps);
            train_step(&training, train, order + s * RANKS * BATCH, RATE * left);
        }
    }
    free(order);
    return finish(&training, test, (double)steps * epochs);
}

/* Returns 0, or 1 after saying which gate was missed. */
static int gate(bool held, const char *what, double is, double should_be)
{
    printf("%-7s %s: %.2f, asked for: %.2f\n", held ? "ok" : "MISSED", what, is, should_be);
    return !held;
}

static int judge(const struct outcome *means, const struct options *options)
{
    double lost[TRIALS];
    for (int t = 0; t < TRIALS; t++) lost[t] = 100 * (means[DENSE].accuracy - means[t].accuracy);
    const double dense = 100 * means[DENSE].accuracy;
    return gate(dense >= options->dense, "dense, %", dense, options->dense) |
           gate(lost[Q8] <= options->q8, "q8 loses at most, points", lost[Q8], options->q8) |
           gate(lost[TOPK] <= options->topk, "topk with momentum loses at most, points", lost[TOPK], options->topk) |
           gate(lost[TOPK_BARE] >= options->bare, "topk without feedback loses at least, points", lost[TOPK_BARE],
                options->bare);
}

static bool read_options(struct options *options, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--short")) *options = (struct options){ 2, 1, 1, 84, 0.7, 1.7, 2 };
        else if (i + 1 == argc) return false;
        else if (!strcmp(argv[i], "--epochs")) options->epochs = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--seeds")) options->seeds = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--first-seed")) options->first_seed = (uint32_t)strtoul(argv[++i], NULL, 10);
        else return false;
    }
    return options->epochs && options->seeds;
}

int main(int argc, char **argv)
{
    struct options options = { 3, 3, 1, 86, 0.5, 1.0, 2.0 };
    struct outcome means[TRIALS] = { { 0, 0 } };
    struct images train, test;
    if (!read_options(&options, argc, argv))
        return fprintf(stderr, "learn [--epochs N] [--seeds N] [--first-seed N] [--short]\n"), 2;
    if (!read_images(&train, "train") || !read_images(&test, "t10k"))
        return printf("skipped: Fashion-MNIST is not installed (apt-get install dataset-fashion-mnist)\n"), 77;
    for (int t = 0; t < TRIALS; t++) {
        printf("%-22s", trials[t].name);
        for (uint32_t s = 0; s < options.seeds; s++) {
            const uint32_t seed = options.first_seed + s;
            const struct outcome outcome = learn(&trials[t].codec, &train, &test, options.epochs, seed);
            means[t].accuracy += outcome.accuracy / options.seeds;
            means[t].sent_share += outcome.sent_share / options.seeds;
            printf(" %.2f", 100 * outcome.accuracy);
            fflush(stdout);
        }
        printf("   mean %.2f %%, sent %.2f %% of dense\n", 100 * means[t].accuracy, 100 * means[t].sent_share);
    }
    free_images(&train);
    free_images(&test);
    return judge(means, &options);
}
