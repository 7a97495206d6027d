/* What links are worth until they are measured. Where the numbers come from is said beside them in rates.c. */
#ifndef RT_RATES_H
#define RT_RATES_H

#include "graph.h"

/* Payload of a PCIe link in GB/s, each direction; 0: generation or width is unknown. */
float rt_pci_gbs(unsigned generation, unsigned width);
/*
 * PCIe generation from how sysfs, NCCL and vendors spell a link's speed: "8 GT/s", "8.0 GT/s PCIe", "32 GT/s PCIe/s",
 * "2.5GT/s". 0: empty or "Unknown speed". -1: not a speed of any generation.
 */
int rt_pci_generation(const char *text);
/* Generation's transfers per second, as sysfs spells it: "8.0 GT/s PCIe"; "" for 0. */
const char *rt_pci_speed_text(unsigned generation);
/* Payload of one NVLink in GB/s, each direction, by the GPU's compute capability (70, 80, 90); 0 unknown. */
float rt_nvlink_gbs(unsigned sm);
/* Every unknown bandwidth and latency of the graph becomes an assumed one. */
void rt_graph_assume(struct rt_graph *graph);

#endif
