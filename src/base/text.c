/* See text.h. */
#include "text.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void rt_append(char *text, size_t capacity, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, capacity - used, format, args);
    va_end(args);
}
