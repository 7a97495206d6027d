/*
 * TCP on the loopback: one way for a few bytes, busy-polled (each side reads without blocking, in a loop) and blocking;
 * and both directions at once, by message size, over one and two connections.
 */
#include "limits.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROUNDS 3000u
#define SMALL_BYTES 4u
#define BYTES_TIMED ((size_t)1 << 20)
#define SPINS 2000u
#define WAIT_MS 10000

/* ---- one way */

struct turns {
    int      ends[2];
    bool     polled;
    uint32_t repeats;
    atomic_bool failed;
    double   samples[MOST_REPEATS];
};

static bool take(const struct turns *turns, int fd)
{
    char    bytes[SMALL_BYTES];
    ssize_t got;
    do got = recv(fd, bytes, sizeof(bytes), turns->polled ? MSG_DONTWAIT : 0);
    while (turns->polled && got < 0 && errno == EAGAIN && !atomic_load_explicit(&turns->failed, memory_order_relaxed));
    return got == sizeof(bytes);
}

static bool give(int fd)
{
    static const char bytes[SMALL_BYTES];
    return send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) == sizeof(bytes);
}

static void side_of_turns(struct side *side)
{
    struct turns *turns = side->context;
    const int     fd = turns->ends[side->number];
    for (uint32_t r = 0; r < turns->repeats; r++) {
        pair_meet(side);
        const double start = now_ns();
        bool         good = true;
        for (unsigned i = 0; good && i < ROUNDS; i++)
            good = side->number ? take(turns, fd) && give(fd) : give(fd) && take(turns, fd);
        if (!good) {
            atomic_store(&turns->failed, true);
            shutdown(fd, SHUT_RDWR); /* the other side must not wait */
        }
        if (side->number == 0) turns->samples[r] = (now_ns() - start) / ROUNDS / 2e3;
    }
}

static void measure_turns(struct limits *limits, bool polled, struct figure figure)
{
    struct turns turns = { .polled = polled, .repeats = limits->repeats };
    figure.unit = "us";
    figure.bytes = SMALL_BYTES;
    if (polled && limits->cores[0] == limits->cores[1]) {
        figure_missing(limits, figure, "one core only");
        return;
    }
    if (!loopback_pair(turns.ends)) {
        figure_missing(limits, figure, "no connection on the loopback: %s", strerror(errno));
        return;
    }
    if (!pair_run(limits->cores, side_of_turns, &turns)) figure_missing(limits, figure, "cannot pin two threads");
    else if (atomic_load(&turns.failed)) figure_missing(limits, figure, "the connection failed");
    else figure_add(limits, figure, turns.samples, turns.repeats);
    for (int i = 0; i < 2; i++)
        close(turns.ends[i]);
}

void meter_tcp(struct limits *limits)
{
    measure_turns(limits, true, (struct figure){ .name = "tcp_one_way_polled",
                  .what = "loopback, half a round trip, both sides reading in a loop" });
    measure_turns(limits, false, (struct figure){ .name = "tcp_one_way_blocking",
                  .what = "loopback, half a round trip, both sides asleep in recv()" });
}

/* ---- both ways at once */

struct both_ways {
    struct duplex duplex[2];
    struct memory source[2], target[2];
    size_t        bytes;
    uint32_t      repeats;
    atomic_bool   failed;
    double        samples[MOST_REPEATS];
};

static void side_of_both_ways(struct side *side)
{
    struct both_ways *both = side->context;
    const unsigned    me = side->number;
    const uint32_t    rounds = both->bytes < BYTES_TIMED ? (uint32_t)(BYTES_TIMED / both->bytes) : 1;
    for (uint32_t r = 0; r <= both->repeats; r++) { /* the first is not counted */
        pair_meet(side);
        const double start = now_ns();
        bool         good = !atomic_load(&both->failed);
        for (uint32_t i = 0; good && i < rounds; i++)
            good = duplex_exchange(&both->duplex[me], both->source[me].bytes, both->target[me].bytes, both->bytes);
        if (!good) atomic_store(&both->failed, true);
        if (me == 0 && r) both->samples[r - 1] = (double)both->bytes * rounds / (now_ns() - start);
    }
}

static bool open_both_ways(struct both_ways *both, uint32_t sockets)
{
    for (unsigned side = 0; side < 2; side++) {
        both->duplex[side] = (struct duplex){ .spins = SPINS, .wait_ms = WAIT_MS };
        both->source[side] = memory_new(both->bytes, MEMORY_SMALL);
        both->target[side] = memory_new(both->bytes, MEMORY_SMALL);
        if (!both->source[side].bytes || !both->target[side].bytes) return false;
    }
    for (uint32_t i = 0; i < sockets; i++) {
        int ends[2];
        if (!loopback_pair(ends)) return false;
        for (unsigned side = 0; side < 2; side++) {
            both->duplex[side].out[i] = both->duplex[side].in[i] = ends[side];
            both->duplex[side].sockets = i + 1;
        }
    }
    return true;
}

static void close_both_ways(struct both_ways *both)
{
    for (unsigned side = 0; side < 2; side++) {
        for (uint32_t i = 0; i < both->duplex[side].sockets; i++)
            close(both->duplex[side].out[i]);
        memory_free(&both->source[side]);
        memory_free(&both->target[side]);
    }
}

static void measure_both_ways(struct limits *limits, size_t bytes, uint32_t sockets)
{
    struct both_ways both = { .bytes = bytes, .repeats = limits->repeats };
    struct figure    figure = { .name = "tcp_duplex", .unit = "GB/s", .bytes = bytes, .count = sockets,
                                .what = "loopback, each way while the other way carries as much" };
    if (limits->cores[0] == limits->cores[1]) figure_missing(limits, figure, "one core only");
    else if (!open_both_ways(&both, sockets))
        figure_missing(limits, figure, "no sockets or memory: %s", strerror(errno));
    else if (!pair_run(limits->cores, side_of_both_ways, &both))
        figure_missing(limits, figure, "cannot pin two threads");
    else if (atomic_load(&both.failed)) figure_missing(limits, figure, "a connection failed");
    else figure_add(limits, figure, both.samples, both.repeats);
    close_both_ways(&both);
}

void meter_duplex(struct limits *limits)
{
    for (uint32_t sockets = 1; sockets <= DUPLEX_SOCKETS; sockets++)
        for (size_t bytes = (size_t)16 << 10; bytes <= (size_t)64 << 20; bytes *= 4)
            measure_both_ways(limits, bytes, sockets);
}
