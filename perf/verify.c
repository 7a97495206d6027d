/*
 * Every element of every checked operation is compared with its closed form, the input must be as it was, and the
 * bytes around both are watched. Before a check the output is filled with
 * GUARD_BYTE: a call that writes nothing cannot pass.
 */
#include "perf.h"

#include <string.h>

#define GUARD_BYTE 0xa5

void layout_make(struct layout *layout, const struct bench *bench, const struct row *row, bool in_place)
{
    const struct collective *c = bench->options->collective;
    const bool   root = c->rooted && bench->rank == row->root;
    const enum extent in = root ? c->in_root : c->in_other, out = root ? c->out_root : c->out_other;
    const size_t size = ringtree_type_size(row->type), shift = bench->options->unalign * size;
    const size_t mine = bench->rank * row->count * size;

    *layout = (struct layout){ .in_place = in_place };
    layout->in_count = extent_of(in, row->count, bench->nranks);
    layout->out_count = extent_of(out, row->count, bench->nranks);
    for (int i = 0; i < 2; i++)
        layout->region[i] = bench->block[i] + GUARD + shift;
    layout->region_bytes[0] = layout->in_count * size;
    layout->region_bytes[1] = layout->out_count * size;
    layout->input = layout->region[0];
    layout->output = layout->region[1];
    if (!in_place) return;
    if (layout->in_count > layout->out_count) layout->region_bytes[1] = layout->region_bytes[0];
    layout->input = layout->region[1] + (in == EXTENT_ONE && out == EXTENT_ALL ? mine : 0);
    layout->output = layout->region[1] + (in == EXTENT_ALL && out == EXTENT_ONE ? mine : 0);
    layout->region[0] = NULL;
}

/* ---- filling */

static void fill_reduced(unsigned char *to, size_t count, const struct exact *exact, uint32_t rank, uint32_t iteration)
{
    const size_t size = ringtree_type_size(exact->type);
    for (size_t k = 0; k < count; k++)
        number_store(to + k * size, exact->type, exact_input(exact, rank, k, iteration));
}

static void store_bits(unsigned char *to, uint64_t bits, size_t size)
{
    switch (size) {
    case 1: memcpy(to, &(uint8_t){ (uint8_t)bits }, 1); break;
    case 2: memcpy(to, &(uint16_t){ (uint16_t)bits }, 2); break;
    case 4: memcpy(to, &(uint32_t){ (uint32_t)bits }, 4); break;
    default: memcpy(to, &bits, 8); break;
    }
}

void layout_fill(const struct layout *layout, const struct bench *bench, const struct row *row, uint32_t iteration)
{
    const size_t size = ringtree_type_size(row->type);
    if (bench->options->collective->reduces) {
        struct exact exact;
        exact_prepare(&exact, row->type, row->op, bench->nranks);
        fill_reduced(layout->input, layout->in_count, &exact, bench->rank, iteration);
        return;
    }
    for (size_t k = 0; k < layout->in_count; k++)
        store_bits(layout->input + k * size, moved_bits(bench->rank, k, iteration), size);
}

void layout_poison(const struct layout *layout)
{
    for (int i = 0; i < 2; i++) {
        if (!layout->region[i]) continue;
        memset(layout->region[i] - GUARD, GUARD_BYTE, GUARD);
        memset(layout->region[i], GUARD_BYTE, layout->region_bytes[i]);
        memset(layout->region[i] + layout->region_bytes[i], GUARD_BYTE, GUARD);
    }
}

uint64_t layout_outside(const struct layout *layout)
{
    uint64_t changed = 0;
    for (int i = 0; i < 2; i++) {
        if (!layout->region[i]) continue;
        const unsigned char *before = layout->region[i] - GUARD, *after = layout->region[i] + layout->region_bytes[i];
        for (int k = 0; k < GUARD; k++)
            changed += (before[k] != GUARD_BYTE) + (after[k] != GUARD_BYTE);
    }
    return changed;
}

/* ---- comparing */

