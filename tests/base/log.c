/* The log: who opens it, what a line holds, lines of many threads stay whole. */
#include "base/log.h"
#include "folder.h"
#include <errno.h>
#include <pthread.h>
#include <regex.h>
#include <signal.h>
#include <unistd.h>

static const char *directory;
static char path[256];

static struct rt_settings *settings_for(const char *level, const char *file)
{
    static struct rt_settings settings;
    struct rt_error error;

    rt_settings_defaults(&settings);
    CHECK_EQ(rt_setting_set(&settings, RT_LOG, level, "test", &error), RINGTREE_OK);
    CHECK_EQ(rt_setting_set(&settings, RT_LOG_FILE, file, "test", &error), RINGTREE_OK);
    return &settings;
}

static struct rt_settings *fresh_file(const char *level)
{
    directory = test_folder();
    snprintf(path, sizeof(path), "%s/log", directory);
    return settings_for(level, path);
}

/* The file's text; removes it. */
static const char *take_text(void)
{
    static char text[1 << 20];
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

    text[length] = '\0';
    if (file)
        fclose(file);
    unlink(path);
    return text;
}

static size_t count_lines(const char *text, const char *pattern)
{
    regex_t expression;
    size_t matches = 0;

    CHECK_EQ(regcomp(&expression, pattern, REG_EXTENDED | REG_NOSUB), 0);
    while (*text) {
        char line[4096];
        size_t length = strcspn(text, "\n");
        snprintf(line, sizeof(line), "%.*s", (int)length, text);
        matches += regexec(&expression, line, 0, NULL, 0) == 0;
        text += length + (text[length] == '\n');
    }
    regfree(&expression);
    return matches;
}

TEST(a_line_has_time_host_process_rank_level_and_text)
{
    CHECK_EQ(rt_log_open(fresh_file("info"), 3, NULL), RINGTREE_OK);
    errno = EBADF;
    rt_log(RT_LOG_INFO, "hello %d", 42);
    CHECK_EQ(errno, EBADF);
    rt_log(RT_LOG_DEBUG, "not this");
    rt_log(RT_LOG_ERROR, "two\nlines");
    rt_log_close();
    rt_log(RT_LOG_ERROR, "closed");

    const char *text = take_text();
    CHECK_EQ(count_lines(text, "."), 2);
    CHECK_EQ(count_lines(text, "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{6}Z "
                               "[^ ]+ [0-9]+ rank 3 info: hello 42$"), 1);
    CHECK_EQ(count_lines(text, " error: two lines$"), 1);
}

TEST(a_line_that_is_too_long_is_cut_and_still_ends)
{
    char longest[5000];

    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    CHECK_EQ(rt_log_open(fresh_file("info"), 0, NULL), RINGTREE_OK);
    rt_log(RT_LOG_INFO, "%s", longest);
    rt_log(RT_LOG_INFO, "next");
    rt_log_close();
    const char *text = take_text();
    CHECK_EQ(count_lines(text, "x{1900}"), 1);
    CHECK_EQ(count_lines(text, "info: next$"), 1);
}

TEST(the_log_stays_open_until_the_last_one_closes_it)
{
    const struct rt_settings *settings = fresh_file("info");

    CHECK_EQ(rt_log_open(settings, 0, NULL), RINGTREE_OK);
    CHECK_EQ(rt_log_open(settings_for("", ""), 0, NULL), RINGTREE_OK);
    rt_log_close();
    rt_log(RT_LOG_INFO, "still here");
    rt_log_close();
    rt_log_close();
    CHECK_HAS(take_text(), "still here");
}

TEST(a_log_that_is_off_makes_no_file)
{
    fresh_file("info");
    CHECK_EQ(rt_log_open(settings_for("", path), 0, NULL), RINGTREE_OK);
    rt_log(RT_LOG_ERROR, "x");
    rt_log_close();
    CHECK(access(path, F_OK) < 0);
    take_text();
}

TEST(the_file_name_takes_host_process_and_rank)
{
    char pattern[200], host[65] = "";

    fresh_file("info");
    snprintf(pattern, sizeof(pattern), "%s/%%h-%%p-%%r-%%%%", directory);
    CHECK_EQ(rt_log_open(settings_for("info", pattern), 7, NULL), RINGTREE_OK);
    rt_log_close();
    gethostname(host, sizeof(host) - 1);
    snprintf(path, sizeof(path), "%s/%s-%ld-7-%%", directory, host, (long)getpid());
    CHECK_EQ(access(path, F_OK), 0);
    take_text();
}

TEST(a_log_file_that_cannot_be_opened_is_an_error)
{
    struct rt_error error;

    CHECK_EQ(rt_log_open(settings_for("info", "/no/such/dir/log"), 0, &error), RINGTREE_SYSTEM);
    CHECK_HAS(error.text, "log file \"/no/such/dir/log\" (RINGTREE_LOG_FILE) cannot be opened: "
                          "No such file or directory");
    CHECK_EQ(rt_log_open(settings_for("info", "/tmp/%x"), 0, &error), RINGTREE_INVALID_SETTING);
    CHECK_HAS(error.text, "after % comes h (host), p (process), r (rank) or %");
    CHECK_EQ(rt_log_open(settings_for("info", "/tmp/%"), 0, &error), RINGTREE_INVALID_SETTING);
    CHECK_EQ(rt_log_open(fresh_file("warn"), 0, &error), RINGTREE_OK);
    rt_log(RT_LOG_WARN, "works again");
    rt_log_close();
    CHECK_HAS(take_text(), "works again");
}

static const struct rt_settings *threads_settings;

static void *write_lines(void *number)
{
    uint32_t rank = (uint32_t)(uintptr_t)number;

    CHECK_EQ(rt_log_open(threads_settings, rank, NULL), RINGTREE_OK);
    for (int i = 0; i < 500; i++)
        rt_log(RT_LOG_INFO, "line %d of thread %" PRIu32 " end", i, rank);
    rt_log_close();
    return NULL;
}

static void *write_as_helper(void *unused)
{
    rt_log(RT_LOG_INFO, "before");
    rt_log_thread(2);
    rt_log(RT_LOG_INFO, "after");
    return unused;
}

TEST(lines_of_many_threads_stay_whole_and_name_their_rank)
{
    pthread_t threads[4], helper;

    threads_settings = fresh_file("info");
    CHECK_EQ(rt_log_open(threads_settings, 9, NULL), RINGTREE_OK);
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, write_lines, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    pthread_create(&helper, NULL, write_as_helper, NULL);
    pthread_join(helper, NULL);
    rt_log_close();
    const char *text = take_text();
    CHECK_EQ(count_lines(text, "."), 2002);
    for (int i = 0; i < 4; i++) {
        char pattern[64];
        snprintf(pattern, sizeof(pattern), "Z .* rank %d info: line [0-9]+ of thread %d end$", i, i);
        CHECK_EQ(count_lines(text, pattern), 500);
    }
    CHECK_EQ(count_lines(text, "rank \\? info: before$"), 1);
    CHECK_EQ(count_lines(text, "rank 2 info: after$"), 1);
}

TEST(a_closed_pipe_does_not_kill_the_program)
{
    int ends[2], before = dup(STDERR_FILENO);

    CHECK_EQ(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    CHECK_EQ(rt_log_open(settings_for("info", ""), 0, NULL), RINGTREE_OK);
    rt_log(RT_LOG_INFO, "nobody reads this");
    rt_log_close();
    dup2(before, STDERR_FILENO);
    close(before);
}

TEST_MAIN
