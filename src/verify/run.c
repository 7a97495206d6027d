/* The schedule: a thread goes on until it must wait; what it waits for wakes it. The order does not matter. */
#include "machine.h"

void rt_wake(struct rt_machine *m, uint32_t thread)
{
    if (m->thread[thread].queued || m->thread[thread].done) return;
    m->thread[thread].queued = true;
    m->queue[(m->queue_head + m->queue_length++) % m->threads] = thread;
}

static void wake_rank(struct rt_machine *m, uint32_t rank)
{
    for (uint32_t lane = 0; lane < m->lanes; lane++) rt_wake(m, rank * m->lanes + lane);
}

static bool lane_is_past(const struct rt_machine *m, const struct rt_thread *t, uint32_t lane)
{
    const struct rt_thread *other = &m->thread[t->rank * m->lanes + lane];
    return other->done || other->slice > t->slice || (other->slice == t->slice && other->index == other->nsteps);
}

static bool has_effect(const struct rt_machine *m, const struct rt_step *s)
{
    if (s->verb == RT_NOTHING) return false;
    for (uint32_t i = 0; i < s->span; i++)
        if (!rt_part_empty(m, s, i)) return true;
    return false;
}

static bool message_there(struct rt_machine *m, const struct rt_thread *t, uint32_t from)
{
    if (from == RT_NONE) return true;
    const struct rt_pipe *pipe = rt_pipe_find(m, from, t->rank, t->lane);
    return pipe && pipe->first;
}

static bool slot_there(struct rt_machine *m, const struct rt_thread *t, uint32_t to)
{
    if (to == RT_NONE) return true;
    const struct rt_pipe *pipe = rt_pipe_find(m, t->rank, to, t->lane);
    return pipe && pipe->in_flight < m->slots;
}

static bool ready(struct rt_machine *m, const struct rt_thread *t)
{
    const struct rt_step *s = &t->step;
    return message_there(m, t, s->from) && message_there(m, t, s->from2) && slot_there(m, t, s->to) &&
           slot_there(m, t, s->to2);
}

static void step_over(struct rt_machine *m, struct rt_thread *t)
{
    t->loaded = false;
    if (++t->index < t->nsteps) return;
    rt_clock_slice_end(m, t);
    wake_rank(m, t->rank);
}

/* false: scratch may still be read. */
static bool slice_over(struct rt_machine *m, struct rt_thread *t)
{
    if (t->scratch && m->untaken[t->rank]) return false;
    if (t->slice + 1 < m->slices)
        for (uint32_t i = 0; i < t->scratch; i++) rt_cell_forget(m, t->scratch_at + i);
    t->index = 0;
    t->done = ++t->slice == m->slices;
    m->running -= t->done;
    wake_rank(m, t->rank);
    return true;
}

static bool load(struct rt_machine *m, struct rt_thread *t)
{
    if (t->loaded) return true;
    const struct rt_shape shape = { .nranks = m->n, .rank = t->rank, .root = m->root, .lane = t->lane,
                                    .layout = m->options->layout };
    t->step = m->algorithm->step(&shape, t->index);
    t->loaded = true;
    return rt_step_allowed(m, t);
}

/* One step. *moved: go on. false: rejected. */
static bool advance(struct rt_machine *m, struct rt_thread *t, bool *moved)
{
    *moved = true;
    if (t->index == t->nsteps) {
        *moved = slice_over(m, t) && !t->done;
        return true;
    }
    if (!load(m, t)) return false;
    const bool waits = t->step.wait_lane != RT_NONE, effect = has_effect(m, &t->step);
    if ((waits && !lane_is_past(m, t, t->step.wait_lane)) || (effect && !ready(m, t))) {
        *moved = false;
        return m->report->verdict == RT_VERDICT_OK;
    }
    if (waits) rt_clock_wait(m, t, t->step.wait_lane);
    if (effect && !rt_fire(m, t)) return false;
    step_over(m, t);
    return m->report->verdict == RT_VERDICT_OK;
}

static bool deadlock(struct rt_machine *m)
{
    uint32_t i = 0;
    while (m->thread[i].done) i++;
    const struct rt_thread *t = &m->thread[i];
    const struct rt_step *s = &t->step;
    if (t->index == t->nsteps)
        return rt_reject(m, RT_VERDICT_DEADLOCK, "rank %u lane %u slice %u waits for its messages to be taken", t->rank,
                         t->lane, t->slice);
    if (s->wait_lane != RT_NONE && !lane_is_past(m, t, s->wait_lane))
        return rt_reject(m, RT_VERDICT_DEADLOCK, "rank %u lane %u slice %u step %u waits for lane %u", t->rank, t->lane,
                         t->slice, t->index, s->wait_lane);
    const bool first = message_there(m, t, s->from), message = first && message_there(m, t, s->from2);
    const uint32_t peer = !first ? s->from : !message ? s->from2 : !slot_there(m, t, s->to) ? s->to : s->to2;
    return rt_reject(m, RT_VERDICT_DEADLOCK, "rank %u lane %u slice %u step %u waits for %s rank %u, with %u slot%s "
                     "per link",
                     t->rank, t->lane, t->slice, t->index, message ? "a slot to" : "a message from", peer, m->slots,
                     m->slots == 1 ? "" : "s");
}

static bool nothing_left(struct rt_machine *m)
{
    for (size_t i = 0; i < m->pipe_capacity; i++)
        if (m->pipes[i].first)
            return rt_reject(m, RT_VERDICT_LEFTOVER, "a message from rank %u to rank %u on lane %u is never received",
                             m->thread[m->pipes[i].sender].rank, m->thread[m->pipes[i].receiver].rank,
                             m->thread[m->pipes[i].sender].lane);
    return true;
}

bool rt_run(struct rt_machine *m)
{
    for (uint32_t t = 0; t < m->threads; t++) rt_wake(m, t);
    while (m->queue_length) {
        struct rt_thread *t = &m->thread[m->queue[m->queue_head]];
        m->queue_head = (m->queue_head + 1) % m->threads;
        m->queue_length--;
        t->queued = false;
        for (bool moved = !t->done; moved;)
            if (!advance(m, t, &moved)) return false;
    }
    return m->running ? deadlock(m) : nothing_left(m);
}
