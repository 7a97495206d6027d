/*
 * A machine, or many, as one graph: what there is (vertices, each inside another) and how it is connected (edges).
 *
 * Built by adding; a failure while adding (no memory, too many, a bad index) sticks and is reported by
 * rt_graph_finish(), after which the graph is read only and may be read by many threads. Order is that of adding, so
 * the same input gives the same graph. A vertex is added after the one that it is inside, so there are no cycles.
 */
#ifndef RT_GRAPH_H
#define RT_GRAPH_H

#include "base/error.h"
#include <stddef.h>

#define RT_GRAPH_MOST_VERTICES (1u << 21)
#define RT_GRAPH_MOST_EDGES    (1u << 22)
#define RT_GRAPH_MOST_TEXT     (1u << 26) /* bytes of all names and attributes */
#define RT_NO_VERTEX           UINT32_MAX
#define RT_NO_BUSID            UINT64_MAX

enum rt_vertex_kind {
    RT_SYSTEM,      /* vertex 0 of every graph */
    RT_FABRIC,      /* the network between machines; inside the system */
    RT_MACHINE,
    RT_PACKAGE,     /* a processor in its socket */
    RT_NUMA,
    RT_CORES,       /* cores that share a cache, or one core: where a rank of the CPU lives */
    RT_HOST_BRIDGE, /* from a processor to a PCI tree */
    RT_PCI_SWITCH,  /* a switch or any bridge below the host bridge */
    RT_PCI_DEVICE,  /* a PCI function of unknown use */
    RT_GPU,
    RT_NVSWITCH,
    RT_NIC,         /* the PCI function of a network card */
    RT_PORT,        /* what a NIC offers: a network or RDMA device */
    RT_VERTEX_KINDS
};

enum rt_edge_kind {
    RT_NVLINK,      /* GPU to GPU or NVSwitch; count links */
    RT_PCI_LINK,    /* a is nearer to the processor; generation and width, 0 unknown */
    RT_HOST_LINK,   /* processor to host bridge */
    RT_INSIDE,      /* within a processor: package, NUMA domain, cores */
    RT_BETWEEN,     /* between processors: UPI, Infinity Fabric, NUMA distance */
    RT_PORT_LINK,   /* NIC to its port */
    RT_NETWORK,     /* port to fabric */
    RT_EDGE_KINDS
};

/* How a value came to be. Greater is more trustworthy. */
enum rt_source { RT_UNKNOWN, RT_ASSUMED, RT_KNOWN, RT_MEASURED };

struct rt_value {
    float   value;
    uint8_t source; /* enum rt_source; RT_UNKNOWN: value is 0 */
};

struct rt_vertex {
    uint8_t  kind;
    uint32_t parent;     /* what it is inside; RT_NO_VERTEX only for the system */
    uint32_t machine;    /* the machine that it is in or is; RT_NO_VERTEX for system and fabric */
    int32_t  number;     /* NUMA number, GPU index, core number, order of the machine; -1 unknown */
    uint32_t count;      /* cores in RT_CORES; else 0 */
    uint32_t pci_class;  /* 0x030200; 0 unknown */
    uint64_t busid;      /* domain << 16 | bus << 8 | device << 3 | function; RT_NO_BUSID */
    uint32_t name;       /* see rt_vertex_name() */
    uint32_t attributes; /* see rt_attribute() */
};

struct rt_edge {
    uint32_t        a, b;
    uint8_t         kind;
    uint8_t         generation, width; /* PCIe; 0 unknown */
    uint16_t        count;             /* NVLinks side by side, else 1 */
    struct rt_value gbs;               /* GB/s (1e9 bytes) in each direction, all links together, as payload */
    struct rt_value us;                /* latency of a hop in microseconds */
};

struct rt_graph {
    struct rt_vertex *vertex;
    struct rt_edge   *edge;
    uint32_t          nvertices, nedges;
    /* After rt_graph_finish(): edge_of[edges_from[v] .. edges_from[v + 1]) are the edges at v, in the order of adding,
     * and likewise child[] and children_from[]. machine[] are the machines. */
    uint32_t         *edge_of, *edges_from, *child, *children_from, *machine;
    uint32_t          nmachines;
    struct rt_graph_store *store; /* texts, attributes, capacities, the order by bus id, the failure that sticks */
};

