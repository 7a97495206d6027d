/* libibverbs, loaded by name when it is first needed, so that one binary runs with and without it. */
#ifndef RT_VERBS_API_H
#define RT_VERBS_API_H

#include <infiniband/verbs.h>

/* What the transport calls; the calls of the fast path (post, poll, arm) are in the contexts that the library makes. */
struct rt_verbs_api {
    struct ibv_device **(*get_device_list)(int *count);
    void (*free_device_list)(struct ibv_device **list);
    const char *(*get_device_name)(struct ibv_device *device);
    struct ibv_context *(*open_device)(struct ibv_device *device);
    int (*close_device)(struct ibv_context *context);
    int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
    int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr);
    ssize_t (*query_gid_table)(struct ibv_context *context, struct ibv_gid_entry *entries, size_t most, uint32_t flags,
                               size_t entry_size);
    int (*query_gid)(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
    int (*query_pkey)(struct ibv_context *context, uint8_t port, int index, __be16 *pkey);
    struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
    int (*dealloc_pd)(struct ibv_pd *pd);
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *at, size_t bytes, int access);
    int (*dereg_mr)(struct ibv_mr *mr);
    struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
    int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
    struct ibv_cq *(*create_cq)(struct ibv_context *context, int entries, void *cq_context,
                                struct ibv_comp_channel *channel, int vector);
    int (*destroy_cq)(struct ibv_cq *cq);
    int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
    void (*ack_cq_events)(struct ibv_cq *cq, unsigned count);
    struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
    int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
    int (*destroy_qp)(struct ibv_qp *qp);
    int (*get_async_event)(struct ibv_context *context, struct ibv_async_event *event);
    void (*ack_async_event)(struct ibv_async_event *event);
};

/* NULL: *why tells what is missing. */
const struct rt_verbs_api *rt_verbs_load(const char **why);

/* For tests: the calls of a device that exists in memory alone. NULL: the library's again. */
void rt_verbs_replace(const struct rt_verbs_api *api);

#endif
