/* The control thread: sleeps in poll(), then looks after everything that may have changed. */
#include "base/log.h"
#include "inside.h"
#include <unistd.h>

#define LAST_WORDS_MS 200 /* at the end: to bring out what is queued, and to let the others read it */

void rt_control_poke(struct rt_control *c)
{
    const uint64_t one = 1;

    if (c->thread_fd >= 0 && write(c->thread_fd, &one, sizeof(one)) < 0)
        return; /* the counter is full: it wakes anyway */
}

static void drain(int fd)
{
    uint64_t count;

    if (read(fd, &count, sizeof(count)) < 0)
        return; /* nothing was in it */
}

static uint32_t link_pollfds(const struct rt_control *c, struct pollfd *to)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->nlinks; i++) {
        const struct rt_tree_link *link = &c->link[i];
        if (link->fd >= 0)
            to[n++] = (struct pollfd){ link->fd, link->out_sent < link->out_count ? POLLIN | POLLOUT : POLLIN, 0 };
    }
    return n;
}

static void welcome(struct rt_control *c, int fd, const struct rt_claim *claim)
{
    switch (claim->kind) {
    case RT_CONNECT_TREE: rt_tree_adopt(c, fd, claim); break;
    case RT_CONNECT_ASK: rt_ask_answer(c, fd); break;
    case RT_CONNECT_DATA:
    case RT_CONNECT_NODE: rt_parked_add(c, fd, claim); break;
    default: close(fd); /* there is no meeting here */
    }
}

static void turn(struct rt_control *c, uint64_t *wake_ns)
{
    struct rt_claim claim;
    int fd;

    rt_acceptor_go(&c->acceptor);
    while ((fd = rt_acceptor_next(&c->acceptor, &claim)) >= 0)
        welcome(c, fd, &claim);
    for (uint32_t i = 0; i < c->nlinks; i++) {
        rt_tree_flush(&c->link[i]);
        rt_tree_read(c, &c->link[i]);
    }
    rt_gather_step(c);
    rt_watchdog_tick(c, rt_control_now(c), wake_ns);
}

static bool has_queued(const struct rt_control *c)
{
    for (uint32_t i = 0; i < c->nlinks; i++)
        if (c->link[i].fd >= 0 && c->link[i].out_sent < c->link[i].out_count)
            return true;
    return false;
}

/*
 * A connection closed with unread bytes is reset, and a reset may overtake our last words. So: send them, say that no
 * more will come, and read until the others have closed too, but not for long.
 */
static void say_last_words(struct rt_control *c)
{
    const uint64_t late = rt_control_now(c) + LAST_WORDS_MS * RT_NS_PER_MS;
    bool shut = false;
    uint64_t now;

    while ((now = rt_control_now(c)) < late) {
        if (!shut && !has_queued(c)) {
            for (uint32_t i = 0; i < c->nlinks; i++)
                if (c->link[i].fd >= 0)
                    shutdown(c->link[i].fd, SHUT_WR);
            shut = true;
        }
        uint32_t n = link_pollfds(c, c->pollfds);
        if (n == 0)
            return;
        poll(c->pollfds, n, rt_poll_ms(now, late));
        for (uint32_t i = 0; i < c->nlinks; i++) {
            rt_tree_flush(&c->link[i]);
            rt_tree_read(c, &c->link[i]);
        }
    }
}

void *rt_control_thread(void *argument)
{
    struct rt_control *c = argument;

    rt_log_thread(c->rank);
    pthread_mutex_lock(&c->lock);
    while (!c->stop) {
        uint64_t wake = UINT64_MAX;
        turn(c, &wake);
        if (c->stop)
            break;
        c->pollfds[0] = (struct pollfd){ c->thread_fd, POLLIN, 0 };
        uint32_t n = 1 + link_pollfds(c, c->pollfds + 1);
        n += rt_acceptor_pollfds(&c->acceptor, c->pollfds + n, &wake);
        int ms = wake == UINT64_MAX ? -1 : rt_poll_ms(rt_control_now(c), wake);
        pthread_mutex_unlock(&c->lock);
        poll(c->pollfds, n, ms);
        drain(c->thread_fd);
        pthread_mutex_lock(&c->lock);
    }
    say_last_words(c);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}
