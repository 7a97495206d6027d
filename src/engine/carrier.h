/*
 * Which transport carries the links to a rank: of those that reach it, and that it reaches us by, the first of
 * RINGTREE_TRANSPORTS where that is a list, the one of the least cost where it only says which are out ("^ucx").
 *
 * Costs are guesses that come with each transport until they are measured (trial.h). They are equal on all ranks, and
 * so are both ends' ideas of which transports reach, so that both ends choose alike without asking each other.
 */
#ifndef RT_CARRIER_H
#define RT_CARRIER_H

#include "transports/transport.h"

#define RT_CARRIERS 4
extern const struct rt_transport *const rt_carriers[RT_CARRIERS];

enum rt_distance { RT_WITHIN, RT_ACROSS, RT_DISTANCES }; /* a machine; machines */

/* Of a trial: it carried too little in its time; nothing. */
enum rt_tried { RT_TRIED_WELL, RT_TRIED_SLOW, RT_TRIED_MUTE };
struct rt_carrier_costs {
    struct rt_link_guess cost[RT_CARRIERS][RT_DISTANCES];
    bool                 measured[RT_CARRIERS][RT_DISTANCES];
    enum rt_tried        tried[RT_CARRIERS][RT_DISTANCES];
};

struct rt_engine;
void rt_carriers_guess(struct rt_carrier_costs *costs);
/* RINGTREE_INVALID_SETTING: the list names what this build has not; the sentence has what it has. */
ringtree_status rt_carriers_check(const char *list, struct rt_error *error);
/* Is this the form that leaves the choice to costs? */
bool rt_carriers_compete(const struct rt_settings *settings);

/* Asks all transports whom they reach: engine->candidates, a bit each. */
void rt_carriers_find(struct rt_engine *engine);
/* engine->reach from candidates and costs. RINGTREE_UNREACHABLE: the sentence says of each transport why. */
ringtree_status rt_carriers_choose(struct rt_engine *engine, struct rt_error *error);
/* Every pair of ranks adds to one end's number what it takes from the other's: unless the two ends have the same
 * candidates the sum over all ranks is not 0. */
uint64_t rt_carriers_balance(const struct rt_engine *engine);
/* Only what both ends have stays. Collective. */
ringtree_status rt_carriers_meet(struct rt_engine *engine, struct rt_error *error);

enum rt_distance rt_carrier_distance(const struct rt_engine *engine, uint32_t peer);
/* "tcp, the least cost: 8 B 4.0 us, 1 MiB 130.0 us (measured); shm: RINGTREE_TRANSPORTS leaves it out; ucx: ..." */
const char *rt_carrier_text(const struct rt_engine *engine, uint32_t peer, char *text, size_t capacity);
/* "8 B 4.0 us, 1 MiB 130.0 us" */
const char *rt_carrier_cost_text(const struct rt_link_guess *cost, char *text, size_t capacity);

#endif
