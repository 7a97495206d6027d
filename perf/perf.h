/*
 * The benchmark: one program behind nine names. It uses the public header only.
 *
 *   main        options -> ranks -> exit status
 *   options     the command line
 *   start       ranks as processes and threads, or the launcher's
 *   collective  what each name measures: call, buffer sizes, bandwidth factors
 *   exact       inputs whose reductions are exact, and their results in closed form
 *   number      values to and from the bits of each type
 *   verify      fills buffers, compares every element and the bytes around
 *   measure     the timed loops
 *   compressed  rows with a codec
 *   link        ranks in network namespaces with limited links
 *   limits      memcpy and plain sockets at the same sizes
 *   table, json, csv   what is written
 */
#ifndef RT_PERF_H
#define RT_PERF_H

#include <ringtree/ringtree.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/* Exit status; 3 and 4 are nccl-tests' numbers for "the library failed" and "timeout". */
enum exit_status { EXIT_GOOD, EXIT_WRONG, EXIT_USAGE, EXIT_LIBRARY, EXIT_TIMEOUT };

/* ringtree's five built-in operations keep their numbers. */
#define OP_MULSUM ((uint32_t)5) /* each rank's own scalar times its input, summed: RINGTREE premul_sum */
#define OP_COUNT  6
#define OP_NONE   ((uint32_t)6)

enum fault { FAULT_NONE, FAULT_FLIP, FAULT_CANARY, FAULT_INPUT, FAULT_DIE, FAULT_MISMATCH };

struct options {
    const struct collective *collective;
    const char              *program; /* "all_reduce_perf" */
    size_t        min_bytes, max_bytes, step_bytes, step_factor; /* step_factor 0: step_bytes */
    uint32_t      iterations, warmup, aggregate, checks;
    ringtree_type types[RINGTREE_TYPE_COUNT];
    uint32_t      type_count;
    uint32_t      ops[OP_COUNT], op_count;
    uint32_t      root;
    bool          all_roots;
    uint32_t      average;   /* over ranks: 0 rank 0, 1 mean, 2 least, 3 most */
    uint32_t      blocking;  /* 0 back to back, 1 barrier after each, 2 through a request */
    uint32_t      unalign;   /* index of the first element */
    uint32_t      processes, threads, timeout_s;
    bool          processes_given, percentiles, dirty, shared_memory, limits;
    double        least_busbw;
    const char   *json_file, *csv_file, *algorithm, *transport;
    ringtree_codec codec;
    bool           coded; /* --codec was given */
    const char    *link;  /* --link-limit: a rate for tc */
    enum fault    fault;
    uint32_t      fault_rank;
    int           argc;
    char        **argv;
};

/* One line of the table. */
struct row {
    size_t        count; /* the argument of the call: per rank where the collective has blocks */
    ringtree_type type;
    uint32_t      op, root;
};

enum extent { EXTENT_NONE, EXTENT_ONE, EXTENT_ALL }; /* 0, count, nranks * count elements */

struct call {
    ringtree_comm *comm;
    const void    *input;
    void          *output;
    struct row     row;
    ringtree_op    op; /* ringtree's, made from row.op */
};

struct collective {
    const char         *program;
    ringtree_collective kind;
    ringtree_status   (*start)(const struct call *call, ringtree_request **request);
    bool                reduces, rooted, in_place;
    bool                blocks; /* -b and -e are the whole array, `count` one rank's part */
    enum extent         in_root, in_other, out_root, out_other;
    double            (*factor)(uint32_t nranks); /* busbw / algbw */
};

/* One rank. */
struct bench {
    const struct options *options;
    ringtree_comm        *comm;
    uint32_t              rank, nranks;
    unsigned char        *block[2]; /* memory of the input and of the output */
    size_t                capacity; /* bytes of user data in each */
    double               *times;    /* iterations: this rank's; then nranks * iterations: all ranks' */
    uint64_t              wrong, outside; /* in all rows, all ranks */
    uint64_t              own_wrong;      /* this rank's: its exit status does not rest on the others' report */
    bool                  said_wrong;
    struct sockets       *sockets;  /* limits.c */
    char                  words[512]; /* why, where it is not the library's sentence */
};

struct result {
    bool     measured;
    double   time_us, algbw, busbw; /* GB/s */
    uint64_t wrong, outside;        /* elements; bytes; over all ranks */
    double   min_us, p50_us, p99_us;
};

/* A row with --codec. */
struct coded {
    ringtree_codec_kind kind; /* that was taken */
    double exact_us, time_us, busbw, wire_bytes, max_error, rms_error, bound;
    bool   bounded, within;
};

struct limit {
    double memcpy_gbs, socket_gbs; /* 0: not measured */
};

/* ---- options.c: -1 go on, else the status to end with */
int  options_read(struct options *options, int argc, char **argv);
void options_help(const struct options *options, FILE *out);

/* ---- start.c */
int start_ranks(struct options *options);
/* One rank, from an open communicator to its exit status. main.c */
int run_rank(const struct options *options, ringtree_comm *comm);

/* ---- collective.c */
extern const struct collective collectives[];
extern const size_t            collective_count;
size_t extent_of(enum extent extent, size_t count, uint32_t nranks);
size_t row_count(const struct options *options, size_t bytes, ringtree_type type, uint32_t nranks);
/* Where block `block` of rank's output comes from: that rank's input, from that element. Reductions: all ranks'. */
void block_source(const struct collective *collective, const struct row *row, uint32_t rank, uint32_t nranks,
                  uint32_t block, uint32_t *source, size_t *position);

