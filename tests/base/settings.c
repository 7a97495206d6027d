/* Settings: every form of value, file, environment; every refusal with its sentence. */
#include "base/settings.h"
#include "folder.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static struct rt_settings settings;
static struct rt_error error;

static ringtree_status parse(const char *text)
{
    rt_error_clear(&error);
    rt_settings_defaults(&settings);
    return rt_settings_parse(&settings, text, strlen(text), "test.conf", &error);
}

static ringtree_status load(void)
{
    rt_error_clear(&error);
    return rt_settings_load(&settings, &error);
}

/* Loads with just that environment. */
static ringtree_status load_with(char *first, char *second)
{
    char *only[] = { first, second, NULL }, **before = environ;

    environ = only;
    ringtree_status status = load();
    environ = before;
    return status;
}

#define CHECK_REFUSED(call, part)                                                                                      \
    do {                                                                                                               \
        CHECK_EQ(call, RINGTREE_INVALID_SETTING);                                                                      \
        CHECK_HAS(error.text, part);                                                                                   \
    } while (0)

TEST(every_row_of_the_table_is_whole_and_its_default_is_valid)
{
    struct rt_settings again;

    rt_settings_defaults(&settings);
    again = settings;
    for (int i = 0; i < RT_SETTING_COUNT; i++) {
        const struct rt_setting_info *info = &rt_setting_table[i];
        CHECK_THAT(info->name && strncmp(info->name, "RINGTREE_", 9) == 0, "row %d", i);
        CHECK_THAT(strlen(info->name) <= 64, "%s", info->name);
        CHECK_THAT(info->help && strlen(info->help) > 20, "%s", info->name);
        CHECK_THAT(info->least <= info->most, "%s", info->name);
        CHECK_EQ(rt_setting_find(info->name), i);
        if (info->value[0])
            CHECK_EQ(rt_setting_set(&again, (enum rt_setting)i, info->value, "default", &error), RINGTREE_OK);
        CHECK_THAT(again.number[i] == settings.number[i], "%s", info->name);
    }
    CHECK_EQ(rt_setting_find("RINGTREE_"), RT_SETTING_COUNT);
}

TEST(defaults_are_those_of_the_table)
{
    rt_settings_defaults(&settings);
    CHECK_EQ(settings.number[RT_TIMEOUT_MS], 300000);
    CHECK_EQ(settings.number[RT_SHM_SLOT_BYTES], 128 * 1024);
    CHECK_EQ(settings.number[RT_DIRECT], 1);
    CHECK_EQ(settings.number[RT_RANK], 0);
    CHECK(settings.text[RT_RANK][0] == '\0');
    CHECK_EQ(settings.given[RT_RANK], 0);
    CHECK(strcmp(settings.text[RT_TRANSPORTS], "^ucx") == 0);
}

TEST(numbers_are_whole_and_in_range)
{
    static const char *const bad[] = { "", "abc", "-1", "+5", "5x", "0x10", "1.5", "1e3", "5 5", "0", "2147483648",
                                       "18446744073709551616", "99999999999999999999999", "\xd9\xa3", "64K" };
    char line[128];

    CHECK_EQ(parse("RINGTREE_TIMEOUT_MS=5000"), RINGTREE_OK);
    CHECK_EQ(settings.number[RT_TIMEOUT_MS], 5000);
    CHECK_EQ(settings.given[RT_TIMEOUT_MS], 1);
    CHECK_EQ(parse("RINGTREE_TIMEOUT_MS=007"), RINGTREE_OK);
    CHECK_EQ(settings.number[RT_TIMEOUT_MS], 7);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(line, sizeof(line), "RINGTREE_TIMEOUT_MS=%s", bad[i]);
        CHECK_REFUSED(parse(line), "test.conf, line 1: RINGTREE_TIMEOUT_MS is \"");
        CHECK_HAS(error.text, bad[i]);
        CHECK_HAS(error.text, "a whole number from 1 to 2147483647 (ms)");
    }
    CHECK_REFUSED(parse("RINGTREE_PORT=65536"), "from 0 to 65535");
}

