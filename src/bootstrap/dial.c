/* Connections to another rank's listener: for the tree, for transports, and to ask what it last did. */
#include "bytes.h"
#include "inside.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct rt_dial {
    struct rt_control *control;
    uint32_t           peer;
    uint64_t           looked_ns;
    struct rt_dialer   dialer;
};

#define GAP_NS (UINT64_C(200) * 1000000)

/* A caller that computed in between has not waited: the peer's answer may lie there unread. */
static void forgive_gap(struct rt_dial *dial)
{
    const uint64_t now = rt_now_ns(dial->control->clock);

    if (dial->looked_ns && now - dial->looked_ns > GAP_NS) {
        dial->dialer.deadline_ns += now - dial->looked_ns;
        dial->dialer.attempt_ns += now - dial->looked_ns;
    }
    dial->looked_ns = now;
}

static void add_loopback(struct rt_dialer *d, uint16_t port)
{
    const struct rt_address ipv4 = { .family = AF_INET, .port = port, .bytes = { 127, 0, 0, 1 } };
    const struct rt_address ipv6 = { .family = AF_INET6, .port = port, .bytes = { [15] = 1 } };

    rt_dialer_add_tcp(d, &ipv4);
    rt_dialer_add_tcp(d, &ipv6);
}

/* On one machine: the unix socket (not for data: transports set TCP options) and loopback, which every listener has. */
void rt_dial_prepare(const struct rt_control *c, uint32_t peer, const struct rt_place *place,
                     const struct rt_claim *claim, uint64_t deadline_ns, struct rt_dialer *d)
{
    const uint16_t port = place->address[0].port;
    char name[RT_UNIX_NAME];

    rt_dialer_init(d, c->key, c->number, claim, c->clock, deadline_ns);
    if (place->host_key == c->places[c->rank].host_key) {
        if (claim->kind != RT_CONNECT_DATA) {
            rt_control_unix_name(c->meeting_number, peer, port, name);
            rt_dialer_add_unix(d, name);
        }
        add_loopback(d, port);
    }
    for (uint32_t i = 0; i < RT_MAX_ADDRESSES; i++) {
        struct rt_address address = place->address[i];
        rt_address_adopt_zone(&address, &c->places[c->rank]);
        rt_dialer_add_tcp(d, &address);
    }
}

struct rt_dial *rt_dial_start(struct rt_control *c, uint32_t peer, const struct rt_claim *claim, uint64_t deadline_ns)
{
    struct rt_dial *dial = peer < c->nranks ? calloc(1, sizeof(*dial)) : NULL;

    if (!dial)
        return NULL;
    dial->control = c;
    dial->peer = peer;
    dial->looked_ns = rt_now_ns(c->clock);
    rt_dial_prepare(c, peer, &c->places[peer], claim, deadline_ns, &dial->dialer);
    return dial;
}

ringtree_status rt_dial_go(struct rt_dial *dial, int *fd, struct rt_error *error)
{
    char words[120], tried[600];
    ringtree_status status;

    if (!dial)
        return rt_fail(error, RINGTREE_NO_MEMORY, "no memory for a connection");
    struct rt_control *c = dial->control;
    forgive_gap(dial);
    status = rt_dialer_go(&dial->dialer, fd);
    if (status == RINGTREE_OK || status == RINGTREE_IN_PROGRESS)
        return status;
    const char *lack = rt_dialer_lack(&dial->dialer);
    const char *remedy = lack ? lack : "look at firewalls and RINGTREE_INTERFACE, or raise RINGTREE_TIMEOUT_MS";
    const uint64_t waited = (rt_control_now(c) - dial->dialer.begun_ns) / RT_NS_PER_MS;
    return rt_fail(error, lack ? RINGTREE_SYSTEM : status, "rank %u cannot connect to %s, tried for %" PRIu64
                   " ms: %s; %s", c->rank, rt_rank_words(c, dial->peer, words, sizeof(words)), waited,
                   rt_dialer_text(&dial->dialer, tried, sizeof(tried)), remedy);
}

int rt_dial_pollfd(struct rt_dial *dial, short *events)
{
    return rt_dialer_pollfd(&dial->dialer, events);
}

void rt_dial_end(struct rt_dial *dial)
{
    if (dial)
        rt_dialer_end(&dial->dialer);
    free(dial);
}

/* ------------------------------------------------------------------ asking */

void rt_ask_answer(struct rt_control *c, int fd)
{
    uint8_t message[RT_HEADER_BYTES + RT_STATE_BYTES];
    struct rt_state state;

    rt_watchdog_state(c, &state);
    rt_header_put(message, RT_MESSAGE_STATE, RT_STATE_BYTES);
    rt_state_put(message + RT_HEADER_BYTES, &state);
    if (send(fd, message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        rt_control_ring(c); /* whoever asked is gone; nothing depends on it */
    close(fd);
}

static void state_words(const struct rt_state *state, char *text, size_t capacity)
{
    char done[120], last[120];
    const uint64_t tenths = state->done_age_ms / 100;

    rt_call_text(&state->done, done, sizeof(done));
    rt_call_text(&state->last, last, sizeof(last));
    if (state->head == 0)
        snprintf(text, capacity, "it has called nothing yet");
    else if (state->finished && state->current)
        snprintf(text, capacity, "it last finished %s %" PRIu64 ".%" PRIu64 " s ago and is in %s", done, tenths / 10,
                 tenths % 10, last);
    else if (state->current)
        snprintf(text, capacity, "it has finished nothing yet and is in %s", last);
    else
        snprintf(text, capacity, "it last finished %s %" PRIu64 ".%" PRIu64 " s ago and has not called #%" PRIu64,
                 state->finished ? done : last, tenths / 10, tenths % 10, state->last.sequence + 1);
}

bool rt_control_ask(struct rt_control *c, uint32_t peer, uint32_t wait_ms, char *text, size_t capacity)
{
    const uint64_t deadline = rt_control_now(c) + wait_ms * RT_NS_PER_MS;
    const struct rt_claim claim = { .kind = RT_CONNECT_ASK, .rank = c->rank };
    uint8_t message[RT_HEADER_BYTES + RT_STATE_BYTES];
    struct rt_dialer dialer;
    struct rt_header header;
    struct rt_state state;
    char tried[300];
    int fd = -1, failed = -1;

    if (peer >= c->nranks || c->nranks == 1) {
        snprintf(text, capacity, "there is no such rank to ask");
        return false;
    }
    rt_dial_prepare(c, peer, &c->places[peer], &claim, deadline, &dialer);
    if (rt_dialer_wait(&dialer, &fd)) {
        snprintf(text, capacity, "its process does not answer (%s)", rt_dialer_text(&dialer, tried, sizeof(tried)));
        return false;
    }
    failed = rt_recv_all(fd, message, sizeof(message), c->clock, deadline);
    close(fd);
    if (failed || !rt_header_parse(message, c->nranks, &header) || header.type != RT_MESSAGE_STATE ||
        !rt_state_parse(message + RT_HEADER_BYTES, &state)) {
        snprintf(text, capacity, "its process does not answer");
        return false;
    }
    state_words(&state, text, capacity);
    return state.head > 0 && state.current;
}
