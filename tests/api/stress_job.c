/* One call of a stress run: its memory, the call itself, and what must have come of it. See stress.h. */
#include "numbers.h"
#include "stress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64, GUARD_BYTE = 0xA5, SHIFTS = 17, APART = 1000003 /* elements between the blocks of all_to_all_v */ };

static const char *const kind_name[STRESS_KINDS] = {
    "all_reduce", "reduce",  "broadcast", "reduce_scatter", "all_gather",          "all_to_all",
    "gather",     "scatter", "barrier",   "send and recv in a group", "send and recv as requests", "all_to_all_v"
};

/* ---- memory */

static struct stress_buffer buffer_make(struct stress_rank *me, ringtree_comm *comm, size_t bytes)
{
    struct stress_buffer b = { .bytes = bytes };
    const size_t         shift = stress_draw(&me->own) % 3 ? 0 : stress_draw(&me->own) % SHIFTS;
    const size_t         all = bytes + (size_t)(2 * GUARD + SHIFTS);
    void                *memory;
    if (stress_draw(&me->own) % 2) {
        b.owner = comm;
        if (ringtree_mem_alloc(comm, all, &memory) != RINGTREE_OK)
            stress_die(me, "ringtree_mem_alloc", ringtree_last_error(comm));
    } else if (!(memory = malloc(all)))
        stress_die(me, "malloc", "no memory");
    b.base = memory;
    b.data = b.base + GUARD + shift;
    memset(b.base, GUARD_BYTE, all);
    return b;
}

static bool guards_hold(const struct stress_buffer *b)
{
    for (size_t i = 0; i < GUARD; i++)
        if (b->data[-1 - (ptrdiff_t)i] != GUARD_BYTE || b->data[b->bytes + i] != GUARD_BYTE) return false;
    return true;
}

static void buffer_free(struct stress_rank *me, struct stress_buffer *b)
{
    if (!b->base) return;
    if (!b->owner) free(b->base);
    else if (ringtree_mem_free(b->owner, b->base) != RINGTREE_OK)
        stress_die(me, "ringtree_mem_free", ringtree_last_error(b->owner));
    b->base = NULL;
}

/* ---- elements: a table of encoded values, walked so that neither neighbours nor blocks are alike */

static size_t place_of(uint64_t i)
{
    return (size_t)((i + i / STRESS_PERIOD * 7) % STRESS_PERIOD);
}

static void tables_fill(struct stress_job *job)
{
    const uint32_t n = job->on->size, first = (uint32_t)job->values / 2;
    const size_t   element = ringtree_type_size(job->type);
    for (uint32_t j = 0; j < STRESS_PERIOD; j++) {
        for (uint32_t r = 0; r < n; r++)
            number_store(job->given[r] + j * element, job->type, number_input(job->type, job->op, n, r, first + j));
        number_store(job->reduced + j * element, job->type, number_result(job->type, job->op, n, first + j));
    }
}

/* Elements first, first + 1 ... of rank r. */
static void fill(const struct stress_job *job, unsigned char *target, uint64_t first, size_t count)
{
    const size_t         element = ringtree_type_size(job->type);
    const unsigned char *table = job->given[job->on->rank];
    for (size_t i = 0; i < count; i++) memcpy(target + i * element, table + place_of(first + i) * element, element);
}

static void report(struct stress_rank *me, const struct stress_job *job, const char *what, size_t at)
{
    if (atomic_load(me->plan->wrong) >= 5) return;
    fprintf(stderr,
            "seed %llu, rank %u of %u (rank %u of %u): call #%u, %s of %zu %s, %s, root %u%s: %s %zu is wrong\n",
            (unsigned long long)me->plan->seed, me->self->rank, me->self->size, job->on->rank, job->on->size,
            job->number, kind_name[job->kind], job->count, ringtree_type_name(job->type), number_op_name(job->op),
            job->root, job->in_place ? ", in place" : "", what, at);
    atomic_fetch_add(me->plan->wrong, 1); /* said before it counts: the others end at once */
}

/* `count` elements from `at` on are those of the table from `first` on. */
static void expect(struct stress_rank *me, const struct stress_job *job, const unsigned char *table, size_t at,
                   uint64_t first, size_t count)
{
    const size_t element = ringtree_type_size(job->type);
    for (size_t i = 0; i < count; i++) {
        if (memcmp(job->output + (at + i) * element, table + place_of(first + i) * element, element) == 0) continue;
        report(me, job, "element", at + i);
        return;
    }
}

/* ---- the start of a job */

struct extent { /* in elements; in place, the smaller side begins `*_at` into the larger */
    size_t input, output, input_at, output_at;
};

static size_t block_count(const struct stress_job *job, uint32_t from, uint32_t to)
{
    const uint64_t random = stress_mix(job->values ^ (from * 977u + to));
    return random % 3 == 0 || job->count == 0 ? 0 : (size_t)(random / 3 % (job->count + 1));
}