TEST(sizes_take_binary_units)
{
    static const struct {
        const char *text;
        uint64_t    bytes;
    } good[] = { { "4096", 4096 }, { "64K", 65536 }, { "64k", 65536 }, { "1M", 1048576 },
                 { "1G", 1073741824 }, { "0", 0 } };
    static const char *const bad[] = { "K", "64KB", "64 K", "1T", "2G", "-1K", "18014398509481984K", "1.5M", "4096B" };
    char line[128];

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        snprintf(line, sizeof(line), "RINGTREE_SLICE_BYTES=%s", good[i].text);
        CHECK_EQ(parse(line), RINGTREE_OK);
        CHECK_EQ(settings.number[RT_SLICE_BYTES], good[i].bytes);
        CHECK(strcmp(settings.text[RT_SLICE_BYTES], good[i].text) == 0);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(line, sizeof(line), "RINGTREE_SLICE_BYTES=%s", bad[i]);
        CHECK_REFUSED(parse(line), "64K, 1M or 2G");
    }
}

TEST(bools_take_the_usual_words)
{
    static const char *const words[] = { "0", "1", "no", "yes", "off", "on", "false", "true",
                                         "No", "YES", "False", "TRUE" };
    static const char *const bad[] = { "", "2", "y", "enable", "truee", "00" };
    char line[128];

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        snprintf(line, sizeof(line), "RINGTREE_DIRECT=%s", words[i]);
        CHECK_EQ(parse(line), RINGTREE_OK);
        CHECK_EQ(settings.number[RT_DIRECT], i % 2);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(line, sizeof(line), "RINGTREE_DIRECT=%s", bad[i]);
        CHECK_REFUSED(parse(line), "0 or 1, no or yes");
    }
}

TEST(choices_are_checked)
{
    CHECK_EQ(parse("RINGTREE_LOG=info"), RINGTREE_OK);
    CHECK_EQ(parse("RINGTREE_LOG="), RINGTREE_OK);
    CHECK_REFUSED(parse("RINGTREE_LOG=inf"), "one of: error warn info debug");
    CHECK_REFUSED(parse("RINGTREE_LOG=error warn"), "one of: error warn info debug");
}

TEST(a_forced_algorithm_has_a_name_and_its_collective_exists)
{
    static const char *const bad[] = { ",", "ring,", ",ring", "=ring", "all_reduce=", "all_reduce=ring=tree", "=" };
    char line[128];

    CHECK_EQ(parse("RINGTREE_ALGORITHM="), RINGTREE_OK);
    CHECK_EQ(parse("RINGTREE_ALGORITHM=ring"), RINGTREE_OK);
    CHECK_EQ(parse("RINGTREE_ALGORITHM=ring,broadcast=tree,all_to_all_v=pairwise"), RINGTREE_OK);
    CHECK_REFUSED(parse("RINGTREE_ALGORITHM=allreduce=ring"),
                  "RINGTREE_ALGORITHM: \"allreduce\" is no collective; they are all_reduce, reduce, ");
    CHECK_REFUSED(parse("RINGTREE_ALGORITHM=all_reduce=ring,all_reduc=ring"), "\"all_reduc\" is no collective");
    CHECK_REFUSED(parse("RINGTREE_ALGORITHM=all_reducee=ring"), "all_to_all_v");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(line, sizeof(line), "RINGTREE_ALGORITHM=%s", bad[i]);
        CHECK_REFUSED(parse(line), "is neither NAME nor COLLECTIVE=NAME");
    }
}

TEST(the_file_takes_spaces_comments_and_any_line_end)
{
    CHECK_EQ(parse("# a comment\n\n  \t\n RINGTREE_HOST = left \r\nRINGTREE_PORT=7 # why\nRINGTREE_LOG_FILE=/a#b"),
             RINGTREE_OK);
    CHECK(strcmp(settings.text[RT_HOST], "left") == 0);
    CHECK_EQ(settings.number[RT_ROOT_PORT], 7);
    CHECK(strcmp(settings.text[RT_LOG_FILE], "/a#b") == 0);
    CHECK_EQ(parse(""), RINGTREE_OK);
    CHECK_EQ(parse("RINGTREE_ALGORITHM=all_reduce=ring,broadcast=tree"), RINGTREE_OK);
    CHECK(strcmp(settings.text[RT_ALGORITHM], "all_reduce=ring,broadcast=tree") == 0);
}

