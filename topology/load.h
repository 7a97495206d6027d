/* A machine by what a user may name it: nothing (this one), a file in any form, or a synthetic text. */
#ifndef RT_LOAD_H
#define RT_LOAD_H

#include "graph.h"

/*
 * `source` NULL or "": this machine. A file: NCCL's or hwloc's XML, or a synthetic text. Anything else with a space, a
 * colon or digits in it is taken as a synthetic text itself. `complete`: what `source` says is completed by what this
 * machine knows of the same bus ids. *graph is finished; the caller frees it.
 */
ringtree_status rt_machine_load(struct rt_graph **graph, const char *source, bool complete, struct rt_error *error);

#endif
