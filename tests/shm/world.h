/* A world of thread ranks that all share one memory, for the tests of what they share. */
#ifndef SHM_WORLD_H
#define SHM_WORLD_H

#include "control_standin.h"
#include "test.h"

static inline struct standin *world_of(uint32_t ranks)
{
    struct standin *world = standin_new(ranks);
    standin_open(world);
    for (uint32_t r = 0; r < ranks; r++)
        CHECK_THAT(world->status[r] == RINGTREE_OK && world->node[r], "rank %u: %s", r, world->error[r].text);
    return world;
}

#endif
