/* Reads the IDX files through gzip, which every Debian has, so that no test needs a library for it. */
#include "images.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FOLDER "/usr/share/datasets/fashion-mnist/"
#define IMAGES_MAX 60000

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/*
 * `count` items of `size` bytes after a head of `head_bytes` whose first words are `magic` and `count`; NULL if not
 * so.
 */
static uint8_t *read_idx(const char *set, const char *what, uint32_t magic, size_t head_bytes, size_t size,
                         size_t *count)
{
    char command[256], path[200];
    uint8_t head[16], *items = NULL;
    snprintf(path, sizeof path, FOLDER "%s-%s-ubyte.gz", set, what);
    if (access(path, R_OK)) return NULL;
    snprintf(command, sizeof command, "gzip -dc %s", path);
    FILE *pipe = popen(command, "r");
    if (!pipe) return NULL;
    if (fread(head, 1, head_bytes, pipe) == head_bytes && big_endian(head) == magic) {
        *count = big_endian(head + 4);
        items = *count <= IMAGES_MAX ? malloc(*count * size + 1) : NULL;
        if (items && fread(items, size, *count, pipe) != *count) {
            free(items);
            items = NULL;
        }
    }
    pclose(pipe);
    return items;
}

bool read_images(struct images *images, const char *set)
{
    size_t pictures = 0, kinds = 0;
    uint8_t *bytes = read_idx(set, "images-idx3", 0x803, 16, PIXELS, &pictures);
    *images = (struct images){ .kinds = read_idx(set, "labels-idx1", 0x801, 8, 1, &kinds) };
    if (bytes && images->kinds && pictures == kinds) images->pixels = malloc(pictures * PIXELS * sizeof(float));
    if (images->pixels) {
        images->count = pictures;
        for (size_t i = 0; i < pictures * PIXELS; i++) images->pixels[i] = (float)bytes[i] / 255;
    }
    free(bytes);
    if (!images->pixels) free_images(images);
    return images->pixels != NULL;
}

void free_images(struct images *images)
{
    free(images->pixels);
    free(images->kinds);
    *images = (struct images){ 0 };
}
