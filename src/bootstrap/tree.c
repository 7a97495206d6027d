/*
 * The connections of the binomial tree: bytes in and out, and what each message does. A connection that ends without
 * goodbye means that its rank is lost. Every part of the tree that is left borders the lost rank, so all survivors
 * learn.
 */
#include "inside.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MESSAGES_AT_ONCE 64 /* of one link, before the others get their turn */

void rt_tree_init(struct rt_control *c)
{
    uint32_t below = c->rank ? c->rank & -c->rank : c->nranks;

    for (uint32_t i = 0; i < RT_LINKS_MOST; i++)
        c->link[i].fd = -1;
    c->link[0].rank = rt_tree_parent(c->rank);
    c->nlinks = 1;
    for (uint32_t bit = 1; bit < below && c->rank + bit < c->nranks; bit *= 2) {
        uint32_t left = c->nranks - c->rank - bit;
        c->link[c->nlinks].rank = c->rank + bit;
        c->link[c->nlinks++].span = left < bit ? left : bit;
    }
}

static void end_connection(struct rt_tree_link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    link->out_sent = link->out_count = 0;
    link->head_have = link->body_have = 0;
    free(link->body);
    link->body = NULL;
}

void rt_tree_end(struct rt_tree_link *link)
{
    end_connection(link);
    free(link->out);
    free(link->up);
    link->out = link->up = NULL;
}

/* ------------------------------------------------------------------ out */

void rt_tree_flush(struct rt_tree_link *link)
{
    while (link->fd >= 0 && link->out_sent < link->out_count) {
        ssize_t sent = send(link->fd, link->out + link->out_sent, link->out_count - link->out_sent,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0)
            link->out_sent += (size_t)sent;
        else if (errno == EAGAIN)
            return;
        else if (errno != EINTR)
            break; /* reading will tell why it ended, after what was said before */
    }
    link->out_sent = link->out_count = 0;
}

static bool make_room(struct rt_tree_link *link, size_t more)
{
    size_t need = link->out_count + more;

    if (need <= link->out_capacity)
        return true;
    uint8_t *grown = realloc(link->out, need + need / 2);
    if (!grown)
        return false;
    link->out = grown;
    link->out_capacity = need + need / 2;
    return true;
}

/* Without memory the message is lost with its connection: the other side must not wait for it in vain. */
void rt_tree_send(struct rt_tree_link *link, enum rt_message type, const void *body, uint32_t length)
{
    if (link->fd < 0)
        return;
    if (!make_room(link, RT_HEADER_BYTES + (size_t)length)) {
        shutdown(link->fd, SHUT_RDWR);
        return;
    }
    rt_header_put(link->out + link->out_count, type, length);
    if (length)
        memcpy(link->out + link->out_count + RT_HEADER_BYTES, body, length);
    link->out_count += RT_HEADER_BYTES + (size_t)length;
    rt_tree_flush(link);
}

/* ------------------------------------------------------------------ goodbye */

static void all_are_gone(struct rt_control *c)
{
    for (uint32_t i = 1; i < c->nlinks; i++)
        rt_tree_send(&c->link[i], RT_MESSAGE_ALL_GONE, NULL, 0);
    c->all_gone = true;
    pthread_cond_broadcast(&c->changed);
}

/* Goodbyes rise to the root, then "all gone" comes down. */
void rt_goodbye_step(struct rt_control *c)
{
    if (!c->goodbye || c->said_goodbye || c->all_gone)
        return;
    for (uint32_t i = 1; i < c->nlinks; i++)
        if (!c->link[i].gone)
            return;
    if (c->rank != 0) {
        rt_tree_send(&c->link[0], RT_MESSAGE_GOODBYE, NULL, 0);
        c->said_goodbye = true;
        return;
    }
    all_are_gone(c);
}

/* ------------------------------------------------------------------ in */

static void malformed(struct rt_control *c, struct rt_tree_link *link)
{
    char words[120];

    rt_failure_say(c, RINGTREE_INTERNAL, "%s sent a malformed control message; do all ranks run the same ringtree?",
                   rt_rank_words(c, link->rank, words, sizeof(words)));
    end_connection(link);
}

static void has_ended(struct rt_control *c, struct rt_tree_link *link, const char *how)
{
    char words[120];

    if (!link->gone && !c->all_gone)
        rt_failure_say(c, RINGTREE_PEER_LOST, "%s is gone: its connection ended without goodbye (%s); look at that "
                       "rank's output and exit status", rt_rank_words(c, link->rank, words, sizeof(words)), how);
    end_connection(link);
}

