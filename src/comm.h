/* A communicator: this rank's settings, control plane, shared memory and engine, and what its callers hold. */
#ifndef RT_COMM_H
#define RT_COMM_H

#include "engine/engine.h"
#include "plan.h"
#include "topology/graph.h"
#include <stdatomic.h>

#define RT_MOST_RANKS 65536
#define RT_MOST_OPS   64
#define RT_PREMUL_OP  0x100 /* handles of ringtree_op_premul_sum() begin here */

struct rt_premul {
    bool          used;
    ringtree_type type;
    unsigned char scalar[8];
};

/* Memory of ringtree_mem_alloc() where no memory is shared. */
struct rt_private_memory {
    struct rt_private_memory *next;
    void                     *pointer;
};

/* What a core of the slowest rank encodes, in bytes of float32 a second; see codec_choice.c. */
struct rt_codec_rates {
    bool   known;
    double encode[RT_CODEC_KIND_COUNT], decode[RT_CODEC_KIND_COUNT], select;
};

/* A small call as it was checked and planned; call.count 0: none yet. program NULL: it goes by lines. */
struct rt_again {
    struct rt_call           call;
    const struct rt_program *program;
    size_t                   slice_bytes;
    bool                     reads, writes, both; /* this rank has an input, an output */
    size_t                   span;  /* bytes of the longer one */
    uintptr_t                alias; /* input minus output in place */
};
#define RT_AGAINS 16

/* What `live` is in a communicator of this process. A forked child goes on to another value, so that those of its
 * parent, whose connections it would share, are refused where any other handle that is none is. */
extern uint64_t rt_comm_live;

struct ringtree_comm {
    uint64_t             live;
    uint32_t             rank, nranks, timeout_ms;
    struct rt_settings   settings;
    struct rt_control   *control;
    struct rt_node      *node;
    uint32_t            *node_of;
    struct rt_engine    *engine;
    struct rt_error      error;
    ringtree_request    *request_pool, *requests; /* free ones; all ever made */
    struct rt_premul     premul[RT_MOST_OPS];
    struct rt_private_memory *memory;
    bool                 grouping, logging;
    atomic_bool          told; /* the caller knows of the failure, or made it */
    struct rt_operation *group_first, *group_last;
    struct rt_transfer  *group_sends, *group_recvs, **group_sends_end, **group_recvs_end;
    uint32_t             group_parts;
    unsigned char        barrier_byte[2];
    struct rt_codec_rates codec_rates;
    struct rt_again      again[RT_AGAINS];
    struct rt_planner    planner;
    int32_t              domain;    /* the NUMA domain that this rank runs in; -1: several, unknown */
    struct rt_graph     *machines;  /* NULL until rt_comm_machines() */
};

/* NULL comm or one that is not live: RINGTREE_INVALID_ARGUMENT in the thread's error. A failed one: its failure. One
 * whose tuner calls: RINGTREE_INVALID_ARGUMENT. */
ringtree_status rt_comm_check(ringtree_comm *comm, const char *call);

ringtree_status rt_comm_make(ringtree_comm **comm, const struct rt_settings *settings, const struct rt_meeting *meeting,
                             uint32_t rank, uint32_t nranks, const ringtree_options *options, struct rt_error *error);
/* Ends one that cannot be used, without the others, who are told why. */
void rt_comm_drop(ringtree_comm **comm, const struct rt_error *why);

/*
 * The machines that the ranks live on, in the order of their first ranks, united and finished; each has its host's name
 * and the attribute "ranks" ("0-3,8"). Collective when called first: the first rank on each machine looks at it, which
 * takes some 20 ms. What a rank sent is checked; what does not hold is an error that names it. The graph is `comm`'s.
 */
ringtree_status rt_comm_machines(ringtree_comm *comm, const struct rt_graph **machines);

/* Gives back what a call, or the calls of one request, were lent; well: they succeeded. NULL is accepted. */
void rt_lent_back(struct rt_lent *lent, bool well);
/* A request with `parts` parts pending; NULL: no memory. */
ringtree_request *rt_request_new(ringtree_comm *comm, uint32_t parts);
void rt_request_free(ringtree_request *request);
/* Give it to the caller, or wait for it here when `out` is NULL. */
ringtree_status rt_request_hand(ringtree_comm *comm, ringtree_request *request, ringtree_request **out);

/* Forget what was noted in a group that will not be started. */
void rt_group_drop(ringtree_comm *comm);

/* The engine's failure becomes the communicator's sentence. */
ringtree_status rt_comm_failed(ringtree_comm *comm);

#endif
