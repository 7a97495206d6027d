/* ringtree-info for people. */
#include "ringtree-info.h"
#include <stdio.h>
#include <string.h>

#define WIDTH 72 /* a man page is made of it */

/* `text` in lines of at most WIDTH, each after four spaces, broken at spaces. */
static void print_wrapped(const char *text)
{
    while (*text) {
        size_t length = strlen(text);
        if (length > WIDTH - 4) {
            length = WIDTH - 4;
            while (length > 1 && text[length] != ' ')
                length--;
        }
        printf("    %.*s\n", (int)length, text);
        text += length;
        text += strspn(text, " ");
    }
}

static void print_lines(const char *title, const struct info_line *lines, size_t count)
{
    printf("%s\n", title);
    for (size_t i = 0; i < count; i++)
        printf("  %-16s %s\n", lines[i].name, lines[i].value);
    putchar('\n');
}

static void print_interfaces(const struct rt_interfaces *interfaces)
{
    puts("Network addresses, in the order in which other ranks try them");
    for (size_t i = 0; i < interfaces->count; i++) {
        const struct rt_candidate *candidate = &interfaces->list[i];
        char host[64];
        rt_address_host(&candidate->address, host, sizeof(host));
        if (candidate->why)
            printf("  -  %-16s %-24s %s\n", candidate->address.interface, host, candidate->why);
        else
            printf("  %zu  %-16s %s\n", i + 1, candidate->address.interface, host);
    }
    if (interfaces->used == 0)
        puts("  none: ranks on other machines cannot reach this one");
    putchar('\n');
}

static void print_range(const struct rt_setting_info *setting)
{
    const char *value = setting->value[0] ? setting->value : "unset";

    switch (setting->kind) {
    case RT_KIND_U64:
        printf("    %" PRIu64 " to %" PRIu64 "%s%s; default %s\n", setting->least, setting->most,
               setting->unit[0] ? " " : "", setting->unit, value);
        break;
    case RT_KIND_SIZE:
        printf("    %" PRIu64 " to %" PRIu64 " bytes, also with K, M or G; default %s\n", setting->least, setting->most,
               value);
        break;
    case RT_KIND_BOOL:
        printf("    0 or 1; default %s\n", value);
        break;
    case RT_KIND_TEXT:
        if (setting->choices)
            printf("    one of: %s; ", setting->choices);
        else
            printf("    text; ");
        printf("default %s\n", setting->value[0] ? setting->value : "empty");
        break;
    }
}

static void print_settings(const struct info *info)
{
    puts("Settings, from the environment, else the file named by RINGTREE_CONFIG, else the default");
    for (int i = 0; i < RT_SETTING_COUNT; i++) {
        const struct rt_setting_info *setting = &rt_setting_table[i];
        const char *value = info_value(info, i);
        if (!rt_setting_available((enum rt_setting)i))
            continue;
        printf("  %s = %s%s%s (%s)\n", setting->name, value[0] ? value : "unset",
               value[0] && setting->kind == RT_KIND_U64 && setting->unit[0] ? " " : "",
               value[0] && setting->kind == RT_KIND_U64 ? setting->unit : "", info_origin(info, i));
        print_wrapped(setting->help);
        print_range(setting);
    }
}

void info_print_text(const struct info *info, bool settings_only)
{
    struct info_line lines[INFO_LINES];

    if (!settings_only) {
        print_lines("Build", lines, info_build(info, lines));
        print_lines("Machine", lines, info_machine(info, lines));
        print_interfaces(&info->interfaces);
    }
    print_settings(info);
}
