/*
 * What must have happened before what. Thread a's clock has, for every thread b, the number of b's steps that are
 * certainly done whenever a has come so far. A message carries its sender's clock; a wait for a lane takes that lane's
 * clock at the end of the slice. Memory may be written when all that was read from it, or lent, since the last write is
 * in the writer's clock.
 */
#include "machine.h"
#include <stdlib.h>
#include <string.h>

#define MOST_CLOCK_BYTES (UINT64_C(256) << 20)
#define MOST_CLOCK_WORK  UINT64_C(30000000000)
#define MOST_TIME        30000

static bool worth_it(const struct rt_machine *m)
{
    uint64_t steps = 0;
    for (uint32_t t = 0; t < m->threads; t++) {
        if ((uint64_t)m->thread[t].nsteps * m->slices > MOST_TIME) return false;
        steps += (uint64_t)m->thread[t].nsteps * m->slices;
    }
    const uint64_t rows = (uint64_t)m->threads * (m->lanes > 1 ? 1 + m->slices : 1);
    return rows * m->threads * sizeof(int16_t) <= MOST_CLOCK_BYTES && steps * m->threads <= MOST_CLOCK_WORK;
}

bool rt_clocks_open(struct rt_machine *m)
{
    if (!worth_it(m)) return true;
    m->report->hazards_checked = true;
    m->clock = calloc((size_t)m->threads * m->threads, sizeof *m->clock);
    m->trace = malloc((m->cells + 1) * sizeof *m->trace);
    if (m->lanes > 1) m->finished = calloc((size_t)m->threads * m->slices * m->threads, sizeof *m->finished);
    if (!m->clock || !m->trace || (m->lanes > 1 && !m->finished)) return false;
    for (size_t i = 0; i < m->cells; i++) m->trace[i] = (struct rt_trace){ 0, RT_NONE, 0 };
    m->access_count = 1;
    return true;
}

void rt_clocks_close(struct rt_machine *m)
{
    for (uint32_t i = 0; i < m->free_clock_count; i++) free(m->free_clocks[i]);
    free(m->free_clocks);
    free(m->clock);
    free(m->finished);
    free(m->trace);
    free(m->access);
}

int16_t *rt_clock_of(const struct rt_machine *m, uint32_t thread)
{
    return m->clock ? m->clock + (size_t)thread * m->threads : NULL;
}

static void merge(int16_t *restrict into, const int16_t *restrict from, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) into[i] = into[i] > from[i] ? into[i] : from[i];
}

bool rt_clock_copy(struct rt_machine *m, uint32_t thread, int16_t **copy)
{
    *copy = NULL;
    if (!m->clock) return true;
    const size_t bytes = m->threads * sizeof *m->clock;
    int16_t *row = m->free_clock_count ? m->free_clocks[--m->free_clock_count] : malloc(bytes);
    if (!row) return rt_reject(m, RT_VERDICT_NO_MEMORY, "no memory for a clock");
    memcpy(row, rt_clock_of(m, thread), bytes);
    *copy = row;
    return true;
}

void rt_clock_take(struct rt_machine *m, uint32_t thread, int16_t *copy)
{
    if (!copy) return;
    merge(rt_clock_of(m, thread), copy, m->threads);
    if (m->free_clock_count == m->free_clock_capacity) {
        const uint32_t capacity = m->free_clock_capacity ? 2 * m->free_clock_capacity : 64;
        void *grown = realloc(m->free_clocks, capacity * sizeof *m->free_clocks);
        if (!grown) {
            free(copy);
            return;
        }
        m->free_clocks = grown;
        m->free_clock_capacity = capacity;
    }
    m->free_clocks[m->free_clock_count++] = copy;
}

static int16_t *finished_row(const struct rt_machine *m, uint32_t thread, uint32_t slice)
{
    return m->finished + ((size_t)thread * m->slices + slice) * m->threads;
}

