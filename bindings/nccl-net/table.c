/*
 * What NCCL sees: the tables of versions 8 to 12, which are one set of functions with the arguments of each. Nothing
 * blocks; connect() and accept() give NULL until they are through, and are called again.
 *
 * NCCL keeps a handle between two calls of connect() and would carry a pointer in it; that would let whoever writes the
 * handle choose an address, so what is being connected is found by the handle's content instead.
 */
#include "net.h"
#include "base/text.h"
#include <pthread.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* ---- starting */

static enum nccl_result init_8(nccl_logger logger)
{
    return net_start(logger);
}

static enum nccl_result init_10(nccl_logger logger, void *profiler)
{
    (void)profiler;
    return net_start(logger);
}

static enum nccl_result init_11(void **context, uint64_t comm, void *config, nccl_logger logger, void *profiler)
{
    (void)comm, (void)config, (void)profiler;
    *context = NULL;
    return net_start(logger);
}

static enum nccl_result finalize(void *context)
{
    (void)context;
    return NCCL_SUCCESS;
}

static enum nccl_result set_net_attr(void *context, void *attributes)
{
    (void)context, (void)attributes;
    return NCCL_SUCCESS;
}

static enum nccl_result devices(int *count)
{
    *count = (int)net_device_count();
    return NCCL_SUCCESS;
}

static enum nccl_result properties_12(int device, struct nccl_properties_12 *to)
{
    if (!net_device(device)) return NCCL_INVALID_ARGUMENT;
    net_properties(to, device);
    return NCCL_SUCCESS;
}

/* `bytes` of it: what the version has. */
static enum nccl_result properties_until(int device, struct nccl_properties_11 *to, size_t bytes)
{
    struct nccl_properties_12 all;
    struct nccl_properties_11 some;
    if (!net_device(device)) return NCCL_INVALID_ARGUMENT;
    net_properties(&all, device);
    memset(&some, 0, sizeof(some));
    memcpy(&some, &all, offsetof(struct nccl_properties_11, device));
    some.device[0] = device;
    some.max_p2p_bytes = all.max_p2p_bytes;
    some.max_coll_bytes = all.max_coll_bytes;
    some.max_multi_request = all.max_multi_request;
    memcpy(to, &some, bytes);
    return NCCL_SUCCESS;
}

static enum nccl_result properties_11(int device, struct nccl_properties_11 *to)
{
    return properties_until(device, to, sizeof(*to));
}

static enum nccl_result properties_9(int device, struct nccl_properties_11 *to)
{
    return properties_until(device, to, offsetof(struct nccl_properties_11, max_multi_request));
}

static enum nccl_result properties_8(int device, struct nccl_properties_8 *to)
{
    struct nccl_properties_12 all;
    if (!net_device(device)) return NCCL_INVALID_ARGUMENT;
    net_properties(&all, device);
    *to = (struct nccl_properties_8){ all.name, all.pci_path, all.guid, all.ptr_support, all.reg_is_global,
                                      all.speed_mbps, all.port, all.latency_us, all.max_comms, all.max_recvs,
                                      all.device_type, all.device_version };
    return NCCL_SUCCESS;
}

/* ---- connecting */

static enum nccl_result listen_8(int number, void *handle, void **listener)
{
    const struct net_device *device = net_device(number);
    struct net_listener *made = NULL;
    *listener = NULL;
    const enum nccl_result result = device ? net_listener_open(device, &made) : NCCL_INVALID_ARGUMENT;
    if (result != NCCL_SUCCESS) return result;
    net_handle_put(handle, &made->handle);
    *listener = made;
    return NCCL_SUCCESS;
}

static enum nccl_result listen_11(void *context, int device, void *handle, void **listener)
{
    (void)context;
    return listen_8(device, handle, listener);
}

static enum nccl_result close_listen(void *listener)
{
    if (listener) net_listener_close(listener);
    return NCCL_SUCCESS;
}

/* Connections that connect() has begun and not given out. One that was not asked for as long as connecting may take was
 * given up by NCCL, which has no call to say so: it is closed when the next one is asked for. */
