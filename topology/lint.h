/* What is likely wrong with a machine, in sentences with what to do about it. */
#ifndef RT_LINT_H
#define RT_LINT_H

#include "graph.h"

struct rt_lint {
    void (*say)(void *context, const char *sentence);
    void *context;
    unsigned count; /* of sentences so far; each is said once, for the first machine that it is true of */
    char where[80]; /* "host: " before what is said of one of several machines */
    uint64_t said[64];
};

/* Links below what they can, GPUs far from NICs, NUMA and PCI trees that are hidden, networks that differ, and settings
 * of PCIe, IOMMU, processor and limits that discovery found. */
void rt_lint_graph(struct rt_lint *lint, const struct rt_graph *graph);

#endif
