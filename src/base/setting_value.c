/* One setting from text: its form, its range, and the sentence that says what would have been right. */
#include "settings.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

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
        return rt_fail(error, RINGTREE_INVALID_SETTING,
                       "%s: the value of %s has a control character (0x%02x) at byte %td", origin, info->name,
                       (unsigned char)*control, control - value + 1);
    if (strlen(value) >= RT_SETTING_TEXT)
        return rt_fail(error, RINGTREE_INVALID_SETTING, "%s: the value of %s has %zu bytes; at most %d are possible",
                       origin, info->name, strlen(value), RT_SETTING_TEXT - 1);
    return RINGTREE_OK;
}

/* "all_reduce, reduce, ...", for a sentence. */
static void list_collectives(char *text, size_t capacity)
{
    size_t used = 0;

    text[0] = '\0';
    for (int c = 0; c < RINGTREE_COLLECTIVE_COUNT && used < capacity; c++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", c ? ", " : "",
                                 ringtree_collective_name((ringtree_collective)c));
}

static bool is_collective(const char *name, size_t length)
{
    for (int c = 0; c < RINGTREE_COLLECTIVE_COUNT; c++) {
        const char *known = ringtree_collective_name((ringtree_collective)c);
        if (strlen(known) == length && memcmp(known, name, length) == 0)
            return true;
    }
    return false;
}

/* Each item is NAME or COLLECTIVE=NAME. Whether there is such an algorithm is known above this folder. */
static ringtree_status check_algorithms(const char *value, const char *origin, struct rt_error *error)
{
    char known[256];

    for (const char *item = value; *value;) {
        const int length = (int)strcspn(item, ",");
        const char *equals = memchr(item, '=', (size_t)length);
        const int left = equals ? (int)(equals - item) : length;
        if (length == 0 || left == 0 || (equals && left + 1 == length) ||
            (equals && memchr(equals + 1, '=', (size_t)(length - left - 1))))
            return rt_fail(error, RINGTREE_INVALID_SETTING, "%s: RINGTREE_ALGORITHM: \"%.*s\" is neither NAME nor "
                           "COLLECTIVE=NAME, such as ring or all_reduce=ring,broadcast=tree", origin,
                           length < 64 ? length : 64, item);
        if (equals && !is_collective(item, (size_t)left)) {
            list_collectives(known, sizeof(known));
            return rt_fail(error, RINGTREE_INVALID_SETTING, "%s: RINGTREE_ALGORITHM: \"%.*s\" is no collective; they "
                           "are %s", origin, left < 64 ? left : 64, item, known);
        }
        if (item[length] == '\0')
            break;
        item += length + 1;
    }
    return RINGTREE_OK;
}

bool rt_setting_available(enum rt_setting setting)
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
    if (!rt_setting_available(setting))
        return rt_fail(error, RINGTREE_INVALID_SETTING,
                       "%s: %s works only in a build with tests (cmake -DRINGTREE_TESTS=ON); remove it", origin,
                       info->name);
    if (!read_value(info, value, &number))
        return bad_value(info, value, origin, error);
    if (info->kind != RT_KIND_TEXT && (number < info->least || number > info->most))
        return bad_value(info, value, origin, error);
    if (setting == RT_ALGORITHM && (status = check_algorithms(value, origin, error)) != RINGTREE_OK)
        return status;
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

bool rt_list_item(const char *list, uint32_t index, char *item, size_t capacity)
{
    for (; index; index--) {
        list = strchr(list, ',');
        if (!list) return false;
        list++;
    }
    const size_t length = strcspn(list, ",");
    if (length == 0 || length >= capacity) return false;
    memcpy(item, list, length);
    item[length] = '\0';
    return true;
}

bool rt_list_allows(const char *list, const char *item)
{
    const bool excludes = list[0] == '^';
    char name[64];
    for (uint32_t i = 0; rt_list_item(list + excludes, i, name, sizeof name); i++)
        if (strcmp(name, item) == 0) return !excludes;
    return excludes;
}
