/* Messages over a pair's connection: both ends tell their queue pairs, connect them, and say when they are ready. */
#include "verbs.h"
#include "base/log.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static ringtree_status nonsense(struct rt_verbs_pair *pair, const char *what)
{
    return rt_verbs_fail(pair, RINGTREE_UNSUPPORTED, "rank %u: rank %u's verbs transport said something that does not "
                         "belong here: %s; use the same version of ringtree on all ranks", pair->fabric->rank,
                         pair->peer, what);
}

/* ---- speaking */

ringtree_status rt_verbs_flush_outbox(struct rt_verbs_pair *pair)
{
    while (pair->outbox_used) {
        const ssize_t n = send(pair->fd, pair->outbox, pair->outbox_used, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno == EAGAIN ? RINGTREE_IN_PROGRESS : RINGTREE_OK; /* its end is told by reading */
        memmove(pair->outbox, pair->outbox + n, pair->outbox_used - (size_t)n);
        pair->outbox_used -= (size_t)n;
    }
    return RINGTREE_OK;
}

static ringtree_status say(struct rt_verbs_pair *pair, const unsigned char *message, size_t bytes)
{
    if (pair->outbox_used + bytes > sizeof(pair->outbox))
        return rt_verbs_lost(pair, "it does not read what is sent to it");
    memcpy(pair->outbox + pair->outbox_used, message, bytes);
    pair->outbox_used += bytes;
    rt_verbs_flush_outbox(pair);
    return RINGTREE_OK;
}

ringtree_status rt_verbs_tell_rings(struct rt_verbs_pair *pair)
{
    unsigned char message[RT_VERBS_MOST];
    struct rt_verbs_rings rings = { .ports = pair->verbs->ports };
    if (!pair->in || pair->told_rings) return RINGTREE_OK;
    pair->told_rings = true;
    rings.address = (uintptr_t)pair->in->slots.memory;
    for (uint32_t i = 0; i < rings.ports; i++) rings.key[i] = pair->in->slots.mr[i]->rkey;
    return say(pair, message, rt_verbs_rings_put(&rings, message));
}

static ringtree_status make_queues(struct rt_verbs_pair *pair)
{
    struct rt_verbs *v = pair->verbs;
    const uint32_t each = (uint32_t)pair->fabric->settings->number[RT_VERBS_QPS];
    pair->queues = 0;
    for (uint32_t nth = 0; nth < each; nth++)
        for (uint32_t i = 0; i < v->ports && pair->queues < RT_VERBS_QUEUES; i++) {
            if (!rt_verbs_port_is_usable(pair, &v->port[i])) continue;
            const ringtree_status status = rt_verbs_queue_make(pair, &pair->queue[pair->queues++], &v->port[i]);
            if (status != RINGTREE_OK) return status;
        }
    return RINGTREE_OK;
}

static void describe_queues(struct rt_verbs_pair *pair, struct rt_verbs_hello *hello)
{
    hello->queues = pair->queues;
    for (uint32_t i = 0; i < pair->queues; i++) {
        const struct rt_verbs_queue *queue = &pair->queue[i];
        hello->queue[i] = (struct rt_verbs_queue_end){ .qp = queue->qp->qp_num, .psn = queue->psn,
                                                       .end = queue->port->end,
                                                       .port = (uint8_t)(queue->port - pair->verbs->port) };
    }
}

/* ---- both hellos of this epoch are there */

/* The queue pairs in the order that both ranks computed; those without partner go. */
static void sort_queues(struct rt_verbs_pair *pair, const uint8_t *order, uint32_t count)
{
    struct rt_verbs_queue sorted[RT_VERBS_QUEUES];
    memset(sorted, 0, sizeof(sorted));
    for (uint32_t i = 0; i < count; i++) {
        sorted[i] = pair->queue[order[i]];
        memset(&pair->queue[order[i]], 0, sizeof(pair->queue[0]));
    }
    for (uint32_t i = 0; i < pair->queues; i++) rt_verbs_queue_drop(pair, &pair->queue[i]);
    memcpy(pair->queue, sorted, sizeof(sorted));
    pair->queues = count;
}

static void log_queues(const struct rt_verbs_pair *pair)
{
    char here[120], there[64];
    for (uint32_t i = 0; i < pair->queues; i++)
        rt_log(RT_LOG_INFO, "verbs: lane %u with rank %u, queue pair %u of %u: %s to GID %s, MTU %u", pair->lane,
               pair->peer, i + 1, pair->queues, rt_verbs_port_text(pair->queue[i].port, here, sizeof(here)),
               rt_verbs_gid_text(pair->queue[i].theirs.gid, there, sizeof(there)),
               128u << (pair->queue[i].port->end.mtu < pair->queue[i].theirs.mtu ? pair->queue[i].port->end.mtu
                                                                                 : pair->queue[i].theirs.mtu));
}

static ringtree_status connect_queues(struct rt_verbs_pair *pair)
{
    unsigned char message[RT_VERBS_MOST];
    uint8_t lower[RT_VERBS_QUEUES], upper[RT_VERBS_QUEUES];
    const bool is_lower = pair->fabric->rank < pair->peer;
    const uint32_t count = is_lower ? rt_verbs_meet(&pair->mine, &pair->theirs, lower, upper)
                                    : rt_verbs_meet(&pair->theirs, &pair->mine, lower, upper);
    if (count && pair->state == RT_VERBS_BREAKING) return RINGTREE_OK; /* broken again meanwhile: an epoch follows */
    ringtree_status status = rt_verbs_rewind(pair);
    if (status != RINGTREE_OK) return status;
    sort_queues(pair, is_lower ? lower : upper, count);
    if (!count) return rt_verbs_go_plain(pair);
    for (uint32_t i = 0; i < count; i++) {
        struct rt_verbs_queue *queue = &pair->queue[i];
        if (rt_verbs_queue_connect(pair, queue, &pair->theirs.queue[is_lower ? upper[i] : lower[i]])) {
            rt_verbs_break(pair, queue->port, NULL);
            return pair->failure.status;
        }
    }
    log_queues(pair);
    rt_verbs_tell_rings(pair);
    pair->told_ready = true;
    return say(pair, message, rt_verbs_ready_put(pair->epoch, message));
}

static void maybe_up(struct rt_verbs_pair *pair)
{
    if (pair->state != RT_VERBS_GREETING || !pair->told_ready || !pair->heard_ready) return;
    pair->state = RT_VERBS_UP;
    pair->idle = 0;
}

ringtree_status rt_verbs_greet(struct rt_verbs_pair *pair)
{
    unsigned char message[RT_VERBS_MOST];
    pair->state = RT_VERBS_GREETING;
    pair->epoch++;
    pair->told_ready = pair->heard_ready = false;
    const ringtree_status status = make_queues(pair);
    if (status != RINGTREE_OK) return status;
    pair->mine = (struct rt_verbs_hello){ .epoch = pair->epoch };
    if (pair->in) {
        pair->mine.arrived = rt_verbs_whole(pair->in);
        pair->mine.released = pair->in->told = pair->in->released;
    }
    pair->mine.slot_bytes = (pair->in ? pair->in : pair->out)->link.slot_bytes;
    describe_queues(pair, &pair->mine);
    if (say(pair, message, rt_verbs_hello_put(&pair->mine, message))) return pair->failure.status;
    return pair->theirs.epoch == pair->epoch ? connect_queues(pair) : RINGTREE_OK;
}

/* ---- listening */

/* The peer knows better what broke; this end knows what its own devices said. */
static ringtree_status told_broken(struct rt_verbs_pair *pair)
{
    char here[120], there[64], reason[700];
    if (pair->state == RT_VERBS_PLAIN || !pair->queues) return nonsense(pair, "a hello after the last");
    rt_verbs_events(pair->verbs);
    const char *event = pair->queue[0].port->event;
    snprintf(reason, sizeof(reason), "rank %u found it broken, from GID %s to %s; see what it says%s%s", pair->peer,
             rt_verbs_gid_text(pair->queue[0].theirs.gid, there, sizeof(there)),
             rt_verbs_port_text(pair->queue[0].port, here, sizeof(here)), event[0] ? "; the last event here was " : "",
             event);
    rt_verbs_break(pair, NULL, reason);
    return pair->failure.status;
}

static ringtree_status hear_hello(struct rt_verbs_pair *pair, const struct rt_verbs_hello *hello)
{
    const bool now = hello->epoch == pair->epoch, next = hello->epoch == pair->epoch + 1;
    if ((!now && !next) || hello->epoch == pair->theirs.epoch || hello->epoch < 1)
        return nonsense(pair, "a hello of another epoch");
    if (hello->slot_bytes != pair->mine.slot_bytes)
        return rt_verbs_fail(pair, RINGTREE_MISMATCH, "rank %u has verbs slots of %u bytes and rank %u of %u; "
                             "RINGTREE_VERBS_SLOT_BYTES must be the same on all ranks", pair->fabric->rank,
                             pair->mine.slot_bytes, pair->peer, hello->slot_bytes);
    pair->theirs = *hello;
    if (now && (pair->state == RT_VERBS_GREETING || pair->state == RT_VERBS_BREAKING)) return connect_queues(pair);
    if (now) return nonsense(pair, "a hello after the end of all greetings");
    return told_broken(pair);
}

static ringtree_status obey(struct rt_verbs_pair *pair, const struct rt_verbs_heard *heard)
{
    if (heard->kind == RT_VERBS_HELLO) return hear_hello(pair, &heard->hello);
    if (heard->kind == RT_VERBS_RINGS) {
        if (pair->heard_rings) return nonsense(pair, "its slots, twice");
        pair->rings = heard->rings;
        pair->heard_rings = true;
        return RINGTREE_OK;
    }
    if (heard->epoch == pair->epoch && pair->theirs.epoch == pair->epoch) pair->heard_ready = true;
    else if (heard->epoch >= pair->epoch) return nonsense(pair, "that it is ready, before its hello");
    return RINGTREE_OK;
}

static ringtree_status obey_all(struct rt_verbs_pair *pair)
{
    struct rt_verbs_heard heard;
    const char *why;
    for (;;) {
        const int n = rt_verbs_message_get(&heard, pair->inbox, pair->inbox_used, &why);
        if (n < 0) return nonsense(pair, why);
        if (n == 0) return RINGTREE_OK;
        memmove(pair->inbox, pair->inbox + n, pair->inbox_used - (size_t)n);
        pair->inbox_used -= (size_t)n;
        const ringtree_status status = obey(pair, &heard);
        if (status != RINGTREE_OK) return status;
        maybe_up(pair);
    }
}

/* On plain links the end of this connection says nothing: theirs have ends of their own. */
static ringtree_status ended(struct rt_verbs_pair *pair, int number)
{
    if (pair->state != RT_VERBS_PLAIN)
        return rt_verbs_lost(pair, number ? rt_errno_words(number) : "it was closed at the other end");
    epoll_ctl(pair->verbs->poller, EPOLL_CTL_DEL, pair->fd, NULL);
    close(pair->fd);
    pair->fd = -1;
    return RINGTREE_OK;
}

ringtree_status rt_verbs_listen(struct rt_verbs_pair *pair)
{
    while (pair->fd >= 0) {
        const ssize_t n = recv(pair->fd, pair->inbox + pair->inbox_used, sizeof(pair->inbox) - pair->inbox_used,
                               MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) break;
        if (n <= 0) return ended(pair, n < 0 ? errno : 0);
        pair->inbox_used += (size_t)n;
        const ringtree_status status = obey_all(pair);
        if (status != RINGTREE_OK) return status;
    }
    maybe_up(pair);
    return RINGTREE_OK;
}
