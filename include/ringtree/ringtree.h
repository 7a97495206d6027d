/*
 * ringtree: collective communication between processes and threads ("ranks").
 *
 * The shortest program, started by `ringtree-run -n 4 ./program` (or torchrun, srun, mpirun):
 *
 *     ringtree_comm *comm;
 *     if (ringtree_init(&comm)) return puts(ringtree_last_error(NULL)), 1;
 *     if (ringtree_all_reduce(comm, in, out, count, RINGTREE_FLOAT32, RINGTREE_SUM, NULL))
 *         puts(ringtree_last_error(comm));
 *     ringtree_destroy(comm);
 *
 * Every function that can fail returns a ringtree_status; the sentence that explains it is in
 * ringtree_last_error(). The library prints nothing (but see RINGTREE_LOG), never exits, never aborts,
 * installs no signal handler, and waits no longer than the communicator's timeout.
 *
 * One thread at a time per communicator, except ringtree_abort() and ringtree_last_error(comm == NULL).
 * Different communicators are independent, but a blocking call on one moves no requests of another on: with requests on
 * several at once, wait for them in the same order on all ranks, or set RINGTREE_PROGRESS_THREAD=1. Threads of one
 * process may each be a rank. A child of fork() is refused its parent's communicators, and makes its own.
 *
 * Sources: definitions of the collectives follow MPI 4.0 chapters 3 and 6 and NCCL's user guide.
 */
#ifndef RINGTREE_H
#define RINGTREE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define RINGTREE_VERSION_MAJOR 0
#define RINGTREE_VERSION_MINOR 1
#define RINGTREE_VERSION_PATCH 0

/* ------------------------------------------------------------------ 1. status, types, operations */

typedef enum ringtree_status {
    RINGTREE_OK               = 0,
    RINGTREE_IN_PROGRESS      = 1,  /* only from ringtree_test(): not finished yet */
    RINGTREE_INVALID_ARGUMENT = 2,  /* the call had no effect; the communicator stays usable */
    RINGTREE_INVALID_SETTING  = 3,  /* a RINGTREE_* variable or file line is unknown or has a bad value */
    RINGTREE_MISMATCH         = 4,  /* ranks made different calls; the sentence names both */
    RINGTREE_TIMEOUT          = 5,  /* a peer did not answer in time; the sentence names it */
    RINGTREE_PEER_LOST        = 6,  /* a peer's process or connection is gone */
    RINGTREE_UNREACHABLE      = 7,  /* no address, no interface, port taken, connection refused */
    RINGTREE_REFUSED          = 8,  /* the secret, the world size or the rank number was not accepted */
    RINGTREE_NO_MEMORY        = 9,
    RINGTREE_SYSTEM           = 10, /* another operating system error; the sentence has errno in words */
    RINGTREE_UNSUPPORTED      = 11, /* not available in this build or on this machine */
    RINGTREE_ABORTED          = 12, /* ringtree_abort() was called here or on another rank */
    RINGTREE_INTERNAL         = 13  /* a bug in ringtree */
} ringtree_status;

typedef enum ringtree_type {
    RINGTREE_INT8        = 0,
    RINGTREE_UINT8       = 1,
    RINGTREE_INT32       = 2,
    RINGTREE_UINT32      = 3,
    RINGTREE_INT64       = 4,
    RINGTREE_UINT64      = 5,
    RINGTREE_FLOAT16     = 6,  /* IEEE 754 binary16 */
    RINGTREE_FLOAT32     = 7,
    RINGTREE_FLOAT64     = 8,
    RINGTREE_BFLOAT16    = 9,
    RINGTREE_FLOAT8_E4M3 = 10, /* OCP FP8 E4M3: no infinity, largest value 448; overflow becomes NaN */
    RINGTREE_FLOAT8_E5M2 = 11  /* OCP FP8 E5M2 */
} ringtree_type;
#define RINGTREE_TYPE_COUNT 12

