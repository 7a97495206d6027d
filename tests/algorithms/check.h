/* Running the verifier in a test, with the case in words when it says no. */
#ifndef RT_CHECK_H
#define RT_CHECK_H

#include "test.h"
#include "verify/verify.h"

/* True when the verdict is `expected`; else counts a failure and says which case it was. */
static inline bool check_verdict(const struct rt_algorithm *a, const struct rt_verify_options *o,
                                 enum rt_verdict expected)
{
    struct rt_report report;
    const enum rt_verdict verdict = rt_verify(a, o, &report);
    CHECK_THAT(verdict == expected,
               "%s %s, %u ranks, root %u, in place %d, %u slots, %u slices, %u chunks full: %s (%s)",
               ringtree_collective_name(a->collective), a->name, o->nranks, o->root, o->in_place, o->slots, o->slices,
               o->full_chunks, rt_verdict_name(verdict), report.text);
    return verdict == expected;
}

/* Rank r lives on node r / (n / nodes), or with `mixed` on node r mod nodes. */
static inline struct rt_layout layout_of(uint32_t *node_of, uint32_t n, uint32_t nodes, bool mixed)
{
    for (uint32_t r = 0; r < n; r++) node_of[r] = mixed ? r % nodes : r / (n / nodes);
    return (struct rt_layout){ nodes, node_of };
}

#endif
