/*
 * What happens when something breaks: a queue pair in error, a port down, a device gone.
 *
 * Both ends empty their queue pairs (whoever notices first tells the other by its next hello), so that nothing can
 * write into slots any more; tell how many slices came whole; and go on with new queue pairs on ports that still work.
 * A write that was acknowledged has come, so what the sender no longer keeps is never asked for again. A port that
 * broke a pair twice, or is down, is left alone by that pair; if all are, one that is down is given a second to come
 * up. When no ports are left that meet, the rest goes over the tcp transport, to which the slices that did not come are
 * given first. RINGTREE_VERBS_FAILOVER limits all this.
 *
 * What holds at all times, for the slices of a link, numbered from 0:
 * - sender: credited <= issued <= posted <= credited + RING; its memory keeps what is not credited and short, or not
 *   acknowledged. `sent` may be beyond `issued` after a break, by short slices: the engine has left those behind and
 *   asks the sending end for nothing more, so rt_verbs_progress() sends them again, whichever link it moves on.
 * - receiver: told <= released <= whole <= released + RING; whole counts slices, not parts. A hello tells whole and
 *   released, after which told == released.
 * - acknowledged at the sender means whole at the receiver: never sent <= i < issued, long, and not whole there.
 * - no end is more than one epoch ahead of what it heard of the other: an end that breaks while it greets waits for the
 *   other's hello of that epoch, and follows it to tcp if no queue pairs meet by it.
 */
#include "verbs.h"
#include "base/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EMPTYING_NS UINT64_C(200000000) /* that a device may take to give its requests back */
#define TRIES       2                   /* a pair gives a port */
#define REVIVE_NS   UINT64_C(1000000000) /* until a port that is down may be up again, before another way is taken */

static bool failover_is(const struct rt_verbs_pair *pair, const char *word)
{
    return !strcmp(pair->fabric->settings->text[RT_VERBS_FAILOVER], word);
}

static bool is_worth_another_try(const struct rt_verbs_pair *pair, const struct rt_verbs_port *port)
{
    return !port->gone && pair->broken[port - pair->verbs->port] < TRIES;
}

bool rt_verbs_port_is_usable(const struct rt_verbs_pair *pair, const struct rt_verbs_port *port)
{
    if (port->gone) return false;
    if (pair->epoch <= 1) return true; /* the first time all are told: the peer may know better which are down */
    return !port->down && is_worth_another_try(pair, port) && rt_verbs_port_is_up(pair->verbs, port);
}

/* A port may be down for a moment only, and from tcp there is no way back: is there none but such? */
static bool awaits_port(const struct rt_verbs_pair *pair)
{
    const struct rt_verbs *v = pair->verbs;
    const uint64_t part_ns = pair->fabric->settings->number[RT_TIMEOUT_MS] * UINT64_C(1000000) / 8;
    const uint64_t most_ns = part_ns < REVIVE_NS ? part_ns : REVIVE_NS;
    bool any = false;
    if (rt_now_ns(pair->fabric->clock) > pair->breaking_ns - EMPTYING_NS + most_ns) return false;
    for (uint32_t i = 0; i < v->ports; i++) {
        if (!is_worth_another_try(pair, &v->port[i])) continue;
        if (!v->port[i].down && rt_verbs_port_is_up(v, &v->port[i])) return false;
        any = true;
    }
    return any;
}

static ringtree_status give_up(struct rt_verbs_pair *pair, const char *instead)
{
    return rt_verbs_fail(pair, RINGTREE_PEER_LOST, "rank %u: the verbs link with rank %u (host %s) broke: %s. %s",
                         pair->fabric->rank, pair->peer, rt_control_places(pair->fabric->control)[pair->peer].host,
                         pair->reason, instead);
}

void rt_verbs_break(struct rt_verbs_pair *pair, const struct rt_verbs_port *port, const char *reason)
{
    if (pair->failure.status != RINGTREE_OK || (pair->state != RT_VERBS_UP && pair->state != RT_VERBS_GREETING)) return;
    if (reason) snprintf(pair->reason, sizeof(pair->reason), "%s", reason);
    if (port) pair->broken[port - pair->verbs->port]++;
    rt_log(RT_LOG_WARN, "verbs: the link with rank %u on lane %u broke: %s", pair->peer, pair->lane, pair->reason);
    if (failover_is(pair, "off")) {
        give_up(pair, "RINGTREE_VERBS_FAILOVER=off forbids to go on another way");
        return;
    }
    pair->state = RT_VERBS_BREAKING;
    pair->breaking_ns = rt_now_ns(pair->fabric->clock) + EMPTYING_NS;
    for (uint32_t i = 0; i < pair->queues; i++) rt_verbs_queue_empty(pair, &pair->queue[i]);
}

/* Whole slices stay whole however many queues come next; the others will come again from their beginning. */
static void settle(struct rt_verbs_link *in)
{
    const uint64_t whole = rt_verbs_whole(in);
    for (uint64_t i = in->released; i < in->released + RT_VERBS_RING; i++)
        in->parts[i % RT_VERBS_RING] = i < whole ? 0xff : 0;
}

