/* ringtree-info for programs. Keys are only ever added. */
#include "ringtree-info.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* Text from outside need not be UTF-8, which JSON must be. */
static json_t *text_value(const char *text)
{
    json_t *value = json_string(text);

    return value ? value : json_string("(not UTF-8)");
}

static json_t *lines_value(const struct info_line *lines, size_t count)
{
    json_t *object = json_object();

    for (size_t i = 0; i < count; i++)
        json_object_set_new(object, lines[i].name, text_value(lines[i].value));
    return object;
}

static json_t *interfaces_value(const struct rt_interfaces *interfaces)
{
    json_t *array = json_array();

    for (size_t i = 0; i < interfaces->count; i++) {
        const struct rt_candidate *candidate = &interfaces->list[i];
        char host[64];
        json_t *object = json_object();
        json_object_set_new(object, "interface", text_value(candidate->address.interface));
        json_object_set_new(object, "address", candidate->address.family == 0 ? json_null() :
                            text_value(rt_address_host(&candidate->address, host, sizeof(host))));
        json_object_set_new(object, "used", json_boolean(!candidate->why));
        json_object_set_new(object, "why_not", candidate->why ? text_value(candidate->why) : json_null());
        json_array_append_new(array, object);
    }
    return array;
}

static json_t *setting_value(const struct info *info, int i)
{
    static const char *const kinds[] = { "number", "size", "bool", "text" };
    const struct rt_setting_info *setting = &rt_setting_table[i];
    json_t *object = json_object();

    json_object_set_new(object, "value", text_value(info_value(info, i)));
    json_object_set_new(object, "origin", text_value(info_origin(info, i)));
    json_object_set_new(object, "type", text_value(kinds[setting->kind]));
    json_object_set_new(object, "unit", text_value(setting->unit));
    json_object_set_new(object, "default", text_value(setting->value));
    json_object_set_new(object, "help", text_value(setting->help));
    if (setting->kind != RT_KIND_TEXT) {
        json_object_set_new(object, "number", json_integer((json_int_t)info->settings.number[i]));
        json_object_set_new(object, "least", json_integer((json_int_t)setting->least));
        json_object_set_new(object, "most", json_integer((json_int_t)setting->most));
    }
    return object;
}

static json_t *settings_value(const struct info *info)
{
    json_t *object = json_object();

    for (int i = 0; i < RT_SETTING_COUNT; i++)
        if (rt_setting_available((enum rt_setting)i))
            json_object_set_new(object, rt_setting_table[i].name, setting_value(info, i));
    return object;
}

static json_t *errors_value(const struct info *info)
{
    json_t *array = json_array();

    if (info->settings_error.status)
        json_array_append_new(array, text_value(info->settings_error.text));
    if (info->interfaces_error.status)
        json_array_append_new(array, text_value(info->interfaces_error.text));
    return array;
}

int info_print_json(const struct info *info, bool settings_only)
{
    struct info_line lines[INFO_LINES];
    json_t *root = json_object();

    if (!settings_only) {
        json_object_set_new(root, "build", lines_value(lines, info_build(info, lines)));
        json_object_set_new(root, "machine", lines_value(lines, info_machine(info, lines)));
        json_object_set_new(root, "addresses", interfaces_value(&info->interfaces));
    }
    json_object_set_new(root, "settings", settings_value(info));
    json_object_set_new(root, "errors", errors_value(info));
    int failed = json_dumpf(root, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(root);
    return failed;
}

int info_print_memory_json(const struct info *info, uint32_t n)
{
    struct info_memory_line lines[INFO_MEMORY_LINES];
    const size_t count = info_memory(info, n, lines);
    json_t *root = json_object(), *bytes = json_object();

    for (size_t i = 0; i < count; i++)
        json_object_set_new(bytes, lines[i].name, json_integer((json_int_t)lines[i].bytes));
    json_object_set_new(root, "ranks", json_integer(n));
    json_object_set_new(root, "bytes", bytes);
    int failed = json_dumpf(root, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(root);
    return failed;
}
