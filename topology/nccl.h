/*
 * NCCL's topology XML (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE): full dumps and sparse skeletons.
 *
 * A <cpu> is a NUMA domain; cpus with different host_hash are different machines. A <pci> is what its class or what is
 * in it says: switch, GPU, NIC, or a device of unknown use. A link_speed or link_width that is "", "Unknown" or not
 * there is unknown, and assumed as rates.h says. Attributes that ringtree has no use for are kept and written again,
 * those of a <pci> with "pci." before the name; elements that it does not know are left out, and named in the
 * attribute "ignored" of the system.
 */
#ifndef RT_NCCL_H
#define RT_NCCL_H

#include "graph.h"
#include <stdio.h>

/* *graph is finished; the caller frees it. `origin` names the text in errors, which tell the line. */
ringtree_status rt_nccl_read(struct rt_graph **graph, const char *text, size_t length, const char *origin,
                             struct rt_error *error);

/* One machine, in the form of NCCL's own dumps. false: it could not be written. */
bool rt_nccl_write(const struct rt_graph *graph, uint32_t machine, FILE *out);

/* For both directions of XML: the text between quotes. */
void rt_xml_write_text(const char *text, FILE *out);

#endif
