/* Lints of the running machine. */
#include "file.h"
#include "lint_say.h"
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define MEMLOCK_LEAST (UINT64_C(64) << 20) /* RDMA registers buffers; 64 KiB, an old default, is not enough for one */

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

static void lint_acs(struct rt_lint *lint, const struct rt_graph *g, const char *sys)
{
    uint8_t config[4096];
    unsigned switches = 0;
    char text[24] = "";

    for (uint32_t v = 0; v < g->nvertices; v++) {
        if (g->vertex[v].kind != RT_PCI_SWITCH || g->vertex[v].busid == RT_NO_BUSID)
            continue;
        if (redirects(config, read_config(sys, g->vertex[v].busid, config, sizeof(config)))) {
            switches++;
            rt_busid_text(g->vertex[v].busid, text);
        }
    }
    if (switches && rt_graph_count(g, RT_GPU) > 0)
        rt_lint_say(lint, "%u PCI bridges (such as %s) have ACS redirection on: what GPUs and NICs send each other "
                          "goes up to "
                    "the processor. Off with setpci -s %s ECAP_ACS+0x6.w=0000, or in the BIOS", switches, text, text);
}

/* Names in a folder, but . and .. */
static unsigned count_names(const char *sys, const char *rest)
{
    char path[512];
    unsigned count = 0;

    snprintf(path, sizeof(path), "%s/%s", sys, rest);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        count += entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return count;
}

static void lint_iommu(struct rt_lint *lint, const struct rt_graph *g, const char *sys)
{
    char line[64];

    if (rt_graph_count(g, RT_GPU) == 0 || count_names(sys, "class/iommu") == 0)
        return;
    if (line_of(sys, "kernel/iommu_groups/0/type", line, sizeof(line)) && strncmp(line, "DMA", 3) == 0)
        rt_lint_say(lint, "the IOMMU translates what devices send (%s): peer access between GPUs and NICs may be slow "
                          "or "
                    "wrong. Boot with iommu=pt", line);
}

static void lint_governor(struct rt_lint *lint, const char *sys)
{
    char line[64];

    if (line_of(sys, "devices/system/cpu/cpu0/cpufreq/scaling_governor", line, sizeof(line)) &&
        strcmp(line, "performance") != 0)
        rt_lint_say(lint, "the processors' frequency governor is %s: latency varies and small messages are slower. "
                    "cpupower frequency-set -g performance", line);
}

static void lint_memlock(struct rt_lint *lint, const char *sys)
{
    struct rlimit limit;

    if (count_names(sys, "class/infiniband") == 0 || getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
        return;
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < MEMLOCK_LEAST)
        rt_lint_say(lint, "only %llu KiB of memory may be locked (ulimit -l), but RDMA needs its buffers locked. Set "
                          "memlock "
                    "to unlimited in /etc/security/limits.conf or in the service",
                        (unsigned long long)limit.rlim_cur / 1024);
}

void rt_lint_system(struct rt_lint *lint, const struct rt_graph *graph, const char *sys)
{
    lint_acs(lint, graph, sys);
    lint_iommu(lint, graph, sys);
    lint_governor(lint, sys);
    lint_memlock(lint, sys);
}
