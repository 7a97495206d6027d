/*
 * A stand-in for bootstrap/control.h, without authentication, for tests in one process: two ranks, and data connections
 * that are pairs of loopback TCP sockets (or unix sockets, for speed). A test may put in a descriptor of its own as a
 * rank's connection and so play the other end byte by byte.
 */
#ifndef RT_TEST_STANDIN_CONTROL_H
#define RT_TEST_STANDIN_CONTROL_H

#include "bootstrap/control.h"

#define STANDIN_PARKED 64

struct standin {
    int                 family; /* AF_INET, AF_INET6 or AF_UNIX */
    uint32_t            dial_rounds; /* rt_dial_go() says IN_PROGRESS so many times */
    bool                refuses;     /* every dial fails */
    struct rt_place     place[2];
    struct rt_control  *control[2];
    struct rt_settings  settings;
    struct { struct rt_claim claim; int fd; } parked[STANDIN_PARKED];
    uint32_t            parks;
};

/* NULL: this machine has no such addresses. */
struct standin *standin_start(int family, uint64_t sockets);
void standin_stop(struct standin *world);
void standin_fabric(struct standin *world, struct rt_fabric fabric[2]);
/* As if `fd` had come to rank 1 from rank 0 as connection `stripe` of lane 2. The world owns it. */
void standin_park(struct standin *world, uint32_t stripe, int fd);
/* Two connected sockets, pair[0] non-blocking; false: not on this machine. */
bool standin_pair(int family, int pair[2]);

#endif
