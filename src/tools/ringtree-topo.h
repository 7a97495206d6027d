/* ringtree-topo: a machine in words, as a drawing, as a file; what is wrong with it; how two differ. */
#ifndef RINGTREE_TOPO_H
#define RINGTREE_TOPO_H

#include "topology/search.h"
#include <ringtree/ringtree.h>
#include <stdio.h>

#define TOPO_MOST_SHOWN 8 /* machines in words, after which the rest is counted */
#define TOPO_MOST_DRAWN 4 /* machines in a drawing */

/* "48 GB/s", "~24 GB/s" assumed, "*23.1 GB/s" measured. Returns `text`. */
const char *topo_rate(const struct rt_value *value, char *text, size_t capacity);
/* "PCIe 5.0 x16", "18 NVLinks", "network". Returns `text`. */
const char *topo_link(const struct rt_edge *edge, char *text, size_t capacity);
/* Channels, bandwidth, paths and orders; `why` instead when there is no search. */
void topo_show_rings(const struct rt_graph *graph, const struct rt_search *search, const char *why, FILE *out);

/* Joins the ranks of the launcher and unites their machines, which are *comm's; NULL: it has been said why. */
const struct rt_graph *topo_join(ringtree_comm **comm);

/* What explain is asked. bytes 0: the best way of each size. ranks 0: as many as the machine has seats, or 4. */
struct topo_question {
    ringtree_collective collective;
    size_t              bytes;
    uint32_t            ranks;
    bool                tcp; /* of this machine: ranks that share no memory */
    bool                coded;
    ringtree_codec      codec;
};
#define TOPO_MOST_RANKS 65536
/* `graph` NULL: this machine, as the built-in table has it. NULL, or why it cannot be said. */
const char *topo_explain(const struct topo_question *question, const struct rt_graph *graph, FILE *out);

/* What becomes of a call with the codec, on nodes joined by links of so many bytes a second. As topo_explain(). */
const char *topo_explain_codec(const struct topo_question *question, uint32_t ranks, uint32_t nodes, double link_rate,
                               FILE *out);

/* With a search, machines that are alike are shown once. */
void topo_show(const struct rt_graph *graph, const struct rt_search *search, FILE *out);
/* `search` NULL: without rings. false: no memory. */
bool topo_draw(const struct rt_graph *graph, const struct rt_search *search, FILE *out);
/* Lints; how many. */
unsigned topo_check(const struct rt_graph *graph, FILE *out);
/* What differs, line by line; how much. */
unsigned topo_compare(const struct rt_graph *a, const struct rt_graph *b, const char *name_a, const char *name_b,
                      FILE *out);

#endif
