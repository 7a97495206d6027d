/* Sentences for what goes wrong on a UCX link: who, where, UCX's status in words, what to look at, UCX_TLS. */
#include "ucx.h"
#include <stdio.h>
#include <stdlib.h>

const char *rt_ucx_tls(void)
{
    const char *tls = getenv("UCX_TLS");
    return tls && tls[0] ? tls : "all, which is the default";
}

/* What to look at, by what UCX says. */
static const char *advice(ucs_status_t status)
{
    switch (status) {
    case UCS_ERR_CONNECTION_RESET: return "its process has ended or the network between is broken: look at that rank";
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_TIMED_OUT:
        return "the network between took nothing for long: look at that rank, then at the link, and on RoCE at GID and "
               "VLAN, flow control (PFC) and MTU";
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_NO_DEVICE:
        return "the two have no transport in common: compare ucx_info -d on both machines, UCX_TLS and UCX_NET_DEVICES";
    case UCS_ERR_NO_MEMORY: return "look at the memory limits (ulimit -l, /dev/shm)";
    case UCS_ERR_REJECTED:
    case UCS_ERR_NOT_CONNECTED: return "its end is closed: look at that rank";
    default: return "look at that rank, and at what UCX_LOG_LEVEL=info prints";
    }
}

static const char *host_of(const struct rt_ucx_link *l)
{
    return rt_control_places(l->link.fabric->control)[l->link.peer].host;
}

ringtree_status rt_ucx_fail(struct rt_ucx_link *l, ringtree_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (l->failure.status == RINGTREE_OK) rt_vfail(&l->failure, status, format, args);
    va_end(args);
    return l->failure.status;
}

ringtree_status rt_ucx_failed(const struct rt_ucx_link *l, struct rt_error *error)
{
    if (l->failure.status != RINGTREE_OK && error) *error = l->failure;
    return l->failure.status;
}

ringtree_status rt_ucx_lost(struct rt_ucx_link *l, ucs_status_t status, const char *when)
{
    const char *said = rt_ucx_complaint();
    const struct rt_link *link = &l->link;
    return rt_ucx_fail(l, RINGTREE_PEER_LOST, "rank %u: the ucx link %s rank %u (host %s, by %s) failed %s: %s%s%s; "
                       "%s. UCX_TLS=%s", link->fabric->rank, link->sender ? "to" : "from", link->peer, host_of(l),
                       l->pair->lanes[0] ? l->pair->lanes : "no transport yet", when,
                       l->pair->ucx->call->status_string(status), said[0] ? ": " : "", said, advice(status),
                       rt_ucx_tls());
}

ringtree_status rt_ucx_ended(struct rt_ucx_link *l, const char *when)
{
    const struct rt_link *link = &l->link;
    return rt_ucx_fail(l, RINGTREE_PEER_LOST, "rank %u: the ucx link %s rank %u (host %s, by %s) was closed by it %s; "
                       "its process has ended or the network between is broken: look at rank %u", link->fabric->rank,
                       link->sender ? "to" : "from", link->peer, host_of(l),
                       l->pair->lanes[0] ? l->pair->lanes : "no transport yet", when, link->peer);
}

void rt_ucx_pair_failed(struct rt_ucx_pair *pair, ucs_status_t status)
{
    const struct rt_fabric *fabric = pair->ucx->fabric;
    const char *said = rt_ucx_complaint();
    if (pair->failure.status != RINGTREE_OK) return;
    rt_fail(&pair->failure, RINGTREE_PEER_LOST, "rank %u: UCX lost rank %u (host %s, by %s): %s%s%s; %s. UCX_TLS=%s",
            fabric->rank, pair->peer, rt_control_places(fabric->control)[pair->peer].host,
            pair->lanes[0] ? pair->lanes : "no transport yet", pair->ucx->call->status_string(status),
            said[0] ? ": " : "", said, advice(status), rt_ucx_tls());
}
