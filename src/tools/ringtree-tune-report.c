/* Prediction beside measurement: as a table, as JSON, and how good it was. */
#include "ringtree-tune.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool same_call(const struct tune_point *a, const struct tune_point *b)
{
    return a->collective == b->collective && a->place == b->place && a->ranks == b->ranks && a->bytes == b->bytes;
}

/* The points of a call follow one another. */
static size_t call_end(const struct tune_point *points, size_t count, size_t first)
{
    size_t end = first;
    while (end < count && same_call(&points[end], &points[first])) end++;
    return end;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double slower(const struct tune_point *points, size_t first, size_t end)
{
    double best = points[first].measured, chosen = 0;
    for (size_t i = first; i < end; i++) {
        if (points[i].measured < best) best = points[i].measured;
        if (points[i].chosen) chosen = points[i].measured;
    }
    return chosen > 0 ? chosen / best : 1;
}

struct tune_quality tune_quality(const struct tune_point *points, size_t count)
{
    struct tune_quality q = { .points = count };
    double *errors = malloc((count + 1) * sizeof *errors);
    for (size_t i = 0; errors && i < count; i++) errors[i] = fabs(points[i].predicted / points[i].measured - 1);
    if (errors && count) {
        qsort(errors, count, sizeof *errors, by_value);
        q.median_error = errors[count / 2];
        q.p90_error = errors[count * 9 / 10];
    }
    free(errors);
    for (size_t first = 0, end; first < count; first = end, q.calls++) {
        end = call_end(points, count, first);
        const double ratio = slower(points, first, end);
        q.late_choices += ratio > TUNE_LATE;
        if (ratio - 1 > q.worst_choice) q.worst_choice = ratio - 1;
    }
    return q;
}

static const char *collective_of(const struct tune_point *point)
{
    return ringtree_collective_name((ringtree_collective)point->collective);
}

static const char *place_of(const struct tune_point *point)
{
    return rt_cost_case_name((enum rt_cost_case)point->place);
}

void tune_print(const struct tune_point *points, size_t count, FILE *out)
{
    const struct tune_point *before = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct tune_point *p = &points[i];
        if (!before || !same_call(before, p))
            fprintf(out, "\n%s, %s, %u ranks, %llu bytes\n", collective_of(p), place_of(p), p->ranks,
                    (unsigned long long)p->bytes);
        fprintf(out, "%c %-14s predicted %11.2f us, measured %11.2f us, %+5.0f %%\n", p->chosen ? '*' : ' ', p->way,
                p->predicted * 1e6, p->measured * 1e6, (p->predicted / p->measured - 1) * 100);
        before = p;
    }
    const struct tune_quality q = tune_quality(points, count);
    fprintf(out, "\n%zu predictions: median error %.1f %%, nine in ten below %.0f %%\n", q.points,
            q.median_error * 100, q.p90_error * 100);
    fprintf(out, "%zu choices: %zu over 15 %% slower than the best measured, worst %.0f %%\n", q.calls, q.late_choices,
            q.worst_choice * 100);
}

void tune_print_json(const struct tune_point *points, size_t count, FILE *out)
{
    const struct tune_quality q = tune_quality(points, count);
    fprintf(out, "{\n  \"median_error\": %.4f, \"p90_error\": %.4f, \"choices\": %zu, \"late_choices\": %zu, "
            "\"worst_choice\": %.4f,\n  \"points\": [", q.median_error, q.p90_error, q.calls, q.late_choices,
            q.worst_choice);
    for (size_t i = 0; i < count; i++) {
        const struct tune_point *p = &points[i];
        fprintf(out, "%s\n    { \"collective\": \"%s\", \"transport\": \"%s\", \"ranks\": %u, \"bytes\": %llu, "
                "\"way\": \"%s\", \"predicted_us\": %.3f, \"measured_us\": %.3f, \"chosen\": %s }", i ? "," : "",
                collective_of(p), place_of(p), p->ranks, (unsigned long long)p->bytes, p->way,
                p->predicted * 1e6, p->measured * 1e6, p->chosen ? "true" : "false");
    }
    fputs("\n  ]\n}\n", out);
}
