/* Messages in flight: one queue per (sender, receiver, lane), found by number among few ranks, by hash among many. */
#include "machine.h"
#include <stdlib.h>

#define MOST_NUMBERED (UINT64_C(1) << 20)

static size_t slot_of(const struct rt_machine *m, uint64_t key)
{
    return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (m->pipe_capacity - 1);
}

static bool grow(struct rt_machine *m)
{
    struct rt_pipe *old = m->pipes;
    const size_t capacity = m->pipe_capacity;
    m->pipe_capacity = capacity ? 2 * capacity : 1024;
    m->pipes = calloc(m->pipe_capacity, sizeof *m->pipes);
    if (!m->pipes) {
        m->pipes = old;
        m->pipe_capacity = capacity;
        return false;
    }
    for (size_t i = 0; i < capacity; i++) {
        if (!old[i].key) continue;
        size_t at = slot_of(m, old[i].key);
        while (m->pipes[at].key) at = (at + 1) & (m->pipe_capacity - 1);
        m->pipes[at] = old[i];
    }
    free(old);
    return true;
}

static struct rt_pipe *hashed(struct rt_machine *m, uint64_t key)
{
    if (2 * m->pipe_count >= m->pipe_capacity && !grow(m)) return NULL;
    size_t at = slot_of(m, key);
    while (m->pipes[at].key && m->pipes[at].key != key) at = (at + 1) & (m->pipe_capacity - 1);
    return &m->pipes[at];
}

static struct rt_pipe *numbered(struct rt_machine *m, uint64_t key, uint64_t count)
{
    if (!m->pipes) {
        m->pipes = calloc(count, sizeof *m->pipes);
        if (!m->pipes) return NULL;
        m->pipe_capacity = count;
    }
    return &m->pipes[key - 1];
}

/* Valid until the next call. NULL: no memory, rejected. */
struct rt_pipe *rt_pipe_find(struct rt_machine *m, uint32_t from, uint32_t to, uint32_t lane)
{
    const uint64_t key = ((uint64_t)from * m->n + to) * m->lanes + lane + 1, count = (uint64_t)m->n * m->n * m->lanes;
    struct rt_pipe *pipe = count <= MOST_NUMBERED ? numbered(m, key, count) : hashed(m, key);
    if (!pipe) return rt_reject(m, RT_VERDICT_NO_MEMORY, "no memory for links"), NULL;
    if (pipe->key) return pipe;
    m->pipe_count++;
    *pipe = (struct rt_pipe){ .key = key, .sender = from * m->lanes + lane, .receiver = to * m->lanes + lane };
    return pipe;
}

struct rt_message *rt_message_new(struct rt_machine *m, uint32_t span)
{
    struct rt_message *message = m->free_messages;
    if (message) m->free_messages = message->next;
    else message = malloc(sizeof *message);
    if (!message) return rt_reject(m, RT_VERDICT_NO_MEMORY, "no memory for a message"), NULL;
    const uint32_t room = span < m->columns ? span : m->columns;
    *message = (struct rt_message){ .span = span, .room = room };
    message->parts = room > 1 ? malloc(room * sizeof *message->parts) : &message->one;
    if (message->parts) return message;
    message->parts = &message->one;
    rt_message_free(m, message);
    return rt_reject(m, RT_VERDICT_NO_MEMORY, "no memory for a message"), NULL;
}

void rt_message_free(struct rt_machine *m, struct rt_message *message)
{
    if (message->parts != &message->one) free(message->parts);
    message->next = m->free_messages;
    m->free_messages = message;
}

void rt_pipes_close(struct rt_machine *m)
{
    for (size_t i = 0; i < m->pipe_capacity; i++) {
        while (m->pipes[i].first) {
            struct rt_message *message = m->pipes[i].first;
            m->pipes[i].first = message->next;
            free(message->clock);
            rt_message_free(m, message);
        }
    }
    free(m->pipes);
    while (m->free_messages) {
        struct rt_message *message = m->free_messages;
        m->free_messages = message->next;
        free(message);
    }
}
