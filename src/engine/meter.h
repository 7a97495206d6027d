/*
 * What a link costs, measured by messages between two ranks: short ones there and back for the latency, then some long
 * ones in a row for the time of a byte. Whoever measures brings the link, as two functions that send and receive.
 *
 * The least counts, since everything that disturbs makes it longer. The time begins when the link is open. The first of
 * the two leads: each message that it sends begins with what comes next, so that it alone watches the clock. The other
 * one leaves the first's core for the while, if the scheduler has put both on one; what they took there does not count.
 */
#ifndef RT_METER_H
#define RT_METER_H

#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RT_METER_SHORT 64
#define RT_METER_BYTES (256 << 10)
#define RT_METER_FIRST (4 << 10) /* at an unknown speed: a link that loses or reorders can take a second for 32 KiB */

struct rt_meter {
    /* Both wait. `data` of more than RT_METER_SHORT bytes may be borrowed as long as the link lives. */
    ringtree_status (*give)(void *context, const void *data, size_t bytes);
    ringtree_status (*take)(void *context, void *data, size_t bytes);
    void           *context;
    unsigned char  *memory;      /* RT_METER_BYTES, zeroed */
    uint64_t        most_ns;     /* for all, about; once more if nothing was measured by then */
    bool            cores_count; /* both are on one machine, and how fast the link is there depends on their cores */
    bool            any_speed; /* it may lose, reorder, or be slow: messages get longer while that is quick, a few do */
    uint32_t        first_bytes; /* of the first long messages there */
    /* found; the leader's */
    bool            opened;              /* the first message was answered */
    uint64_t        latency_fs, byte_fs; /* 0: could not be measured */
    /* inside */
    unsigned char   word[RT_METER_SHORT]; /* a short message: what comes next, the sender's core, long_bytes */
    uint64_t        end_ns;
    uint32_t        long_bytes;
};

ringtree_status rt_meter_lead(struct rt_meter *m);
ringtree_status rt_meter_follow(struct rt_meter *m);

#endif
