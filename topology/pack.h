/*
 * One machine as bytes, so that ranks can tell each other theirs, and all of them as one system. The bytes are the same
 * on every processor; about 20 for each part. What comes from another rank is checked before it is used.
 */
#ifndef RT_PACK_H
#define RT_PACK_H

#include "graph.h"

#define RT_PACKED_MOST_BYTES (1u << 20) /* of a machine */

struct rt_packed {
    const uint8_t *bytes;
    size_t         length;
    uint32_t       rank; /* where it comes from, for sentences */
    const char    *host;
};

/* *bytes is the caller's to free. A machine whose bytes would be too many is RINGTREE_UNSUPPORTED. */
ringtree_status rt_graph_pack(const struct rt_graph *graph, uint32_t machine, uint8_t **bytes, size_t *length,
                              struct rt_error *error);

/* The graph of all machines, finished, in their order; one fabric joins the ports of all. */
ringtree_status rt_graph_unite(struct rt_graph **united, const struct rt_packed *machine, uint32_t count,
                               struct rt_error *error);

#endif
