/*
 * The connections that the two links between a pair of ranks share: found, dialled or awaited, closed with the last.
 *
 * Both ends must agree on who dials without a word: for the lanes of collectives, where both ranks open their links in
 * the same call, it is the lower rank; for messages it is the sender.
 */
#include "tcp.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static enum rt_tcp_way way_of(const struct rt_link *link)
{
    if (link->lane != RT_P2P_LANE) return RT_TCP_BOTH_WAYS;
    return link->sender ? RT_TCP_OUT : RT_TCP_IN;
}

static struct rt_tcp_pair *find(const struct rt_link *link)
{
    struct rt_tcp_pair *pair = link->fabric->tcp;
    while (pair && (pair->peer != link->peer || pair->lane != link->lane || pair->way != way_of(link)))
        pair = pair->next;
    return pair;
}

static void drop(struct rt_tcp_pair *pair)
{
    struct rt_tcp_pair **at = &pair->fabric->tcp;
    while (*at != pair) at = &(*at)->next;
    *at = pair->next;
    for (uint32_t i = 0; i < RT_TCP_MOST_SOCKETS; i++) {
        rt_dial_end(pair->dial[i]);
        if (pair->fd[i] >= 0) close(pair->fd[i]);
    }
    free(pair);
}

static bool dial_all(struct rt_tcp_pair *pair)
{
    const struct rt_fabric *fabric = pair->fabric;
    const uint64_t timeout_ns = fabric->settings->number[RT_TIMEOUT_MS] * UINT64_C(1000000);
    for (uint32_t i = 0; i < pair->sockets; i++) {
        const struct rt_claim claim = { .kind = RT_CONNECT_DATA, .rank = fabric->rank, .lane = pair->lane, .stripe = i,
                                        .stripes = pair->sockets };
        pair->dial[i] = rt_dial_start(fabric->control, pair->peer, &claim, rt_now_ns(fabric->clock) + timeout_ns);
        if (!pair->dial[i]) return false;
    }
    return true;
}

static struct rt_tcp_pair *make(const struct rt_link *link)
{
    struct rt_tcp_pair *pair = calloc(1, sizeof(*pair));
    if (!pair) return NULL;
    *pair = (struct rt_tcp_pair){ .next = link->fabric->tcp, .fabric = link->fabric, .peer = link->peer,
                                  .lane = link->lane, .way = way_of(link) };
    for (uint32_t i = 0; i < RT_TCP_MOST_SOCKETS; i++) pair->fd[i] = -1;
    link->fabric->tcp = pair;
    pair->dials = pair->way == RT_TCP_BOTH_WAYS ? link->fabric->rank < link->peer : pair->way == RT_TCP_OUT;
    if (!pair->dials) return pair;
    pair->sockets = rt_tcp_choose_sockets(link);
    if (dial_all(pair)) return pair;
    drop(pair);
    return NULL;
}

ringtree_status rt_tcp_pair_open(struct rt_tcp_link *l, struct rt_error *error)
{
    l->pair = find(&l->link);
    if (!l->pair) l->pair = make(&l->link);
    if (!l->pair)
        return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory to connect to rank %u", l->link.fabric->rank,
                       l->link.peer);
    l->pair->users++;
    return RINGTREE_OK;
}

void rt_tcp_pair_close(struct rt_tcp_link *l)
{
    if (l->pair && --l->pair->users == 0) drop(l->pair);
    l->pair = NULL;
}

/* ---- the end that dials */

/* The first bytes of the first connection. A new connection has room for them. */
static ringtree_status greet(struct rt_tcp_link *l)
{
    const unsigned char greeting[RT_TCP_GREETING] = { 'R', 'T', 'C', 1, (unsigned char)l->pair->sockets };
    const ssize_t n = send(l->pair->fd[0], greeting, sizeof(greeting), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n == (ssize_t)sizeof(greeting)) return RINGTREE_OK;
    return rt_tcp_lost(l, n < 0 ? errno : ENOBUFS, "before the first slice");
}

