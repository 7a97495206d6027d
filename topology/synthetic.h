/*
 * Any machine from a line of text, so that choices can be looked at without it:
 * "2 node: 2 socket: 4 gpu nvlink:12 switch; 2 nic 200G"
 * is two machines of two sockets, in each socket four GPUs and two NICs; the GPUs of a machine meet in an NVSwitch.
 *
 *   list = item { ";" item }     item = [COUNT] KIND { WORD } [ ":" list | ":" "(" list ")" ]
 *
 * A ":" opens what is inside, ";" goes on beside it, or further out where that cannot be (a socket after a GPU);
 * "(" and ")" say where the inside ends.
 *
 *   node                            a machine (one, when left out)
 *   socket, numa   [link:GB/s]      link: between sockets, or NUMA domains without one
 *   core                            a core, or a rank that lives on one
 *   pci            [pcie:GENxWIDTH] a PCI switch
 *   gpu            [pcie:..] [sm:90] [nvlink:LINKS switch|mesh|ring|cube]   LINKS of each; cube: that of DGX-1
 *   nic            [pcie:..] [200G] [ports:2]   gigabits per second and port
 */
#ifndef RT_SYNTHETIC_H
#define RT_SYNTHETIC_H

#include "graph.h"

/* *graph is finished; the caller frees it. A wrong text is RINGTREE_INVALID_ARGUMENT with its column. */
ringtree_status rt_synthetic_read(struct rt_graph **graph, const char *text, struct rt_error *error);

#endif
