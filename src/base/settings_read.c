/* Settings from text: values, the file and the environment. Every byte is checked; every error names its origin. */
#include "settings.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
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

/* ------------------------------------------------------------------ values */

/* Digits only: no sign, no space, nothing after them but, at *end, what the caller allows. */
static bool read_digits(const char *text, const char **end, uint64_t *number)
{
    uint64_t sum = 0;
    const char *c = text;

    for (; *c >= '0' && *c <= '9'; c++)
        if (__builtin_mul_overflow(sum, 10, &sum) || __builtin_add_overflow(sum, (uint64_t)(*c - '0'), &sum))
            return false;
    *end = c;
    *number = sum;
    return c > text;
}

static bool read_u64(const char *text, uint64_t *number)
{
    const char *end;

    return read_digits(text, &end, number) && *end == '\0';
}

static bool read_size(const char *text, uint64_t *number)
{
    static const char letters[] = "KMG";
    const char *end;

    if (!read_digits(text, &end, number))
        return false;
    if (*end == '\0')
        return true;
    const char *letter = strchr(letters, toupper((unsigned char)*end));
    if (!letter || end[1] != '\0')
        return false;
    return !__builtin_mul_overflow(*number, UINT64_C(1) << (10 * (letter - letters + 1)), number);
}

static bool read_bool(const char *text, uint64_t *number)
{
    static const char *const words[] = { "0", "1", "no", "yes", "off", "on", "false", "true" };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasecmp(text, words[i]) == 0)
            return *number = i % 2, true;
    return false;
}

static bool is_choice(const char *text, const char *choices)
{
    const size_t length = strlen(text);

    if (!choices || length == 0)
        return true;
    for (const char *word = choices; *word;) {
        size_t word_length = strcspn(word, " ");
        if (word_length == length && memcmp(word, text, length) == 0)
            return true;
        word += word_length + strspn(word + word_length, " ");
    }
    return false;
}

static bool read_value(const struct rt_setting_info *info, const char *text, uint64_t *number)
{
    *number = 0;
    switch (info->kind) {
    case RT_KIND_U64:  return read_u64(text, number);
    case RT_KIND_SIZE: return read_size(text, number);
    case RT_KIND_BOOL: return read_bool(text, number);
    case RT_KIND_TEXT: return is_choice(text, info->choices);
    }
    return false;
}

/* "a whole number from 1 to 10 (ms)": what would have been right. */
static void describe_form(const struct rt_setting_info *info, char *form, size_t capacity)
{
    const char *open = info->unit[0] ? " (" : "", *close = info->unit[0] ? ")" : "";

    switch (info->kind) {
    case RT_KIND_U64:
        snprintf(form, capacity, "a whole number from %" PRIu64 " to %" PRIu64 "%s%s%s", info->least, info->most, open,
                 info->unit, close);
        break;
    case RT_KIND_SIZE:
        snprintf(form, capacity, "bytes from %" PRIu64 " to %" PRIu64 ", such as 4096, 64K, 1M or 2G", info->least,
                 info->most);
        break;
    case RT_KIND_BOOL:
        snprintf(form, capacity, "0 or 1, no or yes, off or on, false or true");
        break;
    case RT_KIND_TEXT:
        snprintf(form, capacity, "nothing or one of: %s", info->choices ? info->choices : "");
        break;
    }
}

static ringtree_status bad_value(const struct rt_setting_info *info, const char *value, const char *origin,
                                 struct rt_error *error)
{
    char form[160];

    describe_form(info, form, sizeof(form));
    return rt_fail(error, RINGTREE_INVALID_SETTING, "%s: %s is \"%.*s%s\"; it takes %s%s", origin, info->name, 64,
                   info->hidden ? "(hidden)" : value, !info->hidden && strlen(value) > 64 ? "..." : "", form,
                   value[0] ? "" : "; remove it for the default");
}

/* A value is shown, logged and compared as text: control characters in it are always an accident. */
static const char *find_control(const char *value)
{
    for (const char *c = value; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return c;
    return NULL;
}

static ringtree_status check_text(const struct rt_setting_info *info, const char *value, const char *origin,
                                  struct rt_error *error)
{
    const char *control = find_control(value);

    if (control)
        return rt_fail(error, RINGTREE_INVALID_SETTING, "%s: the value of %s has a control character (0x%02x) at byte %td",
                       origin, info->name, (unsigned char)*control, control - value + 1);
    if (strlen(value) >= RT_SETTING_TEXT)
        return rt_fail(error, RINGTREE_INVALID_SETTING, "%s: the value of %s has %zu bytes; at most %d are possible",
                       origin, info->name, strlen(value), RT_SETTING_TEXT - 1);
    return RINGTREE_OK;
}

static bool is_available(enum rt_setting setting)
{
#ifdef RINGTREE_FAULT_SWITCHES
    (void)setting;
    return true;
#else
    return setting != RT_FAULT;
#endif
}

ringtree_status rt_setting_set(struct rt_settings *settings, enum rt_setting setting, const char *value,
                               const char *origin, struct rt_error *error)
{
    const struct rt_setting_info *info = &rt_setting_table[setting];
    ringtree_status status = check_text(info, value, origin, error);
    uint64_t number;

    if (status)
        return status;
    if (!is_available(setting))
        return rt_fail(error, RINGTREE_INVALID_SETTING,
                       "%s: %s works only in a build with tests (cmake -DRINGTREE_TESTS=ON); remove it", origin,
                       info->name);
    if (!read_value(info, value, &number))
        return bad_value(info, value, origin, error);
    if (info->kind != RT_KIND_TEXT && (number < info->least || number > info->most))
        return bad_value(info, value, origin, error);
    settings->number[setting] = number;
    strcpy(settings->text[setting], value);
    return RINGTREE_OK;
}

void rt_settings_defaults(struct rt_settings *settings)
{
    memset(settings, 0, sizeof(*settings));
    for (int i = 0; i < RT_SETTING_COUNT; i++) {
        const struct rt_setting_info *info = &rt_setting_table[i];
        if (info->value[0] == '\0')
            continue;
        read_value(info, info->value, &settings->number[i]);
        strcpy(settings->text[i], info->value);
    }
}

/* ------------------------------------------------------------------ names */

/* Edit distance of two names of at most NAME_MOST bytes: insert, delete, replace one letter. */
static size_t distance(const char *a, const char *b)
{
    size_t row[NAME_MOST + 1];
    const size_t a_length = strlen(a), b_length = strlen(b);

    for (size_t j = 0; j <= b_length; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t best = diagonal + (toupper((unsigned char)a[i - 1]) != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[b_length];
}

static const char *nearest_name(const char *name)
{
    const char *best = rt_setting_table[0].name;
    size_t least = SIZE_MAX;

    for (int i = 0; i < RT_SETTING_COUNT; i++) {
        size_t edits = distance(name, rt_setting_table[i].name);
        if (edits < least && is_available((enum rt_setting)i)) {
            least = edits;
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
