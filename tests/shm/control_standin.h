/*
 * A stand-in for bootstrap/control.h among threads of one process: exchanges by a barrier, descriptors handed over by
 * dup(), and faults on request. standin_open() opens all nodes, each on a thread of its own.
 */
#ifndef SHM_CONTROL_STANDIN_H
#define SHM_CONTROL_STANDIN_H

#include "shm/node.h"
#include <pthread.h>

#define STANDIN_MOST 256

struct standin {
    uint32_t           ranks;
    pthread_barrier_t  barrier;
    unsigned char     *gathered;
    struct rt_control *control; /* of all ranks */
    struct rt_settings settings;
    struct rt_place    place[STANDIN_MOST];
    int                offered[STANDIN_MOST];
    bool               fetch_fails[STANDIN_MOST];
    int                false_fd; /* this instead of what was offered; -1: none. Duplicated */
    uint32_t           gathers;  /* by rank 0 */
    struct rt_node    *node[STANDIN_MOST];
    ringtree_status    status[STANDIN_MOST];
    struct rt_error    error[STANDIN_MOST];
    uint32_t           node_of[STANDIN_MOST][STANDIN_MOST];
    struct rt_fabric   fabric[STANDIN_MOST];
};

/* Ranks on one host with default settings; change what is to be different, then open. */
struct standin *standin_new(uint32_t ranks);
void standin_open(struct standin *world);
void standin_close(struct standin *world); /* and frees it */

#endif
