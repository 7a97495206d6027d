/*
 * See cell.h. A rank's array repeats a table of PERIOD elements, rotated by one more each time round, so that no
 * misplaced piece of it looks right, and what is expected of a reduction is such a table too: a million elements are
 * filled and compared by memcpy and memcmp.
 */
#include "cell.h"

#include "numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PERIOD 251
#define GUARD  64
#define FILL   0xA5

const size_t cell_counts[CELL_COUNTS] = { 0, 1, 2, 3, 17, 1000, 65537, 1000003 };

static bool reduces(uint32_t collective)
{
    return collective == RINGTREE_ALL_REDUCE || collective == RINGTREE_REDUCE || collective == RINGTREE_REDUCE_SCATTER;
}

/* Reducing collectives come with every op, the others once. */
static uint64_t kinds(void)
{
    return 3 * NUMBERS_OPS + (RINGTREE_COLLECTIVE_COUNT - 3);
}

uint64_t cell_total(void)
{
    return kinds() * RINGTREE_TYPE_COUNT * CELL_COUNTS * 2;
}

static uint64_t scatter_bits(uint64_t x)
{
    x = (x ^ (x >> 31)) * 0x7fb5d329728ea185u;
    x = (x ^ (x >> 27)) * 0x81dadef4bc2dd44du;
    return x ^ (x >> 33);
}

struct cell cell_at(uint64_t number, uint32_t nranks)
{
    static const uint32_t reducing[3] = { RINGTREE_ALL_REDUCE, RINGTREE_REDUCE, RINGTREE_REDUCE_SCATTER };
    static const uint32_t moving[RINGTREE_COLLECTIVE_COUNT - 3] = {
        RINGTREE_BROADCAST, RINGTREE_ALL_GATHER, RINGTREE_ALL_TO_ALL, RINGTREE_GATHER,
        RINGTREE_SCATTER,   RINGTREE_BARRIER,    RINGTREE_SEND_RECV,  RINGTREE_ALL_TO_ALL_V
    };
    const uint64_t random = scatter_bits(number + 1);
    struct cell    cell = { .root = (uint32_t)(random % nranks) };
    uint32_t       kind = (uint32_t)(number % kinds());
    number /= kinds();
    cell.collective = kind < 3 * NUMBERS_OPS ? reducing[kind / NUMBERS_OPS] : moving[kind - 3 * NUMBERS_OPS];
    cell.op = kind < 3 * NUMBERS_OPS ? kind % NUMBERS_OPS : 0;
    cell.type = (uint32_t)(number % RINGTREE_TYPE_COUNT);
    number /= RINGTREE_TYPE_COUNT;
    cell.count = cell_counts[number % CELL_COUNTS];
    cell.in_place = number / CELL_COUNTS;
    cell.with_request = (random >> 20) % 3 == 0;
    cell.shared_memory = (random >> 24) % 4 == 0;
    cell.shift = (random >> 28) % 3 == 0 ? (uint32_t)((random >> 32) % 16) : 0;
    return cell;
}

void cell_text(const struct cell *cell, char *text, size_t capacity)
{
    snprintf(text, capacity, "%s of %zu %s%s%s, root %u, %s%s%s, %u bytes off",
             ringtree_collective_name((ringtree_collective)cell->collective), cell->count,
             ringtree_type_name((ringtree_type)cell->type), reduces(cell->collective) ? " " : "",
             reduces(cell->collective) ? number_op_name(cell->op) : "", cell->root,
             cell->in_place ? "in place" : "out of place", cell->with_request ? ", with a request" : "",
             cell->shared_memory ? ", ringtree memory" : "", cell->shift);
}

/* ---- tables */

struct table {
    unsigned char bytes[2 * PERIOD * 8]; /* twice, so that a rotation is one piece */
};

static struct table table_of(const struct cell *cell, uint32_t n, uint32_t r, bool result)
{
    const size_t size = ringtree_type_size((ringtree_type)cell->type);
    struct table table;
    for (uint32_t j = 0; j < PERIOD; j++) {
        struct number value = result ? number_result((ringtree_type)cell->type, cell->op, n, j)
                                     : number_input((ringtree_type)cell->type, cell->op, n, r, j);
        number_store(table.bytes + j * size, (ringtree_type)cell->type, value);
    }
    memcpy(table.bytes + PERIOD * size, table.bytes, PERIOD * size);
    return table;
}

