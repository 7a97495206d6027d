/* What is likely wrong with a machine, in sentences with what to do about it. */
#ifndef RT_LINT_H
#define RT_LINT_H

#include "graph.h"

struct rt_lint {
    void (*say)(void *context, const char *sentence);
    void *context;
    unsigned count; /* of sentences so far; each is said once */
    uint64_t said[64];
};

/* What a graph alone shows: links below what they can, GPUs far from NICs, NUMA and PCI trees that are hidden. */
void rt_lint_graph(struct rt_lint *lint, const struct rt_graph *graph);

/* What only the running machine shows: settings of PCIe, IOMMU, processor and limits. `sys` is "/sys". */
void rt_lint_system(struct rt_lint *lint, const struct rt_graph *graph, const char *sys);

#endif
