/* The table of settings: the only place where one is declared. What reads it is in settings_read.c. */
#include "settings.h"

#define KIB 1024u
#define MIB (1024u * 1024u)
#define MOST_RANKS (1u << 20)

#define NUMBER(name_, unit_, default_, least_, most_, help_)                                                           \
    { .name = "RINGTREE_" name_, .kind = RT_KIND_U64, .unit = unit_, .value = default_, .least = least_,               \
      .most = most_, .help = help_ }
#define SIZE(name_, default_, least_, most_, help_)                                                                    \
    { .name = "RINGTREE_" name_, .kind = RT_KIND_SIZE, .unit = "bytes", .value = default_, .least = least_,            \
      .most = most_, .help = help_ }
#define BOOL(name_, default_, help_)                                                                                   \
    { .name = "RINGTREE_" name_, .kind = RT_KIND_BOOL, .unit = "", .value = default_, .most = 1, .help = help_ }
#define TEXT(name_, default_, help_)                                                                                   \
    { .name = "RINGTREE_" name_, .kind = RT_KIND_TEXT, .unit = "", .value = default_, .help = help_ }
#define CHOICE(name_, choices_, help_)                                                                                 \
    { .name = "RINGTREE_" name_, .kind = RT_KIND_TEXT, .unit = "", .value = "", .help = help_, .choices = choices_ }
#define SECRET(name_, help_)                                                                                           \
    { .name = "RINGTREE_" name_, .kind = RT_KIND_TEXT, .unit = "", .value = "", .help = help_, .hidden = true }

