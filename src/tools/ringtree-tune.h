/* ringtree-tune: measures every way of every collective on this machine, fits the planner's table, checks it. */
#ifndef RINGTREE_TUNE_H
#define RINGTREE_TUNE_H

#include "cost/table.h"

/* One way of one call, predicted and measured. */
struct tune_point {
    uint8_t  collective, place; /* ringtree_collective, enum rt_cost_case */
    uint8_t  chosen;
    uint32_t ranks;
    uint64_t bytes; /* as the call counts them */
    char     way[16]; /* "": a measured link, `predicted` s for a byte and `measured` s of latency */
    double   predicted, measured; /* seconds */
};

struct tune_job {
    uint32_t ranks; /* to start here */
    bool     tcp;
    bool     uncorrected; /* predict by the model alone, to fit corrections */
    uint32_t collectives; /* a bit each */
    uint64_t least, most, step; /* bytes of a call, each `step` times the one before; most: of all its blocks */
    uint32_t rounds;    /* each measures every way once, in turn */
    double   seconds;   /* of one way in one round; at least one call */
};
#define TUNE_MOST_ROUNDS 32
#define TUNE_LATE        1.15 /* a choice that takes so much longer than the best way is wrong */

typedef void tune_take(const struct tune_point *point, void *context);

/* In a rank: measures and, on rank 0, gives each point to `take`. */
ringtree_status tune_measure(ringtree_comm *comm, const struct tune_job *job, tune_take *take, void *context);

/* Starts the ranks of a job as processes; the points are added to *points; false: a sentence is in `why`. */
bool tune_run(const struct tune_job *job, struct tune_point **points, size_t *count, char *why, size_t capacity);

/* ---- measurements in pieces (ringtree-tune-keep.c) */

/* The line that a job of one collective is known by in the file. */
void tune_job_key(const struct tune_job *job, char *key, size_t capacity);
/* Adds the points of that job to *points, if the file has all of them. */
bool tune_kept(const char *path, const char *key, struct tune_point **points, size_t *count);
/* false: they could not be written. */
bool tune_keep(const char *path, const char *key, const struct tune_point *points, size_t count);

/* Corrections so that the predictions, which were made without any, become what was measured. */
void tune_fit(struct rt_costs *costs, const struct tune_point *points, size_t count);

/* ---- prediction beside measurement (ringtree-tune-report.c) */

/* What was off: the median and the worst error of predictions, and how much slower the chosen way was than the best. */
struct tune_quality {
    size_t points, calls;
    double median_error, p90_error;  /* |predicted / measured - 1| */
    double worst_choice;             /* chosen / best - 1, measured both */
    size_t late_choices;             /* over 15 % slower than the best */
};
struct tune_quality tune_quality(const struct tune_point *points, size_t count);
void tune_print(const struct tune_point *points, size_t count, FILE *out);
void tune_print_json(const struct tune_point *points, size_t count, FILE *out);

#endif
