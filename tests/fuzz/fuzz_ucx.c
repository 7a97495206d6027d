/*
 * The UCX receiver against a hostile or stale peer, with UCX itself played here: the input is a little program that
 * delivers messages with headers of its choice, eager or by rendezvous, and receives into memory of exactly the
 * capacity, so that ASan sees one byte too many. Also the hello, and the handle of the NCCL plugin.
 */
#include "nccl-net/handle.h"
#include "transports/standin_control.h"
#include "ucx/ucx.h"
#include <stdlib.h>
#include <string.h>

#define SLOT 64
#define TOKEN UINT64_C(0x1122334455667788)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool right)
{
    if (!right) abort();
}

/* ---- UCX: a message lies in memory of its own, its length ahead of it */

static unsigned progress(ucp_worker_h worker)
{
    (void)worker;
    return 0;
}

static void release(ucp_worker_h worker, void *data)
{
    (void)worker;
    free((size_t *)data - 1);
}

static ucs_status_ptr_t fetch(ucp_worker_h worker, void *data, void *buffer, size_t bytes,
                              const ucp_request_param_t *param)
{
    (void)param;
    must(((size_t *)data)[-1] == bytes);
    memcpy(buffer, data, bytes);
    release(worker, data);
    return NULL;
}

static ucs_status_ptr_t send_at_once(ucp_ep_h endpoint, unsigned id, const void *header, size_t header_bytes,
                                     const void *data, size_t bytes, const ucp_request_param_t *param)
{
    (void)endpoint, (void)id, (void)header, (void)header_bytes, (void)data, (void)bytes, (void)param;
    return NULL;
}

static const char *words(ucs_status_t status)
{
    (void)status;
    return "a status";
}

static const struct rt_ucx_calls calls = { .ucp_worker_progress = progress, .ucp_am_data_release = release,
                                           .ucp_am_recv_data_nbx = fetch, .ucp_am_send_nbx = send_at_once,
                                           .status_string = words };

const uint8_t *rt_control_secret(const struct rt_control *control)
{
    static const uint8_t secret[16];
    (void)control;
    return secret;
}

uint64_t rt_control_number(const struct rt_control *control)
{
    (void)control;
    return 1;
}

/* ---- the program */

struct machine {
    struct rt_fabric    fabric;
    struct rt_ucx       ucx;
    struct rt_ucx_pair  pair, *pairs[2 * RT_UCX_WAYS];
    struct rt_ucx_link  in, out;
    struct rt_ucx_sending sending;
    const uint8_t      *at, *end;
};

static const struct rt_frame call = { .sequence = 1, .count = 2, .op = 3, .root = 4, .collective = 5, .type = 6,
                                      .lane = 2 };

static uint32_t next(struct machine *m)
{
    return m->at < m->end ? *m->at++ : 0;
}

/* A header that is right but for what the program changes. */
static void deliver(struct machine *m)
{
    struct rt_ucx_header header = { .token = TOKEN, .rank = 1, .number = next(m), .taken = next(m), .lane = 2,
                                    .frame = call };
    const size_t bytes = next(m) % (SLOT + 8);
    const uint32_t changes = next(m);
    header.frame.bytes = (uint32_t)bytes;
    for (uint32_t i = 0; i < (changes & 7); i++) ((uint8_t *)&header)[next(m) % sizeof(header)] ^= (uint8_t)next(m);
    const size_t header_bytes = changes & 8 ? next(m) : changes & (16 | 64) ? RT_UCX_SHORT_BYTES : sizeof(header);
    const ucp_am_recv_param_t param = { .recv_attr = changes & 32 ? UCP_AM_RECV_ATTR_FLAG_RNDV
                                                                  : UCP_AM_RECV_ATTR_FLAG_DATA };
    uint8_t *wire = malloc(header_bytes + 1);
    memset(wire, 0, header_bytes + 1);
    memcpy(wire, &header, header_bytes < sizeof(header) ? header_bytes : sizeof(header));
    size_t *memory = malloc(sizeof(size_t) + bytes);
    memory[0] = bytes;
    memset(memory + 1, 7, bytes);
    const ucs_status_t status = changes & 16
        ? rt_ucx_credit_came(&m->ucx, wire, header_bytes, memory + 1, bytes, &param)
        : rt_ucx_slice_came(&m->ucx, wire, header_bytes, memory + 1, bytes, &param);
    if (status != UCS_INPROGRESS) free(memory);
    free(wire);
}