/*
 * An operation. The five below are built in; others come from ringtree_op_premul_sum().
 *
 * Integers wrap around. A NaN in any rank's element gives NaN in sum, prod, min and max.
 * float16, bfloat16 and float8 values are widened to float32, combined there, and rounded once (to nearest
 * even) wherever values meet; where more than two meet (trees, shared memory) they are added in float32.
 * RINGTREE_AVG: float32, float64 and integers are added, then divided by the number of ranks (integers
 * truncate towards zero); the narrow floats are divided first, in float32, so that their sum cannot overflow.
 */
typedef uint32_t ringtree_op;
#define RINGTREE_SUM  ((ringtree_op)0)
#define RINGTREE_PROD ((ringtree_op)1)
#define RINGTREE_MAX  ((ringtree_op)2)
#define RINGTREE_MIN  ((ringtree_op)3)
#define RINGTREE_AVG  ((ringtree_op)4)

typedef struct ringtree_comm    ringtree_comm;    /* a communicator: this rank's handle on a group of ranks */
typedef struct ringtree_request ringtree_request; /* an operation that has been started and not waited for */

/* ------------------------------------------------------------------ 2. start and end */

/*
 * Join the communicator that the launcher describes in the environment, looked for in this order:
 * ringtree-run (RINGTREE_ID), RINGTREE_RANK and RINGTREE_SIZE with RINGTREE_ROOT, torchrun (RANK, WORLD_SIZE,
 * MASTER_ADDR, MASTER_PORT), Slurm (SLURM_PROCID, SLURM_NTASKS), Open MPI (OMPI_COMM_WORLD_RANK), MPICH's Hydra
 * (PMI_RANK). With none of them the communicator has one rank, this one.
 *
 * Collective: returns when all ranks have joined. The caller owns *comm and ends it with ringtree_destroy().
 * On a machine with several NUMA domains and several ranks the calling thread is bound to this rank's share of
 * them, for good, unless it is bound already or RINGTREE_BIND is 0.
 *
 * RINGTREE_INVALID_SETTING  the environment is contradictory, or a RINGTREE_ setting is wrong
 * RINGTREE_TIMEOUT          the root or some ranks did not come within RINGTREE_TIMEOUT_MS; they are named
 * RINGTREE_REFUSED          another secret, another world size, or a rank number already taken
 * RINGTREE_UNREACHABLE      the root's address cannot be reached, or its port is taken
 * The sentence is in ringtree_last_error(NULL); *comm is NULL.
 */
ringtree_status ringtree_init(ringtree_comm **comm);

/*
 * Leave. Waits, up to the communicator's timeout, until every rank has called it, so that nobody's last
 * operation is cut short. After a failure or ringtree_abort() it does not wait. NULL is accepted.
 * All requests must have been waited for; those that were not are cancelled. Memory from
 * ringtree_mem_alloc() is freed. The handle is invalid afterwards, whatever the status.
 *
 * RINGTREE_MISMATCH  the ranks made different calls that never met, as a broadcast from two roots
 * RINGTREE_TIMEOUT, RINGTREE_PEER_LOST  a rank never called it
 * or a failure of the communicator that no earlier call has returned.
 * The sentence is in ringtree_last_error(NULL).
 */
ringtree_status ringtree_destroy(ringtree_comm *comm);

/* This rank's number, 0 to size - 1. Fixed for the communicator's life. UINT32_MAX if `comm` is NULL. */
uint32_t ringtree_rank(const ringtree_comm *comm);

/* The number of ranks, at least 1. 0 if `comm` is NULL. */
uint32_t ringtree_size(const ringtree_comm *comm);

/*
 * The sentence that explains the last failed call on `comm`; with NULL, the last failed call of this thread
 * that had no communicator (ringtree_init and so on). Never NULL; "" when nothing failed. Owned by ringtree;
 * valid until the next call on `comm` (or, with NULL, by this thread).
 */
const char *ringtree_last_error(const ringtree_comm *comm);

/* "RINGTREE_TIMEOUT" and so on: a constant string, never NULL. */
const char *ringtree_status_name(ringtree_status status);