/* Blocks of any length, some with a gap behind. */
static struct extent lay_blocks(struct stress_job *job)
{
    struct extent  e = { 0, 0, 0, 0 };
    const uint32_t me = job->on->rank;
    for (uint32_t r = 0; r < job->on->size; r++) {
        job->input_counts[r] = block_count(job, me, r);
        job->output_counts[r] = block_count(job, r, me);
        job->input_offsets[r] = e.input;
        job->output_offsets[r] = e.output;
        e.input += job->input_counts[r] + r % 2;
        e.output += job->output_counts[r] + r % 3;
    }
    return e;
}

static struct extent extent_of(struct stress_job *job)
{
    const size_t k = job->count, all = job->on->size * k;
    switch (job->kind) {
    case STRESS_REDUCE_SCATTER: return (struct extent){ all, k, 0, job->on->rank * k };
    case STRESS_ALL_GATHER:     return (struct extent){ k, all, job->on->rank * k, 0 };
    case STRESS_ALL_TO_ALL:     return (struct extent){ all, all, 0, 0 };
    case STRESS_GATHER:         return (struct extent){ k, all, job->root * k, 0 };
    case STRESS_SCATTER:        return (struct extent){ all, k, 0, job->root * k };
    case STRESS_BARRIER:        return (struct extent){ 0, 0, 0, 0 };
    case STRESS_ALL_TO_ALL_V:   return lay_blocks(job);
    default:                    return (struct extent){ k, k, 0, 0 };
    }
}

static bool is_at_root(const struct stress_job *job)
{
    return job->on->rank == job->root;
}

static bool runs_in_place(const struct stress_job *job)
{
    const bool only_root = job->kind == STRESS_REDUCE || job->kind == STRESS_GATHER || job->kind == STRESS_SCATTER;
    return job->asks_in_place && job->kind < STRESS_BARRIER && (!only_root || is_at_root(job));
}

static void buffers_make(struct stress_rank *me, struct stress_job *job, const struct extent *e)
{
    const size_t element = ringtree_type_size(job->type);
    job->in_place = runs_in_place(job);
    if (job->in_place) {
        job->in.base = NULL;
        job->out = buffer_make(me, job->on->comm, (e->input > e->output ? e->input : e->output) * element);
        job->input = job->out.data + e->input_at * element;
        job->output = job->out.data + e->output_at * element;
    } else {
        job->in = buffer_make(me, job->on->comm, e->input * element);
        job->out = buffer_make(me, job->on->comm, e->output * element);
        job->input = job->in.data;
        job->output = job->out.data;
    }
}

static void input_fill(struct stress_job *job, const struct extent *e)
{
    const size_t element = ringtree_type_size(job->type);
    if (job->kind != STRESS_ALL_TO_ALL_V) {
        fill(job, job->input, 0, e->input);
        return;
    }
    for (uint32_t r = 0; r < job->on->size; r++)
        fill(job, job->input + job->input_offsets[r] * element, (uint64_t)r * APART, job->input_counts[r]);
}

static ringtree_op op_make(struct stress_rank *me, struct stress_job *job)
{
    unsigned char scalar[8];
    const bool    reduces = job->kind <= STRESS_REDUCE || job->kind == STRESS_REDUCE_SCATTER;
    if (job->op != NUMBERS_PREMUL || !reduces) return (ringtree_op)job->op;
    number_store(scalar, job->type, number_scalar(job->type, job->on->rank));
    if (ringtree_op_premul_sum(job->on->comm, scalar, job->type, &job->premul) != RINGTREE_OK)
        stress_die(me, "ringtree_op_premul_sum", ringtree_last_error(job->on->comm));
    return job->premul;
}

static ringtree_status shift_as_group(struct stress_job *j, ringtree_request **request)
{
    ringtree_comm *const comm = j->on->comm;
    const uint32_t       n = j->on->size, me = j->on->rank;
    ringtree_status      status = ringtree_group_begin(comm);
    if (!status) status = ringtree_send(comm, j->input, j->count, j->type, (me + j->root) % n, NULL);
    if (!status) status = ringtree_recv(comm, j->output, j->count, j->type, (me + n - j->root) % n, NULL);
    return status ? status : ringtree_group_end(comm, request);
}

static ringtree_status shift_as_requests(struct stress_job *j, bool wait)
{
    ringtree_comm *const comm = j->on->comm;
    const uint32_t       n = j->on->size, me = j->on->rank;
    ringtree_status status = ringtree_send(comm, j->input, j->count, j->type, (me + j->root) % n, &j->request[0]);
    if (!status)
        status = ringtree_recv(comm, j->output, j->count, j->type, (me + n - j->root) % n, &j->request[1]);
    return status || !wait ? status : ringtree_wait_all(j->request, 2);
}

