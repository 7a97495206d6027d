/* Names of places to meet, and the guest's side of a meeting. */
#ifndef RT_MEETING_H
#define RT_MEETING_H

#include "net.h"
#include "wire.h"

/* "host:port", "[::1]:port". `origin` begins an error's sentence: "RINGTREE_ROOT". */
ringtree_status rt_where_parse(const char *where, const char *origin, char *host, size_t capacity, uint16_t *port,
                               struct rt_error *error);
/* getaddrinfo(): fills at most RT_MAX_ADDRESSES. */
ringtree_status rt_where_resolve(const char *host, uint16_t port, const char *origin, struct rt_address *addresses,
                                 struct rt_error *error);

/* In the binomial tree with root 0: a rank's number without its lowest 1 bit. */
static inline uint32_t rt_tree_parent(uint32_t rank)
{
    return rank & (rank - 1);
}

/* Go to the meeting, say who we are, wait until all have come. Blocks up to join->timeout_ms and a second. */
ringtree_status rt_join(const struct rt_meeting *meeting, const struct rt_join *join, const struct rt_clock *clock,
                        struct rt_seat *seat, struct rt_error *error);

#endif
