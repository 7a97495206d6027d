/*
 * Does a network learn as well from compressed gradients? Fashion-MNIST, four ranks of 64 pictures a step, SGD with
 * momentum, the same weights and the same pictures in the same order for every codec. The ranks are processes that call
 * the library as a trainer does, each as if on a node of its own.
 *
 *     learn [--epochs 3] [--seeds 3] [--first-seed 1] [--short]
 *
 * Prints each codec's accuracy on the 10,000 test pictures and the bytes that it sent, as a mean over the seeds.
 * Exit 1 when a gate is missed: dense learns; q8 and topk with momentum correction stay close to dense; topk
 * without feedback does not, or else the feedback would prove nothing; and all ranks end with the same weights. 77: the
 * data set is not installed. --short is two epochs and one seed with gates of its own.
 */
#include "api/ranks.h"
#include "codec/inputs.h"
#include "exchange.h"
#include "network.h"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define BATCH 64
#define MOMENTUM 0.9f
#define RATE 0.1f /* of the first step; it falls evenly to 0 */
#define WARM_STEPS 100

#define FORCED .size = sizeof(ringtree_codec), .flags = RINGTREE_CODEC_FORCE
static const struct trial {
    const char    *name;
    ringtree_codec codec;
} trials[] = {
    { "dense", { .size = sizeof(ringtree_codec) } },
    { "q8", { FORCED, .kind = RINGTREE_CODEC_Q8 } },
    { "topk 1 %, momentum", { FORCED | RINGTREE_CODEC_FEEDBACK, .kind = RINGTREE_CODEC_TOPK, .ratio = 0.01f,
                              .momentum = MOMENTUM } },
    { "topk 1 %, no feedback", { FORCED, .kind = RINGTREE_CODEC_TOPK, .ratio = 0.01f } },
};
enum { DENSE, Q8, TOPK, TOPK_BARE, TRIALS };

struct options {
    uint32_t epochs, seeds, first_seed;
    double   dense, q8, topk, bare; /* least accuracy; most points lost; least points lost */
};

struct outcome {
    double accuracy, sent_share; /* of the bytes that dense would have sent */
};

/* One run of all ranks; shared by them. */
struct run {
    const struct trial  *trial;
    const struct images *train, *test;
    uint32_t             epochs, seed;
    double               accuracy;
    uint64_t             sent[WORLD], weights[WORLD]; /* bytes; a hash */
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
        if (!(exchange->codec.momentum > 0)) step = velocity[i] = MOMENTUM * velocity[i] + step;
        weights[i] -= rate * step;
    }
}

struct training {
    struct network  weights, velocity, gradients;
    struct exchange exchanges[TENSORS];
};

static ringtree_status train_step(struct training *training, ringtree_comm *comm, const struct images *images,
                                  const uint32_t *chosen, float rate)
{
    find_gradients(&training->weights, &training->gradients, images, chosen, BATCH);
    for (int t = 0; t < TENSORS; t++) {
        ringtree_status status = exchange_mean(&training->exchanges[t], comm, training->gradients.tensors[t]);
        if (status != RINGTREE_OK) return status;
        move(training->weights.tensors[t], training->velocity.tensors[t], &training->exchanges[t], rate);
    }
    return RINGTREE_OK;
}

static struct training new_training(const ringtree_codec *codec, uint32_t seed)
{
    struct training training = { .weights = new_network(), .velocity = new_network(), .gradients = new_network() };
    for (int t = 0; t < TENSORS; t++)
        training.exchanges[t] = new_exchange(codec, tensor_dimensions(t), tensor_counts[t], WARM_STEPS);
    draw_weights(&training.weights, seed);
    return training;
}

static uint64_t hash_of(const struct network *weights)
{
    uint64_t hash = 14695981039346656037u;
    for (int t = 0; t < TENSORS; t++)
        for (size_t i = 0; i < tensor_counts[t] * sizeof(float); i++)
            hash = (hash ^ ((const unsigned char *)weights->tensors[t])[i]) * 1099511628211u;
    return hash;
}