/* ------------------------------------------------------------------ 3. collectives
 *
 * Every rank of `comm` makes the same collective calls in the same order with the same count, type, op and root.
 * `input` may be in place (defined per call); otherwise buffers must not overlap. Pointers need no alignment.
 * `count` is in elements and may be 0 (then pointers may be NULL).
 *
 * With `request` NULL the call returns when this rank's result is ready and its buffers are its own again. A rank
 * that waits for nobody, as the root of a broadcast, may return before the others have called: only a barrier, or a
 * result that depends on all, tells that all have arrived.
 * Otherwise it returns at once, and the buffers stay borrowed until ringtree_wait() or ringtree_test() finishes
 * the request. Requests on one communicator run in the order in which they were started.
 *
 * All ranks get the same bits. The same plan on the same inputs gives the same bits again, whatever the timing. Plans
 * are the same in every run with the same settings, ranks, placement and kept measurement (RINGTREE_CALIBRATE); but
 * not with RINGTREE_REVIEW_EVERY, which lets the ranks change plans while they run, and every so many collectives
 * waits, even in a call with a request, until all ranks have made it.
 *
 * Each returns one of, with the sentence in ringtree_last_error(comm):
 * RINGTREE_INVALID_ARGUMENT  this call had no effect
 * RINGTREE_INVALID_SETTING   RINGTREE_ALGORITHM asks for what is impossible here; the possible ones are listed
 * RINGTREE_MISMATCH          another rank called something else; the sentence names both calls
 * RINGTREE_TIMEOUT           a peer did not answer within the communicator's timeout
 * RINGTREE_PEER_LOST         a peer's process or connection is gone
 * RINGTREE_ABORTED           ringtree_abort() was called
 * After any but the first two the communicator has failed: every later call but ringtree_destroy() returns the
 * same status and sentence; other ranks fail too, with the first failure that they learn of.
 */

/* output[i] = op over ranks of input[i]; `count` elements each. In place: input == output. */
ringtree_status ringtree_all_reduce(ringtree_comm *comm, const void *input, void *output, size_t count,
                                    ringtree_type type, ringtree_op op, ringtree_request **request);

/* As all_reduce, result only on `root`; `output` is ignored elsewhere and may be NULL there. */
ringtree_status ringtree_reduce(ringtree_comm *comm, const void *input, void *output, size_t count,
                                ringtree_type type, ringtree_op op, uint32_t root, ringtree_request **request);

/* The root's `input` arrives in every rank's `output`; `input` is ignored elsewhere. In place: input == output. */
ringtree_status ringtree_broadcast(ringtree_comm *comm, const void *input, void *output, size_t count,
                                   ringtree_type type, uint32_t root, ringtree_request **request);

/*
 * Rank r gets elements [r * count, (r + 1) * count) of the reduced array. `input` has size * count elements,
 * `output` count. In place: output == input + rank * count elements.
 */
ringtree_status ringtree_reduce_scatter(ringtree_comm *comm, const void *input, void *output, size_t count,
                                        ringtree_type type, ringtree_op op, ringtree_request **request);

/*
 * Rank r's `count` elements arrive at [r * count, (r + 1) * count) of every `output` (size * count elements).
 * In place: input == output + rank * count elements.
 */
ringtree_status ringtree_all_gather(ringtree_comm *comm, const void *input, void *output, size_t count,
                                    ringtree_type type, ringtree_request **request);

/* Block j (`count` elements) of rank i's `input` arrives as block i of rank j's `output`. In place: input == output. */
ringtree_status ringtree_all_to_all(ringtree_comm *comm, const void *input, void *output, size_t count,
                                    ringtree_type type, ringtree_request **request);

/*
 * As all_to_all with a count and an offset (in elements) per peer, `size` entries in each array; the arrays are
 * copied before the call returns. input_counts[j] here must equal output_counts[i] on rank j. Not in place.
 */
ringtree_status ringtree_all_to_all_v(ringtree_comm *comm, const void *input, const size_t *input_counts,
                                      const size_t *input_offsets, void *output, const size_t *output_counts,
                                      const size_t *output_offsets, ringtree_type type, ringtree_request **request);

/* Every rank's `count` elements arrive in the root's `output`, in rank order. In place at the root:
 * input == output + root * count elements. `output` is ignored elsewhere. */
ringtree_status ringtree_gather(ringtree_comm *comm, const void *input, void *output, size_t count,
                                ringtree_type type, uint32_t root, ringtree_request **request);

