/* The list of checks, and those that need only a few slices. */
#include "conformance.h"
#include "checks.h"
#include <poll.h>

#define QUIET_NS 20000000 /* a link that took nothing for so long is full: nobody reads */
#define MOST_TAKEN 4000   /* slices: by then it does not stop */

static const char *reserve(struct pair *pair, void **memory)
{
    struct rt_error error = { 0 };
    const uint64_t end = rt_now_ns(&rt_system_clock) + conformance_patience_ns;
    struct rt_frame frame;
    const void *data;
    while (!(*memory = pair->transport->reserve(pair->out, &error))) {
        if (error.status) return wrong("reserve: %s", error.text);
        pair->transport->recv(pair->in, NULL, NULL, 0, &frame, &data, NULL); /* takes part in connecting */
        if (rt_now_ns(&rt_system_clock) > end) return "nothing can be reserved";
    }
    return NULL;
}

/* One slice there and back, with any memory. */
static const char *pass(struct pair *pair, uint64_t sequence, uint32_t bytes, bool into)
{
    const struct rt_frame frame = pair_frame(sequence, bytes);
    unsigned char *memory = malloc((size_t)bytes + 1), *target = malloc((size_t)bytes + 1);
    const void *data = NULL;
    struct rt_frame got;
    pair_fill(memory, sequence, bytes);
    struct rt_error error = { 0 };
    const char *verdict = pair_first(pair, &frame, memory);
    if (!verdict) verdict = pair_recv(pair, &frame, into ? target : NULL, bytes, &got, &data);
    if (!verdict && (!data || memcmp(&got, &frame, sizeof(got)) != 0)) verdict = "the slice was not delivered";
    if (!verdict && !pair_filled(data, sequence, bytes)) verdict = wrong("a slice of %u bytes is broken", bytes);
    if (!verdict && into && data != target) verdict = "the slice is not where it was wanted";
    pair->transport->release(pair->in);
    const uint64_t end = rt_now_ns(&rt_system_clock) + conformance_patience_ns;
    while (!verdict && pair->transport->sent(pair->out, &error) <= sequence)
        if (error.status || rt_now_ns(&rt_system_clock) > end) verdict = "a slice stays borrowed after it arrived";
    free(memory);
    free(target);
    return verdict;
}

static const char *check_empty(struct pair *pair)
{
    const char *verdict = NULL;
    for (uint64_t i = 0; i < 40 && !verdict; i++) verdict = pass(pair, i, i % 4 ? 0 : 3, i % 2);
    return verdict;
}

static const char *check_largest(struct pair *pair)
{
    const uint32_t most = pair->out->slot_bytes;
    struct rt_error error = { 0 };
    const char *verdict = pass(pair, 0, most, true);
    if (!verdict) verdict = pass(pair, 1, most - 1, false);
    if (!verdict) verdict = pass(pair, 2, most, false);
    if (verdict) return verdict;
    const struct rt_frame frame = pair_frame(3, most + 1);
    void *memory = calloc(1, (size_t)most + 1);
    if (pair->transport->send(pair->out, &frame, memory, &error) <= RINGTREE_IN_PROGRESS)
        verdict = "a slice that is larger than the link allows was taken";
    free(memory);
    return verdict;
}

/* Until nothing is taken for a while. */
static const char *fill(struct pair *pair, const void *memory, uint64_t *taken)
{
    struct rt_error error = { 0 };
    const uint32_t bytes = pair->out->slot_bytes;
    uint64_t last = rt_now_ns(&rt_system_clock);
    while (*taken < MOST_TAKEN && rt_now_ns(&rt_system_clock) - last < QUIET_NS) {
        const struct rt_frame frame = pair_frame(*taken, bytes);
        const ringtree_status status = pair->transport->send(pair->out, &frame, memory, &error);
        if (status > RINGTREE_IN_PROGRESS) return wrong("send: %s", error.text);
        if (status != RINGTREE_OK) continue;
        ++*taken;
        last = rt_now_ns(&rt_system_clock);
    }
    return NULL;
}

