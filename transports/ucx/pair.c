/*
 * Pairs: the side connection, by which both ends learn of each other, and the endpoint.
 *
 * Both must agree on who dials without a word: for collectives, where both ranks open their links in the same call, it
 * is the lower rank; for messages it is the sender.
 */
#include "ucx.h"
#include "bootstrap/auth.h"
#include "bootstrap/bytes.h"
#include "base/log.h"
#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define GOODBYE       0x47585452u /* "RTXG" */
#define GOODBYE_BYTES 16

static struct rt_claim claim_of(const struct rt_ucx_pair *pair, uint32_t rank)
{
    return (struct rt_claim){ .kind = RT_CONNECT_DATA, .rank = rank, .stripes = 1,
                              .stripe = RT_UCX_STRIPE_CLAIM,
                              .lane = pair->way == RT_UCX_BOTH_WAYS ? 0 : RT_P2P_LANE };
}

static enum rt_ucx_way way_of(const struct rt_link *link)
{
    if (link->lane != RT_P2P_LANE) return RT_UCX_BOTH_WAYS;
    return link->sender ? RT_UCX_OUT : RT_UCX_IN;
}

/* ---- made and ended */

/* It is connected, or never will be. */
static void connects_no_more(struct rt_ucx_pair *pair)
{
    struct rt_ucx_pair **at = &pair->ucx->connecting;
    while (*at && *at != pair) at = &(*at)->next;
    if (*at) *at = pair->next;
}

static void drop(struct rt_ucx_pair *pair)
{
    struct rt_ucx *ucx = pair->ucx;
    connects_no_more(pair);
    ucx->pairs[pair->peer * RT_UCX_WAYS + pair->way] = NULL;
    rt_ucx_pair_break(pair);
    for (uint32_t lane = 0; lane < RT_LINK_LANES; lane++)
        if (pair->in[lane]) rt_ucx_inbound_drop(pair->in[lane]);
    rt_dial_end(pair->dial);
    if (pair->side >= 0) close(pair->side);
    free(pair->hello_out);
    free(pair->hello_in);
    free(pair);
}

static struct rt_ucx_pair *make(struct rt_ucx *ucx, uint32_t peer, enum rt_ucx_way way)
{
    struct rt_ucx_pair *pair = calloc(1, sizeof(*pair));
    if (!pair) return NULL;
    *pair = (struct rt_ucx_pair){ .next = ucx->connecting, .ucx = ucx, .peer = peer, .way = way, .side = -1 };
    do randombytes_buf(&pair->token_in, sizeof(pair->token_in));
    while (pair->token_in == 0);
    ucx->connecting = ucx->pairs[peer * RT_UCX_WAYS + way] = pair;
    return pair;
}

static bool dials(const struct rt_ucx_pair *pair)
{
    return pair->way == RT_UCX_BOTH_WAYS ? pair->ucx->fabric->rank < pair->peer : pair->way == RT_UCX_OUT;
}

static struct rt_ucx_pair *make_dialled(struct rt_ucx *ucx, const struct rt_link *link)
{
    const struct rt_fabric *fabric = ucx->fabric;
    struct rt_ucx_pair *pair = make(ucx, link->peer, way_of(link));
    if (!pair || !dials(pair)) return pair;
    const struct rt_claim claim = claim_of(pair, fabric->rank);
    const uint64_t timeout_ns = fabric->settings->number[RT_TIMEOUT_MS] * UINT64_C(1000000);
    pair->dial = rt_dial_start(fabric->control, link->peer, &claim, rt_now_ns(fabric->clock) + timeout_ns);
    if (pair->dial) return pair;
    drop(pair);
    return NULL;
}

ringtree_status rt_ucx_pair_open(struct rt_ucx_link *l, struct rt_error *error)
{
    const struct rt_link *link = &l->link;
    struct rt_ucx *ucx = link->fabric->ucx;
    l->pair = ucx->pairs[link->peer * RT_UCX_WAYS + way_of(link)];
    if (!l->pair) l->pair = make_dialled(ucx, link);
    if (!l->pair)
        return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory to connect to rank %u", link->fabric->rank,
                       link->peer);
    l->pair->users++;
    return RINGTREE_OK;
}