/* Block r (`count` elements) of the root's `input` arrives in rank r's `output`. In place at the root:
 * output == input + root * count elements. `input` is ignored elsewhere. */
ringtree_status ringtree_scatter(ringtree_comm *comm, const void *input, void *output, size_t count,
                                 ringtree_type type, uint32_t root, ringtree_request **request);

/* Returns (or the request finishes) only after every rank has called it. */
ringtree_status ringtree_barrier(ringtree_comm *comm, ringtree_request **request);

/*
 * Point to point: the k-th send to a peer meets the peer's k-th recv from here, with equal count and type.
 * A blocking send may return before the peer received (its data is buffered) or wait for it.
 * Sending to oneself needs a group or requests. Not counted in the order of collectives.
 */
ringtree_status ringtree_send(ringtree_comm *comm, const void *input, size_t count, ringtree_type type,
                              uint32_t peer, ringtree_request **request);
ringtree_status ringtree_recv(ringtree_comm *comm, void *output, size_t count, ringtree_type type,
                              uint32_t peer, ringtree_request **request);

/* ------------------------------------------------------------------ 4. requests and groups */

/*
 * Wait until *request is finished, free it and set it to NULL; the status is the operation's.
 * A NULL *request is finished already: RINGTREE_OK, so waiting twice does no harm.
 */
ringtree_status ringtree_wait(ringtree_request **request);

/* As ringtree_wait() but never waits: RINGTREE_IN_PROGRESS, and *request stays, while it is not finished. */
ringtree_status ringtree_test(ringtree_request **request);

/* Wait for all `count` requests; NULL entries are skipped. Returns the first status that is not OK; all are freed. */
ringtree_status ringtree_wait_all(ringtree_request **requests, size_t count);

/*
 * Between begin and end, calls on `comm` are only noted (their `request` must be NULL); group_end starts them all
 * as one operation: sends and receives among them progress together, so any pattern of them is free of deadlock,
 * and collectives run in the order noted. Buffers stay borrowed from the call on. Groups do not nest.
 * If any noted call had a bad argument it returned that at once and was left out.
 */
ringtree_status ringtree_group_begin(ringtree_comm *comm);
ringtree_status ringtree_group_end(ringtree_comm *comm, ringtree_request **request);

/* ------------------------------------------------------------------ 5. memory and communicators */

/*
 * `bytes` of zeroed memory, page aligned, that other ranks on this machine can read and write directly, so that
 * collectives on it need fewer copies. Local, not collective. Owned by `comm`: free it with ringtree_mem_free();
 * ringtree_destroy() frees what is left. Usable like any other memory, with any communicator. `bytes` may be 0.
 */
ringtree_status ringtree_mem_alloc(ringtree_comm *comm, size_t bytes, void **pointer);
ringtree_status ringtree_mem_free(ringtree_comm *comm, void *pointer);

/*
 * Ranks that give the same `color` form a new communicator, ordered by (key, rank). Collective over `comm`.
 * With RINGTREE_NO_COLOR a rank takes part in the call and gets *result NULL.
 * `result` is independent of `comm`: either may be destroyed first.
 */
#define RINGTREE_NO_COLOR UINT32_MAX
ringtree_status ringtree_split(ringtree_comm *comm, uint32_t color, uint32_t key, ringtree_comm **result);

/*
 * Fail every waiting and later call of `comm` on all ranks with RINGTREE_ABORTED and `reason` (may be NULL) in the
 * sentence. May be called from any thread and while another is waiting in `comm`. ringtree_destroy() is still owed.
 */
ringtree_status ringtree_abort(ringtree_comm *comm, const char *reason);

/* ------------------------------------------------------------------ 6. advanced */

/*
 * What the ranks of a new communicator need to find and trust each other: addresses of the process that made it
 * and a 128-bit secret. Make one with ringtree_id_create(), carry its bytes to all ranks by any private means
 * (MPI_Bcast, a file, a key-value store), give it to ringtree_init_id(). Plain bytes: copy them freely.
 */
typedef struct ringtree_id {
    unsigned char bytes[256];
} ringtree_id;