static ringtree_status call(struct stress_job *j, ringtree_op op, bool wait)
{
    ringtree_comm *const comm = j->on->comm;
    const void *const    in = j->input;
    void *const          out = j->output, *const root_out = is_at_root(j) ? out : NULL;
    const void *const    root_in = is_at_root(j) ? in : NULL;
    ringtree_request   **request = wait ? NULL : &j->request[0];
    switch (j->kind) {
    case STRESS_ALL_REDUCE:     return ringtree_all_reduce(comm, in, out, j->count, j->type, op, request);
    case STRESS_REDUCE:         return ringtree_reduce(comm, in, root_out, j->count, j->type, op, j->root, request);
    case STRESS_BROADCAST:      return ringtree_broadcast(comm, root_in, out, j->count, j->type, j->root, request);
    case STRESS_REDUCE_SCATTER: return ringtree_reduce_scatter(comm, in, out, j->count, j->type, op, request);
    case STRESS_ALL_GATHER:     return ringtree_all_gather(comm, in, out, j->count, j->type, request);
    case STRESS_ALL_TO_ALL:     return ringtree_all_to_all(comm, in, out, j->count, j->type, request);
    case STRESS_GATHER:         return ringtree_gather(comm, in, root_out, j->count, j->type, j->root, request);
    case STRESS_SCATTER:        return ringtree_scatter(comm, root_in, out, j->count, j->type, j->root, request);
    case STRESS_BARRIER:        return ringtree_barrier(comm, request);
    case STRESS_SHIFT_GROUP:    return shift_as_group(j, request);
    case STRESS_SHIFT_REQUESTS: return shift_as_requests(j, wait);
    default:
        return ringtree_all_to_all_v(comm, in, j->input_counts, j->input_offsets, out, j->output_counts,
                                     j->output_offsets, j->type, request);
    }
}

void stress_job_start(struct stress_rank *me, struct stress_job *job, bool wait)
{
    const struct extent e = extent_of(job);
    tables_fill(job);
    buffers_make(me, job, &e);
    input_fill(job, &e);
    if (call(job, op_make(me, job), wait) != RINGTREE_OK)
        stress_die(me, kind_name[job->kind], ringtree_last_error(job->on->comm));
}

/* ---- its end */

bool stress_job_test(struct stress_rank *me, struct stress_job *job)
{
    for (uint32_t i = 0; i < 2; i++) {
        const ringtree_status status = ringtree_test(&job->request[i]);
        if (status == RINGTREE_IN_PROGRESS) return false;
        if (status != RINGTREE_OK) stress_die(me, kind_name[job->kind], ringtree_last_error(job->on->comm));
    }
    return true;
}

/* Block r of the output is what rank r gave from element `first` on. */
static void expect_blocks(struct stress_rank *me, const struct stress_job *job, uint64_t first)
{
    for (uint32_t r = 0; r < job->on->size; r++)
        expect(me, job, job->given[r], r * job->count, first, job->count);
}

static void expect_v(struct stress_rank *me, const struct stress_job *job)
{
    for (uint32_t r = 0; r < job->on->size; r++)
        expect(me, job, job->given[r], job->output_offsets[r], (uint64_t)job->on->rank * APART, job->output_counts[r]);
}

static void check(struct stress_rank *me, const struct stress_job *job)
{
    const size_t   k = job->count;
    const uint32_t n = job->on->size, r = job->on->rank;
    switch (job->kind) {
    case STRESS_REDUCE:
        if (is_at_root(job)) expect(me, job, job->reduced, 0, 0, k);
        break;
    case STRESS_GATHER:
        if (is_at_root(job)) expect_blocks(me, job, 0);
        break;
    case STRESS_ALL_REDUCE:     expect(me, job, job->reduced, 0, 0, k); break;
    case STRESS_REDUCE_SCATTER: expect(me, job, job->reduced, 0, (uint64_t)r * k, k); break;
    case STRESS_BROADCAST:      expect(me, job, job->given[job->root], 0, 0, k); break;
    case STRESS_SCATTER:        expect(me, job, job->given[job->root], 0, (uint64_t)r * k, k); break;
    case STRESS_ALL_GATHER:     expect_blocks(me, job, 0); break;
    case STRESS_ALL_TO_ALL:     expect_blocks(me, job, (uint64_t)r * k); break;
    case STRESS_ALL_TO_ALL_V:   expect_v(me, job); break;
    case STRESS_BARRIER:        break;
    default:                    expect(me, job, job->given[(r + n - job->root) % n], 0, 0, k); break;
    }
}

void stress_job_finish(struct stress_rank *me, struct stress_job *job)
{
    check(me, job);
    if (!guards_hold(&job->out)) report(me, job, "a guard byte around the output,", 0);
    if (job->in.base && !guards_hold(&job->in)) report(me, job, "a guard byte around the input,", 0);
    if (job->premul && ringtree_op_free(job->on->comm, job->premul) != RINGTREE_OK)
        stress_die(me, "ringtree_op_free", ringtree_last_error(job->on->comm));
    buffer_free(me, &job->in);
    buffer_free(me, &job->out);
    job->live = false;
    if (atomic_load(me->plan->wrong))
        stress_die(me, kind_name[job->kind], "a result is wrong, here or on another rank");
}