/* Full is a link that takes nothing for a while and has no slot then: the kernel may make room after any while. */
const char *fill_link(struct pair *pair, const void *memory, uint64_t *taken)
{
    struct rt_error error = { 0 };
    const uint32_t bytes = pair->out->slot_bytes;
    *taken = 0;
    for (;;) {
        const char *verdict = fill(pair, memory, taken);
        if (verdict || *taken == MOST_TAKEN) return verdict;
        void *slot = pair->transport->reserve(pair->out, &error);
        if (!slot) return error.status ? wrong("reserve: %s", error.text) : NULL;
        const struct rt_frame frame = pair_frame(*taken, bytes);
        memcpy(slot, memory, bytes);
        if (pair->transport->send(pair->out, &frame, slot, &error) != RINGTREE_OK)
            return "a full link has a slot to reserve";
        ++*taken;
    }
}

static const char *check_full(struct pair *pair)
{
    struct rt_error error = { 0 };
    const uint32_t bytes = pair->out->slot_bytes;
    const void *data = NULL;
    struct rt_frame got;
    uint64_t taken;
    const char *verdict = pass(pair, 0, 8, false);
    if (verdict) return verdict;
    unsigned char *memory = malloc(bytes);
    pair_fill(memory, 0, bytes);
    verdict = fill_link(pair, memory, &taken);
    if (!verdict && taken == MOST_TAKEN) verdict = "a receiver that reads nothing does not stop the sender";
    if (!verdict && taken < pair->out->slots) verdict = wrong("only %" PRIu64 " slices were taken", taken);
    for (uint64_t i = 0; i < taken && !verdict; i++) {
        const struct rt_frame frame = pair_frame(i, bytes);
        verdict = pair_recv(pair, &frame, NULL, bytes, &got, &data);
        if (!verdict && !data) verdict = wrong("slice %" PRIu64 " came as %" PRIu64, i, got.sequence);
        if (!verdict && !pair_filled(data, 0, bytes)) verdict = wrong("slice %" PRIu64 " is broken", i);
        pair->transport->release(pair->in);
    }
    const uint64_t end = rt_now_ns(&rt_system_clock) + conformance_patience_ns;
    while (!verdict && pair->transport->sent(pair->out, &error) != taken + 1)
        if (error.status || rt_now_ns(&rt_system_clock) > end) verdict = "slices stay borrowed after they arrived";
    if (!verdict) verdict = pass(pair, taken + 1, 100, true);
    free(memory);
    return verdict;
}

static const char *check_reserved(struct pair *pair)
{
    void *first, *again;
    for (uint64_t i = 0; i < 20; i++) {
        const struct rt_frame frame = pair_frame(i, pair->out->slot_bytes);
        const void *data = NULL;
        struct rt_frame got;
        const char *verdict = reserve(pair, &first);
        if (verdict) return verdict;
        pair_fill(first, i, pair->out->slot_bytes);
        again = pair->transport->reserve(pair->out, NULL);
        if (again != first) return "reserve() gave other memory before the first was sent";
        verdict = pair_send(pair, &frame, first);
        if (!verdict) verdict = pair_recv(pair, &frame, NULL, frame.bytes, &got, &data);
        if (verdict) return verdict;
        if (!data || !pair_filled(data, i, frame.bytes)) return wrong("reserved slice %" PRIu64 " is broken", i);
        pair->transport->release(pair->in);
    }
    return NULL;
}

/* While one slice is held, others come; it must not move or change. */
static const char *check_held(struct pair *pair)
{
    const void *data = NULL;
    struct rt_frame got;
    unsigned char memory[3][512];
    const char *verdict = pass(pair, 0, 1, false);
    for (uint64_t i = 0; i < 2 && !verdict; i++) {
        const struct rt_frame frame = pair_frame(i + 1, 512);
        pair_fill(memory[i], i + 1, 512);
        verdict = pair_send(pair, &frame, memory[i]);
    }
    const struct rt_frame frame = pair_frame(1, 512), next = pair_frame(2, 512);
    if (!verdict) verdict = pair_recv(pair, &frame, NULL, 512, &got, &data);
    if (verdict || !data) return verdict ? verdict : "not delivered";
    for (int i = 0; i < 1000; i++) pair->transport->sent(pair->out, NULL);
    if (!pair_filled(data, 1, 512)) verdict = "a held slice changed";
    pair->transport->release(pair->in);
    if (!verdict) verdict = pair_recv(pair, &next, NULL, 512, &got, &data);
    if (!verdict && (!data || !pair_filled(data, 2, 512))) verdict = "the slice after a held one is broken";
    pair->transport->release(pair->in);
    return verdict;
}