static void has_left(struct rt_control *c, struct rt_tree_link *link)
{
    char words[120];

    link->gone = true;
    if (link == &c->link[0])
        all_are_gone(c);
    else
        rt_goodbye_step(c);
    if (c->gather.active)
        rt_failure_say(c, RINGTREE_PEER_LOST, "%s has left the communicator while others still use it",
                       rt_rank_words(c, link->rank, words, sizeof(words)));
}

/* One whole message. May take link->body. */
static void act_on(struct rt_control *c, struct rt_tree_link *link)
{
    const struct rt_header header = link->header;
    const bool from_parent = link == &c->link[0];
    struct rt_error failure;

    link->heard = true;
    if (header.type == RT_MESSAGE_FAILURE && rt_failure_parse(link->body, header.length, &failure)) {
        rt_failure_set(c, &failure, link);
    } else if (header.type == RT_MESSAGE_UP && !from_parent && !link->up) {
        rt_gather_up(c, link, link->body, header.length);
        link->body = NULL;
    } else if (header.type == RT_MESSAGE_DOWN && from_parent) {
        rt_gather_down(c, link->body, header.length);
    } else if (header.type == RT_MESSAGE_GOODBYE && !from_parent) {
        link->gone = true;
        rt_goodbye_step(c);
    } else if (header.type == RT_MESSAGE_ALL_GONE && from_parent) {
        all_are_gone(c);
    } else if (header.type == RT_MESSAGE_LEAVE) {
        has_left(c, link);
    } else if (header.type == RT_MESSAGE_CALLS && !from_parent &&
               rt_calls_parse(link->body, header.length, &link->calls)) {
        rt_watchdog_compare(c, link);
    } else {
        malformed(c, link);
    }
}

/* Reads into [to + *have, to + size). 1: it is full; 0: not yet; -1: the connection has ended, as *how says. */
static int fill(struct rt_tree_link *link, uint8_t *to, uint32_t *have, uint32_t size, const char **how)
{
    while (*have < size) {
        ssize_t got = recv(link->fd, to + *have, size - *have, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return 0;
        if (got <= 0) {
            *how = got < 0 ? rt_errno_words(errno) : "killed, or ended without ringtree_destroy()";
            return -1;
        }
        *have += (uint32_t)got;
    }
    return 1;
}

/* 1: a message is complete. */
static int read_message(struct rt_control *c, struct rt_tree_link *link, const char **how)
{
    if (!link->body) {
        int full = fill(link, link->head, &link->head_have, RT_HEADER_BYTES, how);
        if (full <= 0)
            return full;
        if (!rt_header_parse(link->head, c->nranks, &link->header)) {
            malformed(c, link);
            return 0;
        }
        link->body = malloc(link->header.length + 1);
        if (!link->body) {
            rt_failure_say(c, RINGTREE_NO_MEMORY, "rank %u: no memory for a control message of %u bytes", c->rank,
                           link->header.length);
            end_connection(link);
            return 0;
        }
    }
    return fill(link, link->body, &link->body_have, link->header.length, how);
}

void rt_tree_read(struct rt_control *c, struct rt_tree_link *link)
{
    const char *how = "";

    for (int i = 0; i < MESSAGES_AT_ONCE && link->fd >= 0; i++) {
        int full = read_message(c, link, &how);
        if (full < 0)
            has_ended(c, link, how);
        if (full <= 0)
            return;
        act_on(c, link);
        free(link->body);
        link->body = NULL;
        link->head_have = link->body_have = 0;
    }
}

/* A child has come; or comes again, because its first try took too long for it. */
void rt_tree_adopt(struct rt_control *c, int fd, const struct rt_claim *claim)
{
    for (uint32_t i = 1; i < c->nlinks; i++) {
        struct rt_tree_link *link = &c->link[i];
        if (link->rank != claim->rank || link->heard)
            continue;
        end_connection(link);
        link->fd = fd;
        link->pid = claim->value;
        if (atomic_load_explicit(&c->failed, memory_order_relaxed)) {
            uint8_t body[RT_FAILURE_MOST];
            rt_tree_send(link, RT_MESSAGE_FAILURE, body, rt_failure_put(body, &c->failure));
        }
        return;
    }
    close(fd);
}
