/*
 * What each name measures. Bandwidth factors are those of nccl-tests (doc/PERFORMANCE.md): busbw = algbw * factor is
 * what a link has to carry per rank, whatever the algorithm. `size` in the table is the whole array, `count` the
 * argument of the call; where each rank has a block, that is rounded down to 16 bytes, as there.
 */
#include "perf.h"

static ringtree_status start_all_reduce(const struct call *c, ringtree_request **request)
{
    return ringtree_all_reduce(c->comm, c->input, c->output, c->row.count, c->row.type, c->op, request);
}

static ringtree_status start_all_gather(const struct call *c, ringtree_request **request)
{
    return ringtree_all_gather(c->comm, c->input, c->output, c->row.count, c->row.type, request);
}

static ringtree_status start_reduce_scatter(const struct call *c, ringtree_request **request)
{
    return ringtree_reduce_scatter(c->comm, c->input, c->output, c->row.count, c->row.type, c->op, request);
}

static ringtree_status start_broadcast(const struct call *c, ringtree_request **request)
{
    return ringtree_broadcast(c->comm, c->input, c->output, c->row.count, c->row.type, c->row.root, request);
}

static ringtree_status start_reduce(const struct call *c, ringtree_request **request)
{
    return ringtree_reduce(c->comm, c->input, c->output, c->row.count, c->row.type, c->op, c->row.root, request);
}

static ringtree_status start_all_to_all(const struct call *c, ringtree_request **request)
{
    return ringtree_all_to_all(c->comm, c->input, c->output, c->row.count, c->row.type, request);
}

static ringtree_status start_gather(const struct call *c, ringtree_request **request)
{
    return ringtree_gather(c->comm, c->input, c->output, c->row.count, c->row.type, c->row.root, request);
}

static ringtree_status start_scatter(const struct call *c, ringtree_request **request)
{
    return ringtree_scatter(c->comm, c->input, c->output, c->row.count, c->row.type, c->row.root, request);
}

/* To the next rank, from the previous one, both at once. */
static ringtree_status start_send_recv(const struct call *c, ringtree_request **request)
{
    const uint32_t n = ringtree_size(c->comm), rank = ringtree_rank(c->comm);
    ringtree_status status = ringtree_group_begin(c->comm);
    if (status) return status;
    status = ringtree_send(c->comm, c->input, c->row.count, c->row.type, (rank + 1) % n, NULL);
    ringtree_status second = ringtree_recv(c->comm, c->output, c->row.count, c->row.type, (rank + n - 1) % n, NULL);
    ringtree_status last = ringtree_group_end(c->comm, request);
    return status ? status : second ? second : last;
}

static double factor_one(uint32_t n)
{
    (void)n;
    return 1;
}

static double factor_part(uint32_t n)
{
    return (double)(n - 1) / n;
}

static double factor_twice(uint32_t n)
{
    return 2 * factor_part(n);
}

#define NO  EXTENT_NONE
#define ONE EXTENT_ONE
#define ALL EXTENT_ALL
const struct collective collectives[] = {
    /* program, kind, call, reduces, rooted, in place, blocks, input at root, elsewhere, output at root, elsewhere */
    { "all_reduce_perf", RINGTREE_ALL_REDUCE, start_all_reduce, true, false, true, false, ONE, ONE, ONE, ONE,
      factor_twice },
    { "all_gather_perf", RINGTREE_ALL_GATHER, start_all_gather, false, false, true, true, ONE, ONE, ALL, ALL,
      factor_part },
    { "reduce_scatter_perf", RINGTREE_REDUCE_SCATTER, start_reduce_scatter, true, false, true, true, ALL, ALL, ONE,
      ONE, factor_part },
    { "broadcast_perf", RINGTREE_BROADCAST, start_broadcast, false, true, true, false, ONE, NO, ONE, ONE, factor_one },
    { "reduce_perf", RINGTREE_REDUCE, start_reduce, true, true, true, false, ONE, ONE, ONE, NO, factor_one },
    { "alltoall_perf", RINGTREE_ALL_TO_ALL, start_all_to_all, false, false, true, true, ALL, ALL, ALL, ALL,
      factor_part },
    { "gather_perf", RINGTREE_GATHER, start_gather, false, true, true, true, ONE, ONE, ALL, NO, factor_part },
    { "scatter_perf", RINGTREE_SCATTER, start_scatter, false, true, true, true, ALL, NO, ONE, ONE, factor_part },
    { "sendrecv_perf", RINGTREE_SEND_RECV, start_send_recv, false, false, false, false, ONE, ONE, ONE, ONE,
      factor_one },
};
const size_t collective_count = sizeof(collectives) / sizeof(*collectives);

size_t extent_of(enum extent extent, size_t count, uint32_t nranks)
{
    return extent == EXTENT_ALL ? count * nranks : extent == EXTENT_ONE ? count : 0;
}

size_t row_count(const struct options *options, size_t bytes, ringtree_type type, uint32_t nranks)
{
    const size_t size = ringtree_type_size(type), count = bytes / size;
    if (!options->collective->blocks) return count;
    return count / nranks / (16 / size) * (16 / size);
}

size_t row_bytes(const struct options *options, const struct row *row, uint32_t nranks)
{
    return row->count * ringtree_type_size(row->type) * (options->collective->blocks ? nranks : 1);
}

void block_source(const struct collective *collective, const struct row *row, uint32_t rank, uint32_t nranks,
                  uint32_t block, uint32_t *source, size_t *position)
{
    *source = block;
    *position = 0;
    switch (collective->kind) {
    case RINGTREE_BROADCAST: *source = row->root; break;
    case RINGTREE_SEND_RECV: *source = (rank + nranks - 1) % nranks; break;
    case RINGTREE_ALL_TO_ALL:
    case RINGTREE_REDUCE_SCATTER: *position = rank * row->count; break;
    case RINGTREE_SCATTER:
        *source = row->root;
        *position = rank * row->count;
        break;
    default: break;
    }
}
