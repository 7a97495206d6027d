/*
 * Rings through the seats of one machine, found by trying sums of bandwidth from the greatest possible one down: each
 * try asks for a number of rings of one speed, and goes depth first, nearest seat first, taking what it uses and giving
 * it back when it is stuck. A try ends with the first success or after a number of looks at ways.
 */
#include "rings.h"
#include <float.h>
#include <stdlib.h>
#include <string.h>

#define MOST_WAY     48   /* links of a hop */
#define MOST_CHOICES 12   /* seats that are tried next, nearest first */
#define MOST_HOPS    2048 /* of all rings of a try: how deep it goes */
#define MOST_SPEEDS  256
#define MOST_SHARES  16   /* a link is divided among so many rings at most */

struct try_of {
    struct rt_site *site;
    uint32_t        rings; /* to be found */
    float           gbs;
    bool            both, network; /* each ring in both directions; through the ports */
    bool            cross;         /* out by another port than in, where its own cannot be reached */
    uint64_t        looks_end;
    bool           *visited;
    uint16_t       *order;         /* found: rings * seats */
    uint32_t       *near;          /* cost from the ring's port to each seat, 0 without ports */
    uint32_t        port[RT_MOST_CHANNELS], port_out[RT_MOST_CHANNELS];
    uint8_t         within[RT_MOST_CHANNELS], to_port[RT_MOST_CHANNELS]; /* worst of each ring */
};

struct way {
    uint32_t link[MOST_WAY], links;
};

static bool find_ring(struct try_of *t, uint32_t ring);
static bool find_next(struct try_of *t, uint32_t ring, uint32_t position);

static void take(struct try_of *t, const struct way *way, float gbs)
{
    for (uint32_t i = 0; i < way->links; i++) {
        t->site->room[way->link[i]] -= gbs;
        if (t->both)
            t->site->room[t->site->link[way->link[i]].back] -= gbs;
    }
}

static bool is_out_of_looks(const struct try_of *t)
{
    return t->site->looks >= t->looks_end;
}

/* The way of the latest look, if it may be taken; a link that it goes through twice must have twice the room. */
static bool get_way(const struct try_of *t, uint32_t end, struct way *way)
{
    if (t->site->cost[end] == RT_NO_VERTEX)
        return false;
    way->links = rt_site_way(t->site, end, way->link, MOST_WAY);
    return way->links > 0;
}

static void note(uint8_t *worst, const struct try_of *t, const struct way *way)
{
    const enum rt_path path = rt_site_path(t->site, way->link, way->links);

    if (*worst < path)
        *worst = (uint8_t)path;
}

/* From the last seat to `end`, then on with the next ring. */
static bool close_at(struct try_of *t, uint32_t ring, uint32_t last, uint32_t end)
{
    struct rt_site *s = t->site;
    uint8_t *worst = t->network ? &t->to_port[ring] : &t->within[ring];
    const uint8_t before = *worst;
    struct way way;

    if (last == end) /* one seat alone in its machine */
        return find_ring(t, ring + 1);
    rt_site_look(s, last, t->gbs, t->network);
    if (!get_way(t, end, &way))
        return false;
    note(worst, t, &way);
    take(t, &way, t->gbs);
    if (find_ring(t, ring + 1))
        return true;
    take(t, &way, -t->gbs);
    *worst = before;
    return false;
}

/* With enough left; of those that are as near as others, the first from `own` on. */
static uint32_t nearest_port(const struct try_of *t, uint32_t last, uint32_t own)
{
    struct rt_site *s = t->site;
    uint32_t best = own;

    rt_site_look(s, last, t->gbs, true);
    for (uint32_t i = 1; i < s->nports; i++) {
        const uint32_t port = (own + i) % s->nports;
        if (s->cost[s->port[port]] < s->cost[s->port[best]])
            best = port;
    }
    return best;
}

/* To the first seat, or out by the port that the ring came in by, or by the nearest one. */
static bool close_ring(struct try_of *t, uint32_t ring)
{
    struct rt_site *s = t->site;
    const uint16_t *order = t->order + (size_t)ring * s->nseats;
    const uint32_t last = s->seat[order[s->nseats - 1]];

    if (!t->network)
        return close_at(t, ring, last, s->seat[order[0]]);
    t->port_out[ring] = t->cross ? nearest_port(t, last, t->port[ring]) : t->port[ring];
    return close_at(t, ring, last, s->port[t->port_out[ring]]);
}

