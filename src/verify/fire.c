/* One step: its messages are taken, its verb done on expressions, its result written and sent. */
#include "machine.h"

/* What the parts of one step have in common. */
struct firing {
    struct rt_machine    *m;
    struct rt_thread     *t;
    const struct rt_step *step;
    struct rt_message    *got, *got2, *out, *out2;
    uint32_t              at, at2; /* next part of what was received */
};

/* ---- can this step be at all? */

static bool sends(const struct rt_step *s)
{
    return s->verb == RT_SEND || s->verb == RT_RECV_REDUCE_SEND || s->verb == RT_RECV_REDUCE_KEEP_SEND ||
           s->verb == RT_RECV_KEEP_SEND;
}

static bool receives(const struct rt_step *s)
{
    return s->verb >= RT_RECV_REDUCE_SEND && s->verb <= RT_RECV_KEEP;
}

static bool reads_source(const struct rt_step *s)
{
    return s->verb == RT_SEND || s->verb == RT_COPY || rt_step_reduces(s);
}

static bool peers_allowed(const struct rt_machine *m, const struct rt_thread *t, const struct rt_step *s)
{
    const uint32_t peer[4] = { s->from, s->from2, s->to, s->to2 };
    for (uint32_t i = 0; i < 4; i++)
        if (peer[i] != RT_NONE && (peer[i] >= m->n || peer[i] == t->rank)) return false;
    if (receives(s) != (s->from != RT_NONE) || sends(s) != (s->to != RT_NONE)) return false;
    if (s->from2 != RT_NONE && (!receives(s) || !rt_step_reduces(s) || s->from2 == s->from)) return false;
    return s->to2 == RT_NONE || (sends(s) && s->to2 != s->to);
}

static bool span_fits(const struct rt_machine *m, const struct rt_thread *t, const struct rt_step *s, uint8_t buffer,
                      uint32_t chunk)
{
    if (buffer > RT_SCRATCH) return false;
    if (buffer == RT_SCRATCH) return chunk < t->scratch && s->span <= t->scratch;
    if (rt_cell(m, t, buffer, chunk) == RT_CELL_OUTSIDE) return false;
    return s->span == 1 || (s->span <= m->chunks && rt_cell(m, t, buffer, m->chunks - 1) != RT_CELL_OUTSIDE);
}

bool rt_step_allowed(struct rt_machine *m, const struct rt_thread *t)
{
    const struct rt_step *s = &t->step;
    const char *wrong = NULL;
    if (s->verb > RT_REDUCE) wrong = "has no such verb";
    else if (s->wait_lane != RT_NONE && (s->wait_lane >= m->lanes || s->wait_lane == t->lane))
        wrong = "waits for a lane that is none";
    else if (s->verb == RT_NOTHING) return true;
    else if (!peers_allowed(m, t, s)) wrong = "has the wrong peers for its verb";
    else if (s->span < 1 || (s->span > m->max_span && (sends(s) || receives(s))))
        wrong = "spans more chunks than max_span, or none";
    else if (reads_source(s) && !span_fits(m, t, s, s->source, s->source_chunk)) wrong = "reads outside of its buffers";
    else if (rt_step_keeps(s) && !span_fits(m, t, s, s->target, s->target_chunk))
        wrong = "writes outside of its buffers";
    else if (rt_step_keeps(s) && s->target == RT_INPUT) wrong = "writes to INPUT";
    else if ((s->flags & RT_FINAL) && !rt_step_reduces(s) && s->verb != RT_COPY)
        wrong = "completes nothing, but is FINAL";
    else if ((s->flags & RT_COPIED) && (s->verb != RT_SEND || s->source != RT_INPUT))
        wrong = "is COPIED, but no send from INPUT";
    return !wrong || rt_reject(m, RT_VERDICT_SHAPE, "rank %u lane %u step %u %s", t->rank, t->lane, t->index, wrong);
}

static uint32_t part_chunk(const struct rt_machine *m, const struct rt_step *s, uint32_t i)
{
    return (uint32_t)((rt_step_length_chunk(s) + (uint64_t)i * s->stride) % m->chunks);
}

