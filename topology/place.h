/* Where a rank lives: the record that all ranks exchange at start. */
#ifndef RT_PLACE_H
#define RT_PLACE_H

#include "base/settings.h"
#include <netinet/in.h>
#include <sys/socket.h>

#define RT_MAX_ADDRESSES 4

/* One socket address in a fixed form that can be sent as bytes. family 0: unused. */
struct rt_address {
    uint16_t family; /* AF_INET, AF_INET6 */
    uint16_t port;   /* host order */
    uint32_t scope;  /* IPv6 zone index on the owner, 0 = none */
    uint8_t  bytes[16];
    char     interface[16]; /* terminated */
};

struct rt_place {
    uint64_t          host_key; /* equal: may share memory (boot id, network namespace, RINGTREE_HOST) */
    uint64_t          machine_key; /* equal: the same cores (boot id), whatever namespaces and names they are in */
    uint32_t          pid;
    uint32_t          cores; /* cores that this process may run on */
    uint64_t          core_mask; /* the first 64 of them, to count shared ones */
    char              host[64]; /* for sentences; terminated */
    struct rt_address address[RT_MAX_ADDRESSES]; /* where its listener is reached, best first */
};

/* Fills all but address[].port. Interfaces are filtered by RINGTREE_INTERFACE; an unknown one is an error that lists
 * the candidates. Loopback, link-local and docker-like bridges come last or not at all unless named. */
ringtree_status rt_place_find(struct rt_place *place, const struct rt_settings *settings, struct rt_error *error);

/* The cores that some ranks of one machine may use together, each counted once: begin with zeros, add every rank. */
struct rt_core_count {
    uint64_t mask;
    uint32_t beyond; /* the most that one has above the first 64 */
    uint32_t quota;  /* the most that a rank is held to by its control group; 0: none is */
};
void rt_core_count_add(struct rt_core_count *count, const struct rt_place *place);
uint32_t rt_core_count_total(const struct rt_core_count *count); /* at least 1 */

/* Puts the address that the kernel routes from on `connected_fd` first, if it is a candidate: it leads to the root. */
void rt_place_prefer(struct rt_place *place, int connected_fd);

/* To and from struct sockaddr. Returns the length; 0 for family 0. */
socklen_t rt_address_to_sockaddr(const struct rt_address *address, struct sockaddr_storage *out);
bool rt_address_from_sockaddr(struct rt_address *address, const struct sockaddr *in);

/* "10.0.0.1:4242 (eth0)" into `text`, which is returned. */
const char *rt_address_text(const struct rt_address *address, char *text, size_t capacity);

/* The same machine and, for link-local addresses, the same zone; whatever the ports. */
bool rt_address_same_host(const struct rt_address *a, const struct rt_address *b);

/* A peer's link-local IPv6 address is reached through this rank's own zone (of the same interface name, else its best
 * link-local one); others are left alone. Call it before connecting to an address that another rank sent. */
void rt_address_adopt_zone(struct rt_address *peer, const struct rt_place *self);

#endif
