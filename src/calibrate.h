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

/* Of each kind of link; latency 0: not measured. In whole femtoseconds, so that a file keeps them exactly. */
struct rt_calibration {
    uint64_t latency_fs[RT_LINK_KINDS], byte_fs[RT_LINK_KINDS];
};

/* Loads the table, and calibrates as the settings say. Collective; the communicator is live. */
ringtree_status rt_calibrate(ringtree_comm *comm, struct rt_error *error);

/* Measures every kind of link between one pair of ranks, within about `most_ms` from when they are open, or only that
 * between nodes. Collective. What this rank found; zeros on ranks that measured nothing. */
ringtree_status rt_calibrate_measure(ringtree_comm *comm, uint32_t most_ms, bool only_between,
                                     struct rt_calibration *found);

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
