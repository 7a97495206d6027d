/* The choice of a transport for each rank, and its words; see carrier.h. */
#include "carrier.h"
#include "engine.h"
#include "base/log.h"
#include "base/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of equal cost the first one is taken. */
const struct rt_transport *const rt_carriers[RT_CARRIERS] = { &rt_transport_shm, &rt_transport_verbs, &rt_transport_tcp,
                                                            &rt_transport_ucx };

/* A pair's two classes of messages. Their times are multiplied, so that a factor in either weighs the same. */
#define SHORT_BYTES 8.0
#define LONG_BYTES  1048576.0
/* One further back in the table has to be better by more than noise. */
#define CLEARLY 0.8

void rt_carriers_guess(struct rt_carrier_costs *costs)
{
    memset(costs, 0, sizeof *costs);
    for (size_t t = 0; t < RT_CARRIERS; t++)
        for (int d = 0; d < RT_DISTANCES; d++) costs->cost[t][d] = rt_carriers[t]->guess[d];
}

/* ---- the setting */

static uint32_t carrier_named(const char *name)
{
    uint32_t t = 0;
    while (t < RT_CARRIERS && strcmp(rt_carriers[t]->name, name)) t++;
    return t;
}

static const char *known_carriers(char *text, size_t capacity)
{
    text[0] = '\0';
    for (size_t t = 0; t < RT_CARRIERS; t++) rt_append(text, capacity, "%s%s", t ? ", " : "", rt_carriers[t]->name);
    return text;
}

bool rt_carriers_compete(const struct rt_settings *settings)
{
    return settings->text[RT_TRANSPORTS][0] == '^';
}

ringtree_status rt_carriers_check(const char *list, struct rt_error *error)
{
    char name[32], known[64];
    const char *names = list + (list[0] == '^');
    uint32_t count = 0, left = RT_CARRIERS;
    for (; rt_list_item(names, count, name, sizeof name); count++)
        if (carrier_named(name) == RT_CARRIERS)
            return rt_fail(error, RINGTREE_INVALID_SETTING,
                           "RINGTREE_TRANSPORTS=%s: there is no transport \"%s\"; this build has: %s", list, name,
                           known_carriers(known, sizeof known));
    for (size_t t = 0; t < RT_CARRIERS; t++) left -= !rt_list_allows(list, rt_carriers[t]->name);
    if (left && (count || list[0] == '^')) return RINGTREE_OK;
    return rt_fail(error, RINGTREE_INVALID_SETTING, "RINGTREE_TRANSPORTS=%s leaves no transport; this build has: %s",
                   list, known_carriers(known, sizeof known));
}

/* ---- the candidates */

#ifdef RINGTREE_FAULT_SWITCHES
/* RINGTREE_FAULT=blind:NAME: the highest rank takes nobody to be within that transport's reach. */
static bool is_blind(const struct rt_fabric *fabric, const char *name)
{
    const char *fault = fabric->settings->text[RT_FAULT];
    return fabric->rank == fabric->nranks - 1 && !strncmp(fault, "blind:", 6) && !strcmp(fault + 6, name);
}
#else
#define is_blind(fabric, name) false
#endif

void rt_carriers_find(struct rt_engine *engine)
{
    const struct rt_fabric *fabric = &engine->fabric;
    for (uint32_t t = 0; t < RT_CARRIERS; t++) {
        const char *name = rt_carriers[t]->name;
        if (!rt_list_allows(fabric->settings->text[RT_TRANSPORTS], name) || is_blind(fabric, name)) continue;
        for (uint32_t r = 0; r < fabric->nranks; r++)
            if (r != fabric->rank && rt_carriers[t]->reaches(fabric, r, NULL, 0))
                engine->candidates[r] |= (uint8_t)(1u << t);
    }
}