/* Sends `frame` with its bytes; the receiver wants `expect` in `capacity` bytes and must get no data, but the frame. */
static const char *refuse(struct pair *pair, const struct rt_frame *frame, const struct rt_frame *expect,
                          size_t capacity)
{
    unsigned char *memory = malloc((size_t)frame->bytes + 1), *into = malloc(capacity + 64);
    const void *data = NULL;
    struct rt_frame got;
    pair_fill(memory, 1, frame->bytes);
    memset(into, 0xab, capacity + 64);
    const char *verdict = pair_send(pair, frame, memory);
    if (!verdict) verdict = pair_recv(pair, expect, into, capacity, &got, &data);
    if (!verdict && data) verdict = "a frame that is not the expected one was delivered";
    if (!verdict && memcmp(&got, frame, sizeof(got)) != 0) verdict = "the refused frame is not the one that was sent";
    for (size_t i = 0; !verdict && i < capacity + 64; i++)
        if (into[i] != 0xab) verdict = "the place for the expected slice was written to";
    free(into);
    const struct rt_transport *t = pair->transport;
    const uint64_t end = rt_now_ns(&rt_system_clock) + 2000000; /* a rest in the kernel's way may stay borrowed */
    while (t->sent(pair->out, NULL) < 2 && rt_now_ns(&rt_system_clock) < end) continue;
    pair_close_out(pair);
    free(memory);
    return verdict;
}

static const char *check_capacity(struct pair *pair)
{
    const struct rt_frame long_one = pair_frame(1, 1001), expect = pair_frame(1, 1000);
    const char *verdict = pass(pair, 0, 10, true);
    return verdict ? verdict : refuse(pair, &long_one, &expect, 1000);
}

/* Any of the first 28 bytes makes it another call. */
static const char *check_other_call(struct pair *pair)
{
    const struct fixture *fixture = pair->fixture;
    const char *verdict = NULL;
    for (size_t i = 0; i < 28 && !verdict; i++) {
        struct rt_frame other = pair_frame(1, 40), expect = pair_frame(1, 40);
        ((unsigned char *)&other)[i] ^= 1;
        verdict = pass(pair, 0, 10, true);
        if (!verdict) verdict = refuse(pair, &other, &expect, 40);
        if (verdict) return wrong("byte %zu of the frame: %s", i, verdict);
        bool skip;
        pair_close(pair);
        verdict = pair_open(pair, fixture, &skip);
    }
    return verdict;
}

/* Does poll(2) on the link's descriptor end within ms? A doorbell's link (-1) cannot tell: `otherwise`. */
static bool wakes(struct pair *pair, struct rt_link *link, int ms, bool otherwise)
{
    struct pollfd p = { 0 };
    p.fd = pair->transport->pollfd(link, &p.events);
    return p.fd < 0 ? otherwise : poll(&p, 1, ms) == 1;
}

/* A transport's own affairs, such as the end of connecting, may wake it once or twice, not for ever. */
static const char *check_quiet(struct pair *pair)
{
    const struct rt_frame expect = pair_frame(1, 8);
    const void *data = NULL;
    struct rt_frame got;
    for (int i = 0; i < 4; i++) {
        if (pair->transport->recv(pair->in, &expect, NULL, 8, &got, &data, NULL) != RINGTREE_IN_PROGRESS)
            return "something came that was not sent";
        if (!wakes(pair, pair->in, 10, false)) return NULL;
    }
    return "the receiver is woken by nothing";
}