void rt_ucx_pair_break(struct rt_ucx_pair *pair)
{
    const ucp_request_param_t force = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE };
    if (!pair->endpoint) return;
    rt_ucx_finish(pair->ucx, pair->ucx->call->ucp_ep_close_nbx(pair->endpoint, &force));
    rt_ucx_finish(pair->ucx, pair->wiring);
    pair->endpoint = NULL;
    pair->wiring = NULL;
    if (pair->failure.status == RINGTREE_OK)
        rt_fail(&pair->failure, RINGTREE_PEER_LOST, "rank %u: a link with rank %u was closed in the middle of a slice",
                pair->ucx->fabric->rank, pair->peer);
}

/* What UCX has accepted may still lie in its buffers, over its TCP above all: it leaves before the endpoint ends. */
static void flush(struct rt_ucx_pair *pair)
{
    const ucp_request_param_t param = { .op_attr_mask = 0 };
    if (pair->stage != RT_UCX_CONNECTED || !pair->endpoint || pair->gone || pair->failure.status) return;
    rt_ucx_finish(pair->ucx, pair->ucx->call->ucp_ep_flush_nbx(pair->endpoint, &param));
}

/* What the peer's end of this link may still expect: so many slices, or nothing more to be taken. */
static void say_goodbye(const struct rt_ucx_link *l)
{
    uint8_t bytes[GOODBYE_BYTES];
    if (l->pair->stage < RT_UCX_WIRES || l->pair->gone) return;
    rt_put_u32(bytes, GOODBYE);
    rt_put_u32(bytes + 4, l->link.lane | (uint32_t)l->link.sender << 16);
    rt_put_u64(bytes + 8, l->sent);
    const ssize_t n = send(l->pair->side, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n != (ssize_t)sizeof(bytes)) rt_log(RT_LOG_DEBUG, "no goodbye to rank %u", l->pair->peer);
}

void rt_ucx_pair_close(struct rt_ucx_link *l)
{
    if (!l->pair) return;
    say_goodbye(l);
    if (l->link.sender) l->pair->out[l->link.lane] = NULL;
    if (--l->pair->users == 0) {
        flush(l->pair);
        drop(l->pair);
    }
    l->pair = NULL;
}

/* ---- connecting */

static ringtree_status pair_fail(struct rt_ucx_pair *pair, ringtree_status status, const char *what)
{
    const struct rt_fabric *fabric = pair->ucx->fabric;
    return rt_fail(&pair->failure, status, "rank %u: cannot link with rank %u (host %s) by ucx: %s", fabric->rank,
                   pair->peer, rt_control_places(fabric->control)[pair->peer].host, what);
}

static ringtree_status lost_early(struct rt_ucx_pair *pair, ssize_t n)
{
    return pair_fail(pair, RINGTREE_PEER_LOST, n == 0 ? "it closed the connection before the first slice; its process "
                     "has ended: look at that rank" : rt_errno_words(errno));
}

static uint32_t version_here(const struct rt_ucx *ucx)
{
    unsigned major, minor, patch;
    ucx->call->ucp_get_version(&major, &minor, &patch);
    return major << 16 | minor;
}

static void key_of(const struct rt_ucx_pair *pair, uint8_t key[RT_AUTH_KEY])
{
    const struct rt_control *control = pair->ucx->fabric->control;
    rt_auth_key(key, rt_control_secret(control), rt_control_number(control));
}

static ringtree_status make_hello(struct rt_ucx_pair *pair)
{
    const struct rt_ucx *ucx = pair->ucx;
    uint8_t key[RT_AUTH_KEY];
    pair->hello_out = malloc(RT_UCX_HELLO_HEAD + ucx->address_bytes + RT_UCX_MAC);
    pair->hello_in = calloc(1, RT_UCX_HELLO_MOST);
    if (!pair->hello_out || !pair->hello_in) return pair_fail(pair, RINGTREE_NO_MEMORY, "no memory");
    const struct rt_ucx_hello hello = {
        .version = version_here(ucx), .from = ucx->fabric->rank, .to = pair->peer, .way = (uint32_t)pair->way,
        .slots = RT_UCX_SLOTS, .slot_bytes = (uint32_t)ucx->fabric->settings->number[RT_UCX_SLOT_BYTES],
        .address_bytes = (uint32_t)ucx->address_bytes, .token = pair->token_in };
    key_of(pair, key);
    pair->out_bytes = rt_ucx_hello_put(pair->hello_out, &hello, ucx->address, key);
    pair->stage = RT_UCX_GREETS;
    rt_ucx_watch(pair, true);
    return RINGTREE_OK;
}

