/* Work and constants -> seconds; see cost.h for the model. */
#include "cost.h"

static double most(double a, double b)
{
    return a > b ? a : b;
}

/* The logarithm, linear between powers of two: exact arithmetic, alike everywhere. */
static double log2_about(double x)
{
    int k = 0;
    for (; x >= 2; x /= 2) k++;
    return k + (x > 1 ? x - 1 : 0);
}

/* ---- corrections */

uint32_t rt_cost_way(ringtree_collective collective, const struct rt_algorithm *algorithm)
{
    uint32_t way = algorithm ? 0 : rt_algorithm_count + (uint32_t)collective;
    if (algorithm)
        while (way < rt_algorithm_count && rt_algorithms[way] != algorithm) way++;
    return way < RT_COST_WAYS ? way : RT_COST_WAYS;
}

enum rt_cost_case rt_cost_case_of(const struct rt_sites *s)
{
    const uint8_t kind = s->nodes > 1 ? s->between : s->inside;
    return kind == RT_LINK_NETWORK ? RT_COST_NETWORK : kind == RT_LINK_LOOPBACK ? RT_COST_TCP : RT_COST_SHM;
}

const char *rt_cost_case_name(enum rt_cost_case which)
{
    static const char *const names[RT_COST_CASES] = { "shm", "tcp", "network" };
    return (unsigned)which < RT_COST_CASES ? names[which] : "?";
}

struct point {
    uint32_t at;
    double   part; /* of the next one */
};

static struct point point_of(double x, uint32_t count)
{
    if (x <= 0) return (struct point){ 0, 0 };
    const uint32_t at = (uint32_t)x;
    if (at >= count - 1) return (struct point){ count - 2, 1 };
    return (struct point){ at, x - at };
}

double rt_cost_correction(const struct rt_costs *costs, const struct rt_sites *s, uint32_t way, size_t bytes)
{
    if (way >= RT_COST_WAYS) return 1;
    const float(*table)[RT_COST_SIZES] = costs->correction[rt_cost_case_of(s)][way];
    const struct point n = point_of(log2_about(s->ranks) - 1, RT_COST_RANKS);
    const struct point b = point_of((log2_about((double)bytes) - 3) / 3, RT_COST_SIZES);
    const double few = table[n.at][b.at] * (1 - b.part) + table[n.at][b.at + 1] * b.part;
    const double many = table[n.at + 1][b.at] * (1 - b.part) + table[n.at + 1][b.at + 1] * b.part;
    return few * (1 - n.part) + many * n.part;
}

#define LEAST_CORRECTION 0.001f
#define MOST_CORRECTION  1000.0f

void rt_cost_correct(struct rt_costs *costs, const struct rt_sites *s, uint32_t way, size_t bytes, double factor)
{
    if (way >= RT_COST_WAYS) return;
    const struct point n = point_of(log2_about(s->ranks) - 1, RT_COST_RANKS);
    const struct point b = point_of((log2_about((double)bytes) - 3) / 3, RT_COST_SIZES);
    for (uint32_t i = 0; i < 4; i++) {
        float *at = &costs->correction[rt_cost_case_of(s)][way][n.at + i / 2][b.at + i % 2];
        const float changed = *at * (float)factor;
        *at = changed < LEAST_CORRECTION ? LEAST_CORRECTION : changed > MOST_CORRECTION ? MOST_CORRECTION : changed;
    }
}

/* ---- algorithms */

/* Ranks that share a core with others wait for the scheduler, round by round. */
static double crowding(const struct rt_sites *s)
{
    return s->crowd > s->cores ? (double)s->crowd / s->cores - 1 : 0;
}

/* The cores of a machine do the work of all nodes on it. */
static double on_cores(const struct rt_sites *s, double seconds_of_node)
{
    return seconds_of_node * s->crowd / s->local / s->cores;
}

struct parts {
    double latency, rank, cores, wire;
    double after; /* what cannot be done while a wire is at work: slices are added when they are there */
};

/* A slice that is long enough goes over all connections of a link; each part of it is a message. */
static uint32_t spread_of(const struct rt_sites *s, double slice)
{
    return s->nodes > 1 && s->connections > 1 && slice > RT_COST_SPREAD ? s->connections : 1;
}

/* What the connections take that the busiest rank sends over. Messages beside one another go to different ranks. */
static double flow_of(const struct rt_link_cost *out, const struct rt_work *w, double far, uint32_t spread)
{
    const double rounds = w->inside + w->between;
    const double peers = rounds > 0 ? most(1, w->messages / rounds) : 1;
    return far * w->bytes * out->flow_byte / (peers * spread);
}

