/* Between the calls with a codec: what the caller's codec and state are inside. */
#ifndef RT_COMPRESSED_H
#define RT_COMPRESSED_H

#include "collective.h"
#include <stdatomic.h>

/*
 * `spent`: the last call sent the residual exactly, so it counts as zero; it is cleared before it is read again, since
 * it is the input of a collective that may still run.
 */
struct ringtree_codec_state {
    uint64_t                  live;
    struct rt_codec_state    *kept;
    struct rt_compress_report report;
    uint64_t                  calls;
    ringtree_codec_kind       last_kind;
    bool                      spent, left; /* left: the residual may be other than zero */
    struct rt_lent            lent;        /* to a call that is not finished; spoilt until it is loaded or reset */
};
#define RT_STATE_LIVE UINT64_C(0x52696e67636f6465)

/* Takes it for a call or for a look at it: false while somebody has it. *was: what it is to be again afterwards. */
bool rt_state_take(ringtree_codec_state *state, int *was);
void rt_state_give(ringtree_codec_state *state, int is);
/* In words why it was not taken, or not in that state. */
const char *rt_state_words(int is);

void rt_state_settle(ringtree_codec_state *state);

/* The caller's codec, checked, as the engine takes it. Auto becomes none until rt_codec_decide(). */
ringtree_status rt_compression_of(const ringtree_codec *codec, struct rt_compression *compression,
                                  struct rt_error *error);

/* ---- codec_predict.c: without a communicator */

/* Where ranks are and what they have, as far as it decides about compressing. */
struct rt_codec_case {
    uint32_t ranks, nodes;
    double   link_rate, below; /* bytes/s between nodes; from `below` on nothing is compressed */
    const struct rt_codec_rates *rates;
};

/* How a call goes. `why` is for people, and filled only if `explains`. */
struct rt_codec_choice {
    ringtree_codec_kind kind;
    bool                apart;
    bool                explains;
    char                why[120];
};

/* What this machine encodes; not `known` after it: no memory. */
void rt_codec_measure(struct rt_codec_rates *rates);
/* Are there calls of it with a codec, and of how many elements is the whole tensor? */
bool rt_codec_serves(ringtree_collective collective);
size_t rt_codec_elements(const struct rt_codec_case *at, ringtree_collective collective, size_t count);
/* First whether it is exact whatever the codec is; if not, the codec that was asked for, or, with rates, auto's. */
bool rt_codec_is_exact(const struct rt_codec_case *at, const ringtree_codec *codec, size_t elements,
                       struct rt_codec_choice *choice);
void rt_codec_take_fastest(const struct rt_codec_case *at, const ringtree_codec *codec, size_t elements,
                           struct rt_codec_choice *choice);
/* As ringtree_codec_explain() has it. */
void rt_codec_say(const struct rt_codec_case *at, ringtree_collective collective, size_t count,
                  const ringtree_codec *codec, const struct rt_codec_choice *choice, char *text, size_t capacity);

/* ---- codec_choice.c */

/*
 * Whether and with what to compress `elements` of the whole tensor; equal on all ranks. Auto measures what this machine
 * encodes when it is first asked, and all ranks agree on the slowest.
 */
ringtree_status rt_codec_choose(ringtree_comm *comm, const ringtree_codec *codec, size_t elements,
                                struct rt_codec_choice *choice, struct rt_error *error);

/* In words what auto does, as ringtree_codec_explain() has it; local, so not before it was measured. */
void rt_codec_explain_auto(ringtree_comm *comm, ringtree_collective collective, size_t count, char *text,
                           size_t capacity);

#endif
