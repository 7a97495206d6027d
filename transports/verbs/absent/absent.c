/* The verbs transport of a build without libibverbs' headers: it only says what is missing. */
#include "verbs/summary.h"
#include "transports/transport.h"
#include <stdio.h>

static bool reaches(const struct rt_fabric *fabric, uint32_t peer, char *why, size_t capacity)
{
    (void)fabric;
    (void)peer;
    if (why) snprintf(why, capacity, "this build has no verbs: libibverbs-dev was not there when it was configured");
    return false;
}

const struct rt_transport rt_transport_verbs = {
    .size = sizeof(struct rt_transport),
    .name = "verbs",
    .link_size = sizeof(struct rt_link),
    .reaches = reaches,
};

const char *rt_verbs_summary(char *text, size_t capacity)
{
    reaches(NULL, 0, text, capacity);
    return text;
}

size_t rt_verbs_pinned_bytes(uint32_t slot_bytes)
{
    (void)slot_bytes;
    return 0;
}

size_t rt_verbs_pair_bytes(void)
{
    return 0;
}

uint32_t rt_verbs_see(struct rt_fabric *fabric, struct rt_verbs_seen *seen, uint32_t most)
{
    (void)fabric, (void)seen, (void)most;
    return 0;
}

bool rt_verbs_meets(const uint8_t mine[RT_VERBS_END_BYTES], const uint8_t theirs[RT_VERBS_END_BYTES])
{
    (void)mine, (void)theirs;
    return false;
}