/* It may be woken for what it has taken and can hand on, until that is done. */
static const char *check_quiet_sender(struct pair *pair)
{
    for (int i = 0; i < 16; i++) {
        pair->transport->sent(pair->out, NULL);
        if (!wakes(pair, pair->out, 10, false)) return NULL;
    }
    return "a full sender is woken by nothing";
}

static const char *check_descriptors(struct pair *pair)
{
    const uint32_t bytes = pair->out->slot_bytes;
    const void *data = NULL;
    struct rt_frame got;
    uint64_t taken;
    const char *verdict = pass(pair, 0, 8, true);
    if (!verdict) verdict = check_quiet(pair);
    unsigned char *memory = calloc(1, bytes);
    if (!verdict) verdict = fill_link(pair, memory, &taken);
    if (!verdict && !wakes(pair, pair->in, 1000, true)) verdict = "slices that came do not wake the receiver";
    if (!verdict) verdict = check_quiet_sender(pair);
    for (uint64_t i = 0; !verdict && i < taken; i++) {
        const struct rt_frame frame = pair_frame(i, bytes);
        const uint64_t sent = pair->transport->sent(pair->out, NULL);
        verdict = pair_recv(pair, &frame, NULL, bytes, &got, &data);
        pair->transport->release(pair->in);
        if (!verdict && sent < taken + 1 && i > taken / 2 && pair->transport->sent(pair->out, NULL) == sent &&
            !wakes(pair, pair->out, 1000, true))
            verdict = "the sender is not woken";
    }
    pair_close_out(pair);
    free(memory);
    return verdict;
}

static const char *check_describe(struct pair *pair)
{
    char text[200], tiny[5];
    const char *name = pair->transport->name;
    if (strncmp(pair->transport->describe(pair->out, text, sizeof(text)), name, strlen(name)) != 0)
        return wrong("before connecting: \"%s\"", text);
    const char *verdict = pass(pair, 0, 8, true);
    if (verdict) return verdict;
    for (int i = 0; i < 2; i++)
        if (strncmp(pair->transport->describe(i ? pair->in : pair->out, text, sizeof(text)), name, strlen(name)) != 0)
            return wrong("\"%s\" does not begin with \"%s\"", text, name);
    pair->transport->describe(pair->out, tiny, sizeof(tiny));
    return memchr(tiny, 0, sizeof(tiny)) ? NULL : "a short text is not ended";
}

const struct conformance_check conformance_checks[] = {
    { "random_slices_arrive_in_order_and_whole", check_random },
    { "two_threads_exchange_slices", check_threads },
    { "sender_stops_when_full_and_goes_on", check_full },
    { "empty_slices_are_slices", check_empty },
    { "largest_slice_passes_and_larger_is_refused", check_largest },
    { "reserved_memory_stays_until_sent", check_reserved },
    { "held_slice_stays_in_place", check_held },
    { "frame_longer_than_capacity_is_not_delivered", check_capacity },
    { "another_call_is_not_delivered", check_other_call },
    { "descriptors_tell_when_to_go_on", check_descriptors },
    { "sender_gone_idle", check_sender_gone_idle },
    { "sender_gone_in_a_slice", check_sender_gone_in_a_slice },
    { "sender_gone_before_connecting", check_sender_gone_early },
    { "receiver_gone_in_a_slice", check_receiver_gone_in_a_slice },
    { "receiver_gone_before_connecting", check_receiver_gone_early },
    { "flushed_slices_outlive_the_sender", check_flushed },
    { "closing_in_any_state_leaks_nothing", check_closing },
    { "describes_itself", check_describe },
};
const size_t conformance_count = sizeof(conformance_checks) / sizeof(conformance_checks[0]);

const char *conformance_run(const struct conformance_check *check, const struct fixture *fixture, bool *skip)
{
    struct pair pair;
    const char *verdict = pair_open(&pair, fixture, skip);
    if (!verdict) verdict = check->run(&pair);
    pair_close(&pair);
    return verdict;
}

const struct conformance_check *conformance_find(const char *name)
{
    for (size_t i = 0; i < conformance_count; i++)
        if (strcmp(conformance_checks[i].name, name) == 0) return &conformance_checks[i];
    fprintf(stderr, "no check is named %s\n", name);
    abort();
}