static ringtree_status dial(struct rt_ucx_pair *pair)
{
    struct rt_fabric *fabric = pair->ucx->fabric;
    if (pair->dial) {
        const ringtree_status status = rt_dial_go(pair->dial, &pair->side, &pair->failure);
        if (status != RINGTREE_OK) return status;
        rt_dial_end(pair->dial);
        pair->dial = NULL;
    } else if (pair->side < 0) {
        const struct rt_claim claim = claim_of(pair, pair->peer);
        pair->side = rt_control_take(fabric->control, &claim);
        if (pair->side < 0) return RINGTREE_IN_PROGRESS;
    }
    return make_hello(pair);
}

static void endpoint_failed(void *argument, ucp_ep_h endpoint, ucs_status_t status)
{
    (void)endpoint;
    rt_ucx_pair_failed(argument, status);
}

/* "sysv, cma", from the table that UCX prints of an endpoint: its lines "lane[0]:  5:sysv/memory.0 md[4] -> ...". */
static void find_lanes(struct rt_ucx_pair *pair)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    if (!file) return;
    pair->ucx->call->ucp_ep_print_info(pair->endpoint, file);
    fclose(file);
    for (char *at = text; at && (at = strstr(at, "lane[")) != NULL; at += 5) {
        char name[16], *colon = strstr(at, ":  ");
        const size_t used = strlen(pair->lanes);
        if (!colon || sscanf(colon, ": %*u:%15[^/ \n]", name) != 1 || strstr(pair->lanes, name)) continue;
        snprintf(pair->lanes + used, sizeof(pair->lanes) - used, "%s%s", used ? ", " : "", name);
    }
    free(text);
}

/*
 * Where a rendezvous saves no copy it costs its way there and back for nothing: over UCX's TCP and, up to this size,
 * its shared memory without cma or knem, which report no errors (perf/baseline/ucx.md). Everything else, and whoever
 * sets UCX_RNDV_THRESH, has UCX's choice.
 */
#define EAGER_SHARED (64 << 10)

static uint32_t find_eager(const struct rt_ucx_pair *pair)
{
    static const char *const known[] = { "tcp", "sysv", "posix", "self" };
    const uint32_t slot = (uint32_t)pair->ucx->fabric->settings->number[RT_UCX_SLOT_BYTES];
    char list[sizeof(pair->lanes)], *rest = NULL;
    bool shared = false;
    if (getenv("UCX_RNDV_THRESH") || !pair->lanes[0]) return 0;
    memcpy(list, pair->lanes, sizeof(list));
    for (const char *lane = strtok_r(list, ", ", &rest); lane; lane = strtok_r(NULL, ", ", &rest)) {
        size_t k = 0;
        while (k < 4 && strcmp(known[k], lane) != 0) k++;
        if (k == 4) return 0;
        shared |= k > 0;
    }
    return shared && slot > EAGER_SHARED ? EAGER_SHARED : slot;
}

/* A message that asks for an answer's way makes UCX introduce the two workers to each other. */
static void send_first(struct rt_ucx_pair *pair)
{
    const ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_AM_SEND_FLAG_REPLY };
    rt_ucx_fill_credit(pair, 0, &pair->first);
    pair->wiring = pair->ucx->call->ucp_am_send_nbx(pair->endpoint, RT_UCX_CREDIT, &pair->first, RT_UCX_SHORT_BYTES,
                                                    NULL, 0, &param);
}

static ringtree_status wire(struct rt_ucx_pair *pair)
{
    const struct rt_ucx_calls *call = pair->ucx->call;
    ucs_status_t status = UCS_PTR_IS_PTR(pair->wiring) ? UCS_INPROGRESS : UCS_PTR_STATUS(pair->wiring);
    if (status == UCS_INPROGRESS) {
        status = call->ucp_request_check_status(pair->wiring);
        if (status == UCS_INPROGRESS && pair->failure.status == RINGTREE_OK && pair->gone) return lost_early(pair, 0);
        if (status == UCS_INPROGRESS) return pair->failure.status ? pair->failure.status : RINGTREE_IN_PROGRESS;
        call->ucp_request_free(pair->wiring);
    }
    pair->wiring = NULL;
    if (status != UCS_OK) rt_ucx_pair_failed(pair, status);
    else pair->stage = RT_UCX_CONNECTED;
    return pair->failure.status;
}