static uint64_t pair_number(uint32_t low, uint32_t high, uint8_t candidates)
{
    uint64_t x = ((uint64_t)low << 32 | high) * UINT64_C(0x9e3779b97f4a7c15) + candidates;
    x = (x ^ x >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ x >> 29;
}

uint64_t rt_carriers_balance(const struct rt_engine *engine)
{
    const uint32_t self = engine->fabric.rank;
    uint64_t sum = 0;
    for (uint32_t r = 0; r < engine->fabric.nranks; r++) {
        if (r < self) sum -= pair_number(r, self, engine->candidates[r]);
        if (r > self) sum += pair_number(self, r, engine->candidates[r]);
    }
    return sum;
}

#define MOST_BYTES 4096 /* of an all-gather of the control plane */

ringtree_status rt_carriers_meet(struct rt_engine *engine, struct rt_error *error)
{
    const uint32_t n = engine->fabric.nranks, self = engine->fabric.rank;
    uint8_t *all = malloc((size_t)MOST_BYTES * n);
    if (!all) return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory", self);
    ringtree_status status = RINGTREE_OK;
    for (uint32_t from = 0; from < n && status == RINGTREE_OK; from += MOST_BYTES) {
        const uint32_t part = n - from < MOST_BYTES ? n - from : MOST_BYTES;
        status = rt_control_all_gather(engine->fabric.control, engine->candidates + from, part, all, error);
        if (status != RINGTREE_OK || self < from || self >= from + part) continue;
        for (uint32_t r = 0; r < n; r++) engine->candidates[r] &= all[(size_t)r * part + (self - from)];
    }
    free(all);
    return status;
}

/* ---- the choice */

enum rt_distance rt_carrier_distance(const struct rt_engine *engine, uint32_t peer)
{
    const struct rt_place *places = rt_control_places(engine->fabric.control);
    return places[peer].host_key == places[engine->fabric.rank].host_key ? RT_WITHIN : RT_ACROSS;
}

static double seconds(const struct rt_link_guess *cost, double bytes)
{
    return cost->latency + cost->byte * bytes;
}

static bool takes_part(const struct rt_engine *engine, uint32_t t, uint32_t peer, enum rt_tried worst)
{
    return engine->candidates[peer] >> t & 1 && engine->carriers.tried[t][rt_carrier_distance(engine, peer)] <= worst;
}

/* Memory that ranks share comes before all costs: nothing else has the direct paths. */
static uint32_t cheapest_of(const struct rt_engine *engine, uint32_t peer, enum rt_tried worst)
{
    const enum rt_distance distance = rt_carrier_distance(engine, peer);
    uint32_t best = RT_CARRIERS;
    double least = 0;
    for (uint32_t t = 0; t < RT_CARRIERS; t++) {
        if (!takes_part(engine, t, peer, worst)) continue;
        if (rt_carriers[t] == &rt_transport_shm) return t;
        const struct rt_link_guess *cost = &engine->carriers.cost[t][distance];
        const double product = seconds(cost, SHORT_BYTES) * seconds(cost, LONG_BYTES);
        if (best < RT_CARRIERS && product >= least * CLEARLY) continue;
        best = t;
        least = product;
    }
    return best;
}

/* Where nothing else is left, one that was too slow for its trial is better than none. */
static uint32_t cheapest(const struct rt_engine *engine, uint32_t peer)
{
    const uint32_t t = cheapest_of(engine, peer, RT_TRIED_WELL);
    return t < RT_CARRIERS ? t : cheapest_of(engine, peer, RT_TRIED_SLOW);
}

static uint32_t first_listed(const struct rt_engine *engine, uint32_t peer)
{
    char name[32];
    for (uint32_t i = 0; rt_list_item(engine->fabric.settings->text[RT_TRANSPORTS], i, name, sizeof name); i++) {
        const uint32_t t = carrier_named(name);
        if (t < RT_CARRIERS && takes_part(engine, t, peer, RT_TRIED_WELL)) return t;
    }
    return RT_CARRIERS;
}

/* Why transport t is not among the candidates for that peer. */
static const char *refusal(const struct rt_engine *engine, uint32_t t, uint32_t peer, char *why, size_t capacity)
{
    why[0] = '\0';
    if (!rt_list_allows(engine->fabric.settings->text[RT_TRANSPORTS], rt_carriers[t]->name))
        snprintf(why, capacity, "RINGTREE_TRANSPORTS leaves it out");
    else if (engine->candidates[peer] >> t & 1)
        snprintf(why, capacity, "it was tried at the start and %s",
                 takes_part(engine, t, peer, RT_TRIED_SLOW) ? "was too slow to be measured" : "carried nothing");
    else if (rt_carriers[t]->reaches(&engine->fabric, peer, why, capacity))
        snprintf(why, capacity, "it does not reach both ways");
    return why;
}

static ringtree_status unreachable(const struct rt_engine *engine, uint32_t peer, struct rt_error *error)
{
    const struct rt_place *places = rt_control_places(engine->fabric.control);
    char reasons[500] = "", why[200];
    for (uint32_t t = 0; t < RT_CARRIERS; t++)
        if (rt_list_allows(engine->fabric.settings->text[RT_TRANSPORTS], rt_carriers[t]->name))
            rt_append(reasons, sizeof reasons, " %s: %s.", rt_carriers[t]->name,
                   refusal(engine, t, peer, why, sizeof why));
    return rt_fail(error, RINGTREE_UNREACHABLE,
                   "rank %u (host %s) cannot reach rank %u (host %s) by RINGTREE_TRANSPORTS=%s:%s", engine->fabric.rank,
                   places[engine->fabric.rank].host, peer, places[peer].host,
                   engine->fabric.settings->text[RT_TRANSPORTS], reasons);
}

ringtree_status rt_carriers_choose(struct rt_engine *engine, struct rt_error *error)
{
    const struct rt_fabric *fabric = &engine->fabric;
    const bool compete = rt_carriers_compete(fabric->settings);
    char text[500];
    for (uint32_t r = 0; r < fabric->nranks; r++) {
        if (r == fabric->rank) continue;
        const uint32_t t = compete ? cheapest(engine, r) : first_listed(engine, r);
        if (t == RT_CARRIERS) return unreachable(engine, r, error);
        if (engine->reach[r] == rt_carriers[t]) continue;
        engine->reach[r] = rt_carriers[t];
        rt_log(RT_LOG_INFO, "rank %u (host %s) is reached by %s", r, rt_control_places(fabric->control)[r].host,
               rt_carrier_text(engine, r, text, sizeof text));
    }
    return RINGTREE_OK;
}

/* ---- words */

const char *rt_carrier_cost_text(const struct rt_link_guess *cost, char *text, size_t capacity)
{
    snprintf(text, capacity, "8 B %.1f us, 1 MiB %.1f us", seconds(cost, SHORT_BYTES) * 1e6,
             seconds(cost, LONG_BYTES) * 1e6);
    return text;
}

const char *rt_carrier_text(const struct rt_engine *engine, uint32_t peer, char *text, size_t capacity)
{
    const enum rt_distance d = rt_carrier_distance(engine, peer);
    const bool obeyed = !rt_carriers_compete(engine->fabric.settings);
    const char *how = obeyed ? ", the first of RINGTREE_TRANSPORTS that reaches it"
                      : engine->reach[peer] == &rt_transport_shm ? ", which comes before all others"
                                                                 : ", the least cost";
    char words[200];
    snprintf(text, capacity, "%s%s", engine->reach[peer]->name, how);
    for (uint32_t pass = 0; pass < 2; pass++) /* the chosen one first */
        for (uint32_t t = 0; t < RT_CARRIERS; t++) {
            if ((rt_carriers[t] == engine->reach[peer]) != (pass == 0)) continue;
            rt_append(text, capacity, pass ? "; %s: " : ": ", rt_carriers[t]->name);
            if (takes_part(engine, t, peer, RT_TRIED_WELL))
                rt_append(text, capacity, "%s (%s)",
                       rt_carrier_cost_text(&engine->carriers.cost[t][d], words, sizeof words),
                       engine->carriers.measured[t][d] ? "measured" : "a guess");
            else rt_append(text, capacity, "%s", refusal(engine, t, peer, words, sizeof words));
        }
    return text;
}
