/*
 * Rings and trees over a graph that use its links at once.
 *
 * A channel is one ring through every seat (a place where a rank lives: a GPU, or cores where there are no GPUs) of
 * every machine, and carries `gbs` in its direction. In a machine it enters by a port, goes through all seats, and
 * leaves by the same port, so that traffic between machines stays within its rail; by another one only where that
 * carries more. The
 * same order, opened before its first seat, is the machine's part of a tree; between machines the trees are two binary
 * ones in which every machine but one is a leaf of one and not of the other; channels take turns.
 *
 * The search is for the channels with the greatest sum of gbs, then for the fewest. It is bounded by a number of looks
 * at paths, not by time, so the same graph gives the same result. Machines that are alike are searched once.
 */
#ifndef RT_SEARCH_H
#define RT_SEARCH_H

#include "graph.h"
#include <stdio.h>

#define RT_MOST_CHANNELS 32
#define RT_MOST_SEATS    256 /* of a machine */
#define RT_MOST_PORTS    256

/* The worst that a hop goes through. */
enum rt_path { RT_PATH_SAME, RT_PATH_NVLINK, RT_PATH_SWITCH, RT_PATH_SWITCHES, RT_PATH_FORWARD, RT_PATH_HOST,
               RT_PATH_SOCKETS };

struct rt_channel {
    uint16_t *seat;              /* seats in the order of the ring, as indexes into the machine's */
    uint32_t  port_in, port_out; /* indexes into the machine's ports; RT_NO_VERTEX: there is one machine */
};

/* The part of all channels in machines that are alike. */
struct rt_rings {
    uint32_t          nseats, nports, nchannels;
    float             gbs; /* of each channel */
    uint8_t           within, to_port; /* enum rt_path: between seats; to and from ports */
    struct rt_channel channel[RT_MOST_CHANNELS];
    uint16_t          order[]; /* what seat[] points to: nchannels * nseats */
};

struct rt_search {
    const struct rt_graph *graph; /* must outlive this */
    uint32_t          nmachines, nseats, nports; /* in all */
    uint32_t         *seat, *port;         /* vertices, machine by machine */
    uint32_t         *seat_from, *port_from; /* those of machine m: seat[seat_from[m]] .. seat[seat_from[m + 1]] */
    uint32_t         *rings_of;            /* machine -> index into rings */
    struct rt_rings **rings;
    uint32_t          nrings;
    uint32_t          nchannels; /* that all machines have */
    float             gbs;       /* of each channel, in every machine; all together is the bus bandwidth */
    uint64_t          looks;     /* that the search took */
};

/* A machine without NIC among several, without a seat, or with too many is RINGTREE_UNSUPPORTED. */
ringtree_status rt_search(struct rt_search **search, const struct rt_graph *graph, struct rt_error *error);
/* The same with these vertices as the only seats, such as the GPUs that ranks really use; in any order, each once. */
ringtree_status rt_search_among(struct rt_search **search, const struct rt_graph *graph, const uint32_t *seat,
                                uint32_t nseats, struct rt_error *error);
void rt_search_free(struct rt_search *search); /* NULL is fine */

static inline float rt_search_gbs(const struct rt_search *search)
{
    return search->gbs * (float)search->nchannels;
}

/* All seats of a channel in the order of its ring, through all machines; `vertex` has room for search->nseats. */
void rt_search_ring(const struct rt_search *search, uint32_t channel, uint32_t *vertex);

/* A machine's neighbours in the tree of a channel; machines are counted as in the graph, RT_NO_VERTEX: none. */
struct rt_tree {
    uint32_t parent, child[2];
};
struct rt_tree rt_search_tree(uint32_t nmachines, uint32_t channel, uint32_t machine);

const char *rt_path_name(enum rt_path path); /* as NCCL calls it: "NVL", "PIX", "PXB", "PXN", "PHB", "SYS" */

/* NCCL's graph XML for the machines that rings[index] stands for. false: it could not be written. */
bool rt_rings_write(const struct rt_search *search, uint32_t index, FILE *out);
/* Replaces the rings of all machines of search->rings[index] by those of a file (NCCL_GRAPH_FILE), which must visit
 * every seat once. */
ringtree_status rt_rings_read(struct rt_search *search, uint32_t index, const char *text, size_t length,
                              const char *origin, struct rt_error *error);

#endif
