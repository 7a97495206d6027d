/*
 * NVLinks as NVIDIA's management library sees them. It is loaded by name; the few calls that are used are declared
 * here, as its header may be redistributed but is seldom installed.
 */
#include "discover.h"
#include "base/symbols.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define MOST_GPUS  64
#define MOST_LINKS 36 /* of a GPU, ever */

struct pci_info { /* nvmlPciInfo_t, version 3 */
    char     legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char     busid[32];
};

enum { REMOTE_GPU = 0, REMOTE_PROCESSOR = 1, REMOTE_SWITCH = 2 }; /* nvmlIntNvLinkDeviceType_t */

struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *count);
    int (*device)(unsigned index, void **device);
    int (*pci)(void *device, struct pci_info *info);
    int (*capability)(void *device, int *major, int *minor);
    int (*link_state)(void *device, unsigned link, unsigned *is_active);
    int (*remote_pci)(void *device, unsigned link, struct pci_info *info);
    int (*remote_type)(void *device, unsigned link, unsigned *type); /* NULL in old ones */
};

static bool load(struct nvml *nvml, void *library)
{
    const struct rt_symbol symbols[] = {
        { "nvmlInit_v2", &nvml->init },
        { "nvmlShutdown", &nvml->shutdown },
        { "nvmlDeviceGetCount_v2", &nvml->count },
        { "nvmlDeviceGetHandleByIndex_v2", &nvml->device },
        { "nvmlDeviceGetPciInfo_v3", &nvml->pci },
        { "nvmlDeviceGetCudaComputeCapability", &nvml->capability },
        { "nvmlDeviceGetNvLinkState", &nvml->link_state },
        { "nvmlDeviceGetNvLinkRemotePciInfo_v2", &nvml->remote_pci },
    };
    const struct rt_symbol newer = { "nvmlDeviceGetNvLinkRemoteDeviceType", &nvml->remote_type };

    rt_symbols_find(library, &newer, 1);
    return rt_symbols_find(library, symbols, sizeof(symbols) / sizeof(*symbols));
}

static uint32_t at_busid(const struct rt_graph *g, const char *text)
{
    const uint64_t busid = rt_busid_parse(text);

    for (uint32_t v = 0; v < g->nvertices && busid != RT_NO_BUSID; v++)
        if (g->vertex[v].busid == busid)
            return v;
    return RT_NO_VERTEX;
}

static uint32_t processor_of(const struct rt_graph *g, uint32_t v)
{
    while (g->vertex[v].kind > RT_NUMA)
        v = g->vertex[v].parent;
    return v;
}

/* What link `link` of the GPU leads to; RT_NO_VERTEX: it is down, or leads to nothing that is seen here. */
static uint32_t link_end(const struct nvml *nvml, struct rt_graph *g, void *device, uint32_t gpu, unsigned link)
{
    struct pci_info remote = { .busid = "" };
    unsigned active = 0, type = REMOTE_GPU;

    if (nvml->link_state(device, link, &active) != 0 || !active)
        return RT_NO_VERTEX;
    if (nvml->remote_pci(device, link, &remote) != 0)
        remote.busid[0] = '\0';
    remote.busid[sizeof(remote.busid) - 1] = '\0';
    const uint32_t end = at_busid(g, remote.busid);
    if (!nvml->remote_type || nvml->remote_type(device, link, &type) != 0)
        type = end == RT_NO_VERTEX ? REMOTE_SWITCH : REMOTE_GPU;
    if (type == REMOTE_SWITCH)
        return rt_graph_nvswitch(g, g->vertex[gpu].machine, rt_busid_parse(remote.busid), 0);
    if (type == REMOTE_PROCESSOR)
        return processor_of(g, gpu);
    return end != RT_NO_VERTEX && g->vertex[end].kind == RT_GPU ? end : RT_NO_VERTEX;
}

static void count_link(struct rt_graph *g, uint32_t gpu, uint32_t end)
{
    /* two GPUs both report the links between them; the first counts */
    if (end == RT_NO_VERTEX || end == gpu || (g->vertex[end].kind == RT_GPU && end < gpu))
        return;
    for (uint32_t i = 0; i < g->nedges; i++)
        if (g->edge[i].kind == RT_NVLINK && g->edge[i].a == gpu && g->edge[i].b == end) {
            g->edge[i].count++;
            return;
        }
    rt_graph_connect(g, RT_NVLINK, gpu, end);
}

static void complete_gpu(const struct nvml *nvml, struct rt_graph *g, unsigned index)
{
    struct pci_info info = { .busid = "" };
    void *device;
    int major, minor;
    char sm[16];

    if (nvml->device(index, &device) != 0 || nvml->pci(device, &info) != 0)
        return;
    info.busid[sizeof(info.busid) - 1] = '\0';
    const uint32_t gpu = at_busid(g, info.busid);
    if (gpu == RT_NO_VERTEX || g->vertex[gpu].kind != RT_GPU)
        return;
    g->vertex[gpu].number = (int32_t)index;
    if (nvml->capability(device, &major, &minor) == 0 && major > 0 && major < 100 && minor >= 0 && minor < 10) {
        snprintf(sm, sizeof(sm), "%d", major * 10 + minor);
        rt_graph_attribute(g, gpu, "sm", sm);
    }
    for (unsigned link = 0; link < MOST_LINKS; link++)
        count_link(g, gpu, link_end(nvml, g, device, gpu, link));
}

bool rt_nvml_complete(struct rt_graph *graph, const char *name)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    struct nvml nvml;
    unsigned count = 0;

    if (!library)
        return false;
    bool works = load(&nvml, library) && nvml.init() == 0;
    if (works) {
        works = nvml.count(&count) == 0;
        for (unsigned i = 0; i < count && i < MOST_GPUS && works; i++)
            complete_gpu(&nvml, graph, i);
        nvml.shutdown();
    }
    dlclose(library);
    return works;
}
