/* The direct paths' life, their turns, and which path a call takes. The protocol is told in exchange.h. */
#include "exchange.h"
#include "base/clock.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define MOST_CELL (256 << 10)
#define LEAVE_NS  UINT64_C(2000000000)

/* Pages that the first operations would fault in one by one; with many ranks they come as they are needed. */
#define MOST_TOUCHED 8

static void touch(const struct rt_exchange *x)
{
#ifdef MADV_POPULATE_WRITE /* Linux 5.14; without it the first operations are slower, no more */
    const int kept = errno;
    for (uint32_t i = 0; i < x->n && x->n <= MOST_TOUCHED; i++)
        madvise(x->area[i], RT_AREA_HEADER + 4 * x->cell, MADV_POPULATE_WRITE);
    errno = kept;
#else
    (void)x;
#endif
}

struct rt_exchange *rt_exchange_open(struct rt_node *node, bool reads)
{
    const uint32_t n = rt_node_size(node);
    struct rt_exchange *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    *x = (struct rt_exchange){ .node = node, .n = n, .self = rt_node_index(node), .one_process = true,
                               .reads = reads, .turn = 1, .crowded = rt_node_oversubscribed(node) };
    x->area = calloc(n, sizeof *x->area);
    x->sources = calloc(n, sizeof *x->sources);
    x->inputs = calloc(n, sizeof *x->inputs);
    x->outputs = calloc(n, sizeof *x->outputs);
    x->packets = malloc((size_t)n * RT_PACKET); /* touched only by packets of several lines */
    if (!x->area || !x->sources || !x->inputs || !x->outputs || !x->packets) {
        rt_exchange_close(x);
        return NULL;
    }
    size_t bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        x->area[i] = rt_node_area(node, i, &bytes);
        x->one_process &= i == x->self || rt_node_reads(node, i) == 2;
    }
    x->cell = (bytes - RT_AREA_HEADER) / 4 / 4096 * 4096;
    if (x->cell > MOST_CELL) x->cell = MOST_CELL;
    touch(x);
    return x;
}

void rt_exchange_close(struct rt_exchange *x)
{
    free(x->area);
    free(x->sources);
    free(x->inputs);
    free(x->outputs);
    free(x->packets);
    free(x);
}

bool rt_direct_serves(ringtree_collective collective)
{
    return collective <= RINGTREE_BARRIER;
}

/* Only who made the same call can be in the arrays of one that made it. */
static bool is_inside(const struct rt_area *area, uint32_t hash, uint64_t turn)
{
    return atomic_load(&area->line[turn % RT_TURNS]->tag) == rt_tag(hash, turn) && atomic_load(&area->done) < turn &&
           atomic_load(&area->left) < turn;
}

void rt_direct_leave(struct rt_exchange *x, const struct rt_direct *direct)
{
    if (direct->turn == 0) return;
    struct rt_area *mine = x->area[x->self];
    const uint64_t turn = direct->turn + direct->block, end = rt_now_ns(&rt_system_clock) + LEAVE_NS;
    const struct timespec moment = { .tv_nsec = 100000 };
    atomic_store(&mine->line[turn % RT_TURNS]->tag, 0); /* who has not seen it will not come */
    atomic_store(&mine->left, turn);
    if (direct->way != RT_WAY_ASK && direct->way != RT_WAY_REACH) return; /* it gave nobody its arrays */
    for (uint32_t i = 0; i < x->n; i++)
        while (i != x->self && is_inside(x->area[i], direct->hash, turn) && rt_now_ns(&rt_system_clock) < end)
            nanosleep(&moment, NULL);
}

uint32_t rt_direct_awaits(const struct rt_exchange *x, const struct rt_direct *direct)
{
    return rt_node_rank(x->node, direct->peer < x->n ? direct->peer : x->self);
}

/* ---- turns */

