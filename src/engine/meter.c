/* Measuring a link by messages; see meter.h. */
#include "meter.h"
#include "base/clock.h"
#include <sched.h>
#include <string.h>

#define IN_A_ROW  3 /* long messages, answered by a short one */
#define TRIPS     4000
#define ROWS      12
#define FEW_TRIPS 16
#define FEW_ROWS  3
#define ENOUGH_NS UINT64_C(3000000) /* by then the scheduler has found a core for each of the two */
#define SLOW_NS   UINT64_C(4000000) /* of a row: both slept in it, and who wakes is often moved to the other's core */
#define FS_PER_NS UINT64_C(1000000)

enum { END, TRIP, ROW };

static ringtree_status give_short(struct rt_meter *m, unsigned char what)
{
    const int32_t core = sched_getcpu();
    m->word[0] = what;
    memcpy(m->word + 4, &core, sizeof core);
    memcpy(m->word + 8, &m->long_bytes, sizeof m->long_bytes);
    return m->give(m->context, m->word, RT_METER_SHORT);
}

static ringtree_status take_short(struct rt_meter *m)
{
    return m->take(m->context, m->word, RT_METER_SHORT);
}

/* Is the peer, by its last short message, on the core that this rank runs on? */
static bool shares_core(const struct rt_meter *m)
{
    int32_t core;
    memcpy(&core, m->word + 4, sizeof core);
    return m->cores_count && core == sched_getcpu();
}

static ringtree_status go(struct rt_meter *m, unsigned char what, uint64_t *took_ns)
{
    const uint64_t begun = rt_now_ns(&rt_system_clock);
    ringtree_status status = give_short(m, what);
    for (int k = 0; what == ROW && k < IN_A_ROW && status == RINGTREE_OK; k++)
        status = m->give(m->context, m->memory, m->long_bytes);
    if (status == RINGTREE_OK) status = take_short(m);
    *took_ns = rt_now_ns(&rt_system_clock) - begun;
    return status;
}

/*
 * UINT64_MAX: none could be measured, both were on one core. Usually the first does not count, it touches fresh memory,
 * and of few none does: they are those in which the scheduler moved a rank, which took 106 us once. At any speed one
 * may be all there is time for; but a second row is waited for wherever there is time, since a link with a limit often
 * lets the first bytes through faster.
 */
static ringtree_status rounds(struct rt_meter *m, unsigned char what, uint32_t count, uint64_t *least_ns)
{
    ringtree_status status = RINGTREE_OK;
    const uint64_t first = rt_now_ns(&rt_system_clock);
    uint64_t took, first_took = UINT64_MAX;
    uint32_t counted = 0;
    *least_ns = UINT64_MAX;
    for (uint32_t i = 0; i < count && status == RINGTREE_OK; i++) {
        const uint64_t now = rt_now_ns(&rt_system_clock);
        const bool none = *least_ns == UINT64_MAX && first_took == UINT64_MAX;
        const bool enough = (!m->any_speed || *least_ns != UINT64_MAX) && now > first + ENOUGH_NS;
        if (i > 0 && (enough || now > m->end_ns + (m->any_speed && none ? m->most_ns : 0))) break;
        status = go(m, what, &took);
        if (status != RINGTREE_OK || (shares_core(m) && !(m->any_speed && what == ROW && took > SLOW_NS))) continue;
        if (i == 0) first_took = took;
        else if (took < *least_ns) *least_ns = took;
        counted++;
    }
    if (!m->any_speed && counted < (what == TRIP ? FEW_TRIPS : FEW_ROWS)) *least_ns = UINT64_MAX;
    if (m->any_speed && *least_ns == UINT64_MAX) *least_ns = first_took;
    return status;
}

static bool is_slow(const struct rt_meter *m, uint64_t took, uint64_t trip_ns)
{
    return took > trip_ns && (took - trip_ns) * 16 > m->most_ns;
}

/* Rows of longer and longer messages, while the next one is sure not to take most of the time. */
static ringtree_status lengthen(struct rt_meter *m, uint64_t trip_ns)
{
    uint64_t took;
    for (m->long_bytes = m->first_bytes; m->long_bytes < RT_METER_BYTES; m->long_bytes *= 4) {
        ringtree_status status = go(m, ROW, &took);
        /* once may be an accident */
        if (status == RINGTREE_OK && is_slow(m, took, trip_ns)) status = go(m, ROW, &took);
        if (status != RINGTREE_OK) return status;
        if (is_slow(m, took, trip_ns)) break;
    }
    return RINGTREE_OK;
}

ringtree_status rt_meter_lead(struct rt_meter *m)
{
    uint64_t trip_ns, row_ns = UINT64_MAX;
    m->long_bytes = RT_METER_BYTES;
    ringtree_status status = go(m, TRIP, &trip_ns); /* opens the link */
    m->opened = status == RINGTREE_OK;
    m->end_ns = rt_now_ns(&rt_system_clock) + m->most_ns;
    if (status == RINGTREE_OK) status = rounds(m, TRIP, TRIPS, &trip_ns);
    const bool known = trip_ns != UINT64_MAX; /* else nothing can be told of a byte */
    if (status == RINGTREE_OK && known && m->any_speed) status = lengthen(m, trip_ns);
    if (status == RINGTREE_OK && known) status = rounds(m, ROW, ROWS, &row_ns);
    if (status != RINGTREE_OK) return status;
    status = give_short(m, END);
    if (trip_ns == UINT64_MAX || row_ns == UINT64_MAX || row_ns <= trip_ns) return status; /* not measured */
    m->latency_fs = trip_ns * FS_PER_NS / 2;
    m->byte_fs = (row_ns - trip_ns) * FS_PER_NS / (IN_A_ROW * (uint64_t)m->long_bytes);
    return status;
}

static void leave_core(const struct rt_meter *m, const cpu_set_t *allowed)
{
    cpu_set_t others = *allowed;
    if (!shares_core(m)) return;
    CPU_CLR((size_t)sched_getcpu(), &others);
    if (CPU_COUNT(&others)) sched_setaffinity(0, sizeof others, &others);
}

static ringtree_status answer(struct rt_meter *m, const cpu_set_t *allowed)
{
    for (;;) {
        ringtree_status status = take_short(m);
        if (status != RINGTREE_OK || m->word[0] == END) return status;
        const bool row = m->word[0] == ROW;
        uint32_t bytes;
        memcpy(&bytes, m->word + 8, sizeof bytes);
        if (bytes > RT_METER_BYTES) bytes = RT_METER_BYTES; /* then the receives tell that the sender's are others */
        if (allowed) leave_core(m, allowed);
        for (int k = 0; row && k < IN_A_ROW && status == RINGTREE_OK; k++)
            status = m->take(m->context, m->memory, bytes);
        if (status == RINGTREE_OK) status = give_short(m, TRIP);
        if (status != RINGTREE_OK) return status;
    }
}

ringtree_status rt_meter_follow(struct rt_meter *m)
{
    cpu_set_t allowed;
    const bool known = m->cores_count && sched_getaffinity(0, sizeof allowed, &allowed) == 0;
    ringtree_status status = answer(m, known ? &allowed : NULL);
    if (known) sched_setaffinity(0, sizeof allowed, &allowed);
    return status;
}
