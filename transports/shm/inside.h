/* What node.c, heap.c and shm.c share: the layout of the shared file and this rank's view of it. */
#ifndef RT_NODE_INSIDE_H
#define RT_NODE_INSIDE_H

#include "shm/node.h"
#include <stdatomic.h>

#define RT_NODE_MAGIC   UINT64_C(0x65646f6e676e6972) /* "ringnode" */
#define RT_NODE_VERSION 1

/* First page of the file. Written by its maker before anyone attaches, but for `heap_next`. */
struct rt_node_header {
    uint64_t         magic;
    uint32_t         version, nlocal, slots, slot_bytes;
    uint64_t         file_bytes;
    _Atomic uint64_t heap_next; /* where the next fresh piece of heap begins */
};

/* One per local rank, on cache lines of its own. */
struct rt_node_line {
    _Atomic uint32_t sleeping;
    unsigned char    pad[124];
};

/* Offsets in the file; each rank computes the same from nlocal, slots and slot_bytes. */
struct rt_node_layout {
    uint64_t lines, areas, area_bytes, links, link_bytes, heap, file_bytes;
};

struct rt_extent {
    uint64_t       offset;
    size_t         bytes;
    unsigned char *memory; /* NULL: free */
};

struct rt_extents {
    struct rt_extent *list;
    uint32_t          count, capacity;
};

struct rt_node {
    uint32_t              rank, nlocal, index;
    uint32_t             *ranks;    /* communicator rank of each local rank */
    uint32_t             *position; /* of each local rank in the file */
    int                  *reads;
    uint32_t             *pids;
    uint64_t              number;
    int                   fd, bell;
    uint32_t              slots, slot_bytes, cores;
    struct rt_node_layout layout;
    unsigned char        *base; /* header, lines and areas: [0, layout.links) */
    struct rt_extents     own, windows; /* allocations of this rank; views of peers' memory */
};

struct rt_node_layout rt_node_layout(uint32_t nlocal, uint32_t slots, uint32_t slot_bytes);
struct rt_node_header *rt_node_header(const struct rt_node *node);

/* The link area from local rank `from` to local rank `to`, mapped; NULL: it cannot be. Unmap with rt_node_unmap_link(). */
unsigned char *rt_node_map_link(const struct rt_node *node, uint32_t from, uint32_t to, uint32_t lane);
void rt_node_unmap_link(const struct rt_node *node, unsigned char *memory);

void rt_node_heap_close(struct rt_node *node);

/* One slot of a link area: 64 bytes of header, then slot_bytes. */
#define RT_SLOT_STRIDE(slot_bytes) ((uint64_t)(slot_bytes) + 64)
#define RT_LINK_HEADER             4096

#endif
