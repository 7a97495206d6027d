/* Checks with many slices: order, threads, and what may be done with memory at which time. */
#include "conformance.h"
#include "checks.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#define BORROWED 16 /* more than any transport has slots */

struct traffic {
    struct pair   *pair;
    uint64_t       random_out, random_in, slices, posted, counted, given;
    unsigned char *memory[BORROWED]; /* of the last slices; overwritten as soon as sent() counts them */
    unsigned char *into;
    bool           choosing; /* into or in place is chosen once per slice */
    bool           use_into;
    uint64_t       pauses; /* rounds for which the slice in hand is kept */
    const void    *held;
    uint64_t       done, moved_ns; /* to see that nothing moves any more */
};

/* Both ends know the length of slice `i`. Half are short, a tenth as long as may be. */
static uint32_t length_of(const struct pair *pair, uint64_t i)
{
    uint64_t state = i * 7919 + 1, kind = random_next(&state) % 10, most = i % 64 < 48 ? 4096 : UINT32_MAX;
    const uint32_t slot = pair->out ? pair->out->slot_bytes : pair->in->slot_bytes;
    if (most > slot) most = slot;
    if (kind == 0) return (uint32_t)most;
    if (kind < 6) return (uint32_t)(random_next(&state) % 65);
    return (uint32_t)(random_next(&state) % (most + 1));
}

static const char *count_sent(struct traffic *t)
{
    struct rt_error error = { 0 };
    const uint64_t sent = t->pair->transport->sent(t->pair->out, &error);
    if (error.status) return wrong("sent: %s", error.text);
    if (sent > t->posted || sent < t->counted) return wrong("sent() went from %" PRIu64 " to %" PRIu64 " of %" PRIu64,
                                                            t->counted, sent, t->posted);
    for (; t->counted < sent; t->counted++) /* ours again: what is read of it from now on arrives broken */
        memset(t->memory[t->counted % BORROWED], 0xee, t->pair->out->slot_bytes);
    return NULL;
}

static const char *send_one(struct traffic *t)
{
    struct rt_link *out = t->pair->out;
    struct rt_error error = { 0 };
    if (t->posted == t->slices || t->posted - t->counted == BORROWED) return count_sent(t);
    const uint32_t bytes = length_of(t->pair, t->posted);
    const struct rt_frame frame = pair_frame(t->posted, bytes);
    unsigned char *data = t->memory[t->posted % BORROWED];
    if (t->posted % 3 == 0 && !(data = t->pair->transport->reserve(out, &error)))
        return error.status ? wrong("reserve: %s", error.text) : NULL;
    pair_fill(data, t->posted, bytes);
    const ringtree_status status = t->pair->transport->send(out, &frame, data, &error);
    if (status > RINGTREE_IN_PROGRESS) return wrong("send: %s", error.text);
    if (status == RINGTREE_OK) t->posted++;
    return random_next(&t->random_out) % 4 ? NULL : count_sent(t);
}

static const char *check_slice(struct traffic *t, const struct rt_frame *frame, const void *data, uint32_t bytes)
{
    const struct rt_frame expect = pair_frame(t->given, bytes);
    if (!data || memcmp(frame, &expect, sizeof(expect)) != 0)
        return wrong("slice %" PRIu64 " of %u bytes came as number %" PRIu64 " of %u bytes%s", t->given, bytes,
                     frame->sequence, frame->bytes, data ? "" : " and was not delivered");
    if (t->use_into && data != t->into) return wrong("slice %" PRIu64 " is not where it was wanted", t->given);
    if (!pair_filled(data, t->given, bytes)) return wrong("slice %" PRIu64 " of %u bytes is broken", t->given, bytes);
    for (uint32_t i = 0; t->use_into && i < 64; i++)
        if (t->into[bytes + i] != 0xab) return wrong("slice %" PRIu64 ": written beyond its end", t->given);
    return NULL;
}

