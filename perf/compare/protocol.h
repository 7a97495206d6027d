/*
 * What every library is measured by: the same loops, the same inputs, the same clock. A library takes part through
 * the few calls of struct peer.
 */
#ifndef COMPARE_PROTOCOL_H
#define COMPARE_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum collective {
    ALL_REDUCE, REDUCE, BROADCAST, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL, GATHER, SCATTER, BARRIER, SEND_RECV,
    COLLECTIVES
};

/*
 * One operation on float32, sum where it adds. `count` is that of ringtree.h: of a block where there are blocks.
 * In place as ringtree.h defines it; a broadcast always is. SEND_RECV: from rank 0 to rank 1 and back.
 */
struct call {
    uint32_t     collective, root, in_place;
    const float *input;
    float       *output;
    size_t       count;
};

/* A library. Each call returns 0, or anything else after it has said on stderr what failed. */
struct peer {
    void *context;
    bool  first_block; /* reduce_scatter in place leaves its result in the first block, not in the rank's own */
    int (*open)(void *context, uint32_t rank, uint32_t nranks); /* the rank is bound to its core by then */
    int (*run)(void *context, const struct call *call);         /* returns when the result is there */
    void *(*shared)(void *context, size_t bytes);               /* the library's own memory; NULL: has none */
    void (*close)(void *context);
};

struct options {
    const char *board, *out; /* files: the page, and where rank 0 adds a line of JSON for each point */
    const char *jobs;        /* COLLECTIVE:in|out:private|shared:BYTES,BYTES... with a + between jobs */
    uint32_t    rank, nranks, threads, budget_ms, least;
};

/* Reads the flags, and the rank from what the launcher left in the environment. False: said on stderr why not. */
bool protocol_options(struct options *options, int argc, char **argv);

/* Everything that one rank does: bind, open, measure all jobs, close. The exit status. */
int protocol_rank(const struct options *options, const struct peer *peer, uint32_t rank);

#endif
