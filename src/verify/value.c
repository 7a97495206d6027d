/* Expressions: leaves, ordered reductions of disjoint sets of ranks, and the mark of completeness, each only once. */
#include "value.h"
#include <stdlib.h>
#include <string.h>

enum kind { LEAF = 1, REDUCTION, FINAL };

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t hash_of(const struct rt_value *v)
{
    const uint64_t pair = (uint64_t)v->operand[0] << 32 | v->operand[1];
    return mix(mix(pair) ^ ((uint64_t)v->operand[2] << 8 | v->kind));
}

static bool same(const struct rt_value *a, const struct rt_value *b)
{
    return a->kind == b->kind && memcmp(a->operand, b->operand, sizeof a->operand) == 0;
}

bool rt_values_open(struct rt_values *values, uint32_t nranks)
{
    *values = (struct rt_values){ .nranks = nranks, .count = 2 };
    if (nranks <= RT_EXACT_RANKS) values->words = (nranks + 63) / 64;
    for (uint32_t r = 0; r < nranks; r++) values->whole += mix(r + 1);
    return true;
}

void rt_values_close(struct rt_values *values)
{
    free(values->value);
    free(values->bits);
    free(values->table);
}

static void insert(struct rt_values *values, uint32_t id)
{
    const uint32_t mask = 2 * values->capacity - 1;
    uint32_t at = (uint32_t)hash_of(&values->value[id]) & mask;
    while (values->table[at]) at = (at + 1) & mask;
    values->table[at] = id;
}

static bool grow(struct rt_values *values)
{
    const uint32_t capacity = values->capacity ? 2 * values->capacity : 1024;
    void *value = realloc(values->value, capacity * sizeof *values->value);
    if (value) values->value = value;
    void *bits = values->words ? realloc(values->bits, (size_t)capacity * values->words * 8) : NULL;
    if (bits) values->bits = bits;
    uint32_t *table = calloc(2 * (size_t)capacity, sizeof *table);
    if (!value || (values->words && !bits) || !table) {
        free(table);
        return false;
    }
    free(values->table);
    values->table = table;
    values->capacity = capacity;
    for (uint32_t id = 2; id < values->count; id++) insert(values, id);
    return true;
}

static uint64_t *bits_of(const struct rt_values *values, uint32_t id)
{
    return values->bits + (size_t)id * values->words;
}

/* The id of *v, found or made. A made one has no bits yet: *made. */
static uint32_t intern(struct rt_values *values, const struct rt_value *v, bool *made, enum rt_verdict *verdict)
{
    *made = false;
    if (values->count + 1 >= values->capacity && !grow(values)) {
        *verdict = RT_VERDICT_NO_MEMORY;
        return 0;
    }
    const uint32_t mask = 2 * values->capacity - 1;
    for (uint32_t at = (uint32_t)hash_of(v) & mask; values->table[at]; at = (at + 1) & mask)
        if (same(&values->value[values->table[at]], v)) return values->table[at];
    const uint32_t id = values->count++;
    values->value[id] = *v;
    if (values->words) memset(bits_of(values, id), 0, values->words * 8);
    insert(values, id);
    *made = true;
    return id;
}

uint32_t rt_value_leaf(struct rt_values *values, uint32_t rank, uint32_t chunk, uint32_t slice,
                       enum rt_verdict *verdict)
{
    const struct rt_value leaf = { .operand = { rank, chunk, slice }, .kind = LEAF, .chunk = chunk, .slice = slice,
                                   .count = 1, .sum = mix(rank + 1) };
    bool made;
    const uint32_t id = intern(values, &leaf, &made, verdict);
    if (made && values->words) bits_of(values, id)[rank / 64] |= UINT64_C(1) << rank % 64;
    return id;
}

static bool disjoint(const struct rt_values *values, uint32_t a, uint32_t b)
{
    for (uint32_t w = 0; w < values->words; w++)
        if (bits_of(values, a)[w] & bits_of(values, b)[w]) return false;
    return true;
}

static void unite(struct rt_values *values, uint32_t id, uint32_t part)
{
    for (uint32_t w = 0; w < values->words; w++) bits_of(values, id)[w] |= bits_of(values, part)[w];
}

/* Sets over RT_EXACT_RANKS are not compared here; a rank that is in twice shows in the sum at the end. */
static enum rt_verdict check_operands(const struct rt_values *values, const uint32_t *operands, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct rt_value *v = &values->value[operands[i]], *first = &values->value[operands[0]];
        if (v->final) return RT_VERDICT_FINAL;
        if (v->chunk != first->chunk || v->slice != first->slice) return RT_VERDICT_COVERAGE;
        for (uint32_t j = 0; j < i; j++)
            if (!disjoint(values, operands[i], operands[j])) return RT_VERDICT_COVERAGE;
    }
    return RT_VERDICT_OK;
}

uint32_t rt_value_reduce(struct rt_values *values, const uint32_t *operands, uint32_t count, enum rt_verdict *verdict)
{
    *verdict = check_operands(values, operands, count);
    if (*verdict != RT_VERDICT_OK) return 0;
    struct rt_value v = { .kind = REDUCTION, .chunk = values->value[operands[0]].chunk,
                          .slice = values->value[operands[0]].slice };
    for (uint32_t i = 0; i < count; i++) {
        v.operand[i] = operands[i];
        v.count += values->value[operands[i]].count;
        v.sum += values->value[operands[i]].sum;
    }
    bool made;
    const uint32_t id = intern(values, &v, &made, verdict);
    for (uint32_t i = 0; made && i < count; i++) unite(values, id, operands[i]);
    return id;
}

uint32_t rt_value_final(struct rt_values *values, uint32_t id, enum rt_verdict *verdict)
{
    if (values->value[id].final || !rt_value_whole(values, id)) {
        *verdict = RT_VERDICT_FINAL;
        return 0;
    }
    struct rt_value v = values->value[id];
    v.kind = FINAL;
    v.final = true;
    v.operand[0] = id;
    v.operand[1] = v.operand[2] = 0;
    bool made;
    const uint32_t final = intern(values, &v, &made, verdict);
    if (made) unite(values, final, id);
    return final;
}

bool rt_value_whole(const struct rt_values *values, uint32_t id)
{
    const struct rt_value *v = &values->value[id];
    return v->count == values->nranks && v->sum == values->whole;
}