struct choice {
    uint64_t order; /* smaller is tried first */
    uint32_t seat;
};

/* The nearest few seats that are not in the ring yet, of those that the latest look has reached. */
static uint32_t choose(const struct try_of *t, uint32_t from, struct choice *choice)
{
    const struct rt_site *s = t->site;
    uint32_t count = 0;

    for (uint32_t k = 1; k <= s->nseats; k++) {
        const uint32_t seat = (from + k) % s->nseats, cost = s->cost[s->seat[seat]];
        if (t->visited[seat] || cost == RT_NO_VERTEX)
            continue;
        /* near ones first; of these, those far from the port, so that the ring ends near it; then in a circle */
        const uint32_t far = t->near[seat] < UINT16_MAX ? UINT16_MAX - t->near[seat] : 0;
        const struct choice new = { (uint64_t)cost << 32 | far << 16 | (k & UINT16_MAX), seat };
        uint32_t i = count < MOST_CHOICES ? count++ : MOST_CHOICES;
        for (; i > 0 && choice[i - 1].order > new.order; i--)
            if (i < MOST_CHOICES)
                choice[i] = choice[i - 1];
        if (i < MOST_CHOICES)
            choice[i] = new;
    }
    return count;
}

/* One more seat: taken with its way, given back if nothing comes of it. */
static bool go_to(struct try_of *t, uint32_t ring, uint32_t position, uint32_t from, uint32_t seat)
{
    struct rt_site *s = t->site;
    uint8_t *worst = from == s->port[t->port[ring]] && position == 0 ? &t->to_port[ring] : &t->within[ring];
    const uint8_t before = *worst;
    struct way way;

    rt_site_look(s, from, t->gbs, false);
    if (!get_way(t, s->seat[seat], &way))
        return false;
    note(worst, t, &way);
    take(t, &way, t->gbs);
    t->visited[seat] = true;
    t->order[(size_t)ring * s->nseats + position] = (uint16_t)seat;
    if (find_next(t, ring, position + 1))
        return true;
    t->visited[seat] = false;
    take(t, &way, -t->gbs);
    *worst = before;
    return false;
}

static bool find_next(struct try_of *t, uint32_t ring, uint32_t position)
{
    struct rt_site *s = t->site;
    struct choice choice[MOST_CHOICES];

    if (is_out_of_looks(t))
        return false;
    if (position == s->nseats) {
        bool *visited = t->visited; /* the next ring begins with none */
        t->visited = calloc(s->nseats, sizeof(*visited));
        const bool found = t->visited && close_ring(t, ring);
        free(t->visited);
        t->visited = visited;
        return found;
    }
    const uint32_t from = t->order[(size_t)ring * s->nseats + position - 1];
    rt_site_look(s, s->seat[from], t->gbs, false);
    const uint32_t choices = choose(t, from, choice);
    for (uint32_t i = 0; i < choices && !is_out_of_looks(t); i++)
        if (go_to(t, ring, position, s->seat[from], choice[i].seat))
            return true;
    return false;
}

/* In by a port and to the seats near it, in turn. */
static bool find_ring_from(struct try_of *t, uint32_t ring, uint32_t port)
{
    struct rt_site *s = t->site;
    struct choice choice[MOST_CHOICES];

    t->port[ring] = port;
    rt_site_look(s, s->port[port], t->gbs, false);
    for (uint32_t i = 0; i < s->nseats; i++)
        t->near[i] = 0;
    const uint32_t choices = choose(t, s->nseats - 1, choice);
    for (uint32_t i = 0; i < choices && !is_out_of_looks(t); i++) {
        rt_site_look(s, s->port[port], 0, false);
        for (uint32_t k = 0; k < s->nseats; k++)
            t->near[k] = s->cost[s->seat[k]];
        if (go_to(t, ring, 0, s->port[port], choice[i].seat))
            return true;
    }
    return false;
}