/* The piece of the repeated table that begins at element `start`, and how many elements it has, at most `most`. */
static const unsigned char *piece(const struct table *table, size_t size, size_t start, size_t most, size_t *elements)
{
    const size_t turn = start / PERIOD, offset = start % PERIOD;
    *elements = PERIOD - offset < most ? PERIOD - offset : most;
    return table->bytes + (turn % PERIOD + offset) * size;
}

static void fill(unsigned char *target, const struct table *table, size_t size, size_t start, size_t count)
{
    for (size_t done = 0, part; done < count; done += part) {
        const unsigned char *source = piece(table, size, start + done, count - done, &part);
        memcpy(target + done * size, source, part * size);
    }
}

static bool close_enough(const unsigned char *got, const unsigned char *want, size_t count, size_t size,
                         ringtree_type type, double bound)
{
    for (size_t i = 0; i < count; i++) {
        double distance = number_load(got + i * size, type).f - number_load(want + i * size, type).f;
        if (!(fabs(distance) <= bound)) return false;
    }
    return true;
}

/* The first element at or after `start` that is wrong; SIZE_MAX: none. */
static size_t first_wrong(const unsigned char *got, const struct table *table, const struct cell *cell, size_t start,
                          size_t count, double bound)
{
    const size_t size = ringtree_type_size((ringtree_type)cell->type);
    for (size_t done = 0, part; done < count; done += part) {
        const unsigned char *want = piece(table, size, start + done, count - done, &part);
        if (memcmp(got + done * size, want, part * size) == 0) continue;
        if (bound > 0 && close_enough(got + done * size, want, part, size, (ringtree_type)cell->type, bound)) continue;
        for (size_t i = 0;; i++)
            if (memcmp(got + (done + i) * size, want + i * size, size) != 0) return done + i;
    }
    return SIZE_MAX;
}

/* ---- buffers */

struct buffer {
    unsigned char *base, *data;
    size_t         bytes;
    bool           from_ringtree;
};

static struct buffer buffer_new(struct rank *self, const struct cell *cell, size_t elements)
{
    struct buffer buffer = { .bytes = elements * ringtree_type_size((ringtree_type)cell->type) };
    const size_t  all = buffer.bytes + 2 * GUARD + 16;
    void         *memory = NULL;
    if (cell->shared_memory && ringtree_mem_alloc(self->comm, all, &memory) == RINGTREE_OK) buffer.from_ringtree = true;
    else memory = malloc(all);
    if (!memory) abort();
    buffer.base = memory;
    buffer.data = buffer.base + GUARD + cell->shift;
    memset(buffer.base, FILL, all);
    return buffer;
}

static void buffer_free(struct rank *self, struct buffer *buffer)
{
    if (buffer->from_ringtree) ringtree_mem_free(self->comm, buffer->base);
    else free(buffer->base);
}

static bool guards_whole(const struct buffer *buffer)
{
    unsigned char want[GUARD];
    memset(want, FILL, GUARD);
    return memcmp(buffer->data - GUARD, want, GUARD) == 0 && memcmp(buffer->data + buffer->bytes, want, GUARD) == 0;
}

/* The input and the output of a call: two buffers, or in place one, where the smaller is a part of the larger. */
struct pair {
    struct buffer  buffer[2];
    unsigned char *input, *output;
    size_t         in_bytes, out_bytes;
    bool           in_place;
};

/* ---- the call */

static size_t v_count(const struct cell *cell, uint32_t from, uint32_t to)
{
    return cell->count ? (from * 31 + to * 17 + 5) * 2654435761u % (cell->count + 1) : 0;
}

/* How many elements the buffers of this rank have; from, in v: per peer, one after another. */
static size_t elements_of(const struct cell *cell, uint32_t n, uint32_t rank, bool input)
{
    size_t sum = 0;
    switch (cell->collective) {
    case RINGTREE_BARRIER: return 0;
    case RINGTREE_REDUCE_SCATTER: return input ? n * cell->count : cell->count;
    case RINGTREE_ALL_GATHER: return input ? cell->count : n * cell->count;
    case RINGTREE_ALL_TO_ALL: return n * cell->count;
    case RINGTREE_GATHER: return input ? cell->count : rank == cell->root ? n * cell->count : 0;
    case RINGTREE_SCATTER: return !input ? cell->count : rank == cell->root ? n * cell->count : 0;
    case RINGTREE_ALL_TO_ALL_V:
        for (uint32_t i = 0; i < n; i++) sum += input ? v_count(cell, rank, i) : v_count(cell, i, rank);
        return sum;
    default: return cell->count;
    }
}

