/* See summary.h. */
#include "summary.h"
#include "verbs.h"
#include <stdio.h>

const char *rt_verbs_summary(char *text, size_t capacity)
{
    const char *why;
    const struct rt_verbs_api *api = rt_verbs_load(&why);
    int count = 0;
    size_t used = 0;
    if (!api) {
        snprintf(text, capacity, "%s", why);
        return text;
    }
    struct ibv_device **devices = api->get_device_list(&count);
    snprintf(text, capacity, "libibverbs finds no device (rdma link)");
    for (int i = 0; devices && i < count && used < capacity; i++)
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", i ? ", " : "", api->get_device_name(devices[i]));
    if (devices) api->free_device_list(devices);
    return text;
}

size_t rt_verbs_receive_bytes(size_t stride)
{
    return RT_VERBS_RING * stride;
}

size_t rt_verbs_send_bytes(uint32_t slot_bytes)
{
    return RT_VERBS_STAGING * (size_t)slot_bytes + RT_VERBS_RING * RT_VERBS_SMALL;
}

size_t rt_verbs_pinned_bytes(uint32_t slot_bytes)
{
    return rt_verbs_receive_bytes((size_t)slot_bytes + RT_VERBS_HEAD) + rt_verbs_send_bytes(slot_bytes);
}

size_t rt_verbs_pair_bytes(void)
{
    const size_t queue = (RT_VERBS_SENDS + RT_VERBS_RECEIVES) * sizeof(struct ibv_wc) +
                         RT_VERBS_SENDS * sizeof(struct ibv_send_wr) + RT_VERBS_RECEIVES * sizeof(struct ibv_recv_wr);
    return 2 * sizeof(struct rt_verbs_link) + sizeof(struct rt_verbs_pair) + queue;
}
