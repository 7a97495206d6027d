/* UCX over a real control plane: between threads here, over UCX's shared memory and, with UCX_TLS=tcp, over its TCP. */
#include "control_world.h"

static const uint64_t none = 0;

struct ucx_world {
    void             *control;
    struct rt_fabric *fabric[2];
};

static const char *ucx_start(const struct fixture *fixture, struct rt_fabric fabric[2], void **made)
{
    static char why[200];
    if (!rt_transport_ucx.reaches(NULL, 0, why, sizeof(why))) return why;
    struct ucx_world *world = calloc(1, sizeof(*world));
    *made = world;
    control_start(fixture, fabric, &world->control);
    unsigned char mine[2][RT_ANNOUNCEMENT] = { { 0 } };
    for (int r = 0; r < 2; r++) rt_transport_ucx.announce(world->fabric[r] = &fabric[r], mine[r]);
    for (int r = 0; r < 2; r++) rt_transport_ucx.hear(&fabric[r], mine, sizeof(mine[0]));
    return NULL;
}

static void ucx_stop(void *made)
{
    struct ucx_world *world = made;
    for (int r = 0; r < 2; r++) rt_transport_ucx.leave(world->fabric[r]);
    control_stop(world->control);
    free(world);
}

static const struct fixture ucx = { "ucx", &rt_transport_ucx, true, &none, ucx_start, ucx_stop };

CONFORMANCE(ucx, &ucx)

TEST_MAIN
