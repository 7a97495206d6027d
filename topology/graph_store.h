/* What stands behind struct rt_graph, for the files that build and index it. */
#ifndef RT_GRAPH_STORE_H
#define RT_GRAPH_STORE_H

#include "graph.h"

struct rt_graph_attribute {
    uint32_t key, value; /* offsets in text */
    uint32_t next;       /* index + 1 of the vertex's next attribute; 0: the last */
};

struct rt_graph_store {
    char                      *text; /* terminated strings; offset 0 is "" */
    struct rt_graph_attribute *attribute;
    uint32_t                  *by_busid; /* vertices with a bus id, by machine and bus id */
    uint32_t text_used, nattributes, nbusids;
    uint32_t vertex_room, edge_room, text_room, attribute_room;
    struct rt_error failure;
};

#endif