uint32_t rt_call_hash(const struct rt_frame *frame)
{
    uint64_t hash = frame->sequence * UINT64_C(0x9e3779b97f4a7c15) ^ frame->count;
    hash = hash * UINT64_C(0x9e3779b97f4a7c15) ^ frame->op ^ ((uint64_t)frame->root << 32);
    hash = hash * UINT64_C(0x9e3779b97f4a7c15) ^ frame->collective ^ ((uint64_t)frame->type << 8) ^
           ((uint64_t)frame->plan << 16);
    return (uint32_t)(hash * UINT64_C(0x9e3779b97f4a7c15) >> (64 - RT_TAG_BITS));
}

ringtree_status rt_line_check(struct rt_exchange *x, uint32_t i, uint32_t hash, uint64_t turn)
{
    const uint64_t seen = atomic_load_explicit(&rt_line(x, i, turn)->tag, memory_order_acquire);
    if (seen == rt_tag(hash, turn)) return RINGTREE_OK;
    if (seen >> RT_TAG_BITS < turn) return RINGTREE_IN_PROGRESS;
    x->differing = turn;
    return RINGTREE_MISMATCH;
}

static ringtree_status lines_check(struct rt_exchange *x, struct rt_direct *direct, uint32_t hash, uint64_t turn)
{
    for (; direct->peer < x->n; direct->peer++) {
        if (direct->peer == x->self) continue;
        ringtree_status status = rt_line_check(x, direct->peer, hash, turn);
        if (status != RINGTREE_OK) return status;
    }
    direct->peer = 0;
    if (x->synced < turn) x->synced = turn;
    return RINGTREE_OK;
}

/* A line may be newer by now: then its owner went through a later gate. */
ringtree_status rt_gate(struct rt_exchange *x, struct rt_direct *direct, uint64_t turn, uint32_t depth)
{
    if (x->synced + depth > turn) return RINGTREE_OK;
    const uint64_t past = turn + 1 - depth;
    for (; direct->peer < x->n; direct->peer++) {
        if (direct->peer == x->self) continue;
        ringtree_status status = rt_line_check(x, direct->peer, x->hash[past % RT_TURNS], past);
        const struct rt_line64 *line = rt_line(x, direct->peer, past);
        if (status == RINGTREE_MISMATCH && atomic_load(&line->tag) >> RT_TAG_BITS > past) continue;
        if (status != RINGTREE_OK) return status;
    }
    direct->peer = 0;
    x->synced = past;
    return RINGTREE_OK;
}

void rt_publish(struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call, uint64_t turn,
                const void *payload, size_t bytes)
{
    struct rt_area *mine = x->area[x->self];
    struct rt_line64 *line = mine->line[turn % RT_TURNS];
    mine->call[turn % RT_TURNS].frame = call->frame;
    x->hash[turn % RT_TURNS] = direct->hash;
    if (bytes) memcpy(line->payload, payload, bytes);
    atomic_store_explicit(&line->tag, rt_tag(direct->hash, turn), memory_order_release);
    for (uint32_t i = 0; i < x->n; i++)
        if (i != x->self) rt_node_ring(x->node, i);
}

ringtree_status rt_await(struct rt_exchange *x, struct rt_direct *direct, uint64_t turn)
{
    return x->synced >= turn ? RINGTREE_OK : lines_check(x, direct, direct->hash, turn);
}

ringtree_status rt_await_root(struct rt_exchange *x, struct rt_direct *direct, uint64_t turn)
{
    if (direct->root == x->self) return RINGTREE_OK;
    direct->peer = direct->root;
    ringtree_status status = rt_line_check(x, direct->root, direct->hash, turn);
    if (status == RINGTREE_OK) direct->peer = 0;
    return status;
}

void rt_done_publish(struct rt_exchange *x, uint64_t turn)
{
    atomic_store_explicit(&x->area[x->self]->done, turn, memory_order_release);
    for (uint32_t i = 0; i < x->n; i++)
        if (i != x->self) rt_node_ring(x->node, i);
}

