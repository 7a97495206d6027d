/*
 * The worker of a communicator, and waiting for it. UCX's wake-up descriptor and the side connections are in one epoll
 * set, which is what a link sleeps on.
 */
#include "ucx.h"
#include "base/log.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LOOK_EVERY 64 /* idle polls between looks at the side connections: a look is a system call, 0.3 us */
#define FINISH_NS  UINT64_C(1000000000)

void rt_ucx_watch(struct rt_ucx_pair *pair, bool on)
{
    struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.ptr = pair };
    epoll_ctl(pair->ucx->set, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, pair->side, &event);
}

static void look(struct rt_ucx *ucx)
{
    struct epoll_event events[16];
    const int n = epoll_wait(ucx->set, events, 16, 0);
    for (int i = 0; i < n; i++)
        if (events[i].data.ptr) rt_ucx_side_read(events[i].data.ptr);
    rt_ucx_welcome(ucx);
}

void rt_ucx_progress(struct rt_ucx *ucx)
{
    if (ucx->connecting) rt_ucx_connect_all(ucx);
    if (ucx->call->ucp_worker_progress(ucx->worker)) {
        ucx->quiet = 0;
    } else if (++ucx->quiet >= LOOK_EVERY) {
        ucx->quiet = 0;
        look(ucx);
    }
}

bool rt_ucx_arm(struct rt_ucx *ucx)
{
    ucx->quiet = LOOK_EVERY; /* whatever wakes: the side connections are looked at in the next round */
    return ucx->call->ucp_worker_progress(ucx->worker) == 0 && ucx->call->ucp_worker_arm(ucx->worker) == UCS_OK;
}

void rt_ucx_finish(struct rt_ucx *ucx, void *request)
{
    if (!UCS_PTR_IS_PTR(request)) return;
    const uint64_t end = rt_now_ns(ucx->fabric->clock) + FINISH_NS;
    while (ucx->call->ucp_request_check_status(request) == UCS_INPROGRESS && rt_now_ns(ucx->fabric->clock) < end)
        ucx->call->ucp_worker_progress(ucx->worker);
    ucx->call->ucp_request_free(request);
}

static ringtree_status refuse(struct rt_fabric *fabric, ucs_status_t status, const char *what, struct rt_error *error)
{
    struct rt_ucx *ucx = fabric->ucx;
    return rt_fail(error, RINGTREE_SYSTEM, "rank %u: UCX cannot %s: %s (%s; UCX_TLS=%s); look at ucx_info -d, or leave "
                   "ucx out of RINGTREE_TRANSPORTS", fabric->rank, what, ucx->call->status_string(status),
                   rt_ucx_complaint(), rt_ucx_tls());
}

static void set(const struct rt_ucx *ucx, ucp_config_t *config, const char *name, const char *value)
{
    char variable[64];
    snprintf(variable, sizeof(variable), "UCX_%s", name);
    if (!getenv(variable)) ucx->call->ucp_config_modify(config, name, value); /* who set it himself has his way */
}

/* Without RDMA devices, which have names of their own there: the interfaces that ringtree uses, so that UCX does not
 * connect over a docker0 that every host has with the same address. */
static void choose_devices(const struct rt_ucx *ucx, ucp_config_t *config)
{
    const struct rt_place *place = &rt_control_places(ucx->fabric->control)[ucx->fabric->rank];
    char list[RT_MAX_ADDRESSES * 20] = "";
    if (access("/sys/class/infiniband", F_OK) == 0) return;
    for (uint32_t i = 0; i < RT_MAX_ADDRESSES; i++) {
        const char *name = place->address[i].interface;
        const size_t used = strlen(list);
        if (name[0] && !strstr(list, name)) snprintf(list + used, sizeof(list) - used, "%s%s", used ? "," : "", name);
    }
    if (list[0]) set(ucx, config, "NET_DEVICES", list);
}

/* Of UCX's queue in shared memory, which has 64: a message that fits goes without a buffer of its own. 128 bytes by
 * UCX's own choice, with which 1 KiB takes a quarter longer (perf/baseline/ucx.md). */