static const char *recv_one(struct traffic *t)
{
    struct rt_error error = { 0 };
    struct rt_frame frame = { 0 };
    const uint32_t bytes = length_of(t->pair, t->given);
    const struct rt_frame expect = pair_frame(t->given, bytes);
    if (t->held) {
        if (t->pauses-- > 0) return NULL;
        if (!pair_filled(t->held, t->given, bytes)) return wrong("slice %" PRIu64 " changed while held", t->given);
        t->pair->transport->release(t->pair->in);
        t->held = NULL;
        t->given++;
        return NULL;
    }
    if (t->given == t->slices) return NULL;
    if (!t->choosing) t->use_into = random_next(&t->random_in) % 2;
    if (!t->choosing && t->use_into) memset(t->into + bytes, 0xab, 64);
    t->choosing = true;
    const ringtree_status status = t->pair->transport->recv(t->pair->in, &expect, t->use_into ? t->into : NULL, bytes,
                                                            &frame, &t->held, &error);
    if (status == RINGTREE_IN_PROGRESS) return NULL;
    if (status != RINGTREE_OK) return wrong("recv: %s", error.text);
    t->choosing = false;
    t->pauses = random_next(&t->random_in) % 8;
    return check_slice(t, &frame, t->held, bytes);
}

static void traffic_start(struct traffic *t, struct pair *pair, uint64_t slices)
{
    *t = (struct traffic){ .pair = pair, .random_out = 1, .random_in = 2, .slices = slices };
    for (int i = 0; i < BORROWED; i++) t->memory[i] = malloc((size_t)pair->out->slot_bytes + 1);
    t->into = malloc((size_t)pair->in->slot_bytes + 64);
}

static void traffic_end(struct traffic *t)
{
    for (int i = 0; i < BORROWED; i++) free(t->memory[i]);
    free(t->into);
}

static bool stands_still(struct traffic *t)
{
    const uint64_t done = t->posted + t->counted + t->given, now = rt_now_ns(&rt_system_clock);
    if (done != t->done || t->moved_ns == 0) t->moved_ns = now;
    t->done = done;
    return now - t->moved_ns > conformance_patience_ns;
}

const char *check_random(struct pair *pair)
{
    struct traffic t;
    const char *verdict = NULL;
    uint64_t random = 3;
    traffic_start(&t, pair, 2500);
    while (!verdict && (t.given < t.slices || t.counted < t.slices)) {
        const uint64_t turn = random_next(&random);
        for (uint64_t i = turn % 6; i > 0 && !verdict; i--) verdict = send_one(&t);
        for (uint64_t i = turn / 6 % 12; i > 0 && !verdict; i--) verdict = recv_one(&t);
        if (!verdict && stands_still(&t))
            verdict = wrong("it stands still: %" PRIu64 " sent, %" PRIu64 " received", t.posted, t.given);
    }
    traffic_end(&t);
    return verdict;
}

static atomic_bool stop_sending; /* the receiver has found something wrong */

static void *sending_thread(void *argument)
{
    struct traffic *t = argument;
    const char *verdict = NULL;
    while (!verdict && t->counted < t->slices && !stands_still(t) && !atomic_load(&stop_sending)) {
        verdict = send_one(t);
        sched_yield();
    }
    if (!verdict && t->counted < t->slices) verdict = "the sender stands still";
    return verdict ? strdup(verdict) : NULL; /* a verdict is the thread's own */
}

const char *check_threads(struct pair *pair)
{
    struct traffic out, in;
    const char *verdict = NULL;
    void *other = NULL;
    pthread_t thread;
    traffic_start(&out, pair, 1000);
    in = out;
    atomic_store(&stop_sending, false);
    if (pthread_create(&thread, NULL, sending_thread, &out)) abort();
    while (!verdict && in.given < in.slices && !stands_still(&in)) {
        verdict = recv_one(&in);
        sched_yield();
    }
    if (!verdict && in.given < in.slices) verdict = "the receiver stands still";
    atomic_store(&stop_sending, verdict != NULL);
    pthread_join(thread, &other);
    if (!verdict && other) verdict = wrong("%s", (char *)other);
    free(other);
    traffic_end(&out);
    return verdict;
}