bool rt_done_await(struct rt_exchange *x, struct rt_direct *direct, uint64_t turn)
{
    for (; direct->peer < x->n; direct->peer++) {
        if (direct->peer == x->self) continue;
        if (atomic_load_explicit(&x->area[direct->peer]->done, memory_order_acquire) < turn) return false;
    }
    direct->peer = 0;
    return true;
}

/* ---- the choice; sizes are measured on 2 cores, see perf/baseline */

#define REACH_FROM (8 << 10)  /* below, a copy costs less than the two meetings that reaching takes */
#define ONE_SHOT   (32 << 10) /* one-shot reads n times the array where two-shot reads twice */
/* Two ranks move as many lines either way, and one-shot meets once a block; above, two-shot's fewer copies win. */
#define ONE_SHOT_OF_TWO ((size_t)2 << 20)

bool rt_goes_two_shot(const struct rt_exchange *x, const struct rt_call *call)
{
    return call->frame.collective == RINGTREE_ALL_REDUCE &&
           (x->n > 2 || call->count * call->element > ONE_SHOT_OF_TWO);
}

/* Bytes that each giver gives. */
static size_t given(const struct rt_exchange *x, const struct rt_call *call)
{
    const struct rt_direct giver = { .root = x->self };
    const uint32_t blocks = rt_input_blocks(x, &giver, call);
    return call->frame.collective == RINGTREE_BARRIER ? 0 : blocks * call->count * call->element;
}

static bool is_one_shot(const struct rt_exchange *x, size_t bytes)
{
    return bytes <= x->cell && bytes <= ONE_SHOT / (x->n - 1);
}

static enum rt_way way_of(const struct rt_exchange *x, const struct rt_call *call)
{
    const size_t bytes = given(x, call);
    if (bytes <= RT_PACKET) return RT_WAY_PACKET;
    if (call->frame.collective == RINGTREE_ALL_REDUCE) return is_one_shot(x, bytes) ? RT_WAY_CELLS : RT_WAY_ASK;
    return bytes < REACH_FROM ? RT_WAY_CELLS : RT_WAY_ASK;
}

static void begin(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call)
{
    direct->turn = x->turn;
    direct->hash = rt_call_hash(&call->frame);
    direct->root = call->frame.root; /* all ranks are here, each at its own number */
    direct->way = way_of(x, call);
    if (direct->way != RT_WAY_PACKET) direct->most = rt_cells_most(x, call);
    direct->streams = rt_streams(x, direct, call);
}

static ringtree_status advance(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call, bool *moved)
{
    if (direct->way == RT_WAY_NEW) begin(x, direct, call);
    if (direct->way == RT_WAY_PACKET) return rt_packet_advance(x, direct, call, moved);
    if (direct->way == RT_WAY_ASK) {
        ringtree_status status = rt_reach_begin(x, direct, call, moved);
        if (status != RINGTREE_OK) return status;
    }
    if (direct->way == RT_WAY_REACH) return rt_reach_advance(x, direct, call, moved);
    if (direct->way == RT_WAY_TWO_SHOT) return rt_two_shot_advance(x, direct, call, moved);
    return rt_cells_advance(x, direct, call, moved);
}

static void tell_difference(const struct rt_exchange *x, const struct rt_direct *direct, struct rt_difference *d)
{
    d->peer = rt_node_rank(x->node, direct->peer);
    d->theirs = x->area[direct->peer]->call[x->differing % RT_TURNS].frame;
    d->mine = x->area[x->self]->call[x->differing % RT_TURNS].frame;
}

ringtree_status rt_direct_advance(struct rt_exchange *x, struct rt_direct *direct, const struct rt_call *call,
                                  bool *moved, struct rt_difference *difference)
{
    ringtree_status status = advance(x, direct, call, moved);
    if (status == RINGTREE_OK) x->turn = direct->turn + direct->block + 1;
    if (status == RINGTREE_MISMATCH) tell_difference(x, direct, difference);
    if (status == RINGTREE_PEER_LOST) difference->peer = rt_node_rank(x->node, x->unread);
    return status;
}
