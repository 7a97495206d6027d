/*
 * All-gather on the binomial tree. The subtree of a rank holds consecutive ranks, so a rank's own block and its
 * children's make one run of bytes that goes up in one message; the whole comes down from the root. 2 log2(n) messages
 * in a row.
 */
#include "inside.h"
#include "bytes.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LEVEL_GRACE_MS 250 /* a deeper rank knows better who is missing; it must be heard even on a loaded machine */
#define DOWN_GRACE_MS  1000 /* and last of all those who wait for the root's answer */

/* Same call, same size? Else the ranks are out of step, which is a failure for all. */
static bool fits(struct rt_control *c, uint32_t peer, const uint8_t *body, uint32_t length, uint32_t ranks)
{
    const struct rt_gather *g = &c->gather;
    char words[120];

    if (rt_get_u32(body) == g->sequence && rt_get_u32(body + 4) == g->bytes &&
        length == RT_GATHER_HEAD + (uint64_t)ranks * g->bytes)
        return true;
    rt_failure_say(c, RINGTREE_MISMATCH, "%s is in control exchange #%u of %u bytes, rank %u in #%u of %u bytes: "
                   "they called different things", rt_rank_words(c, peer, words, sizeof(words)), rt_get_u32(body),
                   rt_get_u32(body + 4), c->rank, g->sequence, g->bytes);
    return false;
}

static void finish(struct rt_control *c)
{
    c->gather.done = true;
    c->gather.active = false;
    pthread_cond_broadcast(&c->changed);
}

static void send_run(struct rt_tree_link *link, enum rt_message type, const struct rt_gather *g, uint8_t *message,
                     const uint8_t *run, size_t bytes)
{
    rt_put_u32(message, g->sequence);
    rt_put_u32(message + 4, g->bytes);
    memcpy(message + RT_GATHER_HEAD, run, bytes);
    rt_tree_send(link, type, message, (uint32_t)(RT_GATHER_HEAD + bytes));
}

/* The first exchange is that of the places. They are learnt before they are passed on: once another rank goes ahead,
 * its end must already have a name here. */
static bool learn_places(struct rt_control *c, const uint8_t *all)
{
    bool good = c->gather.bytes == RT_PLACE_BYTES;

    if (c->places_known)
        return true;
    for (uint32_t r = 0; good && r < c->nranks; r++)
        good = rt_place_parse(all + (size_t)r * RT_PLACE_BYTES, &c->places[r]);
    c->places_known = good;
    if (!good)
        rt_failure_say(c, RINGTREE_INTERNAL, "rank %u got a malformed table of ranks; do all run the same ringtree?",
                       c->rank);
    return good;
}

/* Everything this rank answers for is in `all`: up with it, or, at the root, down. */
static void pass_on(struct rt_control *c, size_t span)
{
    struct rt_gather *g = &c->gather;
    uint8_t *run = g->all + (size_t)c->rank * g->bytes, *message = malloc(RT_GATHER_HEAD + span * g->bytes);

    g->sent_up = true;
    if (!message) {
        rt_failure_say(c, RINGTREE_NO_MEMORY, "rank %u: no memory for a control exchange", c->rank);
    } else if (c->rank != 0) {
        send_run(&c->link[0], RT_MESSAGE_UP, g, message, run, span * g->bytes);
    } else if (learn_places(c, g->all)) {
        for (uint32_t i = 1; i < c->nlinks; i++)
            send_run(&c->link[i], RT_MESSAGE_DOWN, g, message, g->all, span * g->bytes);
        finish(c);
    }
    free(message);
}

void rt_gather_step(struct rt_control *c)
{
    struct rt_gather *g = &c->gather;
    size_t span = 1;

    if (!g->active || g->sent_up || (c->rank != 0 && c->link[0].fd < 0))
        return;
    for (uint32_t i = 1; i < c->nlinks; i++)
        if (!c->link[i].up)
            return;
    memcpy(g->all + (size_t)c->rank * g->bytes, g->mine, g->bytes);
    for (uint32_t i = 1; i < c->nlinks; i++) {
        struct rt_tree_link *child = &c->link[i];
        if (!fits(c, child->rank, child->up, child->up_length, child->span))
            return;
        memcpy(g->all + (size_t)child->rank * g->bytes, child->up + RT_GATHER_HEAD, (size_t)child->span * g->bytes);
        span += child->span;
        free(child->up);
        child->up = NULL;
    }
    pass_on(c, span);
}