bool rt_part_empty(const struct rt_machine *m, const struct rt_step *s, uint32_t i)
{
    return m->cuts && m->full < m->chunks && part_chunk(m, s, i) >= m->full;
}

/* ---- messages */

static uint32_t self(const struct firing *f)
{
    return (uint32_t)(f->t - f->m->thread);
}

static bool agrees(const struct firing *f, const struct rt_message *message)
{
    const struct rt_step *s = f->step;
    if (message->span != s->span) return false;
    if (!f->m->cuts) return true;
    return message->length_chunk == rt_step_length_chunk(s) && (s->span == 1 || message->stride == s->stride);
}

/* The next message from `from`: its memory is not lent any more, its sender's past is this rank's. */
static bool take(struct firing *f, uint32_t from, struct rt_message **message)
{
    struct rt_machine *m = f->m;
    *message = NULL;
    if (from == RT_NONE) return true;
    struct rt_pipe *pipe = rt_pipe_find(m, from, f->t->rank, f->t->lane);
    if (!pipe) return false;
    struct rt_message *first = pipe->first;
    pipe->first = first->next;
    pipe->in_flight--;
    m->untaken[from]--;
    *message = first;
    rt_clock_take(m, self(f), first->clock);
    first->clock = NULL;
    for (uint32_t i = 0; i < first->nparts; i++)
        if (first->parts[i].access) m->access[first->parts[i].access].time = f->t->time;
    for (uint32_t lane = 0; lane < m->lanes; lane++) rt_wake(m, from * m->lanes + lane);
    return agrees(f, first) ||
           rt_reject(m, RT_VERDICT_MISMATCH, "rank %u lane %u step %u expects another message from rank %u: %u chunks "
                     "from chunk %u on, not %u from %u on", f->t->rank, f->t->lane, f->t->index, from, f->step->span,
                     rt_step_length_chunk(f->step), first->span, first->length_chunk);
}

static bool begin(struct firing *f, uint32_t to, struct rt_message **message)
{
    *message = NULL;
    if (to == RT_NONE) return true;
    *message = rt_message_new(f->m, f->step->span);
    if (!*message) return false;
    (*message)->stride = f->step->stride;
    (*message)->length_chunk = rt_step_length_chunk(f->step);
    return true;
}

static bool post(struct firing *f, uint32_t to, struct rt_message *message)
{
    struct rt_machine *m = f->m;
    if (!message) return true;
    struct rt_pipe *pipe = rt_pipe_find(m, f->t->rank, to, f->t->lane);
    if (!pipe || !rt_clock_copy(m, self(f), &message->clock)) {
        rt_message_free(m, message);
        return false;
    }
    message->next = NULL;
    if (pipe->first) pipe->last->next = message;
    else pipe->first = message;
    pipe->last = message;
    m->untaken[f->t->rank]++;
    m->report->messages++;
    if (++pipe->in_flight > m->report->most_in_flight) m->report->most_in_flight = pipe->in_flight;
    rt_wake(m, pipe->receiver);
    return true;
}

static void drop(struct rt_machine *m, struct rt_message *message)
{
    if (message) rt_message_free(m, message);
}

/* ---- parts */

static uint32_t buffer_chunk(const struct firing *f, uint8_t buffer, uint32_t first, uint32_t i)
{
    if (f->step->span == 1) return first;
    const uint32_t wrap = buffer == RT_SCRATCH ? f->t->scratch : f->m->chunks;
    return (uint32_t)((first + (uint64_t)i * f->step->stride) % wrap);
}

static size_t cell_of(const struct firing *f, uint8_t buffer, uint32_t first, uint32_t i)
{
    return rt_cell(f->m, f->t, buffer, buffer_chunk(f, buffer, first, i));
}