/*
 * Start a meeting point in this process, served by a thread of its own until the communicator is complete or
 * RINGTREE_TIMEOUT_MS has passed. One id makes one communicator.
 */
ringtree_status ringtree_id_create(ringtree_id *id);

/* Options of one communicator. Set by RINGTREE_OPTIONS_DEFAULT; a zero field takes its setting's value. */
typedef struct ringtree_options {
    size_t   size;       /* sizeof(ringtree_options) */
    uint32_t timeout_ms; /* RINGTREE_TIMEOUT_MS: longest wait for a peer, start included */
    uint32_t progress_thread; /* 1: a thread moves requests on while the caller computes; 0: RINGTREE_PROGRESS_THREAD */
} ringtree_options;
#define RINGTREE_OPTIONS_DEFAULT { sizeof(ringtree_options), 0, 0 }

/* As ringtree_init() but from an id. `options` may be NULL. */
ringtree_status ringtree_init_id(ringtree_comm **comm, const ringtree_id *id, uint32_t size, uint32_t rank,
                                 const ringtree_options *options);

/*
 * An operation of `comm`: every element is multiplied by this rank's *scalar (one element of `type`, copied) before
 * the sum; narrow floats multiply in float32. Valid for `type` only. Freed by ringtree_op_free() or with `comm`;
 * not while an operation uses it. At most 64 live per communicator.
 */
ringtree_status ringtree_op_premul_sum(ringtree_comm *comm, const void *scalar, ringtree_type type, ringtree_op *op);
ringtree_status ringtree_op_free(ringtree_comm *comm, ringtree_op op);

/* The kinds of call, for ringtree_plan_explain() and ringtree_collective_name(). */
typedef enum ringtree_collective {
    RINGTREE_ALL_REDUCE     = 0,
    RINGTREE_REDUCE         = 1,
    RINGTREE_BROADCAST      = 2,
    RINGTREE_REDUCE_SCATTER = 3,
    RINGTREE_ALL_GATHER     = 4,
    RINGTREE_ALL_TO_ALL     = 5,
    RINGTREE_GATHER         = 6,
    RINGTREE_SCATTER        = 7,
    RINGTREE_BARRIER        = 8,
    RINGTREE_SEND_RECV      = 9,
    RINGTREE_ALL_TO_ALL_V   = 10
} ringtree_collective;
#define RINGTREE_COLLECTIVE_COUNT 11

/*
 * Write into `text` (at most `capacity` bytes, terminated) which algorithm, transports, lanes and slice size `comm`
 * would use for this call and why, and the valid alternatives. Local. The text is for people and may change.
 */
ringtree_status ringtree_plan_explain(ringtree_comm *comm, ringtree_collective collective, size_t count,
                                      ringtree_type type, ringtree_op op, char *text, size_t capacity);

/* One way in which a call could go, as the planner sees it. Texts are constant or live as long as the communicator. */
typedef struct ringtree_way {
    const char *name;     /* "ring": what RINGTREE_ALGORITHM takes; "shared": the direct paths of shared memory */
    const char *refusal;  /* NULL: possible here; else why not, and it is never chosen */
    const char *dominant; /* what most of its time is: "latency", "the busiest rank", "cores", "the wire" */
    double      seconds;  /* predicted */
    double      rounds;   /* messages one after another */
    double      bytes;    /* through the busiest rank, one way */
    size_t      slice_bytes; /* most that is handed to a transport at once */
    uint32_t    lanes;    /* parts that move beside each other */
    uint32_t    chosen;   /* 1: this call would go this way */
    const char *transport; /* what carries it from this rank: "shm", "tcp", "shm and tcp"; "" where it is refused */
    uint32_t    connections; /* of each lane between two nodes, over which long slices are spread */
} ringtree_way;
#define RINGTREE_MOST_WAYS 16

/*
 * The same as data: fills ways[0 .. *number), at most `capacity` (RINGTREE_MOST_WAYS holds all), for an array of
 * `count` elements as the call takes it. Local. send, recv and all_to_all_v have no ways: *number is 0.
 */
