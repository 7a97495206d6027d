/* What the engine is waiting for: descriptors for poll(2), ranks for sentences. */
#include "engine.h"
#include "base/text.h"
#include <poll.h>
#include <string.h>

struct visit {
    struct rt_engine *engine;
    bool (*on)(struct rt_wire *wire, uint32_t peer, void *context);
    void *context;
    bool  more;
};

static void visit_wire(struct visit *visit, bool sender, uint32_t lane, uint32_t peer)
{
    if (peer == RT_NONE || !visit->more) return;
    struct rt_wire *wire = rt_wire(visit->engine, sender, lane, peer);
    if (wire) visit->more = visit->on(wire, peer, visit->context);
}

static void visit_lane(struct visit *visit, const struct rt_operation *operation, uint32_t lane)
{
    const struct rt_lane *state = &operation->lane[lane];
    if (state->done || state->step >= operation->program->nsteps[lane]) return;
    const struct rt_step *step = &operation->program->steps[lane][state->step];
    if (step->wait_lane != RT_NONE && operation->lane[step->wait_lane].slice <= state->slice &&
        !operation->lane[step->wait_lane].done)
        return;
    const bool receives = rt_step_receives(step);
    if (receives && !state->received) visit_wire(visit, false, lane, step->from);
    else if (receives && step->from2 != RT_NONE && !state->received2) visit_wire(visit, false, lane, step->from2);
    else if (!state->posted) visit_wire(visit, true, lane, step->to);
    else visit_wire(visit, true, lane, step->to2);
}

static void visit_operation(struct visit *visit, const struct rt_operation *operation)
{
    struct rt_engine *engine = visit->engine;
    if (operation->method == RT_BY_TRANSFERS) {
        for (uint32_t peer = 0; peer < engine->fabric.nranks; peer++) {
            const struct rt_transfer *send = &operation->sends[peer], *recv = &operation->recvs[peer];
            if (peer == engine->fabric.rank) continue;
            if (!recv->started || recv->moved < recv->bytes) visit_wire(visit, false, RT_LANE_ALL_TO_ALL_V, peer);
            if (!send->started || send->moved < send->bytes) visit_wire(visit, true, RT_LANE_ALL_TO_ALL_V, peer);
        }
    } else if (operation->method == RT_BY_CODEC) {
        visit->more = visit->more && rt_compress_blocked(engine, operation, visit->on, visit->context);
    } else if (operation->method == RT_BY_PROGRAM) {
        for (uint32_t lane = 0; lane < operation->program->lanes; lane++) visit_lane(visit, operation, lane);
        for (uint32_t i = 0; i < operation->program->nsenders && visit->more; i++) {
            struct rt_wire *wire = operation->program->senders[i];
            if (!rt_wire_idle(wire, NULL)) visit->more = visit->on(wire, wire->link->peer, visit->context);
        }
    }
}

static void visit_all(struct visit *visit)
{
    struct rt_engine *engine = visit->engine;
    if (engine->first) visit_operation(visit, engine->first);
    for (uint32_t peer = 0; engine->transfers && peer < engine->fabric.nranks; peer++) {
        if (engine->receiving[peer].first) visit_wire(visit, false, RT_P2P_LANE, peer);
        if (engine->sending[peer].first) visit_wire(visit, true, RT_P2P_LANE, peer);
    }
}

struct fd_list {
    struct pollfd *fds;
    uint32_t       count, capacity;
};

static bool add_fd(struct rt_wire *wire, uint32_t peer, void *context)
{
    struct fd_list *list = context;
    short events = 0;
    (void)peer;
    const int fd = wire->link->transport->pollfd(wire->link, &events);
    if (fd >= 0 && list->count < list->capacity)
        list->fds[list->count++] = (struct pollfd){ .fd = fd, .events = events };
    return list->count < list->capacity;
}

uint32_t rt_blocked_fds(struct rt_engine *engine, struct pollfd *fds, uint32_t capacity)
{
    struct fd_list list = { fds, 0, capacity };
    struct visit visit = { engine, add_fd, &list, capacity > 0 };
    visit_all(&visit);
    return list.count;
}

struct peer_list {
    uint32_t *peers, count, capacity;
};

static bool add_peer(struct rt_wire *wire, uint32_t peer, void *context)
{
    struct peer_list *list = context;
    (void)wire;
    for (uint32_t i = 0; i < list->count; i++)
        if (list->peers[i] == peer) return true;
    list->peers[list->count++] = peer;
    return list->count < list->capacity;
}

uint32_t rt_blocked_peers(struct rt_engine *engine, uint32_t *peers, uint32_t capacity)
{
    struct peer_list list = { peers, 0, capacity };
    struct visit visit = { engine, add_peer, &list, capacity > 0 };
    if (engine->first && engine->first->method == RT_BY_DIRECT)
        list.peers[list.count++] = rt_direct_awaits(engine->exchange, &engine->first->direct);
    visit_all(&visit);
    return list.count;
}

struct state_text {
    char  *text;
    size_t capacity;
};

static bool add_state(struct rt_wire *wire, uint32_t peer, void *context)
{
    struct state_text *state = context;
    char link[400];
    rt_append(state->text, state->capacity, "%s %s rank %u: %s", state->text[0] ? ";" : "",
              wire->link->sender ? "to" : "from", peer, wire->link->transport->describe(wire->link, link, sizeof link));
    return strlen(state->text) + 100 < state->capacity;
}

void rt_blocked_links(struct rt_engine *engine, char *text, size_t capacity)
{
    struct state_text state = { text, capacity };
    struct visit visit = { engine, add_state, &state, true };
    text[0] = 0;
    visit_all(&visit);
}
