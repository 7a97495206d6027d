/* Proven connections that wait: for the transport that will take them, or for the descriptor to be offered. */
#include "inside.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool same_place(const struct rt_claim *a, const struct rt_claim *b)
{
    return a->kind == b->kind && a->rank == b->rank && a->lane == b->lane && a->stripe == b->stripe;
}

/* Unlinks the entry of this claim; -1: there is none. */
static int take(struct rt_parked **list, const struct rt_claim *claim)
{
    for (struct rt_parked **at = list; *at; at = &(*at)->next) {
        struct rt_parked *found = *at;
        if (!same_place(&found->claim, claim))
            continue;
        int fd = found->fd;
        *at = found->next;
        free(found);
        return fd;
    }
    return -1;
}

/* A later connection with the same claim replaces the earlier: its maker gave up on that one. So the list is bounded by
 * the claims that proven ranks can make, of which these are the greatest. */
void rt_parked_add(struct rt_control *c, int fd, const struct rt_claim *claim)
{
    struct rt_parked **list = claim->kind == RT_CONNECT_NODE ? &c->waiting : &c->parked;
    struct rt_parked *entry = calloc(1, sizeof(*entry));
    int before = take(list, claim);

    if (before >= 0)
        close(before);
    if (!entry || claim->lane >= RT_LINK_LANES || claim->stripe >= 64) {
        free(entry);
        close(fd);
        return;
    }
    entry->fd = fd;
    entry->claim = *claim;
    entry->next = *list;
    *list = entry;
    if (claim->kind == RT_CONNECT_NODE)
        rt_parked_serve_fd(c);
    else
        rt_control_ring(c);
}

int rt_control_take(struct rt_control *c, const struct rt_claim *claim)
{
    pthread_mutex_lock(&c->lock);
    int fd = take(&c->parked, claim);
    pthread_mutex_unlock(&c->lock);
    return fd;
}

static void free_list(struct rt_parked **list)
{
    while (*list) {
        struct rt_parked *next = (*list)->next;
        close((*list)->fd);
        free(*list);
        *list = next;
    }
}

void rt_parked_end(struct rt_control *c)
{
    free_list(&c->parked);
    free_list(&c->waiting);
    if (c->offered_fd >= 0)
        close(c->offered_fd);
    c->offered_fd = -1;
}

/* ------------------------------------------------------------------ the offered descriptor */

/* A message of one byte that has room for a descriptor beside it. */
struct fd_message {
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    char          byte;
    struct iovec  data;
    struct msghdr head;
};

static void fd_message_init(struct fd_message *m)
{
    memset(m, 0, sizeof(*m));
    m->data = (struct iovec){ &m->byte, 1 };
    m->head = (struct msghdr){ .msg_iov = &m->data, .msg_iovlen = 1, .msg_control = m->control,
                               .msg_controllen = sizeof(m->control) };
}

static void hand_over(int connection, int fd)
{
    struct fd_message message;

    fd_message_init(&message);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message.head);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &fd, sizeof(int));
    if (sendmsg(connection, &message.head, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return; /* the other side sees the connection end and says so */
}

void rt_parked_serve_fd(struct rt_control *c)
{
    if (c->offered_fd < 0)
        return;
    for (struct rt_parked *p = c->waiting; p; p = p->next)
        hand_over(p->fd, c->offered_fd);
    free_list(&c->waiting);
}

void rt_control_offer_fd(struct rt_control *c, int fd)
{
    pthread_mutex_lock(&c->lock);
    if (c->offered_fd >= 0)
        close(c->offered_fd);
    c->offered_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    rt_parked_serve_fd(c);
    pthread_mutex_unlock(&c->lock);
}

/* The descriptor in one message; -errno. */
static int receive_fd(int connection)
{
    struct fd_message message;
    int fd = -1;

    fd_message_init(&message);
    ssize_t got = recvmsg(connection, &message.head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0)
        return -errno;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message.head);
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&fd, CMSG_DATA(head), sizeof(int));
    if (fd < 0)
        return got == 0 ? -EPIPE : -EBADMSG;
    return fd;
}

static int await_fd(struct rt_control *c, int connection, uint64_t deadline_ns)
{
    for (;;) {
        struct pollfd poll_fd = { connection, POLLIN, 0 };
        const uint64_t now = rt_control_now(c);
        int fd = receive_fd(connection);
        if (fd != -EAGAIN && fd != -EINTR)
            return fd;
        if (now >= deadline_ns)
            return -ETIMEDOUT;
        if (rt_control_failed(c))
            return -ECANCELED;
        int ms = rt_poll_ms(now, deadline_ns);
        poll(&poll_fd, 1, ms < 50 ? ms : 50); /* a failure elsewhere ends the wait */
    }
}

ringtree_status rt_control_fetch_fd(struct rt_control *c, uint32_t peer, uint32_t wait_ms, int *fd,
                                    struct rt_error *error)
{
    const uint64_t deadline = rt_control_now(c) + wait_ms * RT_NS_PER_MS;
    const struct rt_claim claim = { .kind = RT_CONNECT_NODE, .rank = c->rank };
    char words[120], tried[300], name[RT_UNIX_NAME];
    struct rt_dialer dialer;
    int connection = -1;

    if (peer >= c->nranks || c->places[peer].host_key != c->places[c->rank].host_key)
        return rt_fail(error, RINGTREE_UNREACHABLE, "rank %u: %s is not on this machine", c->rank,
                       rt_rank_words(c, peer, words, sizeof(words)));
    rt_dialer_init(&dialer, c->key, c->number, &claim, c->clock, deadline);
    rt_control_unix_name(c->meeting_number, peer, c->places[peer].address[0].port, name);
    rt_dialer_add_unix(&dialer, name);
    ringtree_status status = rt_dialer_wait(&dialer, &connection);
    if (status)
        return rt_fail(error, RINGTREE_UNREACHABLE, "rank %u cannot reach %s on this machine: %s", c->rank,
                       rt_rank_words(c, peer, words, sizeof(words)), rt_dialer_text(&dialer, tried, sizeof(tried)));
    int got = await_fd(c, connection, deadline);
    close(connection);
    if (got == -ECANCELED)
        return rt_control_failure(c, error);
    if (got < 0)
        return rt_fail(error, got == -ETIMEDOUT ? RINGTREE_TIMEOUT : RINGTREE_PEER_LOST,
                       "rank %u got no shared memory from %s within %u ms: %s", c->rank,
                       rt_rank_words(c, peer, words, sizeof(words)), wait_ms, rt_errno_words(-got));
    *fd = got;
    return RINGTREE_OK;
}