static bool read_input(struct firing *f, size_t cell, uint32_t chunk, uint32_t *value)
{
    struct rt_machine *m = f->m;
    const struct rt_thread *t = f->t;
    if (m->value[cell] != RT_NOTHING_THERE)
        return rt_reject(m, RT_VERDICT_HAZARD, "rank %u lane %u step %u reads INPUT chunk %u, which OUTPUT, in place "
                         "the same memory, has overwritten", t->rank, t->lane, t->index, chunk);
    const ringtree_collective c = m->algorithm->collective;
    const uint32_t key = c == RINGTREE_ALL_GATHER || c == RINGTREE_GATHER ? t->rank : chunk;
    enum rt_verdict verdict = RT_VERDICT_OK;
    *value = rt_value_leaf(&m->values, t->rank, key, t->slice, &verdict);
    return *value || rt_reject(m, verdict, "no memory for expressions");
}

static bool read_part(struct firing *f, uint8_t buffer, uint32_t first, uint32_t i, uint32_t *value)
{
    struct rt_machine *m = f->m;
    const struct rt_thread *t = f->t;
    const uint32_t chunk = buffer_chunk(f, buffer, first, i);
    const size_t cell = rt_cell(m, t, buffer, chunk);
    *value = RT_NOT_FOLLOWED;
    if (cell == RT_CELL_NONE) return true;
    if (!rt_cell_reads(m, t, cell)) return false;
    if (buffer == RT_INPUT) return read_input(f, cell, chunk, value);
    *value = m->value[cell];
    return *value != RT_NOTHING_THERE ||
           rt_reject(m, RT_VERDICT_UNWRITTEN, "rank %u lane %u step %u reads %s chunk %u, which nothing was written to",
                     t->rank, t->lane, t->index, buffer == RT_OUTPUT ? "OUTPUT" : "SCRATCH", chunk);
}

static uint32_t received_part(const struct rt_message *message, uint32_t *at, uint32_t i)
{
    if (*at < message->nparts && message->parts[*at].i == i) return message->parts[(*at)++].value;
    return RT_NOT_FOLLOWED;
}

static bool reduce_part(struct firing *f, uint32_t own, uint32_t got, uint32_t got2, uint32_t *value)
{
    struct rt_machine *m = f->m;
    const struct rt_thread *t = f->t;
    const bool own_first = f->step->flags & RT_OWN_FIRST, three = f->got2 != NULL;
    const uint32_t last = three ? got2 : got;
    const uint32_t operands[3] = { own_first ? own : got, three ? (own_first ? got : got2) : (own_first ? got : own),
                                   own_first ? last : own };
    const uint32_t count = three ? 3 : 2;
    uint32_t followed = 0;
    for (uint32_t i = 0; i < count; i++) followed += operands[i] != RT_NOT_FOLLOWED;
    *value = RT_NOT_FOLLOWED;
    if (followed == 0) return true;
    enum rt_verdict verdict = RT_VERDICT_COVERAGE;
    *value = followed == count ? rt_value_reduce(&m->values, operands, count, &verdict) : 0;
    return *value || rt_reject(m, verdict, "rank %u lane %u step %u %s", t->rank, t->lane, t->index,
                               verdict == RT_VERDICT_FINAL ? "adds to a value that is complete already"
                                                           : "adds different chunks, or a contribution twice");
}

/* The value that the step makes of part i. */
static bool value_of(struct firing *f, uint32_t i, uint32_t *value)
{
    const struct rt_step *s = f->step;
    uint32_t own = RT_NOT_FOLLOWED, got = RT_NOT_FOLLOWED, got2 = RT_NOT_FOLLOWED;
    if (f->got) got = received_part(f->got, &f->at, i);
    if (f->got2) got2 = received_part(f->got2, &f->at2, i);
    if (s->verb == RT_REDUCE && !read_part(f, s->target, s->target_chunk, i, &got)) return false;
    if (reads_source(s) && !read_part(f, s->source, s->source_chunk, i, &own)) return false;
    if (rt_step_reduces(s)) return reduce_part(f, own, got, got2, value);
    *value = f->got ? got : own;
    return true;
}

