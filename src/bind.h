/* Where a rank and its progress thread run. Nothing here can fail a communicator. */
#ifndef RT_BIND_H
#define RT_BIND_H

#include "comm.h"
#include "topology/near.h"

/* Binds this thread where RINGTREE_BIND allows it and nobody else has; sets comm->domain. What it found, for
 * rt_bind_progress() and then for free(), or NULL. */
struct rt_near *rt_bind_rank(ringtree_comm *comm);

/* rt_progress_start(), near the network. */
ringtree_status rt_bind_progress(ringtree_comm *comm, const struct rt_near *near, struct rt_error *error);

#endif
