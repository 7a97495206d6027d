/*
 * Doorbells: one abstract datagram socket per rank, so that a rank sleeps in poll() on it beside everything else. A
 * ring is one byte without meaning; whoever else sends some only wakes the rank for nothing. The flag in shared memory
 * keeps rings to one per sleep.
 */
#include "inside.h"
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOST_DRAINED 64 /* a flood must not hold the rank */

socklen_t rt_bell_name(struct sockaddr_un *name, uint64_t number, uint32_t leader, uint32_t rank)
{
    memset(name, 0, sizeof *name);
    name->sun_family = AF_UNIX;
    const int length = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "ringtree-%016" PRIx64 "-bell-%u-%u",
                                number, leader, rank);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

ringtree_status rt_bell_open(int *fd, uint64_t number, uint32_t leader, uint32_t rank, struct rt_error *error)
{
    struct sockaddr_un name;
    const socklen_t length = rt_bell_name(&name, number, leader, rank);
    *fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd < 0) return rt_fail_errno(error, "cannot open a socket to be woken by");
    if (bind(*fd, (struct sockaddr *)&name, length) != 0)
        return rt_fail_errno(error, "cannot bind the unix socket @%s to be woken by", name.sun_path + 1);
    return RINGTREE_OK;
}

int rt_node_bell_fd(const struct rt_node *node)
{
    return node->bell;
}

void rt_node_sleep_begin(struct rt_node *node)
{
    /* an exchange, so that the last look comes after the flag */
    atomic_exchange_explicit(&node->peers[node->index].line->sleep, RT_SLEEPING, memory_order_seq_cst);
}

void rt_node_sleep_end(struct rt_node *node)
{
    char byte;
    atomic_store_explicit(&node->peers[node->index].line->sleep, RT_AWAKE, memory_order_relaxed);
    for (int i = 0; i < MOST_DRAINED && recv(node->bell, &byte, 1, MSG_DONTWAIT) >= 0; i++) continue;
}

/* A full queue means that the bell rings already; a peer that is gone is the control plane's business. */
void rt_node_ring(struct rt_node *node, uint32_t i)
{
    struct rt_peer *peer = &node->peers[i];
    uint32_t expected = RT_SLEEPING;
    if (atomic_load_explicit(&peer->line->sleep, memory_order_relaxed) != RT_SLEEPING) return;
    if (!atomic_compare_exchange_strong_explicit(&peer->line->sleep, &expected, RT_RUNG, memory_order_relaxed,
                                                 memory_order_relaxed))
        return;
    const int kept = errno;
    sendto(node->bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&peer->bell, peer->bell_length);
    errno = kept;
}
