/* A perceptron of three layers, 784-128-64-10: weights, gradients and the share of pictures that it names rightly. */
#ifndef RT_LEARNING_NETWORK_H
#define RT_LEARNING_NETWORK_H

#include "images.h"

#define LAYERS 3
#define TENSORS (2 * LAYERS)

/* Tensor 2 l is layer l's weights, [inputs][outputs]; tensor 2 l + 1 its biases. */
struct network {
    float *tensors[TENSORS];
};
extern const size_t tensor_counts[TENSORS];

static inline uint32_t tensor_dimensions(int tensor)
{
    return tensor % 2 ? 1 : 2;
}

struct network new_network(void); /* zeros: for weights, gradients, momenta alike */
void free_network(struct network *network);

/* Weights drawn as He et al. do for ReLU, from `seed`; biases 0. */
void draw_weights(struct network *weights, uint64_t seed);

/* gradients = those of the mean cross entropy of the pictures chosen[0 .. count]. */
void find_gradients(const struct network *weights, struct network *gradients, const struct images *images,
                    const uint32_t *chosen, size_t count);

/* The share of all `images` that are named rightly. */
double accuracy(const struct network *weights, const struct images *images);

#endif
