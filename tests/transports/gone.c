/* Checks with an end that is closed, or never comes. A closed link is what a killed process leaves of a connection. */
#include "checks.h"
#include "entries.h"
#include <sched.h>

static const char *one_through(struct pair *pair)
{
    const struct rt_frame frame = pair_frame(0, 4);
    const void *data = NULL;
    struct rt_frame got;
    static const unsigned char memory[4] = { 1, 2, 3, 4 };
    const char *verdict = pair_first(pair, &frame, memory);
    if (!verdict) verdict = pair_recv(pair, &frame, NULL, 4, &got, &data);
    pair->transport->release(pair->in);
    return verdict;
}

/* A link that cannot tell is watched for a moment only. */
static uint64_t patience(const struct pair *pair)
{
    return pair->fixture->tells_loss ? conformance_patience_ns : 50000000u;
}

static bool names_both(const char *sentence)
{
    return strstr(sentence, "rank 0") && strstr(sentence, "rank 1");
}

/* From `sequence` on, whole slices may still come; then the loss must be told, with words, and again when asked. */
static const char *receive_loss(struct pair *pair, uint64_t sequence, uint32_t bytes)
{
    struct rt_error error = { 0 };
    const void *data = NULL;
    struct rt_frame got;
    const uint64_t end = rt_now_ns(&rt_system_clock) + patience(pair);
    while (rt_now_ns(&rt_system_clock) < end) {
        const struct rt_frame expect = pair_frame(sequence, bytes);
        const ringtree_status status = pair->transport->recv(pair->in, &expect, NULL, bytes, &got, &data, &error);
        if (status == RINGTREE_IN_PROGRESS) sched_yield();
        if (status == RINGTREE_IN_PROGRESS) continue;
        if (status == RINGTREE_OK && !data) return "a wrong slice came after the sender was gone";
        if (status == RINGTREE_OK) {
            pair->transport->release(pair->in);
            sequence++;
            continue;
        }
        if (status != RINGTREE_PEER_LOST) return wrong("not PEER_LOST: %s", error.text);
        if (!names_both(error.text)) return wrong("names no ranks: %s", error.text);
        error.text[0] = 0;
        const ringtree_status again = pair->transport->recv(pair->in, &expect, NULL, bytes, &got, &data, &error);
        return again == RINGTREE_PEER_LOST && error.text[0] ? NULL : "the loss is forgotten";
    }
    return pair->fixture->tells_loss ? "the loss of the sender is not told" : NULL;
}

const char *check_sender_gone_idle(struct pair *pair)
{
    const char *verdict = one_through(pair);
    pair_close_out(pair);
    return verdict ? verdict : receive_loss(pair, 1, 4);
}

const char *check_sender_gone_in_a_slice(struct pair *pair)
{
    const uint32_t bytes = pair->out->slot_bytes;
    void *memory = calloc(1, bytes);
    uint64_t taken;
    const char *verdict = one_through(pair);
    if (!verdict) verdict = fill_link(pair, memory, &taken);
    pair_close_out(pair);
    free(memory);
    return verdict ? verdict : receive_loss(pair, 0, bytes);
}

/* Dials, and is gone before the first slice: at once, or when the receiver has seen something of it. */
const char *check_sender_gone_early(struct pair *pair)
{
    struct rt_error error = { 0 };
    const struct rt_frame expect = pair_frame(0, 4);
    const void *data = NULL;
    struct rt_frame got;
    for (int i = 0; i < 50; i++) pair->transport->reserve(pair->out, NULL);
    pair_close_out(pair);
    const uint64_t end = rt_now_ns(&rt_system_clock) + 50000000;
    while (rt_now_ns(&rt_system_clock) < end) {
        const ringtree_status status = pair->transport->recv(pair->in, &expect, NULL, 4, &got, &data, &error);
        if (status == RINGTREE_OK) return "a slice came from nowhere";
        if (status == RINGTREE_PEER_LOST) return strstr(error.text, "rank 0") ? NULL : wrong("no rank: %s", error.text);
        if (status != RINGTREE_IN_PROGRESS) return wrong("not PEER_LOST: %s", error.text);
    }
    return NULL; /* a connection that never came is for the caller's timeout */
}

static const char *send_loss(struct pair *pair)
{
    struct rt_error error = { 0 };
    static const unsigned char memory[4] = { 0 };
    const struct rt_frame frame = pair_frame(1, 4);
    const uint64_t end = rt_now_ns(&rt_system_clock) + patience(pair);
    while (rt_now_ns(&rt_system_clock) < end) {
        const ringtree_status status = pair->transport->send(pair->out, &frame, memory, &error);
        if (status <= RINGTREE_IN_PROGRESS) sched_yield();
        if (status <= RINGTREE_IN_PROGRESS) continue;
        if (status != RINGTREE_PEER_LOST) return wrong("not PEER_LOST: %s", error.text);
        if (!names_both(error.text)) return wrong("names no ranks: %s", error.text);
        struct rt_error later = { 0 };
        pair->transport->sent(pair->out, &later);
        if (later.status != RINGTREE_PEER_LOST) return "sent() does not tell the loss";
        later.status = RINGTREE_OK;
        if (!pair->transport->reserve(pair->out, &later) && later.status != RINGTREE_PEER_LOST)
            return "reserve() does not tell the loss";
        return pair->transport->flushed(pair->out) ? NULL : "a failed link is never flushed";
    }
    return pair->fixture->tells_loss ? "the loss of the receiver is not told" : NULL;
}

