/* Communicators: made from a meeting, ended together. */
#include "bind.h"
#include "base/log.h"
#include "calibrate.h"
#include <stdlib.h>
#include <string.h>

/* Everybody is in ringtree_destroy() by then, so only messages that nobody receives can keep data from leaving. */
#define FLUSH_MS 1000

static void comm_free(ringtree_comm *comm, uint32_t wait_ms)
{
    if (comm->grouping) rt_group_drop(comm);
    rt_engine_close(comm->engine, wait_ms < FLUSH_MS ? wait_ms : FLUSH_MS);
    if (comm->control) rt_control_close(comm->control, wait_ms);
    if (comm->node) rt_node_close(comm->node);
    while (comm->memory) {
        struct rt_private_memory *next = comm->memory->next;
        free(comm->memory->pointer);
        free(comm->memory);
        comm->memory = next;
    }
    while (comm->requests) {
        ringtree_request *next = comm->requests->made;
        rt_lent_back(comm->requests->held, false); /* nobody waited for it */
        free(comm->requests);
        comm->requests = next;
    }
    if (comm->logging) rt_log_close();
    rt_graph_free(comm->machines);
    free(comm->node_of);
    comm->live = 0;
    free(comm);
}

static bool wants_shm(const struct rt_settings *settings)
{
    return rt_list_allows(settings->text[RT_TRANSPORTS], rt_transport_shm.name);
}

/* The machine's ranks meet whatever this rank's settings are, since it is collective; whether all agree on
 * RINGTREE_TRANSPORTS is seen later. Without shm every rank is a node of its own. */
static ringtree_status node_start(ringtree_comm *comm, struct rt_error *error)
{
    ringtree_status status = rt_node_open(&comm->node, comm->control, &comm->settings, comm->rank, comm->nranks,
                                          comm->node_of, error);
    if (status != RINGTREE_OK || wants_shm(&comm->settings)) return status;
    if (comm->node) rt_node_close(comm->node);
    comm->node = NULL;
    for (uint32_t r = 0; r < comm->nranks; r++) comm->node_of[r] = r;
    return RINGTREE_OK;
}

static ringtree_status engine_start(ringtree_comm *comm, bool progress_thread, struct rt_error *error)
{
    struct rt_near *near = rt_bind_rank(comm);
    ringtree_status status = node_start(comm, error);
    if (status == RINGTREE_OK) {
        const struct rt_fabric fabric = { comm->rank, comm->nranks, &comm->settings, &rt_system_clock, comm->control,
                                          comm->node };
        status = rt_engine_open(&comm->engine, &fabric, comm->node_of, comm->timeout_ms, error);
    }
    if (status == RINGTREE_OK) status = rt_planner_open(comm, error);
    if (status == RINGTREE_OK && progress_thread) status = rt_bind_progress(comm, near, error);
    free(near);
    return status;
}

static ringtree_status comm_start(ringtree_comm *comm, const struct rt_meeting *meeting, bool progress_thread,
                                  struct rt_error *error)
{
    ringtree_status status = rt_log_open(&comm->settings, comm->rank, error);
    if (status != RINGTREE_OK) return status;
    comm->logging = true;
    const struct rt_control_options options = { comm->rank, comm->nranks, comm->timeout_ms, meeting, &comm->settings,
                                                &rt_system_clock };
    status = rt_control_open(&comm->control, &options, error);
    return status == RINGTREE_OK ? engine_start(comm, progress_thread, error) : status;
}

#define FIRST_LIVE UINT64_C(0x52696e677472656d)
uint64_t rt_comm_live = FIRST_LIVE;

static void leave_parents(void)
{
    rt_comm_live++;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, leave_parents);
}

static ringtree_status not_live(const ringtree_comm *comm, const char *call)
{
    const bool parents = comm && comm->live >= FIRST_LIVE && comm->live < rt_comm_live;
    return rt_fail(rt_thread_error(), RINGTREE_INVALID_ARGUMENT, "%s: comm is %s", call,
                   !comm ? "NULL" : parents ? "of the process that forked this one; make one here by ringtree_init_id()"
                                            : "not a live communicator");
}

