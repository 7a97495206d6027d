/*
 * The verbs receiver against a hostile or stale peer, on a device in memory. The input is a little program: bytes over
 * the connection, whole messages with fields of its choice, writes with any immediate to any place near the slots, and
 * receives into memory of exactly the capacity, so that ASan sees one byte too many.
 */
#include "rdma/fake.h"
#include "transports/standin_control.h"
#include "verbs/verbs.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct machine {
    struct standin      *world;
    struct rt_fabric     fabric[2];
    struct rt_link      *link;
    int                  peer;
    uint32_t             epoch;
    const unsigned char *at, *end;
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

static uint32_t next32(struct machine *m)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) value = value << 8 | next(m);
    return value;
}

static void tell(struct machine *m, const void *bytes, size_t count)
{
    if (write(m->peer, bytes, count) < 0) return; /* full or ended: input too */
}

static void say_raw(struct machine *m)
{
    size_t count = next(m);
    if (count > (size_t)(m->end - m->at)) count = (size_t)(m->end - m->at);
    tell(m, m->at, count);
    m->at += count;
}

/* What a peer of ours would say, up to a few changes. */
static void say_hello(struct machine *m)
{
    unsigned char message[RT_VERBS_MOST];
    const uint32_t how = next(m);
    struct rt_verbs_hello hello = { .epoch = ++m->epoch, .slot_bytes = 4096, .queues = how % (RT_VERBS_QUEUES + 1) };
    if (how & 0x80) hello.arrived = next(m);
    if (how & 0x80) hello.released = next(m);
    if (how & 0x40) hello.epoch = next(m);
    for (uint32_t i = 0; i < hello.queues; i++) {
        struct rt_verbs_end end = { .gid = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1 }, .mtu = 3, .layer = 2 };
        end.gid[13] = (uint8_t)(next(m) & 3);
        hello.queue[i] = (struct rt_verbs_queue_end){ next(m), next(m), end, (uint8_t)(next(m) & 7) };
    }
    tell(m, message, rt_verbs_hello_put(&hello, message));
}

static void say_short(struct machine *m)
{
    unsigned char message[RT_VERBS_MOST];
    const uint32_t how = next(m);
    struct rt_verbs_rings rings = { next32(m), how >> 4, { next(m), next(m), next(m), next(m) } };
    if (how & 1) tell(m, message, rt_verbs_rings_put(&rings, message));
    else tell(m, message, rt_verbs_ready_put(how & 2 ? next(m) : m->epoch, message));
}

/* A write or a note on one of the queue pairs that there are. */
static void strike(struct machine *m)
{
    const struct rt_verbs_link *l = (struct rt_verbs_link *)m->link;
    const struct rt_verbs_pair *pair = l->pair;
    const uint32_t how = next(m), offset = next32(m) % (8 * (4096 + 64));
    unsigned char bytes[255];
    uint32_t note = next32(m);
    struct rt_frame frame = call;
    const uint32_t count = next(m);
    if (!pair || how % RT_VERBS_QUEUES >= pair->queues || !l->slots.mr[0]) return;
    const uint32_t at = how & 0x40 ? offset : RT_VERBS_FRAME + next(m) % RT_VERBS_RING * (uint32_t)l->stride;
    memset(bytes, (int)how, sizeof(bytes));
    frame.bytes = how & 0x10 ? next32(m) : next(m) << 5;
    memcpy(bytes, &frame, sizeof(frame));
    if (how & 0x20)
        note = rt_verbs_note_put(RT_VERBS_SLICE, how % RT_VERBS_QUEUES, l->released + (note >> 30), note & 1);
    fake_hostile(pair->queue[how % RT_VERBS_QUEUES].qp->qp_num, (uintptr_t)l->slots.memory + at,
                 l->slots.mr[0]->rkey, bytes, count, note, !(how & 0x80));
}

static void receive(struct machine *m)
{
    const uint32_t how = next(m);
    struct rt_frame expect = call, frame;
    struct rt_error error = { 0 };
    const void *data = NULL;
    const size_t capacity = (size_t)(how >> 2) << 6;
    unsigned char *into = how & 1 ? malloc(capacity ? capacity : 1) : NULL;
    const ringtree_status status = rt_transport_verbs.recv(m->link, how & 2 ? &expect : NULL, into, capacity, &frame,
                                                           &data, &error);
    short events;
    rt_transport_verbs.pollfd(m->link, &events);
    if (status == RINGTREE_OK && data) {
        static volatile unsigned char sink;
        must(frame.bytes <= m->link->slot_bytes && (!into || (data == into && frame.bytes <= capacity)));
        for (uint32_t i = 0; i < frame.bytes; i += 97) sink = ((const unsigned char *)data)[i];
        (void)sink;
        rt_transport_verbs.release(m->link);
    }
    must(status <= RINGTREE_IN_PROGRESS || error.text[0]);
    free(into);
}

static void start(struct machine *m)
{
    unsigned char all[2][RT_ANNOUNCEMENT] = { { 0 } };
    int ends[2];
    rt_verbs_replace(&fake_api);
    fake_reset(2);
    m->world->settings.given[RT_TRANSPORTS] = m->world->settings.given[RT_VERBS_SLOT_BYTES] = 2;
    m->world->settings.number[RT_VERBS_SLOT_BYTES] = 4096;
    m->world->settings.number[RT_VERBS_QPS] = 2;
    standin_fabric(m->world, m->fabric);
    rt_transport_verbs.announce(&m->fabric[1], all[1]);
    memcpy(all[0], all[1], RT_ANNOUNCEMENT);
    rt_transport_verbs.hear(&m->fabric[1], all, RT_ANNOUNCEMENT);
    must(standin_pair(AF_UNIX, ends));
    standin_park(m->world, RT_VERBS_STRIPE_CLAIM, ends[0]);
    m->peer = ends[1];
    m->link = calloc(1, rt_transport_verbs.link_size);
    *m->link = (struct rt_link){ .transport = &rt_transport_verbs, .fabric = &m->fabric[1], .lane = 2 };
    must(rt_transport_verbs.open(m->link, NULL) == RINGTREE_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct machine m = { .world = standin_start(AF_UNIX, 1), .at = data, .end = data + size };
    if (!m.world) return 0;
    start(&m);
    while (m.at < m.end) {
        switch (next(&m) % 6) {
        case 0: say_raw(&m); break;
        case 1: say_hello(&m); break;
        case 2: say_short(&m); break;
        case 3: strike(&m); break;
        default: receive(&m); break;
        }
    }
    rt_transport_verbs.close(m.link);
    free(m.link);
    rt_transport_verbs.leave(&m.fabric[1]);
    must(fake_leaks() == 0);
    close(m.peer);
    standin_stop(m.world);
    return 0;
}
