/* The machine's network addresses in the order in which ringtree would use them, and why the others are left out. */
#ifndef RT_INTERFACES_H
#define RT_INTERFACES_H

#include "place.h"

/* Grows worse from top to bottom. */
enum rt_candidate_class {
    RT_ORDINARY,
    RT_LINK_LOCAL, /* reaches only the same wire, and needs a zone */
    RT_BRIDGE,     /* of containers or virtual machines: has the same address on many machines */
    RT_LOOPBACK,
    RT_UNUSABLE    /* down, without address, or not wanted */
};

struct rt_candidate {
    struct rt_address       address; /* family 0: the interface has none; port 0 */
    enum rt_candidate_class class;
    size_t                  order;   /* place among the names of RINGTREE_INTERFACE */
    size_t                  found;   /* place in the kernel's list */
    const char             *why;     /* it is left out; NULL: it is used */
};

struct rt_interfaces {
    struct rt_candidate *list; /* the used ones first, best first */
    size_t               count, used; /* used: at most RT_MAX_ADDRESSES */
};

/* `wanted`: the value of RINGTREE_INTERFACE. After RINGTREE_OK the caller frees it. used may be 0. */
ringtree_status rt_interfaces_find(struct rt_interfaces *interfaces, const char *wanted, struct rt_error *error);
void rt_interfaces_free(struct rt_interfaces *interfaces);

/* "10.0.0.1", "fe80::1%2": without port and interface. Returns `text`. */
const char *rt_address_host(const struct rt_address *address, char *text, size_t capacity);

/* Megabits a second, as the system tells; 0: it does not. */
uint32_t rt_interface_mbit(const char *interface);

bool rt_address_is_link_local(const struct rt_address *address);

#endif
