/* The UCX transport of a build without UCX's headers: it only says what is missing. */
#include "ucx/summary.h"
#include "transports/transport.h"
#include <stdio.h>

static bool reaches(const struct rt_fabric *fabric, uint32_t peer, char *why, size_t capacity)
{
    (void)fabric;
    (void)peer;
    if (why) snprintf(why, capacity, "this build has no UCX: libucx-dev was not there when it was configured");
    return false;
}

const struct rt_transport rt_transport_ucx = {
    .size = sizeof(struct rt_transport),
    .name = "ucx",
    .link_size = sizeof(struct rt_link),
    .reaches = reaches,
};

const char *rt_ucx_summary(char *text, size_t capacity)
{
    reaches(NULL, 0, text, capacity);
    return text;
}

size_t rt_ucx_pair_bytes(void)
{
    return 0;
}

size_t rt_ucx_link_bytes(void)
{
    return 0;
}

unsigned rt_ucx_slots(void)
{
    return 0;
}
