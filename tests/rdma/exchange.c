/* See exchange.h. */
#include "exchange.h"

#define AHEAD     3 /* slices sent before as many came */
#define LANE      1
#define STILL_NS  UINT64_C(3000000000)
#define MOST      100000

struct end {
    uint64_t posted, sent, came; /* `sent` as the link counted it last */
};

static const uint32_t lengths[] = { 8, 8, 0, 188, 189, 8192, 16384, MOST };
static unsigned char memory[2][16][MOST];

static uint32_t length_of(const struct exchange *x, int sender, uint64_t number)
{
    uint64_t state = x->seed * 977 + number * 2 + (uint64_t)sender;
    return lengths[random_next(&state) % (sizeof(lengths) / sizeof(lengths[0]))];
}

static struct rt_link *make(struct exchange *x, int self, bool sender)
{
    struct rt_link *link = calloc(1, rt_transport_verbs.link_size);
    struct rt_error error = { 0 };
    if (!link) abort();
    *link = (struct rt_link){ .transport = &rt_transport_verbs, .fabric = &x->fabric[self], .lane = LANE,
                              .peer = (uint32_t)(1 - self), .sender = sender };
    if (rt_transport_verbs.open(link, &error)) abort();
    return link;
}

void exchange_close(struct exchange *x)
{
    for (int self = 0; self < 2; self++) {
        struct rt_link *links[2] = { x->out[self], x->in[self] };
        for (int i = 0; i < 2; i++) {
            if (links[i]) rt_transport_verbs.close(links[i]);
            free(links[i]);
        }
        x->out[self] = x->in[self] = NULL;
    }
}

static const char *send_one(struct exchange *x, int self, struct end *end)
{
    struct rt_error error = { 0 };
    const struct rt_frame frame = pair_frame(end->posted, length_of(x, self, end->posted));
    unsigned char *from = memory[self][end->posted % 16];
    if (end->posted - end->sent >= 16) return NULL;
    pair_fill(from, end->posted, frame.bytes);
    const ringtree_status status = rt_transport_verbs.send(x->out[self], &frame, from, &error);
    if (status == RINGTREE_OK) end->posted++;
    return status > RINGTREE_IN_PROGRESS ? wrong("send: %s", error.text) : NULL;
}

static const char *receive_one(struct exchange *x, int self, struct end *end, bool *some)
{
    struct rt_error error = { 0 };
    const struct rt_frame expect = pair_frame(end->came, length_of(x, 1 - self, end->came));
    const void *data;
    struct rt_frame got;
    const ringtree_status status =
        rt_transport_verbs.recv(x->in[self], &expect, NULL, expect.bytes, &got, &data, &error);
    if (status == RINGTREE_IN_PROGRESS) return NULL;
    if (status != RINGTREE_OK) return wrong("recv: %s", error.text);
    if (!data || got.bytes != expect.bytes || !pair_filled(data, end->came, got.bytes))
        return wrong("slice %" PRIu64 " to rank %d is broken", end->came, self);
    rt_transport_verbs.release(x->in[self]);
    end->came++;
    *some = true;
    return NULL;
}

/* One look of rank `self` at its links. */
static const char *drive(struct exchange *x, int self, struct end *end, bool *some)
{
    struct rt_error error = { 0 };
    const char *why = NULL;
    if (end->posted < x->slices && end->posted < end->came + 1 + x->seed % AHEAD) why = send_one(x, self, end);
    if (!why && end->came < x->slices) why = receive_one(x, self, end, some);
    if (!why && end->sent < end->posted) end->sent = rt_transport_verbs.sent(x->out[self], &error);
    if (error.status) return wrong("sent: %s", error.text);
    if (random_next(&x->random) % 64 == 0) rt_transport_verbs.step(&x->fabric[self]);
    return why;
}

static const char *standstill(const struct exchange *x, const struct end end[2])
{
    char text[4][400];
    for (int self = 0; self < 2; self++) {
        rt_transport_verbs.describe(x->out[self], text[2 * self], sizeof(text[0]));
        rt_transport_verbs.describe(x->in[self], text[2 * self + 1], sizeof(text[0]));
    }
    return wrong("they stand still: %" PRIu64 " came to rank 0, %" PRIu64 " to rank 1\n  0 out: %s\n  0 in: %s\n"
                 "  1 out: %s\n  1 in: %s", end[0].came, end[1].came, text[0], text[1], text[2], text[3]);
}

static bool is_over(const struct exchange *x, const struct end end[2])
{
    for (int self = 0; self < 2; self++)
        if (end[self].came < x->slices || end[self].sent < x->slices) return false;
    return true;
}

const char *exchange_run(struct exchange *x)
{
    struct end end[2] = { { 0 } };
    const char *why = NULL;
    x->random = x->seed;
    for (int self = 0; self < 2; self++) {
        x->in[self] = make(x, self, false);
        x->out[self] = make(x, self, true);
    }
    uint64_t last = rt_now_ns(&rt_system_clock);
    while (!why && !is_over(x, end)) {
        const int self = (int)(random_next(&x->random) & 1);
        bool some = false;
        why = drive(x, self, &end[self], &some);
        if (some) x->trouble(x, end[0].came + end[1].came);
        if (some) last = rt_now_ns(&rt_system_clock);
        else if (!why && rt_now_ns(&rt_system_clock) - last > STILL_NS) why = standstill(x, end);
    }
    return why;
}