void rt_gather_up(struct rt_control *c, struct rt_tree_link *link, uint8_t *body, uint32_t length)
{
    link->up = body;
    link->up_length = length;
    rt_gather_step(c);
}

void rt_gather_down(struct rt_control *c, const uint8_t *body, uint32_t length)
{
    struct rt_gather *g = &c->gather;

    if (!g->active) /* this rank gave up waiting: it has failed and said so */
        return;
    if (!fits(c, c->link[0].rank, body, length, c->nranks) || !learn_places(c, body + RT_GATHER_HEAD))
        return;
    for (uint32_t i = 1; i < c->nlinks; i++)
        rt_tree_send(&c->link[i], RT_MESSAGE_DOWN, body, length);
    memcpy(g->all, body + RT_GATHER_HEAD, (size_t)c->nranks * g->bytes);
    finish(c);
}

/* ------------------------------------------------------------------ the caller's side */

static void name_missing(struct rt_control *c, char *text, size_t capacity)
{
    char words[120];
    size_t used = 0;

    snprintf(text, capacity, "rank 0 did not answer");
    for (uint32_t i = 1; i < c->nlinks && used < capacity && !c->gather.sent_up; i++) {
        const struct rt_tree_link *child = &c->link[i];
        if (child->up)
            continue;
        rt_rank_words(c, child->rank, words, sizeof(words));
        used += (size_t)snprintf(text + used, capacity - used, "%s%s%s", used ? ", " : "waiting for ", words,
                                 child->span > 1 ? " or a rank behind it" : "");
    }
}

static void time_out(struct rt_control *c)
{
    char missing[400], lack[160];

    name_missing(c, missing, sizeof(missing));
    rt_failure_say(c, RINGTREE_TIMEOUT, "rank %u: a control exchange did not finish within %u ms: %s%s; raise "
                   "RINGTREE_TIMEOUT_MS or look at that rank", c->rank, c->timeout_ms, missing,
                   rt_acceptor_words(&c->acceptor, lack, sizeof(lack)));
}

static struct timespec to_timespec(uint64_t ns)
{
    return (struct timespec){ (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
}

static uint64_t grace_ms(const struct rt_control *c)
{
    uint32_t levels = 0;

    if (c->gather.sent_up)
        return DOWN_GRACE_MS;
    for (uint32_t i = 1; i < c->nlinks; i++)
        for (uint32_t level = 0; !c->link[i].up && c->link[i].span >> level > 1; level++)
            levels = level + 1 > levels ? level + 1 : levels;
    return (uint64_t)levels * LEVEL_GRACE_MS;
}

/* With the lock held, until it is done or has failed. */
static void wait_done(struct rt_control *c)
{
    const uint64_t late = rt_now_ns(&rt_system_clock) + c->timeout_ms * RT_NS_PER_MS;

    while (!c->gather.done && !atomic_load_explicit(&c->failed, memory_order_relaxed)) {
        const uint64_t until = late + grace_ms(c) * RT_NS_PER_MS;
        struct timespec at = to_timespec(until);
        if (rt_now_ns(&rt_system_clock) >= until)
            time_out(c);
        else
            pthread_cond_timedwait(&c->changed, &c->lock, &at);
    }
}

static ringtree_status check_left(struct rt_control *c)
{
    char words[120];

    for (uint32_t i = 0; i < c->nlinks; i++)
        if (c->link[i].gone)
            rt_failure_say(c, RINGTREE_PEER_LOST, "%s has left the communicator while others still use it",
                           rt_rank_words(c, c->link[i].rank, words, sizeof(words)));
    return c->failure.status;
}

ringtree_status rt_control_all_gather(struct rt_control *c, const void *mine, size_t bytes, void *all,
                                      struct rt_error *error)
{
    if (bytes > RT_GATHER_MOST)
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "a control exchange of %zu bytes: at most %d are possible",
                       bytes, RT_GATHER_MOST);
    if (c->nranks == 1) {
        if (rt_control_failed(c))
            return rt_control_failure(c, error);
        memmove(all, mine, bytes);
        return RINGTREE_OK;
    }
    pthread_mutex_lock(&c->lock);
    if (!check_left(c)) {
        c->gather = (struct rt_gather){ true, false, false, c->gather.sequence + 1, (uint32_t)bytes, mine, all };
        rt_gather_step(c);
        wait_done(c);
        c->gather.active = false;
    }
    const bool done = c->gather.done;
    c->gather.done = false;
    pthread_mutex_unlock(&c->lock);
    rt_control_poke(c); /* what did not fit into the sockets */
    return done ? RINGTREE_OK : rt_control_failure(c, error);
}
