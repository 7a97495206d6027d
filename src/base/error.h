/* One status, one sentence, written at the point of failure. */
#ifndef RT_ERROR_H
#define RT_ERROR_H

#include <ringtree/ringtree.h>
#include <stdarg.h>
#include <stdbool.h>
#include <inttypes.h>

#define RT_ERROR_TEXT 1024

struct rt_error {
    ringtree_status status; /* RINGTREE_OK: nothing failed */
    char            text[RT_ERROR_TEXT];
};

/* Sets *error (which may be NULL) and returns `status`. Too long a sentence is cut. */
ringtree_status rt_fail(struct rt_error *error, ringtree_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
ringtree_status rt_vfail(struct rt_error *error, ringtree_status status, const char *format, va_list args);

/* As rt_fail() with RINGTREE_SYSTEM; ": <errno in words>" is appended. Keeps errno. */
ringtree_status rt_fail_errno(struct rt_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* errno in words: a constant string, never NULL, the same in every locale. */
const char *rt_errno_words(int number);

/* Forget: status OK, "" */
void rt_error_clear(struct rt_error *error);

/* The calling thread's error for calls that have no communicator (ringtree_last_error(NULL)). */
struct rt_error *rt_thread_error(void);

#endif
