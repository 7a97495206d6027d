/* Sets the machine up, runs it, and compares what was delivered with what the collective promises. */
#include "machine.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_STEPS      UINT64_C(200000000)
#define MOST_CELL_BYTES (UINT64_C(1) << 30)

const char *rt_verdict_name(enum rt_verdict verdict)
{
    static const char *const names[RT_VERDICT_COUNT] = {
        "ok", "refused", "shape", "deadlock", "leftover", "mismatch", "unwritten", "coverage", "final", "expression",
        "hazard", "too_large", "no_memory",
    };
    return (unsigned)verdict < RT_VERDICT_COUNT ? names[verdict] : "?";
}

bool rt_reject(struct rt_machine *m, enum rt_verdict verdict, const char *format, ...)
{
    if (m->report->verdict != RT_VERDICT_OK) return false;
    m->report->verdict = verdict;
    va_list args;
    va_start(args, format);
    vsnprintf(m->report->text, sizeof m->report->text, format, args);
    va_end(args);
    return false;
}

static bool no_memory(struct rt_machine *m)
{
    return rt_reject(m, RT_VERDICT_NO_MEMORY, "no memory to verify %u ranks", m->n);
}

/* ---- set up */

static struct rt_shape shape_of(const struct rt_machine *m, uint32_t rank, uint32_t lane)
{
    return (struct rt_shape){ .nranks = m->n, .rank = rank, .root = m->root, .lane = lane,
                              .layout = m->options->layout };
}

/* The numbers that all ranks must agree on. */
static bool ask_counts(struct rt_machine *m)
{
    const struct rt_algorithm *a = m->algorithm;
    for (uint32_t r = 0; r < m->n; r++) {
        const struct rt_shape shape = shape_of(m, r, 0);
        const char *refusal = a->refuses ? a->refuses(&shape) : NULL;
        if (refusal) return rt_reject(m, RT_VERDICT_REFUSED, "%s", refusal);
        const uint32_t lanes = a->lanes(&shape), chunks = a->chunks(&shape);
        const uint32_t span = a->max_span ? a->max_span(&shape) : 1;
        if (r == 0) m->lanes = lanes, m->chunks = chunks, m->max_span = span;
        if (lanes < 1 || lanes > RT_MAX_LANES || chunks < 1 || lanes != m->lanes || chunks != m->chunks ||
            span != m->max_span)
            return rt_reject(m, RT_VERDICT_SHAPE, "rank %u has other lanes, chunks or max_span than rank 0", r);
    }
    if (!m->cuts && m->chunks != m->n) return rt_reject(m, RT_VERDICT_SHAPE, "%u chunks, not one per rank", m->chunks);
    m->threads = m->n * m->lanes;
    m->full = m->cuts && m->options->full_chunks ? m->options->full_chunks : m->chunks;
    return true;
}

static bool ask_steps(struct rt_machine *m)
{
    const uint64_t most = m->options->most_steps ? m->options->most_steps : MOST_STEPS;
    uint64_t steps = 0;
    m->thread = calloc(m->threads, sizeof *m->thread);
    m->queue = calloc(m->threads, sizeof *m->queue);
    if (!m->thread || !m->queue) return no_memory(m);
    for (uint32_t t = 0; t < m->threads; t++) {
        const struct rt_shape shape = shape_of(m, t / m->lanes, t % m->lanes);
        m->thread[t] = (struct rt_thread){ .rank = shape.rank, .lane = shape.lane,
                                           .nsteps = m->algorithm->steps(&shape) };
        if (m->algorithm->scratch) m->thread[t].scratch = m->algorithm->scratch(&shape);
        steps += (uint64_t)m->thread[t].nsteps * m->slices;
    }
    m->running = m->threads;
    if (steps <= most) return true;
    return rt_reject(m, RT_VERDICT_TOO_LARGE, "%llu steps, over the bound of %llu", (unsigned long long)steps,
                     (unsigned long long)most);
}

/* All chunks, or the first, the last and others by chance. */
static bool choose_columns(struct rt_machine *m)
{
    const uint32_t wanted = m->options->followed;
    m->column = malloc(m->chunks * sizeof *m->column);
    if (!m->column) return no_memory(m);
    const bool all = wanted == 0 || wanted >= m->chunks;
    for (uint32_t c = 0; c < m->chunks; c++) m->column[c] = all ? c : RT_NONE;
    m->columns = all ? m->chunks : 0;
    uint64_t state = m->n;
    while (m->columns < (all ? m->chunks : wanted)) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const uint32_t chance = (uint32_t)((state >> 33) % m->chunks);
        const uint32_t c = m->columns == 0 ? 0 : m->columns == 1 ? m->chunks - 1 : chance;
        if (m->column[c] == RT_NONE) m->column[c] = m->columns++;
    }
    return true;
}

static bool lay_out_memory(struct rt_machine *m)
{
    m->base = calloc(m->n, sizeof *m->base);
    m->untaken = calloc(m->n, sizeof *m->untaken);
    if (!m->base || !m->untaken) return no_memory(m);
    rt_memory_measure(m);
    if (m->cells * sizeof *m->value > MOST_CELL_BYTES)
        return rt_reject(m, RT_VERDICT_TOO_LARGE, "%zu chunks of memory to follow, over the bound of %llu", m->cells,
                         (unsigned long long)(MOST_CELL_BYTES / sizeof *m->value));
    m->value = calloc(m->cells + 1, sizeof *m->value);
    if (!m->value || !rt_clocks_open(m) || !rt_values_open(&m->values, m->n)) return no_memory(m);
    return true;
}

