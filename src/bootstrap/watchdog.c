/*
 * Compares what neighbours in the tree called. Any two ranks that differ are joined by a path on which some pair of
 * neighbours differs, so comparing neighbours is enough. At most five messages a second, and none while nothing is
 * called. It looks by the clock instead of being woken by calls: that would cost the first call after a rest 50 to
 * 150 us, and looking takes a few microseconds a second.
 */
#include "inside.h"
#include <string.h>

#define TICK_MS 200

static void tell_parent(struct rt_control *c, uint64_t head)
{
    struct rt_calls calls = { .head = head };
    uint8_t body[RT_CALLS_MOST];
    for (uint64_t at = head > RT_CALLS_SENT ? head - RT_CALLS_SENT : 0; at < head; at++)
        if (rt_call_at(&c->calls, at, &calls.frame[calls.count], &calls.hash[calls.count]))
            calls.count++;
        else
            calls.count = 0; /* overtaken: only what is newer */
    rt_tree_send(&c->link[0], RT_MESSAGE_CALLS, body, rt_calls_put(body, &calls));
    c->watchdog.sent_head = head;
}

static void tick(struct rt_control *c, uint64_t now)
{
    struct rt_watchdog *w = &c->watchdog;
    const uint64_t head = atomic_load_explicit(&c->calls.head, memory_order_acquire);
    const uint64_t finished = atomic_load_explicit(&c->calls.finished, memory_order_acquire);
    const bool news = head != w->head || finished != w->finished;

    w->next_ns = now + TICK_MS * RT_NS_PER_MS;
    if (finished != w->finished)
        w->finished_ns = now;
    w->head = head;
    w->finished = finished;
    for (uint32_t i = 1; news && i < c->nlinks; i++)
        rt_watchdog_compare(c, &c->link[i]);
    if (head != w->sent_head && c->link[0].fd >= 0)
        tell_parent(c, head);
}

void rt_watchdog_tick(struct rt_control *c, uint64_t now, uint64_t *wake_ns)
{
    if (now >= c->watchdog.next_ns)
        tick(c, now);
    if (c->watchdog.next_ns < *wake_ns)
        *wake_ns = c->watchdog.next_ns;
}

static void differ(struct rt_control *c, const struct rt_tree_link *link, const struct rt_frame *theirs,
                   const struct rt_frame *ours)
{
    char them[120], us[120], their_call[120], our_call[120];

    rt_rank_words(c, link->rank, them, sizeof(them));
    rt_rank_words(c, c->rank, us, sizeof(us));
    rt_failure_say(c, RINGTREE_MISMATCH, "the ranks called different things: %s called %s, but %s called %s; every "
                   "rank must make the same calls in the same order", them,
                   rt_call_text(theirs, their_call, sizeof(their_call)), us,
                   rt_call_text(ours, our_call, sizeof(our_call)));
}

static bool same_call(const struct rt_frame *a, const struct rt_frame *b)
{
    return a->sequence == b->sequence && a->count == b->count && a->op == b->op && a->root == b->root &&
           a->collective == b->collective && a->type == b->type && a->plan == b->plan;
}

void rt_watchdog_compare(struct rt_control *c, struct rt_tree_link *link)
{
    const struct rt_calls *theirs = &link->calls;
    struct rt_frame ours;
    uint64_t hash;
    char words[120];

    for (uint32_t i = 0; i < theirs->count; i++) {
        if (!rt_call_at(&c->calls, theirs->head - theirs->count + i, &ours, &hash))
            continue;
        if (!same_call(&theirs->frame[i], &ours)) {
            differ(c, link, &theirs->frame[i], &ours);
            return;
        }
        if (theirs->hash[i] != hash) {
            rt_failure_say(c, RINGTREE_MISMATCH, "the ranks called different things: %s and rank %u differ in a call "
                           "before #%" PRIu64 "; every rank must make the same calls in the same order",
                           rt_rank_words(c, link->rank, words, sizeof(words)), c->rank, ours.sequence);
            return;
        }
    }
}

void rt_watchdog_state(struct rt_control *c, struct rt_state *state)
{
    const uint64_t head = atomic_load_explicit(&c->calls.head, memory_order_acquire);
    const uint64_t finished = atomic_load_explicit(&c->calls.finished, memory_order_acquire);
    uint64_t hash;

    memset(state, 0, sizeof(*state));
    state->head = head;
    if (head && rt_call_at(&c->calls, head - 1, &state->last, &hash))
        state->current = state->last.sequence + 1 > finished;
    if (finished == c->watchdog.finished && finished)
        state->done_age_ms = (rt_control_now(c) - c->watchdog.finished_ns) / RT_NS_PER_MS;
    for (uint64_t i = 1; finished && !state->finished && i <= head && i < RT_CALLS_KEPT; i++)
        state->finished = rt_call_at(&c->calls, head - i, &state->done, &hash) && state->done.sequence + 1 == finished;
}
