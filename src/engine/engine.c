/* The engine's life: which transport reaches whom, one round of progress, the end. */
#include "engine.h"
#include "base/log.h"
#include "reduce/reduce.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct rt_transport *const transports[] = { &rt_transport_shm, &rt_transport_verbs, &rt_transport_ucx,
                                                       &rt_transport_tcp };
#define TRANSPORTS (sizeof transports / sizeof *transports)
_Static_assert(TRANSPORTS <= sizeof((struct rt_engine *)0)->announced, "one place for each");

static const struct rt_transport *transport_named(const char *name)
{
    for (size_t i = 0; i < TRANSPORTS; i++)
        if (strcmp(transports[i]->name, name) == 0) return transports[i];
    return NULL;
}

static const char *known_transports(char *text, size_t capacity)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < TRANSPORTS; i++) {
        const int n = snprintf(text + used, capacity - used, "%s%s", i ? ", " : "", transports[i]->name);
        if (n > 0 && (size_t)n < capacity - used) used += (size_t)n;
    }
    return text;
}

static ringtree_status check_list(const char *list, struct rt_error *error)
{
    char name[32], known[64];
    uint32_t count = 0;
    for (; rt_list_item(list, count, name, sizeof name); count++)
        if (!transport_named(name))
            return rt_fail(error, RINGTREE_INVALID_SETTING,
                           "RINGTREE_TRANSPORTS=%s: there is no transport \"%s\"; this build has: %s", list, name,
                           known_transports(known, sizeof known));
    if (count) return RINGTREE_OK;
    return rt_fail(error, RINGTREE_INVALID_SETTING, "RINGTREE_TRANSPORTS=%s names no transport; this build has: %s",
                   list, known_transports(known, sizeof known));
}

/* The first of the list that reaches the peer. */
static ringtree_status choose_transport(struct rt_engine *engine, uint32_t peer, struct rt_error *error)
{
    const struct rt_fabric *fabric = &engine->fabric;
    const char *list = fabric->settings->text[RT_TRANSPORTS];
    char name[32], why[200], reasons[500] = "";
    size_t used = 0;
    for (uint32_t i = 0; rt_list_item(list, i, name, sizeof name); i++) {
        const struct rt_transport *transport = transport_named(name);
        why[0] = '\0';
        if (transport->reaches(fabric, peer, why, sizeof why)) {
            rt_log(RT_LOG_INFO, "rank %u (host %s) is reached by %s", peer,
                   rt_control_places(fabric->control)[peer].host, transport->name);
            engine->reach[peer] = transport;
            return RINGTREE_OK;
        }
        const int n = snprintf(reasons + used, sizeof reasons - used, " %s: %s.", name, why);
        if (n > 0 && (size_t)n < sizeof reasons - used) used += (size_t)n;
    }
    return rt_fail(error, RINGTREE_UNREACHABLE,
                   "rank %u (host %s) cannot reach rank %u (host %s) by RINGTREE_TRANSPORTS=%s:%s", fabric->rank,
                   rt_control_places(fabric->control)[fabric->rank].host, peer,
                   rt_control_places(fabric->control)[peer].host, list, reasons);
}

/* What all ranks must have alike, since plans are computed by each rank for itself. */
static const enum rt_setting agreed_settings[] = { RT_TRANSPORTS, RT_ALGORITHM, RT_DIRECT, RT_SHM_READS, RT_CALIBRATE,
                                                   RT_REVIEW_EVERY, RT_COMPRESS_BELOW, RT_LINK_RATE,
                                                   RT_SLICE_BYTES };
#define AGREED (sizeof agreed_settings / sizeof *agreed_settings)

struct agreement {
    uint64_t setting[AGREED];
    uint64_t slot_bytes;
    uint32_t status, reads;
    char     text[400];
};

