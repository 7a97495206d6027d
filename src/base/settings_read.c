/* Settings from the file and the environment. Every byte is checked; every error names its origin. */
#include "settings.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX "RINGTREE_"
#define NAME_MOST 64            /* no setting's name is longer */
#define FILE_MOST (1024 * 1024) /* a settings file of more bytes is some other file */
#define ENVIRONMENT "environment"

enum { GIVEN_DEFAULT, GIVEN_FILE, GIVEN_ENVIRONMENT };

extern char **environ;

enum rt_setting rt_setting_find(const char *name)
{
    for (int i = 0; i < RT_SETTING_COUNT; i++)
        if (strcmp(rt_setting_table[i].name, name) == 0)
            return (enum rt_setting)i;
    return RT_SETTING_COUNT;
}

/* ------------------------------------------------------------------ names */

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/*
 * How far `a` is from `b`, names of at most NAME_MOST bytes. Two for each edit: insert, delete or replace a letter, or
 * swap two neighbours. One more when `a` resembles only the beginning of `b`: RINGTREE_ALGO means RINGTREE_ALGORITHM.
 * cost[i][j] is the number of edits from the first i letters of `a` to the first j of `b`.
 */
static size_t distance(const char *a, const char *b)
{
    size_t cost[NAME_MOST + 1][NAME_MOST + 1];
    const size_t a_length = strnlen(a, NAME_MOST), b_length = strnlen(b, NAME_MOST);

    for (size_t i = 0; i <= a_length; i++) {
        for (size_t j = 0; j <= b_length; j++) {
            if (i == 0 || j == 0) {
                cost[i][j] = i + j;
                continue;
            }
            size_t best = cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            best = smaller(best, smaller(cost[i - 1][j], cost[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = smaller(best, cost[i - 2][j - 2] + 1);
            cost[i][j] = best;
        }
    }
    size_t least = 2 * cost[a_length][b_length];
    for (size_t j = 0; j < b_length; j++)
        least = smaller(least, 2 * cost[a_length][j] + 1);
    return least;
}

static const char *nearest_name(const char *name)
{
    const char *best = rt_setting_table[0].name;
    char upper[NAME_MOST + 1];
    size_t least = SIZE_MAX, length = 0;

    for (; name[length]; length++)
        upper[length] = (char)toupper((unsigned char)name[length]);
    upper[length] = '\0';
    for (int i = 0; i < RT_SETTING_COUNT; i++) {
        size_t far = distance(upper, rt_setting_table[i].name);
        if (far < least && rt_setting_available((enum rt_setting)i)) {
            least = far;
            best = rt_setting_table[i].name;
        }
    }
    return best;
}

static ringtree_status unknown_name(const char *name, size_t length, const char *origin, struct rt_error *error)
{
    char shown[NAME_MOST + 1];

    if (length > NAME_MOST)
        return rt_fail(error, RINGTREE_INVALID_SETTING,
                       "%s: \"%.*s...\" is no setting of ringtree; ringtree-info lists them all", origin, NAME_MOST,
                       name);
    memcpy(shown, name, length);
    shown[length] = '\0';
    return rt_fail(error, RINGTREE_INVALID_SETTING,
                   "%s: \"%s\" is no setting of ringtree; the nearest is %s; ringtree-info lists them all", origin,
                   shown, nearest_name(shown));
}

/* The setting of the `length` bytes at `name`, which need not be terminated, or RT_SETTING_COUNT. */
static enum rt_setting find_setting(const char *name, size_t length)
{
    char copy[NAME_MOST + 1];

    if (length > NAME_MOST)
        return RT_SETTING_COUNT;
    memcpy(copy, name, length);
    copy[length] = '\0';
    return rt_setting_find(copy);
}

/* ------------------------------------------------------------------ the file's form */

struct reader {
    struct rt_settings *settings;
    const char         *file;
    struct rt_error    *error;
    size_t              line;                      /* counted from 1 */
    size_t              line_of[RT_SETTING_COUNT]; /* where a name came before; 0: not yet */
    char                origin[192];               /* "ringtree.conf, line 3" */
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static void trim(const char **start, const char **end)
{
    while (*start < *end && is_space(**start))
        (*start)++;
    while (*end > *start && is_space((*end)[-1]))
        (*end)--;
}

/* A # begins a comment at the line's start and after a space, so that a value may contain one. */
static const char *find_comment(const char *start, const char *end)
{
    for (const char *c = start; c < end; c++)
        if (*c == '#' && (c == start || is_space(c[-1])))
            return c;
    return end;
}

static ringtree_status check_bytes(const struct reader *reader, const char *start, const char *end)
{
    for (const char *c = start; c < end; c++)
        if (((unsigned char)*c < ' ' && !is_space(*c)) || *c == 0x7f)
            return rt_fail(reader->error, RINGTREE_INVALID_SETTING,
                           "%s: byte %td is 0x%02x, which is no text; is this a settings file?", reader->origin,
                           c - start + 1, (unsigned char)*c);
    return RINGTREE_OK;
}

static ringtree_status check_may_come(struct reader *reader, enum rt_setting setting)
{
    const char *name = rt_setting_table[setting].name;

    if (setting == RT_CONFIG)
        return rt_fail(reader->error, RINGTREE_INVALID_SETTING,
                       "%s: %s counts only in the environment: one settings file cannot name another", reader->origin,
                       name);
    if (reader->line_of[setting])
        return rt_fail(reader->error, RINGTREE_INVALID_SETTING, "%s: %s was already given in line %zu",
                       reader->origin, name, reader->line_of[setting]);
    reader->line_of[setting] = reader->line;
    return RINGTREE_OK;
}

static ringtree_status take_value(struct reader *reader, enum rt_setting setting, const char *start, const char *end)
{
    char value[RT_SETTING_TEXT];
    const size_t length = (size_t)(end - start);

    if (length >= sizeof(value))
        return rt_fail(reader->error, RINGTREE_INVALID_SETTING,
                       "%s: the value of %s has %zu bytes; at most %d are possible", reader->origin,
                       rt_setting_table[setting].name, length, RT_SETTING_TEXT - 1);
    memcpy(value, start, length);
    value[length] = '\0';
    ringtree_status status = rt_setting_set(reader->settings, setting, value, reader->origin, reader->error);
    if (status == RINGTREE_OK)
        reader->settings->given[setting] = GIVEN_FILE;
    return status;
}

static ringtree_status take_line(struct reader *reader, const char *start, const char *end)
{
    ringtree_status status = check_bytes(reader, start, end);

    if (status)
        return status;
    trim(&start, &end);
    end = find_comment(start, end);
    trim(&start, &end);
    if (start == end)
        return RINGTREE_OK;

    const char *equals = memchr(start, '=', (size_t)(end - start));
    if (!equals)
        return rt_fail(reader->error, RINGTREE_INVALID_SETTING, "%s: \"%.*s\" is not of the form NAME=value",
                       reader->origin, (int)(end - start < 64 ? end - start : 64), start);
    const char *name_end = equals, *value = equals + 1;
    trim(&start, &name_end);
    trim(&value, &end);
    enum rt_setting setting = find_setting(start, (size_t)(name_end - start));
    if (setting == RT_SETTING_COUNT)
        return unknown_name(start, (size_t)(name_end - start), reader->origin, reader->error);
    status = check_may_come(reader, setting);
    return status ? status : take_value(reader, setting, value, end);
}

ringtree_status rt_settings_parse(struct rt_settings *settings, const char *text, size_t length, const char *origin,
                                  struct rt_error *error)
{
    struct reader reader = { .settings = settings, .file = origin, .error = error };
    ringtree_status status = RINGTREE_OK;

    for (size_t at = 0; at < length && status == RINGTREE_OK;) {
        const char *start = text + at, *newline = memchr(start, '\n', length - at);
        const char *end = newline ? newline : text + length;
        reader.line++;
        snprintf(reader.origin, sizeof(reader.origin), "%s, line %zu", reader.file, reader.line);
        status = take_line(&reader, start, end);
        at = (size_t)(end - text) + 1;
    }
    return status;
}

/* ------------------------------------------------------------------ the file */

static ringtree_status fail_file(struct rt_error *error, const char *path, const char *what)
{
    return rt_fail(error, RINGTREE_INVALID_SETTING, "settings file \"%s\" (RINGTREE_CONFIG) %s", path, what);
}

static ringtree_status fail_file_errno(struct rt_error *error, const char *path, const char *what)
{
    return rt_fail(error, RINGTREE_INVALID_SETTING, "settings file \"%s\" (RINGTREE_CONFIG) %s: %s", path, what,
                   rt_errno_words(errno));
}

/* All of the file in `text` of `capacity` bytes; *length == capacity: there may be more. */
static ringtree_status read_all(int fd, const char *path, char *text, size_t capacity, size_t *length,
                                struct rt_error *error)
{
    *length = 0;
    while (*length < capacity) {
        ssize_t got = read(fd, text + *length, capacity - *length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_file_errno(error, path, "cannot be read");
        if (got == 0)
            break;
        *length += (size_t)got;
    }
    return RINGTREE_OK;
}

static ringtree_status parse_open_file(struct rt_settings *settings, int fd, const char *path, struct rt_error *error)
{
    struct stat info;
    size_t length;

    if (fstat(fd, &info) < 0)
        return fail_file_errno(error, path, "cannot be read");
    if (!S_ISREG(info.st_mode))
        return fail_file(error, path, "is not a regular file");
    char *text = malloc(FILE_MOST + 1);
    if (!text)
        return rt_fail(error, RINGTREE_NO_MEMORY, "no memory (%d bytes) to read settings file \"%s\"", FILE_MOST, path);
    ringtree_status status = read_all(fd, path, text, FILE_MOST + 1, &length, error);
    if (status == RINGTREE_OK && length > FILE_MOST)
        status = fail_file(error, path, "has over 1 MiB: it is hardly a settings file");
    if (status == RINGTREE_OK)
        status = rt_settings_parse(settings, text, length, path, error);
    free(text);
    return status;
}

static ringtree_status load_file(struct rt_settings *settings, const char *path, struct rt_error *error)
{
    /* O_NONBLOCK: a named pipe would otherwise wait here for its writer, without a deadline. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0)
        return fail_file_errno(error, path, "cannot be opened");
    ringtree_status status = parse_open_file(settings, fd, path, error);
    close(fd);
    return status;
}

/* ------------------------------------------------------------------ the environment */

static ringtree_status take_variable(struct rt_settings *settings, const char *variable, struct rt_error *error)
{
    const char *equals = strchr(variable, '=');
    const size_t length = equals ? (size_t)(equals - variable) : strlen(variable);
    const enum rt_setting setting = find_setting(variable, length);

    if (setting == RT_SETTING_COUNT)
        return unknown_name(variable, length, ENVIRONMENT, error);
    if (!equals || settings->given[setting] == GIVEN_ENVIRONMENT)
        return RINGTREE_OK; /* of a name that comes twice getenv() sees the first */
    ringtree_status status = rt_setting_set(settings, setting, equals + 1, ENVIRONMENT, error);
    if (status == RINGTREE_OK)
        settings->given[setting] = GIVEN_ENVIRONMENT;
    return status;
}

static ringtree_status load_environment(struct rt_settings *settings, struct rt_error *error)
{
    for (char **variable = environ; variable && *variable; variable++) {
        if (strncmp(*variable, PREFIX, strlen(PREFIX)) != 0)
            continue;
        ringtree_status status = take_variable(settings, *variable, error);
        if (status)
            return status;
    }
    return RINGTREE_OK;
}

ringtree_status rt_settings_load(struct rt_settings *settings, struct rt_error *error)
{
    const char *path = getenv(rt_setting_table[RT_CONFIG].name);

    rt_settings_defaults(settings);
    if (path && path[0]) {
        ringtree_status status = load_file(settings, path, error);
        if (status)
            return status;
    }
    return load_environment(settings, error);
}
