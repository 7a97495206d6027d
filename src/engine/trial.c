/* Measuring a transport between two ranks; see trial.h. */
#include "trial.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define SHORT    8
#define LONG     (64 << 10)
#define SPREAD   (256 << 10) /* long enough to go over several connections */
#define IN_A_ROW 8
#define FEW_IN_A_ROW 3
#define LEAST    20 /* rounds of each kind, unless they take */
#define MOST_NS  UINT64_C(500000000) /* so long: then two will do */

enum word { END, TRIP, ROW }; /* a message's first byte: what comes next */

struct meter {
    struct rt_trial  *trial;
    struct rt_engine *engine;
    struct rt_error  *error;
    uint64_t          sent, end_ns;
    uint32_t          long_bytes, in_a_row;
    unsigned char     memory[SPREAD];
};

/* The links of messages have one connection, so several are tried on a collective's lane, which has none yet. Each
 * number has its own, since the other end may open the next one before this end has closed the last. */
static uint32_t lane_of(const struct rt_trial *trial)
{
    return trial->connections ? (uint32_t)__builtin_ctz(trial->connections) : RT_P2P_LANE;
}

static struct rt_link *link_new(const struct rt_trial *trial, struct rt_engine *engine,
                                const struct rt_transport *transport, uint32_t peer, bool sends)
{
    struct rt_link *link = calloc(1, transport->link_size);
    if (link)
        *link = (struct rt_link){ .transport = transport, .fabric = &engine->fabric, .peer = peer,
                                  .lane = lane_of(trial), .sender = sends };
    return link;
}

static ringtree_status open_both(const struct rt_trial *trial, struct rt_engine *engine, struct rt_error *error)
{
    const struct rt_transport *transport = trial->out->transport;
    const uint32_t before = engine->fabric.connections;
    if (trial->connections) engine->fabric.connections = trial->connections;
    ringtree_status status = transport->open(trial->out, error);
    if (status == RINGTREE_OK) status = transport->open(trial->in, error);
    engine->fabric.connections = before;
    return status;
}

static void link_drop(struct rt_link **link)
{
    if (*link) (*link)->transport->close(*link);
    free(*link);
    *link = NULL;
}

void rt_trial_end(struct rt_trial *trial)
{
    link_drop(&trial->out);
    link_drop(&trial->in);
    free(trial->memory);
    trial->memory = NULL;
}

/* Between looks for something that is not there yet. OK: look again. */
static ringtree_status rest(const struct meter *m, const char *what)
{
    const struct rt_link *link = m->trial->out;
    struct rt_engine *engine = m->engine;
    if (rt_control_failed(engine->fabric.control)) return rt_control_failure(engine->fabric.control, m->error);
    if (rt_now_ns(engine->fabric.clock) > m->end_ns)
        return rt_fail(m->error, RINGTREE_TIMEOUT, "rank %u: a trial of %s with rank %u %s", engine->fabric.rank,
                       link->transport->name, link->peer, what);
    rt_engine_step(engine);
    sched_yield();
    return RINGTREE_OK;
}

static ringtree_status give(struct meter *m, enum word word, uint32_t bytes)
{
    struct rt_link *link = m->trial->out;
    const struct rt_frame frame = { .sequence = m->sent, .root = RT_NONE, .lane = (uint8_t)link->lane, .bytes = bytes };
    ringtree_status status = RINGTREE_IN_PROGRESS;
    m->memory[0] = (unsigned char)word;
    for (uint32_t looks = 0; status == RINGTREE_IN_PROGRESS; looks++) {
        status = link->transport->send(link, &frame, m->memory, m->error);
        if (status != RINGTREE_IN_PROGRESS) break;
        link->transport->sent(link, m->error);
        if (looks % 64 == 63 && (status = rest(m, "could not send in time")) == RINGTREE_OK)
            status = RINGTREE_IN_PROGRESS;
    }
    m->sent += status == RINGTREE_OK;
    return status;
}

/* What was given is no longer borrowed: `memory` may change. */
static ringtree_status settle(struct meter *m)
{
    struct rt_link *link = m->trial->out;
    struct rt_error error = { .status = RINGTREE_OK };
    for (uint32_t looks = 0; link->transport->sent(link, &error) < m->sent; looks++) {
        if (error.status != RINGTREE_OK) return rt_fail(m->error, error.status, "%s", error.text);
        ringtree_status status = looks % 64 == 63 ? rest(m, "could not send in time") : RINGTREE_OK;
        if (status != RINGTREE_OK) return status;
    }
    return RINGTREE_OK;
}

