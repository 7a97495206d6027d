/*
 * The sum by owner, written out in one process: every rank encodes each slice once for its owner; the owner adds what
 * it decodes, in rank order, and encodes the sum once; all decode that. What the collective must do, to the bit.
 */
#ifndef RT_CODEC_TWO_SHOT_H
#define RT_CODEC_TWO_SHOT_H

#include "codec/codec.h"
#include "inputs.h"

struct two_shot {
    struct rt_codec codec;
    uint32_t        nranks;
    size_t          count;
    uint32_t        slices; /* 0: one per rank */
    uint64_t        step;
    float         **inputs;    /* [nranks][count] */
    float         **residuals; /* [nranks][count] or NULL: no feedback */
    float          *owned;     /* [count], the owners' residuals, or NULL */
    struct rt_cut  *cuts;      /* topk: [nranks] */
    float          *sum;       /* [count]: what the owners encoded */
    float          *result;    /* [count] */
    void          (*damage)(uint8_t *bytes, size_t length); /* of what the owner encoded, or NULL */
    size_t          bytes;  /* encoded in all */
    struct rt_codec_report report;
};

/* 0, or the number of decodes that failed. */
int run_two_shot(struct two_shot *run);

/* For comparison only, re-quantised at every hop: the error grows with the number of ranks. */
int run_requantising_ring(struct two_shot *run);

struct two_shot new_two_shot(struct rt_codec codec, uint32_t nranks, size_t count, enum inputs inputs, uint64_t seed);
void free_two_shot(struct two_shot *run);

/*
 * The largest of |result - exact sum| / allowed over all elements; within the bound when not above 1. Allowed is what
 * rt_codec_error_bound() says for each rank's block and the owner's, and what adding n float32 costs.
 */
double worst_share(const struct two_shot *run);

#endif