ringtree_status ringtree_plan_ways(ringtree_comm *comm, ringtree_collective collective, size_t count,
                                   ringtree_type type, ringtree_way *ways, size_t capacity, size_t *number);

/*
 * A program's own choice: the index of the way to go, for a call of `bytes` (count times the type's size).
 * ways[predicted] is the planner's. Called inside a collective call of `comm`, by the calling thread, when a plan is
 * made; the answer may be kept for later calls of that collective and size until ringtree_set_tuner() is called
 * again. It must not call ringtree.
 */
typedef uint32_t (*ringtree_tuner)(void *context, ringtree_collective collective, size_t bytes,
                                   const ringtree_way *ways, uint32_t number, uint32_t predicted);

/*
 * From now on `tuner` chooses for `comm`; NULL: the planner does again. Every rank must set one that gives the same
 * answers: where they differ the calls fail with RINGTREE_MISMATCH. An answer that is no way, or a refused one, is
 * RINGTREE_INVALID_ARGUMENT of that collective call, which then has no effect. RINGTREE_ALGORITHM goes before the
 * tuner. Local; between collective calls, at the same place in the order of calls on all ranks.
 */
ringtree_status ringtree_set_tuner(ringtree_comm *comm, ringtree_tuner tuner, void *context);

/* Bytes of one element; 0 for a value that is no type. */
size_t ringtree_type_size(ringtree_type type);

/* "float32" and so on; "?" for a value that is no type. */
const char *ringtree_type_name(ringtree_type type);

/* "all_reduce" and so on; "?" for a value that is no collective. */
const char *ringtree_collective_name(ringtree_collective collective);

/* This rank's number among, and the number of, the ranks of `comm` that share this machine's memory. */
uint32_t ringtree_local_rank(const ringtree_comm *comm);
uint32_t ringtree_local_size(const ringtree_comm *comm);

/* "0.1.0": of the library at run time. */
const char *ringtree_version(void);

/* ------------------------------------------------------------------ 7. compression
 *
 * The array travels between nodes in fewer bytes, with a stated error; inside a node its sum is exact.
 * docs/compression.md has the contract, the bounds and the bytes.
 *
 *     ringtree_codec codec = RINGTREE_CODEC_DEFAULT;
 *     codec.kind = RINGTREE_CODEC_Q8;
 *     ringtree_all_reduce_compressed(comm, in, out, count, RINGTREE_FLOAT32, RINGTREE_SUM, &codec, NULL, NULL);
 *
 * Each rank's values are rounded once on their way to the rank that adds them, in float32 and in a fixed order, and the
 * sum is rounded once: two roundings, however many ranks there are. For q8 an element of the sum is off by at most
 * (the sum over ranks of the largest magnitude of its block + that of the summed block) / 254.
 * All ranks get the same bits. NaN and infinity arrive where they would without a codec.
 *
 * Where all ranks share memory, or links are faster than RINGTREE_COMPRESS_BELOW, or the tensor has fewer than 1,024
 * elements or one dimension, the call is the exact one and as fast as it.
 */

typedef enum ringtree_codec_kind {
    RINGTREE_CODEC_NONE = 0, /* float32 as it is */
    RINGTREE_CODEC_BF16 = 1, /* half the bytes; rounded to nearest even, added in float32 */
    RINGTREE_CODEC_FP16 = 2,
    RINGTREE_CODEC_Q8   = 3, /* a quarter: int8 with a scale per block */
    RINGTREE_CODEC_Q4   = 4, /* an eighth; wants feedback */
    RINGTREE_CODEC_TOPK = 5, /* the largest elements only; wants feedback */
    RINGTREE_CODEC_AUTO = 6  /* what is fastest of those allowed, or none; see ringtree_codec_explain() */
} ringtree_codec_kind;

#define RINGTREE_CODEC_STOCHASTIC  1u  /* q8, q4: rounded at random so that the mean is right; else to nearest */
#define RINGTREE_CODEC_INT8_VALUES 2u  /* topk sends int8 values instead of float32 */
#define RINGTREE_CODEC_FEEDBACK    4u  /* what was not sent is kept in the state and sent later */
#define RINGTREE_CODEC_RESELECT    8u  /* topk: sums are cut to `ratio` too, so that volume does not grow with ranks;
                                          with feedback only */