const char *check_receiver_gone_in_a_slice(struct pair *pair)
{
    void *memory = calloc(1, pair->out->slot_bytes);
    uint64_t taken;
    const char *verdict = one_through(pair);
    if (!verdict) verdict = fill_link(pair, memory, &taken);
    pair_close_in(pair);
    if (!verdict) verdict = send_loss(pair);
    pair_close_out(pair);
    free(memory);
    return verdict;
}

const char *check_receiver_gone_early(struct pair *pair)
{
    const struct rt_frame frame = pair_frame(0, 4);
    static const unsigned char memory[4] = { 0 };
    struct rt_error error = { 0 };
    pair_close_in(pair);
    for (int i = 0; i < 200; i++) {
        const ringtree_status status = pair->transport->send(pair->out, &frame, memory, &error);
        if (status > RINGTREE_IN_PROGRESS && !error.text[0]) return "an error without words";
        sched_yield();
    }
    return NULL;
}

/* What was flushed arrives though the sender closes at once. */
const char *check_flushed(struct pair *pair)
{
    const void *data = NULL;
    struct rt_frame got;
    unsigned char memory[1000];
    const char *verdict = one_through(pair);
    pair_fill(memory, 9, sizeof(memory));
    for (uint64_t i = 1; i <= pair->out->slots && !verdict; i++) {
        const struct rt_frame frame = pair_frame(i, sizeof(memory));
        verdict = pair_send(pair, &frame, memory);
    }
    if (verdict) return verdict;
    const uint64_t slots = pair->out->slots, end = rt_now_ns(&rt_system_clock) + conformance_patience_ns;
    while (pair->fixture->tells_loss && !pair->transport->flushed(pair->out))
        if (rt_now_ns(&rt_system_clock) > end) return "it is never flushed";
    if (pair->fixture->tells_loss) pair_close_out(pair);
    for (uint64_t i = 1; i <= slots; i++) {
        const struct rt_frame frame = pair_frame(i, sizeof(memory));
        verdict = pair_recv(pair, &frame, NULL, sizeof(memory), &got, &data);
        if (verdict) return verdict;
        if (!data || !pair_filled(data, 9, sizeof(memory))) return wrong("slice %" PRIu64 " is broken", i);
        pair->transport->release(pair->in);
    }
    if (pair->out && !pair->transport->flushed(pair->out)) return "all came, and it is not flushed";
    return NULL;
}

/* `steps` rounds of whatever comes next, then both ends are closed, the one or the other first. */
static const char *stop_after(const struct fixture *fixture, uint64_t steps, bool out_first)
{
    struct pair pair;
    bool skip;
    const void *data = NULL;
    struct rt_frame got;
    const char *verdict = pair_open(&pair, fixture, &skip);
    const uint32_t bytes = verdict ? 0 : pair.out->slot_bytes;
    void *memory = calloc(1, (size_t)bytes + 1);
    uint64_t posted = 0, given = 0;
    for (uint64_t i = 0; i < steps && !verdict; i++) {
        const struct rt_frame frame = pair_frame(posted, bytes), expect = pair_frame(given, bytes);
        if (i % 3 == 0) pair.transport->reserve(pair.out, NULL);
        else if (i % 3 == 1) posted += pair.transport->send(pair.out, &frame, memory, NULL) == RINGTREE_OK;
        else if (pair.transport->recv(pair.in, &expect, NULL, bytes, &got, &data, NULL) == RINGTREE_OK) {
            if (i + 3 < steps) pair.transport->release(pair.in); /* the last one stays held */
            if (i + 3 < steps) given++;
            else break;
        }
    }
    if (out_first) pair_close_out(&pair);
    else pair_close_in(&pair);
    pair_close(&pair);
    free(memory);
    return verdict;
}

const char *check_closing(struct pair *pair)
{
    const struct fixture *fixture = pair->fixture;
    const char *verdict = NULL;
    pair_close(pair);
    const int before = count_entries("/proc/self/fd");
    for (uint64_t steps = 0; steps < 40 && !verdict; steps++) verdict = stop_after(fixture, steps, steps % 2);
    const int after = count_entries("/proc/self/fd");
    if (!verdict && after != before) verdict = wrong("%d descriptors before, %d after", before, after);
    struct rt_link *unopened = calloc(1, fixture->transport->link_size);
    unopened->transport = fixture->transport;
    fixture->transport->close(unopened); /* a link whose open() was never reached */
    free(unopened);
    return verdict;
}