#define SHARED_ELEMENT "2240"

/* UCX offers its shared memory to endpoints that report errors only when told to. Its keepalive is not needed, since
 * the side connections have one, and in 1.13 it reads an endpoint that is gone (seen with 16 ranks in 4 processes). */
static void choose_settings(const struct rt_ucx *ucx, ucp_config_t *config)
{
    if (!getenv("UCX_SYSV_ERROR_HANDLING") && !getenv("UCX_POSIX_ERROR_HANDLING"))
        set(ucx, config, "MM_ERROR_HANDLING", "y");
    if (!getenv("UCX_SYSV_FIFO_ELEM_SIZE") && !getenv("UCX_POSIX_FIFO_ELEM_SIZE"))
        set(ucx, config, "MM_FIFO_ELEM_SIZE", SHARED_ELEMENT);
    set(ucx, config, "KEEPALIVE_INTERVAL", "inf");
    choose_devices(ucx, config);
}

static ringtree_status make_context(struct rt_ucx *ucx, struct rt_error *error)
{
    const ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
                                  .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
                                  .estimated_num_eps = ucx->fabric->nranks };
    ucp_context_attr_t attr = { .field_mask = UCP_ATTR_FIELD_MEMORY_TYPES };
    ucp_config_t *config;
    ucs_status_t status = ucx->call->ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK) return refuse(ucx->fabric, status, "read its settings (UCX_*)", error);
    choose_settings(ucx, config);
    status = ucx->call->ucp_init_version(UCP_API_MAJOR, 12, &params, config, &ucx->context);
    ucx->call->ucp_config_release(config);
    if (status != UCS_OK) return refuse(ucx->fabric, status, "start", error);
    status = ucx->call->ucp_context_query(ucx->context, &attr);
    ucx->host_only = status == UCS_OK && attr.memory_types == UCS_BIT(UCS_MEMORY_TYPE_HOST);
    return RINGTREE_OK;
}

/* Payloads for a GPU must be UCX's to bring there, so they are kept; others are copied where UCX would have to. */
static ucs_status_t set_handler(struct rt_ucx *ucx, unsigned id, ucp_am_recv_callback_t callback)
{
    const uint32_t persistent = ucx->host_only ? 0 : UCP_AM_FLAG_PERSISTENT_DATA;
    const ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = id, .flags = UCP_AM_FLAG_WHOLE_MSG | persistent, .cb = callback, .arg = ucx };
    return ucx->call->ucp_worker_set_am_recv_handler(ucx->worker, &param);
}

static ringtree_status make_worker(struct rt_ucx *ucx, struct rt_error *error)
{
    const ucp_worker_params_t params = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                         .thread_mode = UCS_THREAD_MODE_SERIALIZED };
    struct epoll_event event = { .events = EPOLLIN };
    int wake = -1;
    ucs_status_t status = ucx->call->ucp_worker_create(ucx->context, &params, &ucx->worker);
    if (status != UCS_OK) return refuse(ucx->fabric, status, "make a worker", error);
    status = set_handler(ucx, RT_UCX_SLICE, rt_ucx_slice_came);
    if (status == UCS_OK) status = set_handler(ucx, RT_UCX_CREDIT, rt_ucx_credit_came);
    if (status == UCS_OK)
        status = ucx->call->ucp_worker_get_address(ucx->worker, &ucx->address, &ucx->address_bytes);
    if (status == UCS_OK) status = ucx->call->ucp_worker_get_efd(ucx->worker, &wake);
    if (status != UCS_OK) return refuse(ucx->fabric, status, "set up its worker", error);
    if (ucx->address_bytes > RT_UCX_ADDRESS_MOST)
        return rt_fail(error, RINGTREE_UNSUPPORTED, "rank %u: UCX's address has %zu bytes, more than %d; name fewer "
                       "devices in UCX_NET_DEVICES", ucx->fabric->rank, ucx->address_bytes, RT_UCX_ADDRESS_MOST);
    if (epoll_ctl(ucx->set, EPOLL_CTL_ADD, wake, &event) == 0) return RINGTREE_OK;
    return rt_fail_errno(error, "rank %u: cannot watch UCX's wake-up descriptor", ucx->fabric->rank);
}

