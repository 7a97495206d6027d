/* This machine, in phases: hwloc, then /sys, then NVML, each completing what came before. */
#include "discover.h"

ringtree_status rt_discover(struct rt_graph **graph, struct rt_error *error)
{
    struct rt_graph *g = rt_hwloc_build(NULL, 0, error);

    *graph = NULL;
    if (!g)
        return error ? error->status : RINGTREE_SYSTEM;
    rt_sysfs_complete(g, "/sys");
    rt_facts_complete(g, "/sys");
    if (rt_graph_count(g, RT_GPU) > 0)
        rt_nvml_complete(g, "libnvidia-ml.so.1");
    const ringtree_status status = rt_graph_finish(g, error);
    if (status == RINGTREE_OK)
        *graph = g;
    else
        rt_graph_free(g);
    return status;
}
