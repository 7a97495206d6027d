/* Connections: what the transports ask of a communicator's control plane, for two ranks that know a secret. */
#include "net.h"
#include "bootstrap/net.h"
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what transports call (bootstrap/control.h) */

const struct rt_place *rt_control_places(const struct rt_control *control)
{
    return control->place;
}

const uint8_t *rt_control_secret(const struct rt_control *control)
{
    return control->secret;
}

uint64_t rt_control_number(const struct rt_control *control)
{
    return control->number;
}

/* verbs and UCX number their only connection beyond those of tcp; here a connection has one transport. */
static uint32_t stripe_of(const struct rt_claim *claim)
{
    return claim->stripe < NET_MOST_STRIPES ? claim->stripe : 0;
}

int rt_control_take(struct rt_control *control, const struct rt_claim *claim)
{
    const uint32_t stripe = stripe_of(claim);
    const int fd = control->fd[stripe];
    control->fd[stripe] = -1;
    return fd;
}

struct rt_dial {
    struct rt_dialer   dialer;
    struct rt_control *control;
};

struct rt_dial *rt_dial_start(struct rt_control *control, uint32_t peer, const struct rt_claim *claim,
                              uint64_t deadline_ns)
{
    const struct rt_place *place = &control->place[peer];
    const uint16_t port = place->address[0].port;
    const struct rt_address loopback = { .family = AF_INET, .port = port, .bytes = { 127, 0, 0, 1 } };
    struct rt_claim mine = *claim;
    uint8_t key[RT_AUTH_KEY];
    struct rt_dial *dial = calloc(1, sizeof(*dial));
    if (!dial) return NULL;
    mine.value = control->value;
    mine.stripe = stripe_of(claim);
    dial->control = control;
    rt_auth_key(key, control->secret, control->number);
    rt_dialer_init(&dial->dialer, key, control->number, &mine, &rt_system_clock, deadline_ns);
    if (place->host_key == net_place.host_key) rt_dialer_add_tcp(&dial->dialer, &loopback);
    for (uint32_t i = 0; i < RT_MAX_ADDRESSES; i++) rt_dialer_add_tcp(&dial->dialer, &place->address[i]);
    return dial;
}

ringtree_status rt_dial_go(struct rt_dial *dial, int *fd, struct rt_error *error)
{
    char tried[600];
    if (!dial) return rt_fail(error, RINGTREE_NO_MEMORY, "no memory for a connection");
    const ringtree_status status = rt_dialer_go(&dial->dialer, fd);
    dial->control->dialled |= status == RINGTREE_OK;
    if (status == RINGTREE_OK || status == RINGTREE_IN_PROGRESS) return status;
    return rt_fail(error, status, "cannot connect to the receiver: %s; look at firewalls and RINGTREE_INTERFACE, or "
                   "raise RINGTREE_TIMEOUT_MS", rt_dialer_text(&dial->dialer, tried, sizeof(tried)));
}

int rt_dial_pollfd(struct rt_dial *dial, short *events)
{
    return rt_dialer_pollfd(&dial->dialer, events);
}

void rt_dial_end(struct rt_dial *dial)
{
    if (dial) rt_dialer_end(&dial->dialer);
    free(dial);
}

/* ---- the two ends */

static void control_init(struct rt_control *control, uint32_t rank, const struct net_handle *handle, uint32_t value)
{
    *control = (struct rt_control){ .rank = rank, .number = handle->number, .value = value };
    memcpy(control->secret, handle->secret, sizeof(control->secret));
    control->place[rank] = net_place;
    control->place[1 - rank] = (struct rt_place){ .host = "the other end" };
    for (int i = 0; i < NET_MOST_STRIPES; i++) control->fd[i] = -1;
}

void net_control_sender(struct rt_control *control, const struct net_handle *handle, uint32_t value)
{
    control_init(control, 0, handle, value);
    memcpy(control->place[1].address, handle->address, sizeof(handle->address));
    control->place[1].host_key = handle->host_key;
}

