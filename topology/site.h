/* One machine as the search sees it: its parts numbered from 0, and what is left of each link in each direction. */
#ifndef RT_SITE_H
#define RT_SITE_H

#include "search.h"

struct rt_site_link {
    uint32_t to;
    uint32_t back; /* the same link the other way */
    uint8_t  kind;
};

struct rt_site {
    const struct rt_graph *graph;
    uint32_t             n;      /* parts */
    uint32_t            *vertex; /* part -> vertex */
    uint32_t            *parent; /* part -> part that it is inside; RT_NO_VERTEX: the machine itself */
    uint8_t             *kind;
    uint32_t            *from;   /* links of part p: link[from[p]] .. link[from[p + 1]] */
    struct rt_site_link *link;
    float               *room;   /* GB/s left of each link in its direction */
    uint32_t            *seat, *port; /* parts */
    uint32_t             nseats, nports;
    bool                *is_seat;
    /* of the latest look: length of the shortest way from its beginning, the part before, the link taken */
    uint32_t            *cost, *via, *by;
    uint64_t            *heap;
    uint64_t             looks;
};

/* `vertex`: those of the machine, ascending. `local`: vertex -> part, for them. false: no memory; close it anyway. */
bool rt_site_open(struct rt_site *site, const struct rt_graph *graph, const uint32_t *vertex, uint32_t n,
                  const uint32_t *local, const uint32_t *seat, uint32_t nseats, const uint32_t *port, uint32_t nports);
void rt_site_close(struct rt_site *site);

/* Shortest ways from a part over links with `gbs` left: cost[] to every other, RT_NO_VERTEX where there is none.
 * `forward`: GPUs may pass on to a port what comes over NVLink. */
void rt_site_look(struct rt_site *site, uint32_t begin, float gbs, bool forward);

/* The links of the latest look's way to a part that it has reached, last first; 0: it has over `most`. */
uint32_t rt_site_way(const struct rt_site *site, uint32_t end, uint32_t *link, uint32_t most);

/* The worst that a way goes through. */
enum rt_path rt_site_path(const struct rt_site *site, const uint32_t *link, uint32_t links);

/* Whether rings can go over a link: not over NVLink to a GPU where no rank lives. */
static inline bool rt_site_counts(const struct rt_site *site, const struct rt_site_link *link)
{
    return link->kind != RT_NVLINK || site->kind[link->to] != RT_GPU || site->is_seat[link->to];
}

/* No channels together can carry more. `network`: they also go through the ports. */
float rt_site_bound(const struct rt_site *site, bool network);

#endif
