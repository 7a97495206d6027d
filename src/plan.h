/* Which way a collective goes: (collective, bytes, where ranks are, costs) -> method, algorithm, slice; and why. */
#ifndef RT_PLAN_H
#define RT_PLAN_H

#include "cost/cost.h"
#include "engine/engine.h"

struct rt_plan {
    enum rt_method             method;
    const struct rt_algorithm *algorithm; /* RT_BY_PROGRAM */
    size_t                     slice_bytes; /* 0: a whole slot */
    double                     seconds;   /* predicted */
    uint8_t                    told;      /* goes into the call's frame, where ranks might choose differently; or 0 */
};

/* Plans made before, by size and root: most calls are of a size that came before. */
struct rt_kept_plan {
    bool           known;
    size_t         bytes;
    uint32_t       root;
    struct rt_plan plan;
    uint32_t       seen;  /* blocking calls since the last review, */
    float          ratio; /* and the sum of measured / predicted of them */
};
#define RT_PLANS_KEPT 4 /* per collective; a power of two */

/* What a communicator plans by. All of it is equal on all ranks, but for the tuner. */
struct rt_planner {
    struct rt_costs     costs;
    struct rt_sites     sites;
    ringtree_tuner      tuner;
    void               *tuner_context;
    bool                asking; /* the tuner, right now */
    bool                measured[RT_LINK_KINDS], assumed; /* what is believed of links; `assumed`: of the network */
    uint32_t            mbit; /* by which it is assumed; 0: nobody told */
    char                transports[64]; /* by which this rank reaches the others, once asked for */
    uint64_t            calls; /* collectives, where RINGTREE_REVIEW_EVERY counts them */
    struct rt_kept_plan kept[RINGTREE_COLLECTIVE_COUNT][RT_PLANS_KEPT];
};

/* Where the ranks are. Local; the engine is open. RINGTREE_NO_MEMORY. */
ringtree_status rt_planner_open(ringtree_comm *comm, struct rt_error *error);

/* Equal on all ranks for equal calls; *plan is valid until the next one is chosen. RINGTREE_INVALID_SETTING:
 * RINGTREE_ALGORITHM asks for what is impossible here; RINGTREE_INVALID_ARGUMENT: the tuner does. */
ringtree_status rt_plan_choose(ringtree_comm *comm, ringtree_collective collective, size_t bytes, uint32_t root,
                               const struct rt_plan **plan, struct rt_error *error);

/* Where the plan of such a call is kept, if it is. */
struct rt_kept_plan *rt_plan_kept(ringtree_comm *comm, ringtree_collective collective, size_t bytes, uint32_t root);

/* Touches what planning needs, so that the first call does not wait for memory and code that nobody has read yet. */
void rt_plan_warm(const ringtree_comm *comm);

/* Forget what was planned: costs or the tuner have changed. */
void rt_plan_forget(ringtree_comm *comm);

/*
 * The slowest kind of link that `comm` uses between nodes, or within the node where there is one only, as the planner
 * knows it: equal on all ranks, measured or built in (see rt_costs). For choices that depend on how slow links are, as
 * whether compressing pays. bytes_per_s is what one rank sends, and receives at the same time, while nobody else
 * uses the link; the ranks of a node share it where `shared` says so.
 */
struct rt_plan_link {
    enum rt_link_kind kind;
    double            latency_s, bytes_per_s;
    bool              shared;
};
struct rt_plan_link rt_plan_link(const ringtree_comm *comm);

/*
 * RINGTREE_REVIEW_EVERY: before every so many collectives the ranks exchange what calls took; where it was off by over
 * 2 on all of them the way's correction at that size changes, on all alike, and plans are made anew. Collective.
 */
ringtree_status rt_review(ringtree_comm *comm);
/* A blocking call took so long on this rank. */
void rt_review_note(ringtree_comm *comm, ringtree_collective collective, size_t bytes, uint32_t root, double seconds);

/* ---- between the planner's files */

struct rt_option {
    const char                *name;
    const struct rt_algorithm *algorithm; /* NULL: the direct paths of shared memory */
    const char                *refusal;   /* NULL: possible */
    struct rt_prediction       prediction;
};
#define RT_MOST_OPTIONS 16

/* A barrier goes as an all_reduce of one byte, whatever RINGTREE_ALGORITHM says. */
static inline ringtree_collective rt_plan_carrier(ringtree_collective collective)
{
    return collective == RINGTREE_BARRIER ? RINGTREE_ALL_REDUCE : collective;
}

/* All ways of the collective; a barrier's are those of the all_reduce that carries it. */
uint32_t rt_plan_options(const ringtree_comm *comm, ringtree_collective collective, size_t bytes, uint32_t root,
                         struct rt_option *options);
struct rt_plan rt_plan_of(const struct rt_option *option);
/*
 * The transports of links between nodes that compete with the one that carries them: what the best way of this call
 * would take by each, by how much it costs more or less. A line for each is added to `text`.
 */
void rt_plan_say_rivals(const ringtree_comm *comm, ringtree_collective collective, size_t bytes, uint32_t root,
                        char *text, size_t capacity);
/* The tuner's choice into *plan, which has the planner's own. */
ringtree_status rt_plan_ask_tuner(ringtree_comm *comm, ringtree_collective collective, size_t bytes,
                                  const struct rt_option *options, uint32_t count, struct rt_plan *plan,
                                  struct rt_error *error);

#endif
