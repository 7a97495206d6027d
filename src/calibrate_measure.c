/*
 * A link between two ranks, measured by messages: short ones there and back for the latency, then some long ones in a
 * row for the time of a byte. The least counts, since everything that disturbs makes it longer; but a second row is
 * waited for wherever there is time, since a link with a limit often lets the first bytes through faster. The time
 * begins when the link is open. The first of the two leads: each message that it sends begins with what comes next, so
 * that it alone watches the clock. The other one leaves the first's core for the while, if the scheduler has put both
 * on one; what they took there does not count.
 */
#include "calibrate.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define SHORT    64
#define LONG     (256 << 10)
#define IN_A_ROW 3 /* long messages, answered by a short one */
#define FIRST_LONG (4 << 10) /* between machines: a link that loses or reorders can take a second for 32 KiB */
#define TRIPS    4000
#define ROWS     12
#define FEW_TRIPS 16
#define FEW_ROWS  3
#define ENOUGH_NS UINT64_C(3000000) /* by then the scheduler has found a core for each of the two */
#define SLOW_NS   UINT64_C(4000000) /* of a row: both slept in it, and who wakes is often moved to the other's core */
#define FS_PER_NS UINT64_C(1000000)

enum { END, TRIP, ROW };

struct meter {
    ringtree_comm *comm;
    uint32_t       peer;
    uint64_t       most_ns, end_ns;
    uint32_t       long_bytes;
    unsigned char *memory; /* LONG bytes; a short message: what comes next, the sender's core, and its long_bytes */
    bool           one_machine, between; /* where both are; they are different nodes */
};

static ringtree_status give(struct meter *m, size_t bytes)
{
    return ringtree_send(m->comm, m->memory, bytes, RINGTREE_UINT8, m->peer, NULL);
}

static ringtree_status take(struct meter *m, size_t bytes)
{
    return ringtree_recv(m->comm, m->memory, bytes, RINGTREE_UINT8, m->peer, NULL);
}

static ringtree_status give_short(struct meter *m, unsigned char what)
{
    const int32_t core = sched_getcpu();
    m->memory[0] = what;
    memcpy(m->memory + 4, &core, sizeof core);
    memcpy(m->memory + 8, &m->long_bytes, sizeof m->long_bytes);
    return give(m, SHORT);
}

/* Is the peer, by its last short message, on the core that this rank runs on? */
static bool shares_core(const struct meter *m)
{
    int32_t core;
    memcpy(&core, m->memory + 4, sizeof core);
    return m->one_machine && core == sched_getcpu();
}

static ringtree_status go(struct meter *m, unsigned char what, uint64_t *took_ns)
{
    const uint64_t begun = rt_now_ns(&rt_system_clock);
    ringtree_status status = give_short(m, what);
    for (int k = 0; what == ROW && k < IN_A_ROW && status == RINGTREE_OK; k++) status = give(m, m->long_bytes);
    if (status == RINGTREE_OK) status = take(m, SHORT);
    *took_ns = rt_now_ns(&rt_system_clock) - begun;
    return status;
}

/*
 * UINT64_MAX: none could be measured, both were on one core. Within a machine the first does not count, it touches
 * fresh memory, and of few none does: they are those in which the scheduler moved a rank, which took 106 us once.
 * Between machines one may be all there is time for.
 */
static ringtree_status rounds(struct meter *m, unsigned char what, uint32_t count, uint64_t *least_ns)
{
    ringtree_status status = RINGTREE_OK;
    const uint64_t first = rt_now_ns(&rt_system_clock);
    uint64_t took, first_took = UINT64_MAX;
    uint32_t counted = 0;
    *least_ns = UINT64_MAX;
    for (uint32_t i = 0; i < count && status == RINGTREE_OK; i++) {
        const uint64_t now = rt_now_ns(&rt_system_clock);
        const uint64_t patience_ns = m->between && *least_ns == UINT64_MAX && first_took == UINT64_MAX ? m->most_ns : 0;
        const bool enough = (!m->between || *least_ns != UINT64_MAX) && now > first + ENOUGH_NS;
        if (i > 0 && (enough || now > m->end_ns + patience_ns)) break;
        status = go(m, what, &took);
        if (status != RINGTREE_OK || (shares_core(m) && !(m->between && what == ROW && took > SLOW_NS))) continue;
        if (i == 0) first_took = took;
        else if (took < *least_ns) *least_ns = took;
        counted++;
    }
    if (!m->between && counted < (what == TRIP ? FEW_TRIPS : FEW_ROWS)) *least_ns = UINT64_MAX;
    if (m->between && *least_ns == UINT64_MAX) *least_ns = first_took;
    return status;
}

static bool is_slow(const struct meter *m, uint64_t took, uint64_t trip_ns)
{
    return took > trip_ns && (took - trip_ns) * 16 > m->most_ns;
}

/* Rows of longer and longer messages, while the next one is sure not to take most of the time. */
static ringtree_status lengthen(struct meter *m, uint64_t trip_ns)
{
    uint64_t took;
    for (m->long_bytes = FIRST_LONG; m->long_bytes < LONG; m->long_bytes *= 4) {
        ringtree_status status = go(m, ROW, &took);
        /* once may be an accident */
        if (status == RINGTREE_OK && is_slow(m, took, trip_ns)) status = go(m, ROW, &took);
        if (status != RINGTREE_OK) return status;
        if (is_slow(m, took, trip_ns)) break;
    }
    return RINGTREE_OK;
}