/* The chunk whose length the message has is the one in it; FINAL is put on what is complete. */
static bool finish_value(struct firing *f, uint32_t i, uint32_t *value)
{
    struct rt_machine *m = f->m;
    const struct rt_thread *t = f->t;
    if (*value == RT_NOT_FOLLOWED) return true;
    if (m->cuts && m->values.value[*value].chunk != part_chunk(m, f->step, i))
        return rt_reject(m, RT_VERDICT_MISMATCH, "rank %u lane %u step %u handles chunk %u with the length of chunk %u",
                         t->rank, t->lane, t->index, m->values.value[*value].chunk, part_chunk(m, f->step, i));
    if (!(f->step->flags & RT_FINAL)) return true;
    enum rt_verdict verdict = RT_VERDICT_OK;
    *value = rt_value_final(&m->values, *value, &verdict);
    return *value || rt_reject(m, verdict, "rank %u lane %u step %u is FINAL on a value that is not complete, or was "
                               "so before", t->rank, t->lane, t->index);
}

static bool write_part(struct firing *f, uint32_t i, uint32_t value)
{
    const struct rt_step *s = f->step;
    const size_t cell = cell_of(f, s->target, s->target_chunk, i);
    if (cell == RT_CELL_NONE) return true;
    const bool itself = s->verb == RT_COPY && cell == cell_of(f, s->source, s->source_chunk, i);
    if (!itself && !rt_cell_writes(f->m, f->t, cell)) return false;
    f->m->value[cell] = value;
    return true;
}

/* What the message to `to` is read from until it is taken: the source, what was kept, or nothing. */
static size_t lent_cell(const struct firing *f, uint32_t i)
{
    const struct rt_step *s = f->step;
    if (s->verb == RT_RECV_REDUCE_SEND) return RT_CELL_NONE;
    if (rt_step_keeps(s)) return cell_of(f, s->target, s->target_chunk, i);
    if ((s->flags & RT_COPIED) && f->m->options->in_place) return RT_CELL_NONE;
    return cell_of(f, s->source, s->source_chunk, i);
}

static bool send_part(struct firing *f, struct rt_message *out, uint32_t to, uint32_t i, uint32_t value)
{
    struct rt_machine *m = f->m;
    if (!out || value == RT_NOT_FOLLOWED) return true;
    if (out->nparts == out->room)
        return rt_reject(m, RT_VERDICT_SHAPE, "rank %u lane %u step %u sends a chunk twice in one message", f->t->rank,
                         f->t->lane, f->t->index);
    const size_t cell = lent_cell(f, i);
    const uint32_t access = cell == RT_CELL_NONE ? 0 : rt_cell_lend(m, cell, to * m->lanes + f->t->lane);
    out->parts[out->nparts++] = (struct rt_part){ i, value, access };
    return true;
}

static bool fire_part(struct firing *f, uint32_t i)
{
    const struct rt_step *s = f->step;
    uint32_t value;
    if (!value_of(f, i, &value) || !finish_value(f, i, &value)) return false;
    if (rt_step_keeps(s) && !write_part(f, i, value)) return false;
    return send_part(f, f->out, s->to, i, value) && send_part(f, f->out2, s->to2, i, value);
}

static bool fire_parts(struct firing *f)
{
    for (uint32_t i = 0; i < f->step->span; i++)
        if (!rt_part_empty(f->m, f->step, i) && !fire_part(f, i)) return false;
    return true;
}

bool rt_fire(struct rt_machine *m, struct rt_thread *t)
{
    struct firing f = { .m = m, .t = t, .step = &t->step };
    t->time++;
    if (m->clock) rt_clock_of(m, self(&f))[self(&f)] = (int16_t)t->time;
    const bool taken = take(&f, f.step->from, &f.got) && take(&f, f.step->from2, &f.got2);
    const bool done = taken && begin(&f, f.step->to, &f.out) && begin(&f, f.step->to2, &f.out2) && fire_parts(&f);
    drop(m, f.got);
    drop(m, f.got2);
    if (!done) {
        drop(m, f.out);
        drop(m, f.out2);
        return false;
    }
    m->report->steps++;
    const bool posted = post(&f, f.step->to, f.out);
    if (!posted) drop(m, f.out2);
    return posted && post(&f, f.step->to2, f.out2);
}