TEST(an_unknown_name_is_refused_with_the_nearest_one)
{
    CHECK_REFUSED(parse("\nRINGTREE_TIMEOT_MS=5"),
                  "line 2: \"RINGTREE_TIMEOT_MS\" is no setting of ringtree; the nearest is RINGTREE_TIMEOUT_MS;");
    CHECK_REFUSED(parse("TIMEOUT_MS=5"), "nearest is RINGTREE_TIMEOUT_MS");
    CHECK_REFUSED(parse("ringtree_port=5"), "nearest is RINGTREE_PORT");
    CHECK_REFUSED(parse("RINGTREE_ALGO=ring"), "nearest is RINGTREE_ALGORITHM");
    CHECK_REFUSED(parse("RINGTREE_TIMEOT=5"), "nearest is RINGTREE_TIMEOUT_MS");
    CHECK_REFUSED(parse("RINGTREE_LOGFILE=x"), "nearest is RINGTREE_LOG_FILE");
    CHECK_REFUSED(parse("RINGTREE_LGO=x"), "nearest is RINGTREE_LOG;");
    CHECK_REFUSED(parse("=5"), "\"\" is no setting");
}

TEST(lines_that_are_no_settings_are_refused_with_their_number)
{
    CHECK_REFUSED(parse("RINGTREE_PORT=1\nRINGTREE_PORT=2"), "line 2: RINGTREE_PORT was already given in line 1");
    CHECK_REFUSED(parse("#\nRINGTREE_PORT"), "line 2: \"RINGTREE_PORT\" is not of the form NAME=value");
    CHECK_REFUSED(parse("RINGTREE_CONFIG=x"), "counts only in the environment");
    CHECK_REFUSED(parse("\177ELF\001"), "byte 1 is 0x7f");
    CHECK_REFUSED(parse("RINGTREE_HOST=a\033[2J"), "byte 16 is 0x1b");
}

TEST(a_zero_byte_is_refused_wherever_it_stands)
{
    static const char text[] = "RINGTREE_PORT=7\0RINGTREE_HOST=b";

    for (size_t at = 0; at < 20; at++) {
        char copy[sizeof(text)];
        memset(copy, 'x', sizeof(copy));
        copy[at] = '\0';
        rt_error_clear(&error);
        CHECK_REFUSED(rt_settings_parse(&settings, copy, sizeof(copy), "test.conf", &error), "is 0x00");
    }
    CHECK_REFUSED(rt_settings_parse(&settings, text, sizeof(text) - 1, "test.conf", &error), "byte 16 is 0x00");
}

