/* Any bytes as a settings file: they are taken, every value being in its range, or there is one clear sentence. */
#include "base/settings.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_taken(const struct rt_settings *settings)
{
    for (int i = 0; i < RT_SETTING_COUNT; i++) {
        const struct rt_setting_info *info = &rt_setting_table[i];
        if (!memchr(settings->text[i], '\0', RT_SETTING_TEXT) || settings->given[i] > 1)
            abort();
        if (info->kind != RT_KIND_TEXT && settings->given[i] &&
            (settings->number[i] < info->least || settings->number[i] > info->most))
            abort();
    }
}

static void check_refused(ringtree_status status, const struct rt_error *error)
{
    const size_t length = strnlen(error->text, RT_ERROR_TEXT);

    if (status != RINGTREE_INVALID_SETTING || error->status != status)
        abort();
    if (length == RT_ERROR_TEXT || strncmp(error->text, "fuzz, line ", 11) != 0)
        abort();
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)error->text[i] < ' ')
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rt_settings settings;
    struct rt_error error;

    rt_error_clear(&error);
    rt_settings_defaults(&settings);
    ringtree_status status = rt_settings_parse(&settings, (const char *)data, size, "fuzz", &error);
    if (status == RINGTREE_OK)
        check_taken(&settings);
    else
        check_refused(status, &error);
    return 0;
}
