/*
 * Small arrays: each giver writes its array into tagged lines, each taker reads everybody's. The lines of a packet are
 * looked at together, so that their misses overlap; the last one to come ends the wait.
 */
#include "exchange.h"
#include "reduce/reduce.h"

#define QUICK_LOOKS 20 /* the peer is mostly about to come */

static uint32_t lines_of(size_t bytes)
{
    return bytes ? (uint32_t)((bytes + RT_PAYLOAD - 1) / RT_PAYLOAD) : 1;
}

/* The lines after the first. */
static void write_lines(struct rt_exchange *x, const struct rt_direct *direct, const unsigned char *source,
                        size_t bytes)
{
    struct rt_line64 *line = rt_line(x, x->self, direct->turn);
    const uint64_t tag = rt_tag(direct->hash, direct->turn);
    const uint32_t whole = (uint32_t)(bytes / RT_PAYLOAD);
    for (uint32_t k = 1; k < whole; k++) {
        memcpy(line[k].payload, source + (size_t)k * RT_PAYLOAD, RT_PAYLOAD);
        atomic_store_explicit(&line[k].tag, tag, memory_order_release);
    }
    if (whole == 0 || bytes % RT_PAYLOAD == 0) return;
    memcpy(line[whole].payload, source + (size_t)whole * RT_PAYLOAD, bytes % RT_PAYLOAD);
    atomic_store_explicit(&line[whole].tag, tag, memory_order_release);
}

static void give(struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call)
{
    const size_t elements = call->count * rt_input_blocks(x, direct, call), bytes = elements * call->element;
    const unsigned char *source = call->input;
    if (call->frame.collective == RINGTREE_BARRIER || !rt_gives(direct, call, x->self)) {
        rt_publish(x, direct, call, direct->turn, NULL, 0);
        return;
    }
    if (rt_is_prepared(call)) {
        source = x->packets + x->self * (size_t)RT_PACKET;
        rt_prepare(x, call, x->packets + x->self * (size_t)RT_PACKET, call->input, elements);
    }
    write_lines(x, direct, source, bytes);
    rt_publish(x, direct, call, direct->turn, source, bytes < RT_PAYLOAD ? bytes : RT_PAYLOAD);
}

static ringtree_status lines_ready(struct rt_exchange *x, const struct rt_direct *direct, uint32_t i,
                                   uint32_t first, uint32_t last)
{
    const struct rt_line64 *line = rt_line(x, i, direct->turn);
    const uint64_t tag = rt_tag(direct->hash, direct->turn);
    uint64_t differ = 0;
    for (uint32_t k = first; k <= last; k++)
        differ |= atomic_load_explicit(&line[k].tag, memory_order_acquire) ^ tag;
    if (!differ) return RINGTREE_OK;
    ringtree_status status = rt_line_check(x, i, direct->hash, direct->turn);
    return status == RINGTREE_OK ? RINGTREE_IN_PROGRESS : status; /* OK: only the first line has come */
}

/* x->sources[i] = `bytes` of rank i's packet from `skip` on. */
static ringtree_status take(struct rt_exchange *x, const struct rt_direct *direct, uint32_t i, size_t skip,
                            size_t bytes)
{
    const uint32_t first = (uint32_t)(skip / RT_PAYLOAD), last = lines_of(skip + bytes) - 1;
    ringtree_status status = lines_ready(x, direct, i, first, last);
    for (int k = 0; k < QUICK_LOOKS && status == RINGTREE_IN_PROGRESS; k++)
        status = lines_ready(x, direct, i, first, last);
    if (status != RINGTREE_OK) return status;
    const struct rt_line64 *line = rt_line(x, i, direct->turn);
    unsigned char *packet = x->packets + i * (size_t)RT_PACKET;
    x->sources[i] = line[first].payload + skip % RT_PAYLOAD;
    if (first == last) return RINGTREE_OK;
    for (uint32_t k = first; k <= last; k++) memcpy(packet + (size_t)k * RT_PAYLOAD, line[k].payload, RT_PAYLOAD);
    x->sources[i] = packet + skip;
    return RINGTREE_OK;
}

/* Of this turn, by who takes all that is given. */
static bool saw_all(const struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call)
{
    return x->n == 2 ? rt_gives(direct, call, 1 - x->self) : direct->root == RT_NONE;
}

