/*
 * What a link by a transport costs, measured between this rank and another by messages over a link of its own: short
 * ones there and back for the latency, then long ones in a row for the time of a byte. The least of each counts, since
 * all that disturbs makes it longer. A transport that does not get through in time has failed, and nothing else has.
 */
#ifndef RT_TRIAL_H
#define RT_TRIAL_H

#include "engine.h"

/* Links stay open until rt_trial_end(): the other end may not be through yet. */
struct rt_trial {
    uint32_t        connections; /* 0: links as messages have them; else long slices are spread over so many */
    struct rt_link *out, *in;
    void           *memory; /* which slices may borrow while the links are open */
};

/*
 * Both ranks call it, one as the leader; most_ns is for the measurement, all must be over by end_ns of the engine's
 * clock. On failure *error says why. The result is the leader's.
 */
ringtree_status rt_trial_run(struct rt_trial *trial, struct rt_engine *engine, const struct rt_transport *transport,
                             uint32_t peer, bool leads, uint64_t most_ns, uint64_t end_ns,
                             struct rt_link_guess *found, struct rt_error *error);
void rt_trial_end(struct rt_trial *trial);

#define RT_TRIAL_CONNECT_MS 3000

#endif