static bool check_options(struct rt_machine *m)
{
    const struct rt_verify_options *o = m->options;
    const bool rooted = rt_collective_has_root(m->algorithm->collective);
    if (o->nranks == 0 || (rooted && o->root >= o->nranks))
        return rt_reject(m, RT_VERDICT_SHAPE, "%u ranks and root %u", o->nranks, o->root);
    if (o->followed && m->algorithm->collective == RINGTREE_ALL_TO_ALL && o->followed < o->nranks)
        return rt_reject(m, RT_VERDICT_TOO_LARGE, "all_to_all can only be followed whole");
    return true;
}

/* ---- what must be there in the end */

static bool wrong(struct rt_machine *m, enum rt_verdict verdict, uint32_t rank, uint32_t chunk, uint32_t slice,
                  const char *what)
{
    return rt_reject(m, verdict, "rank %u, OUTPUT chunk %u, slice %u: %s", rank, chunk, slice, what);
}

static bool check_reduced(struct rt_machine *m, uint32_t rank, uint32_t chunk, uint32_t slice, uint32_t value)
{
    const struct rt_value *v = &m->values.value[value];
    const uint32_t expected = m->algorithm->collective == RINGTREE_REDUCE_SCATTER ? rank : chunk;
    if (v->chunk != expected || v->slice != slice || !rt_value_whole(&m->values, value))
        return wrong(m, RT_VERDICT_COVERAGE, rank, chunk, slice, "not every rank's contribution exactly once");
    if (!v->final) return wrong(m, RT_VERDICT_FINAL, rank, chunk, slice, "no step was FINAL");
    if (m->algorithm->collective != RINGTREE_ALL_REDUCE || rank == 0) return true;
    const uint32_t other = m->value[rt_output_cell(m, 0, chunk, slice)];
    return value == other ||
           wrong(m, RT_VERDICT_EXPRESSION, rank, chunk, slice, "another order of operands than on rank 0");
}

/* The one leaf that belongs at `chunk` of `rank`. */
static bool check_moved(struct rt_machine *m, uint32_t rank, uint32_t chunk, uint32_t slice, uint32_t value)
{
    const struct rt_value *v = &m->values.value[value];
    uint32_t source = chunk, block = chunk;
    switch (m->algorithm->collective) {
    case RINGTREE_BROADCAST:  source = m->root; break;
    case RINGTREE_SCATTER:    source = m->root; block = rank; break;
    case RINGTREE_ALL_TO_ALL: block = rank; break;
    default:                  break;
    }
    if (v->count == 1 && !v->final && v->operand[0] == source && v->chunk == block && v->slice == slice) return true;
    return wrong(m, RT_VERDICT_COVERAGE, rank, chunk, slice, "not what belongs there");
}

static bool check_chunk(struct rt_machine *m, uint32_t rank, uint32_t chunk, uint32_t slice)
{
    const size_t cell = rt_output_cell(m, rank, chunk, slice);
    if (cell == RT_CELL_NONE || (m->cuts && chunk >= m->full)) return true;
    const uint32_t value = m->value[cell];
    if (value == RT_NOTHING_THERE) return wrong(m, RT_VERDICT_UNWRITTEN, rank, chunk, slice, "nothing arrived");
    if (value == RT_NOT_FOLLOWED) return wrong(m, RT_VERDICT_COVERAGE, rank, chunk, slice, "some other chunk arrived");
    const ringtree_collective c = m->algorithm->collective;
    const bool reduces = c == RINGTREE_ALL_REDUCE || c == RINGTREE_REDUCE || c == RINGTREE_REDUCE_SCATTER;
    return reduces ? check_reduced(m, rank, chunk, slice, value) : check_moved(m, rank, chunk, slice, value);
}

static bool check_delivered(struct rt_machine *m)
{
    for (uint32_t r = 0; r < m->n; r++)
        for (uint32_t s = 0; s < m->slices; s++)
            for (uint32_t c = 0; c < rt_output_chunks(m, r); c++)
                if (!check_chunk(m, r, c, s)) return false;
    return true;
}

static void say_ok(struct rt_machine *m)
{
    snprintf(m->report->text, sizeof m->report->text, "%u ranks, %llu steps, %llu messages, %u of %u chunks followed, "
             "%s, in-place hazards %s", m->n, (unsigned long long)m->report->steps,
             (unsigned long long)m->report->messages, m->columns, m->chunks,
             m->n <= RT_EXACT_RANKS ? "exact" : "by fingerprint",
             m->report->hazards_checked ? "checked" : "not checked");
}

static void clean_up(struct rt_machine *m)
{
    rt_pipes_close(m);
    rt_clocks_close(m);
    rt_values_close(&m->values);
    free(m->thread);
    free(m->queue);
    free(m->column);
    free(m->base);
    free(m->value);
    free(m->untaken);
}

enum rt_verdict rt_verify(const struct rt_algorithm *algorithm, const struct rt_verify_options *options,
                          struct rt_report *report)
{
    *report = (struct rt_report){ .verdict = RT_VERDICT_OK };
    struct rt_machine m = { .algorithm = algorithm, .options = options, .report = report, .n = options->nranks };
    m.root = rt_collective_has_root(algorithm->collective) ? options->root : RT_NONE;
    m.cuts = rt_collective_cuts(algorithm->collective);
    m.slots = options->slots ? options->slots : algorithm->min_slots;
    m.slices = options->slices ? options->slices : 1;
    if (check_options(&m) && ask_counts(&m) && ask_steps(&m) && choose_columns(&m) && lay_out_memory(&m) &&
        rt_run(&m) && check_delivered(&m))
        say_ok(&m);
    clean_up(&m);
    return report->verdict;
}