static uint64_t text_hash(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/* The least slot of the transports that this rank uses, without making a connection. */
static uint64_t least_slot(struct rt_engine *engine)
{
    uint64_t least = engine->fabric.settings->number[RT_TCP_SLOT_BYTES];
    for (uint32_t r = 0; r < engine->fabric.nranks; r++) {
        const struct rt_transport *reach = engine->reach[r];
        const uint64_t bytes = reach && reach->slot_bytes
                                   ? reach->slot_bytes(engine->fabric.settings, engine->fabric.nranks) : least;
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

static ringtree_status agree(struct rt_engine *engine, const struct rt_error *local, struct rt_error *error)
{
    const struct rt_fabric *fabric = &engine->fabric;
    struct agreement mine = { .slot_bytes = least_slot(engine), .status = local->status,
                              .reads = reads_wanted(engine) };
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
    engine->node_of = calloc(n, sizeof *engine->node_of);
    engine->wires = calloc((size_t)2 * RT_LINK_LANES * n, sizeof *engine->wires);
    engine->sending = calloc(n, sizeof *engine->sending);
    engine->receiving = calloc(n, sizeof *engine->receiving);
    if (!engine->reach || !engine->node_of || !engine->wires || !engine->sending || !engine->receiving) return false;
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

/* Shared memory comes first in the list, and all ranks share it: what else there is will not be asked. */
static bool shm_is_enough(const struct rt_fabric *fabric)
{
    const struct rt_place *places = rt_control_places(fabric->control);
    char name[32];
    if (!fabric->node || !rt_list_item(fabric->settings->text[RT_TRANSPORTS], 0, name, sizeof name)) return false;
    for (uint32_t r = 0; r < fabric->nranks; r++)
        if (places[r].host_key != places[fabric->rank].host_key) return false;
    return !strcmp(name, rt_transport_shm.name);
}

/* Each transport that is in the list tells of its end. Ranks may have different lists, so all take part. */
static ringtree_status announce(struct rt_engine *engine, struct rt_error *error)
{
    struct rt_fabric *fabric = &engine->fabric;
    unsigned char mine[TRANSPORTS][RT_ANNOUNCEMENT] = { { 0 } };
    unsigned char *all = malloc(sizeof mine * fabric->nranks);
    const bool needed = !shm_is_enough(fabric);
    char name[32];
    if (!all) return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory", fabric->rank);
    for (size_t t = 0; t < TRANSPORTS; t++)
        for (uint32_t i = 0; rt_list_item(fabric->settings->text[RT_TRANSPORTS], i, name, sizeof name); i++)
            if (needed && transports[t]->announce && !strcmp(name, transports[t]->name) && !engine->announced[t]) {
                transports[t]->announce(fabric, mine[t]);
                engine->announced[t] = true;
                engine->steps |= transports[t]->step != NULL;
            }
    ringtree_status status = rt_control_all_gather(fabric->control, mine, sizeof mine, all, error);
    for (size_t t = 0; t < TRANSPORTS && status == RINGTREE_OK; t++)
        if (engine->announced[t]) transports[t]->hear(fabric, all + t * RT_ANNOUNCEMENT, sizeof mine);
    free(all);
    return status;
}

void rt_engine_step(struct rt_engine *engine)
{
    for (size_t t = 0; engine->steps && t < TRANSPORTS; t++)
        if (engine->announced[t] && transports[t]->step) transports[t]->step(&engine->fabric);
}

static ringtree_status engine_start(struct rt_engine *engine, struct rt_error *error)
{
    const struct rt_fabric *fabric = &engine->fabric;
    struct rt_error local = { 0 };
    ringtree_status listed = check_list(fabric->settings->text[RT_TRANSPORTS], &local);
    if (fabric->nranks == 1 && listed != RINGTREE_OK) return rt_fail(error, listed, "%s", local.text);
    if (fabric->nranks > 1) {
        ringtree_status status = announce(engine, error);
        if (status != RINGTREE_OK) return status;
    }
    for (uint32_t r = 0; r < fabric->nranks && local.status == RINGTREE_OK; r++)
        if (r != fabric->rank) choose_transport(engine, r, &local);
    if (fabric->nranks > 1) {
        ringtree_status status = agree(engine, &local, error);
        if (status != RINGTREE_OK) return status;
    } else {
        engine->slot_bytes = least_slot(engine);
    }
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
    for (size_t t = 0; t < TRANSPORTS; t++)
        if (engine->announced[t]) transports[t]->leave(&engine->fabric);
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
    free(engine->node_of);
    free(engine->wires);
    free(engine->sending);
    free(engine->receiving);
    free(engine);
}
