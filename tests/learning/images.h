/*
 * Fashion-MNIST as Debian's package dataset-fashion-mnist installs it: 28 x 28 grey pictures of ten kinds of
 * clothes.
 */
#ifndef RT_LEARNING_IMAGES_H
#define RT_LEARNING_IMAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PIXELS 784
#define KINDS 10

struct images {
    size_t   count;
    float   *pixels; /* [count][PIXELS], 0 to 1 */
    uint8_t *kinds;  /* [count] */
};

/* `set` is "train" or "t10k". False: not installed, or not what it should be; *images is empty. */
bool read_images(struct images *images, const char *set);
void free_images(struct images *images);

#endif
