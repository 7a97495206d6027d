/* Sizes and other numbers on the command lines of the programs here: 64, 1.5M, 4KiB; K, M, G, T are powers of 1024. */
#ifndef PERF_SIZE_H
#define PERF_SIZE_H

#include <stdbool.h>
#include <stddef.h>

/* The number at *text, which is moved behind it. False: there is none, or it is below 0 or above `most`. */
bool size_take(const char **text, size_t most, size_t *size);
/* All of the text is one, from `least` to `most`. */
bool size_parse(const char *text, size_t least, size_t most, size_t *size);

#endif
