/* Queue pairs: made, connected, filled with receive requests, polled, emptied. */
#include "verbs.h"
#include "base/log.h"
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define POLLED 16 /* completions taken at once */

static const struct rt_verbs_api *api(const struct rt_verbs_pair *pair)
{
    return pair->verbs->api;
}

static ringtree_status cannot(struct rt_verbs_pair *pair, const struct rt_verbs_queue *queue, const char *what)
{
    const int number = errno;
    char text[120];
    return rt_verbs_fail(pair, RINGTREE_SYSTEM, "rank %u: %s cannot %s to rank %u: %s", pair->fabric->rank,
                         rt_verbs_port_text(queue->port, text, sizeof(text)), what, pair->peer,
                         rt_errno_words(number));
}

/* ---- making */

static struct ibv_qp *make_qp(const struct rt_verbs_pair *pair, struct rt_verbs_queue *queue)
{
    struct ibv_qp_init_attr init = { .send_cq = queue->cq, .recv_cq = queue->cq, .qp_type = IBV_QPT_RC };
    struct ibv_qp *qp = NULL;
    /* Devices differ in what they grant inline; ask for less rather than go without. */
    for (uint32_t inline_bytes = RT_VERBS_INLINE; !qp; inline_bytes = inline_bytes > 64 ? 64 : 0) {
        init.cap = (struct ibv_qp_cap){ RT_VERBS_SENDS, RT_VERBS_RECEIVES, 2, 1, inline_bytes };
        qp = api(pair)->create_qp(queue->port->pd, &init);
        queue->inline_bytes = inline_bytes;
        if (!inline_bytes) break;
    }
    return qp;
}

static ringtree_status to_init(struct rt_verbs_pair *pair, struct rt_verbs_queue *queue)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .pkey_index = (uint16_t)queue->port->pkey_index,
                                .port_num = (uint8_t)queue->port->number, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
    const int failed = api(pair)->modify_qp(queue->qp, &attr,
                                            IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (!failed) return RINGTREE_OK;
    errno = failed;
    return cannot(pair, queue, "prepare a queue pair");
}

static ringtree_status watch(struct rt_verbs_pair *pair, int fd)
{
    struct epoll_event event = { .events = EPOLLIN };
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) || epoll_ctl(pair->poller, EPOLL_CTL_ADD, fd, &event))
        return rt_verbs_fail(pair, RINGTREE_SYSTEM, "rank %u: the completions of a link to rank %u cannot be watched: "
                             "%s", pair->fabric->rank, pair->peer, rt_errno_words(errno));
    return RINGTREE_OK;
}

ringtree_status rt_verbs_queue_make(struct rt_verbs_pair *pair, struct rt_verbs_queue *queue,
                                    struct rt_verbs_port *port)
{
    memset(queue, 0, sizeof(*queue));
    queue->port = port;
    queue->psn = (uint32_t)(rt_now_ns(pair->fabric->clock) >> 10 ^ (uintptr_t)queue) & 0xffffff;
    queue->channel = api(pair)->create_comp_channel(port->context);
    if (!queue->channel) return cannot(pair, queue, "open a completion channel for a link");
    ringtree_status status = watch(pair, queue->channel->fd);
    if (status != RINGTREE_OK) return status;
    queue->cq = api(pair)->create_cq(port->context, RT_VERBS_SENDS + RT_VERBS_RECEIVES, NULL, queue->channel, 0);
    if (!queue->cq) return cannot(pair, queue, "open a completion queue for a link");
    queue->qp = make_qp(pair, queue);
    if (!queue->qp) return cannot(pair, queue, "open a queue pair for a link");
    status = to_init(pair, queue);
    return status == RINGTREE_OK ? rt_verbs_queue_refill(pair, queue) : status;
}

/* ---- connecting */

