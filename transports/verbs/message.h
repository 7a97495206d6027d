/*
 * What two ends tell each other: the announcement at the start, messages over the connection that goes with every pair
 * of ranks, and the 32 bits that come with a slice. All from outside: read only through these functions, which check
 * every field. Little endian.
 */
#ifndef RT_VERBS_MESSAGE_H
#define RT_VERBS_MESSAGE_H

#include "route.h"

#define RT_VERBS_VERSION  1
#define RT_VERBS_QUEUES   8 /* between two ranks, all ports together */
#define RT_VERBS_RING     6 /* slots of a receiver */
#define RT_VERBS_HEADER   8
#define RT_VERBS_MOST     512 /* bytes of a message, header included */

/* ---- the announcement: a rank's ports; each as in struct rt_verbs_seen */

void rt_verbs_end_put(const struct rt_verbs_end *end, unsigned char to[22]);

struct rt_verbs_announcement {
    uint32_t            ports;
    struct rt_verbs_end end[RT_VERBS_PORTS];
};
#define RT_VERBS_ANNOUNCEMENT (4 + RT_VERBS_PORTS * 22)

void rt_verbs_announcement_put(const struct rt_verbs_announcement *a, unsigned char to[RT_VERBS_ANNOUNCEMENT]);
/* false: it is none of this version, or broken. */
bool rt_verbs_announcement_get(struct rt_verbs_announcement *a, const unsigned char from[RT_VERBS_ANNOUNCEMENT]);

/* ---- messages */

enum rt_verbs_message {
    RT_VERBS_HELLO = 1, /* my queue pairs of this epoch: the beginning, or after something broke */
    RT_VERBS_RINGS,     /* where your slices go */
    RT_VERBS_READY,     /* my queue pairs of this epoch take your slices */
};

struct rt_verbs_queue_end {
    uint32_t            qp, psn; /* 24 bits each */
    struct rt_verbs_end end;
    uint8_t             port; /* which of the sender's ports */
};

struct rt_verbs_hello {
    uint32_t                  epoch, slot_bytes, queues;
    uint64_t                  arrived; /* slices that came whole before this epoch: the sender goes on with this one */
    uint64_t                  released; /* of them */
    struct rt_verbs_queue_end queue[RT_VERBS_QUEUES];
};

struct rt_verbs_rings {
    uint64_t address; /* of the first slot */
    uint32_t ports, key[RT_VERBS_PORTS];
};

struct rt_verbs_heard {
    enum rt_verbs_message kind;
    struct rt_verbs_hello hello;
    struct rt_verbs_rings rings;
    uint32_t              epoch; /* of READY */
};

/* Their bytes into `to`, which has room for RT_VERBS_MOST; the length. */
size_t rt_verbs_hello_put(const struct rt_verbs_hello *hello, unsigned char *to);
size_t rt_verbs_rings_put(const struct rt_verbs_rings *rings, unsigned char *to);
size_t rt_verbs_ready_put(uint32_t epoch, unsigned char *to);

/* The message at the start of `from`: its length in bytes; 0: not all there yet; -1: this is no message of ours, and
 * *why says what is wrong with it. */
int rt_verbs_message_get(struct rt_verbs_heard *heard, const unsigned char *from, size_t bytes, const char **why);

/* Which queue pairs go together, from both hellos: queue i of the pair is number lower[i] of the lower rank's hello and
 * upper[i] of the upper's. Both ranks compute the same. Returns how many. */
uint32_t rt_verbs_meet(const struct rt_verbs_hello *of_lower, const struct rt_verbs_hello *of_upper,
                       uint8_t lower[RT_VERBS_QUEUES], uint8_t upper[RT_VERBS_QUEUES]);

/* ---- the 32 bits with every slice: kind (4), queue (4), low bits of the slice's number (12), of the credit (12) */

enum { RT_VERBS_SLICE = 5, RT_VERBS_CREDIT = 10 };
#define RT_VERBS_NUMBER_MASK 0xfffu

struct rt_verbs_note {
    uint32_t kind, queue, slice, credit;
};

static inline uint32_t rt_verbs_note_put(uint32_t kind, uint32_t queue, uint64_t slice, uint64_t credit)
{
    return kind << 28 | (queue & 15) << 24 | (uint32_t)(slice & RT_VERBS_NUMBER_MASK) << 12 |
           (uint32_t)(credit & RT_VERBS_NUMBER_MASK);
}

static inline struct rt_verbs_note rt_verbs_note_get(uint32_t bits)
{
    return (struct rt_verbs_note){ bits >> 28, bits >> 24 & 15, bits >> 12 & RT_VERBS_NUMBER_MASK,
                                   bits & RT_VERBS_NUMBER_MASK };
}

/* The number whose low bits came, within `most` above `base`; false: none is. */
static inline bool rt_verbs_number(uint64_t base, uint32_t low, uint32_t most, uint64_t *number)
{
    const uint32_t ahead = (low - (uint32_t)base) & RT_VERBS_NUMBER_MASK;
    *number = base + ahead;
    return ahead <= most;
}

#endif
