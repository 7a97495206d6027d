/*
 * The planner: predicts the time of every valid way and takes the least.
 *
 * A way costs rounds * latency + bytes on the busiest rank's links / bandwidth, with the latency and bandwidth of the
 * slowest kind of link that it crosses (Hockney's model). The constants below were measured on a 2-core virtual machine
 * and are the same on all ranks, so that all choose alike.
 */
#include "comm.h"
#include <stdio.h>
#include <string.h>

struct cost {
    double latency, bandwidth; /* seconds a message, bytes a second */
};
static const struct cost shm_cost = { 0.4e-6, 4.0e9 };
static const struct cost tcp_cost = { 7e-6, 1.8e9 };
#define DIRECT_LATENCY   0.15e-6 /* per rank */
#define DIRECT_BANDWIDTH 14.0e9

struct place {
    uint32_t    n, nodes, local; /* ranks, nodes, ranks of the largest node */
    struct cost link;            /* the slowest kind in use */
    double      bytes;           /* one block or the whole array, as the caller counts */
};

struct estimate {
    double rounds, bytes; /* bytes through the busiest rank, one way */
};

static double log2_up(uint32_t n)
{
    uint32_t k = 0;
    while ((UINT32_C(1) << k) < n) k++;
    return k;
}

static struct estimate all_reduce_estimate(const char *name, const struct place *p)
{
    const double n = p->n, share = (n - 1) / n, rounds = log2_up(p->n);
    if (!strcmp(name, "ring")) return (struct estimate){ 2 * (n - 1), 2 * share * p->bytes };
    if (!strcmp(name, "tree")) return (struct estimate){ 2 * rounds + 2, 2 * p->bytes };
    if (!strcmp(name, "halving")) return (struct estimate){ 2 * rounds, 2.2 * share * p->bytes };
    if (!strcmp(name, "doubling")) return (struct estimate){ rounds, 1.3 * rounds * p->bytes }; /* adds all of it */
    if (!strcmp(name, "direct")) return (struct estimate){ 2 + 0.4 * n, 2 * share * p->bytes };
    return (struct estimate){ 2 * rounds + 1, 2 * p->bytes };
}

/* Blocks of p->bytes each. */
static struct estimate block_estimate(const char *name, const struct place *p)
{
    const double n = p->n, rounds = log2_up(p->n), whole = (n - 1) * p->bytes;
    if (!strcmp(name, "ring")) return (struct estimate){ n - 1, whole };
    if (!strcmp(name, "direct")) return (struct estimate){ 1 + 0.4 * n, whole };
    return (struct estimate){ rounds, 1.2 * whole };
}

static struct estimate other_estimate(ringtree_collective collective, const char *name, const struct place *p)
{
    const double n = p->n, rounds = log2_up(p->n), whole = (n - 1) * p->bytes;
    switch (collective) {
    case RINGTREE_ALL_TO_ALL:
        if (!strcmp(name, "bruck")) return (struct estimate){ rounds, 1.2 * rounds * n / 2 * p->bytes };
        return (struct estimate){ n - 1, whole };
    case RINGTREE_GATHER:
    case RINGTREE_SCATTER:
        if (!strcmp(name, "binomial")) return (struct estimate){ rounds, 1.3 * whole };
        return (struct estimate){ 1 + 0.4 * n, whole };
    default: /* broadcast, reduce */
        if (!strcmp(name, "ring")) return (struct estimate){ n - 1, p->bytes };
        return (struct estimate){ rounds + 1, 1.1 * p->bytes };
    }
}

/* Inside nodes over shared memory, then a slice per local rank between nodes. */
static double hierarchical_seconds(ringtree_collective collective, const struct place *p)
{
    const double local = p->local, twice = collective == RINGTREE_ALL_REDUCE ? 2 : 1;
    const double bytes =
        collective == RINGTREE_ALL_REDUCE || collective == RINGTREE_BROADCAST ? p->bytes : p->n * p->bytes;
    const double inside = twice * (local * shm_cost.latency + bytes / shm_cost.bandwidth);
    return inside + twice * (log2_up(p->nodes) + 1) * p->link.latency + twice * bytes / local / p->link.bandwidth;
}