static ringtree_status take(struct meter *m, enum word *word)
{
    struct rt_link *link = m->trial->in;
    struct rt_frame frame;
    const void *data = NULL;
    for (uint32_t looks = 0;; looks++) {
        ringtree_status status = link->transport->recv(link, NULL, NULL, 0, &frame, &data, m->error);
        if (status == RINGTREE_OK) break;
        if (status == RINGTREE_IN_PROGRESS && looks % 64 == 63) status = rest(m, "got no answer in time");
        if (status != RINGTREE_IN_PROGRESS && status != RINGTREE_OK) return status;
    }
    *word = frame.bytes && data ? (enum word)*(const unsigned char *)data : END;
    link->transport->release(link);
    return RINGTREE_OK;
}

static ringtree_status round_trip(struct meter *m, enum word word)
{
    ringtree_status status = give(m, word, SHORT);
    const uint32_t more = word == ROW ? m->in_a_row : 0;
    for (uint32_t k = 0; k < more && status == RINGTREE_OK; k++) status = give(m, word, m->long_bytes);
    if (status == RINGTREE_OK) status = settle(m); /* the rest of a row goes only while somebody sends it */
    return status == RINGTREE_OK ? take(m, &word) : status;
}

static ringtree_status rounds(struct meter *m, enum word word, uint64_t most_ns, uint64_t *least_ns)
{
    const struct rt_clock *clock = m->engine->fabric.clock;
    const uint64_t begun = rt_now_ns(clock);
    ringtree_status status = RINGTREE_OK;
    uint64_t gone = 0;
    *least_ns = UINT64_MAX;
    const uint32_t least = m->trial->connections ? 3 : LEAST;
    for (uint32_t i = 0; status == RINGTREE_OK && (i < 2 || gone < most_ns || (i < least && gone < MOST_NS)); i++) {
        const uint64_t from = rt_now_ns(clock);
        status = round_trip(m, word);
        const uint64_t took = rt_now_ns(clock) - from;
        if (i > 0 && took < *least_ns) *least_ns = took; /* the first one connects */
        gone = rt_now_ns(clock) - begun;
    }
    return status;
}

static ringtree_status lead(struct meter *m, uint64_t most_ns, struct rt_link_guess *found)
{
    uint64_t trip_ns, row_ns;
    ringtree_status status = round_trip(m, TRIP);
    if (status == RINGTREE_OK) status = rounds(m, TRIP, most_ns / 2, &trip_ns);
    if (status == RINGTREE_OK) status = rounds(m, ROW, most_ns / 2, &row_ns);
    if (status == RINGTREE_OK) status = give(m, END, SHORT);
    if (status == RINGTREE_OK) status = settle(m);
    if (status != RINGTREE_OK) return status;
    const uint64_t long_ns = row_ns > trip_ns ? row_ns - trip_ns : 1;
    found->latency = (double)trip_ns * 0.5e-9;
    found->byte = (double)long_ns * 1e-9 / ((double)m->in_a_row * m->long_bytes);
    return RINGTREE_OK;
}

static ringtree_status follow(struct meter *m)
{
    for (;;) {
        enum word word, next;
        ringtree_status status = take(m, &word);
        if (status != RINGTREE_OK || word == END) return status;
        for (uint32_t k = 0; word == ROW && k < m->in_a_row && status == RINGTREE_OK; k++) status = take(m, &next);
        if (status == RINGTREE_OK) status = give(m, TRIP, SHORT);
        if (status == RINGTREE_OK) status = settle(m);
        if (status != RINGTREE_OK) return status;
    }
}

ringtree_status rt_trial_run(struct rt_trial *trial, struct rt_engine *engine, const struct rt_transport *transport,
                             uint32_t peer, bool leads, uint64_t most_ns, uint64_t end_ns,
                             struct rt_link_guess *found, struct rt_error *error)
{
    struct meter *m = trial->memory = calloc(1, sizeof *m);
    const uint32_t most = trial->connections ? SPREAD : LONG;
    trial->out = link_new(trial, engine, transport, peer, true);
    trial->in = link_new(trial, engine, transport, peer, false);
    ringtree_status status = m && trial->out && trial->in
                                 ? RINGTREE_OK
                                 : rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory to try %s",
                                           engine->fabric.rank, transport->name);
    if (status == RINGTREE_OK) status = open_both(trial, engine, error);
    if (status == RINGTREE_OK) {
        m->trial = trial;
        m->engine = engine;
        m->error = error;
        m->in_a_row = trial->connections ? FEW_IN_A_ROW : IN_A_ROW;
        m->long_bytes = engine->slot_bytes < most ? (uint32_t)engine->slot_bytes : most;
        m->end_ns = end_ns;
        status = leads ? lead(m, most_ns, found) : follow(m);
    }
    return status;
}