static struct connecting {
    struct connecting *next;
    uint64_t           asked_ns;
    uint8_t            handle[NET_HANDLE_BYTES];
    enum nccl_result   result; /* of its beginning; without success there is no comm */
    struct net_comm   *comm;
} *connecting;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static enum nccl_result no_way(const struct net_device *device, const struct net_handle *handle)
{
    struct rt_error error = { 0 };
    char theirs[32] = "";
    for (uint32_t t = 0; t < NET_TRANSPORTS; t++)
        if (handle->transports >> t & 1)
            rt_append(theirs, sizeof(theirs), "%s%s", theirs[0] ? "," : "", net_transport[t]->name);
    rt_fail(&error, RINGTREE_UNREACHABLE, "the receiver can be reached by %s, by none of which this end may go there: "
            "RINGTREE_TRANSPORTS=%s", theirs, net_device_settings(device)->text[RT_TRANSPORTS]);
    return net_say(error.status, error.text);
}

static enum nccl_result begin(const struct net_device *device, const uint8_t *bytes, struct net_comm **comm)
{
    struct net_handle handle;
    struct rt_control control;
    if (!net_handle_parse(bytes, &handle))
        return net_say(RINGTREE_INVALID_ARGUMENT,
                       "the handle is not one of this plugin: is it the same version everywhere?");
    const enum net_transport transport = net_device_choice(device, &handle);
    if (transport == NET_TRANSPORTS) return no_way(device, &handle);
    net_control_sender(&control, &handle, (randombytes_random() & ~3u) | transport);
    *comm = net_comm_open(device, &control, true);
    return *comm ? NCCL_SUCCESS : NCCL_SYSTEM_ERROR;
}

static struct connecting *take_abandoned(uint64_t before_ns)
{
    struct connecting *abandoned = NULL;
    for (struct connecting **at = &connecting, *one; (one = *at) != NULL;) {
        if (one->asked_ns >= before_ns) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        one->next = abandoned;
        abandoned = one;
    }
    return abandoned;
}

static void close_abandoned(const struct net_device *device)
{
    const uint64_t now = rt_now_ns(&rt_system_clock);
    const uint64_t patience = net_device_settings(device)->number[RT_TIMEOUT_MS] * UINT64_C(1000000);
    pthread_mutex_lock(&lock);
    struct connecting *one = take_abandoned(now > patience ? now - patience : 0);
    pthread_mutex_unlock(&lock);
    for (struct connecting *next; one; one = next) {
        next = one->next;
        net_comm_close(one->comm);
        free(one);
    }
}

/* Takes it out of the list, or makes it. */
static struct connecting *find(const struct net_device *device, const uint8_t *bytes)
{
    pthread_mutex_lock(&lock);
    struct connecting **at = &connecting, *found;
    while (*at && memcmp((*at)->handle, bytes, NET_HANDLE_BYTES) != 0) at = &(*at)->next;
    found = *at;
    if (found) *at = found->next;
    pthread_mutex_unlock(&lock);
    if (found || !(found = calloc(1, sizeof(*found)))) return found;
    memcpy(found->handle, bytes, NET_HANDLE_BYTES);
    found->result = begin(device, bytes, &found->comm);
    return found;
}

static enum nccl_result connect_8(int number, void *handle, void **comm, void **device_comm)
{
    const struct net_device *device = net_device(number);
    (void)device_comm;
    *comm = NULL;
    if (!device) return NCCL_INVALID_ARGUMENT;
    struct connecting *one = find(device, handle);
    close_abandoned(device);
    if (!one) return net_say(RINGTREE_NO_MEMORY, "no memory for a connection");
    enum nccl_result result = one->comm ? net_comm_progress(one->comm) : one->result;
    if (result == NCCL_SUCCESS && !net_comm_control(one->comm)->dialled) {
        one->asked_ns = rt_now_ns(&rt_system_clock);
        pthread_mutex_lock(&lock);
        one->next = connecting;
        connecting = one;
        pthread_mutex_unlock(&lock);
        return NCCL_SUCCESS;
    }
    if (result == NCCL_SUCCESS) *comm = one->comm;
    else if (one->comm) net_comm_close(one->comm);
    free(one);
    return result;
}

static enum nccl_result connect_10(int device, void *config, void *handle, void **comm, void **device_comm)
{
    (void)config;
    return connect_8(device, handle, comm, device_comm);
}

static enum nccl_result connect_11(void *context, int device, void *handle, void **comm, void **device_comm)
{
    (void)context;
    return connect_8(device, handle, comm, device_comm);
}

static enum nccl_result accept_8(void *from, void **comm, void **device_comm)
{
    struct net_listener *listener = from;
    struct rt_control control;
    (void)device_comm;
    *comm = NULL;
    if (!net_listener_next(listener, &control)) return NCCL_SUCCESS;
    *comm = net_comm_open(listener->device, &control, false);
    return *comm ? NCCL_SUCCESS : NCCL_SYSTEM_ERROR;
}

