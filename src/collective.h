/* From a checked call to a running operation. */
#ifndef RT_COLLECTIVE_H
#define RT_COLLECTIVE_H

#include "comm.h"

/* Plans and starts `call`, or notes it in the open group. frame.sequence is filled here. */
ringtree_status rt_collective_start(ringtree_comm *comm, struct rt_call *call, ringtree_request **request);

/* A blocking all-reduce like the last small one over shared memory, which needs neither checks nor a plan of its own.
 * false: it is not one, and nothing was done. */
bool rt_all_reduce_again(ringtree_comm *comm, const void *input, void *output, size_t count, ringtree_type type,
                         ringtree_op op, ringtree_status *status);

/* Starts an operation of transfers (all_to_all_v), whose `sends` and `recvs` are the operation's from here. */
ringtree_status rt_transfers_start(ringtree_comm *comm, struct rt_call *call, struct rt_transfer *sends,
                                   struct rt_transfer *recvs, ringtree_request **request);

/* One message to or from a peer, or noted in the open group. */
ringtree_status rt_message_start(ringtree_comm *comm, const struct rt_transfer *message, bool sends,
                                 ringtree_request **request);

#endif