static struct ibv_ah_attr route_to(const struct rt_verbs_pair *pair, const struct rt_verbs_queue *queue)
{
    const struct rt_settings *settings = pair->fabric->settings;
    const struct rt_verbs_end *mine = &queue->port->end, *theirs = &queue->theirs;
    struct ibv_ah_attr ah = { .dlid = theirs->lid, .sl = (uint8_t)settings->number[RT_VERBS_SERVICE_LEVEL],
                              .port_num = (uint8_t)queue->port->number };
    if (mine->layer == RT_VERBS_INFINIBAND && !memcmp(mine->gid, theirs->gid, 8)) return ah;
    ah.is_global = 1;
    memcpy(ah.grh.dgid.raw, theirs->gid, 16);
    ah.grh.sgid_index = (uint8_t)queue->port->gid_index;
    ah.grh.hop_limit = 64;
    ah.grh.traffic_class = (uint8_t)settings->number[RT_VERBS_TRAFFIC_CLASS];
    return ah;
}

static int to_rtr(struct rt_verbs_pair *pair, struct rt_verbs_queue *queue, const struct rt_verbs_queue_end *theirs)
{
    const uint8_t mine = queue->port->end.mtu, there = theirs->end.mtu;
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .path_mtu = (enum ibv_mtu)(mine < there ? mine : there),
                                .dest_qp_num = theirs->qp, .rq_psn = theirs->psn, .max_dest_rd_atomic = 1,
                                .min_rnr_timer = 12, .ah_attr = route_to(pair, queue) };
    if (mine != there)
        rt_log(RT_LOG_WARN, "verbs: MTU %u here (%s) and %u at rank %u: the path uses the lesser",
               rt_verbs_mtu_bytes(mine), queue->port->device, rt_verbs_mtu_bytes(there), pair->peer);
    return api(pair)->modify_qp(queue->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct rt_verbs_pair *pair, struct rt_verbs_queue *queue)
{
    const struct rt_settings *settings = pair->fabric->settings;
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .sq_psn = queue->psn,
                                .timeout = (uint8_t)settings->number[RT_VERBS_TIMEOUT],
                                .retry_cnt = (uint8_t)settings->number[RT_VERBS_RETRY], .rnr_retry = 7,
                                .max_rd_atomic = 1 };
    return api(pair)->modify_qp(queue->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
}

ringtree_status rt_verbs_queue_connect(struct rt_verbs_pair *pair, struct rt_verbs_queue *queue,
                                       const struct rt_verbs_queue_end *theirs)
{
    char here[120], there[64];
    queue->theirs = theirs->end;
    queue->their_port = theirs->port;
    int failed = to_rtr(pair, queue, theirs);
    if (!failed) failed = to_rts(pair, queue);
    if (!failed) return RINGTREE_OK;
    /* This is what a GID that vanished, or one without a route, looks like. */
    snprintf(pair->reason, sizeof(pair->reason), "%s cannot be connected to GID %s: %s; were addresses of its "
             "interface changed (ip addr), and is there a route (ip route get)?",
             rt_verbs_port_text(queue->port, here, sizeof(here)),
             rt_verbs_gid_text(theirs->end.gid, there, sizeof(there)), rt_errno_words(failed));
    return RINGTREE_SYSTEM;
}

/* ---- ending */

void rt_verbs_queue_empty(struct rt_verbs_pair *pair, struct rt_verbs_queue *queue)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
    if (queue->qp) api(pair)->modify_qp(queue->qp, &attr, IBV_QP_STATE);
}

static void take_events(const struct rt_verbs_pair *pair, struct rt_verbs_queue *queue)
{
    struct ibv_cq *cq;
    void *context;
    unsigned count = 0;
    while (api(pair)->get_cq_event(queue->channel, &cq, &context) == 0) count++;
    if (count) api(pair)->ack_cq_events(queue->cq, count);
    if (count) queue->armed = false;
}

void rt_verbs_queue_drop(struct rt_verbs_pair *pair, struct rt_verbs_queue *queue)
{
    if (queue->qp) api(pair)->destroy_qp(queue->qp);
    if (queue->cq) take_events(pair, queue);
    if (queue->cq) api(pair)->destroy_cq(queue->cq);
    if (queue->channel) {
        epoll_ctl(pair->poller, EPOLL_CTL_DEL, queue->channel->fd, NULL);
        api(pair)->destroy_comp_channel(queue->channel);
    }
    memset(queue, 0, sizeof(*queue));
}

/* ---- running */

