/* Two ranks of this process with a real control plane. A fixture's options: a uint64_t, RINGTREE_TCP_SOCKETS. */
#ifndef RT_TEST_CONTROL_WORLD_H
#define RT_TEST_CONTROL_WORLD_H

#include "bootstrap/ranks.h"
#include "conformance.h"

struct control_world {
    struct rank_case cases[2];
};

static inline const char *control_start(const struct fixture *fixture, struct rt_fabric fabric[2], void **made)
{
    struct control_world *world = calloc(1, sizeof(*world));
    struct rank_case model = { 0 };
    rank_meet(&model, 20000);
    model.settings.number[RT_TCP_SOCKETS] = *(const uint64_t *)fixture->options;
    rank_threads(&model, 2, world->cases);
    *made = world;
    for (uint32_t r = 0; r < 2; r++) {
        CHECK_THAT(world->cases[r].status == RINGTREE_OK, "%s", world->cases[r].error.text);
        fabric[r] = (struct rt_fabric){ .rank = r, .nranks = 2, .settings = &world->cases[r].settings,
                                        .clock = &rt_system_clock, .control = world->cases[r].control };
    }
    return NULL;
}

static inline void *control_leave(void *argument)
{
    rt_control_close(((struct rank_case *)argument)->control, 5000);
    return NULL;
}

static inline void control_stop(void *made)
{
    struct control_world *world = made;
    pthread_t thread;
    if (pthread_create(&thread, NULL, control_leave, &world->cases[1])) abort();
    control_leave(&world->cases[0]);
    pthread_join(thread, NULL);
    free(world);
}

#endif
