/*
 * ringtree-limits: what two cores of this machine can do without any library. A meter is one file with one function
 * that adds figures; all else is here.
 *
 *   main      the command line, the list of meters
 *   figures   samples -> median, least, most
 *   report    the table, the JSON
 *   machine   what the figures belong to: processor, caches, kernel, congestion control
 *   pair      the same function on two pinned threads at once
 *   memory    mappings for buffers
 *   duplex    both directions of sockets at once; also behind the benchmark's --limits
 *   copying   the ways to copy
 */
#ifndef RT_LIMITS_H
#define RT_LIMITS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define LINE 64
#define MOST_FIGURES 128
#define MOST_REPEATS 101u

/* ---- figures.c */
struct figure {
    const char *name, *unit, *what; /* constant; `what` says exactly what was timed */
    size_t      bytes;              /* 0: the meter has no size */
    uint32_t    count;              /* of sockets or cores, where the figure depends on it, else 0 */
    uint32_t    repeats;            /* 0: not measured, and `why` says why not */
    double      median, least, most;
    double      traffic;            /* bytes of memory traffic per byte copied, 0: does not apply */
    char        why[160];
};

struct limits {
    int           cores[2];  /* the first two of the affinity mask, or --cores; both the same where there is one */
    uint32_t      repeats;
    size_t        beyond_caches; /* bytes of one buffer that no cache holds */
    struct figure figures[MOST_FIGURES];
    size_t        figure_count;
};

/* Sorts the samples. */
void figure_add(struct limits *limits, struct figure figure, double *samples, uint32_t count);
void figure_missing(struct limits *limits, struct figure figure, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* One-way times of a cache line up to this are called near. Seen on AMD Zen 3: 60-75 ns near, 200-280 ns far. */
#define NEAR_MOST_NS 150.0
const char *class_of(double one_way_ns); /* "near" or "far" */

/* ---- machine.c */
struct machine {
    char   processor[96], kernel[96], congestion[32], congestion_available[96], huge_pages[64];
    size_t l2_bytes, l3_bytes, memory_bytes, page_bytes;
    long   cores;
};
void machine_look(struct machine *machine);

/* ---- report.c */
void report_row(const struct figure *figure, FILE *out);
void report_head(const struct limits *limits, const struct machine *machine, FILE *out);
bool report_json(const struct limits *limits, const struct machine *machine, const double line_ns[2], FILE *out);

/* ---- pair.c */
struct pair {
    struct { _Alignas(LINE) atomic_uint count; } arrived[2]; /* one line each; side i counts its arrivals in the i-th */
    _Alignas(LINE) atomic_bool failed;
};
struct side {
    struct pair *pair;
    void        *context;
    unsigned     number; /* 0 or 1 */
    unsigned     meetings;
};
/* Runs body on two threads, pinned to the cores; false: a thread could not start or be pinned. */
bool   pair_run(const int cores[2], void (*body)(struct side *side), void *context);
/* Both sides arrive, then go on at once; spins, and yields after a while, so it also serves on one core. */
void   pair_meet(struct side *side);
bool   pin_to(int core);
double now_ns(void);

static inline void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* ---- memory.c */
enum memory_kind { MEMORY_SMALL, MEMORY_HUGE, MEMORY_SHARED };
struct memory {
    unsigned char *bytes;
    size_t         length; /* of the mapping: an odd number of pages, so that no two buffers are 2^k bytes apart */
};
/* Untouched; .bytes NULL: there is no memory. */
struct memory memory_map(size_t bytes, enum memory_kind kind);
/* Touched: all of it written once. */
struct memory memory_new(size_t bytes, enum memory_kind kind);
void          memory_free(struct memory *memory);

/* ---- duplex.c: uses nothing else of this folder */
#define DUPLEX_SOCKETS 2
struct duplex {
    int      out[DUPLEX_SOCKETS], in[DUPLEX_SOCKETS]; /* non-blocking; may be the same sockets */
    uint32_t sockets;
    uint32_t spins; /* empty turns before it sleeps in poll() */
    int      wait_ms;
};
/* Sends and receives `bytes` at once, spread evenly over the sockets; false: one failed or nothing moved in time. */
bool duplex_exchange(const struct duplex *duplex, const void *source, void *target, size_t bytes);
/* Two connected loopback sockets, TCP_NODELAY set, ends[0] and ends[1]; false: errno says why. */
bool loopback_pair(int ends[2]);

/* ---- copying.c: uses nothing else of this folder */
void copy_plain(void *target, const void *source, size_t bytes);    /* cached stores: 3 bytes of traffic per byte */
void copy_streaming(void *target, const void *source, size_t bytes); /* non-temporal: 2; `bytes` in whole lines */
bool copy_can_stream(void);

/* ---- the meters */
void meter_line(struct limits *limits);
void meter_fresh(struct limits *limits);
void meter_wake(struct limits *limits);
void meter_yield(struct limits *limits);
void meter_tcp(struct limits *limits);
void meter_duplex(struct limits *limits);
void meter_copy(struct limits *limits);
void meter_vm_read(struct limits *limits);
void meter_fault(struct limits *limits);
/* Just the one-way time of a line, before and after all others. 0: there is one core. */
double line_one_way_ns(const struct limits *limits);

#endif