static bool find_ring(struct try_of *t, uint32_t ring)
{
    if (ring == t->rings)
        return true;
    t->within[ring] = t->to_port[ring] = RT_PATH_SAME;
    /* crossing rings go in opposite directions: each begins where the one before it left */
    const uint32_t first = t->cross && ring > 0 ? t->port_out[ring - 1] : ring;
    for (uint32_t i = 0; i < t->site->nports && t->network && !is_out_of_looks(t); i++)
        if (find_ring_from(t, ring, (first + i) % t->site->nports))
            return true;
    if (t->network)
        return false;
    t->order[(size_t)ring * t->site->nseats] = 0;
    t->visited[0] = true;
    if (find_next(t, ring, 1))
        return true;
    t->visited[0] = false;
    return false;
}

struct rt_rings *rt_rings_new(uint32_t nseats, uint32_t nports, uint32_t nchannels)
{
    struct rt_rings *rings = calloc(1, sizeof(*rings) + sizeof(uint16_t) * nseats * nchannels);

    if (!rings)
        return NULL;
    rings->nseats = nseats;
    rings->nports = nports;
    rings->nchannels = nchannels;
    for (uint32_t c = 0; c < nchannels; c++) {
        rings->channel[c].seat = rings->order + (size_t)c * nseats;
        rings->channel[c].port_in = rings->channel[c].port_out = RT_NO_VERTEX;
    }
    return rings;
}

static uint8_t worse(uint8_t a, uint8_t b)
{
    return a > b ? a : b;
}

static struct rt_rings *keep(const struct try_of *t)
{
    const uint32_t n = t->site->nseats, ways = t->both ? 2 : 1;
    struct rt_rings *rings = rt_rings_new(n, t->site->nports, t->rings * ways);

    if (!rings)
        return NULL;
    rings->gbs = t->gbs;
    for (uint32_t r = 0; r < t->rings; r++) {
        rings->within = worse(rings->within, t->within[r]);
        rings->to_port = worse(rings->to_port, t->to_port[r]);
        for (uint32_t w = 0; w < ways; w++) {
            struct rt_channel *channel = &rings->channel[r * ways + w];
            for (uint32_t i = 0; i < n; i++)
                channel->seat[i] = t->order[(size_t)r * n + (w ? (n - i) % n : i)];
            if (t->network) {
                channel->port_in = t->port[r];
                channel->port_out = t->port_out[r];
            }
        }
    }
    return rings;
}

struct sum {
    float    gbs;   /* of a ring */
    uint32_t rings; /* directions counted */
    bool     both, cross;
};

/* Greater sums first, then those that keep to their rail, then fewer rings, then one direction. */
static int by_sum(const void *one, const void *two)
{
    const struct sum *a = one, *b = two;
    const float x = a->gbs * (float)a->rings, y = b->gbs * (float)b->rings;

    if (x > y * 1.0001f || y > x * 1.0001f)
        return x > y ? -1 : 1;
    if (a->cross != b->cross)
        return (int)a->cross - (int)b->cross;
    if (a->rings != b->rings)
        return a->rings < b->rings ? -1 : 1;
    return (int)a->both - (int)b->both;
}

static void add_speed(float *speed, uint32_t *count, float gbs)
{
    for (uint32_t i = 0; i < *count; i++)
        if (speed[i] < gbs * 1.0001f && gbs < speed[i] * 1.0001f)
            return;
    if (gbs > 0 && gbs < FLT_MAX && *count < MOST_SPEEDS)
        speed[(*count)++] = gbs;
}

/* Shares of the bound and of every link's speed. */
static uint32_t list_speeds(const struct rt_site *s, float bound, float *speed)
{
    uint32_t bases = 0, count = 0;
    float base[16];

    if (bound < FLT_MAX)
        base[bases++] = bound;
    for (uint32_t i = 0; i < s->from[s->n] && bases < 16; i++) {
        uint32_t known = 0;
        while (known < bases && base[known] != s->room[i])
            known++;
        if (known == bases)
            base[bases++] = s->room[i];
    }
    for (uint32_t share = 1; share <= MOST_SHARES; share++)
        for (uint32_t i = 0; i < bases; i++)
            add_speed(speed, &count, base[i] / (float)share);
    return count;
}

/* How many rings of that speed the parallel links of one part have room for; ports: into the machine. */
static uint32_t rings_at(const struct rt_site *s, uint32_t part, float gbs)
{
    uint32_t nvlink = 0, other = 0;

    for (uint32_t i = s->from[part]; i < s->from[part + 1]; i++) {
        const float rings = rt_site_counts(s, &s->link[i]) ? s->room[i] * 1.0001f / gbs : 0;
        *(s->link[i].kind == RT_NVLINK ? &nvlink : &other) += rings < 1000 ? (uint32_t)rings : 1000;
    }
    return nvlink ? nvlink : other;
}