static double seconds_of(ringtree_collective collective, const char *name, const struct place *p)
{
    if (!strcmp(name, "hierarchical")) return hierarchical_seconds(collective, p);
    struct estimate e;
    if (collective == RINGTREE_ALL_REDUCE) e = all_reduce_estimate(name, p);
    else if (collective == RINGTREE_ALL_GATHER || collective == RINGTREE_REDUCE_SCATTER) e = block_estimate(name, p);
    else e = other_estimate(collective, name, p);
    /* ranks of one machine share the link between machines */
    const double shared = p->nodes > 1 ? p->local : 1;
    return e.rounds * p->link.latency + e.bytes * shared / p->link.bandwidth;
}

/* All-reduce reads and writes each part once per rank, the others read a block of every rank. */
static double shared_seconds(ringtree_collective collective, const struct place *p)
{
    const double bytes = collective == RINGTREE_ALL_REDUCE ? 3 * p->bytes : p->n * p->bytes;
    return p->n * DIRECT_LATENCY + bytes / DIRECT_BANDWIDTH;
}

static struct place place_of(const ringtree_comm *comm, size_t bytes)
{
    struct place place = { comm->nranks, 1, 1, shm_cost, (double)bytes };
    uint32_t count = 0;
    for (uint32_t r = 0; r < comm->nranks; r++) {
        if (comm->node_of[r] >= place.nodes) place.nodes = comm->node_of[r] + 1;
        count += comm->node_of[r] == comm->node_of[0];
    }
    place.local = count;
    if (place.nodes > 1) place.link = tcp_cost;
    return place;
}

/* The forced name for this collective from RINGTREE_ALGORITHM ("ring" or "all_reduce=ring,broadcast=tree"). */
static bool forced_name(const char *setting, ringtree_collective collective, char *name, size_t capacity)
{
    const char *wanted = ringtree_collective_name(collective);
    while (*setting) {
        const size_t length = strcspn(setting, ",");
        const char *equals = memchr(setting, '=', length);
        const bool applies = !equals || ((size_t)(equals - setting) == strlen(wanted) &&
                                         strncmp(setting, wanted, strlen(wanted)) == 0);
        const char *value = equals ? equals + 1 : setting;
        const size_t size = length - (size_t)(value - setting);
        if (applies && size && size < capacity) {
            memcpy(name, value, size);
            name[size] = '\0';
            return true;
        }
        setting += length + (setting[length] == ',');
    }
    return false;
}

struct option {
    const char                *name;
    const struct rt_algorithm *algorithm; /* NULL: the shared-memory path */
    const char                *refusal;   /* NULL: possible */
    double                     seconds;
};
#define MOST_OPTIONS 16

static uint32_t list_options(const ringtree_comm *comm, ringtree_collective collective, size_t bytes, uint32_t root,
                             struct option *options)
{
    const struct place place = place_of(comm, bytes);
    const struct rt_shape shape = { .nranks = comm->nranks, .rank = comm->rank, .root = root,
                                    .layout = &comm->engine->layout };
    uint32_t count = 0;
    if (rt_direct_serves(collective))
        options[count++] = (struct option){ "shared", NULL,
                                            comm->engine->exchange ? NULL : "not all ranks share memory (shm on one "
                                                                            "machine, RINGTREE_DIRECT=1)",
                                            shared_seconds(collective, &place) };
    for (uint32_t i = 0; i < rt_algorithm_count && count < MOST_OPTIONS; i++) {
        const struct rt_algorithm *a = rt_algorithms[i];
        if (a->collective != collective) continue;
        options[count++] = (struct option){ a->name, a, a->refuses ? a->refuses(&shape) : NULL,
                                            seconds_of(collective, a->name, &place) };
    }
    return count;
}

