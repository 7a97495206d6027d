/*
 * NCCL's network plugin interface, as far as it is used, written down from its documentation: versions 8 to 12 of the
 * table differ in a few arguments and in what they append, never in the order of what all have.
 */
#ifndef RT_NCCL_NET_H
#define RT_NCCL_NET_H

#include <stddef.h>
#include <stdint.h>

enum nccl_result { NCCL_SUCCESS = 0, NCCL_SYSTEM_ERROR = 2, NCCL_INTERNAL_ERROR = 3, NCCL_INVALID_ARGUMENT = 4,
                   NCCL_INVALID_USAGE = 5, NCCL_REMOTE_ERROR = 6 };
enum nccl_log_level { NCCL_LOG_WARN = 2, NCCL_LOG_INFO = 3 };
#define NCCL_LOG_NET  16ul /* the part that a line is of */
#define NCCL_PTR_HOST 1
#define NCCL_HANDLE_BYTES 128
#define NCCL_MOST_REQUESTS 32 /* under way per connection, by its contract */

typedef void (*nccl_logger)(int level, unsigned long parts, const char *file, int line, const char *format, ...);

/* Functions have a type of their own in each version; here they are pointers of one kind, in the table's order. */
struct nccl_net_table {
    const char *name;
    void (*init)(void);
    void (*devices)(void);
    void (*get_properties)(void);
    void (*listen)(void);
    void (*connect)(void);
    void (*accept)(void);
    void (*reg_mr)(void);
    void (*reg_mr_dma_buf)(void);
    void (*dereg_mr)(void);
    void (*isend)(void);
    void (*irecv)(void);
    void (*iflush)(void);
    void (*test)(void);
    void (*close_send)(void);
    void (*close_recv)(void);
    void (*close_listen)(void);
    void (*get_device_mr)(void);
    void (*irecv_consumed)(void); /* the last of version 8 */
    void (*make_v_device)(void);  /* the last of versions 9 and 10 */
    void (*finalize)(void);
    void (*set_net_attr)(void);   /* the last of versions 11 and 12 */
};

struct nccl_properties_8 {
    char    *name, *pci_path;
    uint64_t guid;
    int      ptr_support, reg_is_global, speed_mbps, port;
    float    latency_us;
    int      max_comms, max_recvs, device_type, device_version;
};

/* Versions 9 and 10 end before max_multi_request. */
struct nccl_properties_11 {
    char    *name, *pci_path;
    uint64_t guid;
    int      ptr_support, reg_is_global, force_flush, speed_mbps, port;
    float    latency_us;
    int      max_comms, max_recvs, device_type, device_version;
    int      devices, device[4];
    size_t   max_p2p_bytes, max_coll_bytes;
    int      max_multi_request;
};

struct nccl_properties_12 {
    char    *name, *pci_path;
    uint64_t guid;
    int      ptr_support, reg_is_global, force_flush, speed_mbps, port;
    float    latency_us;
    int      max_comms, max_recvs, device_type, device_version;
    int      devices, device[8];
    size_t   max_p2p_bytes, max_coll_bytes;
    int      max_multi_request;
    int16_t  rail, plane; /* -1: not told */
};

#endif
