/*
 * A connection's link and its requests, first in, first out. A message is cut into slices as large as the link takes;
 * each frame has the message's number and its length, and the receiver checks both: NCCL may receive into more room
 * than is sent, never into less.
 */
#include "net.h"
#include <stdlib.h>
#include <string.h>

struct net_request {
    struct net_comm *comm;
    unsigned char   *data;
    size_t           bytes, total, moved; /* given by NCCL; of the message; so far */
    uint64_t         posted; /* sender: slices given to the link up to its end */
    bool             used, begun, finished;
};

struct net_comm {
    struct rt_control  control;
    struct rt_fabric   fabric;
    struct rt_link    *link;
    struct rt_error    error;
    enum nccl_result   failed;
    uint64_t           first, moving, next; /* messages: not reported done, not moved through, to be posted */
    uint64_t           posted; /* slices */
    struct net_request request[NCCL_MOST_REQUESTS];
};

static unsigned char nowhere;

struct rt_control *net_comm_control(struct net_comm *comm)
{
    return &comm->control;
}

struct net_comm *net_comm_open(const struct net_device *device, const struct rt_control *control, bool sender)
{
    const struct rt_transport *transport = net_transport[control->value & 3];
    uint8_t announced[RT_ANNOUNCEMENT];
    struct net_comm *comm = calloc(1, sizeof(*comm));
    struct rt_link *link = calloc(1, transport->link_size);
    if (!comm || !link) {
        free(comm);
        free(link);
        net_control_end(control);
        net_say(RINGTREE_NO_MEMORY, "no memory for a connection");
        return NULL;
    }
    comm->control = *control;
    comm->fabric = (struct rt_fabric){ .rank = control->rank, .nranks = 2, .settings = net_device_settings(device),
                                       .clock = &rt_system_clock, .control = &comm->control };
    *link = (struct rt_link){ .transport = transport, .fabric = &comm->fabric, .peer = 1 - control->rank,
                              .lane = RT_P2P_LANE, .sender = sender };
    comm->link = link;
    if (transport->announce) transport->announce(&comm->fabric, announced); /* opens its ports; the handle told theirs */
    net_tell_way(device, control);
    if (transport->open(link, &comm->error) == RINGTREE_OK) return comm;
    net_say(comm->error.status, comm->error.text);
    net_comm_close(comm);
    return NULL;
}

void net_comm_close(struct net_comm *comm)
{
    const struct rt_transport *transport = comm->link->transport;
    transport->close(comm->link);
    if (transport->leave) transport->leave(&comm->fabric);
    net_control_end(&comm->control);
    free(comm->link);
    free(comm);
}

static size_t slice_bytes(const struct net_comm *comm, size_t left)
{
    return left < comm->link->slot_bytes ? left : comm->link->slot_bytes;
}

static struct rt_frame frame_of(const struct net_comm *comm, const struct net_request *request)
{
    return (struct rt_frame){ .sequence = comm->moving, .count = request->total, .root = RT_NONE, .lane = RT_P2P_LANE,
                              .bytes = (uint32_t)slice_bytes(comm, request->total - request->moved) };
}

static ringtree_status send_one(struct net_comm *comm, struct net_request *request)
{
    const struct rt_frame frame = frame_of(comm, request);
    const ringtree_status status = comm->link->transport->send(comm->link, &frame, request->data + request->moved,
                                                               &comm->error);
    if (status != RINGTREE_OK) return status;
    request->begun = true;
    request->moved += frame.bytes;
    request->posted = ++comm->posted;
    return RINGTREE_OK;
}

/* The first slice tells how long the message is. */
static ringtree_status begin(struct net_comm *comm, struct net_request *request, const struct rt_frame *frame,
                             const void *data)
{
    if (frame->sequence == comm->moving && frame->count <= request->bytes) {
        request->total = frame->count;
        request->begun = true;
        if (data && frame->bytes == slice_bytes(comm, request->total)) return RINGTREE_OK;
    }
    return rt_fail(&comm->error, RINGTREE_MISMATCH, "message %" PRIu64 " of %" PRIu64 " bytes came (slice of %u) where "
                   "message %" PRIu64 " of at most %zu was expected", frame->sequence, frame->count, frame->bytes,
                   comm->moving, request->bytes);
}