static ringtree_status refuse(ringtree_collective collective, const char *name, const struct option *options,
                              uint32_t count, struct rt_error *error)
{
    char possible[200] = "";
    size_t used = 0;
    const char *why = "there is no such algorithm";
    for (uint32_t i = 0; i < count; i++) {
        if (!strcmp(options[i].name, name)) why = options[i].refusal;
        if (options[i].refusal) continue;
        const int n = snprintf(possible + used, sizeof possible - used, "%s%s", used ? ", " : "", options[i].name);
        if (n > 0 && (size_t)n < sizeof possible - used) used += (size_t)n;
    }
    return rt_fail(error, RINGTREE_INVALID_SETTING, "RINGTREE_ALGORITHM asks for \"%s\" for %s: %s. Possible here: %s",
                   name, ringtree_collective_name(collective), why, possible);
}

/* Trees and chains pass slices on, so that many must be under way; the others send whole slots. */
static size_t slice_of(const ringtree_comm *comm, const struct rt_algorithm *algorithm, size_t bytes)
{
    const size_t forced = comm->settings.number[RT_SLICE_BYTES];
    if (forced) return forced;
    const bool pipelined = algorithm->collective == RINGTREE_BROADCAST || algorithm->collective == RINGTREE_REDUCE ||
                           !strcmp(algorithm->name, "tree");
    if (!pipelined) return 0;
    const size_t slice = bytes / 16;
    return slice < 8192 ? 8192 : slice > 65536 ? 65536 : slice;
}

static void take(const ringtree_comm *comm, const struct option *option, size_t bytes, struct rt_plan *plan)
{
    plan->method = option->algorithm ? RT_BY_PROGRAM : RT_BY_DIRECT;
    plan->algorithm = option->algorithm;
    plan->seconds = option->seconds;
    plan->slice_bytes = option->algorithm ? slice_of(comm, option->algorithm, bytes) : 0;
}

/* A barrier goes as an all_reduce of one byte, whatever RINGTREE_ALGORITHM says. */
static ringtree_collective carrier(ringtree_collective collective)
{
    return collective == RINGTREE_BARRIER ? RINGTREE_ALL_REDUCE : collective;
}

static ringtree_status choose(const ringtree_comm *comm, ringtree_collective collective, size_t bytes, uint32_t root,
                              const char *forced, struct rt_plan *plan, struct rt_error *error)
{
    struct option options[MOST_OPTIONS];
    const struct option *best = NULL;
    const uint32_t count = list_options(comm, carrier(collective), bytes, root, options);
    for (uint32_t i = 0; i < count; i++) {
        if (options[i].refusal) continue;
        if (forced ? !strcmp(options[i].name, forced) : !best || options[i].seconds < best->seconds) best = &options[i];
    }
    if (!best && forced) return refuse(collective, forced, options, count, error);
    if (!best)
        return rt_fail(error, RINGTREE_UNSUPPORTED, "no algorithm for %s", ringtree_collective_name(collective));
    take(comm, best, bytes, plan);
    return RINGTREE_OK;
}

ringtree_status rt_plan_choose(ringtree_comm *comm, ringtree_collective collective, size_t bytes, uint32_t root,
                               struct rt_plan *plan, struct rt_error *error)
{
    char forced[32];
    const bool force = collective != RINGTREE_BARRIER &&
                       forced_name(comm->settings.text[RT_ALGORITHM], collective, forced, sizeof forced);
    /* the common case costs nothing: shared memory serves it and nobody asked otherwise */
    if (!force && comm->engine->exchange && rt_direct_serves(collective)) {
        *plan = (struct rt_plan){ RT_BY_DIRECT, NULL, 0, 0 };
        return RINGTREE_OK;
    }
    struct rt_last_plan *last = &comm->last_plan[collective];
    if (!last->known || last->bytes != bytes || last->root != root) {
        ringtree_status status = choose(comm, collective, bytes, root, force ? forced : NULL, plan, error);
        if (status != RINGTREE_OK) return status;
        *last = (struct rt_last_plan){ true, bytes, root, *plan };
    }
    *plan = last->plan;
    return RINGTREE_OK;
}

