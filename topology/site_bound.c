/*
 * What no set of rings in a machine can exceed, by cuts: every ring goes out of each seat, out of each part of the
 * machine that holds some seats and not all, and out of each group of GPUs that NVLink joins. A ring that comes and
 * goes by ports may cross a cut in one direction only.
 */
#include "site.h"
#include <float.h>
#include <stdlib.h>

static float least(float a, float b)
{
    return a < b ? a : b;
}

/* Over NVLink where there is any, as nothing is gained by sending part of a ring beside it. */
static float seat_gbs(const struct rt_site *s, uint32_t seat)
{
    float nvlink = 0, other = 0;

    for (uint32_t i = s->from[seat]; i < s->from[seat + 1]; i++)
        if (rt_site_counts(s, &s->link[i]))
            *(s->link[i].kind == RT_NVLINK ? &nvlink : &other) += s->room[i];
    return nvlink > 0 ? nvlink : other;
}

static bool is_inside(const struct rt_site *s, uint32_t part, uint32_t outer)
{
    while (part != RT_NO_VERTEX && part != outer)
        part = s->parent[part];
    return part == outer;
}

/* Out of every part of the machine with some of the seats. */
static float parts_gbs(const struct rt_site *s, uint32_t *seats, float *out)
{
    float bound = FLT_MAX;

    for (uint32_t i = 0; i < s->nseats; i++)
        for (uint32_t p = s->seat[i]; p != RT_NO_VERTEX; p = s->parent[p])
            seats[p]++;
    for (uint32_t p = 0; p < s->n; p++)
        for (uint32_t i = s->from[p]; i < s->from[p + 1]; i++)
            for (uint32_t a = p; a != RT_NO_VERTEX && !is_inside(s, s->link[i].to, a); a = s->parent[a])
                out[a] += s->room[i];
    for (uint32_t p = 0; p < s->n; p++)
        if (seats[p] > 0 && seats[p] < s->nseats && !s->is_seat[p])
            bound = least(bound, out[p]);
    return bound;
}

static uint32_t group_of(uint32_t *group, uint32_t p)
{
    while (group[p] != p)
        p = group[p] = group[group[p]];
    return p;
}

/* Out of every group of seats that NVLink joins, over everything else. */
static float groups_gbs(const struct rt_site *s, uint32_t *group, uint32_t *seats, float *out)
{
    float bound = FLT_MAX;

    for (uint32_t p = 0; p < s->n; p++)
        group[p] = p, seats[p] = 0, out[p] = 0;
    for (uint32_t p = 0; p < s->n; p++)
        for (uint32_t i = s->from[p]; i < s->from[p + 1]; i++)
            if (s->link[i].kind == RT_NVLINK && (s->is_seat[p] || s->kind[p] != RT_GPU) &&
                rt_site_counts(s, &s->link[i]))
                group[group_of(group, p)] = group_of(group, s->link[i].to);
    for (uint32_t k = 0; k < s->nseats; k++) {
        const uint32_t seat = s->seat[k], g = group_of(group, seat);
        seats[g]++;
        for (uint32_t i = s->from[seat]; i < s->from[seat + 1]; i++)
            if (s->link[i].kind != RT_NVLINK)
                out[g] += s->room[i];
    }
    for (uint32_t p = 0; p < s->n; p++)
        if (seats[p] > 0 && seats[p] < s->nseats)
            bound = least(bound, out[p]);
    return bound;
}

/* Ports, each NIC's together no faster than what leads from it to the first part of the machine with a seat. */
static float ports_gbs(const struct rt_site *s, const uint32_t *seats, const float *out)
{
    float sum = 0;

    for (uint32_t nic = 0; nic < s->n; nic++) {
        float ports = 0;
        for (uint32_t i = s->from[nic]; i < s->from[nic + 1] && s->kind[nic] != RT_PORT; i++)
            ports += s->link[i].kind == RT_PORT_LINK ? s->room[i] : 0;
        for (uint32_t a = nic; a != RT_NO_VERTEX && seats[a] == 0; a = s->parent[a])
            ports = least(ports, out[a]);
        sum += ports;
    }
    return sum;
}

float rt_site_bound(const struct rt_site *s, bool network)
{
    uint32_t *numbers = calloc(2 * (size_t)s->n + 1, sizeof(*numbers));
    float *out = calloc(s->n + (size_t)1, sizeof(*out)), bound = FLT_MAX, ports = FLT_MAX;

    if (numbers && out) {
        bound = parts_gbs(s, numbers, out);
        if (network)
            ports = ports_gbs(s, numbers, out);
        bound = least(bound, groups_gbs(s, numbers + s->n, numbers, out));
        if (network)
            bound *= 2;
        for (uint32_t i = 0; i < s->nseats; i++)
            bound = least(bound, seat_gbs(s, s->seat[i]));
    }
    free(numbers);
    free(out);
    return least(bound, ports);
}
