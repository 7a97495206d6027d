/* Why a call goes the way it goes: the planner's table in words, and as data for programs and their tuners. */
#include "compressed.h"
#include "base/text.h"
#include <stdio.h>
#include <string.h>

/* Of a call that is asked about. */
static uint32_t root_of(ringtree_collective collective)
{
    const bool rooted = collective == RINGTREE_REDUCE || collective == RINGTREE_BROADCAST ||
                        collective == RINGTREE_GATHER || collective == RINGTREE_SCATTER;
    return rooted ? 0 : RT_NONE;
}

static bool has_ways(ringtree_collective collective)
{
    return collective != RINGTREE_SEND_RECV && collective != RINGTREE_ALL_TO_ALL_V;
}

static ringtree_status check(ringtree_comm *comm, const char *call, ringtree_collective collective, size_t count,
                             ringtree_type type, bool has_room)
{
    ringtree_status status = rt_comm_check(comm, call);
    if (status != RINGTREE_OK) return status;
    const size_t element = ringtree_type_size(type);
    const char  *wrong = (unsigned)collective >= RINGTREE_COLLECTIVE_COUNT ? "there is no such collective"
                         : !element                                        ? "there is no such type"
                         : count > SIZE_MAX / element ? "count times the size of the type is more than memory can hold"
                         : !has_room                  ? "the place for the answer is NULL or empty"
                                                      : NULL;
    return wrong ? rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT, "%s on rank %u: %s", call, comm->rank, wrong)
                 : RINGTREE_OK;
}

/* ---- as data */

/* "shm", "shm and tcp": by which this rank reaches the others. */
static const char *transports_of(ringtree_comm *comm)
{
    char *text = comm->planner.transports;
    text[0] = '\0';
    for (uint32_t r = 0; r < comm->nranks; r++) {
        if (r == comm->rank || strstr(text, comm->engine->reach[r]->name)) continue;
        rt_append(text, sizeof comm->planner.transports, "%s%s", text[0] ? " and " : "", comm->engine->reach[r]->name);
    }
    return text[0] ? text : "none";
}

static ringtree_way way_of(ringtree_comm *comm, const struct rt_option *option, const struct rt_plan *plan)
{
    const struct rt_prediction *p = &option->prediction;
    const struct rt_shape shape = { .nranks = comm->nranks, .rank = comm->rank, .root = 0,
                                    .layout = &comm->engine->layout };
    const bool here = !option->refusal;
    return (ringtree_way){
        .name = option->name, .refusal = option->refusal, .dominant = here ? rt_dominant_name(p->dominant) : "",
        .seconds = here ? p->seconds : 0, .rounds = here ? p->rounds : 0, .bytes = here ? p->bytes : 0,
        .slice_bytes = p->slice ? p->slice : comm->engine->slot_bytes,
        .lanes = here && option->algorithm ? option->algorithm->lanes(&shape) : 1,
        .chosen = here && plan->algorithm == option->algorithm,
        .transport = !here ? "" : option->algorithm ? transports_of(comm) : "shm",
        .connections = p->connections,
    };
}

ringtree_status ringtree_plan_ways(ringtree_comm *comm, ringtree_collective collective, size_t count,
                                   ringtree_type type, ringtree_way *ways, size_t capacity, size_t *number)
{
    ringtree_status status = check(comm, "ringtree_plan_ways", collective, count, type, ways && number);
    if (status != RINGTREE_OK) return status;
    *number = 0;
    if (!has_ways(collective)) return RINGTREE_OK;
    struct rt_option options[RT_MOST_OPTIONS];
    const struct rt_plan *plan;
    const size_t bytes = count * ringtree_type_size(type);
    status = rt_plan_choose(comm, collective, bytes, root_of(collective), &plan, &comm->error);
    if (status != RINGTREE_OK) return status;
    const uint32_t found = rt_plan_options(comm, collective, bytes, root_of(collective), options);
    for (; *number < found && *number < capacity; ++*number)
        ways[*number] = way_of(comm, &options[*number], plan);
    return RINGTREE_OK;
}

/* ---- the tuner */

ringtree_status ringtree_set_tuner(ringtree_comm *comm, ringtree_tuner tuner, void *context)
{
    ringtree_status status = rt_comm_check(comm, "ringtree_set_tuner");
    if (status != RINGTREE_OK) return status;
    comm->planner.tuner = tuner;
    comm->planner.tuner_context = context;
    rt_plan_forget(comm);
    return RINGTREE_OK;
}

