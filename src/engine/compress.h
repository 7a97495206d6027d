/*
 * Collectives of float32 arrays that travel encoded between nodes: the sum by owner.
 *
 * Every rank owns a range of the tensor, cut into pieces that fit a slot when encoded. For each piece
 *
 *   up       ranks send their float32 values to their node's leader for that owner, which adds them in rank order,
 *            encodes the sum once and sends the codes to the owner. The owner leads its own node for its own pieces.
 *   own      the owner encodes its node's sum too (so that a result does not depend on who owns what), adds the
 *            decoded sums in the order of nodes, encodes the sum once, and decodes its own copy.
 *   results  the codes go unchanged to the leaders of the other nodes, which pass them on inside; everybody decodes
 *            the same bytes.
 *
 * So there are two roundings whatever the number of ranks. reduce_scatter ends with the float32 sum at the owner;
 * all_gather is the way from the owner on, so the two after each other are all_reduce, to the bit. In a broadcast the
 * owners are the ranks outside the root's node: the root sends each its range once, and they pass it on.
 *
 * All pieces of one pair of ranks on one lane go in the order of rounds, in which each owner has one piece: whoever
 * waits in round i waits for somebody in an earlier round, or (inside a node, where all take owners in the same order)
 * earlier in the same one; results are always taken. So nobody waits for ever, however few slots there are.
 *
 * Nobody is more than a few rounds ahead of the results: so all links carry as much both ways and end together.
 *
 * Each message begins with a struct rt_piece_head, and is looked at before it is used: a length, an owner or a code
 * that cannot be is RINGTREE_MISMATCH with the sender's name.
 */
#ifndef RT_COMPRESS_H
#define RT_COMPRESS_H

#include "codec/codec.h"
#include "codec/state.h"
#include "transports/transport.h"

struct rt_engine;
struct rt_operation;
struct rt_wire;

/* The last two encode anew at each hop: for comparison only. */
enum rt_compress_way { RT_BY_OWNER, RT_BY_RING, RT_BY_TREE };

/* Added to by every call. */
struct rt_compress_report {
    struct rt_codec_report codec;
    uint64_t               sent_bytes; /* of codes, by this rank */
};

/* What the caller asked for. */
struct rt_compression {
    struct rt_codec            codec;
    struct rt_codec_state     *state;  /* NULL: no feedback; borrowed until the operation is finished */
    struct rt_compress_report *report; /* may be NULL */
    float                      momentum; /* above 0: the state's momentum is used */
    bool                       apart;    /* every rank counts as a node of its own */
    bool                       reselect; /* topk: an owner sends the largest of its sum only */
    enum rt_compress_way                way;
    size_t                     in_flight; /* bytes that a link carries while one goes there and back */
};

enum rt_compress_lane { RT_TO_OWNER, RT_UP, RT_RESULT, RT_FORWARD, RT_COMPRESS_LANES };

/* Ranks by node. */
struct rt_squad {
    uint32_t  nodes;
    uint32_t *node_of, *local_of; /* per rank */
    uint32_t *size, *start;       /* per node: its ranks are members[start] on */
    uint32_t *members;            /* ranks, node by node */
    uint32_t *order; /* ranks by their number on their node, then by node: neighbours are on different nodes */
    uint32_t *memory;
};

struct rt_piece {
    uint32_t owner, index;
    uint64_t first; /* element of the whole array: of all blocks in reduce_scatter and all_gather */
    size_t   count;
};

struct rt_piece_head {
    uint32_t owner, index;
};

/* A loop that stops where something is missing, and goes on there. */
struct rt_cursor {
    uint64_t             round;
    uint32_t             turn, stage, at; /* at: which peer of the stage */
    uint32_t             local;           /* of the node's sum */
    size_t               length;          /* of the codes to be sent */
    const unsigned char *values;          /* of the piece, once they are complete */
    struct rt_wire      *blocked;         /* what it waits for */
    bool                 done;
};

/* The results of one owner at this rank. */
struct rt_result {
    uint32_t             got, at;
    const unsigned char *held; /* received and not yet passed on to all */
    size_t               length;
};