ringtree_status rt_verbs_queue_refill(struct rt_verbs_pair *pair, struct rt_verbs_queue *queue)
{
    struct ibv_recv_wr wr = { .num_sge = 0 }, *bad;
    for (; queue->receives < RT_VERBS_RECEIVES; queue->receives++) {
        const int failed = ibv_post_recv(queue->qp, &wr, &bad);
        if (!failed) continue;
        errno = failed;
        return cannot(pair, queue, "post a receive request on a link");
    }
    return RINGTREE_OK;
}

/* A completion that says what broke. That the rest was flushed says nothing. */
static void broke(struct rt_verbs_pair *pair, const struct rt_verbs_queue *queue, const struct ibv_wc *wc)
{
    char here[120], there[64], reason[1000];
    if (pair->state != RT_VERBS_UP && pair->state != RT_VERBS_GREETING) return;
    snprintf(reason, sizeof(reason), "%s to GID %s: %s; %s%s%s",
             rt_verbs_port_text(queue->port, here, sizeof(here)),
             rt_verbs_gid_text(queue->theirs.gid, there, sizeof(there)), rt_verbs_status_meaning(wc->status),
             rt_verbs_status_advice(wc->status), queue->port->event[0] ? "; the last event was " : "",
             queue->port->event);
    rt_verbs_break(pair, queue->port, reason);
}

static void note_came(struct rt_verbs_pair *pair, uint32_t number, const struct ibv_wc *wc)
{
    const struct rt_verbs_note note = rt_verbs_note_get(be32toh(wc->imm_data));
    ringtree_status status = RINGTREE_OK;
    const bool written = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;
    const bool sound = note.queue == number && (wc->wc_flags & IBV_WC_WITH_IMM) &&
                       note.kind == (written ? RT_VERBS_SLICE : RT_VERBS_CREDIT);
    if (sound && note.kind == RT_VERBS_SLICE && pair->in) status = rt_verbs_arrived(pair->in, &note);
    if (sound && status == RINGTREE_OK && pair->out) status = rt_verbs_credit(pair->out, note.credit);
    if (!sound || status != RINGTREE_OK || (note.kind == RT_VERBS_SLICE && !pair->in))
        rt_verbs_fail(pair, RINGTREE_PEER_LOST, "rank %u: rank %u sent a note (%08x) over %s that belongs to no slice "
                      "under way; its process is broken, or does not run this version of ringtree",
                      pair->fabric->rank, pair->peer, be32toh(wc->imm_data), pair->queue[number].port->device);
}

bool rt_verbs_queue_poll(struct rt_verbs_pair *pair, uint32_t number)
{
    struct rt_verbs_queue *queue = &pair->queue[number];
    struct ibv_wc wc[POLLED];
    const int n = ibv_poll_cq(queue->cq, POLLED, wc);
    for (int i = 0; i < n; i++) {
        const bool receive = wc[i].wr_id == 0;
        if (receive && queue->receives) queue->receives--;
        if (wc[i].status != IBV_WC_SUCCESS) broke(pair, queue, &wc[i]);
        else if (receive) note_came(pair, number, &wc[i]);
        else queue->done = wc[i].wr_id;
    }
    if (n > 0 && pair->out) pair->out->news = true;
    if (n < 0) rt_verbs_break(pair, queue->port, "the completion queue cannot be read");
    if (n > 0 && pair->state == RT_VERBS_UP && queue->receives <= RT_VERBS_RECEIVES - 4)
        rt_verbs_queue_refill(pair, queue);
    return n > 0;
}

/* False: something completed meanwhile, so there is nothing to sleep for. */
bool rt_verbs_queue_arm(struct rt_verbs_pair *pair, struct rt_verbs_queue *queue)
{
    take_events(pair, queue);
    if (queue->armed) return true;
    queue->armed = ibv_req_notify_cq(queue->cq, 0) == 0;
    return false; /* look once more: what came before is not told */
}

uint64_t rt_verbs_queue_age_ns(struct rt_verbs_queue *queue, uint64_t now_ns)
{
    const uint64_t oldest = queue->posted > queue->done ? queue->done + 1 : 0;
    if (!oldest || queue->awaited != oldest) queue->awaited_ns = now_ns;
    queue->awaited = oldest;
    return now_ns - queue->awaited_ns;
}
