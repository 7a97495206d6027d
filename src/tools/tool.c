/* See tool.h. */
#include "tool.h"
#include "perf/size.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

_Noreturn void tool_fail(int status, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "%s: ", program_invocation_short_name);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    if (status == EXIT_USAGE) fprintf(stderr, "; see %s --help", program_invocation_short_name);
    fputc('\n', stderr);
    exit(status);
}

uint64_t tool_number(const char *text, const char *what, uint64_t least, uint64_t most)
{
    size_t number;
    if (!size_parse(text, least, most, &number))
        tool_fail(EXIT_USAGE, "%s must be a number from %" PRIu64 " to %" PRIu64 ", not \"%s\"", what, least, most,
                  text);
    return number;
}
