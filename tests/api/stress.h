/*
 * Random sequences of calls through the public header: what one rank of such a run holds. All ranks draw the same calls
 * from the seed; memory, the order of waiting and pauses are drawn by each rank for itself.
 */
#ifndef TEST_STRESS_H
#define TEST_STRESS_H

#include "ranks.h"

#define STRESS_COMMS   4
#define STRESS_PENDING 10
#define STRESS_PERIOD  251 /* elements whose values differ; a prime, so that no block of a transport repeats it */

struct stress_plan { /* the same on all ranks */
    uint64_t     seed;
    uint32_t     operations;
    uint64_t     most_elements;
    atomic_uint *wrong; /* results that were not right, of all processes */
};

struct stress_comm {
    ringtree_comm *comm;
    uint32_t       size, rank;
};

/* `bytes` at `data`, with guards before and after; from malloc() or, with `owner`, from ringtree_mem_alloc(). */
struct stress_buffer {
    unsigned char *base, *data;
    size_t         bytes;
    ringtree_comm *owner;
};

/* Two more ways to call than there are collectives. */
enum stress_kind {
    STRESS_ALL_REDUCE,
    STRESS_REDUCE,
    STRESS_BROADCAST,
    STRESS_REDUCE_SCATTER,
    STRESS_ALL_GATHER,
    STRESS_ALL_TO_ALL,
    STRESS_GATHER,
    STRESS_SCATTER,
    STRESS_BARRIER,
    STRESS_SHIFT_GROUP,    /* send to the rank `root` further on, receive from the one before: as a group */
    STRESS_SHIFT_REQUESTS, /* the same as two requests */
    STRESS_ALL_TO_ALL_V,
    STRESS_KINDS
};

struct stress_job {
    bool                live, asks_in_place, in_place; /* in_place: on this rank */
    uint32_t            number, slot, op, root;        /* op: of numbers.h */
    enum stress_kind    kind;
    ringtree_type       type;
    size_t              count;
    uint64_t            values; /* from which its elements are made */
    struct stress_comm *on;
    ringtree_op         premul;
    ringtree_request   *request[2];
    struct stress_buffer in, out; /* in place: `in` is unused, `out` holds both */
    unsigned char      *input, *output;
    size_t              input_counts[RANKS_MOST], input_offsets[RANKS_MOST];
    size_t              output_counts[RANKS_MOST], output_offsets[RANKS_MOST];
    unsigned char       given[RANKS_MOST][STRESS_PERIOD * 8]; /* encoded elements of each rank */
    unsigned char       reduced[STRESS_PERIOD * 8];
};

struct stress_rank {
    struct rank              *self;
    const struct stress_plan *plan;
    uint64_t                  shared, own; /* states of the draws that all make alike, and of this rank's */
    struct stress_comm        comms[STRESS_COMMS];
    struct stress_job         jobs[STRESS_PENDING];
};

uint64_t stress_mix(uint64_t x);
uint64_t stress_draw(uint64_t *state);

/* Says the seed, the rank, what failed and why, and ends the process. */
_Noreturn void stress_die(const struct stress_rank *me, const char *what, const char *why);

/* The job's fields up to `on` are chosen. Starts it, or with `wait` runs it to its end. */
void stress_job_start(struct stress_rank *me, struct stress_job *job, bool wait);
/* True: all its requests are finished. Never waits. */
bool stress_job_test(struct stress_rank *me, struct stress_job *job);
/* Compares the results to the bit and frees what the job held. */
void stress_job_finish(struct stress_rank *me, struct stress_job *job);

/* The body of one rank: struct rank.argument is the plan. */
void stress_run(struct rank *self);

#endif
