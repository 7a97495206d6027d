/*
 * Failures: the first one wins, is flooded over the tree before anyone here can see it, and wakes every wait. Flooding
 * first matters: a program that sees the failure may exit at once, and its neighbours should hear the cause, not its
 * end.
 */
#include "inside.h"
#include <string.h>
#include <unistd.h>

void rt_control_ring(struct rt_control *c)
{
    const uint64_t one = 1;

    if (write(c->wake_fd, &one, sizeof(one)) < 0)
        return; /* the counter is full: it is readable anyway */
}

void rt_control_wake_clear(struct rt_control *c)
{
    uint64_t count;

    if (read(c->wake_fd, &count, sizeof(count)) < 0)
        return; /* nothing to clear */
}

int rt_control_wake_fd(const struct rt_control *c)
{
    return c->wake_fd;
}

void rt_failure_set(struct rt_control *c, const struct rt_error *failure, const struct rt_tree_link *from)
{
    uint8_t body[RT_FAILURE_MOST];
    uint32_t length = rt_failure_put(body, failure);

    if (atomic_load_explicit(&c->failed, memory_order_relaxed))
        return;
    for (uint32_t i = 0; i < c->nlinks; i++)
        if (&c->link[i] != from)
            rt_tree_send(&c->link[i], RT_MESSAGE_FAILURE, body, length);
    c->failure = *failure;
    atomic_store_explicit(&c->failed, 1, memory_order_release);
    pthread_cond_broadcast(&c->changed);
    rt_control_ring(c);
}

void rt_failure_say(struct rt_control *c, ringtree_status status, const char *format, ...)
{
    struct rt_error failure;
    va_list args;

    va_start(args, format);
    rt_vfail(&failure, status, format, args);
    va_end(args);
    rt_failure_set(c, &failure, NULL);
}

void rt_control_fail(struct rt_control *c, ringtree_status status, const char *sentence)
{
    pthread_mutex_lock(&c->lock);
    rt_failure_say(c, status, "%s", sentence);
    pthread_mutex_unlock(&c->lock);
    rt_control_poke(c); /* what did not fit into the sockets */
}

bool rt_control_failed(const struct rt_control *c)
{
    return atomic_load_explicit(&c->failed, memory_order_relaxed) != 0;
}

ringtree_status rt_control_failure(const struct rt_control *c, struct rt_error *error)
{
    if (!atomic_load_explicit(&c->failed, memory_order_acquire))
        return RINGTREE_OK;
    if (error)
        *error = c->failure; /* written once, before the flag */
    return c->failure.status;
}
