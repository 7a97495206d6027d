/*
 * What the two links between a pair of ranks share: found or made, connected, moved on, closed with the last.
 *
 * As in the tcp transport both ends must agree without a word on who dials: for the lanes of collectives, where both
 * ranks open their links in the same call, it is the lower rank; for messages it is the sender.
 */
#include "verbs.h"
#include "base/log.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static enum rt_verbs_way way_of(const struct rt_link *link)
{
    if (link->lane != RT_P2P_LANE) return RT_VERBS_BOTH_WAYS;
    return link->sender ? RT_VERBS_OUT : RT_VERBS_IN;
}

static struct rt_verbs_pair *find(const struct rt_link *link)
{
    struct rt_verbs_pair *pair = link->fabric->verbs->pairs;
    while (pair && (pair->peer != link->peer || pair->lane != link->lane || pair->way != way_of(link)))
        pair = pair->next;
    return pair;
}

/* ---- opening and closing */

static void drop(struct rt_verbs_pair *pair)
{
    struct rt_verbs_pair **at = &pair->verbs->pairs;
    while (*at != pair) at = &(*at)->next;
    *at = pair->next;
    for (uint32_t i = 0; i < RT_VERBS_QUEUES; i++) rt_verbs_queue_drop(pair, &pair->queue[i]);
    rt_dial_end(pair->dial);
    if (pair->fd >= 0) close(pair->fd);
    if (pair->poller >= 0) close(pair->poller);
    free(pair);
}

static bool dial(struct rt_verbs_pair *pair)
{
    const struct rt_fabric *fabric = pair->fabric;
    const struct rt_claim claim = { .kind = RT_CONNECT_DATA, .rank = fabric->rank, .lane = pair->lane,
                                    .stripe = RT_VERBS_STRIPE_CLAIM, .stripes = 1 };
    const uint64_t timeout_ns = fabric->settings->number[RT_TIMEOUT_MS] * UINT64_C(1000000);
    pair->dial = rt_dial_start(fabric->control, pair->peer, &claim, rt_now_ns(fabric->clock) + timeout_ns);
    return pair->dial != NULL;
}

static bool watch_devices(struct rt_verbs_pair *pair)
{
    struct epoll_event event = { .events = EPOLLIN };
    pair->poller = epoll_create1(EPOLL_CLOEXEC);
    bool all = pair->poller >= 0 && !epoll_ctl(pair->poller, EPOLL_CTL_ADD, pair->verbs->poller, &event);
    for (uint32_t i = 0; i < pair->verbs->ports; i++)
        if (pair->verbs->port[i].owner && !pair->verbs->port[i].gone)
            all &= !epoll_ctl(pair->poller, EPOLL_CTL_ADD, pair->verbs->port[i].context->async_fd, &event);
    return all;
}

static struct rt_verbs_pair *make(const struct rt_link *link)
{
    struct rt_verbs *v = link->fabric->verbs;
    struct rt_verbs_pair *pair = calloc(1, sizeof(*pair));
    if (!pair) return NULL;
    *pair = (struct rt_verbs_pair){ .next = v->pairs, .verbs = v, .fabric = link->fabric, .peer = link->peer,
                                    .lane = link->lane, .way = way_of(link), .fd = -1, .poller = -1 };
    v->pairs = pair;
    pair->dials = pair->way == RT_VERBS_BOTH_WAYS ? link->fabric->rank < link->peer : pair->way == RT_VERBS_OUT;
    if (watch_devices(pair) && (!pair->dials || dial(pair))) return pair;
    drop(pair);
    return NULL;
}

ringtree_status rt_verbs_pair_open(struct rt_verbs_link *l, struct rt_error *error)
{
    struct rt_verbs_pair *pair = find(&l->link);
    if (!pair) pair = make(&l->link);
    if (!pair)
        return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory or descriptors to connect to rank %u (ulimit -n)",
                       l->link.fabric->rank, l->link.peer);
    l->pair = pair;
    if (l->link.sender) pair->out = l;
    else pair->in = l;
    if (pair->state == RT_VERBS_PLAIN) return rt_verbs_plain_open(l, 0) == RINGTREE_OK ? RINGTREE_OK
                                                                                       : rt_verbs_failed(pair, error);
    if (!l->link.sender && pair->state != RT_VERBS_CONNECTING) rt_verbs_tell_rings(pair);
    return RINGTREE_OK;
}

/* Nobody may write into slots that are about to go: queue pairs go with whichever link is first. */
void rt_verbs_pair_close(struct rt_verbs_link *l)
{
    struct rt_verbs_pair *pair = l->pair;
    if (!pair) return;
    if (pair->out == l) pair->out = NULL;
    if (pair->in == l) pair->in = NULL;
    l->pair = NULL;
    for (uint32_t i = 0; i < RT_VERBS_QUEUES; i++) rt_verbs_queue_drop(pair, &pair->queue[i]);
    pair->queues = 0;
    if (!pair->out && !pair->in) drop(pair);
    else if (pair->failure.status == RINGTREE_OK)
        rt_verbs_fail(pair, RINGTREE_PEER_LOST, "rank %u: the other direction of this link to rank %u was closed",
                      pair->fabric->rank, pair->peer);
}