static ringtree_status dial_one(struct rt_tcp_link *l, uint32_t i)
{
    struct rt_tcp_pair *pair = l->pair;
    struct rt_error why = { 0 };
    const ringtree_status status = rt_dial_go(pair->dial[i], &pair->fd[i], &why);
    if (status == RINGTREE_IN_PROGRESS) return status;
    if (status != RINGTREE_OK) return rt_tcp_fail(l, status, "%s", why.text);
    rt_dial_end(pair->dial[i]);
    pair->dial[i] = NULL;
    rt_tcp_tune(pair, pair->fd[i]);
    return i == 0 ? greet(l) : RINGTREE_OK;
}

static ringtree_status dial_go(struct rt_tcp_link *l)
{
    bool waiting = false;
    for (uint32_t i = 0; i < l->pair->sockets; i++) {
        if (!l->pair->dial[i]) continue;
        const ringtree_status status = dial_one(l, i);
        if (status > RINGTREE_IN_PROGRESS) return status;
        waiting |= status == RINGTREE_IN_PROGRESS;
    }
    return waiting ? RINGTREE_IN_PROGRESS : RINGTREE_OK;
}

/* ---- the end that waits */

static bool take(struct rt_tcp_pair *pair, uint32_t i)
{
    const struct rt_claim claim = { .kind = RT_CONNECT_DATA, .rank = pair->peer, .lane = pair->lane, .stripe = i,
                                    .stripes = pair->sockets };
    if (pair->fd[i] < 0) {
        pair->fd[i] = rt_control_take(pair->fabric->control, &claim);
        if (pair->fd[i] >= 0) rt_tcp_tune(pair, pair->fd[i]);
    }
    return pair->fd[i] >= 0;
}

static ringtree_status read_greeting(struct rt_tcp_link *l)
{
    struct rt_tcp_pair *pair = l->pair;
    const unsigned char *g = pair->greeting;
    ssize_t n;
    do n = recv(pair->fd[0], pair->greeting + pair->greeted, RT_TCP_GREETING - pair->greeted, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0 && rt_tcp_would_block(errno)) return RINGTREE_IN_PROGRESS;
    if (n <= 0) return rt_tcp_lost(l, n < 0 ? errno : 0, "before the first slice");
    pair->greeted += (uint32_t)n;
    if (pair->greeted < RT_TCP_GREETING) return RINGTREE_IN_PROGRESS;
    if (memcmp(g, "RTC\1", 4) != 0 || g[4] == 0 || g[4] > RT_TCP_MOST_SOCKETS || g[5] || g[6] || g[7])
        return rt_tcp_fail(l, RINGTREE_UNSUPPORTED, "rank %u: rank %u (%s) does not begin its tcp link as this version "
                           "of ringtree does; use the same version on all ranks", pair->fabric->rank, pair->peer,
                           pair->where);
    pair->sockets = g[4];
    return RINGTREE_OK;
}

static ringtree_status arrive(struct rt_tcp_link *l)
{
    if (!take(l->pair, 0)) return RINGTREE_IN_PROGRESS;
    if (l->pair->sockets == 0) {
        const ringtree_status status = read_greeting(l);
        if (status != RINGTREE_OK) return status;
    }
    for (uint32_t i = 1; i < l->pair->sockets; i++)
        if (!take(l->pair, i)) return RINGTREE_IN_PROGRESS;
    return RINGTREE_OK;
}

ringtree_status rt_tcp_pair_connect(struct rt_tcp_link *l)
{
    struct rt_tcp_pair *pair = l->pair;
    if (pair->failure.status != RINGTREE_OK) return rt_tcp_fail(l, pair->failure.status, "%s", pair->failure.text);
    const ringtree_status status = pair->dials ? dial_go(l) : arrive(l);
    pair->connected = status == RINGTREE_OK;
    if (status > RINGTREE_IN_PROGRESS) pair->failure = l->failure;
    return status;
}

int rt_tcp_pair_pollfd(const struct rt_tcp_pair *pair, short *events)
{
    for (uint32_t i = 0; i < RT_TCP_MOST_SOCKETS; i++)
        if (pair->dial[i]) return rt_dial_pollfd(pair->dial[i], events);
    *events = POLLIN;
    return pair->sockets == 0 ? pair->fd[0] : -1; /* the control plane wakes when the rest comes */
}