/* Where the smaller of input and output lies inside the larger when in place, in elements. */
static size_t in_place_offset(const struct cell *cell, uint32_t rank)
{
    const bool at_root = rank == cell->root;
    switch (cell->collective) {
    case RINGTREE_REDUCE_SCATTER:
    case RINGTREE_ALL_GATHER: return rank * cell->count;
    case RINGTREE_GATHER:
    case RINGTREE_SCATTER:    return at_root ? rank * cell->count : 0;
    default:                  return 0;
    }
}

static bool can_be_in_place(const struct cell *cell, uint32_t rank)
{
    switch (cell->collective) {
    case RINGTREE_ALL_TO_ALL_V:
    case RINGTREE_SEND_RECV:
    case RINGTREE_BARRIER: return false;
    case RINGTREE_GATHER:
    case RINGTREE_SCATTER:
    case RINGTREE_REDUCE: return rank == cell->root; /* elsewhere the input must stay */
    default:               return true;
    }
}

static void pair_new(struct rank *self, const struct cell *cell, struct pair *pair)
{
    const size_t size = ringtree_type_size((ringtree_type)cell->type);
    const size_t in = elements_of(cell, self->size, self->rank, true);
    const size_t out = elements_of(cell, self->size, self->rank, false);
    const size_t offset = in_place_offset(cell, self->rank) * size;
    *pair = (struct pair){ .in_bytes = in * size, .out_bytes = out * size,
                           .in_place = cell->in_place && can_be_in_place(cell, self->rank) };
    if (pair->in_place) {
        pair->buffer[0] = buffer_new(self, cell, in > out ? in : out);
        pair->buffer[1] = buffer_new(self, cell, 0);
        pair->input = pair->buffer[0].data + (in < out ? offset : 0);
        pair->output = pair->buffer[0].data + (out < in ? offset : 0);
    } else {
        pair->buffer[0] = buffer_new(self, cell, out);
        pair->buffer[1] = buffer_new(self, cell, in);
        pair->input = pair->buffer[1].data;
        pair->output = pair->buffer[0].data;
    }
}

static ringtree_status exchange(struct rank *self, const struct cell *cell, const void *input, void *output)
{
    const uint32_t n = self->size, next = (self->rank + 1) % n, prev = (self->rank + n - 1) % n;
    ringtree_request *request[2] = { NULL, NULL };
    ringtree_status   status;
    if (cell->with_request) {
        status = ringtree_recv(self->comm, output, cell->count, (ringtree_type)cell->type, prev, &request[0]);
        if (status) return status;
        status = ringtree_send(self->comm, input, cell->count, (ringtree_type)cell->type, next, &request[1]);
        ringtree_status waited = ringtree_wait_all(request, 2);
        return status ? status : waited;
    }
    if ((status = ringtree_group_begin(self->comm)) != RINGTREE_OK) return status;
    ringtree_send(self->comm, input, cell->count, (ringtree_type)cell->type, next, NULL);
    ringtree_recv(self->comm, output, cell->count, (ringtree_type)cell->type, prev, NULL);
    return ringtree_group_end(self->comm, NULL);
}

static ringtree_status all_to_all_v(struct rank *self, const struct cell *cell, const void *input, void *output,
                                    ringtree_request **request)
{
    size_t in_count[RANKS_MOST], in_offset[RANKS_MOST], out_count[RANKS_MOST], out_offset[RANKS_MOST];
    for (uint32_t i = 0; i < self->size; i++) {
        in_count[i] = v_count(cell, self->rank, i);
        out_count[i] = v_count(cell, i, self->rank);
        in_offset[i] = i ? in_offset[i - 1] + in_count[i - 1] : 0;
        out_offset[i] = i ? out_offset[i - 1] + out_count[i - 1] : 0;
    }
    return ringtree_all_to_all_v(self->comm, input, in_count, in_offset, output, out_count, out_offset,
                                 (ringtree_type)cell->type, request);
}

