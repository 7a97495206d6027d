/*
 * An RDMA device that exists in memory alone, behind the table of calls that the verbs transport uses: reliable
 * connections between queue pairs of this process, writes checked against registered memory, completions and events.
 * It breaks on request in the ways that real ones do.
 */
#ifndef RT_TEST_FAKE_H
#define RT_TEST_FAKE_H

#include "verbs/api.h"
#include <stdbool.h>
#include <stdint.h>

#define FAKE_DEVICES 3

extern const struct rt_verbs_api fake_api;

/* How many devices there are from now on; all are up, nothing is broken. */
void fake_reset(uint32_t devices);
/* The device's port goes down: an event, and what is sent over it is never acknowledged. Or up again. */
void fake_port(uint32_t device, bool up);
/* The device is removed, as a driver does it that lets nobody wait: an event, and no request completes any more. */
void fake_remove(uint32_t device);
/* The next request on any queue pair ends with this status, and the queue pair in error. */
void fake_next_status(enum ibv_wc_status status);
/* The next request is carried out, but its acknowledgement gets lost, and all that would ask for it again. */
void fake_unheard(void);
/* The queue pair of the next request forgets it and all that follow: neither done nor failed. */
void fake_forgotten(void);
/* The next `count` long requests are acknowledged, but get lost (which no real device should do); then one breaks. */
void fake_lose(uint32_t count);
/* No inline data, and this MTU. */
void fake_inline(uint32_t most);
void fake_mtu(uint32_t device, enum ibv_mtu mtu);
/* A peer that is not ours: a write with this immediate to whoever is connected to queue pair `qp`, any bytes. */
bool fake_hostile(uint32_t qp, uint64_t address, uint32_t key, const void *bytes, uint32_t count, uint32_t note,
                  bool writes);
/* The queue pair to which `qp` is connected; 0: none. */
uint32_t fake_partner(uint32_t qp);
/* What is still open: contexts, domains, memory, queues, pairs, channels. 0 when all was given back. */
uint32_t fake_leaks(void);

#endif
