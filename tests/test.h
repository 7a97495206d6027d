/*
 * A test program: TEST(name_as_a_sentence) { CHECK(...); } ... TEST_MAIN
 * Run all, or those whose name contains argv[1]. Exit 0 all passed, 1 some failed, 77 all skipped. ctest is the runner.
 * Checks may be used in several threads.
 */
#ifndef RT_TEST_H
#define RT_TEST_H

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test_case {
    const char       *name;
    void            (*run)(void);
    struct test_case *next;
};
static struct test_case *test_first, **test_last = &test_first;
static atomic_int test_failures, test_skipped;

#define TEST(test_name)                                                                                                \
    static void test_name(void);                                                                                       \
    __attribute__((constructor)) static void test_name##_add(void)                                                     \
    {                                                                                                                  \
        static struct test_case self = { #test_name, test_name, NULL };                                                \
        *test_last = &self;                                                                                            \
        test_last = &self.next;                                                                                        \
    }                                                                                                                  \
    static void test_name(void)

#define TEST_SAY(...)                                                                                                  \
    (fprintf(stderr, "%s:%d: ", __FILE__, __LINE__), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr))
#define TEST_FAIL(...) (atomic_fetch_add(&test_failures, 1), (void)TEST_SAY(__VA_ARGS__))
#define CHECK(condition) ((condition) ? (void)0 : TEST_FAIL("failed: %s", #condition))
/* With words: CHECK_THAT(x == 1, "%u ranks", n) */
#define CHECK_THAT(condition, ...)                                                                                     \
    ((condition) ? (void)0 : (TEST_FAIL("failed: %s", #condition), (void)TEST_SAY(__VA_ARGS__)))
#define CHECK_EQ(a, b)                                                                                                 \
    do {                                                                                                               \
        long long check_a = (long long)(a), check_b = (long long)(b);                                                  \
        if (check_a != check_b) {                                                                                      \
            atomic_fetch_add(&test_failures, 1);                                                                       \
            TEST_SAY("%s is %lld, not %lld (%s)", #a, check_a, check_b, #b);                                           \
        }                                                                                                              \
    } while (0)
#define CHECK_HAS(text, part)                                                                                          \
    do {                                                                                                               \
        const char *check_text = (text);                                                                               \
        if (!strstr(check_text, part)) {                                                                               \
            atomic_fetch_add(&test_failures, 1);                                                                       \
            TEST_SAY("\"%s\" lacks \"%s\"", check_text, part);                                                         \
        }                                                                                                              \
    } while (0)
/* Leaves the test; counted as skipped, with the reason. */
#define SKIP(...) do { atomic_fetch_add(&test_skipped, 1); TEST_SAY("skipped: " __VA_ARGS__); return; } while (0)

#define TEST_MAIN                                                                                                      \
    int main(int argc, char **argv)                                                                                    \
    {                                                                                                                  \
        int ran = 0, failed = 0;                                                                                       \
        for (struct test_case *t = test_first; t; t = t->next) {                                                       \
            if (argc > 1 && !strstr(t->name, argv[1])) continue;                                                       \
            int failures = atomic_load(&test_failures), skipped = atomic_load(&test_skipped);                          \
            t->run();                                                                                                  \
            ran++;                                                                                                     \
            const char *verdict = atomic_load(&test_skipped) > skipped ? "skipped" : "ok";                             \
            if (atomic_load(&test_failures) > failures) failed++, verdict = "FAILED";                                  \
            printf("%-8s %s\n", verdict, t->name);                                                                     \
            fflush(stdout);                                                                                            \
        }                                                                                                              \
        if (!ran) return fprintf(stderr, "no test named so\n"), 1;                                                     \
        if (failed) return 1;                                                                                          \
        return atomic_load(&test_skipped) == ran ? 77 : 0;                                                             \
    }

#endif