static ringtree_status start(struct rank *self, const struct cell *cell, ringtree_op op, const void *input,
                             void *output, ringtree_request **request)
{
    ringtree_comm      *comm = self->comm;
    const ringtree_type type = (ringtree_type)cell->type;
    const size_t        count = cell->count;
    const uint32_t      root = cell->root;
    switch (cell->collective) {
    case RINGTREE_ALL_REDUCE:     return ringtree_all_reduce(comm, input, output, count, type, op, request);
    case RINGTREE_REDUCE:         return ringtree_reduce(comm, input, output, count, type, op, root, request);
    case RINGTREE_REDUCE_SCATTER: return ringtree_reduce_scatter(comm, input, output, count, type, op, request);
    case RINGTREE_BROADCAST:      return ringtree_broadcast(comm, input, output, count, type, root, request);
    case RINGTREE_ALL_GATHER:     return ringtree_all_gather(comm, input, output, count, type, request);
    case RINGTREE_ALL_TO_ALL:     return ringtree_all_to_all(comm, input, output, count, type, request);
    case RINGTREE_ALL_TO_ALL_V:   return all_to_all_v(self, cell, input, output, request);
    case RINGTREE_GATHER:         return ringtree_gather(comm, input, output, count, type, root, request);
    case RINGTREE_SCATTER:        return ringtree_scatter(comm, input, output, count, type, root, request);
    case RINGTREE_BARRIER:        return ringtree_barrier(comm, request);
    default:                      return exchange(self, cell, input, output);
    }
}

static ringtree_status call(struct rank *self, const struct cell *cell, const void *input, void *output)
{
    ringtree_request *request = NULL;
    ringtree_op       op = cell->op;
    ringtree_status   status;
    if (cell->op == NUMBERS_PREMUL) {
        unsigned char scalar[8];
        number_store(scalar, (ringtree_type)cell->type, number_scalar((ringtree_type)cell->type, self->rank));
        status = ringtree_op_premul_sum(self->comm, scalar, (ringtree_type)cell->type, &op);
        if (status) return status;
    }
    status = start(self, cell, op, input, output, cell->with_request ? &request : NULL);
    if (!status && cell->with_request) {
        for (int i = 0; i < 3 && status != RINGTREE_INVALID_ARGUMENT; i++)
            if ((status = ringtree_test(&request)) != RINGTREE_IN_PROGRESS) break;
        if (status == RINGTREE_IN_PROGRESS) status = ringtree_wait(&request);
    }
    if (cell->op == NUMBERS_PREMUL) ringtree_op_free(self->comm, op);
    return status;
}

/* ---- the check */

/* Where the output is ignored it stays as it was. */
static size_t untouched(const unsigned char *output, const struct cell *cell)
{
    const size_t size = ringtree_type_size((ringtree_type)cell->type);
    for (size_t i = 0; i < cell->count * size; i++)
        if (output[i] != FILL) return i / size;
    return SIZE_MAX;
}

static size_t wrong_in_blocks(struct rank *self, const struct cell *cell, const unsigned char *output)
{
    const size_t size = ringtree_type_size((ringtree_type)cell->type);
    const bool   v = cell->collective == RINGTREE_ALL_TO_ALL_V;
    size_t       at = 0;
    for (uint32_t i = 0; i < self->size; i++) {
        const size_t       count = v ? v_count(cell, i, self->rank) : cell->count;
        const struct table table = table_of(cell, self->size, i, false);
        size_t             begin = 0;
        if (cell->collective == RINGTREE_ALL_TO_ALL) begin = self->rank * cell->count;
        for (uint32_t j = 0; v && j < self->rank; j++) begin += v_count(cell, i, j);
        size_t wrong = first_wrong(output + at * size, &table, cell, begin, count, 0);
        if (wrong != SIZE_MAX) return at + wrong;
        at += count;
    }
    return SIZE_MAX;
}

