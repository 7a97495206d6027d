/* Two ranks and a link between them, driven in turn by one thread. */
#include "conformance.h"
#include <stdarg.h>
#include <sched.h>

uint64_t conformance_patience_ns = UINT64_C(10000000000);

const char *wrong(const char *format, ...)
{
    static _Thread_local char text[1400];
    char fresh[1400]; /* an argument may be the verdict before */
    va_list args;

    va_start(args, format);
    vsnprintf(fresh, sizeof(fresh), format, args);
    va_end(args);
    memcpy(text, fresh, sizeof(text));
    return text;
}

uint64_t random_next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t x = *state ^ (*state >> 31);
    return (x * UINT64_C(0x9e3779b97f4a7c15)) >> 16;
}

struct rt_frame pair_frame(uint64_t sequence, uint32_t bytes)
{
    return (struct rt_frame){ .sequence = sequence, .count = UINT64_C(0x1122334455667788) ^ sequence, .op = 0x100,
                              .root = RT_NONE, .collective = 3, .type = 7, .lane = 2, .plan = 0, .bytes = bytes };
}

static unsigned char byte_of(uint64_t sequence, size_t i)
{
    return (unsigned char)((i * 167 + (i >> 8) * 31 + (i >> 16) * 7 + sequence * 101) ^ (sequence >> 8));
}

void pair_fill(void *memory, uint64_t sequence, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) ((unsigned char *)memory)[i] = byte_of(sequence, i);
}

bool pair_filled(const void *memory, uint64_t sequence, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (((const unsigned char *)memory)[i] != byte_of(sequence, i)) return false;
    return true;
}

static struct rt_link *make_link(struct pair *pair, int self)
{
    struct rt_link *link = calloc(1, pair->transport->link_size);
    if (!link) abort();
    link->transport = pair->transport;
    link->fabric = &pair->fabric[self];
    link->peer = (uint32_t)(1 - self);
    link->lane = 2;
    link->sender = self == 0;
    return link;
}

const char *pair_open(struct pair *pair, const struct fixture *fixture, bool *skip)
{
    struct rt_error error = { 0 };
    *pair = (struct pair){ .fixture = fixture, .transport = fixture->transport };
    const char *why = fixture->start(fixture, pair->fabric, &pair->world);
    *skip = why != NULL;
    if (why) return why;
    char reason[200] = "";
    if (!pair->transport->reaches(&pair->fabric[0], 1, reason, sizeof(reason)))
        return wrong("rank 0 does not reach rank 1: %s", reason);
    pair->out = make_link(pair, 0);
    pair->in = make_link(pair, 1);
    if (pair->transport->open(pair->in, &error) || pair->transport->open(pair->out, &error))
        return wrong("open: %s", error.text);
    if (pair->out->slots != pair->in->slots || pair->out->slot_bytes != pair->in->slot_bytes)
        return wrong("the two ends have other slots");
    return pair->out->slots < 2 || pair->out->slot_bytes == 0 ? wrong("%u slots", pair->out->slots) : NULL;
}

static void close_one(struct pair *pair, struct rt_link **link)
{
    if (!*link) return;
    pair->transport->close(*link);
    free(*link);
    *link = NULL;
}

void pair_close_out(struct pair *pair)
{
    close_one(pair, &pair->out);
}

void pair_close_in(struct pair *pair)
{
    close_one(pair, &pair->in);
}

void pair_close(struct pair *pair)
{
    pair_close_out(pair);
    pair_close_in(pair);
    if (pair->world) pair->fixture->stop(pair->world);
    pair->world = NULL;
}

static uint64_t deadline(void)
{
    return rt_now_ns(&rt_system_clock) + conformance_patience_ns;
}

const char *pair_send(struct pair *pair, const struct rt_frame *frame, const void *data)
{
    struct rt_error error = { 0 };
    for (uint64_t end = deadline(); rt_now_ns(&rt_system_clock) < end; sched_yield()) {
        ringtree_status status = pair->transport->send(pair->out, frame, data, &error);
        if (status == RINGTREE_OK) return NULL;
        if (status != RINGTREE_IN_PROGRESS) return wrong("send: %s", error.text);
    }
    return wrong("slice %" PRIu64 " was not taken", frame->sequence);
}

const char *pair_first(struct pair *pair, const struct rt_frame *frame, const void *data)
{
    struct rt_error error = { 0 };
    struct rt_frame got;
    const void *none;
    for (uint64_t end = deadline(); rt_now_ns(&rt_system_clock) < end;) {
        ringtree_status status = pair->transport->send(pair->out, frame, data, &error);
        if (status == RINGTREE_OK) return NULL;
        if (status != RINGTREE_IN_PROGRESS) return wrong("send: %s", error.text);
        pair->transport->recv(pair->in, NULL, NULL, 0, &got, &none, NULL);
    }
    return wrong("slice %" PRIu64 " was not taken", frame->sequence);
}

const char *pair_recv(struct pair *pair, const struct rt_frame *expect, void *into, size_t capacity,
                      struct rt_frame *frame, const void **data)
{
    struct rt_error error = { 0 };
    for (uint64_t end = deadline(); rt_now_ns(&rt_system_clock) < end; sched_yield()) {
        ringtree_status status = pair->transport->recv(pair->in, expect, into, capacity, frame, data, &error);
        if (status == RINGTREE_OK) return NULL;
        if (status != RINGTREE_IN_PROGRESS) return wrong("recv: %s", error.text);
        if (pair->out) pair->transport->sent(pair->out, NULL); /* moves the rest of a long slice */
    }
    return wrong("slice %" PRIu64 " did not come", expect ? expect->sequence : 0);
}
