/* A file from outside as bytes in memory, bounded. */
#ifndef RT_FILE_H
#define RT_FILE_H

#include "base/error.h"

#define RT_FILE_MOST_BYTES (UINT32_C(16) << 20)

/* *text is terminated and the caller frees it. A file over RT_FILE_MOST_BYTES is RINGTREE_INVALID_ARGUMENT. */
ringtree_status rt_file_read(const char *path, char **text, size_t *length, struct rt_error *error);

/* The first line of a small file such as those in /sys, without its end; false: there is none. */
bool rt_file_line(const char *path, char *line, size_t capacity);

#endif
