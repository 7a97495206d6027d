/* The few calls of hwloc that are used; the library is loaded by name, so who links ringtree need not link it. */
#ifndef RT_HWLOC_LOAD_H
#define RT_HWLOC_LOAD_H

#include <hwloc.h>
#include <stdbool.h>

struct rt_hwloc {
    unsigned (*version)(void);
    int (*init)(hwloc_topology_t *topology);
    int (*filter_io)(hwloc_topology_t topology, enum hwloc_type_filter_e filter);
    int (*from_xml)(hwloc_topology_t topology, const char *text, int size);
    int (*load)(hwloc_topology_t topology);
    void (*destroy)(hwloc_topology_t topology);
    hwloc_obj_t (*object)(hwloc_topology_t topology, int depth, unsigned index);
};

/* NULL: it cannot be used, and *why says why. */
const struct rt_hwloc *rt_hwloc_load(const char **why);

#endif
