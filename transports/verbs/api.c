/* Loads libibverbs. */
#include "api.h"
#include "base/symbols.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

static struct rt_verbs_api library_api;
static const char *missing;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Atomic(const struct rt_verbs_api *) replacement;

static void load(void)
{
    static const struct rt_symbol symbols[] = {
        { "ibv_get_device_list", &library_api.get_device_list },
        { "ibv_free_device_list", &library_api.free_device_list },
        { "ibv_get_device_name", &library_api.get_device_name },
        { "ibv_open_device", &library_api.open_device },
        { "ibv_close_device", &library_api.close_device },
        { "ibv_query_port", &library_api.query_port },
        { "ibv_query_device", &library_api.query_device },
        { "_ibv_query_gid_table", &library_api.query_gid_table },
        { "ibv_query_gid", &library_api.query_gid },
        { "ibv_query_pkey", &library_api.query_pkey },
        { "ibv_alloc_pd", &library_api.alloc_pd },
        { "ibv_dealloc_pd", &library_api.dealloc_pd },
        { "ibv_reg_mr", &library_api.reg_mr },
        { "ibv_dereg_mr", &library_api.dereg_mr },
        { "ibv_create_comp_channel", &library_api.create_comp_channel },
        { "ibv_destroy_comp_channel", &library_api.destroy_comp_channel },
        { "ibv_create_cq", &library_api.create_cq },
        { "ibv_destroy_cq", &library_api.destroy_cq },
        { "ibv_get_cq_event", &library_api.get_cq_event },
        { "ibv_ack_cq_events", &library_api.ack_cq_events },
        { "ibv_create_qp", &library_api.create_qp },
        { "ibv_modify_qp", &library_api.modify_qp },
        { "ibv_destroy_qp", &library_api.destroy_qp },
        { "ibv_get_async_event", &library_api.get_async_event },
        { "ibv_ack_async_event", &library_api.ack_async_event },
    };
    void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!library) missing = "libibverbs.so.1 is not installed (Debian: libibverbs1 and ibverbs-providers)";
    else if (!rt_symbols_find(library, symbols, sizeof(symbols) / sizeof(*symbols)))
        missing = "libibverbs.so.1 is too old: rdma-core 32 or newer is needed";
}

const struct rt_verbs_api *rt_verbs_load(const char **why)
{
    const struct rt_verbs_api *other = atomic_load(&replacement);
    *why = NULL;
    if (other) return other;
    pthread_once(&once, load);
    *why = missing;
    return missing ? NULL : &library_api;
}

void rt_verbs_replace(const struct rt_verbs_api *api)
{
    atomic_store(&replacement, api);
}
