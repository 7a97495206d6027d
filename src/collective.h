/* From a checked call to a running operation. */
#ifndef RT_COLLECTIVE_H
#define RT_COLLECTIVE_H

#include "comm.h"

struct rt_buffers {
    const void *input;
    void       *output;
    size_t      input_blocks, output_blocks; /* of `count` elements; 0: this rank has none */
    size_t      in_place_input, in_place_output; /* block that may lie on the other buffer's start */
};

/* What every call begins with. A group's calls have no request of their own. */
ringtree_status rt_call_enter(ringtree_comm *comm, ringtree_collective which, ringtree_request **request);

/* A collective's arguments, checked. `root` RT_NONE: it has none. `op` NULL: it does not reduce. */
ringtree_status rt_call_make(ringtree_comm *comm, struct rt_call *call, ringtree_collective which,
                             const struct rt_buffers *b, size_t count, ringtree_type type, const ringtree_op *op,
                             uint32_t root);

/* Can `call` be planned? If it cannot, it has had no effect. */
ringtree_status rt_collective_plan(ringtree_comm *comm, const struct rt_call *call);

/* Plans and starts `call`, or notes it in the open group. frame.sequence is filled here. */
ringtree_status rt_collective_start(ringtree_comm *comm, struct rt_call *call, ringtree_request **request);

/* Starts a collective whose array travels encoded. */
ringtree_status rt_compressed_start(ringtree_comm *comm, const struct rt_call *call,
                                    const struct rt_compression *compression, ringtree_request **request);

/* What a blocking collective was called with; op 0, root RT_NONE: it has none. */
struct rt_asked {
    ringtree_collective collective;
    const void         *input;
    void               *output;
    size_t              count;
    ringtree_type       type;
    ringtree_op         op;
    uint32_t            root;
};

/* A small call like an earlier one, which needs neither checks nor a plan of its own. false: it is not one, and nothing
 * was done. */
bool rt_collective_again(ringtree_comm *comm, const struct rt_asked *asked, ringtree_status *status);

/* Starts an operation of transfers (all_to_all_v), whose `sends` and `recvs` are the operation's from here. */
ringtree_status rt_transfers_start(ringtree_comm *comm, struct rt_call *call, struct rt_transfer *sends,
                                   struct rt_transfer *recvs, ringtree_request **request);

/* One message to or from a peer, or noted in the open group. */
ringtree_status rt_message_start(ringtree_comm *comm, const struct rt_transfer *message, bool sends,
                                 ringtree_request **request);

#endif
