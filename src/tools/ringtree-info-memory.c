/*
 * What a communicator of n ranks costs one of them, from the sizes of the structures themselves. What a communicator
 * and its tables take is taken at the start; a peer's part only when a call first uses a link to it.
 */
#include "ringtree-info.h"
#include "bootstrap/inside.h"
#include "comm.h"
#include "engine/exchange.h"
#include "shm/inside.h"
#include "tcp/tcp.h"
#include "ucx/summary.h"
#include "verbs/summary.h"
#include <stdio.h>

/* One direction of one lane, without what the transport keeps for its slices. */
static size_t wire_bytes(const struct rt_transport *transport)
{
    return sizeof(struct rt_wire) + transport->link_size;
}

static size_t tables_bytes(uint32_t n)
{
    const size_t engine = sizeof(struct rt_transport *) + sizeof(uint32_t) + 2 * sizeof(struct rt_queue) +
                          (size_t)2 * RT_LINK_LANES * sizeof(struct rt_wire *);
    const size_t comm = sizeof(uint32_t), control = sizeof(struct rt_place);
    const size_t exchange = 4 * sizeof(void *) + RT_PACKET;
    return n * (engine + comm + control + sizeof(struct rt_peer) + exchange);
}

static size_t control_bytes(void)
{
    return sizeof(struct rt_control) + RT_PENDING_MOST * sizeof(struct rt_pending) +
           (1 + RT_LINKS_MOST + RT_ACCEPTOR_POLLFDS) * sizeof(struct pollfd);
}

static size_t fixed_bytes(void)
{
    return sizeof(struct ringtree_comm) + sizeof(struct rt_engine) + control_bytes();
}

static size_t verbs_memory(const struct info *info, uint32_t n, struct info_memory_line *lines)
{
    if (!rt_verbs_pair_bytes()) return 0;
    lines[0] = (struct info_memory_line){ "verbs_link", 2 * sizeof(struct rt_wire) + rt_verbs_pair_bytes(),
        "per lane and peer, with a queue pair, when first used" };
    lines[1] = (struct info_memory_line){ "verbs_link_pinned",
        rt_verbs_pinned_bytes(rt_transport_verbs.slot_bytes(&info->settings, n)),
        "per lane and peer, both ways, pinned; there is no pool that all peers share" };
    return 2;
}

static size_t ucx_memory(const struct info *info, uint32_t n, struct info_memory_line *lines)
{
    if (!rt_ucx_pair_bytes()) return 0;
    lines[0] = (struct info_memory_line){ "ucx_peer", rt_ucx_pair_bytes(),
        "per peer, when first used" };
    lines[1] = (struct info_memory_line){ "ucx_link", 2 * sizeof(struct rt_wire) + rt_ucx_link_bytes(),
        "per lane and peer, when first used" };
    lines[2] = (struct info_memory_line){ "ucx_link_slices",
        2 * (size_t)rt_ucx_slots() * rt_transport_ucx.slot_bytes(&info->settings, n),
        "per lane and peer, both ways, at most; untouched pages cost nothing" };
    lines[3] = (struct info_memory_line){ "ucx_worker", RT_UCX_WORKER_MEASURED,
        "UCX's own, once ucx is first used: measured with UCX 1.13; 700 KiB with UCX_TLS=tcp" };
    lines[4] = (struct info_memory_line){ "ucx_endpoint", RT_UCX_ENDPOINT_MEASURED,
        "UCX's own, per peer, when first used: measured with UCX 1.13 over TCP; less over shared memory" };
    return 5;
}

size_t info_memory(const struct info *info, uint32_t n, struct info_memory_line *lines)
{
    const size_t slot = info->settings.number[RT_TCP_SLOT_BYTES];
    struct rt_node_choice choice;
    struct rt_node_layout layout = { .area_stride = 0 };
    size_t count = 0;

    rt_layout_choose(&choice, &info->settings, n, 1, UINT64_MAX >> 1);
    if (n < 2 || !choice.file_bytes || !rt_layout_from(&layout, &choice))
        layout = (struct rt_node_layout){ .area_stride = 0 };
    lines[count++] = (struct info_memory_line){ "communicator", fixed_bytes(),
        "whatever the number of ranks, the control plane included" };
    lines[count++] = (struct info_memory_line){ "tables", tables_bytes(n),
        "what knows each rank: places, links, queues" };
    lines[count++] = (struct info_memory_line){ "control_plane", control_bytes() + n * sizeof(struct rt_place),
        "its part of both" };
    lines[count++] = (struct info_memory_line){ "shm_link", 2 * wire_bytes(&rt_transport_shm),
        "per lane and peer of the same machine, when first used" };
    lines[count++] = (struct info_memory_line){ "shm_link_shared", 2 * layout.link_stride,
        "per lane and pair, both ways, shared; untouched pages cost nothing" };
    lines[count++] = (struct info_memory_line){ "shm_exchange_shared", layout.area_stride,
        "per rank of the machine, shared; untouched pages cost nothing" };
    lines[count++] = (struct info_memory_line){ "tcp_link", 2 * wire_bytes(&rt_transport_tcp),
        "per lane and peer, when first used" };
    lines[count++] = (struct info_memory_line){ "tcp_link_slices", (RT_TCP_SLOTS + 2) * slot + RT_TCP_FRAME_BYTES,
        "per lane and peer, both ways; untouched pages cost nothing" };
    count += verbs_memory(info, n, lines + count);
    return count + ucx_memory(info, n, lines + count);
}

void info_print_memory(const struct info *info, uint32_t n)
{
    struct info_memory_line lines[INFO_MEMORY_LINES];
    const size_t count = info_memory(info, n, lines);

    printf("Memory of one rank of a communicator of %u, in bytes\n", n);
    for (size_t i = 0; i < count; i++)
        printf("  %-20s %12zu  %s\n", lines[i].name, lines[i].bytes, lines[i].what);
    printf("  %-20s %12zu  the first two\n", "at the start", lines[0].bytes + lines[1].bytes);
}