#define RINGTREE_CODEC_FORCE       16u /* compress wherever ranks are, each as if on a node of its own: for tests */
#define RINGTREE_CODEC_SMALL       32u /* compress small and one-dimensional tensors too */
#define RINGTREE_CODEC_BY_RING     64u /* for comparison only: encoded anew at each hop, the error grows with ranks */
#define RINGTREE_CODEC_BY_TREE     128u

/* Equal on all ranks. Begin with RINGTREE_CODEC_DEFAULT. Copied by each call. */
typedef struct ringtree_codec {
    size_t              size; /* sizeof(ringtree_codec) */
    ringtree_codec_kind kind;
    uint32_t            flags;      /* RINGTREE_CODEC_... */
    uint32_t            block;      /* elements that share a scale: a power of two, 32 to 4096; 0: 256. topk: 0 */
    float               ratio;      /* topk: the share of elements to send, 0.001 to 0.25; 0: 0.01 */
    float               momentum;   /* above 0: momentum correction with this factor; see ringtree_clip() */
    uint32_t            dimensions; /* of the tensor: 1 (biases, norms) stays exact; 0: not said */
    uint32_t            allowed;    /* auto: bits 1u << kind; 0: bf16 and q8 */
} ringtree_codec;
#define RINGTREE_CODEC_DEFAULT { sizeof(ringtree_codec), RINGTREE_CODEC_NONE, 0, 0, 0, 0, 0, 0 }

/*
 * What one tensor keeps from call to call on one rank: what was not sent yet, momentum, the step that seeds stochastic
 * rounding, and counts. Needed for feedback and momentum, else optional (NULL).
 */
typedef struct ringtree_codec_state ringtree_codec_state;

/*
 * Zeroed, for `count` elements: those of the array that this rank gives (all blocks in reduce_scatter, one in
 * all_gather). Keeps what `codec` needs: its flags and momentum count, not its kind. Owned by the caller, who ends it
 * with ringtree_codec_state_free(). It belongs to a call from its start until its request is finished: another call
 * with it, or saving, loading or resetting it, is RINGTREE_INVALID_ARGUMENT until then. Freed meanwhile, it lasts until
 * the call is over.
 * RINGTREE_INVALID_ARGUMENT or RINGTREE_NO_MEMORY; the sentence is in ringtree_last_error(NULL).
 */
ringtree_status ringtree_codec_state_create(ringtree_codec_state **state, size_t count, const ringtree_codec *codec);
void ringtree_codec_state_free(ringtree_codec_state *state); /* NULL is accepted */

/* As just created. RINGTREE_INVALID_ARGUMENT: a call has it, or it is no state; see ringtree_last_error(NULL). */
ringtree_status ringtree_codec_state_reset(ringtree_codec_state *state);

/*
 * To bytes and back, for checkpoints: a run that loads what was saved goes on to the bit. Save needs
 * ringtree_codec_state_bytes() of room. Load takes bytes of a state made for the same count and codec, and checks
 * version, shape and a hash; after RINGTREE_INVALID_ARGUMENT (ringtree_last_error(NULL)) the state is as before.
 * After a failed collective wait for its request, then load the state that was saved before it, or reset it.
 */
size_t ringtree_codec_state_bytes(const ringtree_codec_state *state);
ringtree_status ringtree_codec_state_save(ringtree_codec_state *state, void *bytes, size_t capacity);
ringtree_status ringtree_codec_state_load(ringtree_codec_state *state, const void *bytes, size_t length);

/* What the calls with this state came across, on this rank. */
typedef struct ringtree_codec_report {
    size_t              size;             /* sizeof(ringtree_codec_report) */
    uint64_t            calls;            /* since the state was created or reset */
    uint64_t            nonfinite_blocks; /* encoded here with NaN or infinity: they travel as they are */
    uint64_t            kept;             /* topk: elements that were sent as value and place */
    uint64_t            sent_bytes;       /* of codes, to other nodes */
    ringtree_codec_kind last_kind;        /* of the last call: none where it was exact */
} ringtree_codec_report;