static size_t wrong_element(struct rank *self, const struct cell *cell, const unsigned char *output)
{
    const uint32_t n = self->size;
    struct table   table;
    double         bound = 0;
    size_t         begin = 0;
    switch (cell->collective) {
    case RINGTREE_BARRIER: return SIZE_MAX;
    case RINGTREE_ALL_REDUCE:
    case RINGTREE_REDUCE:
    case RINGTREE_REDUCE_SCATTER:
        if (cell->collective == RINGTREE_REDUCE && self->rank != cell->root) return untouched(output, cell);
        if (cell->collective == RINGTREE_REDUCE_SCATTER) begin = self->rank * cell->count;
        table = table_of(cell, n, 0, true);
        bound = number_bound((ringtree_type)cell->type, cell->op, n);
        break;
    case RINGTREE_BROADCAST: table = table_of(cell, n, cell->root, false); break;
    case RINGTREE_SCATTER:
        table = table_of(cell, n, cell->root, false);
        begin = self->rank * cell->count;
        break;
    case RINGTREE_SEND_RECV: table = table_of(cell, n, (self->rank + n - 1) % n, false); break;
    case RINGTREE_GATHER:
        if (self->rank != cell->root) return SIZE_MAX;
        return wrong_in_blocks(self, cell, output);
    default: return wrong_in_blocks(self, cell, output);
    }
    return first_wrong(output, &table, cell, begin, cell->count, bound);
}

static uint64_t hash_of(const unsigned char *bytes, size_t count)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a: a value equal on all ranks or not, no more */
    for (size_t i = 0; i < count; i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

/* Where a bound is allowed the ranks must still have the same bits. */
static bool ranks_agree(struct rank *self, const struct cell *cell, const unsigned char *output, size_t bytes)
{
    if (cell->collective != RINGTREE_ALL_REDUCE) return true;
    if (number_bound((ringtree_type)cell->type, cell->op, self->size) == 0) return true;
    atomic_store(&self->shared->note[self->rank], hash_of(output, bytes));
    ranks_meet(self);
    bool same = atomic_load(&self->shared->note[0]) == atomic_load(&self->shared->note[self->rank]);
    ranks_meet(self);
    return same;
}

static void spoil(const struct cell *cell, struct pair *pair)
{
    switch (cell->fault) {
    case CELL_FIRST_BIT: pair->output[0] ^= 1; break;
    case CELL_LAST_BIT:  pair->output[pair->out_bytes - 1] ^= 0x80; break;
    case CELL_BEFORE:    pair->buffer[0].data[-1] ^= 1; break;
    case CELL_AFTER:     pair->buffer[0].data[pair->buffer[0].bytes] ^= 1; break;
    case CELL_INPUT:     pair->input[pair->in_bytes / 2] ^= 1; break;
    default:             break;
    }
}

static enum cell_verdict check(struct rank *self, const struct cell *cell, const struct pair *pair, char *why,
                               size_t capacity)
{
    const size_t       size = ringtree_type_size((ringtree_type)cell->type);
    const struct table mine = table_of(cell, self->size, self->rank, false);
    const bool         agree = ranks_agree(self, cell, pair->output, pair->out_bytes);
    const size_t       wrong = wrong_element(self, cell, pair->output);
    if (wrong != SIZE_MAX) {
        struct number got = number_load(pair->output + wrong * size, (ringtree_type)cell->type);
        snprintf(why, capacity, "element %zu is wrong: got %g or %lld", wrong, got.f, (long long)got.i);
    } else if (!guards_whole(&pair->buffer[0]) || !guards_whole(&pair->buffer[1])) {
        snprintf(why, capacity, "memory beside a buffer was written");
    } else if (!pair->in_place && first_wrong(pair->input, &mine, cell, 0, pair->in_bytes / size, 0) != SIZE_MAX) {
        snprintf(why, capacity, "the input was changed");
    } else if (!agree) {
        snprintf(why, capacity, "rank 0 has other bits");
    } else {
        return CELL_RIGHT;
    }
    return CELL_WRONG;
}

enum cell_verdict cell_run(struct rank *self, const struct cell *cell, char *why, size_t capacity)
{
    const size_t       size = ringtree_type_size((ringtree_type)cell->type);
    const struct table mine = table_of(cell, self->size, self->rank, false);
    enum cell_verdict  verdict;
    struct pair        pair;
    pair_new(self, cell, &pair);
    fill(pair.input, &mine, size, 0, pair.in_bytes / size);
    ringtree_status status = call(self, cell, pair.input, pair.output);
    if (status == RINGTREE_OK) {
        spoil(cell, &pair);
        verdict = check(self, cell, &pair, why, capacity);
    } else {
        snprintf(why, capacity, "%s: %s", ringtree_status_name(status), ringtree_last_error(self->comm));
        verdict = status == RINGTREE_INVALID_SETTING ? CELL_REFUSED : CELL_BROKEN;
    }
    buffer_free(self, &pair.buffer[0]);
    buffer_free(self, &pair.buffer[1]);
    return verdict;
}