/* One per engine: collectives run one at a time. */
struct rt_compressor {
    struct rt_squad  squads[2]; /* [1]: every rank apart */
    struct rt_squad *squad;
    uint64_t        *begin, *end; /* per owner, elements */
    struct rt_cut   *cuts;        /* per owner */
    struct rt_result *results;    /* per owner */
    uint64_t         rounds, missing; /* missing: pieces of results */
    uint64_t         ahead; /* a round begins once all results of the one so many before it are there */
    size_t           piece; /* most elements of one */
    struct rt_topk_found found;  /* of a selection from the whole contribution */
    bool             begun, ready; /* ready: topk has selected */
    struct rt_cursor gather, up, own;
    unsigned char   *codes[2]; /* a slot each: of this rank's own sum, of a result */
    float           *sums[2];  /* a piece each: of the up and the own cursor */
    const unsigned char *prepared; /* topk: this rank's contribution, completed before the selection */
    float           *tensor;   /* topk without residual: the node's sum */
    size_t           tensor_count;
    uint32_t        *scratch, *sum_scratch; /* of the selection; of that from a sum */
    size_t           scratch_count, sum_scratch_count;
    uint64_t        *wishes; /* [nranks + 1][nranks + 1]: of each rank, then the ranges */
    uint32_t         wish_stage, wish_at;
};

/* Makes what all compressed calls need, and opens the links of this one. */
ringtree_status rt_compress_open(struct rt_engine *engine, const struct rt_compression *compression,
                                 ringtree_collective collective, uint32_t root, struct rt_error *error);
void rt_compress_close(struct rt_compressor *compressor);
/* OK: finished. */
ringtree_status rt_compress_advance(struct rt_engine *engine, struct rt_operation *operation, bool *moved,
                                    struct rt_error *error);
/* Calls `on` with each wire that the operation waits for, until it returns false. */
bool rt_compress_blocked(struct rt_engine *engine, const struct rt_operation *operation,
                         bool (*on)(struct rt_wire *wire, uint32_t peer, void *context), void *context);

/* ---- between the files compress*.c */

/* compress_layout.c */
bool rt_squads_make(const struct rt_engine *engine, struct rt_compressor *c); /* false: no memory */
uint32_t rt_leader(const struct rt_squad *squad, uint32_t node, uint32_t owner);
void rt_ranges_make(struct rt_engine *engine, const struct rt_operation *op);
void rt_rounds_count(struct rt_engine *engine, const struct rt_operation *op);
bool rt_piece_of(const struct rt_compressor *c, uint32_t owner, uint64_t index, struct rt_piece *piece);
uint32_t rt_pieces_of(const struct rt_compressor *c, uint32_t owner);
/* Who sends to whom on which lane. */
bool rt_lane_serves(const struct rt_squad *squad, const struct rt_compression *compression,
                    ringtree_collective collective, uint32_t root, uint32_t lane, uint32_t from, uint32_t to);
/* From whom this rank gets an owner's results, and on which lane. */
uint32_t rt_result_route(const struct rt_engine *engine, const struct rt_operation *op, uint32_t owner, uint32_t *from);

/* compress_piece.c */
uint32_t rt_compress_root(const struct rt_operation *op); /* RT_NONE: no broadcast. The frame may have a ratio there */
bool rt_has_up(const struct rt_operation *op);      /* is something summed? */
bool rt_has_results(const struct rt_operation *op); /* do all get the codes? */
unsigned char *rt_input_at(const struct rt_engine *engine, const struct rt_operation *op,
                           const struct rt_piece *piece);
unsigned char *rt_output_at(const struct rt_engine *engine, const struct rt_operation *op,
                            const struct rt_piece *piece);
/* The piece's first element in this rank's contribution. */
uint64_t rt_own_place(const struct rt_engine *engine, const struct rt_operation *op, const struct rt_piece *piece);
/* The sender's residual, or NULL. */
float *rt_residual_at(const struct rt_engine *engine, const struct rt_operation *op, const struct rt_piece *piece);
struct rt_part rt_part_of(const struct rt_engine *engine, const struct rt_operation *op, const struct rt_piece *piece,
                          bool owner);