void rt_clock_slice_end(struct rt_machine *m, const struct rt_thread *t)
{
    const uint32_t self = (uint32_t)(t - m->thread);
    if (m->finished) memcpy(finished_row(m, self, t->slice), rt_clock_of(m, self), m->threads * sizeof *m->clock);
}

void rt_clock_wait(struct rt_machine *m, const struct rt_thread *t, uint32_t lane)
{
    if (m->finished)
        merge(rt_clock_of(m, (uint32_t)(t - m->thread)), finished_row(m, t->rank * m->lanes + lane, t->slice),
              m->threads);
}

static uint32_t access_new(struct rt_machine *m, size_t cell, uint32_t thread, int32_t time)
{
    uint32_t id = m->free_access;
    if (id) {
        m->free_access = m->access[id].next;
    } else {
        if (m->access_count >= m->access_capacity) {
            const uint32_t capacity = m->access_capacity ? 2 * m->access_capacity : 4096;
            void *grown = realloc(m->access, capacity * sizeof *m->access);
            if (!grown) return rt_reject(m, RT_VERDICT_NO_MEMORY, "no memory for the list of reads"), 0;
            m->access = grown;
            m->access_capacity = capacity;
        }
        id = m->access_count++;
    }
    m->access[id] = (struct rt_access){ m->trace[cell].accesses, thread, time };
    m->trace[cell].accesses = id;
    return id;
}

/* Thread `self` may rely on step `time` of `thread` being done. */
static bool is_past(const struct rt_machine *m, uint32_t self, uint32_t thread, int32_t time)
{
    return thread == self || rt_clock_of(m, self)[thread] >= time;
}

static bool writer_is_past(struct rt_machine *m, const struct rt_thread *t, size_t cell, const char *what)
{
    const struct rt_trace *trace = &m->trace[cell];
    const uint32_t self = (uint32_t)(t - m->thread);
    if (trace->writer == RT_NONE || is_past(m, self, trace->writer, trace->time)) return true;
    return rt_reject(m, RT_VERDICT_HAZARD, "rank %u lane %u step %u %s memory that lane %u may not have written yet",
                     t->rank, t->lane, t->index, what, m->thread[trace->writer].lane);
}

bool rt_cell_reads(struct rt_machine *m, const struct rt_thread *t, size_t cell)
{
    if (!m->clock) return true;
    if (!writer_is_past(m, t, cell, "reads")) return false;
    return m->lanes == 1 || access_new(m, cell, (uint32_t)(t - m->thread), t->time) != 0;
}

bool rt_cell_writes(struct rt_machine *m, const struct rt_thread *t, size_t cell)
{
    if (!m->clock) return true;
    struct rt_trace *trace = &m->trace[cell];
    const uint32_t self = (uint32_t)(t - m->thread);
    if (!writer_is_past(m, t, cell, "overwrites")) return false;
    while (trace->accesses) {
        const uint32_t id = trace->accesses;
        const struct rt_access a = m->access[id];
        if (a.time == RT_UNTAKEN || !is_past(m, self, a.thread, a.time))
            return rt_reject(m, RT_VERDICT_HAZARD, "rank %u lane %u step %u overwrites memory that rank %u may not "
                             "have read yet", t->rank, t->lane, t->index, m->thread[a.thread].rank);
        m->access[id].next = m->free_access;
        m->free_access = id;
        trace->accesses = a.next;
    }
    trace->writer = self;
    trace->time = t->time;
    return true;
}

uint32_t rt_cell_lend(struct rt_machine *m, size_t cell, uint32_t receiver)
{
    return m->clock ? access_new(m, cell, receiver, RT_UNTAKEN) : 0;
}

void rt_cell_forget(struct rt_machine *m, size_t cell)
{
    m->value[cell] = RT_NOTHING_THERE;
    if (!m->clock) return;
    for (uint32_t id = m->trace[cell].accesses, next; id; id = next) {
        next = m->access[id].next;
        m->access[id].next = m->free_access;
        m->free_access = id;
    }
    m->trace[cell] = (struct rt_trace){ 0, RT_NONE, 0 };
}