static ringtree_status make_endpoint(struct rt_ucx_pair *pair)
{
    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = (const ucp_address_t *)(pair->hello_in + RT_UCX_HELLO_HEAD),
        .err_mode = UCP_ERR_HANDLING_MODE_PEER, .err_handler = { endpoint_failed, pair } };
    const ucs_status_t status = pair->ucx->call->ucp_ep_create(pair->ucx->worker, &params, &pair->endpoint);
    if (status != UCS_OK) {
        pair->endpoint = NULL;
        rt_ucx_pair_failed(pair, status);
        return pair->failure.status;
    }
    find_lanes(pair);
    pair->eager_bytes = find_eager(pair);
    send_first(pair);
    free(pair->hello_out);
    free(pair->hello_in);
    pair->hello_out = pair->hello_in = NULL;
    pair->stage = RT_UCX_WIRES;
    return wire(pair);
}

/* The peer's hello is whole. */
static ringtree_status check_hello(struct rt_ucx_pair *pair, size_t length)
{
    const struct rt_fabric *fabric = pair->ucx->fabric;
    struct rt_ucx_hello hello;
    uint8_t key[RT_AUTH_KEY];
    char what[160];
    key_of(pair, key);
    if (!rt_ucx_hello_check(pair->hello_in, length, key, &hello) || hello.from != pair->peer ||
        hello.to != fabric->rank || hello.way != (uint32_t)rt_ucx_way_there(pair->way) || hello.token == 0)
        return pair_fail(pair, RINGTREE_REFUSED, "its first message is not proven with the communicator's secret");
    if (hello.slots != RT_UCX_SLOTS || hello.slot_bytes != fabric->settings->number[RT_UCX_SLOT_BYTES]) {
        snprintf(what, sizeof(what), "it has %u slots of %u bytes; RINGTREE_UCX_SLOT_BYTES and the version of ringtree "
                 "must be the same on all ranks", hello.slots, hello.slot_bytes);
        return pair_fail(pair, RINGTREE_MISMATCH, what);
    }
    if (hello.version >> 16 != version_here(pair->ucx) >> 16)
        return pair_fail(pair, RINGTREE_UNSUPPORTED, "it has another major version of UCX");
    pair->token_out = hello.token;
    memset(pair->hello_in + length - RT_UCX_MAC, 0, RT_UCX_MAC);
    return make_endpoint(pair);
}