/* One with the system in it; NULL: no memory. */
struct rt_graph *rt_graph_new(void);
void rt_graph_free(struct rt_graph *graph); /* NULL is fine */

/* Returns the new vertex; RT_NO_VERTEX after a failure, which later calls accept and ignore. */
uint32_t rt_graph_add(struct rt_graph *graph, enum rt_vertex_kind kind, uint32_t parent);
/* Both texts are copied. Setting a key again replaces its value. */
void rt_graph_name(struct rt_graph *graph, uint32_t vertex, const char *name);
void rt_graph_attribute(struct rt_graph *graph, uint32_t vertex, const char *key, const char *value);
/* An edge with count 1 and nothing known of its speed. NULL after a failure. Valid until the next edge is added. */
struct rt_edge *rt_graph_connect(struct rt_graph *graph, enum rt_edge_kind kind, uint32_t a, uint32_t b);
/* Both at once: a vertex and the edge from its parent, which goes to *edge unless that is NULL. */
uint32_t rt_graph_attach(struct rt_graph *graph, enum rt_vertex_kind kind, uint32_t parent, enum rt_edge_kind edge_kind,
                         struct rt_edge **edge);
/* Links of kind RT_BETWEEN among all packages of a machine and its NUMA domains that are in no package, and to the
 * machine itself where devices hang there, near to none of them. gbs 0: not known. */
void rt_graph_join_processors(struct rt_graph *graph, uint32_t machine, float gbs);
/* Makes a failure stick that a builder found; the first one is kept. */
void rt_graph_refuse(struct rt_graph *graph, ringtree_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool rt_graph_failed(const struct rt_graph *graph);

/*
 * Fills in what is not known of edges with assumptions (rates.h), indexes, and checks: every edge joins kinds that it
 * may join, no value is negative or infinite, no bus id is twice in one machine, there is a machine.
 */
ringtree_status rt_graph_finish(struct rt_graph *graph, struct rt_error *error);

/* "" when it has none. Valid as long as the graph is. */
const char *rt_vertex_name(const struct rt_graph *graph, uint32_t vertex);
/* NULL when it is not there. */
const char *rt_attribute(const struct rt_graph *graph, uint32_t vertex, const char *key);
/* Attribute number `index` of a vertex, in the order of adding; false: there are fewer. */
bool rt_attribute_at(const struct rt_graph *graph, uint32_t vertex, uint32_t index, const char **key,
                     const char **value);
/* Of a finished graph: the vertex of that bus id in the machine, or RT_NO_VERTEX. */
uint32_t rt_graph_at_busid(const struct rt_graph *graph, uint32_t machine, uint64_t busid);
/* The machine's NVSwitch of that bus id among the vertices from `first` on, or a new one; RT_NO_VERTEX: no memory. */
uint32_t rt_graph_nvswitch(struct rt_graph *graph, uint32_t machine, uint64_t busid, uint32_t first);
uint32_t rt_graph_count(const struct rt_graph *graph, enum rt_vertex_kind kind);
/* The edge to the parent, or NULL. */
const struct rt_edge *rt_edge_up(const struct rt_graph *graph, uint32_t vertex);
static inline uint32_t rt_edge_other(const struct rt_edge *edge, uint32_t vertex)
{
    return edge->a == vertex ? edge->b : edge->a;
}

/* Fixed words, such as "gpu", "nvlink", "assumed". */
const char *rt_vertex_kind_name(enum rt_vertex_kind kind);
const char *rt_edge_kind_name(enum rt_edge_kind kind);
const char *rt_source_name(enum rt_source source);

/* "0000:0f:00.0", also "0f:00.0"; RT_NO_BUSID: it is not one. The text is at least 24 bytes. */
uint64_t rt_busid_parse(const char *text);
const char *rt_busid_text(uint64_t busid, char *text);

/* "gpu 3 0000:0f:00.0", "nic mlx5_0", for sentences and pictures. Returns `text`. */
const char *rt_vertex_text(const struct rt_graph *graph, uint32_t vertex, char *text, size_t capacity);

#endif
