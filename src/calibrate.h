/*
 * What the planner's costs rest on: the built-in table or RINGTREE_TUNE_FILE, brought nearer to this machine by a short
 * measurement of one link of each kind, which is kept in a file for the next start (RINGTREE_CALIBRATE). A link between
 * machines is measured at every start all the same, since nothing tells when it changes; as long as that is near what
 * is kept, what is kept counts, so that noise changes no plan.
 *
 * All ranks end with the same costs to the bit: one rank reads the file, or measures, and tells the others.
 */
#ifndef RT_CALIBRATE_H
#define RT_CALIBRATE_H

#include "comm.h"
#include "cost/table.h"
#include "engine/trial.h"

/* Of each kind of link, then of each transport that competes for links (rt_rival()), then one connection between
 * machines where several carry more (calibrate_flows.c), which is what their kind of link then has. */
#define RT_FLOW     (RT_LINK_KINDS + RT_CARRIERS * RT_DISTANCES)
#define RT_MEASURED (RT_FLOW + 1)
/* latency 0: not measured. In whole femtoseconds, so that a file keeps them exactly. */
struct rt_calibration {
    uint64_t latency_fs[RT_MEASURED], byte_fs[RT_MEASURED];
};
/* "shm", "tcp-network" */
const char *rt_measured_name(uint32_t index, char text[32]);

/* Loads the table, and calibrates as the settings say. Collective; the communicator is live. */
ringtree_status rt_calibrate(ringtree_comm *comm, struct rt_error *error);

/* Measures every kind of link between one pair of ranks, within about `most_ms` from when they are open, or only that
 * between nodes. Collective. What this rank found; zeros on ranks that measured nothing. */
ringtree_status rt_calibrate_measure(ringtree_comm *comm, uint32_t most_ms, bool only_between,
                                     struct rt_calibration *found);

/* The pair between which links are measured: the first rank whose node an earlier rank is on, and the first of that
 * node; or rank 0 and the first on another node. false: there is none. */
bool rt_calibrate_pair(const ringtree_comm *comm, bool inside, uint32_t *first, uint32_t *second);

/* ---- links between machines that were not measured (calibrate_assumed.c) */

bool rt_on_one_machine(const ringtree_comm *comm);
/* mbit 0: as the table has it. */
void rt_assume_network(struct rt_costs *costs, uint32_t mbit, bool one_machine);

/*
 * Whether a link between machines carries more over 2, 4, ... connections than over one. Where it does *found has of
 * the link what many take for a byte, and of RT_FLOW what one takes. Collective; only the rank that measured has any.
 */
ringtree_status rt_flows_measure(ringtree_comm *comm, uint32_t most_ms, struct rt_calibration *found,
                                 struct rt_error *error);

/* ---- transports that compete (calibrate_rivals.c) */

/* What a trial may take beside the measurement, to connect above all. Where several follow each other they stay,
 * together, within half of what the other ranks wait for them. */
uint64_t rt_trial_ms(const ringtree_comm *comm, uint32_t trials);

/* Where a transport's cost stands in struct rt_calibration. */
static inline uint32_t rt_rival(uint32_t carrier, enum rt_distance distance)
{
    return RT_LINK_KINDS + carrier * RT_DISTANCES + distance;
}

/* At each distance: two ranks between which several transports would do; carriers 0: there are none. */
struct rt_rivals {
    uint32_t first[RT_DISTANCES], second[RT_DISTANCES], carriers[RT_DISTANCES];
};

/* Those of this rank with later ones. */
void rt_rivals_find(const ringtree_comm *comm, struct rt_rivals *rivals);
/* Of two the one with more transports. */
void rt_rivals_merge(struct rt_rivals *rivals, const struct rt_rivals *others);
/* Does `found` lack one of them? */
bool rt_rivals_unknown(const struct rt_rivals *rivals, const struct rt_calibration *found);
/* Those whose trial failed, a bit each as in rt_rival() - RT_LINK_KINDS; of them, those that carried something. */
struct rt_losers {
    uint32_t failed, slow;
};
/* Measures them, each for `each_ms`. `trials` has RT_CARRIERS * RT_DISTANCES, to be ended once all ranks are through.
 * Collective. */
void rt_rivals_measure(ringtree_comm *comm, const struct rt_rivals *rivals, uint32_t each_ms, struct rt_trial *trials,
                       struct rt_calibration *found, struct rt_losers *losers);
/* From now on all links are carried by what costs least. `losers` NULL: nothing was tried. */
ringtree_status rt_rivals_choose(ringtree_comm *comm, const struct rt_calibration *found,
                                 const struct rt_losers *losers, struct rt_error *error);

/*
 * The file of a machine and placement, `what` (one line). true: it is there, whole, of this version, ours alone to
 * write, and of that very machine. Anything else is logged and not believed.
 */
bool rt_calibration_load(const struct rt_settings *settings, const char *what, struct rt_calibration *found);
/* Replaces it at once or not at all; a failure is logged. */
void rt_calibration_store(const struct rt_settings *settings, const char *what, const struct rt_calibration *found);
/* From text, for tests and fuzzers. */
bool rt_calibration_parse(const char *text, size_t length, const char *what, struct rt_calibration *found);

#define RT_FINGERPRINT_MOST 512
/* This machine, its software, and where the ranks are, in one line. */
void rt_fingerprint(const ringtree_comm *comm, char line[RT_FINGERPRINT_MOST]);

#endif