/* ---- number.c */
struct number { /* an exact value: integers modulo 2^64 in `whole`, floats in `real` */
    double   real;
    uint64_t whole;
};
extern const char *const type_names[RINGTREE_TYPE_COUNT]; /* nccl-tests' */
extern const char *const op_names[OP_COUNT + 1];
bool   type_is_float(ringtree_type type);
bool   type_is_signed(ringtree_type type);
bool   type_is_narrow(ringtree_type type);
double type_exact_most(ringtree_type type); /* all integers up to it are values of the type */
double type_least(ringtree_type type);      /* smallest positive float */
void   number_store(void *target, ringtree_type type, struct number value);
double number_load(const void *source, ringtree_type type);

/* ---- exact.c */
struct exact {
    ringtree_type type;
    uint32_t      op, nranks;
    uint32_t      levels, period; /* weight of rank r: x = (r + start) mod period, 0 from `levels` on */
    uint64_t      factor_most;    /* 0: any, integers wrap */
    uint64_t      unit;           /* AVG: inputs are multiples of it */
    int           scale_least;
    uint32_t      scales;
    bool          bounded; /* no exact inputs exist (float8 AVG on 9, 11, ... ranks): compare within `bound` */
};
void          exact_prepare(struct exact *exact, ringtree_type type, uint32_t op, uint32_t nranks);
struct number exact_input(const struct exact *exact, uint32_t rank, size_t position, uint32_t iteration);
struct number exact_result(const struct exact *exact, size_t position, uint32_t iteration);
double        exact_bound(const struct exact *exact, double result);
struct number exact_scalar(uint32_t rank); /* of mulsum */
/* Bits of an element that is only moved: any pattern, NaN included. */
uint64_t      moved_bits(uint32_t rank, size_t position, uint32_t iteration);

/* ---- verify.c */
#define GUARD 64 /* bytes before and after what a call may touch */
struct layout {
    unsigned char *input, *output;         /* as passed to the call */
    size_t         in_count, out_count;    /* elements */
    unsigned char *region[2];              /* one or two stretches of memory with guards around them */
    size_t         region_bytes[2];
    bool           in_place;
};
void     layout_make(struct layout *layout, const struct bench *bench, const struct row *row, bool in_place);
void     layout_fill(const struct layout *layout, const struct bench *bench, const struct row *row, uint32_t iteration);
/* Fills everything else around and under the output with bytes that are not the result. */
void     layout_poison(const struct layout *layout);
uint64_t layout_wrong(const struct layout *layout, struct bench *bench, const struct row *row, uint32_t iteration);
uint64_t layout_outside(const struct layout *layout);

/* ---- measure.c */
ringtree_status measure(struct bench *bench, const struct row *row, bool in_place, struct result *result);
/* Everyone's `bytes` in rank order. */
ringtree_status gather_all(struct bench *bench, const void *mine, void *all, size_t bytes);
ringtree_status fail(struct bench *bench, ringtree_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
double          now_us(void);

/* ---- compressed.c */
ringtree_status measure_codec(struct bench *bench, const struct row *row, struct coded *coded);
ringtree_status coded_explain(struct bench *bench); /* collective */
void            coded_columns(const struct bench *bench);
void            coded_row(const struct bench *bench, const struct row *row, const struct coded *coded);

/* ---- link.c: processes in namespaces of their own. `ready`: a pipe from the children to the parent */
bool link_leave_network(int ready);
bool link_join(const struct options *options, const pid_t *pids, int ready);
void link_settings(const struct options *options, uint32_t process);

/* ---- limits.c: collective; busbw is compared with bytes per rank and second of a copy, and of a ring of sockets */
ringtree_status limits_open(struct bench *bench);
ringtree_status limits_measure(struct bench *bench, size_t bytes, struct limit *limit);
void            limits_close(struct bench *bench);

/* ---- table.c, json.c, csv.c: rank 0 only */
struct rank_info {
    char     host[64], cpus[48];
    int32_t  pid;
    uint32_t local_rank, local_size;
};
void table_head(const struct bench *bench, const struct rank_info *ranks);
void table_columns(const struct options *options);
void table_row_begin(const struct bench *bench, const struct row *row);
void table_row_side(const struct options *options, const struct result *result);
void table_row_end(const struct options *options, const struct limit *limit, const struct result *sides);
void table_foot(const struct bench *bench, double busbw);
void table_progress(const struct options *options, const struct row *row, size_t bytes);
size_t row_bytes(const struct options *options, const struct row *row, uint32_t nranks);

struct report; /* an open JSON file */
bool json_available(void);
struct report *json_open(const struct options *options, char *why, size_t capacity);
void json_head(struct report *report, const struct bench *bench, const struct rank_info *ranks);
void json_row(struct report *report, const struct bench *bench, const struct row *row, const struct result sides[2]);
void json_coded(struct report *report, const struct bench *bench, const struct row *row, const struct coded *coded);
void json_error(struct report *report, const char *sentence);
/* Writes and frees; false: it could not be written. */
bool json_close(struct report *report, const struct bench *bench, double busbw);

FILE *csv_open(const struct options *options);
void  csv_coded(FILE *file, const struct bench *bench, const struct row *row, const struct coded *coded);
void  csv_row(FILE *file, const struct bench *bench, const struct row *row, const struct result sides[2]);

/* Visits NAME=value of each RINGTREE_ setting in the environment that is not the launcher's or secret. */
void each_setting(void (*visit)(void *context, const char *entry), void *context);

#endif
