/* A stand-in for shm/node.c: the areas and heap of several ranks in plain memory of one process, for direct_test. */
#ifndef NODE_STANDIN_H
#define NODE_STANDIN_H

#include "shm/node.h"

struct rt_node *standin_node(uint32_t n, uint32_t index, unsigned char *areas, size_t area_bytes, int reads,
                             const void *heap, size_t heap_bytes);

/* This rank's arrays are not in the heap, from now on. */
void standin_hide(struct rt_node *node, bool hidden);

#endif
