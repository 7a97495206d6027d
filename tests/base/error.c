/* Errors, names and the clock. */
#include "base/clock.h"
#include "base/error.h"
#include "base/names.h"
#include "base/text.h"
#include "test.h"
#include <errno.h>
#include <pthread.h>

TEST(a_failure_carries_its_status_and_its_sentence)
{
    struct rt_error error;

    CHECK_EQ(rt_fail(&error, RINGTREE_TIMEOUT, "rank %d is late", 3), RINGTREE_TIMEOUT);
    CHECK_EQ(error.status, RINGTREE_TIMEOUT);
    CHECK(strcmp(error.text, "rank 3 is late") == 0);
    rt_error_clear(&error);
    CHECK_EQ(error.status, RINGTREE_OK);
    CHECK(error.text[0] == '\0');
    CHECK_EQ(rt_fail(NULL, RINGTREE_SYSTEM, "nobody listens"), RINGTREE_SYSTEM);
}

TEST(a_sentence_may_quote_the_one_before)
{
    struct rt_error error;

    rt_fail(&error, RINGTREE_SYSTEM, "inner");
    rt_fail(&error, error.status, "outer: %s", error.text);
    CHECK(strcmp(error.text, "outer: inner") == 0);
}

TEST(a_sentence_that_is_too_long_is_cut_visibly_between_characters)
{
    struct rt_error error;
    char longest[3 * RT_ERROR_TEXT];

    for (size_t shift = 0; shift < 4; shift++) {
        memset(longest, 'a', shift);
        for (size_t i = shift; i + 2 < sizeof(longest); i += 2)
            memcpy(longest + i, "\xc3\xa9", 3);
        rt_fail(&error, RINGTREE_SYSTEM, "%s", longest);
        size_t length = strlen(error.text);
        CHECK(length < RT_ERROR_TEXT && length > RT_ERROR_TEXT - 8);
        CHECK(strcmp(error.text + length - 3, "...") == 0);
        CHECK((unsigned char)error.text[length - 4] == 0xa9);
    }
}

TEST(a_sentence_stays_one_line_without_control_characters)
{
    struct rt_error error;

    rt_fail(&error, RINGTREE_REFUSED, "host \"%s\"", "a\nb\033[31m");
    CHECK(strcmp(error.text, "host \"a b?[31m\"") == 0);
}

TEST(errno_is_told_in_words_and_kept)
{
    struct rt_error error;

    errno = ECONNREFUSED;
    CHECK_EQ(rt_fail_errno(&error, "connect to %s", "10.0.0.1"), RINGTREE_SYSTEM);
    CHECK(strcmp(error.text, "connect to 10.0.0.1: Connection refused") == 0);
    CHECK_EQ(errno, ECONNREFUSED);
    rt_fail(&error, RINGTREE_SYSTEM, "x");
    CHECK_EQ(errno, ECONNREFUSED);
    CHECK(strcmp(rt_errno_words(123456), "unknown error number") == 0);
}

static void *fail_here(void *unused)
{
    rt_fail(rt_thread_error(), RINGTREE_SYSTEM, "mine");
    return unused;
}

TEST(each_thread_has_its_own_error)
{
    pthread_t thread;

    rt_error_clear(rt_thread_error());
    CHECK_EQ(pthread_create(&thread, NULL, fail_here, NULL), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(rt_thread_error()->status, RINGTREE_OK);
}

TEST(every_public_number_has_a_name_and_others_have_none)
{
    for (int s = 0; s <= RINGTREE_INTERNAL; s++)
        CHECK(strncmp(ringtree_status_name((ringtree_status)s), "RINGTREE_", 9) == 0);
    for (int t = 0; t < RINGTREE_TYPE_COUNT; t++) {
        CHECK(ringtree_type_size((ringtree_type)t) > 0);
        CHECK(ringtree_type_name((ringtree_type)t)[0] != '?');
    }
    for (int c = 0; c < RINGTREE_COLLECTIVE_COUNT; c++)
        CHECK(ringtree_collective_name((ringtree_collective)c)[0] != '?');
    CHECK(strcmp(ringtree_status_name((ringtree_status)14), "?") == 0);
    CHECK(strcmp(ringtree_status_name((ringtree_status)-1), "?") == 0);
    CHECK_EQ(ringtree_type_size((ringtree_type)12), 0);
    CHECK(strcmp(ringtree_type_name((ringtree_type)-1), "?") == 0);
    CHECK(strcmp(ringtree_collective_name((ringtree_collective)11), "?") == 0);
    CHECK(strcmp(rt_op_name(RINGTREE_AVG), "avg") == 0);
    CHECK(strcmp(rt_op_name(77), "premul_sum") == 0);
    CHECK_EQ(ringtree_type_size(RINGTREE_BFLOAT16), 2);
    CHECK(strcmp(ringtree_type_name(RINGTREE_FLOAT8_E5M2), "float8_e5m2") == 0);
}

TEST(the_version_is_that_of_the_header)
{
    char text[32];

    snprintf(text, sizeof(text), "%d.%d.%d", RINGTREE_VERSION_MAJOR, RINGTREE_VERSION_MINOR, RINGTREE_VERSION_PATCH);
    CHECK(strcmp(ringtree_version(), text) == 0);
}

TEST(the_clock_does_not_go_back)
{
    uint64_t last = rt_now_ns(&rt_system_clock);

    for (int i = 0; i < 100000; i++) {
        uint64_t now = rt_now_ns(&rt_system_clock);
        CHECK(now >= last);
        last = now;
    }
}

TEST(text_is_appended_and_cut_at_its_capacity)
{
    char text[8] = "";
    rt_append(text, sizeof(text), "%s-", "ab");
    rt_append(text, sizeof(text), "%d", 7);
    CHECK(!strcmp(text, "ab-7"));
    rt_append(text, sizeof(text), "%s", "longer");
    CHECK(!strcmp(text, "ab-7lon"));
    rt_append(text, sizeof(text), "x");
    CHECK(!strcmp(text, "ab-7lon"));
}

TEST_MAIN
