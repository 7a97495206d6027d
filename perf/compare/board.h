/*
 * A page that all ranks of one comparison share, whatever library they use: a barrier that belongs to none of the
 * libraries, a meter of the time that a cache line takes between two cores, and room for every rank's times.
 */
#ifndef COMPARE_BOARD_H
#define COMPARE_BOARD_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define BOARD_RANKS 64u
#define BOARD_SAMPLES 4096u

/* How a rank waits: cores to spare, more ranks than cores, or out of the way of those that are being measured. */
enum patience { PATIENCE_SPIN, PATIENCE_YIELD, PATIENCE_SLEEP };

struct board {
    alignas(64) _Atomic uint32_t arrived;
    alignas(64) _Atomic uint32_t epoch;
    alignas(64) _Atomic uint32_t line;    /* handed to and fro by the meter */
    alignas(64) _Atomic uint64_t number;  /* what rank 0 tells the others */
    _Atomic uint64_t             wrong;   /* elements that were wrong, over all ranks */
    double                       line_ns; /* what the meter found; 0: there are not two cores */
    alignas(64) double           samples[BOARD_RANKS][BOARD_SAMPLES];
};

/* One rank's place at the board. A rank is a thread; its affinity is the thread's. */
struct seat {
    struct board *board;
    uint32_t      rank, nranks, ncpus, cpus[2]; /* the first two processors that the process may use */
    enum patience patience;                     /* when it waits for the others */
};

/* Map the file at `path`, which has been sized by whoever made it. False: errno says why. */
bool board_open(struct seat *seat, const char *path, uint32_t rank, uint32_t nranks);

/* Where there is a core for every rank, rank r runs on the r-th that the process may use; else nobody is bound. */
void board_pin(const struct seat *seat);

/* Ends the program with a sentence where a rank stays away for BOARD_WAIT_S seconds. */
#define BOARD_WAIT_S 100
void board_barrier(struct seat *seat);

/* Everybody gets rank 0's number. */
uint64_t board_agree(struct seat *seat, uint64_t number);

/* One-way time of a cache line between ranks 0 and 1, on two cores while it lasts, the others asleep; in ns. */
double board_line_ns(struct seat *seat);

/* The samples [0, count) of every rank: afterwards rank 0's are the most over the ranks. */
void board_slowest(struct seat *seat, uint32_t count);

double now_us(void);

#endif
