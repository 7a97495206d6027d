/* Measuring a transport between two ranks; see trial.h. */
#include "trial.h"
#include "meter.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define LOOKS 64 /* for something that is not there yet, before a rest */

struct course {
    struct rt_trial  *trial;
    struct rt_engine *engine;
    struct rt_error  *error;
    uint64_t          sent, taken, begun_ns, end_ns;
    uint32_t          slot_bytes;
    unsigned char     word[RT_METER_SHORT], memory[RT_METER_BYTES];
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

static ringtree_status late(const struct course *c)
{
    const struct rt_link *link = c->trial->out;
    const uint32_t self = c->engine->fabric.rank;
    const uint64_t ms = (c->end_ns - c->begun_ns) / 1000000;
    const char *host = rt_control_places(c->engine->fabric.control)[link->peer].host;
    if (!c->taken)
        return rt_fail(c->error, RINGTREE_TIMEOUT, "rank %u: nothing came from rank %u (host %s) over %s for %" PRIu64
                       " ms: look at firewalls, and at the devices that %s takes", self, link->peer, host,
                       link->transport->name, ms, link->transport->name);
    return rt_fail(c->error, RINGTREE_TIMEOUT, "rank %u: %s with rank %u (host %s) carried %" PRIu64 " messages there "
                   "and %" PRIu64 " back, then took longer than the %" PRIu64 " ms that there are to measure it", self,
                   link->transport->name, link->peer, host, c->sent, c->taken, ms);
}

#ifdef RINGTREE_FAULT_SWITCHES
/* RINGTREE_FAULT=slow:NAME: that transport carries two slices, then no more in time; mute:NAME: it carries none. */
static bool is_stuck(const struct course *c)
{
    const char *fault = c->engine->fabric.settings->text[RT_FAULT];
    if (strncmp(fault, "mute:", 5) && (strncmp(fault, "slow:", 5) || c->sent < 2)) return false;
    return !strcmp(fault + 5, "all") || !strcmp(fault + 5, c->trial->out->transport->name);
}
#else
#define is_stuck(course) false
#endif

/* Between looks for something that is not there yet. IN_PROGRESS: look again. */
static ringtree_status rest(const struct course *c)
{
    struct rt_engine *engine = c->engine;
    if (rt_control_failed(engine->fabric.control)) return rt_control_failure(engine->fabric.control, c->error);
    if (rt_now_ns(engine->fabric.clock) > c->end_ns) return late(c);
    rt_engine_step(engine);
    sched_yield();
    return RINGTREE_IN_PROGRESS;
}

/* What was given is no longer borrowed: `word` may change. */
static ringtree_status settle(struct course *c)
{
    struct rt_link *link = c->trial->out;
    struct rt_error error = { .status = RINGTREE_OK };
    for (uint32_t looks = 0; link->transport->sent(link, &error) < c->sent; looks++) {
        if (error.status != RINGTREE_OK) return rt_fail(c->error, error.status, "%s", error.text);
        const ringtree_status status = looks % LOOKS == LOOKS - 1 ? rest(c) : RINGTREE_IN_PROGRESS;
        if (status != RINGTREE_IN_PROGRESS) return status;
    }
    return RINGTREE_OK;
}

static ringtree_status give_slice(struct course *c, const void *data, uint32_t bytes)
{
    struct rt_link *link = c->trial->out;
    const struct rt_frame frame = { .sequence = c->sent, .root = RT_NONE, .lane = (uint8_t)link->lane, .bytes = bytes };
    ringtree_status status;
    for (uint32_t looks = 0;; looks++) {
        status = is_stuck(c) ? RINGTREE_IN_PROGRESS : link->transport->send(link, &frame, data, c->error);
        if (status == RINGTREE_IN_PROGRESS) {
            link->transport->sent(link, c->error);
            if (looks % LOOKS == LOOKS - 1) status = rest(c);
        }
        if (status != RINGTREE_IN_PROGRESS) break;
    }
    c->sent += status == RINGTREE_OK;
    return status;
}

static ringtree_status give(void *context, const void *data, size_t bytes)
{
    struct course *c = context;
    ringtree_status status = RINGTREE_OK;
    if (bytes == RT_METER_SHORT && (status = settle(c)) == RINGTREE_OK) data = memcpy(c->word, data, bytes);
    for (size_t done = 0; done < bytes && status == RINGTREE_OK; done += c->slot_bytes) {
        const size_t left = bytes - done;
        status = give_slice(c, (const unsigned char *)data + done, (uint32_t)(left < c->slot_bytes ? left
                                                                                                    : c->slot_bytes));
    }
    return status;
}

static ringtree_status take_slice(struct course *c, void *data, size_t bytes)
{
    struct rt_link *link = c->trial->in;
    struct rt_frame frame;
    const void *at = NULL;
    ringtree_status status;
    for (uint32_t looks = 0;; looks++) {
        status = link->transport->recv(link, NULL, data, bytes, &frame, &at, c->error);
        if (status == RINGTREE_IN_PROGRESS && looks % LOOKS == LOOKS - 1) status = rest(c);
        if (status != RINGTREE_IN_PROGRESS) break;
    }
    if (status != RINGTREE_OK) return status;
    link->transport->release(link);
    c->taken++;
    if (at && frame.bytes == bytes) return RINGTREE_OK;
    return rt_fail(c->error, RINGTREE_MISMATCH, "rank %u: rank %u sent a slice of %u bytes over %s where %zu were due",
                   c->engine->fabric.rank, link->peer, frame.bytes, link->transport->name, bytes);
}

static ringtree_status take(void *context, void *data, size_t bytes)
{
    struct course *c = context;
    ringtree_status status = settle(c); /* the rest of what was given goes only while somebody sends it */
    for (size_t done = 0; done < bytes && status == RINGTREE_OK; done += c->slot_bytes) {
        const size_t left = bytes - done;
        status = take_slice(c, (unsigned char *)data + done, left < c->slot_bytes ? left : c->slot_bytes);
    }
    return status;
}

static ringtree_status links_open(struct rt_trial *trial, struct rt_engine *engine,
                                  const struct rt_transport *transport, uint32_t peer, struct rt_error *error)
{
    trial->memory = calloc(1, sizeof(struct course));
    trial->out = link_new(trial, engine, transport, peer, true);
    trial->in = link_new(trial, engine, transport, peer, false);
    if (!trial->memory || !trial->out || !trial->in)
        return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory to try %s", engine->fabric.rank, transport->name);
    return open_both(trial, engine, error);
}

/* Which cores the two are on disturbs all transports alike, and is left to the scheduler. Only long messages go over
 * several connections, and who tries those knows the link. */
ringtree_status rt_trial_run(struct rt_trial *trial, struct rt_engine *engine, const struct rt_transport *transport,
                             uint32_t peer, bool leads, uint64_t most_ns, uint64_t end_ns, uint64_t *latency_fs,
                             uint64_t *byte_fs, struct rt_error *error)
{
    ringtree_status status = links_open(trial, engine, transport, peer, error);
    if (status != RINGTREE_OK) return status;
    struct course *c = trial->memory;
    c->trial = trial;
    c->engine = engine;
    c->error = error;
    c->begun_ns = rt_now_ns(engine->fabric.clock);
    c->end_ns = end_ns;
    c->slot_bytes = (uint32_t)engine->slot_bytes;
    struct rt_meter m = { .give = give, .take = take, .context = c, .memory = c->memory, .most_ns = most_ns,
                          .any_speed = true,
                          .first_bytes = trial->connections ? RT_METER_BYTES : RT_METER_FIRST };
    status = leads ? rt_meter_lead(&m) : rt_meter_follow(&m);
    if (status == RINGTREE_OK) status = settle(c);
    trial->opened = m.opened;
    *latency_fs = m.latency_fs;
    *byte_fs = m.byte_fs;
    return status;
}