static void receive(struct machine *m)
{
    const size_t capacity = next(m) % (SLOT + 8);
    const uint32_t how = next(m);
    struct rt_frame expect = call, frame;
    const void *data = NULL;
    uint8_t *into = malloc(capacity + 1);
    expect.bytes = (uint32_t)capacity;
    const ringtree_status status = rt_ucx_recv(&m->in.link, how & 1 ? &expect : NULL, how & 2 ? into : NULL, capacity,
                                               &frame, &data, NULL);
    if (status == RINGTREE_OK && data) {
        must(frame.bytes <= SLOT && (!(how & 2) || (data == into && frame.bytes <= capacity)));
        for (uint32_t i = 0; i < frame.bytes; i++) must(((const uint8_t *)data)[i] == 7);
    }
    rt_ucx_release(&m->in.link);
    free(into);
}

static void send_one(struct machine *m)
{
    struct rt_frame frame = call;
    uint8_t memory[SLOT] = { 0 };
    frame.bytes = next(m) % SLOT;
    rt_ucx_send(&m->out.link, &frame, memory, NULL);
    must((uint32_t)m->out.posted - m->out.taken <= RT_UCX_SLOTS);
}

static void run(struct machine *m)
{
    while (m->at < m->end)
        switch (next(m) % 3) {
        case 0: deliver(m); break;
        case 1: receive(m); break;
        default: send_one(m); break;
        }
}

static void play(const uint8_t *data, size_t size)
{
    static struct machine m;
    struct standin *world = standin_start(AF_UNIX, 1);
    struct rt_fabric fabric[2];
    standin_fabric(world, fabric);
    world->settings.number[RT_UCX_SLOT_BYTES] = SLOT;
    memset(&m, 0, sizeof(m));
    m.fabric = fabric[0];
    m.ucx = (struct rt_ucx){ .fabric = &m.fabric, .call = &calls, .set = -1, .ready = -1, .host_only = size % 2,
                             .pairs = m.pairs };
    m.pair = (struct rt_ucx_pair){ .ucx = &m.ucx, .peer = 1, .side = -1, .stage = RT_UCX_CONNECTED, .token_in = TOKEN };
    m.pairs[1 * RT_UCX_WAYS] = &m.pair;
    const struct rt_link link = { .transport = &rt_transport_ucx, .fabric = &m.fabric, .peer = 1, .lane = 2,
                                  .slots = RT_UCX_SLOTS, .slot_bytes = SLOT };
    m.in = (struct rt_ucx_link){ .link = link, .ucx = &m.ucx, .pair = &m.pair, .inbound = rt_ucx_inbound(&m.pair, 2) };
    m.out = (struct rt_ucx_link){ .link = link, .ucx = &m.ucx, .pair = &m.pair, .sending = &m.sending };
    m.out.link.sender = true;
    m.sending.ucx = &m.ucx;
    m.pair.out[2] = &m.out;
    m.at = data;
    m.end = data + size;
    run(&m);
    for (uint32_t lane = 0; lane < RT_LINK_LANES; lane++)
        if (m.pair.in[lane]) rt_ucx_inbound_drop(m.pair.in[lane]);
    for (struct rt_ucx_inbound *in = m.ucx.inbound_orphans, *after; in; in = after) {
        after = in->orphan;
        for (uint32_t i = 0; i < RT_UCX_SLOTS; i++) free(in->arrival[i].memory);
        free(in->copies);
        free(in);
    }
    standin_stop(world);
}

static void parse(const uint8_t *data, size_t size)
{
    const uint8_t key[32] = { 0 };
    struct rt_ucx_hello hello;
    struct net_handle handle, again;
    uint8_t bytes[NET_HANDLE_BYTES] = { 0 }, written[NET_HANDLE_BYTES];
    if (size >= RT_UCX_HELLO_HEAD) {
        const size_t length = rt_ucx_hello_length(data);
        must(length == 0 || (length > RT_UCX_HELLO_HEAD && length <= RT_UCX_HELLO_MOST));
        rt_ucx_hello_check(data, size, key, &hello);
    }
    memcpy(bytes, data, size < sizeof(bytes) ? size : sizeof(bytes));
    if (!net_handle_parse(bytes, &handle)) return;
    net_handle_put(written, &handle);
    must(net_handle_parse(written, &again));
    net_handle_put(bytes, &again);
    must(memcmp(bytes, written, sizeof(bytes)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    if (data[0] % 2) parse(data + 1, size - 1);
    else play(data + 1, size - 1);
    return 0;
}
