/* Reads files whose size is not known before and not to be trusted. */
#include "file.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Until the end or one byte over what is allowed. NULL: no memory. */
static char *read_all(FILE *file, size_t *length)
{
    size_t room = 1 << 16, used = 0;
    char *text = malloc(room + 1);

    while (text) {
        used += fread(text + used, 1, room - used, file);
        if (used < room || room > RT_FILE_MOST_BYTES)
            break;
        room *= 2;
        char *larger = realloc(text, room + 1);
        if (!larger)
            free(text);
        text = larger;
    }
    if (text)
        text[used] = '\0';
    *length = used;
    return text;
}

ringtree_status rt_file_read(const char *path, char **text, size_t *length, struct rt_error *error)
{
    FILE *file = fopen(path, "re");

    *text = NULL;
    if (!file)
        return rt_fail_errno(error, "the file %s cannot be opened", path);
    *text = read_all(file, length);
    const bool failed = *text && ferror(file);
    const int number = errno;
    fclose(file);
    if (*text && !failed && *length <= RT_FILE_MOST_BYTES)
        return RINGTREE_OK;
    const bool memory = !*text;
    free(*text);
    *text = NULL;
    errno = number;
    if (memory)
        return rt_fail(error, RINGTREE_NO_MEMORY, "no memory for the file %s", path);
    if (failed)
        return rt_fail_errno(error, "the file %s cannot be read", path);
    return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "the file %s has over %u bytes", path, RT_FILE_MOST_BYTES);
}

bool rt_file_line(const char *path, char *line, size_t capacity)
{
    FILE *file = fopen(path, "re");

    if (!file)
        return false;
    const bool found = fgets(line, (int)capacity, file) != NULL;
    fclose(file);
    if (found)
        line[strcspn(line, "\n")] = '\0';
    return found;
}