/* Fills *report, whose size is set. `state` NULL: all zero. */
ringtree_status ringtree_codec_state_report(const ringtree_codec_state *state, ringtree_codec_report *report);

/*
 * As the calls without _compressed, for `type` RINGTREE_FLOAT32 and `op` RINGTREE_SUM or RINGTREE_AVG, with a codec.
 * `state` may be NULL without feedback and momentum. reduce_scatter and then all_gather gives the bits of all_reduce
 * if `count` is a multiple of the block (4,096 for topk) and rounding is to nearest.
 *
 * RINGTREE_INVALID_ARGUMENT  also for a codec or a state that cannot be; nothing was sent
 * RINGTREE_UNSUPPORTED       another type or op
 * RINGTREE_MISMATCH          also for another codec on another rank, and for bytes that no codec writes
 */
ringtree_status ringtree_all_reduce_compressed(ringtree_comm *comm, const void *input, void *output, size_t count,
                                               ringtree_type type, ringtree_op op, const ringtree_codec *codec,
                                               ringtree_codec_state *state, ringtree_request **request);
ringtree_status ringtree_reduce_scatter_compressed(ringtree_comm *comm, const void *input, void *output, size_t count,
                                                   ringtree_type type, ringtree_op op, const ringtree_codec *codec,
                                                   ringtree_codec_state *state, ringtree_request **request);
ringtree_status ringtree_all_gather_compressed(ringtree_comm *comm, const void *input, void *output, size_t count,
                                               ringtree_type type, const ringtree_codec *codec,
                                               ringtree_codec_state *state, ringtree_request **request);
ringtree_status ringtree_broadcast_compressed(ringtree_comm *comm, const void *input, void *output, size_t count,
                                              ringtree_type type, uint32_t root, const ringtree_codec *codec,
                                              ringtree_codec_state *state, ringtree_request **request);

/*
 * How far one rounding moves an element at most in a block whose largest magnitude is `peak`; topk: if it is sent. A
 * sum is off by at most the sum of this over the ranks' (with nodes: the nodes' sums') peaks, and this for the peak of
 * the sum. 0 for a codec that cannot be.
 */
double ringtree_codec_bound(const ringtree_codec *codec, double peak);

/* "q8" and so on; "?" for a value that is no kind. */
const char *ringtree_codec_name(ringtree_codec_kind kind);

/*
 * A codec from words with commas between, as options and files have it: its name ("q8", "topk:0.02", "auto"), after
 * auto the kinds that it may take ("auto,q8,topk,feedback"), and the flags stochastic, int8, feedback, reselect,
 * force, small, ring and tree (the last two with force); the rest is 0.
 * RINGTREE_INVALID_ARGUMENT: no such word, or no such codec (ringtree_last_error(NULL)); *codec is then as it was.
 */
ringtree_status ringtree_codec_parse(ringtree_codec *codec, const char *text);

/*
 * Write into `text` whether a call with this codec would compress, with what, and why: for auto the predicted time of
 * each kind. Collective with RINGTREE_CODEC_AUTO (the first call measures, some ms), else local.
 * ringtree_plan_explain() of float32 ends with this for RINGTREE_CODEC_AUTO.
 */
ringtree_status ringtree_codec_explain(ringtree_comm *comm, ringtree_collective collective, size_t count,
                                       const ringtree_codec *codec, char *text, size_t capacity);

/*
 * Momentum correction for topk (Lin et al., Deep Gradient Compression). With codec.momentum = m the state keeps the
 * momentum of this rank's own gradient g: u = m u + g, v += u, and of v the largest are sent; where they were sent u
 * and v become 0. The optimiser takes the result as its step, without momentum of its own. Two more parts are here:
 *
 * ringtree_clip() scales `gradient` down so that its norm is at most limit / sqrt(ranks), before the call, and
 * returns the norm that it had. ringtree_warm_ratio() is a ratio for step `step`: 0.25 in step 0, falling by
 * equal factors to `ratio` in step `steps`.
 */
double ringtree_clip(float *gradient, size_t count, double limit, uint32_t ranks);
float ringtree_warm_ratio(uint64_t step, uint64_t steps, float ratio);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
