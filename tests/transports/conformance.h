/*
 * One suite for every transport. A fixture makes two ranks; the suite opens links from rank 0 to rank 1, drives both
 * ends and compares what comes out with what the contract (transports/transport.h) promises.
 *
 * Each check returns NULL, or a sentence on what is wrong: so it can be turned on transports that are broken on purpose
 * (broken.h), which it must refuse. Stamp it with CONFORMANCE(prefix, &fixture).
 */
#ifndef RT_TEST_CONFORMANCE_H
#define RT_TEST_CONFORMANCE_H

#include "transports/transport.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
    const char                *name;
    const struct rt_transport *transport;
    bool                       tells_loss; /* the link itself notices that the other end is gone */
    const void                *options;    /* for start() */
    /* Two ranks: fabric[0], fabric[1] and *world are filled. NULL, or why it is not possible here (skipped). */
    const char *(*start)(const struct fixture *fixture, struct rt_fabric fabric[2], void **world);
    void (*stop)(void *world);
};

/* A world and one link from rank 0 to rank 1. */
struct pair {
    const struct fixture      *fixture;
    const struct rt_transport *transport;
    struct rt_fabric           fabric[2];
    void                      *world;
    struct rt_link            *out, *in; /* NULL once closed */
};

/* How long nothing may move before a check says that it stands still. */
extern uint64_t conformance_patience_ns;

/* NULL, or why it cannot be opened; `skip` tells that start() could not. */
const char *pair_open(struct pair *pair, const struct fixture *fixture, bool *skip);
void pair_close_out(struct pair *pair);
void pair_close_in(struct pair *pair);
void pair_close(struct pair *pair);
/* Frame number `sequence` with `bytes` of payload. */
struct rt_frame pair_frame(uint64_t sequence, uint32_t bytes);
void pair_fill(void *memory, uint64_t sequence, size_t bytes);
bool pair_filled(const void *memory, uint64_t sequence, size_t bytes);
/* Drive both ends until this slice is taken or given; NULL or what is wrong. Bounded in time. */
const char *pair_send(struct pair *pair, const struct rt_frame *frame, const void *data);
/* As pair_send(), with the receiver's help, which connecting needs: it must not have got anything yet to receive. */
const char *pair_first(struct pair *pair, const struct rt_frame *frame, const void *data);
const char *pair_recv(struct pair *pair, const struct rt_frame *expect, void *into, size_t capacity,
                      struct rt_frame *frame, const void **data);
/* A verdict: formatted, valid until the thread's next. */
const char *wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t random_next(uint64_t *state);

struct conformance_check {
    const char *name;
    const char *(*run)(struct pair *pair); /* on a pair that is open and not connected yet */
};
extern const struct conformance_check conformance_checks[];
extern const size_t                   conformance_count;

/* Runs one check on a fresh pair. NULL: conforms. */
const char *conformance_run(const struct conformance_check *check, const struct fixture *fixture, bool *skip);
const struct conformance_check *conformance_find(const char *name);

#define CONFORMANCE_TEST(prefix, fixture, check)                                                                       \
    TEST(prefix##_##check)                                                                                             \
    {                                                                                                                  \
        bool skipped = false;                                                                                          \
        const char *verdict = conformance_run(conformance_find(#check), fixture, &skipped);                            \
        if (skipped) SKIP("%s", verdict);                                                                              \
        CHECK_THAT(verdict == NULL, "%s", verdict);                                                                    \
    }

#define CONFORMANCE(prefix, fixture)                                                                                   \
    CONFORMANCE_TEST(prefix, fixture, random_slices_arrive_in_order_and_whole)                                         \
    CONFORMANCE_TEST(prefix, fixture, two_threads_exchange_slices)                                                     \
    CONFORMANCE_TEST(prefix, fixture, sender_stops_when_full_and_goes_on)                                              \
    CONFORMANCE_TEST(prefix, fixture, empty_slices_are_slices)                                                         \
    CONFORMANCE_TEST(prefix, fixture, largest_slice_passes_and_larger_is_refused)                                      \
    CONFORMANCE_TEST(prefix, fixture, reserved_memory_stays_until_sent)                                                \
    CONFORMANCE_TEST(prefix, fixture, held_slice_stays_in_place)                                                       \
    CONFORMANCE_TEST(prefix, fixture, frame_longer_than_capacity_is_not_delivered)                                     \
    CONFORMANCE_TEST(prefix, fixture, another_call_is_not_delivered)                                                   \
    CONFORMANCE_TEST(prefix, fixture, descriptors_tell_when_to_go_on)                                                  \
    CONFORMANCE_TEST(prefix, fixture, sender_gone_idle)                                                                \
    CONFORMANCE_TEST(prefix, fixture, sender_gone_in_a_slice)                                                          \
    CONFORMANCE_TEST(prefix, fixture, sender_gone_before_connecting)                                                   \
    CONFORMANCE_TEST(prefix, fixture, receiver_gone_in_a_slice)                                                        \
    CONFORMANCE_TEST(prefix, fixture, receiver_gone_before_connecting)                                                 \
    CONFORMANCE_TEST(prefix, fixture, flushed_slices_outlive_the_sender)                                               \
    CONFORMANCE_TEST(prefix, fixture, closing_in_any_state_leaks_nothing)                                              \
    CONFORMANCE_TEST(prefix, fixture, describes_itself)

#endif
