/*
 * The symbolic reader of steps. It runs an algorithm's formula for all ranks at once on expressions instead of numbers,
 * with the engine's rules (step.h), and says whether
 *   - every rank ends with each rank's contribution exactly once, the same expression on all ranks, and RT_FINAL
 *     exactly once on what is delivered;
 *   - no slot deadlock occurs with the given number of slots per link. A step takes its messages and its slots all at
 *     once, which is the most cautious of the engine's orders, and firing one step never disables another; so one
 *     schedule decides for all, and more slots cannot hurt;
 *   - under every legal schedule, nothing is overwritten while a message may still be read from it, lanes do not race,
 *     and INPUT is not read after OUTPUT, in place the same memory, was written. For this, vector clocks carry what
 *     must have happened before: program order, messages, waits for lanes. Slots do not count: a link may have more;
 *   - every message is received, whole, with the same chunks at both ends, and nothing is left in flight.
 *
 * It is exact where all chunks are followed and n <= 256 (sets of ranks as bits); for more ranks a set is a 64-bit sum
 * of random numbers and a count. With `followed`, only that many chunks are followed, the others only as messages: the
 * schedule is still complete.
 */
#ifndef RT_VERIFY_H
#define RT_VERIFY_H

#include "algorithms/step.h"

enum rt_verdict {
    RT_VERDICT_OK,
    RT_VERDICT_REFUSED,    /* the algorithm does not serve this shape */
    RT_VERDICT_SHAPE,      /* a step that cannot be: bad peer, chunk, span or buffer, ranks that disagree on counts */
    RT_VERDICT_DEADLOCK,   /* ranks wait for ever: for a slot, or a message that is never sent */
    RT_VERDICT_LEFTOVER,   /* a message that nobody received */
    RT_VERDICT_MISMATCH,   /* sender and receiver disagree on what a message has */
    RT_VERDICT_UNWRITTEN,  /* reads, or delivers, what was never written */
    RT_VERDICT_COVERAGE,   /* a contribution twice, not at all, or of the wrong chunk */
    RT_VERDICT_FINAL,      /* RT_FINAL missing, too early or twice */
    RT_VERDICT_EXPRESSION, /* ranks get different expressions, so perhaps different bits */
    RT_VERDICT_HAZARD,     /* memory overwritten while it may still be read, or lanes that race */
    RT_VERDICT_TOO_LARGE,  /* over the bounds of steps or memory: nothing was run */
    RT_VERDICT_NO_MEMORY,
    RT_VERDICT_COUNT
};

struct rt_verify_options {
    uint32_t                nranks, root; /* root is ignored where the collective has none */
    const struct rt_layout *layout;       /* may be NULL */
    bool                    in_place;
    uint32_t                slots;        /* per link; 0: the algorithm's min_slots */
    uint32_t                slices;       /* 0: 1. With 2, lanes overlap and scratch is used again */
    uint32_t                full_chunks;  /* of a cut array the chunks from this one on are empty; 0: none is */
    uint32_t                followed;     /* chunks, chosen by chance; 0: all */
    uint64_t                most_steps;   /* of all ranks; 0: 2e8 */
};

struct rt_report {
    enum rt_verdict verdict;
    char            text[200]; /* one sentence: what is wrong, or what was run */
    uint64_t        steps, messages;
    uint32_t        most_in_flight; /* messages of one link */
    bool            hazards_checked; /* false for sizes whose clocks would cost too much */
};

/* Fills *report, returns its verdict. Allocates and frees what it needs; nothing is kept. */
enum rt_verdict rt_verify(const struct rt_algorithm *algorithm, const struct rt_verify_options *options,
                          struct rt_report *report);

/* "deadlock" and so on. */
const char *rt_verdict_name(enum rt_verdict verdict);

/* Has the collective a root? Does it cut one array into chunks, so that some may be empty? */
bool rt_collective_has_root(ringtree_collective collective);
bool rt_collective_cuts(ringtree_collective collective);

#endif
