/* Sentences for every work completion status and asynchronous event of libibverbs. */
#include "words.h"
#include <arpa/inet.h>
#include <stdio.h>

struct words {
    const char *meaning, *advice;
};

#define LOOK_PEER                                                                                                      \
    "look whether the peer is alive, whether both GIDs are in one subnet and VLAN, whether the switches' priority "    \
    "flow control fits RINGTREE_VERBS_TRAFFIC_CLASS, and whether the path's MTU passes unbroken; "                     \
    "RINGTREE_VERBS_TIMEOUT and RINGTREE_VERBS_RETRY make it wait longer"
#define LOOK_BOTH "both ends must run the same version of ringtree; if they do, this is a bug: please report it"
#define LOOK_DEVICE "look at the kernel's log (dmesg) for this device"
#define LOOK_FIRST "it follows from an earlier failure of the connection"

static const struct words status_words[] = {
    [IBV_WC_SUCCESS] = { "success", "" },
    [IBV_WC_LOC_LEN_ERR] = { "a length is wrong at this end", LOOK_BOTH },
    [IBV_WC_LOC_QP_OP_ERR] = { "the device could not carry the request out (the interface may be down or its route "
                               "gone)", "look at the interface (ip link, ip route) and the kernel's log (dmesg)" },
    [IBV_WC_LOC_EEC_OP_ERR] = { "the device could not carry the request out", LOOK_DEVICE },
    [IBV_WC_LOC_PROT_ERR] = { "memory at this end is not registered any more",
                              "was memory freed while a call still used it?" },
    [IBV_WC_WR_FLUSH_ERR] = { "the queue pair is in error and was emptied", LOOK_FIRST },
    [IBV_WC_MW_BIND_ERR] = { "a memory window could not be bound", LOOK_DEVICE },
    [IBV_WC_BAD_RESP_ERR] = { "an answer that belongs to nothing came", LOOK_DEVICE },
    [IBV_WC_LOC_ACCESS_ERR] = { "memory at this end may not be written to", LOOK_BOTH },
    [IBV_WC_REM_INV_REQ_ERR] = { "the peer's device refused the request as invalid", LOOK_BOTH },
    [IBV_WC_REM_ACCESS_ERR] = { "the peer's device refused access to its memory", LOOK_BOTH },
    [IBV_WC_REM_OP_ERR] = { "the peer's device could not carry the request out",
                            "look at the kernel's log (dmesg) on the peer's host" },
    [IBV_WC_RETRY_EXC_ERR] = { "retry exceeded: the peer did not acknowledge in any try", LOOK_PEER },
    [IBV_WC_RNR_RETRY_EXC_ERR] = { "the peer was not ready to receive in any try",
                                   "look whether the peer's process is stopped" },
    [IBV_WC_LOC_RDD_VIOL_ERR] = { "the domains of queue pair and request differ", LOOK_DEVICE },
    [IBV_WC_REM_INV_RD_REQ_ERR] = { "the peer's device refused a read", LOOK_BOTH },
    [IBV_WC_REM_ABORT_ERR] = { "the peer's device aborted the request", LOOK_DEVICE },
    [IBV_WC_INV_EECN_ERR] = { "an end-to-end context is invalid", LOOK_DEVICE },
    [IBV_WC_INV_EEC_STATE_ERR] = { "an end-to-end context is in a wrong state", LOOK_DEVICE },
    [IBV_WC_FATAL_ERR] = { "the device failed", LOOK_DEVICE },
    [IBV_WC_RESP_TIMEOUT_ERR] = { "the answer did not come in time", LOOK_PEER },
    [IBV_WC_GENERAL_ERR] = { "the device reports an error without a name", LOOK_DEVICE },
    [IBV_WC_TM_ERR] = { "tag matching failed", LOOK_DEVICE },
    [IBV_WC_TM_RNDV_INCOMPLETE] = { "a rendezvous was not finished", LOOK_DEVICE },
};

static const struct words *words_of(enum ibv_wc_status status)
{
    static const struct words unknown = { "a status that this version does not know", LOOK_DEVICE };
    const size_t count = sizeof(status_words) / sizeof(*status_words);
    return (unsigned)status < count && status_words[status].meaning ? &status_words[status] : &unknown;
}

const char *rt_verbs_status_meaning(enum ibv_wc_status status)
{
    return words_of(status)->meaning;
}

const char *rt_verbs_status_advice(enum ibv_wc_status status)
{
    return words_of(status)->advice;
}

struct event {
    const char *meaning;
    bool        fatal;
};

static const struct event events[] = {
    [IBV_EVENT_CQ_ERR] = { "a completion queue overflowed", true },
    [IBV_EVENT_QP_FATAL] = { "a queue pair failed", false },
    [IBV_EVENT_QP_REQ_ERR] = { "a queue pair got an invalid request from its peer", false },
    [IBV_EVENT_QP_ACCESS_ERR] = { "a peer tried to reach memory that it may not", false },
    [IBV_EVENT_COMM_EST] = { "a connection carries its first bytes", false },
    [IBV_EVENT_SQ_DRAINED] = { "a send queue is empty", false },
    [IBV_EVENT_PATH_MIG] = { "a connection moved to its other path", false },
    [IBV_EVENT_PATH_MIG_ERR] = { "a connection could not move to its other path", false },
    [IBV_EVENT_DEVICE_FATAL] = { "the device failed or was removed; see the kernel's log (dmesg)", true },
    [IBV_EVENT_PORT_ACTIVE] = { "the port is up", false },
    [IBV_EVENT_PORT_ERR] = { "the port is down; look at cable, switch and interface (ip link)", true },
    [IBV_EVENT_LID_CHANGE] = { "the subnet manager gave the port another LID", false },
    [IBV_EVENT_PKEY_CHANGE] = { "the subnet manager changed the port's partitions", false },
    [IBV_EVENT_SM_CHANGE] = { "the subnet has another manager", false },
    [IBV_EVENT_SRQ_ERR] = { "a shared receive queue failed", false },
    [IBV_EVENT_SRQ_LIMIT_REACHED] = { "a shared receive queue runs low", false },
    [IBV_EVENT_QP_LAST_WQE_REACHED] = { "a queue pair is empty", false },
    [IBV_EVENT_CLIENT_REREGISTER] = { "the subnet manager asks for a new registration", false },
    [IBV_EVENT_GID_CHANGE] = { "the port's GIDs changed; were addresses of its interface changed (ip addr)?", false },
    [IBV_EVENT_WQ_FATAL] = { "a work queue failed", false },
};

static const struct event *event_of(enum ibv_event_type type)
{
    static const struct event unknown = { "an event that this version does not know", false };
    const size_t count = sizeof(events) / sizeof(*events);
    return (unsigned)type < count && events[type].meaning ? &events[type] : &unknown;
}

const char *rt_verbs_event_meaning(enum ibv_event_type type)
{
    return event_of(type)->meaning;
}

bool rt_verbs_event_is_fatal(enum ibv_event_type type)
{
    return event_of(type)->fatal;
}

const char *rt_verbs_gid_text(const unsigned char gid[16], char *text, size_t capacity)
{
    if (!inet_ntop(AF_INET6, gid, text, (socklen_t)capacity) && capacity) text[0] = '\0';
    return text;
}

unsigned rt_verbs_mtu_bytes(unsigned mtu)
{
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}