void net_control_end(const struct rt_control *control)
{
    for (int i = 0; i < NET_MOST_STRIPES; i++)
        if (control->fd[i] >= 0) close(control->fd[i]);
}

enum nccl_result net_listener_open(const struct net_device *device, struct net_listener **result)
{
    struct net_listener *listener = calloc(1, sizeof(*listener));
    struct rt_error error = { 0 };
    uint16_t port = 0;
    if (!listener) return net_say(RINGTREE_NO_MEMORY, "no memory to listen");
    const int fd = rt_listen_tcp(NULL, &port);
    if (fd < 0) {
        free(listener);
        rt_fail(&error, RINGTREE_SYSTEM, "cannot listen: %s", rt_errno_words(-fd));
        return net_say(error.status, error.text);
    }
    if (rt_acceptor_open(&listener->acceptor, fd, -1, &rt_system_clock, &error) != RINGTREE_OK) {
        free(listener);
        return net_say(error.status, error.text);
    }
    struct net_handle *handle = &listener->handle;
    listener->device = device;
    *handle = (struct net_handle){ .host_key = net_place.host_key };
    handle->transports = net_device_offers(device, handle->end);
    memcpy(handle->address, net_place.address, sizeof(handle->address));
    for (uint32_t i = 0; i < RT_MAX_ADDRESSES; i++) handle->address[i].port = port;
    randombytes_buf(handle->secret, sizeof(handle->secret));
    randombytes_buf(&handle->number, sizeof(handle->number));
    rt_acceptor_trust(&listener->acceptor, handle->secret, handle->number, 2);
    *result = listener;
    return NCCL_SUCCESS;
}

void net_listener_close(struct net_listener *listener)
{
    for (uint32_t i = 0; i < listener->nparked; i++) close(listener->parked[i].fd);
    rt_acceptor_close(&listener->acceptor);
    free(listener);
}

static void park(struct net_listener *listener, const struct rt_claim *claim, int fd)
{
    const bool known = claim->kind == RT_CONNECT_DATA && claim->rank == 0 && claim->stripes >= 1 &&
                       claim->stripes <= NET_MOST_STRIPES && claim->stripe < claim->stripes &&
                       listener->handle.transports >> (claim->value & 3) & 1;
    if (known && listener->nparked < NET_PARKED)
        listener->parked[listener->nparked++] = (struct net_parked){ *claim, fd };
    else
        close(fd);
}

/* Moves the stripes of that connection to `control`. */
static void unpark(struct net_listener *listener, uint32_t value, struct rt_control *control)
{
    for (uint32_t i = listener->nparked; i-- > 0;) {
        const struct net_parked *parked = &listener->parked[i];
        int *fd = &control->fd[parked->claim.stripe];
        if (parked->claim.value != value) continue;
        if (*fd >= 0) close(*fd); /* the same stripe twice */
        *fd = parked->fd;
        listener->parked[i] = listener->parked[--listener->nparked];
    }
}

bool net_listener_next(struct net_listener *listener, struct rt_control *control)
{
    struct rt_claim claim;
    rt_acceptor_go(&listener->acceptor);
    for (int fd; (fd = rt_acceptor_next(&listener->acceptor, &claim)) >= 0;) park(listener, &claim, fd);
    for (uint32_t i = 0; i < listener->nparked; i++) {
        const struct rt_claim *first = &listener->parked[i].claim;
        uint32_t stripes = 0;
        for (uint32_t k = 0; k < listener->nparked; k++)
            if (listener->parked[k].claim.value == first->value) stripes |= 1u << listener->parked[k].claim.stripe;
        if (stripes != (1u << first->stripes) - 1) continue;
        control_init(control, 1, &listener->handle, first->value);
        unpark(listener, first->value, control);
        return true;
    }
    return false;
}
