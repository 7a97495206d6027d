/*
 * The TCP receiver against bytes of a stranger who got in. The input is a little program: byte 0 gives the number of
 * connections; then orders: write these bytes, write zeros, write a frame of the expected call with any length, or
 * receive (into memory of exactly the capacity, so that ASan sees one byte too many, or in place).
 */
#include "transports/standin_control.h"
#include "tcp/tcp.h"
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SOCKETS 3

struct machine {
    struct standin      *world;
    struct rt_fabric     fabric[2];
    struct rt_link      *link;
    int                  peer[SOCKETS];
    const unsigned char *at, *end;
    unsigned char       *into; /* the same until the slice is there */
    size_t               capacity;
    bool                 asked; /* a recv() is under way, with `into` */
};

static const struct rt_frame call = { .sequence = 1, .count = 2, .op = 3, .root = 4, .collective = 5, .type = 6,
                                      .lane = 2 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool right)
{
    if (!right) abort();
}

static uint32_t next(struct machine *m)
{
    return m->at < m->end ? *m->at++ : 0;
}

static void feed(struct machine *m, uint32_t socket, const void *bytes, size_t count)
{
    if (send(m->peer[socket % SOCKETS], bytes, count, MSG_NOSIGNAL) < 0) return; /* full or ended: input too */
}

static void feed_frame(struct machine *m)
{
    struct rt_frame frame = call;
    frame.bytes = next(m);
    frame.bytes |= next(m) << 8;
    frame.bytes |= next(m) << 16;
    feed(m, 0, &frame, sizeof(frame));
}

static void forget_into(struct machine *m)
{
    free(m->into);
    m->into = NULL;
    m->asked = false;
}

static void receive(struct machine *m)
{
    const uint32_t how = next(m);
    struct rt_frame expect = call, frame;
    struct rt_error error = { 0 };
    const void *data = NULL;
    if (!m->asked) {
        m->capacity = how & 1 ? (size_t)(how >> 1) << (how >> 5) : how >> 1 << 11;
        m->into = how & 1 ? malloc(m->capacity ? m->capacity : 1) : NULL;
        m->asked = true;
    }
    expect.bytes = (uint32_t)m->capacity;
    const ringtree_status status =
        rt_transport_tcp.recv(m->link, how & 2 ? &expect : NULL, m->into, m->capacity, &frame, &data, &error);
    short events;
    rt_transport_tcp.pollfd(m->link, &events);
    if (status == RINGTREE_IN_PROGRESS) return;
    if (status == RINGTREE_OK && data) {
        static volatile unsigned char sink;
        must(frame.bytes <= m->link->slot_bytes && (!m->into || (data == m->into && frame.bytes <= m->capacity)));
        for (uint32_t i = 0; i < frame.bytes; i += 97) sink = ((const unsigned char *)data)[i];
        (void)sink;
        rt_transport_tcp.release(m->link);
    }
    if (status != RINGTREE_OK)
        must((status == RINGTREE_PEER_LOST || status == RINGTREE_UNSUPPORTED) && error.text[0]);
    forget_into(m);
}

static void order(struct machine *m)
{
    static const unsigned char zeros[256 * 1024];
    const uint32_t what = next(m), socket = what >> 3;
    size_t count;
    switch (what & 7) {
    case 0: case 1:
        count = next(m);
        if (count > (size_t)(m->end - m->at)) count = (size_t)(m->end - m->at);
        feed(m, socket, m->at, count);
        m->at += count;
        break;
    case 2: feed(m, socket, zeros, (size_t)next(m) << 10); break;
    case 3: feed_frame(m); break;
    case 4: shutdown(m->peer[socket % SOCKETS], SHUT_WR); break;
    default: receive(m); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct machine m = { .world = standin_start(AF_UNIX, 1), .at = data, .end = data + size };
    if (!m.world) return 0;
    const uint32_t first = next(&m);
    const unsigned char greeting[RT_TCP_GREETING] = { 'R', 'T', 'C', 1, (unsigned char)(1 + first % SOCKETS) };
    standin_fabric(m.world, m.fabric);
    for (uint32_t i = 0; i < SOCKETS; i++) {
        int ends[2];
        must(standin_pair(AF_UNIX, ends));
        standin_park(m.world, i, ends[0]);
        m.peer[i] = ends[1];
    }
    m.link = calloc(1, rt_transport_tcp.link_size);
    *m.link = (struct rt_link){ .transport = &rt_transport_tcp, .fabric = &m.fabric[1], .lane = 2 };
    must(rt_transport_tcp.open(m.link, NULL) == RINGTREE_OK);
    if (first < 0x80) feed(&m, 0, greeting, sizeof(greeting));
    while (m.at < m.end) order(&m);
    rt_transport_tcp.close(m.link);
    free(m.link);
    free(m.into);
    for (uint32_t i = 0; i < SOCKETS; i++) close(m.peer[i]);
    standin_stop(m.world);
    return 0;
}