static ringtree_status recv_one(struct net_comm *comm, struct net_request *request)
{
    const struct rt_transport *transport = comm->link->transport;
    const size_t room = slice_bytes(comm, request->bytes - request->moved);
    const struct rt_frame expect = frame_of(comm, request);
    unsigned char *into = request->data ? request->data + request->moved : &nowhere;
    struct rt_frame frame;
    const void *data;
    ringtree_status status = transport->recv(comm->link, request->begun ? &expect : NULL, into, room, &frame, &data,
                                             &comm->error);
    if (status != RINGTREE_OK) return status;
    if (!request->begun) status = begin(comm, request, &frame, data);
    else if (!data || frame.bytes != expect.bytes)
        status = rt_fail(&comm->error, RINGTREE_MISMATCH, "a slice of another message came");
    if (status != RINGTREE_OK) return status;
    transport->release(comm->link);
    request->moved += frame.bytes;
    return RINGTREE_OK;
}

static ringtree_status move(struct net_comm *comm)
{
    while (comm->moving < comm->next) {
        struct net_request *request = &comm->request[comm->moving % NCCL_MOST_REQUESTS];
        while (!request->begun || request->moved < request->total) {
            const ringtree_status status = comm->link->sender ? send_one(comm, request) : recv_one(comm, request);
            if (status != RINGTREE_OK) return status;
        }
        if (!comm->link->sender) request->finished = true;
        comm->moving++;
    }
    return RINGTREE_OK;
}

/* Sent means that NCCL may write there again. */
static void finish_sent(struct net_comm *comm)
{
    if (comm->first == comm->moving) return;
    const uint64_t sent = comm->link->transport->sent(comm->link, &comm->error);
    for (uint64_t i = comm->first; i < comm->moving; i++) {
        struct net_request *request = &comm->request[i % NCCL_MOST_REQUESTS];
        if (request->used && request->posted <= sent) request->finished = true;
    }
}

enum nccl_result net_comm_progress(struct net_comm *comm)
{
    if (comm->failed) return comm->failed;
    if (comm->link->sender && comm->posted == 0) comm->link->transport->reserve(comm->link, &comm->error); /* connects */
    if (!comm->error.status) move(comm);
    if (comm->link->sender && !comm->error.status) finish_sent(comm);
    if (comm->error.status) comm->failed = net_say(comm->error.status, comm->error.text);
    return comm->failed;
}

enum nccl_result net_comm_post(struct net_comm *comm, void *data, size_t bytes, void **result)
{
    struct net_request *request = &comm->request[comm->next % NCCL_MOST_REQUESTS];
    *result = NULL;
    if (comm->failed) return comm->failed;
    if (request->used) return NCCL_SUCCESS;
    *request = (struct net_request){ .comm = comm, .data = data, .bytes = bytes,
                                     .total = comm->link->sender ? bytes : 0, .used = true };
    comm->next++;
    *result = request;
    net_comm_progress(comm); /* a failure is told by test() */
    return NCCL_SUCCESS;
}

enum nccl_result net_request_test(void *pointer, int *done, int *bytes)
{
    struct net_request *request = pointer;
    struct net_comm *comm = request->comm;
    *done = 0;
    const enum nccl_result result = request->finished ? NCCL_SUCCESS : net_comm_progress(comm);
    if (!request->finished) return result;
    *done = 1;
    if (bytes) *bytes = request->total > INT32_MAX ? INT32_MAX : (int)request->total;
    request->used = false;
    while (comm->first < comm->moving && !comm->request[comm->first % NCCL_MOST_REQUESTS].used) comm->first++;
    return NCCL_SUCCESS;
}
