/* Samples of one meter become a figure: median, least, most. */
#include "limits.h"

#include <stdarg.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct figure *next_figure(struct limits *limits, const struct figure *figure)
{
    if (limits->figure_count == MOST_FIGURES) return NULL;
    struct figure *next = &limits->figures[limits->figure_count++];
    *next = *figure;
    return next;
}

void figure_add(struct limits *limits, struct figure figure, double *samples, uint32_t count)
{
    qsort(samples, count, sizeof(*samples), by_value);
    figure.repeats = count;
    figure.median = count % 2 ? samples[count / 2] : (samples[count / 2 - 1] + samples[count / 2]) / 2;
    figure.least = samples[0];
    figure.most = samples[count - 1];
    next_figure(limits, &figure);
}

void figure_missing(struct limits *limits, struct figure figure, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(figure.why, sizeof(figure.why), format, args);
    va_end(args);
    figure.repeats = 0;
    next_figure(limits, &figure);
}

const char *class_of(double one_way_ns)
{
    return one_way_ns <= NEAR_MOST_NS ? "near" : "far";
}