static enum nccl_result close_comm(void *comm)
{
    if (comm) net_comm_close(comm);
    return NCCL_SUCCESS;
}

/* ---- moving. Host memory needs no registration; its handle is what it came from. */

static enum nccl_result reg_mr(void *comm, void *data, size_t bytes, int type, void **handle)
{
    (void)bytes;
    *handle = data ? data : comm;
    return type == NCCL_PTR_HOST ? NCCL_SUCCESS : net_say(RINGTREE_INTERNAL, "only host memory can be registered");
}

static enum nccl_result reg_mr_dma_buf(void *comm, void *data, size_t bytes, int type, uint64_t offset, int fd,
                                       void **handle)
{
    (void)comm, (void)data, (void)bytes, (void)type, (void)offset, (void)fd;
    *handle = NULL;
    return net_say(RINGTREE_INTERNAL, "only host memory can be registered");
}

static enum nccl_result dereg_mr(void *comm, void *handle)
{
    (void)comm, (void)handle;
    return NCCL_SUCCESS;
}

static enum nccl_result isend_10(void *comm, void *data, size_t bytes, int tag, void *mr, void *profile, void **request)
{
    (void)tag, (void)mr, (void)profile;
    return net_comm_post(comm, data, bytes, request);
}

static enum nccl_result isend_9(void *comm, void *data, size_t bytes, int tag, void *mr, void **request)
{
    return isend_10(comm, data, bytes, tag, mr, NULL, request);
}

static enum nccl_result isend_8(void *comm, void *data, int bytes, int tag, void *mr, void **request)
{
    return isend_10(comm, data, (size_t)bytes, tag, mr, NULL, request);
}

static enum nccl_result irecv_10(void *comm, int n, void **data, size_t *bytes, int *tags, void **mrs, void **profiles,
                                 void **request)
{
    (void)tags, (void)mrs, (void)profiles;
    *request = NULL;
    if (n != 1) return net_say(RINGTREE_INTERNAL, "more than one receive at once was asked for; maxRecvs is 1");
    return net_comm_post(comm, data[0], bytes[0], request);
}

static enum nccl_result irecv_9(void *comm, int n, void **data, size_t *bytes, int *tags, void **mrs, void **request)
{
    return irecv_10(comm, n, data, bytes, tags, mrs, NULL, request);
}

static enum nccl_result irecv_8(void *comm, int n, void **data, int *bytes, int *tags, void **mrs, void **request)
{
    size_t wide = (size_t)bytes[0];
    return irecv_10(comm, n, data, &wide, tags, mrs, NULL, request);
}

/* Host memory is written by this processor: nothing has to be flushed. */
static enum nccl_result iflush(void *comm, int n, void **data, int *bytes, void **mrs, void **request)
{
    (void)comm, (void)n, (void)data, (void)bytes, (void)mrs;
    *request = NULL;
    return NCCL_SUCCESS;
}

#define F(function) (void (*)(void))(function)
#define TABLE(version, init_, properties_, listen_, connect_, isend_, irecv_, ...)                                     \
    EXPORT extern const struct nccl_net_table ncclNetPlugin_v##version;                                                \
    const struct nccl_net_table ncclNetPlugin_v##version = {                                                           \
        "ringtree", F(init_), F(devices), F(properties_), F(listen_), F(connect_), F(accept_8), F(reg_mr),             \
        F(reg_mr_dma_buf), F(dereg_mr), F(isend_), F(irecv_), F(iflush), F(net_request_test), F(close_comm),           \
        F(close_comm), F(close_listen), __VA_ARGS__ };

TABLE(8, init_8, properties_8, listen_8, connect_8, isend_8, irecv_8, NULL)
TABLE(9, init_8, properties_9, listen_8, connect_8, isend_9, irecv_9, NULL)
TABLE(10, init_10, properties_9, listen_8, connect_10, isend_10, irecv_10, NULL)
TABLE(11, init_11, properties_11, listen_11, connect_11, isend_10, irecv_10, NULL, NULL, NULL, F(finalize),
      F(set_net_attr))
TABLE(12, init_11, properties_12, listen_11, connect_11, isend_10, irecv_10, NULL, NULL, NULL, F(finalize),
      F(set_net_attr))