/* ---- failures */

ringtree_status rt_verbs_fail(struct rt_verbs_pair *pair, ringtree_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (pair->failure.status == RINGTREE_OK) rt_vfail(&pair->failure, status, format, args);
    va_end(args);
    if (pair->fd >= 0) epoll_ctl(pair->verbs->poller, EPOLL_CTL_DEL, pair->fd, NULL); /* it tells nothing more */
    return pair->failure.status;
}

ringtree_status rt_verbs_failed(const struct rt_verbs_pair *pair, struct rt_error *error)
{
    if (pair->failure.status != RINGTREE_OK && error) *error = pair->failure;
    return pair->failure.status;
}

ringtree_status rt_verbs_lost(struct rt_verbs_pair *pair, const char *how)
{
    const char *host = rt_control_places(pair->fabric->control)[pair->peer].host;
    return rt_verbs_fail(pair, RINGTREE_PEER_LOST, "rank %u: the verbs link with rank %u (host %s) has ended: %s; its "
                         "process has ended or the network between is broken: look at rank %u%s%s",
                         pair->fabric->rank, pair->peer, host, how, pair->peer,
                         pair->reason[0] ? ". Before that: " : "", pair->reason);
}

/* ---- connecting */

static ringtree_status connect_go(struct rt_verbs_pair *pair)
{
    struct rt_error why = { 0 };
    if (pair->dials) {
        const ringtree_status status = rt_dial_go(pair->dial, &pair->fd, &why);
        if (status == RINGTREE_IN_PROGRESS) return status;
        if (status != RINGTREE_OK) return rt_verbs_fail(pair, status, "%s", why.text);
        rt_dial_end(pair->dial);
        pair->dial = NULL;
    } else {
        const struct rt_claim claim = { .kind = RT_CONNECT_DATA, .rank = pair->peer, .lane = pair->lane,
                                        .stripe = RT_VERBS_STRIPE_CLAIM };
        pair->fd = rt_control_take(pair->fabric->control, &claim);
        if (pair->fd < 0) return RINGTREE_IN_PROGRESS;
    }
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = pair };
    if (epoll_ctl(pair->verbs->poller, EPOLL_CTL_ADD, pair->fd, &event))
        return rt_verbs_fail(pair, RINGTREE_SYSTEM, "rank %u: the connection to rank %u cannot be watched: %s",
                             pair->fabric->rank, pair->peer, rt_errno_words(errno));
    pair->state = RT_VERBS_GREETING;
    return rt_verbs_greet(pair);
}

/* ---- progress */

static bool poll_queues(struct rt_verbs_pair *pair)
{
    bool some = false;
    for (uint32_t i = 0; i < pair->queues; i++)
        if (pair->queue[i].cq) some |= rt_verbs_queue_poll(pair, i);
    return some;
}

/* A port that is down may come up, and its device tells of what failed; one that was removed completes nothing more. */
static void leave_what_is_gone(struct rt_verbs_pair *pair)
{
    for (uint32_t i = 0; i < pair->queues; i++)
        if (pair->queue[i].port->gone) {
            rt_verbs_break(pair, pair->queue[i].port, pair->queue[i].port->event);
            return;
        }
}

/* A request that neither completes nor fails: a device may forget one, or try for ever (soft-RoCE does, with seven
 * retries). The peer's receive requests never run out, so none takes long for any other reason. */
static void leave_what_stands_still(struct rt_verbs_pair *pair)
{
    const uint64_t most_ns = pair->fabric->settings->number[RT_TIMEOUT_MS] * UINT64_C(1000000) / 4;
    const uint64_t now = rt_now_ns(pair->fabric->clock);
    for (uint32_t i = 0; i < pair->queues && pair->state == RT_VERBS_UP; i++) {
        char here[120], reason[300];
        struct rt_verbs_queue *queue = &pair->queue[i];
        const uint64_t age_ns = rt_verbs_queue_age_ns(queue, now);
        if (age_ns <= most_ns) continue;
        const bool unasked = queue->quiet > 0; /* the last went without a completion: ask for one, count from here */
        if (unasked && !rt_verbs_is_drained(pair, queue) && queue->quiet == 0) {
            queue->awaited_ns = now;
            continue;
        }
        snprintf(reason, sizeof(reason), "%s has neither completed nor failed a request for %" PRIu64 " ms, a quarter "
                 "of RINGTREE_TIMEOUT_MS; look at the network between, and the kernel's log (dmesg)",
                 rt_verbs_port_text(queue->port, here, sizeof(here)), most_ns / 1000000);
        rt_verbs_break(pair, queue->port, reason);
    }
}

