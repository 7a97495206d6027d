/* Plain loops, the inner one over a layer's outputs, which lie side by side: the compiler makes vectors of it. */
#include "network.h"
#include "codec/inputs.h"
#include <string.h>

static const size_t widths[LAYERS + 1] = { PIXELS, 128, 64, KINDS };
#define WIDEST 128

const size_t tensor_counts[TENSORS] = { PIXELS * 128, 128, 128 * 64, 64, 64 * KINDS, KINDS };

struct network new_network(void)
{
    struct network network;
    for (int t = 0; t < TENSORS; t++) network.tensors[t] = new_floats(tensor_counts[t]);
    return network;
}

void free_network(struct network *network)
{
    for (int t = 0; t < TENSORS; t++) free(network->tensors[t]);
}

void draw_weights(struct network *weights, uint64_t seed)
{
    for (int layer = 0; layer < LAYERS; layer++) {
        const double spread = sqrt(2.0 / (double)widths[layer]);
        float *w = weights->tensors[2 * layer];
        for (size_t i = 0; i < tensor_counts[2 * layer]; i++) w[i] = (float)(spread * gaussian(&seed));
        memset(weights->tensors[2 * layer + 1], 0, widths[layer + 1] * sizeof(float));
    }
}

/* out[j] = bias[j] + sum of in[i] w[i][j]. Many pixels are 0. */
static void forward(const struct network *weights, int layer, const float *in, float *out)
{
    const size_t inputs = widths[layer], outputs = widths[layer + 1];
    const float *w = weights->tensors[2 * layer];
    memcpy(out, weights->tensors[2 * layer + 1], outputs * sizeof *out);
    for (size_t i = 0; i < inputs; i++) {
        if (in[i] == 0) continue;
        for (size_t j = 0; j < outputs; j++) out[j] += in[i] * w[i * outputs + j];
    }
    if (layer == LAYERS - 1) return;
    for (size_t j = 0; j < outputs; j++) out[j] = out[j] > 0 ? out[j] : 0;
}

/* error: of the layer's outputs, becomes that of its inputs. */
static void backward(const struct network *weights, struct network *gradients, int layer, const float *in, float *error)
{
    const size_t inputs = widths[layer], outputs = widths[layer + 1];
    const float *w = weights->tensors[2 * layer];
    float *dw = gradients->tensors[2 * layer], *db = gradients->tensors[2 * layer + 1], own[WIDEST];
    memcpy(own, error, outputs * sizeof *own);
    for (size_t j = 0; j < outputs; j++) db[j] += own[j];
    for (size_t i = 0; i < inputs; i++) {
        if (layer) error[i] = 0;
        if (in[i] == 0) continue; /* of a ReLU that rests, nothing goes further down */
        for (size_t j = 0; j < outputs; j++) dw[i * outputs + j] += in[i] * own[j];
        for (size_t j = 0; layer && j < outputs; j++) error[i] += w[i * outputs + j] * own[j];
    }
}

/* Probabilities, less 1 for the right one, over the number of pictures. */
static void softmax_error(float *out, uint8_t kind, size_t count)
{
    float most = out[0], sum = 0;
    for (int j = 1; j < KINDS; j++) most = out[j] > most ? out[j] : most;
    for (int j = 0; j < KINDS; j++) sum += out[j] = expf(out[j] - most);
    for (int j = 0; j < KINDS; j++) out[j] = (out[j] / sum - (j == kind)) / (float)count;
}

void find_gradients(const struct network *weights, struct network *gradients, const struct images *images,
                    const uint32_t *chosen, size_t count)
{
    float values[LAYERS][WIDEST], error[WIDEST];
    for (int t = 0; t < TENSORS; t++) memset(gradients->tensors[t], 0, tensor_counts[t] * sizeof(float));
    for (size_t p = 0; p < count; p++) {
        const float *in[LAYERS] = { images->pixels + (size_t)chosen[p] * PIXELS, values[0], values[1] };
        for (int layer = 0; layer < LAYERS; layer++) forward(weights, layer, in[layer], values[layer]);
        memcpy(error, values[LAYERS - 1], KINDS * sizeof *error);
        softmax_error(error, images->kinds[chosen[p]], count);
        for (int layer = LAYERS; layer--;) backward(weights, gradients, layer, in[layer], error);
    }
}

double accuracy(const struct network *weights, const struct images *images)
{
    float values[LAYERS][WIDEST];
    size_t right = 0;
    for (size_t p = 0; p < images->count; p++) {
        const float *in = images->pixels + p * PIXELS;
        for (int layer = 0; layer < LAYERS; in = values[layer++]) forward(weights, layer, in, values[layer]);
        int best = 0;
        for (int j = 1; j < KINDS; j++) best = values[LAYERS - 1][j] > values[LAYERS - 1][best] ? j : best;
        right += best == images->kinds[p];
    }
    return (double)right / (double)images->count;
}