static ringtree_status start(struct rt_ucx *ucx, struct rt_error *error)
{
    ucx->pairs = calloc((size_t)ucx->fabric->nranks * RT_UCX_WAYS, sizeof(struct rt_ucx_pair *));
    if (!ucx->pairs) return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory for UCX", ucx->fabric->rank);
    ucx->set = epoll_create1(EPOLL_CLOEXEC);
    ucx->ready = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    if (ucx->set < 0 || ucx->ready < 0)
        return rt_fail_errno(error, "rank %u: no descriptors for UCX", ucx->fabric->rank);
    const ringtree_status status = make_context(ucx, error);
    return status == RINGTREE_OK ? make_worker(ucx, error) : status;
}

static void free_orphans(struct rt_ucx *ucx)
{
    while (ucx->sending_orphans) {
        struct rt_ucx_sending *next = ucx->sending_orphans->orphan;
        free(ucx->sending_orphans->memory);
        free(ucx->sending_orphans);
        ucx->sending_orphans = next;
    }
    while (ucx->inbound_orphans) {
        struct rt_ucx_inbound *next = ucx->inbound_orphans->orphan;
        for (uint32_t i = 0; i < RT_UCX_SLOTS; i++) free(ucx->inbound_orphans->arrival[i].memory);
        free(ucx->inbound_orphans->copies);
        free(ucx->inbound_orphans);
        ucx->inbound_orphans = next;
    }
}

static void stop(struct rt_ucx *ucx)
{
    if (ucx->pairs) rt_ucx_pairs_end(ucx);
    if (ucx->address) ucx->call->ucp_worker_release_address(ucx->worker, ucx->address);
    if (ucx->worker) ucx->call->ucp_worker_destroy(ucx->worker);
    if (ucx->context) ucx->call->ucp_cleanup(ucx->context);
    if (ucx->strays) rt_log(RT_LOG_WARN, "%" PRIu64 " UCX messages of strangers were turned away", ucx->strays);
    free_orphans(ucx);
    if (ucx->set >= 0) close(ucx->set);
    if (ucx->ready >= 0) close(ucx->ready);
    free(ucx->pairs);
    *ucx = (struct rt_ucx){ .fabric = ucx->fabric, .call = ucx->call, .can = ucx->can, .set = -1, .ready = -1 };
}

struct rt_ucx *rt_ucx_state(struct rt_fabric *fabric)
{
    const char *why = NULL;
    if (fabric->ucx) return fabric->ucx;
    fabric->ucx = malloc(sizeof(*fabric->ucx));
    if (fabric->ucx)
        *fabric->ucx = (struct rt_ucx){ .fabric = fabric, .call = rt_ucx_load(&why), .set = -1, .ready = -1 };
    return fabric->ucx;
}

void rt_ucx_leave(struct rt_fabric *fabric)
{
    if (!fabric->ucx) return;
    free(fabric->ucx->can);
    free(fabric->ucx);
    fabric->ucx = NULL;
}

ringtree_status rt_ucx_open(struct rt_fabric *fabric, struct rt_error *error)
{
    struct rt_ucx *ucx = rt_ucx_state(fabric);
    if (!ucx) return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory for UCX", fabric->rank);
    if (!ucx->call) return rt_fail(error, RINGTREE_UNSUPPORTED, "rank %u: UCX is not here", fabric->rank);
    if (ucx->users++) return RINGTREE_OK;
    const ringtree_status status = start(ucx, error);
    if (status != RINGTREE_OK) stop(ucx);
    return status;
}

void rt_ucx_close(struct rt_ucx *ucx)
{
    if (--ucx->users == 0) stop(ucx);
}