TEST(values_of_511_bytes_fit_and_longer_ones_are_refused)
{
    char line[20000];

    for (size_t length = 500; length < 530; length++) {
        int head = snprintf(line, sizeof(line), "RINGTREE_HOST=");
        memset(line + head, 'h', length);
        line[(size_t)head + length] = '\0';
        if (length < RT_SETTING_TEXT) {
            CHECK_EQ(parse(line), RINGTREE_OK);
            CHECK_EQ(strlen(settings.text[RT_HOST]), length);
        } else {
            CHECK_REFUSED(parse(line), "at most 511");
            CHECK_REFUSED(load_with(line, NULL), "at most 511");
        }
    }
    memset(line, 'R', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\0';
    CHECK_REFUSED(parse(line), "is not of the form");
    line[15000] = '=';
    CHECK_REFUSED(parse(line), "is no setting");
    line[0] = '#';
    CHECK_EQ(parse(line), RINGTREE_OK);
}

TEST(the_environment_is_read_and_checked)
{
    CHECK_EQ(load_with("RINGTREE_PORT=9", "PATH=/bin"), RINGTREE_OK);
    CHECK_EQ(settings.number[RT_ROOT_PORT], 9);
    CHECK_EQ(settings.given[RT_ROOT_PORT], 2);
    CHECK_EQ(settings.given[RT_HOST], 0);
    CHECK_EQ(load_with("RINGTREE_PORT=9", "RINGTREE_PORT=10"), RINGTREE_OK);
    CHECK_EQ(settings.number[RT_ROOT_PORT], 9);
    CHECK_EQ(load_with("RINGTREEX=1", "MY_RINGTREE_PORT=2"), RINGTREE_OK);
    CHECK_REFUSED(load_with("RINGTREE_PROT=9", NULL),
                  "environment: \"RINGTREE_PROT\" is no setting of ringtree; the nearest is RINGTREE_PORT");
    CHECK_REFUSED(load_with("RINGTREE_PORT=x", NULL), "environment: RINGTREE_PORT is \"x\"");
    CHECK_REFUSED(load_with("RINGTREE_=x", NULL), "is no setting");
    CHECK_REFUSED(load_with("RINGTREE_HOST=a\nb", NULL), "control character (0x0a) at byte 2");
}

TEST(the_secret_is_never_in_a_sentence)
{
    char value[RT_SETTING_TEXT + 40];

    memset(value, 's', sizeof(value));
    memcpy(value, "RINGTREE_ID=", 12);
    value[sizeof(value) - 1] = '\0';
    CHECK_REFUSED(load_with(value, NULL), "RINGTREE_ID");
    CHECK(!strstr(error.text, "ssss"));
}

static char *write_file(char *path, const char *text, size_t length)
{
    sprintf(path, "%s/f", test_folder());
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, text, length) == (ssize_t)length);
    close(fd);
    return path;
}

static char *config(char *variable, const char *path)
{
    sprintf(variable, "RINGTREE_CONFIG=%s", path);
    return variable;
}

TEST(the_environment_wins_over_the_file)
{
    static const char text[] = "RINGTREE_PORT=1\nRINGTREE_HOST=file\n";
    char path[64], variable[128];

    write_file(path, text, sizeof(text) - 1);
    CHECK_EQ(load_with(config(variable, path), "RINGTREE_PORT=2"), RINGTREE_OK);
    CHECK_EQ(settings.number[RT_ROOT_PORT], 2);
    CHECK_EQ(settings.given[RT_ROOT_PORT], 2);
    CHECK(strcmp(settings.text[RT_HOST], "file") == 0);
    CHECK_EQ(settings.given[RT_HOST], 1);
}

TEST(a_settings_file_that_cannot_be_read_is_an_error)
{
    char path[64], variable[128];

    CHECK_REFUSED(load_with(config(variable, "/no/such/file"), NULL),
                  "settings file \"/no/such/file\" (RINGTREE_CONFIG) cannot be opened: No such file or directory");
    CHECK_REFUSED(load_with(config(variable, "/tmp"), NULL), "is not a regular file");
    CHECK_EQ(load_with("RINGTREE_CONFIG=", NULL), RINGTREE_OK);
    snprintf(path, sizeof(path), "%s/f", test_folder());
    CHECK_EQ(mkfifo(path, 0600), 0);
    CHECK_REFUSED(load_with(config(variable, path), NULL), "is not a regular file");
}

TEST(a_settings_file_of_garbage_is_an_error)
{
    char path[64], variable[128];
    char *garbage = malloc(2 << 20);

    memset(garbage, '#', 2 << 20);
    CHECK_REFUSED(load_with(config(variable, write_file(path, garbage, 2 << 20)), NULL), "has over 1 MiB");
    CHECK_EQ(load_with(config(variable, write_file(path, garbage, 1 << 20)), NULL), RINGTREE_OK);
    for (size_t i = 0; i < 4096; i++)
        garbage[i] = (char)(i * 167 + 13);
    CHECK_REFUSED(load_with(config(variable, write_file(path, garbage, 4096)), NULL), path);
    free(garbage);
}

TEST(the_fault_switch_belongs_to_builds_with_tests)
{
    CHECK(rt_setting_available(RT_FAULT));
    CHECK_EQ(parse("RINGTREE_FAULT=flip"), RINGTREE_OK);
}

TEST_MAIN
