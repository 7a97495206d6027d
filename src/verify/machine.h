/* The verifier's machine: all ranks' lanes, the messages between them, and what every piece of memory holds. */
#ifndef RT_MACHINE_H
#define RT_MACHINE_H

#include "value.h"

#define RT_UNTAKEN (-1)

/* A lane of a rank: it runs straight on, once per slice. Thread number = rank * lanes + lane. */
struct rt_thread {
    uint32_t       rank, lane, nsteps, scratch;
    uint32_t       slice, index; /* the step that is next */
    int32_t        time;         /* steps done that touched something */
    bool           loaded, queued, done;
    struct rt_step step;
    size_t         scratch_at; /* first cell */
};

/* A followed chunk of a message: part i of the span, from memory that is lent until the message is taken. */
struct rt_part {
    uint32_t i, value, access; /* access 0: nothing is lent */
};

struct rt_message {
    struct rt_message *next;
    uint32_t           span, stride, length_chunk, nparts, room;
    struct rt_part    *parts, one; /* parts == &one for a single one */
    int16_t           *clock;      /* of the sender, after sending; NULL without clocks */
};

struct rt_pipe { /* (from, to, lane) */
    uint64_t           key; /* + 1; 0: free */
    uint32_t           sender, receiver; /* threads */
    uint32_t           in_flight;
    struct rt_message *first, *last;
};

/* Somebody read memory, or may still: `time` is when thread `thread` was through with it. */
struct rt_access {
    uint32_t next, thread;
    int32_t  time;
};

struct rt_trace { /* of a cell */
    uint32_t accesses; /* since the last write */
    uint32_t writer;   /* thread, RT_NONE: nobody */
    int32_t  time;
};

struct rt_machine {
    const struct rt_algorithm      *algorithm;
    const struct rt_verify_options *options;
    struct rt_report               *report;
    uint32_t  n, lanes, chunks, slices, slots, max_span, root;
    uint32_t  full;    /* chunks that are not empty */
    bool      cuts;    /* array of chunks, not blocks */
    uint32_t *column;  /* per chunk: its place among the followed, or RT_NONE */
    uint32_t  columns;

    struct rt_thread *thread;
    uint32_t          threads, running;
    uint32_t         *queue; /* ring of threads that may be able to go on */
    uint32_t          queue_head, queue_length;

    size_t           *base; /* per rank: first cell */
    size_t            cells;
    uint32_t         *value; /* per cell */
    struct rt_trace  *trace; /* per cell; NULL without clocks */
    uint32_t         *untaken; /* per rank: messages sent and not taken */

    struct rt_pipe    *pipes;
    size_t             pipe_capacity, pipe_count;
    struct rt_message *free_messages;

    int16_t          *clock;    /* threads x threads */
    int16_t          *finished; /* threads x slices x threads: at the end of each slice; with more than one lane */
    int16_t         **free_clocks;
    uint32_t          free_clock_count, free_clock_capacity;
    struct rt_access *access;
    uint32_t          access_count, access_capacity, free_access;

    struct rt_values values;
};

/* Sets the report's verdict and sentence, once, and returns false. */
bool rt_reject(struct rt_machine *m, enum rt_verdict verdict, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- memory.c */

#define RT_CELL_NONE     SIZE_MAX       /* a chunk that is not followed */
#define RT_CELL_OUTSIDE  (SIZE_MAX - 1) /* no such memory */

/* Counts cells, sets m->base and the threads' scratch_at. */
bool rt_memory_measure(struct rt_machine *m);
size_t rt_cell(const struct rt_machine *m, const struct rt_thread *t, uint8_t buffer, uint32_t chunk);
/* As rt_cell() for OUTPUT of a rank in a slice. */
size_t rt_output_cell(const struct rt_machine *m, uint32_t rank, uint32_t chunk, uint32_t slice);
/* Cells of OUTPUT on this rank that must be delivered: chunks of it, 0: none. */
uint32_t rt_output_chunks(const struct rt_machine *m, uint32_t rank);

/* ---- clocks.c */

bool rt_clocks_open(struct rt_machine *m);
void rt_clocks_close(struct rt_machine *m);
int16_t *rt_clock_of(const struct rt_machine *m, uint32_t thread); /* NULL without clocks */
bool rt_clock_copy(struct rt_machine *m, uint32_t thread, int16_t **copy);
void rt_clock_take(struct rt_machine *m, uint32_t thread, int16_t *copy); /* merges and frees */
void rt_clock_slice_end(struct rt_machine *m, const struct rt_thread *t);
void rt_clock_wait(struct rt_machine *m, const struct rt_thread *t, uint32_t lane);
bool rt_cell_reads(struct rt_machine *m, const struct rt_thread *t, size_t cell);
bool rt_cell_writes(struct rt_machine *m, const struct rt_thread *t, size_t cell);
/* A new open access: the message to `receiver` lends the cell. 0 without clocks, or rejected for want of memory. */
uint32_t rt_cell_lend(struct rt_machine *m, size_t cell, uint32_t receiver);
/* The slice is over and all was taken: the thread's scratch is forgotten. */
void rt_cell_forget(struct rt_machine *m, size_t cell);

/* ---- pipes.c */

struct rt_pipe *rt_pipe_find(struct rt_machine *m, uint32_t from, uint32_t to, uint32_t lane);
struct rt_message *rt_message_new(struct rt_machine *m, uint32_t span);
void rt_message_free(struct rt_machine *m, struct rt_message *message);
void rt_pipes_close(struct rt_machine *m);

/* ---- fire.c */

/* The step in t->step, whose messages and slots are there. false: rejected. */
bool rt_fire(struct rt_machine *m, struct rt_thread *t);
bool rt_step_allowed(struct rt_machine *m, const struct rt_thread *t);
/* Part i of the step's message is empty, as its chunk is. */
bool rt_part_empty(const struct rt_machine *m, const struct rt_step *step, uint32_t i);

/* ---- run.c */

bool rt_run(struct rt_machine *m);
void rt_wake(struct rt_machine *m, uint32_t thread);

#endif