static ringtree_status lead(struct meter *m, uint64_t *latency_fs, uint64_t *byte_fs)
{
    uint64_t trip_ns, row_ns = UINT64_MAX;
    ringtree_status status = go(m, TRIP, &trip_ns); /* opens the link */
    m->end_ns = rt_now_ns(&rt_system_clock) + m->most_ns;
    if (status == RINGTREE_OK) status = rounds(m, TRIP, TRIPS, &trip_ns);
    const bool known = trip_ns != UINT64_MAX; /* else nothing can be told of a byte */
    if (status == RINGTREE_OK && known && m->between) status = lengthen(m, trip_ns);
    if (status == RINGTREE_OK && known) status = rounds(m, ROW, ROWS, &row_ns);
    if (status != RINGTREE_OK) return status;
    status = give_short(m, END);
    if (trip_ns == UINT64_MAX || row_ns == UINT64_MAX || row_ns <= trip_ns) return status; /* not measured */
    const uint64_t long_ns = row_ns - trip_ns;
    *latency_fs = trip_ns * FS_PER_NS / 2;
    *byte_fs = long_ns * FS_PER_NS / (IN_A_ROW * (uint64_t)m->long_bytes);
    return status;
}

static void leave_core(const struct meter *m, const cpu_set_t *allowed)
{
    cpu_set_t others = *allowed;
    if (!shares_core(m)) return;
    CPU_CLR((size_t)sched_getcpu(), &others);
    if (CPU_COUNT(&others)) sched_setaffinity(0, sizeof others, &others);
}

static ringtree_status answer(struct meter *m, const cpu_set_t *allowed)
{
    for (;;) {
        ringtree_status status = take(m, SHORT);
        if (status != RINGTREE_OK || m->memory[0] == END) return status;
        const bool row = m->memory[0] == ROW;
        uint32_t bytes;
        memcpy(&bytes, m->memory + 8, sizeof bytes);
        if (bytes > LONG) bytes = LONG; /* then the receives tell that the sender's are others */
        if (allowed) leave_core(m, allowed);
        for (int k = 0; row && k < IN_A_ROW && status == RINGTREE_OK; k++) status = take(m, bytes);
        if (status == RINGTREE_OK) status = give_short(m, TRIP);
        if (status != RINGTREE_OK) return status;
    }
}

static ringtree_status follow(struct meter *m)
{
    cpu_set_t allowed;
    const bool known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
    ringtree_status status = answer(m, known ? &allowed : NULL);
    if (known) sched_setaffinity(0, sizeof allowed, &allowed);
    return status;
}

/* Nodes are numbered by first appearance, so a number that is not the next one has appeared before. */
bool rt_calibrate_pair(const ringtree_comm *comm, bool inside, uint32_t *first, uint32_t *second)
{
    uint32_t next = 0;
    for (*second = 0; *second < comm->nranks; ++*second) {
        const uint32_t node = comm->node_of[*second];
        if (node < next ? inside : !inside && node > 0) break;
        next += node == next;
    }
    if (*second == comm->nranks) return false;
    for (*first = 0; inside && comm->node_of[*first] != comm->node_of[*second];) ++*first;
    return true;
}

static ringtree_status measure_pair(ringtree_comm *comm, bool inside, uint32_t most_ms, struct rt_calibration *found)
{
    uint32_t first, second;
    const struct rt_place *places = rt_control_places(comm->control);
    const uint8_t kind = inside ? comm->planner.sites.inside : comm->planner.sites.between;
    if (!rt_calibrate_pair(comm, inside, &first, &second)) return RINGTREE_OK;
    if (comm->rank != first && comm->rank != second) return RINGTREE_OK;
    struct meter m = { comm, comm->rank == first ? second : first,
                       (uint64_t)most_ms * 1000000, 0, LONG, malloc(LONG),
                       places[first].machine_key == places[second].machine_key, kind == RT_LINK_NETWORK };
    if (!m.memory) return rt_fail(&comm->error, RINGTREE_NO_MEMORY, "rank %u: no memory to measure links", comm->rank);
    memset(m.memory, 0, LONG);
    ringtree_status status =
        comm->rank == first ? lead(&m, &found->latency_fs[kind], &found->byte_fs[kind]) : follow(&m);
    free(m.memory);
    return status;
}

ringtree_status rt_calibrate_measure(ringtree_comm *comm, uint32_t most_ms, bool only_between,
                                     struct rt_calibration *found)
{
    uint32_t first, second;
    const bool both = !only_between && rt_calibrate_pair(comm, true, &first, &second) &&
                      rt_calibrate_pair(comm, false, &first, &second);
    const uint32_t each_ms = both && most_ms > 1 ? most_ms / 2 : most_ms;
    memset(found, 0, sizeof *found);
    ringtree_status status = only_between ? RINGTREE_OK : measure_pair(comm, true, each_ms, found);
    return status == RINGTREE_OK ? measure_pair(comm, false, each_ms, found) : status;
}
