/* See size.h. */
#include "size.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool size_take(const char **text, size_t most, size_t *size)
{
    static const char units[] = "KMGT";
    char *end;
    if (!strchr("0123456789.", **text) || !**text) return false; /* strtod() takes signs, nan and hexadecimals, too */
    double value = strtod(*text, &end);
    if (end == *text || memchr(*text, 'x', (size_t)(end - *text))) return false;
    const char *unit = *end ? strchr(units, *end >= 'a' ? *end - 32 : *end) : NULL;
    if (unit) {
        value = ldexp(value, 10 * (int)(unit - units + 1));
        end++;
    }
    if (unit && *end == 'i') end++;
    if (*end == 'B' || *end == 'b') end++;
    if (!(value <= (double)most)) return false;
    *size = (size_t)value;
    *text = end;
    return true;
}

bool size_parse(const char *text, size_t least, size_t most, size_t *size)
{
    return size_take(&text, most, size) && !*text && *size >= least;
}