ringtree_status rt_plan_ask_tuner(ringtree_comm *comm, ringtree_collective collective, size_t bytes,
                                  const struct rt_option *options, uint32_t count, struct rt_plan *plan,
                                  struct rt_error *error)
{
    ringtree_way ways[RT_MOST_OPTIONS] = { { 0 } };
    uint32_t predicted = 0;
    for (uint32_t i = 0; i < count; i++) {
        ways[i] = way_of(comm, &options[i], plan);
        if (ways[i].chosen) predicted = i;
    }
    comm->planner.asking = true;
    const uint32_t at =
        comm->planner.tuner(comm->planner.tuner_context, collective, bytes, ways, count, predicted);
    comm->planner.asking = false;
    if (at >= count || options[at].refusal)
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT,
                       "rank %u: the tuner of ringtree_set_tuner() chose way %u of %u (%s) for %s of %zu bytes: %s",
                       comm->rank, at, count, at < count ? options[at].name : "none",
                       ringtree_collective_name(collective), bytes,
                       at < count ? options[at].refusal : "there is no such way");
    *plan = rt_plan_of(&options[at]);
    plan->told = (uint8_t)(1 + at);
    return RINGTREE_OK;
}

/* ---- in words */

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

static bool are_alike(const struct rt_engine *e, uint32_t a, uint32_t b)
{
    return e->reach[a] == e->reach[b] && e->candidates[a] == e->candidates[b] &&
           rt_carrier_distance(e, a) == rt_carrier_distance(e, b);
}

/* By which transport each other rank is reached and why; ranks together of which the same is to be said. */
static void say_carriers(struct text *out, const ringtree_comm *comm)
{
    const struct rt_engine *e = comm->engine;
    char words[640];
    for (uint32_t r = 0; r < comm->nranks; r++) {
        uint32_t first = 0, alike = 0;
        while (first < r && (first == comm->rank || !are_alike(e, first, r))) first++;
        if (r == comm->rank || first < r) continue;
        for (uint32_t other = r; other < comm->nranks; other++) alike += other != comm->rank && are_alike(e, r, other);
        say(out, "to rank %u", r);
        if (alike > 1) say(out, " and %u more", alike - 1);
        say(out, ": %s\n", rt_carrier_text(e, r, words, sizeof words));
    }
}

/* How the planner knows what it says of a link. */
static void say_origin(struct text *out, const struct rt_planner *planner, enum rt_link_kind kind)
{
    if (planner->measured[kind]) say(out, "measured)\n");
    else if (kind != RT_LINK_NETWORK || !planner->assumed) say(out, "as the table has it)\n");
    else if (planner->costs.link[kind].wire_byte <= 0) say(out, "assumed of namespaces on one machine)\n");
    else if (planner->mbit) say(out, "assumed of an interface of %u Mbit/s)\n", planner->mbit);
    else say(out, "assumed, no interface tells its speed)\n");
}

static void say_places(struct text *out, ringtree_comm *comm)
{
    const struct rt_sites *s = &comm->planner.sites;
    const struct rt_plan_link link = rt_plan_link(comm);
    say(out, "among %u ranks on %u node%s, transport %s, %u rank%s on %u core%s of the most crowded machine\n",
        comm->nranks, s->nodes, s->nodes == 1 ? "" : "s", transports_of(comm),
        s->crowd, s->crowd == 1 ? "" : "s", s->cores, s->cores == 1 ? "" : "s");
    say(out, "slowest link: %s, %.2f us, %.2f GB/s (", rt_link_kind_name(link.kind), link.latency_s * 1e6,
        link.bytes_per_s / 1e9);
    say_origin(out, &comm->planner, link.kind);
    say_carriers(out, comm);
}

static void say_way(struct text *out, const ringtree_way *way)
{
    say(out, "%c %-14s", way->chosen ? '*' : ' ', way->name);
    if (way->refusal) return say(out, "impossible: %s\n", way->refusal);
    say(out, "%-12s %12.1f us predicted, most of it %s; %g rounds, %.0f bytes a rank, %u lane%s", way->transport,
        way->seconds * 1e6, way->dominant, way->rounds, way->bytes, way->lanes, way->lanes == 1 ? "" : "s");
    say(out, way->connections > 1 ? " of %u connections\n" : "\n", way->connections);
}

