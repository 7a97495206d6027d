/* Shared memory under the suite, with a real control plane and node memory (tests/shm has it over a stand-in). */
#include "control_world.h"
#include "shm/node.h"

struct shm_world {
    void            *control;
    struct rt_node  *node[2];
    struct rt_error  error[2];
    struct rt_fabric fabric[2];
};

struct joining {
    struct shm_world *world;
    uint32_t          rank;
};

static void *join_node(void *argument)
{
    const struct joining *j = argument;
    const struct rt_fabric *fabric = &j->world->fabric[j->rank];
    uint32_t node_of[2];
    rt_node_open(&j->world->node[j->rank], fabric->control, fabric->settings, j->rank, 2, node_of,
                 &j->world->error[j->rank]);
    return NULL;
}

static void shm_stop(void *made)
{
    struct shm_world *world = made;
    for (int r = 0; r < 2; r++)
        if (world->node[r]) rt_node_close(world->node[r]);
    control_stop(world->control);
    free(world);
}

static const char *shm_start(const struct fixture *fixture, struct rt_fabric fabric[2], void **made)
{
    struct shm_world *world = calloc(1, sizeof(*world));
    struct joining joining[2] = { { world, 0 }, { world, 1 } };
    pthread_t thread;
    control_start(fixture, world->fabric, &world->control);
    if (pthread_create(&thread, NULL, join_node, &joining[1])) abort();
    join_node(&joining[0]);
    pthread_join(thread, NULL);
    for (int r = 0; r < 2; r++) {
        fabric[r] = world->fabric[r];
        fabric[r].node = world->node[r];
    }
    *made = world;
    if (world->node[0] && world->node[1]) return NULL;
    const char *why = wrong("no shared memory here: %s", world->error[0].text);
    *made = NULL;
    shm_stop(world);
    return why;
}

static const uint64_t one = 1;
static const struct fixture shm = { "shm", &rt_transport_shm, false, &one, shm_start, shm_stop };

CONFORMANCE(real_shm, &shm)

TEST_MAIN