const struct rt_setting_info rt_setting_table[RT_SETTING_COUNT] = {
    [RT_TIMEOUT_MS] = NUMBER("TIMEOUT_MS", "ms", "300000", 1, INT32_MAX,
        "longest wait for another rank, at the start and in every operation; then the call fails and names that rank"),
    [RT_ALGORITHM] = TEXT("ALGORITHM", "",
        "forces an algorithm: a name such as ring for every collective, or a list such as "
        "all_reduce=ring,broadcast=tree; empty: chosen for each call; an impossible one is an error"),
    [RT_TRANSPORTS] = TEXT("TRANSPORTS", "^ucx",
        "transports that may be used, of shm, verbs, tcp and ucx: a list such as shm,tcp is obeyed in its order (tcp "
        "alone switches shared memory off); ^ and a list: all but these, shm first, then for each link what costs "
        "least, which is measured once as RINGTREE_CALIBRATE says"),
    [RT_INTERFACE] = TEXT("INTERFACE", "",
        "network interfaces to use: beginnings of names (eth,ib), exact names (=eth0,eth1), or all but these "
        "(^docker,lo); empty: all, with loopback, link-local and container bridges last"),
    [RT_HOST] = TEXT("HOST", "",
        "pretend to be on the host of this name: ranks with different names share no memory; for tests"),
    [RT_LOG] = CHOICE("LOG", "error warn info debug",
        "log this and everything graver; empty: nothing"),
    [RT_LOG_FILE] = TEXT("LOG_FILE", "",
        "file that log lines are added to; %h stands for the host, %p for the process, %r for the rank, %% for %; "
        "empty: standard error"),
    [RT_CONFIG] = TEXT("CONFIG", "",
        "file with more settings, one NAME=value a line, # begins a comment; the environment wins over it"),
    [RT_PROGRESS_THREAD] = BOOL("PROGRESS_THREAD", "0",
        "1: a thread of each communicator moves requests on while the caller computes"),
    [RT_SLICE_BYTES] = SIZE("SLICE_BYTES", "0", 0, 1024 * MIB,
        "largest piece that a collective hands to a transport at once; 0: chosen"),
    [RT_SHM_SLOTS] = NUMBER("SHM_SLOTS", "", "4", 2, 64,
        "slices in flight between two ranks in shared memory"),
    [RT_SHM_SLOT_BYTES] = SIZE("SHM_SLOT_BYTES", "128K", 4 * KIB, 64 * MIB,
        "size of one slice in shared memory"),
    [RT_TCP_SOCKETS] = NUMBER("TCP_SOCKETS", "", "0", 0, 16,
        "TCP connections between two ranks, per lane, over which slices of more than 64K are spread; 0: between "
        "machines as many as pay by measurement, within one 1"),
    [RT_TCP_SLOT_BYTES] = SIZE("TCP_SLOT_BYTES", "256K", 4 * KIB, 64 * MIB,
        "size of one slice on a TCP link"),
    [RT_UCX_SLOT_BYTES] = SIZE("UCX_SLOT_BYTES", "256K", 4 * KIB, 64 * MIB,
        "size of one slice on a UCX link"),
    [RT_TCP_CONGESTION] = TEXT("TCP_CONGESTION", "",
        "congestion control of data connections between machines: a name such as cubic, bbr or dctcp; empty: the "
        "system's, but reno instead of bbr where a packet takes under 2 ms there and back: bbr paces, which costs up "
        "to half of a near link; connections within a machine always take reno, which never slows what is never lost"),
    [RT_VERBS_DEVICES] = TEXT("VERBS_DEVICES", "",
        "RDMA devices to use, in full: mlx5_0,mlx5_1:2 (the number after the colon is a port); several share the load; "
        "empty: the fastest that are near this rank's cores"),
    [RT_VERBS_GID_INDEX] = NUMBER("VERBS_GID_INDEX", "", "", 0, 255,
        "which GID of an RDMA port to use; empty: on RoCE that of the address which ringtree uses, version 2"),
    [RT_VERBS_PKEY] = NUMBER("VERBS_PKEY", "", "0", 0, 65535,
        "InfiniBand partition, in decimal; 0: the port's first"),
    [RT_VERBS_TRAFFIC_CLASS] = NUMBER("VERBS_TRAFFIC_CLASS", "", "0", 0, 255,
        "traffic class of RDMA packets (on RoCE the DSCP times 4), for the switches' flow control"),
    [RT_VERBS_SERVICE_LEVEL] = NUMBER("VERBS_SERVICE_LEVEL", "", "0", 0, 15,
        "InfiniBand service level"),
    [RT_VERBS_TIMEOUT] = NUMBER("VERBS_TIMEOUT", "", "16", 1, 31,
        "how long an RDMA device waits for an acknowledgement: 4.096 us times 2 to this power (16: 0.27 s)"),
    [RT_VERBS_RETRY] = NUMBER("VERBS_RETRY", "", "7", 0, 7,
        "how often it then sends again before the connection breaks"),
    [RT_VERBS_QPS] = NUMBER("VERBS_QPS", "", "1", 1, 8,
        "queue pairs per RDMA port between two ranks, at most 8 over all ports; long slices are cut over them"),
    [RT_VERBS_SLOT_BYTES] = SIZE("VERBS_SLOT_BYTES", "128K", 4 * KIB, 64 * MIB,
        "size of one slice on a verbs link, in pinned memory; unless it is set, less in communicators of more than 128 "
        "ranks, down to 16K"),
    [RT_VERBS_REGISTER] = BOOL("VERBS_REGISTER", "1",
        "long slices are sent from the caller's memory, whose registration with the device is kept until it is freed "
        "or others need the room; 0: they are copied"),
    [RT_VERBS_ODP] = BOOL("VERBS_ODP", "0",
        "1: memory is registered with on-demand paging where the device can, so that it is not pinned"),
    [RT_VERBS_FAILOVER] = CHOICE("VERBS_FAILOVER", "port off",
        "when an RDMA connection breaks: port: only other ports take over; off: the operation fails; empty: other "
        "ports, then tcp"),
    [RT_DIRECT] = BOOL("DIRECT", "1",
        "0: ranks that share memory do not use the direct paths (one-shot for small, two-shot for large arrays)"),
    [RT_BIND] = BOOL("BIND", "1",
        "1: on a machine with several NUMA domains each rank, and its progress thread, keeps to its share of them, "
        "unless it is bound already; 0: they run where the system puts them"),
    [RT_TOPOLOGY] = TEXT("TOPOLOGY", "",
        "the machine of this rank, where what is seen of it is not true, as in many virtual machines: a file with "
        "NCCL's or hwloc's XML, which is completed by what is seen, or words as ringtree-topo takes; empty: what is "
        "seen"),
    [RT_SHM_READS] = CHOICE("SHM_READS", "on off",
        "blocks of all_gather, all_to_all and gather are copied straight between processes (process_vm_readv and "
        "writev); on: wherever the kernel allows it; empty: where it is also fast"),
    [RT_CALIBRATE] = CHOICE("CALIBRATE", "off cached always",
        "whether the planner's links are measured at the start; empty: once for each machine and placement, then kept "
        "in RINGTREE_CACHE_DIR, and links between machines at every start, too; cached: only what was kept is used; "
        "always: measured each time; off: as the table has them"),
    [RT_CALIBRATE_MS] = NUMBER("CALIBRATE_MS", "ms", "20", 1, 10000,
        "about as long as measuring links at the start may take, and once more where transports compete; a slow link "
        "takes longer"),
    [RT_REVIEW_EVERY] = NUMBER("REVIEW_EVERY", "", "0", 0, UINT32_MAX,
        "after so many collectives the ranks compare what they took with what was predicted, and plan anew where it "
        "was off by over 2; then a run's algorithms, and with them its last bits, depend on time; 0: never"),
    [RT_CACHE_DIR] = TEXT("CACHE_DIR", "",
        "directory where measurements of links are kept; empty: ringtree in XDG_CACHE_HOME or ~/.cache"),
    [RT_TUNE_FILE] = TEXT("TUNE_FILE", "",
        "the planner's table of costs, as ringtree-tune writes it, with the same contents on all ranks; empty: the "
        "built-in one"),
    [RT_COMPRESS_BELOW] = SIZE("COMPRESS_BELOW", "2G", 0, UINT64_C(1) << 50,
        "bytes a second: a call with a codec compresses between nodes whose links are slower; 0: never"),
    [RT_LINK_RATE] = SIZE("LINK_RATE", "0", 0, UINT64_C(1) << 50,
        "bytes a second that a link between nodes carries, for deciding what to compress; 0: as the planner knows it"),
    [RT_SPIN_POLLS] = NUMBER("SPIN_POLLS", "", "0", 0, UINT32_MAX,
        "polls before a waiting rank gives its core away; 0: chosen from cores and ranks"),
    [RT_SECRET_FILE] = TEXT("SECRET_FILE", "",
        "file with the secret that the ranks share, for launchers that carry none; readable by you alone"),
    [RT_ROOT] = TEXT("ROOT", "",
        "host:port where rank 0 listens, together with RINGTREE_RANK and RINGTREE_SIZE; [address]:port for IPv6"),
    [RT_ROOT_PORT] = NUMBER("PORT", "", "0", 0, 65535,
        "port of rank 0 where the launcher names only a host; 0: derived from the job's number"),
    [RT_RANK] = NUMBER("RANK", "", "", 0, MOST_RANKS - 1,
        "this rank's number; given by a launcher"),
    [RT_SIZE] = NUMBER("SIZE", "", "", 1, MOST_RANKS,
        "the number of ranks; given by a launcher"),
    [RT_LOCAL_RANK] = NUMBER("LOCAL_RANK", "", "", 0, MOST_RANKS - 1,
        "this rank's number on its machine; given by a launcher"),
    [RT_LOCAL_SIZE] = NUMBER("LOCAL_SIZE", "", "", 1, MOST_RANKS,
        "the number of ranks on this machine; given by a launcher"),
    [RT_ID] = SECRET("ID", "the communicator's id in hex, with its secret; set by ringtree-run"),
    [RT_FAULT] = TEXT("FAULT", "", "breaks something on purpose, for tests; only in builds with tests"),
};
