/* The machines of all ranks, for --merged. */
#include "ringtree-topo.h"
#include "comm.h"

const struct rt_graph *topo_join(ringtree_comm **comm)
{
    const struct rt_graph *machines = NULL;

    if (ringtree_init(comm) != RINGTREE_OK || rt_comm_machines(*comm, &machines) != RINGTREE_OK)
        fprintf(stderr, "ringtree-topo: %s\n", ringtree_last_error(*comm));
    return machines;
}