static bool try_later(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

/* Reads the peer's hello; the head tells how long it is. */
static ringtree_status read_hello(struct rt_ucx_pair *pair, size_t *length)
{
    for (;;) {
        const bool headed = pair->in_done >= RT_UCX_HELLO_HEAD;
        *length = headed ? rt_ucx_hello_length(pair->hello_in) : RT_UCX_HELLO_HEAD;
        if (!*length)
            return pair_fail(pair, RINGTREE_UNSUPPORTED, "it does not begin as this version of ringtree does; use the "
                             "same version on all ranks");
        if (headed && pair->in_done == *length) return RINGTREE_OK;
        const ssize_t n = recv(pair->side, pair->hello_in + pair->in_done, *length - pair->in_done, MSG_DONTWAIT);
        if (try_later(n)) return RINGTREE_IN_PROGRESS;
        if (n <= 0) return lost_early(pair, n);
        pair->in_done += (size_t)n;
    }
}

/* Both hellos go at once, each as far as the connection takes it. */
static ringtree_status greet(struct rt_ucx_pair *pair)
{
    const size_t left = pair->out_bytes - pair->out_done;
    const ssize_t n = left ? send(pair->side, pair->hello_out + pair->out_done, left, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
    size_t length;
    if (n < 0 && !try_later(n)) return lost_early(pair, n);
    if (n > 0) pair->out_done += (size_t)n;
    const ringtree_status status = read_hello(pair, &length);
    if (status != RINGTREE_OK) return status;
    return pair->out_done < pair->out_bytes ? RINGTREE_IN_PROGRESS : check_hello(pair, length);
}

static ringtree_status go(struct rt_ucx_pair *pair)
{
    ringtree_status status = RINGTREE_OK;
    if (pair->stage == RT_UCX_DIALS) status = dial(pair);
    if (status == RINGTREE_OK && pair->stage == RT_UCX_GREETS) status = greet(pair);
    if (status == RINGTREE_OK && pair->stage == RT_UCX_WIRES) status = wire(pair);
    return status;
}

void rt_ucx_connect_all(struct rt_ucx *ucx)
{
    for (struct rt_ucx_pair *pair = ucx->connecting, *next; pair; pair = next) {
        next = pair->next;
        const ringtree_status status = go(pair);
        if (status == RINGTREE_IN_PROGRESS) continue;
        connects_no_more(pair);
        if (status == RINGTREE_OK || pair->side < 0 || pair->gone) continue;
        pair->gone = true; /* a side connection that failed is looked at no more */
        rt_ucx_watch(pair, false);
    }
}

ringtree_status rt_ucx_pair_connect(struct rt_ucx_link *l)
{
    const struct rt_ucx_pair *pair = l->pair;
    if (pair->failure.status == RINGTREE_OK && pair->stage != RT_UCX_CONNECTED) rt_ucx_progress(l->ucx);
    if (pair->failure.status != RINGTREE_OK) return rt_ucx_fail(l, pair->failure.status, "%s", pair->failure.text);
    return pair->stage == RT_UCX_CONNECTED ? RINGTREE_OK : RINGTREE_IN_PROGRESS;
}

void rt_ucx_welcome(struct rt_ucx *ucx)
{
    const uint32_t peer = ucx->asked = (ucx->asked + 1) % ucx->fabric->nranks;
    const struct rt_claim claim = { .kind = RT_CONNECT_DATA, .rank = peer, .stripes = 1,
                                    .stripe = RT_UCX_STRIPE_CLAIM, .lane = RT_P2P_LANE };
    if (peer == ucx->fabric->rank || ucx->pairs[peer * RT_UCX_WAYS + RT_UCX_IN]) return;
    const int side = rt_control_take(ucx->fabric->control, &claim);
    if (side < 0) return;
    struct rt_ucx_pair *pair = make(ucx, peer, RT_UCX_IN);
    if (pair) pair->side = side;
    else close(side); /* the sender learns that no memory was there */
}

void rt_ucx_pairs_end(struct rt_ucx *ucx)
{
    for (uint32_t i = 0; i < ucx->fabric->nranks * RT_UCX_WAYS; i++)
        if (ucx->pairs[i]) drop(ucx->pairs[i]);
}

int rt_ucx_pair_pollfd(const struct rt_ucx_pair *pair, short *events)
{
    if (pair->dial) return rt_dial_pollfd(pair->dial, events);
    *events = POLLIN;
    if (pair->stage == RT_UCX_WIRES) return rt_ucx_arm(pair->ucx) ? pair->ucx->set : pair->ucx->ready;
    return pair->side; /* -1: the control plane wakes when it comes */
}

/* ---- the side connection, later */

static void goodbye_came(struct rt_ucx_pair *pair)
{
    const uint32_t what = rt_get_u32(pair->goodbye + 4), lane = what & 0xffff;
    if (rt_get_u32(pair->goodbye) != GOODBYE || lane >= RT_LINK_LANES || what >> 17) return;
    if (what >> 16 == 0) {
        pair->out_closed[lane] = true;
        return;
    }
    struct rt_ucx_inbound *in = rt_ucx_inbound(pair, lane);
    if (!in) return;
    in->ended = true;
    in->end = rt_get_u64(pair->goodbye + 8);
}

void rt_ucx_side_read(struct rt_ucx_pair *pair)
{
    while (pair->stage >= RT_UCX_WIRES && !pair->gone) {
        const ssize_t n = recv(pair->side, pair->goodbye + pair->goodbye_done, GOODBYE_BYTES - pair->goodbye_done,
                               MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
        if (n <= 0) {
            pair->gone = true;
            pair->gone_ns = rt_now_ns(pair->ucx->fabric->clock);
            rt_ucx_watch(pair, false);
            return;
        }
        pair->goodbye_done += (uint32_t)n;
        if (pair->goodbye_done < GOODBYE_BYTES) continue;
        pair->goodbye_done = 0;
        goodbye_came(pair);
    }
}
