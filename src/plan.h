/* Which way a collective goes: (collective, bytes, where ranks are, costs) -> method, algorithm, slice; and why. */
#ifndef RT_PLAN_H
#define RT_PLAN_H

#include "engine/engine.h"

struct rt_plan {
    enum rt_method             method;
    const struct rt_algorithm *algorithm; /* RT_BY_PROGRAM */
    size_t                     slice_bytes; /* 0: a whole slot */
    double                     seconds;   /* predicted */
};

/* The plan of a collective's last call: most calls are of the size of the one before. */
struct rt_last_plan {
    bool           known;
    size_t         bytes;
    uint32_t       root;
    struct rt_plan plan;
};

/* Equal on all ranks for equal calls. RINGTREE_INVALID_SETTING: RINGTREE_ALGORITHM asks for what is impossible here. */
ringtree_status rt_plan_choose(ringtree_comm *comm, ringtree_collective collective, size_t bytes, uint32_t root,
                               struct rt_plan *plan, struct rt_error *error);

/* Bytes a second of the slowest link between nodes (within the node where there is one only): equal on all ranks. */
double rt_plan_link_rate(const ringtree_comm *comm);

#endif
