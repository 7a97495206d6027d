/*
 * The memory that the ranks of one communicator on one machine share: one sparse memfd, made by the lowest local rank,
 * handed over a unix socket, unlinked by nature: nothing is left in /dev/shm or anywhere when ranks are killed.
 *
 * Layout: a header; per local rank a line for waiting (sleeping flag) and its direct exchange area; per ordered pair
 * and lane a link area; then a heap for ringtree_mem_alloc(). Untouched parts cost no memory. Mappings are padded to an
 * odd number of pages apart, since buffers exactly 2^28 bytes apart are many times slower together.
 */
#ifndef RT_NODE_H
#define RT_NODE_H

#include "bootstrap/control.h"
#include "transports/transport.h"

struct rt_node; /* opaque outside shm/ and engine/direct */

/*
 * Collective over all ranks of the communicator (it uses rt_control_all_gather). Ranks with equal host_key try to
 * share; those that cannot (another namespace) end up alone. *node is NULL on a rank that shares with nobody.
 * node_of[nranks] gets the resulting grouping, equal on all ranks, numbered by first appearance.
 */
ringtree_status rt_node_open(struct rt_node **node, struct rt_control *control, const struct rt_settings *settings,
                             uint32_t rank, uint32_t nranks, uint32_t *node_of, struct rt_error *error);
void rt_node_close(struct rt_node *node);

uint32_t rt_node_size(const struct rt_node *node);              /* local ranks, at least 2 */
uint32_t rt_node_index(const struct rt_node *node);             /* this rank's place among them */
uint32_t rt_node_rank(const struct rt_node *node, uint32_t i);  /* communicator rank of local rank i */
uint32_t rt_node_find(const struct rt_node *node, uint32_t rank); /* its local index, or RT_NONE */
bool rt_node_oversubscribed(const struct rt_node *node);        /* more local ranks than cores they may use */

uint32_t rt_node_slot_bytes(const struct rt_node *node);        /* of this node's links */

/* ---- waiting: a rank that will sleep says so, looks once more, and sleeps in poll() with the doorbell descriptor.
 * Senders ring only a rank that sleeps. The flag is read without a fence, so a ring can be missed once in a long while:
 * sleeps are at most a few milliseconds long. */
int rt_node_bell_fd(const struct rt_node *node);
void rt_node_sleep_begin(struct rt_node *node);
void rt_node_sleep_end(struct rt_node *node); /* also drains the bell */
void rt_node_ring(struct rt_node *node, uint32_t local_index); /* after publishing; cheap when it is awake */

/* ---- ringtree_mem_alloc: memory in the node's heap */
ringtree_status rt_node_alloc(struct rt_node *node, size_t bytes, void **pointer, struct rt_error *error);
bool rt_node_owns(const struct rt_node *node, const void *pointer); /* the start of a live allocation of this rank */
ringtree_status rt_node_free(struct rt_node *node, void *pointer, struct rt_error *error);
/* Is [pointer, pointer + bytes) inside a live allocation? Then *offset is its place in the shared file. */
bool rt_node_offset(const struct rt_node *node, const void *pointer, size_t bytes, uint64_t *offset);
/* This process's view of a peer's heap memory; mapped on first use, kept. NULL: cannot be mapped. */
void *rt_node_map(struct rt_node *node, uint64_t offset, size_t bytes);

/* ---- a per-rank area for direct exchange, of `bytes` each, mapped in all local ranks; zeroed at start */
void *rt_node_area(const struct rt_node *node, uint32_t local_index, size_t *bytes);
/* Can this rank read local rank i's private memory: 2 same process (dereference), 1 process_vm_readv works, 0 no. */
int rt_node_reads(const struct rt_node *node, uint32_t i);
/* Does the kernel copy between processes about as fast as a processor reads another's cache? Takes 0.1 ms. */
bool rt_node_reads_fast(void);
/* From the private memory of local rank i, at its own address; false: errno says why. */
bool rt_node_fetch(const struct rt_node *node, uint32_t i, void *target, uint64_t address, size_t bytes);
/* And into it. */
bool rt_node_give(const struct rt_node *node, uint32_t i, uint64_t address, const void *source, size_t bytes);
uint32_t rt_node_pid(const struct rt_node *node, uint32_t i);

#endif