ringtree_status rt_comm_make(ringtree_comm **result, const struct rt_settings *settings,
                             const struct rt_meeting *meeting, uint32_t rank, uint32_t nranks,
                             const ringtree_options *options, struct rt_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    ringtree_comm *comm = calloc(1, sizeof *comm);
    if (comm) comm->node_of = calloc(nranks, sizeof *comm->node_of);
    if (!comm || !comm->node_of) {
        free(comm);
        return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory for a communicator", rank);
    }
    comm->rank = rank;
    comm->nranks = nranks;
    comm->settings = *settings;
    comm->timeout_ms = options && options->timeout_ms ? options->timeout_ms : (uint32_t)settings->number[RT_TIMEOUT_MS];
    const bool thread = (options && options->progress_thread) || settings->number[RT_PROGRESS_THREAD];
    ringtree_status status = comm_start(comm, meeting, thread, error);
    if (status != RINGTREE_OK) {
        comm_free(comm, 0);
        return status;
    }
    comm->live = rt_comm_live;
    status = rt_calibrate(comm, error);
    if (status != RINGTREE_OK) {
        comm_free(comm, 0);
        return status;
    }
    rt_log(RT_LOG_INFO,
           "communicator of %u ranks on %u node(s) is ready; this is rank %u; ranks that share its memory: %u", nranks,
           comm->engine->layout.nnodes, rank, ringtree_local_size(comm));
    *result = comm;
    return RINGTREE_OK;
}

void rt_comm_drop(ringtree_comm **comm, const struct rt_error *why)
{
    rt_control_fail((*comm)->control, why->status, why->text);
    comm_free(*comm, 0);
    *comm = NULL;
}

ringtree_status ringtree_init(ringtree_comm **comm)
{
    struct rt_error *error = rt_thread_error();
    rt_error_clear(error);
    if (!comm) return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "ringtree_init: comm is NULL");
    *comm = NULL;
    struct rt_settings *settings = malloc(sizeof *settings);
    if (!settings) return rt_fail(error, RINGTREE_NO_MEMORY, "ringtree_init: no memory");
    struct rt_launch launch;
    ringtree_status status = rt_settings_load(settings, error);
    if (status == RINGTREE_OK) status = rt_launch_find(&launch, settings, error);
    if (status == RINGTREE_OK)
        status = rt_comm_make(comm, settings, launch.nranks > 1 ? &launch.meeting : NULL, launch.rank, launch.nranks,
                              NULL, error);
    free(settings);
    return status;
}

static ringtree_status check_options(const ringtree_options *options, struct rt_error *error)
{
    if (!options || options->size == sizeof *options) return RINGTREE_OK;
    return rt_fail(error, RINGTREE_INVALID_ARGUMENT,
                   "ringtree_init_id: options->size is %zu, not %zu; begin with RINGTREE_OPTIONS_DEFAULT",
                   options->size, sizeof *options);
}

ringtree_status ringtree_init_id(ringtree_comm **comm, const ringtree_id *id, uint32_t size, uint32_t rank,
                                 const ringtree_options *options)
{
    struct rt_error *error = rt_thread_error();
    rt_error_clear(error);
    if (!comm || !id) return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "ringtree_init_id: comm or id is NULL");
    *comm = NULL;
    if (size == 0 || size > RT_MOST_RANKS || rank >= size)
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT,
                       "ringtree_init_id: rank %u of %u: size must be 1 to %u and rank below it", rank, size,
                       RT_MOST_RANKS);
    ringtree_status status = check_options(options, error);
    if (status != RINGTREE_OK) return status;
    struct rt_settings *settings = malloc(sizeof *settings);
    if (!settings) return rt_fail(error, RINGTREE_NO_MEMORY, "ringtree_init_id: no memory");
    struct rt_meeting meeting;
    status = rt_settings_load(settings, error);
    if (status == RINGTREE_OK) status = rt_meeting_from_id(&meeting, id, error);
    if (status == RINGTREE_OK) status = rt_comm_make(comm, settings, &meeting, rank, size, options, error);
    free(settings);
    return status;
}

ringtree_status ringtree_id_create(ringtree_id *id)
{
    struct rt_error *error = rt_thread_error();
    rt_error_clear(error);
    if (!id) return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "ringtree_id_create: id is NULL");
    struct rt_settings *settings = malloc(sizeof *settings);
    if (!settings) return rt_fail(error, RINGTREE_NO_MEMORY, "ringtree_id_create: no memory");
    struct rt_meeting meeting = { 0 }; /* zeros: random secret */
    ringtree_status status = rt_settings_load(settings, error);
    if (status == RINGTREE_OK) status = rt_meeting_serve(&meeting, NULL, settings, error);
    if (status == RINGTREE_OK) rt_meeting_to_id(&meeting, id);
    free(settings);
    return status;
}

