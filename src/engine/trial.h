/*
 * What a link by a transport costs, measured between this rank and another (meter.h) over a link of its own. A
 * transport that does not get through in time has failed, and nothing else has.
 */
#ifndef RT_TRIAL_H
#define RT_TRIAL_H

#include "engine.h"

/* Links stay open until rt_trial_end(): the other end may not be through yet. */
struct rt_trial {
    uint32_t        connections; /* 0: links as messages have them; else long slices are spread over so many */
    struct rt_link *out, *in;
    void           *memory; /* which slices may borrow while the links are open */
    bool            opened; /* it carried something: a failure is that it was too slow */
};

/*
 * Both ranks call it, one as the leader; most_ns is for the measurement, all must be over by end_ns of the engine's
 * clock. On failure *error says why. The result is the leader's; zeros: it carries, but could not be measured.
 */
ringtree_status rt_trial_run(struct rt_trial *trial, struct rt_engine *engine, const struct rt_transport *transport,
                             uint32_t peer, bool leads, uint64_t most_ns, uint64_t end_ns, uint64_t *latency_fs,
                             uint64_t *byte_fs, struct rt_error *error);
void rt_trial_end(struct rt_trial *trial);

#endif