static void finish(struct training *training, struct run *run, uint32_t rank)
{
    run->weights[rank] = hash_of(&training->weights);
    if (rank == 0) run->accuracy = accuracy(&training->weights, run->test);
    for (int t = 0; t < TENSORS; t++) {
        ringtree_codec_report report = { .size = sizeof report };
        ringtree_codec_state_report(training->exchanges[t].state, &report);
        run->sent[rank] += report.sent_bytes;
        free_exchange(&training->exchanges[t]);
    }
    free_network(&training->weights);
    free_network(&training->velocity);
    free_network(&training->gradients);
}

static atomic_int failures;

static void learn_rank(struct rank *self)
{
    struct run *run = self->argument;
    struct training training = new_training(&run->trial->codec, run->seed);
    uint32_t *order = malloc(run->train->count * sizeof *order);
    const size_t steps = run->train->count / (WORLD * BATCH);
    ringtree_status status = RINGTREE_OK;
    if (!order) abort();
    for (uint32_t i = 0; i < run->train->count; i++) order[i] = i;
    for (uint32_t epoch = 0; epoch < run->epochs; epoch++) {
        shuffle(order, run->train->count, run->seed * 1000 + epoch);
        for (size_t s = 0; s < steps && status == RINGTREE_OK; s++) {
            const float left = 1 - (float)(epoch * steps + s) / (float)(run->epochs * steps);
            status = train_step(&training, self->comm, run->train, order + (s * WORLD + self->rank) * BATCH,
                                RATE * left);
        }
    }
    if (status != RINGTREE_OK) {
        atomic_fetch_add(&failures, 1);
        fprintf(stderr, "%s\n", ringtree_last_error(self->comm));
    }
    free(order);
    finish(&training, run, self->rank);
}

/* False, after saying why, if a rank failed or ended with other weights. */
static bool learn(struct run *run, struct outcome *outcome)
{
    const struct ranks_layout layout = { .ranks = WORLD, .processes = WORLD, .wait_s = 600, .argument = run };
    double sent = 0, dense = 0;
    bool right = ranks_run(&layout, learn_rank, &failures) == 0;
    for (int t = 0; t < TENSORS; t++) dense += 2.0 * (WORLD - 1) * (double)tensor_counts[t] * sizeof(float);
    dense *= (double)(run->train->count / (WORLD * BATCH)) * run->epochs;
    for (int r = 0; r < WORLD; r++) {
        sent += (double)run->sent[r];
        right &= run->weights[r] == run->weights[0];
    }
    *outcome = (struct outcome){ run->accuracy, sent / dense };
    if (!right) printf("MISSED  %s, seed %u: a rank failed, or has other weights\n", run->trial->name, run->seed);
    return right;
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

/* All seeds of a codec. */
static bool try_codec(const struct trial *trial, struct run *run, const struct options *options, struct outcome *mean)
{
    bool right = true;
    printf("%-22s", trial->name);
    for (uint32_t s = 0; s < options->seeds && right; s++) {
        struct outcome outcome;
        *run = (struct run){ .trial = trial, .train = run->train, .test = run->test, .epochs = options->epochs,
                             .seed = options->first_seed + s };
        right = learn(run, &outcome);
        mean->accuracy += outcome.accuracy / options->seeds;
        mean->sent_share += outcome.sent_share / options->seeds;
        printf(" %.2f", 100 * outcome.accuracy);
        fflush(stdout);
    }
    printf("   mean %.2f %%, codes are %.2f %% of dense\n", 100 * mean->accuracy, 100 * mean->sent_share);
    fflush(stdout);
    return right;
}

int main(int argc, char **argv)
{
    struct options options = { 3, 3, 1, 86, 0.5, 1.0, 2.0 };
    struct outcome means[TRIALS] = { { 0, 0 } };
    struct images train, test;
    bool right = true;
    if (!read_options(&options, argc, argv))
        return fprintf(stderr, "learn [--epochs N] [--seeds N] [--first-seed N] [--short]\n"), 2;
    if (!read_images(&train, "train") || !read_images(&test, "t10k"))
        return printf("skipped: Fashion-MNIST is not installed (apt-get install dataset-fashion-mnist)\n"), 77;
    struct run *run = mmap(NULL, sizeof *run, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (run == MAP_FAILED) return perror("learn"), 2;
    run->train = &train;
    run->test = &test;
    for (int t = 0; t < TRIALS && right; t++) right = try_codec(&trials[t], run, &options, &means[t]);
    free_images(&train);
    free_images(&test);
    return right ? judge(means, &options) : 1;
}
