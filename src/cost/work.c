/*
 * The work of each algorithm, counted from its formula. A message counts once with its receipt, so a rank that only
 * sends does half of the work of its messages. Arrays are cut on cache lines, so few of a small array's chunks have
 * anything in them, and empty messages are not sent.
 */
#include "cost.h"
#include <string.h>

#define LINE 64

uint32_t rt_cost_log2_up(uint32_t n)
{
    uint32_t k = 0;
    while ((UINT64_C(1) << k) < n) k++;
    return k;
}

static uint32_t log2_down(uint32_t n)
{
    uint32_t k = 0;
    while (n >> (k + 1)) k++;
    return k;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

/* An array cut into n chunks: how many have anything in them, and how much. */
struct cut {
    double full, bytes;
};

static struct cut cut_of(double bytes, double n)
{
    const double lines = bytes / LINE > 1 ? bytes / LINE : 1, full = least(n, lines);
    return (struct cut){ full, full < n ? least(bytes, LINE) : bytes / n };
}

/* ---- where messages go */

/* `rounds` messages one after another along a ring. */
static void along_ring(const struct rt_sites *s, double rounds, struct rt_work *w)
{
    const double out = s->nodes == 1 ? 0 : least(1, (double)s->crossing * s->nodes / s->ranks);
    w->between = rounds * out;
    w->inside = rounds - w->between;
    w->wire_messages = w->messages * s->crossing;
    w->wire = w->bytes * s->crossing;
}

/* One message to a rank at each distance 1, 2, 4, ... below n; the long ones leave the node. */
static void by_distance(const struct rt_sites *s, double phases, struct rt_work *w)
{
    const uint32_t rounds = rt_cost_log2_up(s->ranks);
    uint32_t inside = s->nodes == 1 ? rounds : s->blocked ? log2_down(s->local) : 0;
    if (inside > rounds) inside = rounds;
    w->inside = phases * inside;
    w->between = phases * (rounds - inside);
}

/* Everybody to everybody, or to one. */
static void everywhere(const struct rt_sites *s, double phases, struct rt_work *w)
{
    const double out = s->ranks > 1 ? (double)(s->ranks - s->local) / (s->ranks - 1) : 0;
    w->inside = s->nodes == 1 ? phases : 0;
    w->between = s->nodes == 1 ? 0 : phases;
    w->wire_messages = w->messages_all * out;
    w->wire = w->bytes_all * out;
}

/*
 * The same all at once: several senders that meet at one port wait for one another. 4 ranks at 1 Gbit/s, reno, 1 to 8
 * MiB: 1.02 to 1.08 times the ring's time, with cubic 1.05 to 1.06, for equal bytes.
 */
#define MEETING 1.06
static void at_once(const struct rt_sites *s, double phases, struct rt_work *w)
{
    everywhere(s, phases, w);
    if (s->nodes > 2) w->wire *= MEETING;
}

/*
 * Down or up two trees of ranks in order with half of the array each, whose long edges leave the node: one or two of a
 * node in each tree. Each phase uses an edge one way.
 */
static void along_tree(const struct rt_sites *s, double phases, double bytes, struct rt_work *w)
{
    by_distance(s, phases, w);
    if (s->nodes == 1) return;
    const double edges = (s->nodes > 2 ? 2 : 1) * (s->blocked ? 1.0 : s->local);
    w->wire_messages = 2 * phases * edges;
    w->wire = phases * edges * bytes / 2;
}

static void all_alike(const struct rt_sites *s, struct rt_work *w)
{
    w->messages_all = w->messages * s->local;
    w->bytes_all = w->bytes * s->local;
    w->added_all = w->added * s->local;
}

/* The ranks of the busiest node have their part of what all do. */
static void of_node(const struct rt_sites *s, double messages, double bytes, double added, struct rt_work *w)
{
    const double part = (double)s->local / s->ranks;
    w->messages_all = messages * part;
    w->bytes_all = bytes * part;
    w->added_all = added * part;
}

/* ---- all_reduce */

static void ring_all_reduce(const struct rt_sites *s, double bytes, struct rt_work *w)
{
    const double n = s->ranks;
    const struct cut cut = cut_of(bytes, n);
    w->messages = 2 * (n - 1) * cut.full / n;
    w->bytes = w->messages * cut.bytes;
    w->added = w->bytes / 2;
    w->chunk = cut.bytes;
    all_alike(s, w);
    along_ring(s, 2 * (n - 1), w);
}

/* Halves of 2^k chunks are sent in each round, those that have anything in them. */
static double halving_messages(uint32_t p, double full)
{
    double count = 0;
    for (uint32_t d = 1; d < p; d *= 2) {
        const uint32_t blocks = (uint32_t)(full / d);
        count += d * ((double)blocks + (blocks * (double)d < full));
    }
    return count;
}

static void halving_all_reduce(const struct rt_sites *s, double bytes, struct rt_work *w)
{
    const uint32_t rounds = log2_down(s->ranks), p = UINT32_C(1) << rounds, extra = s->ranks - p;
    const struct cut cut = cut_of(bytes, p);
    const double moved = (p - 1) * bytes / p, sent = 2 * halving_messages(p, cut.full);
    w->messages = rounds * (cut.full > 1 ? 2 : 1) + (extra ? 2 : 0);
    w->bytes = 2 * moved + (extra ? bytes : 0);
    w->added = moved + (extra ? bytes : 0);
    w->chunk = cut.bytes;
    w->span = p > 2 ? p / 2 : 1;
    of_node(s, sent + 4.0 * extra, 2 * moved * (cut.full > 1 ? p : p / (double)(rounds ? rounds : 1)) +
            2.0 * extra * bytes, moved * p + extra * bytes, w);
    by_distance(s, 2, w);
    if (extra) w->inside += 2 - 2.0 * (rt_cost_log2_up(s->ranks) - rounds);
    if (s->nodes == 1) return;
    const double out = s->blocked ? (double)(s->ranks - s->local) / s->ranks : (p - 1.0) / p;
    w->wire = (2 * bytes * out + (extra && s->local == 1 ? bytes : 0)) * s->local;
    w->wire_messages = w->between * s->local;
}

static void doubling_all_reduce(const struct rt_sites *s, double bytes, struct rt_work *w)
{
    const uint32_t rounds = log2_down(s->ranks), p = UINT32_C(1) << rounds, extra = s->ranks - p;
    w->messages = rounds + (extra ? 1 : 0);
    w->bytes = w->messages * bytes;
    w->added = w->bytes;
    w->chunk = bytes;
    const double all = (double)p * rounds + 2.0 * extra;
    of_node(s, all, all * bytes, all * bytes, w);
    by_distance(s, 1, w);
    w->wire_messages = w->between * s->local;
    w->wire = w->wire_messages * bytes;
    if (!extra) return; /* ranks beyond the power of two give their array to a neighbour, and get the sum back */
    if (s->nodes > 1 && s->local == 1) w->between += 1;
    else w->inside += 1;
}

/* Two trees with half of the array each; an inner rank of one is a leaf of the other. */
static void tree_all_reduce(const struct rt_sites *s, double bytes, struct rt_work *w)
{
    const double n = s->ranks;
    const struct cut cut = cut_of(bytes, 2);
    const double inner = n > 3 ? 3 : n - 1; /* edges of an inner rank */
    w->messages = cut.full > 1 ? inner + 1 : inner;
    w->bytes = w->messages * cut.bytes;
    w->added = w->bytes / 2;
    w->chunk = cut.bytes;
    w->hops = 2 * log2_down(s->ranks);
    of_node(s, 2 * cut.full * (n - 1), 2 * cut.full * cut.bytes * (n - 1), cut.full * cut.bytes * (n - 1), w);
    along_tree(s, 2, bytes, w);
}

/* `full` ranks own a chunk; each gets it from all others and sends the result back. */
static void direct_all_reduce(const struct rt_sites *s, double bytes, struct rt_work *w)
{
    const double n = s->ranks;
    const struct cut cut = cut_of(bytes, n);
    w->messages = n - 1 + cut.full - 1;
    w->bytes = w->messages * cut.bytes;
    w->added = (n - 1) * cut.bytes;
    w->chunk = cut.bytes;
    of_node(s, 2 * cut.full * (n - 1), 2 * cut.full * (n - 1) * cut.bytes, cut.full * (n - 1) * cut.bytes, w);
    at_once(s, 2, w);
}

/* A ring inside the node, halving between nodes, a ring inside; the three overlap by slices. */
static void hierarchical_all_reduce(const struct rt_sites *s, double bytes, struct rt_work *w)
{
    const double m = s->local, part = bytes / m;
    const uint32_t rounds = rt_cost_log2_up(s->nodes), q = UINT32_C(1) << log2_down(s->nodes);
    const double between = 2 * part * (q - 1) / q + (q < s->nodes ? part : 0);
    w->inside = 2 * (m - 1);
    w->between = 2 * rounds;
    w->messages = 2 * (m - 1) + 2 * rounds;
    w->bytes = 2 * (m - 1) * part + between;
    w->added = (m - 1) * part + between / 2;
    w->chunk = part / q;
    w->span = q > 2 ? q / 2 : 1;
    all_alike(s, w);
    w->wire_messages = 2 * rounds * m;
    w->wire = between * m;
}

/* ---- blocks: reduce_scatter, all_gather, all_to_all */

static void ring_blocks(const struct rt_sites *s, double bytes, struct rt_work *w)
{
    const double n = s->ranks;
    w->messages = n - 1;
    w->bytes = (n - 1) * bytes;
    w->chunk = bytes;
    all_alike(s, w);
    along_ring(s, n - 1, w);
}

static void direct_blocks(const struct rt_sites *s, double bytes, struct rt_work *w)
{
    const double n = s->ranks;
    w->messages = n - 1;
    w->bytes = (n - 1) * bytes;
    w->chunk = bytes;
    all_alike(s, w);
    at_once(s, 1, w);
}

static void bruck_blocks(const struct rt_sites *s, double bytes, struct rt_work *w)
{
    const double n = s->ranks;
    w->messages = rt_cost_log2_up(s->ranks);
    w->bytes = (n - 1) * bytes;
    w->chunk = bytes;
    w->span = s->ranks > 2 ? s->ranks / 2 : 1;
    all_alike(s, w);
    by_distance(s, 1, w);
    const double out = (n - s->local) / n;
    w->wire_messages = w->between * s->local;
    w->wire = s->nodes == 1 ? 0 : w->bytes_all * (s->blocked ? out : 1);
}

static void hierarchical_blocks(const struct rt_sites *s, double bytes, struct rt_work *w)
{
    const double m = s->local, nodes = s->nodes;
    w->inside = nodes * (m - 1);
    w->between = nodes - 1;
    w->messages = w->inside + w->between;
    w->bytes = w->messages * bytes;
    w->chunk = bytes;
    all_alike(s, w);
    w->wire_messages = w->between * m;
    w->wire = w->wire_messages * bytes;
}

static void bruck_all_to_all(const struct rt_sites *s, double bytes, struct rt_work *w)
{
    const double n = s->ranks, rounds = rt_cost_log2_up(s->ranks);
    w->messages = rounds;
    w->bytes = rounds * n / 2 * bytes;
    w->added = w->bytes * 2 + 2 * n * bytes; /* packed, unpacked, turned */
    w->chunk = bytes;
    w->span = s->ranks > 2 ? s->ranks / 2 : 1;
    all_alike(s, w);
    by_distance(s, 1, w);
    w->wire_messages = w->between * s->local;
    w->wire = s->nodes == 1 ? 0 : w->bytes_all * w->between / (rounds > 0 ? rounds : 1);
}

static void pairwise_all_to_all(const struct rt_sites *s, double bytes, struct rt_work *w)
{
    direct_blocks(s, bytes, w);
    everywhere(s, s->ranks - 1, w); /* one peer after another */
}

/* ---- a root: gather and scatter of blocks, broadcast and reduce of an array */

static void linear(const struct rt_sites *s, double bytes, struct rt_work *w)
{
    const double n = s->ranks;
    w->messages = (n - 1) / 2;
    w->bytes = w->messages * bytes;
    w->chunk = bytes;
    of_node(s, n - 1, (n - 1) * bytes, 0, w);
    everywhere(s, 1, w);
    w->wire = s->nodes == 1 ? 0 : (n - s->local) * bytes;
}

static void binomial(const struct rt_sites *s, double bytes, struct rt_work *w)
{
    const double n = s->ranks, rounds = rt_cost_log2_up(s->ranks);
    w->messages = rounds / 2 + 0.5;
    w->bytes = (n - 1) * bytes / 2 + n / 4 * bytes;
    w->chunk = bytes;
    w->span = s->ranks > 2 ? s->ranks / 2 : 1;
    of_node(s, n - 1, n / 2 * rounds * bytes, 0, w);
    by_distance(s, 1, w);
    w->wire = s->nodes == 1 ? 0 : (n - s->local) * bytes;
    w->wire_messages = s->nodes == 1 ? 0 : w->between;
}

static void chain(const struct rt_sites *s, double bytes, struct rt_work *w)
{
    const double n = s->ranks;
    w->messages = n > 2 ? 1 : 0.5;
    w->bytes = w->messages * bytes;
    w->chunk = bytes;
    w->hops = n - 1;
    of_node(s, n - 1, (n - 1) * bytes, 0, w);
    along_ring(s, n - 1, w);
    w->wire = s->nodes == 1 ? 0 : s->crossing * bytes;
}

static void two_trees(const struct rt_sites *s, double bytes, struct rt_work *w)
{
    const double n = s->ranks;
    const struct cut cut = cut_of(bytes, 2);
    w->messages = (n > 2 ? 1.0 : 0.5) * cut.full;
    w->bytes = w->messages * cut.bytes;
    w->chunk = cut.bytes;
    w->hops = 1 + log2_down(s->ranks);
    of_node(s, cut.full * (n - 1), cut.full * cut.bytes * (n - 1), 0, w);
    along_tree(s, 1, bytes, w);
}

/* Nodes are a binary heap: an inner one gets the array once and sends it twice; a leader also passes it inside. */
static void hierarchical_broadcast(const struct rt_sites *s, double bytes, struct rt_work *w)
{
    w->inside = s->local - 1;
    w->between = log2_down(s->nodes);
    w->messages = (s->nodes > 3 ? 1.5 : s->nodes > 2 ? 1 : 0.5) + (s->local > 1 ? 0.5 : 0);
    w->bytes = w->messages * bytes;
    w->chunk = bytes;
    w->hops = w->inside + w->between;
    w->messages_all = w->messages + s->local - 1;
    w->bytes_all = w->messages_all * bytes;
    w->wire_messages = s->nodes > 2 ? 2 : 1;
    w->wire = w->wire_messages * bytes;
}

static const struct {
    const char         *name;
    uint32_t            collectives; /* a bit each */
    void              (*count)(const struct rt_sites *s, double bytes, struct rt_work *w);
} counts[] = {
    { "ring", 1u << RINGTREE_ALL_REDUCE, ring_all_reduce },
    { "tree", 1u << RINGTREE_ALL_REDUCE, tree_all_reduce },
    { "halving", 1u << RINGTREE_ALL_REDUCE, halving_all_reduce },
    { "doubling", 1u << RINGTREE_ALL_REDUCE, doubling_all_reduce },
    { "direct", 1u << RINGTREE_ALL_REDUCE, direct_all_reduce },
    { "hierarchical", 1u << RINGTREE_ALL_REDUCE, hierarchical_all_reduce },
    { "ring", 1u << RINGTREE_BROADCAST | 1u << RINGTREE_REDUCE, chain },
    { "tree", 1u << RINGTREE_BROADCAST | 1u << RINGTREE_REDUCE, two_trees },
    { "hierarchical", 1u << RINGTREE_BROADCAST, hierarchical_broadcast },
    { "ring", 1u << RINGTREE_REDUCE_SCATTER | 1u << RINGTREE_ALL_GATHER, ring_blocks },
    { "bruck", 1u << RINGTREE_REDUCE_SCATTER | 1u << RINGTREE_ALL_GATHER, bruck_blocks },
    { "direct", 1u << RINGTREE_REDUCE_SCATTER | 1u << RINGTREE_ALL_GATHER, direct_blocks },
    { "hierarchical", 1u << RINGTREE_REDUCE_SCATTER | 1u << RINGTREE_ALL_GATHER, hierarchical_blocks },
    { "pairwise", 1u << RINGTREE_ALL_TO_ALL, pairwise_all_to_all },
    { "bruck", 1u << RINGTREE_ALL_TO_ALL, bruck_all_to_all },
    { "linear", 1u << RINGTREE_GATHER | 1u << RINGTREE_SCATTER, linear },
    { "binomial", 1u << RINGTREE_GATHER | 1u << RINGTREE_SCATTER, binomial },
};

bool rt_work_of(const struct rt_sites *s, ringtree_collective collective, const char *algorithm, double bytes,
                struct rt_work *w)
{
    *w = (struct rt_work){ .span = 1 };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (!(counts[i].collectives >> collective & 1) || strcmp(counts[i].name, algorithm)) continue;
        counts[i].count(s, bytes, w);
        if (collective == RINGTREE_REDUCE_SCATTER || collective == RINGTREE_REDUCE) {
            w->added = w->bytes;
            w->added_all = w->bytes_all;
        }
        return true;
    }
    direct_blocks(s, bytes, w);
    return false;
}