/* What the chosen way would take with other numbers of connections between nodes, and why it has as many as it has. */
static void say_connections(struct text *out, const ringtree_comm *comm, ringtree_collective collective, size_t bytes,
                            const char *chosen)
{
    const struct rt_planner *planner = &comm->planner;
    const struct rt_algorithm *algorithm = rt_algorithm_find(collective, chosen);
    struct rt_sites sites = planner->sites;
    const uint64_t asked = comm->settings.number[RT_TCP_SOCKETS];
    if (sites.nodes < 2 || !algorithm || !strstr(planner->transports, "tcp")) return;
    say(out, "connections of a lane:");
    for (uint32_t i = 0; i < RT_COST_SPREADS; i++) {
        struct rt_prediction p;
        sites.connections = 1u << i;
        rt_cost_predict(&planner->costs, &sites, collective, algorithm, bytes, comm->engine->slot_bytes,
                        comm->settings.number[RT_SLICE_BYTES], &p);
        say(out, "%s %u %.1f us", i ? "," : "", sites.connections, p.seconds * 1e6);
    }
    say(out, "; %u: %s\n", planner->sites.connections,
        asked                                              ? "RINGTREE_TCP_SOCKETS is set"
        : sites.between == RT_LINK_LOOPBACK                ? "within a machine cores are the limit"
        : planner->sites.connections > 1                   ? "one carries less than the link, by measurement"
        : planner->costs.link[sites.between].flow_byte > 0 ? "more carry more, but not so much that a call is faster"
                                                           : "no measurement says that more carry more");
}

static const char *reason(const ringtree_comm *comm, const ringtree_way *ways, size_t number)
{
    double chosen = 0, least = 0;
    if (comm->settings.text[RT_ALGORITHM][0]) return " (RINGTREE_ALGORITHM is set)";
    if (comm->planner.tuner) return " (ringtree_set_tuner() was called)";
    for (size_t i = 0; i < number; i++) {
        if (ways[i].refusal) continue;
        if (ways[i].chosen) chosen = ways[i].seconds;
        if (least == 0 || ways[i].seconds < least) least = ways[i].seconds;
    }
    return chosen > least ? ": none is predicted to be clearly faster" : ": the least predicted";
}

/* Exact calls need no more; whoever may compress reads on. */
static void say_codec(struct text *out, ringtree_comm *comm, ringtree_collective collective, size_t count,
                      ringtree_type type)
{
    char text[1024];
    if (!rt_codec_serves(collective) || type != RINGTREE_FLOAT32) return;
    if (count > SIZE_MAX / sizeof(float) / comm->nranks) return;
    rt_codec_explain_auto(comm, collective, count, text, sizeof text);
    say(out, "%s", text);
}

ringtree_status ringtree_plan_explain(ringtree_comm *comm, ringtree_collective collective, size_t count,
                                      ringtree_type type, ringtree_op op, char *text, size_t capacity)
{
    (void)op;
    ringtree_status status = check(comm, "ringtree_plan_explain", collective, count, type, text && capacity);
    if (status != RINGTREE_OK) return status;
    ringtree_way ways[RT_MOST_OPTIONS];
    size_t number, slice = 0;
    const char *chosen = "";
    struct text out = { text, capacity };
    status = ringtree_plan_ways(comm, collective, count, type, ways, RT_MOST_OPTIONS, &number);
    if (status != RINGTREE_OK) return status;
    say(&out, "%s of %zu %s (%zu bytes) ", ringtree_collective_name(collective), count, ringtree_type_name(type),
        count * ringtree_type_size(type));
    say_places(&out, comm);
    if (!has_ways(collective)) {
        say(&out, "* point to point, slices of %zu bytes\n", comm->engine->slot_bytes);
        return RINGTREE_OK;
    }
    for (size_t i = 0; i < number; i++) {
        say_way(&out, &ways[i]);
        if (ways[i].chosen) slice = ways[i].slice_bytes, chosen = ways[i].name;
    }
    if (slice) say(&out, "slices of up to %zu bytes\n", slice);
    say_connections(&out, comm, rt_plan_carrier(collective), count * ringtree_type_size(type), chosen);
    rt_plan_say_rivals(comm, collective, count * ringtree_type_size(type), root_of(collective), out.at, out.left);
    out.left -= strlen(out.at);
    out.at += strlen(out.at);
    say(&out, "* chosen%s\n", reason(comm, ways, number));
    say_codec(&out, comm, collective, count, type);
    return RINGTREE_OK;
}
