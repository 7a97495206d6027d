/* The engine's life: which transport reaches whom, one round of progress, the end. */
#include "engine.h"
#include "base/log.h"
#include "reduce/reduce.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What all ranks must have alike, since plans are computed by each rank for itself. */
static const enum rt_setting agreed_settings[] = { RT_TRANSPORTS, RT_ALGORITHM, RT_DIRECT, RT_SHM_READS, RT_CALIBRATE,
                                                   RT_REVIEW_EVERY, RT_COMPRESS_BELOW, RT_LINK_RATE,
                                                   RT_SLICE_BYTES };
#define AGREED (sizeof agreed_settings / sizeof *agreed_settings)

struct agreement {
    uint64_t setting[AGREED];
    uint64_t slot_bytes;
    uint64_t balance; /* rt_carriers_balance() */
    uint32_t status, reads;
    char     text[400];
};

static uint64_t text_hash(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/* The least slot of the transports that this rank may come to use, without making a connection. */
static uint64_t least_slot(struct rt_engine *engine)
{
    uint64_t least = engine->fabric.settings->number[RT_TCP_SLOT_BYTES];
    uint32_t may = 0;
    for (uint32_t r = 0; r < engine->fabric.nranks; r++) may |= engine->candidates[r];
    for (uint32_t t = 0; t < RT_CARRIERS; t++) {
        if (!(may >> t & 1) || !rt_carriers[t]->slot_bytes) continue;
        const uint64_t bytes = rt_carriers[t]->slot_bytes(engine->fabric.settings, engine->fabric.nranks);
        if (bytes < least) least = bytes;
    }
    if (engine->fabric.node && rt_node_slot_bytes(engine->fabric.node) < least)
        least = rt_node_slot_bytes(engine->fabric.node);
    return least;
}

/* Does this rank want to read the others' private memory? */
static bool reads_wanted(const struct rt_engine *engine)
{
    const char *setting = engine->fabric.settings->text[RT_SHM_READS];
    const struct rt_node *node = engine->fabric.node;
    if (!node || !strcmp(setting, "off")) return false;
    for (uint32_t i = 0; i < rt_node_size(node); i++)
        if (i != rt_node_index(node) && rt_node_reads(node, i) == 0) return false;
    return !strcmp(setting, "on") || rt_node_reads_fast();
}

static ringtree_status agree(struct rt_engine *engine, const struct rt_error *local, uint64_t *balance,
                             struct rt_error *error)
{
    const struct rt_fabric *fabric = &engine->fabric;
    struct agreement mine = { .slot_bytes = least_slot(engine), .status = local->status,
                              .reads = reads_wanted(engine), .balance = rt_carriers_balance(engine) };
    for (size_t i = 0; i < AGREED; i++) {
        const enum rt_setting setting = agreed_settings[i];
        mine.setting[i] = rt_setting_table[setting].kind == RT_KIND_TEXT ? text_hash(fabric->settings->text[setting])
                                                                         : fabric->settings->number[setting];
    }
    memcpy(mine.text, local->text, sizeof mine.text - 1);
    struct agreement *all = calloc(fabric->nranks, sizeof *all);
    if (!all) return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory", fabric->rank);
    ringtree_status status = rt_control_all_gather(fabric->control, &mine, sizeof mine, all, error);
    engine->slot_bytes = mine.slot_bytes;
    engine->reads = true;
    *balance = 0;
    for (uint32_t r = 0; status == RINGTREE_OK && r < fabric->nranks; r++) *balance += all[r].balance;
    for (uint32_t r = 0; status == RINGTREE_OK && r < fabric->nranks; r++) {
        if (all[r].status)
            status = rt_fail(error, (ringtree_status)all[r].status, "%.*s", (int)sizeof all[r].text - 1, all[r].text);
        for (size_t i = 0; i < AGREED && status == RINGTREE_OK; i++)
            if (all[r].setting[i] != all[0].setting[i])
                status = rt_fail(error, RINGTREE_MISMATCH, "ranks 0 and %u have different values of %s; it must be the "
                                 "same on all ranks", r, rt_setting_table[agreed_settings[i]].name);
        engine->reads &= all[r].reads != 0;
        if (all[r].slot_bytes < engine->slot_bytes) engine->slot_bytes = all[r].slot_bytes;
    }
    free(all);
    return status;
}

static bool engine_memory(struct rt_engine *engine, const uint32_t *node_of)
{
    const uint32_t n = engine->fabric.nranks;
    engine->reach = calloc(n, sizeof *engine->reach);
    engine->candidates = calloc(n, sizeof *engine->candidates);
    engine->node_of = calloc(n, sizeof *engine->node_of);
    engine->wires = calloc((size_t)2 * RT_LINK_LANES * n, sizeof *engine->wires);
    engine->sending = calloc(n, sizeof *engine->sending);
    engine->receiving = calloc(n, sizeof *engine->receiving);
    if (!engine->reach || !engine->candidates || !engine->node_of || !engine->wires || !engine->sending ||
        !engine->receiving)
        return false;
    memcpy(engine->node_of, node_of, n * sizeof *node_of);
    uint32_t nodes = 0;
    for (uint32_t r = 0; r < n; r++)
        if (node_of[r] >= nodes) nodes = node_of[r] + 1;
    engine->layout = (struct rt_layout){ nodes, engine->node_of };
    return true;
}

static bool direct_allowed(const struct rt_engine *engine)
{
    for (uint32_t r = 0; r < engine->fabric.nranks; r++)
        if (r != engine->fabric.rank && engine->reach[r] != &rt_transport_shm) return false;
    return engine->fabric.node && engine->layout.nnodes == 1 && engine->fabric.settings->number[RT_DIRECT];
}

/* Shared memory comes first, and all ranks share it: what else there is will not be asked. */
static bool shm_is_enough(const struct rt_fabric *fabric)
{
    const struct rt_place *places = rt_control_places(fabric->control);
    const char *list = fabric->settings->text[RT_TRANSPORTS];
    char name[32];
    if (!fabric->node || !rt_list_allows(list, rt_transport_shm.name)) return false;
    for (uint32_t r = 0; r < fabric->nranks; r++)
        if (places[r].host_key != places[fabric->rank].host_key) return false;
    return rt_carriers_compete(fabric->settings) ||
           (rt_list_item(list, 0, name, sizeof name) && !strcmp(name, rt_transport_shm.name));
}

/* Each transport that may be used tells of its end. Ranks may have different lists, so all take part. */
static ringtree_status announce(struct rt_engine *engine, struct rt_error *error)
{
    struct rt_fabric *fabric = &engine->fabric;
    unsigned char mine[RT_CARRIERS][RT_ANNOUNCEMENT] = { { 0 } };
    unsigned char *all = malloc(sizeof mine * fabric->nranks);
    const bool needed = !shm_is_enough(fabric);
    if (!all) return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory", fabric->rank);
    for (size_t t = 0; t < RT_CARRIERS; t++) {
        if (!needed || !rt_carriers[t]->announce) continue;
        if (!rt_list_allows(fabric->settings->text[RT_TRANSPORTS], rt_carriers[t]->name)) continue;
        rt_carriers[t]->announce(fabric, mine[t]);
        engine->announced[t] = true;
        engine->steps |= rt_carriers[t]->step != NULL;
    }
    ringtree_status status = rt_control_all_gather(fabric->control, mine, sizeof mine, all, error);
    for (size_t t = 0; t < RT_CARRIERS && status == RINGTREE_OK; t++)
        if (engine->announced[t]) rt_carriers[t]->hear(fabric, all + t * RT_ANNOUNCEMENT, sizeof mine);
    free(all);
    return status;
}

void rt_engine_step(struct rt_engine *engine)
{
    for (size_t t = 0; engine->steps && t < RT_CARRIERS; t++)
        if (engine->announced[t] && rt_carriers[t]->step) rt_carriers[t]->step(&engine->fabric);
}

/* Who is reached by what, alike on both ends, and what else all ranks must have alike. */
static ringtree_status meet(struct rt_engine *engine, struct rt_error *error)
{
    struct rt_error local = { 0 };
    uint64_t balance;
    ringtree_status status = announce(engine, error);
    if (status != RINGTREE_OK) return status;
    if (rt_carriers_check(engine->fabric.settings->text[RT_TRANSPORTS], &local) == RINGTREE_OK) {
        rt_carriers_find(engine);
        rt_carriers_choose(engine, &local);
    }
    status = agree(engine, &local, &balance, error);
    if (status != RINGTREE_OK || balance == 0) return status;
    status = rt_carriers_meet(engine, error);
    if (status != RINGTREE_OK) return status;
    rt_carriers_choose(engine, &local);
    return agree(engine, &local, &balance, error);
}

static ringtree_status engine_start(struct rt_engine *engine, struct rt_error *error)
{
    const struct rt_fabric *fabric = &engine->fabric;
    rt_carriers_guess(&engine->carriers);
    ringtree_status status = fabric->nranks > 1
                                 ? meet(engine, error)
                                 : rt_carriers_check(fabric->settings->text[RT_TRANSPORTS], error);
    if (status != RINGTREE_OK) return status;
    if (fabric->nranks == 1) engine->slot_bytes = least_slot(engine);
    if (direct_allowed(engine) && !(engine->exchange = rt_exchange_open(fabric->node, engine->reads)))
        return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory", fabric->rank);
    return RINGTREE_OK;
}

/* Asking what the processor can do takes 50 us in a virtual machine, the code's first page 9: not in the first call. */
static void warm_up(void)
{
    const float one = 1;
    float two;
    rt_reduce(&two, &one, &one, 1, RINGTREE_FLOAT32, RINGTREE_SUM);
}

ringtree_status rt_engine_open(struct rt_engine **result, const struct rt_fabric *fabric, const uint32_t *node_of,
                               uint32_t timeout_ms, struct rt_error *error)
{
    struct rt_engine *engine = calloc(1, sizeof *engine);
    if (!engine) return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory", fabric->rank);
    engine->fabric = *fabric;
    engine->timeout_ms = timeout_ms;
    pthread_mutex_init(&engine->lock, NULL);
    pthread_cond_init(&engine->work, NULL);
    engine->spin_polls = rt_wait_polls(engine);
    ringtree_status status = engine_memory(engine, node_of)
                                 ? engine_start(engine, error)
                                 : rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory", fabric->rank);
    if (status != RINGTREE_OK) {
        rt_engine_close(engine, 0);
        return status;
    }
    warm_up();
    *result = engine;
    return RINGTREE_OK;
}

static void operation_free(struct rt_operation *operation)
{
    while (operation) {
        struct rt_operation *next = operation->next;
        free(operation->sends);
        free(operation->recvs);
        free(operation);
        operation = next;
    }
}

static void transfer_free(struct rt_transfer *transfer)
{
    while (transfer) {
        struct rt_transfer *next = transfer->next;
        free(transfer);
        transfer = next;
    }
}

static void flush(struct rt_engine *engine, uint32_t wait_ms)
{
    const struct timespec moment = { .tv_nsec = 100000 };
    const uint64_t end = rt_now_ns(engine->fabric.clock) + (uint64_t)wait_ms * 1000000;
    for (struct rt_wire *wire = engine->all_wires; wire; wire = wire->next)
        while (wire->link->sender && !wire->link->transport->flushed(wire->link) &&
               rt_now_ns(engine->fabric.clock) < end && !rt_control_failed(engine->fabric.control))
            nanosleep(&moment, NULL);
}

static void wires_close(struct rt_engine *engine)
{
    while (engine->all_wires) {
        struct rt_wire *wire = engine->all_wires;
        engine->all_wires = wire->next;
        wire->link->transport->close(wire->link);
        free(wire->link);
        free(wire);
    }
}

void rt_engine_close(struct rt_engine *engine, uint32_t wait_ms)
{
    if (!engine) return;
    rt_progress_stop(engine);
    if (!engine->failed) flush(engine, wait_ms);
    wires_close(engine);
    for (size_t t = 0; t < RT_CARRIERS; t++)
        if (engine->announced[t]) rt_carriers[t]->leave(&engine->fabric);
    while (engine->programs) {
        struct rt_program *next = engine->programs->next;
        rt_program_free(engine->programs);
        engine->programs = next;
    }
    operation_free(engine->first);
    operation_free(engine->pool);
    transfer_free(engine->transfer_pool);
    for (uint32_t r = 0; engine->sending && engine->receiving && r < engine->fabric.nranks; r++) {
        transfer_free(engine->sending[r].first);
        transfer_free(engine->receiving[r].first);
    }
    rt_compress_close(engine->compressor);
    if (engine->exchange) rt_exchange_close(engine->exchange);
    for (uint32_t lane = 0; lane < RT_MAX_LANES; lane++) free(engine->bounce[lane]);
    pthread_mutex_destroy(&engine->lock);
    pthread_cond_destroy(&engine->work);
    free(engine->reach);
    free(engine->candidates);
    free(engine->node_of);
    free(engine->wires);
    free(engine->sending);
    free(engine->receiving);
    free(engine);
}