struct farewell { /* what each rank tells of itself at the end */
    uint64_t        history;
    struct rt_frame last_call;
};

static ringtree_status compare(const ringtree_comm *comm, const struct farewell *all, struct rt_error *error)
{
    for (uint32_t r = 1; r < comm->nranks; r++) {
        if (all[r].history == all[0].history) continue;
        char first[200], other[200];
        return rt_fail(error, RINGTREE_MISMATCH,
                       "the ranks called different things before ringtree_destroy(): the last call of rank 0 was %s, "
                       "that of "
                       "rank %u was %s; every rank must make the same calls in the same order",
                       rt_call_text(&all[0].last_call, first, sizeof first), r,
                       rt_call_text(&all[r].last_call, other, sizeof other));
    }
    return RINGTREE_OK;
}

/* Ranks that made different calls without ever meeting in them, as two roots of one broadcast, learn it here. */
static ringtree_status farewell(ringtree_comm *comm, struct rt_error *error)
{
    /* A rank that still calls a collective learns from the watchdog that this one is in destroy. */
    const struct farewell mine = { rt_control_history(comm->control), comm->engine->last_call };
    const struct rt_frame frame = { .sequence = comm->engine->sequence + 1, .root = RT_NONE,
                                    .collective = RT_CALL_DESTROY };
    struct farewell *all = calloc(comm->nranks, sizeof *all);
    if (!all) return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory for ringtree_destroy", comm->rank);
    rt_control_record(comm->control, &frame);
    ringtree_status status = rt_control_all_gather(comm->control, &mine, sizeof mine, all, error);
    if (status == RINGTREE_OK) status = compare(comm, all, error);
    free(all);
    return status;
}

ringtree_status ringtree_destroy(ringtree_comm *comm)
{
    if (!comm) return RINGTREE_OK;
    if (comm->live != rt_comm_live) return not_live(comm, "ringtree_destroy");
    rt_engine_lock(comm->engine);
    const bool failed = rt_engine_failed(comm->engine);
    rt_engine_unlock(comm->engine);
    ringtree_status status = RINGTREE_OK;
    if (!failed) status = farewell(comm, rt_thread_error());
    else if (!atomic_load(&comm->told)) /* else it would never be heard of */
        status = rt_fail(rt_thread_error(), comm->engine->error.status, "%s", comm->engine->error.text);
    comm_free(comm, failed || status != RINGTREE_OK ? 0 : comm->timeout_ms);
    return status;
}

ringtree_status ringtree_abort(ringtree_comm *comm, const char *reason)
{
    if (!comm || comm->live != rt_comm_live) return not_live(comm, "ringtree_abort");
    struct rt_error error;
    rt_fail(&error, RINGTREE_ABORTED, "rank %u called ringtree_abort()%s%.400s", comm->rank, reason ? ": " : "",
            reason ? reason : "");
    atomic_store(&comm->told, true);
    rt_control_fail(comm->control, RINGTREE_ABORTED, error.text);
    return RINGTREE_OK;
}

/* ---- what a caller may ask */

ringtree_status rt_comm_failed(ringtree_comm *comm)
{
    comm->error = comm->engine->error;
    atomic_store(&comm->told, true);
    return comm->error.status;
}

ringtree_status rt_comm_check(ringtree_comm *comm, const char *call)
{
    if (!comm || comm->live != rt_comm_live) return not_live(comm, call);
    if (comm->planner.asking)
        return rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT,
                       "%s on rank %u: called by the tuner of ringtree_set_tuner(), which must not call ringtree", call,
                       comm->rank);
    rt_engine_lock(comm->engine);
    const bool failed = rt_engine_failed(comm->engine);
    rt_engine_unlock(comm->engine);
    return failed ? rt_comm_failed(comm) : RINGTREE_OK;
}

const char *ringtree_last_error(const ringtree_comm *comm)
{
    return comm ? comm->error.text : rt_thread_error()->text;
}

uint32_t ringtree_rank(const ringtree_comm *comm)
{
    return comm ? comm->rank : UINT32_MAX;
}

uint32_t ringtree_size(const ringtree_comm *comm)
{
    return comm ? comm->nranks : 0;
}

uint32_t ringtree_local_rank(const ringtree_comm *comm)
{
    if (!comm) return UINT32_MAX;
    return comm->node ? rt_node_index(comm->node) : 0;
}

uint32_t ringtree_local_size(const ringtree_comm *comm)
{
    if (!comm) return 0;
    return comm->node ? rt_node_size(comm->node) : 1;
}