struct comparison {
    struct bench     *bench;
    const struct row *row;
    struct exact      exact;
    uint32_t          iteration;
    size_t            size;
    bool              reduces, in_place;
};

static void hex(const unsigned char *bytes, size_t size, char *text)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = size; i-- > 0;) {
        *text++ = digits[bytes[i] >> 4];
        *text++ = digits[bytes[i] & 15];
    }
    *text = '\0';
}

/* Once per rank: the first wrong element. */
static void say_wrong(const struct comparison *c, const char *what, size_t index, const unsigned char *got,
                      const unsigned char *want)
{
    if (c->bench->said_wrong) return;
    c->bench->said_wrong = true;
    char got_hex[17], want_hex[17];
    hex(got, c->size, got_hex);
    hex(want, c->size, want_hex);
    fprintf(stderr, "rank %u: %s, %s, %s, count %zu, %s: %s element %zu is %.9g (0x%s), should be %.9g (0x%s)\n",
            c->bench->rank, ringtree_collective_name(c->bench->options->collective->kind), type_names[c->row->type],
            op_names[c->row->op], c->row->count, c->in_place ? "in place" : "out of place", what, index,
            number_load(got, c->row->type), got_hex, number_load(want, c->row->type), want_hex);
}

static bool within_bound(const struct comparison *c, const unsigned char *got, double want)
{
    const double off = number_load(got, c->row->type) - want, bound = exact_bound(&c->exact, want);
    return off >= -bound && off <= bound;
}

/* `count` elements that should be the result at position.., of a reduction. */
static uint64_t compare_reduced(const struct comparison *c, const unsigned char *got, size_t count, size_t position)
{
    uint64_t wrong = 0;
    for (size_t k = 0; k < count; k++, got += c->size) {
        const struct number want = exact_result(&c->exact, position + k, c->iteration);
        unsigned char bytes[8];
        if (c->exact.bounded && within_bound(c, got, want.real)) continue;
        number_store(bytes, c->row->type, want);
        if (!memcmp(got, bytes, c->size)) continue;
        wrong++;
        say_wrong(c, "output", k, got, bytes);
    }
    return wrong;
}

/* `count` elements that should be what rank `source` has as input at position.. */
static uint64_t compare_input(const struct comparison *c, const char *what, const unsigned char *got, size_t count,
                              uint32_t source, size_t position)
{
    uint64_t wrong = 0;
    for (size_t k = 0; k < count; k++, got += c->size) {
        unsigned char bytes[8];
        if (c->reduces)
            number_store(bytes, c->row->type, exact_input(&c->exact, source, position + k, c->iteration));
        else store_bits(bytes, moved_bits(source, position + k, c->iteration), c->size);
        if (!memcmp(got, bytes, c->size)) continue;
        wrong++;
        say_wrong(c, what, k, got, bytes);
    }
    return wrong;
}

static uint64_t compare_block(const struct comparison *c, const struct layout *layout, uint32_t block)
{
    const unsigned char *got = layout->output + block * c->row->count * c->size;
    uint32_t source;
    size_t   position;
    block_source(c->bench->options->collective, c->row, c->bench->rank, c->bench->nranks, block, &source, &position);
    if (c->reduces) return compare_reduced(c, got, c->row->count, position);
    return compare_input(c, "output", got, c->row->count, source, position);
}

uint64_t layout_wrong(const struct layout *layout, struct bench *bench, const struct row *row, uint32_t iteration)
{
    struct comparison c = { .bench = bench, .row = row, .iteration = iteration, .in_place = layout->in_place };
    c.size = ringtree_type_size(row->type);
    c.reduces = bench->options->collective->reduces;
    if (c.reduces) exact_prepare(&c.exact, row->type, row->op, bench->nranks);
    uint64_t wrong = 0;
    for (size_t block = 0; row->count && block < layout->out_count / row->count; block++)
        wrong += compare_block(&c, layout, (uint32_t)block);
    if (!layout->in_place || !layout->out_count)
        wrong += compare_input(&c, "input", layout->input, layout->in_count, bench->rank, 0);
    return wrong;
}
