/* See fake.h. One lock around everything: it is for truth, not for speed. */
#include "fake.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MOST_QPS 4096
#define MOST_MRS 4096
#define CQ_SIZE  256

struct fake_context {
    struct ibv_context context; /* first */
    uint32_t           device;
    int                events;  /* the writing end of async_fd */
    struct fake_context *next;
};

struct fake_channel {
    struct ibv_comp_channel channel; /* first */
    struct ibv_cq          *cq;
};

struct fake_cq {
    struct ibv_cq        cq; /* first */
    struct fake_channel *channel;
    struct ibv_wc        wc[CQ_SIZE];
    uint32_t             head, count;
    bool                 armed;
};

struct fake_qp {
    struct ibv_qp   qp; /* first */
    enum ibv_qp_state state;
    uint32_t        receives, partner, inline_most;
    bool            forgets; /* requests go in and nothing comes out */
    enum ibv_mtu    mtu;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ibv_device devices[FAKE_DEVICES];
static bool port_up[FAKE_DEVICES], removed[FAKE_DEVICES];
static enum ibv_mtu port_mtu[FAKE_DEVICES];
static atomic_uint leaks;
static uint32_t device_count, lose, inline_most = 256, next_qp = 1;
static bool next_unheard, next_forgotten;
static enum ibv_wc_status next_status;
static struct fake_qp *qps[MOST_QPS];
static struct ibv_mr *mrs[MOST_MRS];
static struct fake_context *contexts;

void fake_reset(uint32_t count)
{
    pthread_mutex_lock(&lock);
    device_count = count;
    lose = 0;
    inline_most = 256;
    next_status = IBV_WC_SUCCESS;
    next_unheard = next_forgotten = false;
    for (uint32_t i = 0; i < FAKE_DEVICES; i++) {
        port_up[i] = true;
        removed[i] = false;
        port_mtu[i] = IBV_MTU_1024;
        snprintf(devices[i].name, sizeof(devices[i].name), "fake%u", i);
    }
    pthread_mutex_unlock(&lock);
}

uint32_t fake_leaks(void)
{
    return leaks;
}

void fake_inline(uint32_t most)
{
    inline_most = most;
}

void fake_mtu(uint32_t device, enum ibv_mtu mtu)
{
    port_mtu[device] = mtu;
}

void fake_lose(uint32_t count)
{
    lose = count;
}

void fake_next_status(enum ibv_wc_status status)
{
    pthread_mutex_lock(&lock);
    next_status = status;
    pthread_mutex_unlock(&lock);
}

void fake_unheard(void)
{
    pthread_mutex_lock(&lock);
    next_unheard = true;
    pthread_mutex_unlock(&lock);
}

void fake_forgotten(void)
{
    pthread_mutex_lock(&lock);
    next_forgotten = true;
    pthread_mutex_unlock(&lock);
}

static void tell(uint32_t device, enum ibv_event_type type)
{
    struct ibv_async_event event = { .event_type = type };
    event.element.port_num = 1;
    for (struct fake_context *c = contexts; c; c = c->next)
        if (c->device == device && c->events >= 0 && write(c->events, &event, sizeof(event)) < 0) perror("fake event");
}

void fake_port(uint32_t device, bool up)
{
    pthread_mutex_lock(&lock);
    port_up[device] = up;
    tell(device, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
    pthread_mutex_unlock(&lock);
}

void fake_remove(uint32_t device)
{
    pthread_mutex_lock(&lock);
    port_up[device] = false;
    removed[device] = true;
    tell(device, IBV_EVENT_DEVICE_FATAL);
    for (struct fake_context *c = contexts; c; c = c->next) {
        if (c->device != device || c->events < 0) continue;
        close(c->events); /* readable from now on, with nothing to read */
        c->events = -1;
    }
    pthread_mutex_unlock(&lock);
}

static bool is_removed(const struct ibv_qp *qp)
{
    return removed[((struct fake_context *)qp->context)->device];
}

/* ---- completions */

static void complete(struct ibv_cq *cq, struct ibv_wc wc)
{
    struct fake_cq *queue = (struct fake_cq *)cq;
    if (queue->count == CQ_SIZE || queue->count == (uint32_t)cq->cqe) {
        fprintf(stderr, "fake device: a completion queue of %d overflowed\n", cq->cqe);
        abort();
    }
    queue->wc[(queue->head + queue->count++) % CQ_SIZE] = wc;
    if (!queue->armed) return;
    const uint64_t one = 1;
    queue->armed = false;
    if (write(queue->channel->channel.fd, &one, sizeof(one)) < 0) perror("fake completion");
}

static void to_error(struct fake_qp *qp)
{
    qp->state = IBV_QPS_ERR;
    for (; qp->receives; qp->receives--)
        complete(qp->qp.recv_cq, (struct ibv_wc){ .status = IBV_WC_WR_FLUSH_ERR, .qp_num = qp->qp.qp_num });
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
    struct fake_cq *queue = (struct fake_cq *)cq;
    int n = 0;
    pthread_mutex_lock(&lock);
    for (; n < most && queue->count; n++, queue->count--) wc[n] = queue->wc[queue->head++ % CQ_SIZE];
    pthread_mutex_unlock(&lock);
    return n;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
    (void)solicited;
    pthread_mutex_lock(&lock);
    ((struct fake_cq *)cq)->armed = true;
    pthread_mutex_unlock(&lock);
    return 0;
}

/* ---- requests */

static bool may_write(uint32_t key, uint64_t at, uint64_t bytes)
{
    const struct ibv_mr *mr = key < MOST_MRS ? mrs[key] : NULL;
    return mr && at >= (uintptr_t)mr->addr && at + bytes <= (uintptr_t)mr->addr + mr->length;
}

static uint64_t total(const struct ibv_send_wr *wr)
{
    uint64_t bytes = 0;
    for (int i = 0; i < wr->num_sge; i++) bytes += wr->sg_list[i].length;
    return bytes;
}

static bool readable(const struct ibv_send_wr *wr)
{
    for (int i = 0; i < wr->num_sge && !(wr->send_flags & IBV_SEND_INLINE); i++)
        if (!may_write(wr->sg_list[i].lkey, wr->sg_list[i].addr, wr->sg_list[i].length)) return false;
    return true;
}

static bool has_note(const struct ibv_send_wr *wr)
{
    return wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM || wr->opcode == IBV_WR_SEND_WITH_IMM;
}

static void receive(struct fake_qp *to, const struct ibv_send_wr *wr)
{
    to->receives--;
    const bool written = wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    complete(to->qp.recv_cq, (struct ibv_wc){ .status = IBV_WC_SUCCESS, .qp_num = to->qp.qp_num,
             .imm_data = wr->imm_data, .wc_flags = IBV_WC_WITH_IMM, .byte_len = (uint32_t)total(wr),
             .opcode = written ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV });
}

static enum ibv_wc_status carry_out(struct fake_qp *from, const struct ibv_send_wr *wr)
{
    struct fake_qp *to = from->partner < MOST_QPS ? qps[from->partner] : NULL;
    const enum ibv_wc_status forced = next_status;
    next_status = IBV_WC_SUCCESS;
    if (forced != IBV_WC_SUCCESS) return forced;
    const bool up = port_up[((struct fake_context *)from->qp.context)->device];
    if (!up || !to || (to->state != IBV_QPS_RTR && to->state != IBV_QPS_RTS)) return IBV_WC_RETRY_EXC_ERR;
    if (to->mtu != from->mtu) return IBV_WC_REM_INV_REQ_ERR; /* packets of another size than was agreed */
    if (!readable(wr)) return IBV_WC_LOC_PROT_ERR;
    if (wr->opcode != IBV_WR_SEND_WITH_IMM && total(wr) &&
        !may_write(wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, total(wr)))
        return IBV_WC_REM_ACCESS_ERR;
    if (has_note(wr) && !to->receives) return IBV_WC_RNR_RETRY_EXC_ERR;
    if (lose && total(wr) > 1000) {
        if (--lose == 0) next_status = IBV_WC_RETRY_EXC_ERR;
        return IBV_WC_SUCCESS;
    }
    unsigned char *at = (unsigned char *)(uintptr_t)wr->wr.rdma.remote_addr;
    for (int i = 0; i < wr->num_sge; at += wr->sg_list[i++].length)
        memcpy(at, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
    if (has_note(wr)) receive(to, wr);
    const bool unheard = next_unheard;
    next_unheard = false;
    return unheard ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct fake_qp *from = (struct fake_qp *)qp;
    if (is_removed(qp)) return 0; /* a doorbell that nobody hears */
    pthread_mutex_lock(&lock);
    enum ibv_wc_status status = IBV_WC_WR_FLUSH_ERR;
    const bool ready = from->state == IBV_QPS_RTS || from->state == IBV_QPS_ERR;
    from->forgets |= next_forgotten;
    next_forgotten = false;
    if (from->forgets) {
        pthread_mutex_unlock(&lock);
        return 0;
    }
    const bool fits = !(wr->send_flags & IBV_SEND_INLINE) || total(wr) <= from->inline_most;
    if (ready && fits && from->state == IBV_QPS_RTS) status = carry_out(from, wr);
    if (ready && fits && (status != IBV_WC_SUCCESS || wr->send_flags & IBV_SEND_SIGNALED))
        complete(qp->send_cq, (struct ibv_wc){ .wr_id = wr->wr_id, .status = status, .qp_num = qp->qp_num });
    if (ready && fits && status != IBV_WC_SUCCESS) to_error(from);
    pthread_mutex_unlock(&lock);
    *bad = wr;
    return ready && fits ? 0 : EINVAL;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    pthread_mutex_lock(&lock);
    ((struct fake_qp *)qp)->receives++;
    pthread_mutex_unlock(&lock);
    *bad = wr;
    return 0;
}

uint32_t fake_partner(uint32_t qp)
{
    return qp < MOST_QPS && qps[qp] ? qps[qp]->partner : 0;
}

bool fake_hostile(uint32_t victim, uint64_t address, uint32_t key, const void *bytes, uint32_t count, uint32_t note,
                  bool writes)
{
    struct ibv_sge sge = { (uintptr_t)bytes, count, 0 };
    struct ibv_send_wr wr = { .opcode = writes ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_SEND_WITH_IMM,
                              .send_flags = IBV_SEND_INLINE, .sg_list = &sge, .num_sge = writes && count ? 1 : 0,
                              .imm_data = htonl(note) };
    struct fake_qp stranger = { .partner = victim, .state = IBV_QPS_RTS };
    wr.wr.rdma.remote_addr = address;
    wr.wr.rdma.rkey = key;
    pthread_mutex_lock(&lock);
    stranger.mtu = victim < MOST_QPS && qps[victim] ? qps[victim]->mtu : 0;
    stranger.qp.context = victim < MOST_QPS && qps[victim] ? qps[victim]->qp.context : NULL;
    const bool done = stranger.qp.context && carry_out(&stranger, &wr) == IBV_WC_SUCCESS;
    pthread_mutex_unlock(&lock);
    return done;
}

/* ---- objects */

static struct ibv_device **get_device_list(int *count)
{
    struct ibv_device **list = calloc(FAKE_DEVICES + 1, sizeof(*list));
    for (uint32_t i = 0; i < device_count; i++) list[i] = &devices[i];
    *count = (int)device_count;
    return list;
}

static void free_device_list(struct ibv_device **list)
{
    free(list);
}

static const char *get_device_name(struct ibv_device *device)
{
    return device->name;
}

static struct ibv_context *open_device(struct ibv_device *device)
{
    struct fake_context *c = calloc(1, sizeof(*c));
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) abort();
    c->device = (uint32_t)(device - devices);
    c->context.device = device;
    c->context.async_fd = ends[0];
    c->context.ops.poll_cq = poll_cq;
    c->context.ops.req_notify_cq = req_notify_cq;
    c->context.ops.post_send = post_send;
    c->context.ops.post_recv = post_recv;
    c->events = ends[1];
    pthread_mutex_lock(&lock);
    leaks++;
    c->next = contexts;
    contexts = c;
    pthread_mutex_unlock(&lock);
    return &c->context;
}

static int close_device(struct ibv_context *context)
{
    struct fake_context *c = (struct fake_context *)context;
    pthread_mutex_lock(&lock);
    struct fake_context **at = &contexts;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    leaks--;
    pthread_mutex_unlock(&lock);
    close(c->context.async_fd);
    if (c->events >= 0) close(c->events);
    free(c);
    return 0;
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    (void)context;
    attr->phys_port_cnt = 1;
    return 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
    const uint32_t device = ((struct fake_context *)context)->device;
    attr->state = port_up[device] ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    attr->active_mtu = port_mtu[device];
    attr->link_layer = IBV_LINK_LAYER_ETHERNET;
    attr->pkey_tbl_len = 1;
    attr->active_width = 2;
    attr->active_speed = 32;
    return port == 1 ? 0 : EINVAL;
}

static ssize_t query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t most, uint32_t flags,
                               size_t entry_size)
{
    const uint32_t device = ((struct fake_context *)context)->device;
    const unsigned char link_local[16] = { 0xfe, 0x80, [15] = (unsigned char)(device + 1) };
    const unsigned char ipv4[16] = { [10] = 0xff, [11] = 0xff, [12] = 10, [13] = (unsigned char)device, [15] = 1 };
    (void)flags;
    if (most < 2 || entry_size != sizeof(*entries)) return -EINVAL;
    memset(entries, 0, 2 * sizeof(*entries));
    memcpy(entries[0].gid.raw, link_local, 16);
    memcpy(entries[1].gid.raw, ipv4, 16);
    for (uint32_t i = 0; i < 2; i++) {
        entries[i].gid_index = i;
        entries[i].port_num = 1;
        entries[i].gid_type = IBV_GID_TYPE_ROCE_V2;
    }
    return 2;
}

static int query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
    (void)context;
    (void)port;
    *pkey = htons(0xffff);
    return index == 0 ? 0 : -1;
}

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd = calloc(1, sizeof(*pd));
    pd->context = context;
    leaks++;
    return pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
    leaks--;
    free(pd);
    return 0;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *at, size_t bytes, int access)
{
    struct ibv_mr *mr = calloc(1, sizeof(*mr));
    (void)access;
    *mr = (struct ibv_mr){ .context = pd->context, .pd = pd, .addr = at, .length = bytes };
    pthread_mutex_lock(&lock);
    uint32_t key = 1;
    while (key < MOST_MRS && mrs[key]) key++;
    if (key == MOST_MRS) abort();
    mrs[key] = mr;
    mr->lkey = mr->rkey = key;
    leaks++;
    pthread_mutex_unlock(&lock);
    return mr;
}

