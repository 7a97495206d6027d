/*
 * What the transport costs between two processes: one-way latency of 4 bytes by ping-pong, and the throughput of slices
 * of one slot, against memcpy() of as much. Usage: shm_link_bench [slot bytes]
 */
#include "control_standin.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BATCHES 200
#define TURNS   1000
#define ARRAY   (UINT64_C(16) << 20)

static struct rt_link *link_new(struct standin *world, uint32_t self, bool sends)
{
    struct rt_link *link = calloc(1, rt_transport_shm.link_size);
    struct rt_error error = { 0 };
    *link = (struct rt_link){ &rt_transport_shm, &world->fabric[self], 1 - self, 0, sends, 0, 0 };
    if (rt_transport_shm.open(link, &error) != RINGTREE_OK) exit(fprintf(stderr, "%s\n", error.text));
    return link;
}

static void pin(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void relax(uint32_t *spins)
{
    if (++*spins % 4000) rt_pause();
    else sched_yield();
}

static void put(struct rt_link *link, const struct rt_frame *frame, const void *data)
{
    uint32_t spins = 0;
    while (rt_transport_shm.send(link, frame, data, NULL) == RINGTREE_IN_PROGRESS) relax(&spins);
}

static const void *get(struct rt_link *link, const struct rt_frame *frame, void *into)
{
    struct rt_frame got;
    const void *data;
    uint32_t spins = 0;
    while (rt_transport_shm.recv(link, frame, into, link->slot_bytes, &got, &data, NULL) == RINGTREE_IN_PROGRESS)
        relax(&spins);
    return data;
}

/* The machine may be busy with other things: the best batch, in nanoseconds one way. */
static double ping_pong(struct rt_link *out, struct rt_link *in, bool first, uint32_t bytes)
{
    const struct rt_frame frame = { .bytes = bytes };
    static unsigned char data[4096], into[1 << 20];
    uint64_t best = UINT64_MAX;
    for (uint32_t b = 0; b < BATCHES; b++) {
        const uint64_t start = rt_now_ns(&rt_system_clock);
        for (uint32_t i = 0; i < TURNS; i++) {
            if (first) put(out, &frame, data);
            get(in, &frame, into);
            rt_transport_shm.release(in);
            if (!first) put(out, &frame, data);
        }
        const uint64_t ns = rt_now_ns(&rt_system_clock) - start;
        if (ns < best) best = ns;
    }
    return (double)best / TURNS / 2;
}

/* GB/s, the best batch. `copies`: the receiver copies each slice into an array of its own; else it only looks at it. */
static double stream(struct rt_link *link, bool sends, bool copies)
{
    const uint64_t ring = ARRAY / link->slot_bytes;
    const struct rt_frame frame = { .bytes = link->slot_bytes };
    unsigned char *array = malloc(ring * link->slot_bytes);
    uint64_t best = UINT64_MAX;
    memset(array, 1, ring * link->slot_bytes);
    for (uint32_t b = 0; b < BATCHES; b++) {
        const uint64_t start = rt_now_ns(&rt_system_clock);
        for (uint64_t i = 0; i < ring; i++) {
            unsigned char *at = array + i * link->slot_bytes;
            if (sends) {
                put(link, &frame, at);
            } else {
                get(link, &frame, copies ? at : NULL);
                rt_transport_shm.release(link);
            }
        }
        const uint64_t ns = rt_now_ns(&rt_system_clock) - start;
        if (ns < best) best = ns;
    }
    free(array);
    return (double)(ring * link->slot_bytes) / (double)best;
}

static double plain_memcpy(void)
{
    unsigned char *from = malloc(ARRAY), *to = malloc(ARRAY);
    uint64_t best = UINT64_MAX;
    memset(from, 1, ARRAY);
    memset(to, 2, ARRAY);
    for (uint32_t b = 0; b < BATCHES; b++) {
        const uint64_t start = rt_now_ns(&rt_system_clock);
        memcpy(to, from, ARRAY);
        __asm__ volatile("" ::"r"(to) : "memory");
        const uint64_t ns = rt_now_ns(&rt_system_clock) - start;
        if (ns < best) best = ns;
    }
    free(from);
    free(to);
    return (double)ARRAY / (double)best;
}

int main(int argc, char **argv)
{
    struct standin *world = standin_new(2);
    if (argc > 1) world->settings.number[RT_SHM_SLOT_BYTES] = (uint64_t)atoll(argv[1]);
    standin_open(world);
    if (!world->node[0] || !world->node[1]) return fprintf(stderr, "%s\n", world->error[1].text), 1;
    fflush(NULL);
    const pid_t child = fork(); /* the mappings are inherited: two processes, the same memory */
    const uint32_t self = child ? 0 : 1;
    pin((int)self);
    struct rt_link *out = link_new(world, self, true), *in = link_new(world, self, false);
    const double tiny = ping_pong(out, in, self == 0, 4), small = ping_pong(out, in, self == 0, 1024);
    const double looked = stream(self ? in : out, self == 0, false), copied = stream(self ? in : out, self == 0, true);
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
    const double copy = plain_memcpy();
    printf("one way, 4 bytes: %.0f ns; 1 KiB: %.0f ns\n", tiny, small);
    printf("slices of %u bytes: %.1f GB/s in place, %.1f GB/s into an array; memcpy %.1f GB/s\n", out->slot_bytes,
           looked, copied, copy);
    free(out);
    free(in);
    standin_close(world);
    return 0;
}