double rt_plan_link_rate(const ringtree_comm *comm)
{
    return place_of(comm, 0).link.bandwidth;
}

/* ---- words */

struct text {
    char  *at;
    size_t left;
};

static void say(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text->at, text->left, format, args);
    va_end(args);
    if (n <= 0) return;
    const size_t used = (size_t)n < text->left ? (size_t)n : text->left - 1;
    text->at += used;
    text->left -= used;
}

static void say_options(struct text *text, const ringtree_comm *comm, ringtree_collective collective, size_t bytes,
                        const struct rt_plan *plan)
{
    struct option options[MOST_OPTIONS];
    const uint32_t root = 0, count = list_options(comm, carrier(collective), bytes, root, options);
    for (uint32_t i = 0; i < count; i++) {
        const bool chosen = plan->algorithm == options[i].algorithm;
        say(text, "%c %-14s", chosen ? '*' : ' ', options[i].name);
        if (options[i].refusal) say(text, "impossible: %s\n", options[i].refusal);
        else say(text, "%12.1f us predicted\n", options[i].seconds * 1e6);
    }
}

/* "shm", "shm and tcp": by which this rank reaches the others. */
static const char *transports_text(const ringtree_comm *comm, char *text, size_t capacity)
{
    struct text out = { text, capacity };
    text[0] = '\0';
    for (uint32_t r = 0; r < comm->nranks; r++) {
        if (r == comm->rank || strstr(text, comm->engine->reach[r]->name)) continue;
        say(&out, "%s%s", text[0] ? " and " : "", comm->engine->reach[r]->name);
    }
    return text[0] ? text : "none";
}

ringtree_status ringtree_plan_explain(ringtree_comm *comm, ringtree_collective collective, size_t count,
                                      ringtree_type type, ringtree_op op, char *text, size_t capacity)
{
    ringtree_status status = rt_comm_check(comm, "ringtree_plan_explain");
    if (status != RINGTREE_OK) return status;
    const size_t element = ringtree_type_size(type);
    (void)op;
    if (!text || capacity == 0 || element == 0 || (unsigned)collective >= RINGTREE_COLLECTIVE_COUNT ||
        count > SIZE_MAX / element)
        return rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT,
                       "ringtree_plan_explain: needs a collective, a type, and text with capacity over 0");
    const size_t bytes = count * element;
    struct text out = { text, capacity };
    const struct place place = place_of(comm, bytes);
    char transports[64];
    say(&out, "%s of %zu %s (%zu bytes) among %u ranks on %u node%s, transport %s\n",
        ringtree_collective_name(collective), count, ringtree_type_name(type), bytes, comm->nranks, place.nodes,
        place.nodes == 1 ? "" : "s", transports_text(comm, transports, sizeof transports));
    if (collective == RINGTREE_SEND_RECV || collective == RINGTREE_ALL_TO_ALL_V) {
        say(&out, "* point to point, slices of %zu bytes\n", comm->engine->slot_bytes);
        return RINGTREE_OK;
    }
    struct rt_plan plan;
    status = rt_plan_choose(comm, collective, bytes, 0, &plan, &comm->error);
    if (status != RINGTREE_OK) return status;
    say_options(&out, comm, collective, bytes, &plan);
    if (plan.slice_bytes) say(&out, "slices of up to %zu bytes\n", plan.slice_bytes);
    say(&out, "* chosen%s\n",
        comm->settings.text[RT_ALGORITHM][0] ? " (RINGTREE_ALGORITHM is set)"
        : plan.method == RT_BY_DIRECT        ? ": all ranks share memory"
                                             : ": the least predicted");
    return RINGTREE_OK;
}