static int dereg_mr(struct ibv_mr *mr)
{
    pthread_mutex_lock(&lock);
    mrs[mr->lkey] = NULL;
    leaks--;
    pthread_mutex_unlock(&lock);
    free(mr);
    return 0;
}

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *context)
{
    struct fake_channel *c = calloc(1, sizeof(*c));
    c->channel.context = context;
    c->channel.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    leaks++;
    return &c->channel;
}

static int destroy_comp_channel(struct ibv_comp_channel *channel)
{
    leaks--;
    close(channel->fd);
    free(channel);
    return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *context, int entries, void *cq_context,
                                struct ibv_comp_channel *channel, int vector)
{
    struct fake_cq *cq = calloc(1, sizeof(*cq));
    (void)vector;
    cq->cq = (struct ibv_cq){ .context = context, .channel = channel, .cq_context = cq_context, .cqe = entries };
    cq->channel = (struct fake_channel *)channel;
    cq->channel->cq = &cq->cq;
    leaks++;
    return &cq->cq;
}

static int destroy_cq(struct ibv_cq *cq)
{
    leaks--;
    free(cq);
    return 0;
}

static int get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    uint64_t one;
    if (read(channel->fd, &one, sizeof(one)) < 0) return -1;
    *cq = ((struct fake_channel *)channel)->cq;
    *cq_context = NULL;
    return 0;
}

