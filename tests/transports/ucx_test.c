/* UCX over a real control plane: between threads here, over UCX's shared memory and, with UCX_TLS=tcp, over its TCP. */
#include "control_world.h"

static const uint64_t none = 0;

static const char *ucx_start(const struct fixture *fixture, struct rt_fabric fabric[2], void **made)
{
    static char text[200];
    if (!rt_transport_ucx.here(text, sizeof(text))) return text;
    return control_start(fixture, fabric, made);
}

static const struct fixture ucx = { "ucx", &rt_transport_ucx, true, &none, ucx_start, control_stop };

CONFORMANCE(ucx, &ucx)

TEST_MAIN