static ringtree_status take_all(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call)
{
    const size_t block = call->frame.collective == RINGTREE_BARRIER ? 0 : call->count * call->element;
    const size_t skip = rt_has_pieces(call) ? x->self * block : 0;
    for (; direct->peer < x->n; direct->peer++) {
        const uint32_t i = direct->peer;
        if (i == x->self || !rt_gives(direct, call, i)) continue;
        ringtree_status status = take(x, direct, i, skip, block);
        if (status != RINGTREE_OK) return status;
    }
    direct->peer = 0;
    const unsigned char *own = rt_is_prepared(call) ? x->packets + x->self * (size_t)RT_PACKET : call->input;
    x->sources[x->self] = own ? own + skip : NULL;
    rt_only_givers(x, direct, call);
    if (saw_all(x, direct, call)) x->synced = direct->turn;
    return RINGTREE_OK;
}

/* ---- one line each */

#define LINE_LOOKS 100 /* about as long as the line of a peer that comes at the same time takes */

/* Bytes that each giver gives. */
static size_t line_bytes(const struct rt_exchange *x, const struct rt_call *call)
{
    if (call->frame.collective == RINGTREE_BARRIER) return 0;
    return call->count * call->element * (rt_has_pieces(call) ? x->n : 1);
}

bool rt_line_fits(const struct rt_exchange *x, const struct rt_call *call)
{
    return line_bytes(x, call) <= RT_PAYLOAD && !rt_is_prepared(call) && !call->divided_last;
}

bool rt_line_publish(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call)
{
    if (x->synced + RT_TURNS <= x->turn) return false;
    *direct = (struct rt_direct){ .turn = x->turn, .hash = rt_call_hash(&call->frame), .root = call->frame.root,
                                  .way = RT_WAY_PACKET, .phase = 1 };
    const bool all = call->frame.collective == RINGTREE_ALL_REDUCE;
    rt_publish(x, direct, call, direct->turn, call->input,
               all ? call->count * call->element : rt_gives(direct, call, x->self) ? line_bytes(x, call) : 0);
    return true;
}

static bool line_came(const struct rt_line64 *line, uint64_t tag)
{
    for (int k = 0; atomic_load_explicit(&line->tag, memory_order_acquire) != tag; k++)
        if (k == LINE_LOOKS) return false;
    return true;
}

/* x->sources[i] = what rank i's line has for this rank, or NULL; false: not all have come. */
static bool lines_came(struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call)
{
    const uint64_t tag = rt_tag(direct->hash, direct->turn);
    const size_t skip = rt_has_pieces(call) ? x->self * call->count * call->element : 0;
    for (uint32_t i = 0; i < x->n; i++) {
        const struct rt_line64 *line = rt_line(x, i, direct->turn);
        const bool gives = rt_gives(direct, call, i);
        x->sources[i] = gives ? (i == x->self ? (const unsigned char *)call->input : line->payload) + skip : NULL;
        if (gives && i != x->self && !line_came(line, tag)) return false;
    }
    return true;
}

/* The commonest by far asks no questions. */
static bool all_reduce_take(struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call)
{
    const uint64_t tag = rt_tag(direct->hash, direct->turn);
    for (uint32_t i = 0; i < x->n; i++) {
        const struct rt_line64 *line = rt_line(x, i, direct->turn);
        x->sources[i] = i == x->self ? call->input : line->payload;
        if (!line_came(line, tag)) return false; /* its own is there */
    }
    rt_reduce_many(call->output, x->sources, x->n, call->count, call->type, call->op);
    x->synced = direct->turn;
    return true;
}

static bool other_take(struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call)
{
    if (!rt_takes(direct, call, x->self)) return true;
    if (!lines_came(x, direct, call)) return false;
    if (call->frame.collective != RINGTREE_BARRIER) rt_combine(x, direct, call, 0, call->count);
    if (saw_all(x, direct, call)) x->synced = direct->turn;
    return true;
}

bool rt_line_take(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call)
{
    const bool all = call->frame.collective == RINGTREE_ALL_REDUCE;
    if (!(all ? all_reduce_take(x, direct, call) : other_take(x, direct, call))) return false;
    x->turn = direct->turn + 1;
    return true;
}

ringtree_status rt_packet_advance(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call,
                                  bool *moved)
{
    if (direct->phase == 0) {
        ringtree_status status = rt_gate(x, direct, direct->turn, RT_TURNS);
        if (status != RINGTREE_OK) return status;
        give(x, direct, call);
        direct->phase = 1;
        *moved = true;
    }
    if (!rt_takes(direct, call, x->self)) return RINGTREE_OK;
    ringtree_status status = take_all(x, direct, call);
    if (status != RINGTREE_OK) return status;
    if (call->frame.collective != RINGTREE_BARRIER) rt_combine(x, direct, call, 0, call->count);
    return RINGTREE_OK;
}