static struct parts parts_of(const struct rt_costs *costs, const struct rt_sites *s, const struct rt_work *w,
                             double slices, double slice)
{
    const struct rt_link_cost *in = &costs->link[s->inside], *out = &costs->link[s->between];
    const double rounds = w->inside + w->between, far = rounds > 0 ? w->between / rounds : 0;
    const uint32_t spread = spread_of(s, slice);
    const double message = in->message * (1 - far) + out->message * far * spread;
    const double byte = in->byte * (1 - far) + out->byte * far;
    const double late = w->inside * (in->latency + crowding(s) * in->crowded) +
                        w->between * (out->latency + crowding(s) * out->crowded);
    struct parts p;
    p.latency = w->hops > 0 ? late + w->hops * slice * byte : late * slices;
    p.rank = w->messages * slices * message + w->bytes * byte + w->added * costs->add;
    p.cores = on_cores(s, w->messages_all * slices * message + w->bytes_all * byte + w->added_all * costs->add);
    p.wire = most(w->wire * out->wire_byte, flow_of(out, w, far, spread));
    p.after = p.wire > 0 ? w->added * costs->add : 0;
    return p;
}

static double ceiling(double x)
{
    const double whole = (double)(uint64_t)x;
    return whole < x ? whole + 1 : whole;
}

static double slices_of(const struct rt_work *w, double slice)
{
    const double slices = ceiling(w->chunk / slice);
    return slices > 1 ? slices : 1;
}

static void take(const struct parts *p, struct rt_prediction *prediction)
{
    const double work = most(p->rank, most(p->cores, p->wire + p->after));
    prediction->seconds = p->latency + work;
    prediction->dominant = p->latency >= work   ? RT_COST_LATENCY
                           : p->wire + p->after >= work ? RT_COST_WIRE
                           : p->cores > p->rank         ? RT_COST_CORES
                                                        : RT_COST_RANK;
}

#define LEAST_SLICE 8192

/* Trees and chains pass slices on: many short ones fill it soon, few long ones cost fewer messages. */
static void predict_algorithm(const struct rt_costs *costs, const struct rt_sites *s, const struct rt_work *w,
                              size_t slot, size_t forced, struct rt_prediction *prediction)
{
    const double whole = (double)slot / w->span;
    double slice = forced && (double)forced < whole ? (double)forced : whole;
    const double piece = slice < w->chunk ? slice : w->chunk;
    struct parts p = parts_of(costs, s, w, slices_of(w, slice), piece);
    take(&p, prediction);
    prediction->slice = forced;
    prediction->connections = spread_of(s, piece);
    if (forced || w->hops <= 0 || w->chunk <= LEAST_SLICE) return;
    for (slice = LEAST_SLICE; slice < whole; slice *= 2) {
        struct rt_prediction other = *prediction;
        p = parts_of(costs, s, w, slices_of(w, slice), slice);
        take(&p, &other);
        other.slice = (size_t)slice;
        other.connections = spread_of(s, slice);
        if (other.seconds < prediction->seconds) *prediction = other;
    }
}

/* ---- the direct paths: what a rank copies, reads and adds, and how often all meet */

struct exchange {
    double meetings, blocks, bytes, all; /* of the busiest rank; bytes of all ranks */
};

#define BLOCK      (128 << 10)
#define LEAST_CELL 504 /* more than a packet */

static struct exchange exchange_of(ringtree_collective collective, double n, double bytes)
{
    const double blocks = bytes > LEAST_CELL ? ceiling(bytes / BLOCK) : 0;
    switch (collective) {
    case RINGTREE_ALL_REDUCE:
    case RINGTREE_BARRIER:
        if (bytes * (n - 1) <= BLOCK / 4 || (n <= 2 && bytes <= 16 * BLOCK))
            return (struct exchange){ blocks > 1 ? blocks : 1, blocks, (1 + n) * bytes, n * (1 + n) * bytes };
        return (struct exchange){ 2 * blocks, blocks, 3 * bytes, 3 * n * bytes };
    case RINGTREE_BROADCAST:
        return (struct exchange){ blocks > 1 ? blocks : 1, blocks, 2 * bytes, n * bytes };
    case RINGTREE_REDUCE:
        return (struct exchange){ blocks > 1 ? blocks : 1, blocks, n * bytes, 2 * n * bytes };
    case RINGTREE_GATHER:
    case RINGTREE_SCATTER:
        return (struct exchange){ blocks > 1 ? blocks : 1, blocks, n * bytes, 2 * n * bytes };
    default: /* a block from every rank */
        return (struct exchange){ blocks > 1 ? blocks : 1, blocks, (1 + n) * bytes, n * (1 + n) * bytes };
    }
}