/* Encodes a rank's own contribution; its momentum rests where it is sent. */
size_t rt_encode_own(struct rt_engine *engine, const struct rt_operation *op, const struct rt_piece *piece,
                     const unsigned char *values, unsigned char *bytes);
/* Decodes a result into the output. */
ringtree_status rt_piece_deliver(struct rt_engine *engine, const struct rt_operation *op, const struct rt_piece *piece,
                                 const void *bytes, size_t length, uint32_t from, struct rt_error *error);
/* What `from` sent cannot be: its sentence is in *error and gets who and which call. */
ringtree_status rt_bad_piece(struct rt_engine *engine, const struct rt_operation *op, uint32_t from,
                             struct rt_error *error);

/* compress_message.c: IN_PROGRESS sets *blocked */
ringtree_status rt_piece_room(struct rt_engine *engine, uint32_t lane, uint32_t to, unsigned char **codes,
                              struct rt_wire **blocked, struct rt_error *error);
/* Sends what was written into the room. */
ringtree_status rt_piece_post(struct rt_engine *engine, const struct rt_operation *op, uint32_t lane, uint32_t to,
                              const struct rt_piece *piece, unsigned char *codes, size_t length,
                              struct rt_error *error);
ringtree_status rt_piece_send(struct rt_engine *engine, const struct rt_operation *op, uint32_t lane, uint32_t to,
                              const struct rt_piece *piece, const void *bytes, size_t length,
                              struct rt_wire **blocked, struct rt_error *error);
/* The next message of that lane; its data stays until rt_piece_release(). */
ringtree_status rt_piece_take(struct rt_engine *engine, const struct rt_operation *op, uint32_t lane, uint32_t from,
                              struct rt_piece_head *head, const unsigned char **data, size_t *length,
                              struct rt_wire **blocked, struct rt_error *error);
/* As rt_piece_take(), and it must be this piece. */
ringtree_status rt_piece_expect(struct rt_engine *engine, const struct rt_operation *op, uint32_t lane, uint32_t from,
                                const struct rt_piece *piece, const unsigned char **data, size_t *length,
                                struct rt_wire **blocked, struct rt_error *error);
void rt_piece_release(struct rt_engine *engine, uint32_t lane, uint32_t from);

/* compress_up.c, compress_own.c, compress_result.c, compress_topk.c: each goes as far as it gets */
ringtree_status rt_values_fetch(struct rt_engine *engine, struct rt_operation *op, struct rt_cursor *cursor,
                                const struct rt_piece *piece, float *sum, struct rt_error *error);
ringtree_status rt_hops_add(struct rt_engine *engine, struct rt_operation *op, struct rt_cursor *cursor,
                            const struct rt_piece *piece, unsigned char *sum, struct rt_error *error);
ringtree_status rt_up_advance(struct rt_engine *engine, struct rt_operation *op, bool *moved, struct rt_error *error);
ringtree_status rt_own_advance(struct rt_engine *engine, struct rt_operation *op, bool *moved, struct rt_error *error);
ringtree_status rt_results_advance(struct rt_engine *engine, struct rt_operation *op, bool *moved,
                                   struct rt_error *error);
/* Passes codes on to the other ranks of this node. */
ringtree_status rt_node_spread(struct rt_engine *engine, const struct rt_operation *op, uint32_t lane, uint32_t *at,
                               const struct rt_piece *piece, const void *bytes, size_t length,
                               struct rt_wire **blocked, struct rt_error *error);
ringtree_status rt_topk_advance(struct rt_engine *engine, struct rt_operation *op, bool *moved, struct rt_error *error);
ringtree_status rt_topk_memory(struct rt_engine *engine, const struct rt_operation *op, struct rt_error *error);
bool rt_ranges_balanced(const struct rt_engine *engine, const struct rt_operation *op);

#endif
