/* Sentences that are put together in pieces. */
#ifndef RT_TEXT_H
#define RT_TEXT_H

#include <stddef.h>

/* To the end of what is in `text`; cut where `capacity`, the terminator included, ends. */
void rt_append(char *text, size_t capacity, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
