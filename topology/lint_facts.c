/* Lints of what facts.c found on a running machine, each for one machine of the graph. */
#include "lint_say.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMLOCK_LEAST_KIB (64ul << 10) /* RDMA registers buffers; 64 KiB, an old default, is not enough for one */

static bool has(const struct rt_graph *g, uint32_t machine, enum rt_vertex_kind kind)
{
    for (uint32_t v = machine; v < g->nvertices; v++)
        if (g->vertex[v].machine == machine && g->vertex[v].kind == kind)
            return true;
    return false;
}

static bool has_rdma(const struct rt_graph *g, uint32_t machine)
{
    for (uint32_t v = machine; v < g->nvertices; v++) {
        const char *kind = g->vertex[v].machine == machine ? rt_attribute(g, v, "kind") : NULL;
        if (kind && strcmp(kind, "rdma") == 0)
            return true;
    }
    return false;
}

static void lint_acs(struct rt_lint *lint, const struct rt_graph *g, uint32_t machine)
{
    unsigned switches = 0;
    char text[24] = "";

    for (uint32_t v = machine; v < g->nvertices; v++) {
        if (g->vertex[v].machine != machine || !rt_attribute(g, v, "pci.acs"))
            continue;
        switches++;
        rt_busid_text(g->vertex[v].busid, text);
    }
    if (switches && has(g, machine, RT_GPU))
        rt_lint_say(lint, "%u PCI bridges (such as %s) have ACS redirection on: what GPUs and NICs send each other "
                    "goes up to the processor. Off with setpci -s %s ECAP_ACS+0x6.w=0000, or in the BIOS", switches,
                    text, text);
}

static void lint_iommu(struct rt_lint *lint, const struct rt_graph *g, uint32_t machine)
{
    const char *type = rt_attribute(g, machine, "iommu");

    if (type && strncmp(type, "DMA", 3) == 0 && has(g, machine, RT_GPU))
        rt_lint_say(lint, "the IOMMU translates what devices send (%s): peer access between GPUs and NICs may be slow "
                    "or wrong. Boot with iommu=pt", type);
}

static void lint_governor(struct rt_lint *lint, const struct rt_graph *g, uint32_t machine)
{
    const char *governor = rt_attribute(g, machine, "governor");

    if (governor && strcmp(governor, "performance") != 0)
        rt_lint_say(lint, "the processors' frequency governor is %s: latency varies and small messages are slower. "
                    "cpupower frequency-set -g performance", governor);
}

static void lint_memlock(struct rt_lint *lint, const struct rt_graph *g, uint32_t machine)
{
    const char *kib = rt_attribute(g, machine, "memlock_kib");

    if (kib && strtoul(kib, NULL, 10) < MEMLOCK_LEAST_KIB && has_rdma(g, machine))
        rt_lint_say(lint, "only %s KiB of memory may be locked (ulimit -l), but RDMA needs its buffers locked. Set "
                    "memlock to unlimited in /etc/security/limits.conf or in the service", kib);
}

void rt_lint_facts(struct rt_lint *lint, const struct rt_graph *graph, uint32_t machine)
{
    lint_acs(lint, graph, machine);
    lint_iommu(lint, graph, machine);
    lint_governor(lint, graph, machine);
    lint_memlock(lint, graph, machine);
}