/* The bound again, for rings that cannot be cut in pieces: no seat, and not all ports, has room for more. */
static uint32_t most_rings(const struct rt_site *s, bool network, float gbs)
{
    uint32_t most = UINT32_MAX, ports = 0;

    for (uint32_t i = 0; i < s->nseats && s->nseats > 1; i++) {
        const uint32_t rings = rings_at(s, s->seat[i], gbs);
        if (most > rings)
            most = rings;
    }
    for (uint32_t i = 0; i < s->nports && network; i++)
        ports += rings_at(s, s->port[i], gbs);
    return network && most > ports ? ports : most;
}

static uint32_t list_sums(const struct rt_site *s, bool network, struct sum *sum)
{
    const float bound = rt_site_bound(s, network);
    float speed[MOST_SPEEDS];
    const uint32_t speeds = list_speeds(s, bound, speed), hops = MOST_HOPS / s->nseats;
    uint32_t count = 0;

    for (uint32_t i = 0; i < speeds; i++) {
        const uint32_t most = most_rings(s, network, speed[i]);
        for (uint32_t rings = 1; rings <= RT_MOST_CHANNELS && rings <= most; rings++) {
            if (speed[i] * (float)rings > bound * 1.0001f || rings > hops)
                break;
            sum[count++] = (struct sum){ speed[i], rings, false, false };
            if (network && s->nports > 1)
                sum[count++] = (struct sum){ speed[i], rings, false, true };
            if (!network && rings % 2 == 0 && s->nseats > 2)
                sum[count++] = (struct sum){ speed[i], rings, true, false };
        }
    }
    qsort(sum, count, sizeof(*sum), by_sum);
    return count;
}

static bool attempt(struct try_of *t, const struct sum *sum)
{
    const uint64_t most = t->site->looks < RT_LOOKS_LONG ? RT_LOOKS_PER_TRY : RT_LOOKS_PER_SHORT_TRY;

    t->rings = sum->both ? sum->rings / 2 : sum->rings;
    t->gbs = sum->gbs * 0.9999f; /* rooms are sums of rounded numbers */
    t->both = sum->both;
    t->cross = sum->cross;
    t->looks_end = t->site->looks + most;
    if (!find_ring(t, 0))
        return false;
    t->gbs = sum->gbs;
    return true;
}

ringtree_status rt_rings_search(struct rt_rings **rings, struct rt_site *site, bool network, struct rt_error *error)
{
    const uint32_t n = site->nseats;
    struct try_of t = { .site = site, .network = network };
    struct sum *sum = calloc(2 * MOST_SPEEDS * (size_t)RT_MOST_CHANNELS, sizeof(*sum));
    const size_t rooms = site->from[site->n];
    float *room = malloc((rooms + 1) * sizeof(*room));
    ringtree_status status = RINGTREE_OK;

    *rings = NULL;
    t.visited = calloc(n, sizeof(*t.visited));
    t.near = calloc(n, sizeof(*t.near));
    t.order = calloc((size_t)n * RT_MOST_CHANNELS, sizeof(*t.order));
    if (!sum || !room || !t.visited || !t.near || !t.order)
        status = rt_fail(error, RINGTREE_NO_MEMORY, "no memory to search rings among %u ranks of a machine", n);
    const uint32_t sums = status == RINGTREE_OK ? list_sums(site, network, sum) : 0;
    if (room)
        memcpy(room, site->room, rooms * sizeof(*room));
    for (uint32_t i = 0; i < sums && !*rings; i++) {
        /* out of looks: only what is simplest is still tried */
        if (site->looks > RT_LOOKS_MOST && sum[i].rings > 1)
            continue;
        memset(t.visited, 0, n * sizeof(*t.visited));
        if (attempt(&t, &sum[i]) && !(*rings = keep(&t)))
            status = rt_fail(error, RINGTREE_NO_MEMORY, "no memory for the rings of a machine");
        memcpy(site->room, room, rooms * sizeof(*room));
        if (status != RINGTREE_OK)
            break;
    }
    free(sum);
    free(room);
    free(t.visited);
    free(t.near);
    free(t.order);
    return status;
}