static void predict_exchange(const struct rt_costs *costs, const struct rt_sites *s, ringtree_collective collective,
                             double bytes, struct rt_prediction *prediction)
{
    const struct rt_exchange_cost *c = &costs->exchange;
    const double n = s->ranks;
    const struct exchange e = exchange_of(collective, n, bytes);
    struct parts p = { .latency = e.meetings * (c->latency + (n - 2) * c->rank + crowding(s) * c->crowded),
                       .rank = e.blocks * c->block + e.bytes * c->byte };
    const double memory = e.all > c->cache ? (e.all - c->cache) * c->memory : 0;
    p.cores = on_cores(s, n * e.blocks * c->block + e.all * c->byte) + memory;
    p.rank += memory;
    take(&p, prediction);
    prediction->connections = 1;
    prediction->rounds = e.meetings;
    prediction->bytes = e.bytes;
}

void rt_cost_predict(const struct rt_costs *costs, const struct rt_sites *s, ringtree_collective collective,
                     const struct rt_algorithm *algorithm, size_t bytes, size_t slot, size_t slice,
                     struct rt_prediction *prediction)
{
    *prediction = (struct rt_prediction){ .seconds = 0 };
    if (algorithm) {
        struct rt_work work;
        rt_work_of(s, collective, algorithm->name, (double)bytes, &work);
        predict_algorithm(costs, s, &work, slot, slice, prediction);
        prediction->rounds = work.inside + work.between;
        prediction->bytes = work.bytes;
    } else {
        predict_exchange(costs, s, collective, (double)bytes, prediction);
    }
    prediction->correction = rt_cost_correction(costs, s, rt_cost_way(collective, algorithm), bytes);
    prediction->seconds *= prediction->correction;
}

#define LARGE (64 << 20)

uint32_t rt_cost_connections(const struct rt_costs *costs, const struct rt_sites *sites, size_t slot,
                             double seconds[RT_COST_SPREADS])
{
    const struct rt_algorithm *ring = rt_algorithm_find(RINGTREE_ALL_REDUCE, "ring");
    struct rt_sites s = *sites;
    uint32_t best = 1;
    double least = 0;
    for (uint32_t i = 0; i < RT_COST_SPREADS; i++) {
        struct rt_prediction p;
        s.connections = 1u << i;
        rt_cost_predict(costs, &s, RINGTREE_ALL_REDUCE, ring, LARGE, slot, 0, &p);
        if (seconds) seconds[i] = p.seconds;
        if (i > 0 && !rt_cost_beats(p.seconds, least)) continue;
        best = s.connections;
        least = p.seconds;
    }
    return best;
}

/* ---- places and words */

struct rt_sites rt_sites_of(uint32_t ranks, const uint32_t *node_of)
{
    struct rt_sites s = { .ranks = ranks, .nodes = 1, .blocked = true };
    uint32_t local[2] = { 0, 0 }; /* of the run at hand; of node 0 for ranks that are not in runs */
    for (uint32_t r = 0; r < ranks; r++) {
        const uint32_t node = node_of[r];
        if (node >= s.nodes) s.nodes = node + 1;
        if (r > 0 && node != node_of[r - 1] && node + 1 != s.nodes) s.blocked = false;
        local[0] = r > 0 && node == node_of[r - 1] ? local[0] + 1 : 1;
        local[1] += node == 0;
        if (local[0] > s.local) s.local = local[0];
        s.crossing += node == 0 && node_of[(r + 1) % ranks] != 0;
    }
    if (!s.blocked) s.local = local[1];
    s.crowd = s.local;
    s.cores = s.local ? s.local : 1;
    s.between = RT_LINK_NETWORK;
    return s;
}

const char *rt_link_kind_name(enum rt_link_kind kind)
{
    static const char *const names[RT_LINK_KINDS] = { "shm", "shm-far", "loopback", "network" };
    return (unsigned)kind < RT_LINK_KINDS ? names[kind] : "?";
}

const char *rt_dominant_name(enum rt_dominant dominant)
{
    static const char *const names[] = { "latency", "the busiest rank", "cores", "the wire" };
    return (unsigned)dominant < 4 ? names[dominant] : "?";
}
