/* Loads hwloc 2. */
#ifdef RT_HAVE_HWLOC
#include "hwloc_load.h"
#include "base/symbols.h"
#include <dlfcn.h>
#include <pthread.h>

static struct rt_hwloc hwloc;
static const char *missing;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    static const struct rt_symbol symbols[] = {
        { "hwloc_get_api_version", &hwloc.version },
        { "hwloc_topology_init", &hwloc.init },
        { "hwloc_topology_set_io_types_filter", &hwloc.filter_io },
        { "hwloc_topology_set_xmlbuffer", &hwloc.from_xml },
        { "hwloc_topology_load", &hwloc.load },
        { "hwloc_topology_destroy", &hwloc.destroy },
        { "hwloc_get_obj_by_depth", &hwloc.object },
    };
    void *library = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);

    if (!library)
        missing = "libhwloc.so.15 is not installed (Debian: libhwloc15)";
    else if (!rt_symbols_find(library, symbols, sizeof(symbols) / sizeof(*symbols)))
        missing = "libhwloc.so.15 lacks a call of hwloc 2";
    else if (hwloc.version() >> 16 != HWLOC_API_VERSION >> 16)
        missing = "libhwloc.so.15 is of another major version than its headers were";
}

const struct rt_hwloc *rt_hwloc_load(const char **why)
{
    pthread_once(&once, load);
    *why = missing;
    return missing ? NULL : &hwloc;
}
#else
struct rt_hwloc; /* ISO C wants something in a file */
#endif
