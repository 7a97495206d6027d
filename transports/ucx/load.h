/*
 * The calls of UCX that are used. The library is loaded by name when somebody asks for this transport, so one binary
 * runs with and without it. Where ringtree brings UCX into the process, UCX is kept from handling signals and from
 * printing: what it has to say goes to the log, and its last sentence is kept for ours.
 */
#ifndef RT_UCX_LOAD_H
#define RT_UCX_LOAD_H

#include <stdbool.h>
#include <ucp/api/ucp.h>

#define RT_UCX_CALLS(X)                                                                                                \
    X(ucp_get_version) X(ucp_context_query) X(ucp_config_read) X(ucp_config_modify) X(ucp_config_release)              \
    X(ucp_init_version) X(ucp_cleanup) X(ucp_worker_create) X(ucp_worker_destroy) X(ucp_worker_get_address)            \
    X(ucp_worker_release_address) X(ucp_worker_progress) X(ucp_worker_get_efd) X(ucp_worker_arm)                       \
    X(ucp_worker_set_am_recv_handler) X(ucp_ep_create) X(ucp_ep_close_nbx) X(ucp_am_send_nbx)                          \
    X(ucp_am_recv_data_nbx) X(ucp_am_data_release) X(ucp_ep_print_info) X(ucp_request_free)                            \
    X(ucp_request_check_status) X(ucp_ep_flush_nbx)

struct rt_ucx_calls {
#define X(name) __typeof__(name) *name;
    RT_UCX_CALLS(X)
#undef X
    const char *(*status_string)(ucs_status_t status);
};

/* NULL: it cannot be used, and *why says why. */
const struct rt_ucx_calls *rt_ucx_load(const char **why);
/* The last thing that UCX complained of on this thread, "" if nothing; forgotten with the call. */
const char *rt_ucx_complaint(void);

#endif
