/* Which cell a (rank, buffer, chunk) is, in place or not. A cell is a chunk of one slice; scratch serves all slices. */
#include "machine.h"

bool rt_collective_has_root(ringtree_collective c)
{
    return c == RINGTREE_REDUCE || c == RINGTREE_BROADCAST || c == RINGTREE_GATHER || c == RINGTREE_SCATTER;
}

bool rt_collective_cuts(ringtree_collective c)
{
    return c == RINGTREE_ALL_REDUCE || c == RINGTREE_REDUCE || c == RINGTREE_BROADCAST;
}

static bool input_is_single(ringtree_collective c)
{
    return c == RINGTREE_ALL_GATHER || c == RINGTREE_GATHER;
}

static bool output_is_single(ringtree_collective c)
{
    return c == RINGTREE_REDUCE_SCATTER || c == RINGTREE_SCATTER;
}

static bool has_input(const struct rt_machine *m, uint32_t rank)
{
    const ringtree_collective c = m->algorithm->collective;
    return (c != RINGTREE_BROADCAST && c != RINGTREE_SCATTER) || rank == m->root;
}

static bool has_output(const struct rt_machine *m, uint32_t rank)
{
    const ringtree_collective c = m->algorithm->collective;
    return (c != RINGTREE_REDUCE && c != RINGTREE_GATHER) || rank == m->root;
}

/* The larger array of a rank comes first, then the other one: cells per slice. */
static uint32_t input_cells(const struct rt_machine *m, uint32_t rank)
{
    if (!has_input(m, rank)) return 0;
    return input_is_single(m->algorithm->collective) ? 1 : m->columns;
}

static uint32_t output_cells(const struct rt_machine *m, uint32_t rank)
{
    if (!has_output(m, rank)) return 0;
    return output_is_single(m->algorithm->collective) ? 1 : m->columns;
}

bool rt_memory_measure(struct rt_machine *m)
{
    size_t cells = 0;
    for (uint32_t r = 0; r < m->n; r++) {
        m->base[r] = cells;
        cells += (size_t)m->slices * (input_cells(m, r) + output_cells(m, r));
    }
    for (uint32_t t = 0; t < m->threads; t++) {
        m->thread[t].scratch_at = cells;
        cells += m->thread[t].scratch;
    }
    m->cells = cells;
    return true;
}

/* Of one buffer: its chunk's place in it. `single`: the buffer's only chunk is this rank's block. */
static size_t place(const struct rt_machine *m, uint32_t rank, bool single, uint32_t chunk)
{
    if (chunk >= m->chunks || (single && chunk > 0)) return RT_CELL_OUTSIDE;
    const uint32_t column = m->column[single ? rank : chunk];
    if (column == RT_NONE) return RT_CELL_NONE;
    return single ? 0 : column;
}

static size_t input_cell(const struct rt_machine *m, uint32_t rank, uint32_t chunk, uint32_t slice)
{
    const ringtree_collective c = m->algorithm->collective;
    if (!has_input(m, rank)) return RT_CELL_OUTSIDE;
    if (input_is_single(c) && chunk == 0 && m->options->in_place && has_output(m, rank))
        return rt_output_cell(m, rank, rank, slice);
    const size_t at = place(m, rank, input_is_single(c), chunk);
    return at >= RT_CELL_OUTSIDE ? at : m->base[rank] + (size_t)slice * input_cells(m, rank) + at;
}

size_t rt_output_cell(const struct rt_machine *m, uint32_t rank, uint32_t chunk, uint32_t slice)
{
    const ringtree_collective c = m->algorithm->collective;
    if (!has_output(m, rank)) return RT_CELL_OUTSIDE;
    const bool shared = m->options->in_place && has_input(m, rank) && !input_is_single(c);
    if (shared && output_is_single(c)) return chunk ? RT_CELL_OUTSIDE : input_cell(m, rank, rank, slice);
    if (shared) return input_cell(m, rank, chunk, slice);
    const size_t at = place(m, rank, output_is_single(c), chunk);
    if (at >= RT_CELL_OUTSIDE) return at;
    return m->base[rank] + (size_t)m->slices * input_cells(m, rank) + (size_t)slice * output_cells(m, rank) + at;
}

size_t rt_cell(const struct rt_machine *m, const struct rt_thread *t, uint8_t buffer, uint32_t chunk)
{
    if (buffer == RT_INPUT) return input_cell(m, t->rank, chunk, t->slice);
    if (buffer == RT_OUTPUT) return rt_output_cell(m, t->rank, chunk, t->slice);
    return chunk < t->scratch ? t->scratch_at + chunk : RT_CELL_OUTSIDE;
}

uint32_t rt_output_chunks(const struct rt_machine *m, uint32_t rank)
{
    if (!has_output(m, rank)) return 0;
    return output_is_single(m->algorithm->collective) ? 1 : m->chunks;
}
