/* Waking a thread that sleeps, by futex and by eventfd, on the same core and across: half of a round trip. */
#include "limits.h"

#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ROUNDS 3000u

struct wake {
    struct { _Alignas(LINE) atomic_uint word; } bells[2];
    int      events[2]; /* eventfds: -1 for futexes */
    uint32_t repeats;
    double   samples[MOST_REPEATS];
};

static void ring(struct wake *wake, unsigned whose)
{
    if (wake->events[0] >= 0) {
        const uint64_t one = 1;
        if (write(wake->events[whose], &one, sizeof(one)) != sizeof(one)) return;
    } else {
        atomic_fetch_add_explicit(&wake->bells[whose].word, 1, memory_order_release);
        syscall(SYS_futex, &wake->bells[whose].word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

static void sleep_until(struct wake *wake, unsigned me, unsigned value)
{
    if (wake->events[0] >= 0) {
        uint64_t count;
        if (read(wake->events[me], &count, sizeof(count)) != sizeof(count)) return;
    } else {
        unsigned now;
        while ((now = atomic_load_explicit(&wake->bells[me].word, memory_order_acquire)) != value)
            syscall(SYS_futex, &wake->bells[me].word, FUTEX_WAIT_PRIVATE, now, NULL, NULL, 0);
    }
}

static void side_of_wake(struct side *side)
{
    struct wake *wake = side->context;
    const unsigned me = side->number;
    for (uint32_t r = 0; r < wake->repeats; r++) {
        pair_meet(side);
        const double start = now_ns();
        for (unsigned i = 1; i <= ROUNDS; i++) {
            if (me) sleep_until(wake, me, r * ROUNDS + i);
            ring(wake, !me);
            if (!me) sleep_until(wake, me, r * ROUNDS + i);
        }
        if (me == 0) wake->samples[r] = (now_ns() - start) / ROUNDS / 2e3;
    }
}

static void measure(struct limits *limits, bool eventfds, bool across, struct figure figure)
{
    const int   cores[2] = { limits->cores[0], limits->cores[across] };
    struct wake wake = { .events = { -1, -1 }, .repeats = limits->repeats };
    figure.unit = "us";
    for (int i = 0; eventfds && i < 2; i++)
        wake.events[i] = eventfd(0, EFD_CLOEXEC);
    if (across && cores[0] == cores[1]) figure_missing(limits, figure, "one core only");
    else if (eventfds && (wake.events[0] < 0 || wake.events[1] < 0)) figure_missing(limits, figure, "no eventfd");
    else if (!pair_run(cores, side_of_wake, &wake)) figure_missing(limits, figure, "cannot pin two threads");
    else figure_add(limits, figure, wake.samples, wake.repeats);
    for (int i = 0; i < 2; i++)
        if (wake.events[i] >= 0) close(wake.events[i]);
}

void meter_wake(struct limits *limits)
{
    measure(limits, false, false, (struct figure){ .name = "futex_wake_same_core",
            .what = "wake a sleeper by futex and sleep, same core" });
    measure(limits, false, true, (struct figure){ .name = "futex_wake_across", .what = "the same on the other core" });
    measure(limits, true, false, (struct figure){ .name = "eventfd_wake_same_core",
            .what = "write an eventfd that a sleeper reads, same core" });
    measure(limits, true, true, (struct figure){ .name = "eventfd_wake_across", .what = "the same on the other core" });
}