static void ack_cq_events(struct ibv_cq *cq, unsigned count)
{
    (void)cq;
    (void)count;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    errno = removed[((struct fake_context *)pd->context)->device] ? EIO : EINVAL;
    if (errno == EIO) return NULL;
    if (attr->cap.max_inline_data > inline_most) return NULL;
    struct fake_qp *qp = calloc(1, sizeof(*qp));
    qp->qp = (struct ibv_qp){ .context = pd->context, .pd = pd, .send_cq = attr->send_cq, .recv_cq = attr->recv_cq };
    qp->inline_most = attr->cap.max_inline_data;
    pthread_mutex_lock(&lock);
    while (qps[next_qp % MOST_QPS] || next_qp % MOST_QPS == 0) next_qp++;
    qp->qp.qp_num = next_qp++ % MOST_QPS;
    qps[qp->qp.qp_num] = qp;
    leaks++;
    pthread_mutex_unlock(&lock);
    return &qp->qp;
}

static int modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
    struct fake_qp *qp = (struct fake_qp *)ibv;
    if (is_removed(ibv)) return EIO;
    pthread_mutex_lock(&lock);
    if (attr->qp_state == IBV_QPS_ERR) to_error(qp);
    else qp->state = attr->qp_state;
    if (mask & IBV_QP_DEST_QPN) qp->partner = attr->dest_qp_num;
    if (mask & IBV_QP_PATH_MTU) qp->mtu = attr->path_mtu;
    pthread_mutex_unlock(&lock);
    return 0;
}

static int destroy_qp(struct ibv_qp *ibv)
{
    pthread_mutex_lock(&lock);
    qps[ibv->qp_num] = NULL;
    leaks--;
    pthread_mutex_unlock(&lock);
    free(ibv);
    return 0;
}

static int get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    return read(context->async_fd, event, sizeof(*event)) == (ssize_t)sizeof(*event) ? 0 : -1;
}

static void ack_async_event(struct ibv_async_event *event)
{
    (void)event;
}

const struct rt_verbs_api fake_api = {
    get_device_list, free_device_list, get_device_name, open_device, close_device, query_port, query_device,
    query_gid_table, NULL, query_pkey, alloc_pd, dealloc_pd, reg_mr, dereg_mr, create_comp_channel,
    destroy_comp_channel, create_cq, destroy_cq, get_cq_event, ack_cq_events, create_qp, modify_qp, destroy_qp,
    get_async_event, ack_async_event,
};