/* The slow look, now and then: the connection's messages and end, the devices' events. */
static void look(struct rt_verbs_pair *pair)
{
    pair->idle = 0;
    rt_verbs_events(pair->verbs);
    leave_what_is_gone(pair);
    while (pair->state == RT_VERBS_UP && poll_queues(pair)) continue;
    leave_what_stands_still(pair);
    if (pair->fd >= 0) rt_verbs_flush_outbox(pair);
    if (pair->fd >= 0 && pair->failure.status == RINGTREE_OK && rt_verbs_listen(pair) == RINGTREE_PEER_LOST)
        while (poll_queues(pair)) continue; /* what came before the end is still given */
}

static void up_go(struct rt_verbs_pair *pair)
{
    if (poll_queues(pair)) pair->idle = 0;
    else if (++pair->idle >= RT_VERBS_IDLE_LOOKS) look(pair);
    if (pair->in && pair->in->owes) rt_verbs_owe(pair->in);
}

/*
 * A short slice counts as sent once a queue pair has it, so nobody asks for the sending end again when that queue pair
 * breaks: whatever moves this pair on has to send it anew.
 */
static void send_again(struct rt_verbs_link *out)
{
    const bool waits = out->plain ? out->credited < out->posted : out->issued < out->posted;
    if (waits) rt_verbs_issue(out);
}

ringtree_status rt_verbs_progress(struct rt_verbs_pair *pair)
{
    if (pair->failure.status != RINGTREE_OK) return pair->failure.status;
    if (pair->state == RT_VERBS_UP) {
        up_go(pair);
    } else if (pair->state == RT_VERBS_CONNECTING) {
        connect_go(pair);
    } else if (pair->state == RT_VERBS_PLAIN) {
        if (++pair->idle >= RT_VERBS_IDLE_LOOKS) look(pair);
    } else {
        look(pair);
        if (pair->state == RT_VERBS_BREAKING && pair->failure.status == RINGTREE_OK) {
            while (poll_queues(pair)) continue; /* all that came counts */
            rt_verbs_break_go(pair);
        }
    }
    const bool carries = pair->state == RT_VERBS_UP || pair->state == RT_VERBS_PLAIN;
    if (carries && pair->out && pair->failure.status == RINGTREE_OK) send_again(pair->out);
    if (pair->failure.status != RINGTREE_OK) return pair->failure.status;
    return carries ? RINGTREE_OK : RINGTREE_IN_PROGRESS;
}

#define MOST_TOLD 16

/* To be moved on though nobody here may wait for it: what breaks on its way has to be sent again. */
static bool is_busy(const struct rt_verbs_pair *pair)
{
    const bool carries = pair->state == RT_VERBS_UP || pair->state == RT_VERBS_PLAIN;
    return !carries || (pair->out && pair->out->credited < pair->out->posted);
}

void rt_verbs_step(struct rt_fabric *fabric)
{
    struct epoll_event events[MOST_TOLD];
    struct rt_verbs *v = fabric->verbs;
    if (!v || !v->pairs) return;
    const int n = epoll_wait(v->poller, events, MOST_TOLD, 0);
    for (int i = 0; i < n; i++) {
        struct rt_verbs_pair *pair = events[i].data.ptr;
        if (pair->failure.status == RINGTREE_OK) look(pair);
    }
    for (struct rt_verbs_pair *pair = v->pairs; pair; pair = pair->next)
        if (is_busy(pair)) rt_verbs_progress(pair);
}

/* ---- sleeping */

/* Always ready: for when there is something to do at once. */
static int at_once(const struct rt_verbs_pair *pair, short *events)
{
    *events = POLLOUT;
    return pair->fd;
}

int rt_verbs_pollfd(struct rt_link *link, short *events)
{
    const struct rt_verbs_link *l = rt_verbs_link_of(link);
    struct rt_verbs_pair *pair = l->pair;
    *events = POLLIN;
    if (!pair || pair->failure.status != RINGTREE_OK) return -1;
    if (pair->state == RT_VERBS_CONNECTING) return pair->dial ? rt_dial_pollfd(pair->dial, events) : -1;
    if (pair->state == RT_VERBS_BREAKING) return at_once(pair, events);
    const enum rt_verbs_state state = pair->state;
    look(pair);
    if (l->news || pair->state != state || pair->failure.status != RINGTREE_OK) return at_once(pair, events);
    if (l->plain && pair->state == RT_VERBS_PLAIN) return l->plain->transport->pollfd(l->plain, events);
    bool quiet = true;
    for (uint32_t i = 0; i < pair->queues && pair->state == RT_VERBS_UP; i++) {
        if (!rt_verbs_queue_arm(pair, &pair->queue[i])) quiet &= !rt_verbs_queue_poll(pair, i);
    }
    return quiet ? pair->poller : at_once(pair, events);
}
