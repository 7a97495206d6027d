/*
 * The machine that this process runs on, as a graph: processors and the PCI tree through hwloc, link speeds, ports and
 * what else hwloc leaves out from /sys, NVLink through NVML. hwloc and NVML are loaded by name when they are there.
 */
#ifndef RT_DISCOVER_H
#define RT_DISCOVER_H

#include "graph.h"

/* *graph is finished; the caller frees it. Without hwloc: RINGTREE_UNSUPPORTED. Takes 10 to 100 ms. */
ringtree_status rt_discover(struct rt_graph **graph, struct rt_error *error);

/* A machine as hwloc writes it (lstopo file.xml), version 2. `origin` names the text in errors. */
ringtree_status rt_hwloc_read(struct rt_graph **graph, const char *text, size_t length, const char *origin,
                              struct rt_error *error);
/* Whether hwloc can be used here; if not, *why says why. */
bool rt_hwloc_available(const char **why);

/*
 * `skeleton`, completed by what `live` knows of the same bus ids; both are finished and stay as they are. The skeleton
 * says what is where, as a virtual machine's own PCI tree may lie; from the live machine come values that the skeleton
 * leaves unknown, GPUs, NICs and ports that it does not name, NVLinks where it has none, and cores. How many of the
 * skeleton's functions the live machine lacks is in the attribute "absent" of the machine.
 */
ringtree_status rt_graph_merge(struct rt_graph **merged, const struct rt_graph *skeleton, const struct rt_graph *live,
                               struct rt_error *error);

/* The parts of rt_discover(), on a graph that is not finished, for tests. */
struct rt_graph *rt_hwloc_build(const char *xml, size_t length, struct rt_error *error); /* xml NULL: this machine */
void rt_sysfs_complete(struct rt_graph *graph, const char *sys);                         /* "/sys" */
void rt_facts_complete(struct rt_graph *graph, const char *sys);                         /* "/sys" */
/* false: the library is not there or does not work, which is nothing to complain about. */
bool rt_nvml_complete(struct rt_graph *graph, const char *library);                      /* "libnvidia-ml.so.1" */

#endif
