/*
 * --keep: what was measured, as lines of CSV in a file, so that a long measurement can be taken in pieces. What belongs
 * to a job stands between its "# job ..." and "# done"; a job that was cut off has no such end, and is measured again.
 */
#include "ringtree-tune.h"
#include <stdlib.h>
#include <string.h>

#define LINE "%7[^,],%u,%31[^,],%llu,%15[^,],%u,%lf,%lf"

void tune_job_key(const struct tune_job *job, char *key, size_t capacity)
{
    snprintf(key, capacity, "# job %s %s %u ranks, %s, %llu to %llu by %llu, %u rounds of %.0f us\n",
             job->uncorrected ? "table" : "check", job->tcp ? "tcp" : "shm", job->ranks,
             ringtree_collective_name((ringtree_collective)__builtin_ctz(job->collectives)),
             (unsigned long long)job->least, (unsigned long long)job->most, (unsigned long long)job->step, job->rounds,
             job->seconds * 1e6);
}

static uint8_t place_named(const char *name)
{
    uint8_t c = 0;
    while (c < RT_COST_CASES && strcmp(name, rt_cost_case_name((enum rt_cost_case)c))) c++;
    return c;
}

static bool parse(const char *line, struct tune_point *point)
{
    char place[8], collective[32], way[16];
    unsigned ranks, chosen;
    unsigned long long bytes;
    double predicted, measured;
    if (sscanf(line, LINE, place, &ranks, collective, &bytes, way, &chosen, &predicted, &measured) != 8) return false;
    *point = (struct tune_point){ .place = place_named(place), .chosen = chosen != 0, .ranks = ranks, .bytes = bytes,
                                  .predicted = predicted * 1e-6, .measured = measured * 1e-6 };
    while (point->collective < RINGTREE_BARRIER &&
           strcmp(ringtree_collective_name((ringtree_collective)point->collective), collective)) point->collective++;
    if (strcmp(way, "link")) memcpy(point->way, way, sizeof point->way);
    return point->place < RT_COST_CASES && point->collective < RINGTREE_BARRIER;
}

/* Adds to *points; false: no memory. */
static bool append(struct tune_point **points, size_t *count, const struct tune_point *point)
{
    struct tune_point *more = realloc(*points, (*count + 1) * sizeof *more);
    if (!more) return false;
    *points = more;
    more[(*count)++] = *point;
    return true;
}

bool tune_kept(const char *path, const char *key, struct tune_point **points, size_t *count)
{
    char line[256];
    const size_t before = *count;
    bool inside = false, whole = false;
    FILE *in = fopen(path, "r");
    while (in && !whole && fgets(line, sizeof line, in)) {
        struct tune_point point;
        if (line[0] == '#') {
            whole = inside && !strcmp(line, "# done\n");
            inside = !strcmp(line, key);
            if (inside) *count = before;
        } else if (inside && (!parse(line, &point) || !append(points, count, &point))) {
            inside = false;
        }
    }
    if (in) fclose(in);
    if (!whole) *count = before;
    return whole;
}

bool tune_keep(const char *path, const char *key, const struct tune_point *points, size_t count)
{
    FILE *out = fopen(path, "a");
    if (!out) return false;
    fputs(key, out);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s,%u,%s,%llu,%s,%u,%.9g,%.9g\n", rt_cost_case_name((enum rt_cost_case)points[i].place),
                points[i].ranks, ringtree_collective_name((ringtree_collective)points[i].collective),
                (unsigned long long)points[i].bytes, points[i].way[0] ? points[i].way : "link", points[i].chosen,
                points[i].predicted * 1e6, points[i].measured * 1e6);
    fputs("# done\n", out);
    const bool written = !ferror(out);
    return fclose(out) == 0 && written;
}