ringtree_status rt_verbs_break_go(struct rt_verbs_pair *pair)
{
    bool empty = true;
    for (uint32_t i = 0; i < pair->queues; i++) empty &= pair->queue[i].receives == 0;
    if (!empty && rt_now_ns(pair->fabric->clock) < pair->breaking_ns) return RINGTREE_IN_PROGRESS;
    if (pair->theirs.epoch < pair->epoch) return RINGTREE_IN_PROGRESS; /* no end is two epochs ahead of the other */
    if (awaits_port(pair)) return RINGTREE_IN_PROGRESS;
    if (pair->in) settle(pair->in);
    if (pair->out) rt_verbs_count_sent(pair->out);
    for (uint32_t i = 0; i < RT_VERBS_QUEUES; i++) rt_verbs_queue_drop(pair, &pair->queue[i]);
    pair->queues = 0;
    return rt_verbs_greet(pair);
}

ringtree_status rt_verbs_rewind(struct rt_verbs_pair *pair)
{
    struct rt_verbs_link *out = pair->out;
    const struct rt_verbs_hello *theirs = &pair->theirs;
    const uint64_t issued = out ? out->issued : 0, credited = out ? out->credited : 0;
    if (theirs->arrived > issued || theirs->released < credited || theirs->released > issued)
        return rt_verbs_fail(pair, RINGTREE_PEER_LOST, "rank %u: rank %u says that %" PRIu64 " slices came whole, of "
                             "%" PRIu64 " that were sent; its process is broken", pair->fabric->rank, pair->peer,
                             theirs->arrived, issued);
    if (!out) return RINGTREE_OK;
    for (uint64_t i = theirs->arrived; i < out->sent; i++)
        if (!out->slice[i % RT_VERBS_RING].is_short)
            return rt_verbs_fail(pair, RINGTREE_INTERNAL, "rank %u: a slice that rank %u's device acknowledged did not "
                                 "come there; its device or driver is at fault: %s", pair->fabric->rank, pair->peer,
                                 pair->reason);
    rt_verbs_forget(out, theirs->arrived);
    out->issued = theirs->arrived;
    out->credited = theirs->released;
    return RINGTREE_OK;
}

/* ---- on to tcp */

ringtree_status rt_verbs_plain_open(struct rt_verbs_link *l, uint64_t from)
{
    struct rt_error error = { 0 };
    struct rt_link *plain = calloc(1, rt_transport_tcp.link_size);
    if (!plain) return rt_verbs_fail(l->pair, RINGTREE_NO_MEMORY, "rank %u: no memory", l->link.fabric->rank);
    *plain = (struct rt_link){ .transport = &rt_transport_tcp, .fabric = l->link.fabric, .peer = l->link.peer,
                               .lane = l->link.lane, .sender = l->link.sender };
    ringtree_status status = rt_transport_tcp.open(plain, &error);
    if (status != RINGTREE_OK)
        rt_verbs_fail(l->pair, status, "%s", error.text);
    else if (plain->slot_bytes < l->link.slot_bytes)
        status = give_up(l->pair, "tcp cannot take over: RINGTREE_TCP_SLOT_BYTES is below RINGTREE_VERBS_SLOT_BYTES");
    if (status == RINGTREE_OK) {
        l->plain = plain;
        l->plain_from = from;
        return RINGTREE_OK;
    }
    rt_transport_tcp.close(plain); /* no call may go to it: it would hide the failure */
    free(plain);
    return status;
}

ringtree_status rt_verbs_go_plain(struct rt_verbs_pair *pair)
{
    char why[120];
    if (!pair->reason[0])
        snprintf(pair->reason, sizeof(pair->reason), "no port of one rank meets a port of the other");
    if (failover_is(pair, "port"))
        return give_up(pair, "No other port reaches it, and RINGTREE_VERBS_FAILOVER=port allows nothing else");
    if (!rt_transport_tcp.reaches(pair->fabric, pair->peer, why, sizeof(why)))
        return give_up(pair, "No other port reaches it, and neither does tcp");
    rt_log(RT_LOG_WARN, "verbs: lane %u with rank %u goes on over tcp", pair->lane, pair->peer);
    pair->state = RT_VERBS_PLAIN;
    ringtree_status status = RINGTREE_OK;
    if (pair->out) status = rt_verbs_plain_open(pair->out, pair->out->issued);
    if (pair->out) pair->out->credited = pair->out->issued;
    if (pair->in && status == RINGTREE_OK) status = rt_verbs_plain_open(pair->in, pair->mine.arrived);
    return status;
}

ringtree_status rt_verbs_plain_push(struct rt_verbs_link *l)
{
    struct rt_error error = { 0 };
    ringtree_status status = RINGTREE_OK;
    while (l->issued < l->posted && status == RINGTREE_OK) {
        const struct rt_verbs_slice *slice = &l->slice[l->issued % RT_VERBS_RING];
        status = l->plain->transport->send(l->plain, &slice->frame, slice->data, &error);
        if (status == RINGTREE_OK) l->issued++;
    }
    l->credited = l->plain_from + l->plain->transport->sent(l->plain, &error);
    rt_verbs_forget(l, l->credited);
    if (error.status != RINGTREE_OK) return rt_verbs_fail(l->pair, error.status, "%s", error.text);
    return RINGTREE_OK;
}
