/* Corrections from points: measured / predicted where a point is, its neighbour's where none is. */
#include "ringtree-tune.h"
#include <stdlib.h>
#include <string.h>

#define LEAST 0.01f
#define MOST  900.0f

#define MOST_JOBS 64

static int size_index(uint64_t bytes)
{
    int at = 0;
    for (uint64_t size = 8; size < bytes; size *= 8) at++;
    return at < RT_COST_SIZES ? at : -1;
}

static uint32_t way_index(const struct tune_point *point)
{
    const ringtree_collective collective = (ringtree_collective)point->collective;
    if (!strcmp(point->way, "shared")) return rt_cost_way(collective, NULL);
    const struct rt_algorithm *algorithm = rt_algorithm_find(collective, point->way);
    return algorithm ? rt_cost_way(collective, algorithm) : RT_COST_WAYS;
}

/* Sizes that were not measured take the nearest smaller one's, at the small end the nearest larger one's. */
static void fill_sizes(float *row, uint32_t known)
{
    float last = 0;
    for (uint32_t b = 0; b < RT_COST_SIZES; b++) {
        if (known >> b & 1) last = row[b];
        else if (last > 0) row[b] = last;
    }
    for (uint32_t b = RT_COST_SIZES; b-- > 0;) {
        if (known >> b & 1) last = row[b];
        else if (b < (uint32_t)__builtin_ctz(known)) row[b] = last;
    }
}

/* Numbers of ranks that were not measured take their neighbour's. */
static void fill_ranks(float rows[RT_COST_RANKS][RT_COST_SIZES], const uint32_t *known)
{
    for (uint32_t n = 0; n < RT_COST_RANKS; n++)
        for (uint32_t step = 1; !known[n] && step < RT_COST_RANKS; step++) {
            const uint32_t below = n - step, above = n + step;
            if (below < RT_COST_RANKS && known[below]) memcpy(rows[n], rows[below], sizeof rows[n]);
            else if (above < RT_COST_RANKS && known[above]) memcpy(rows[n], rows[above], sizeof rows[n]);
            else continue;
            break;
        }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What most jobs found of the link at `place`. */
static void take_link(struct rt_costs *costs, const struct tune_point *points, size_t count, uint32_t place)
{
    static const uint8_t kinds[RT_COST_CASES] = { RT_LINK_SHM, RT_LINK_LOOPBACK, RT_LINK_NETWORK };
    double latency[MOST_JOBS], byte[MOST_JOBS];
    uint32_t n = 0;
    for (size_t i = 0; i < count && n < MOST_JOBS; i++) {
        if (points[i].way[0] || points[i].place != place) continue;
        latency[n] = points[i].measured;
        byte[n++] = points[i].predicted;
    }
    if (!n) return;
    qsort(latency, n, sizeof *latency, by_value);
    qsort(byte, n, sizeof *byte, by_value);
    costs->reference[kinds[place]] = (struct rt_link_measured){ latency[n / 2], byte[n / 2] };
}

static bool same_work(const struct tune_point *a, const struct tune_point *b)
{
    return a->collective == b->collective && a->place == b->place && a->ranks == b->ranks && a->bytes == b->bytes &&
           a->way[0] && b->way[0] && a->predicted < b->predicted * 1.000001 && b->predicted < a->predicted * 1.000001;
}

/*
 * Ways that do the same work, as ring, bruck and direct among two ranks, send the same messages, so what one of them
 * takes is what all take on average: a choice by the difference, 3.8 and 5.4 us once, would be one by noise.
 */
static double measured_of(const struct tune_point *points, size_t count, const struct tune_point *p)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (!same_work(&points[i], p)) continue;
        sum += points[i].measured;
        n++;
    }
    return sum / (double)n;
}

void tune_fit(struct rt_costs *costs, const struct tune_point *points, size_t count)
{
    static uint32_t known[RT_COST_CASES][RT_COST_WAYS][RT_COST_RANKS];
    memset(known, 0, sizeof known);
    memset(costs->reference, 0, sizeof costs->reference);
    for (uint32_t c = 0; c < RT_COST_CASES; c++) take_link(costs, points, count, c);
    for (size_t i = 0; i < count; i++) {
        const struct tune_point *p = &points[i];
        if (!p->way[0]) continue;
        const uint32_t way = way_index(p), c = p->place;
        const int n = p->ranks == 2 ? 0 : p->ranks == 4 ? 1 : p->ranks == 8 ? 2 : -1, b = size_index(p->bytes);
        if (way >= RT_COST_WAYS || n < 0 || b < 0 || !(p->predicted > 0)) continue;
        const float ratio = (float)(measured_of(points, count, p) / p->predicted);
        costs->correction[c][way][n][b] = ratio < LEAST ? LEAST : ratio > MOST ? MOST : ratio;
        known[c][way][n] |= 1u << b;
    }
    for (uint32_t c = 0; c < RT_COST_CASES; c++)
        for (uint32_t way = 0; way < RT_COST_WAYS; way++) {
            for (uint32_t n = 0; n < RT_COST_RANKS; n++)
                if (known[c][way][n]) fill_sizes(costs->correction[c][way][n], known[c][way][n]);
            fill_ranks(costs->correction[c][way], known[c][way]);
        }
}
