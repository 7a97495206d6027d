/* Errors by value: the sentence is written where the failure is known best, and carried up unchanged. */
#include "error.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct rt_error thread_error;

/* A sentence may quote bytes from outside; on the way to a terminal or a log they must stay one harmless line. */
static void make_one_line(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c; c++) {
        if (*c == '\n' || *c == '\t')
            *c = ' ';
        else if (*c < ' ' || *c == 0x7f)
            *c = '?';
    }
}

/* Says visibly that the end is missing, without leaving half a UTF-8 character. */
static void mark_as_cut(char *text, size_t capacity)
{
    size_t end = capacity - sizeof("...");

    while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80)
        end--;
    memcpy(text + end, "...", sizeof("..."));
}

ringtree_status rt_vfail(struct rt_error *error, ringtree_status status, const char *format, va_list args)
{
    const int saved = errno;
    char text[RT_ERROR_TEXT]; /* an argument may point into error->text */

    if (!error)
        return status;
    int length = vsnprintf(text, sizeof(text), format, args);
    if (length < 0)
        strcpy(text, "(this sentence cannot be formatted)");
    else if ((size_t)length >= sizeof(text))
        mark_as_cut(text, sizeof(text));
    make_one_line(text);
    memcpy(error->text, text, strlen(text) + 1);
    error->status = status;
    errno = saved;
    return status;
}

ringtree_status rt_fail(struct rt_error *error, ringtree_status status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    rt_vfail(error, status, format, args);
    va_end(args);
    return status;
}

const char *rt_errno_words(int number)
{
    const char *words = strerrordesc_np(number);

    if (number == EMFILE) /* the one whose remedy is always the same */
        return "Too many open files (raise ulimit -n)";
    return words ? words : "unknown error number";
}

ringtree_status rt_fail_errno(struct rt_error *error, const char *format, ...)
{
    const int saved = errno;
    char text[RT_ERROR_TEXT];
    va_list args;

    va_start(args, format);
    if (vsnprintf(text, sizeof(text), format, args) < 0)
        strcpy(text, "(this sentence cannot be formatted)");
    va_end(args);
    rt_fail(error, RINGTREE_SYSTEM, "%s: %s", text, rt_errno_words(saved));
    errno = saved;
    return RINGTREE_SYSTEM;
}

void rt_error_clear(struct rt_error *error)
{
    error->status = RINGTREE_OK;
    error->text[0] = '\0';
}

struct rt_error *rt_thread_error(void)
{
    return &thread_error;
}
