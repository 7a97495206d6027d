/*
 * What only a running machine shows, as attributes of its graph, so that it is told to other ranks like the rest:
 * "pci.acs" of bridges, "iommu", "governor" and "memlock_kib" of the machine. What is not there or not limited gives
 * none.
 */
#include "discover.h"
#include "file.h"
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { ACS_CAPABILITY = 0x000d, ACS_REDIRECTS = 0x04 | 0x08 }; /* request and completion redirect, PCIe 6.12.1 */

static bool line_of(const char *sys, const char *rest, char *line, size_t capacity)
{
    char path[512];

    return (size_t)snprintf(path, sizeof(path), "%s/%s", sys, rest) < sizeof(path) &&
           rt_file_line(path, line, capacity);
}

/* Configuration space, of which only root may read more than 64 bytes. */
static size_t read_config(const char *sys, uint64_t busid, uint8_t *config, size_t capacity)
{
    char path[512], text[24];

    snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/config", sys, rt_busid_text(busid, text));
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    const size_t length = fread(config, 1, capacity, file);
    fclose(file);
    return length;
}

static uint32_t word(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* Access control that sends what peers exchange up to the processor and back. */
static bool redirects(const uint8_t *config, size_t length)
{
    size_t at = 0x100;

    for (int i = 0; i < 64 && at >= 0x100 && at + 8 <= length; i++) {
        const uint32_t header = word(config + at);
        if ((header & 0xffff) == ACS_CAPABILITY)
            return (word(config + at + 4) >> 16 & ACS_REDIRECTS) != 0;
        at = header >> 20;
    }
    return false;
}

static bool is_empty(const char *sys, const char *rest)
{
    char path[512];
    bool empty = true;

    snprintf(path, sizeof(path), "%s/%s", sys, rest);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        empty &= entry->d_name[0] == '.';
    if (folder)
        closedir(folder);
    return empty;
}

static void find_acs(struct rt_graph *g, const char *sys)
{
    uint8_t config[4096];

    for (uint32_t v = 0; v < g->nvertices; v++)
        if (g->vertex[v].kind == RT_PCI_SWITCH && g->vertex[v].busid != RT_NO_BUSID &&
            redirects(config, read_config(sys, g->vertex[v].busid, config, sizeof(config))))
            rt_graph_attribute(g, v, "pci.acs", "redirects");
}

void rt_facts_complete(struct rt_graph *graph, const char *sys)
{
    uint32_t machine = 0;
    struct rlimit limit;
    char line[64];

    while (machine < graph->nvertices && graph->vertex[machine].kind != RT_MACHINE)
        machine++;
    if (machine == graph->nvertices)
        return;
    find_acs(graph, sys);
    if (!is_empty(sys, "class/iommu") && line_of(sys, "kernel/iommu_groups/0/type", line, sizeof(line)))
        rt_graph_attribute(graph, machine, "iommu", line);
    if (line_of(sys, "devices/system/cpu/cpu0/cpufreq/scaling_governor", line, sizeof(line)))
        rt_graph_attribute(graph, machine, "governor", line);
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        snprintf(line, sizeof(line), "%llu", (unsigned long long)limit.rlim_cur / 1024);
        rt_graph_attribute(graph, machine, "memlock_kib", line);
    }
}
