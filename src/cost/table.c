/* The table of costs from and to text; its form is told in table.h. */
#include "table.h"
#include <inttypes.h>
#include <string.h>

#define FIRST_LINE  "ringtree costs 1"
#define MOST_NUMBER UINT64_C(1000000000000000000) /* 1000 s */
#define MOST_WORD   24
#define FS          1e-15

/* ---- the fields, in the order of the text */

#define LINK_FIELDS     5
#define EXCHANGE_FIELDS 8
#define EXCHANGE_CACHE  5 /* in bytes, not in time */

static void link_fields(struct rt_link_cost *link, double *fields[LINK_FIELDS])
{
    double *const all[LINK_FIELDS] = { &link->latency, &link->message, &link->byte, &link->wire_byte, &link->crowded };
    memcpy(fields, all, sizeof all);
}

static void exchange_fields(struct rt_exchange_cost *x, double *fields[EXCHANGE_FIELDS])
{
    double *const all[EXCHANGE_FIELDS] = { &x->latency, &x->rank, &x->block, &x->byte,
                                           &x->memory,  &x->cache, &x->read, &x->crowded };
    memcpy(fields, all, sizeof all);
}

/* ---- reading */

struct line {
    const char *at, *end;
};

static bool take_word(struct line *line, char word[MOST_WORD])
{
    size_t length = 0;
    while (line->at < line->end && *line->at == ' ') line->at++;
    while (line->at < line->end && *line->at != ' ' && length < MOST_WORD - 1) word[length++] = *line->at++;
    word[length] = '\0';
    return length > 0 && (line->at == line->end || *line->at == ' ');
}

static bool take_number(struct line *line, uint64_t least, uint64_t most, uint64_t *number)
{
    char word[MOST_WORD];
    uint64_t sum = 0;
    if (!take_word(line, word)) return false;
    for (const char *c = word; *c; c++) {
        if (*c < '0' || *c > '9' || sum > MOST_NUMBER / 10) return false;
        sum = sum * 10 + (uint64_t)(*c - '0');
    }
    *number = sum;
    return sum >= least && sum <= most;
}

static bool at_end(struct line *line)
{
    while (line->at < line->end && *line->at == ' ') line->at++;
    return line->at == line->end;
}

static bool take_times(struct line *line, double *const *fields, uint32_t count, uint32_t in_bytes)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t number;
        if (!take_number(line, 0, MOST_NUMBER, &number)) return false;
        *fields[i] = i == in_bytes ? (double)number : (double)number * FS;
    }
    return at_end(line);
}

static bool take_link(struct rt_costs *costs, struct line *line)
{
    char name[MOST_WORD];
    double *fields[LINK_FIELDS];
    if (!take_word(line, name)) return false;
    for (int kind = 0; kind < RT_LINK_KINDS; kind++) {
        if (strcmp(name, rt_link_kind_name((enum rt_link_kind)kind))) continue;
        struct rt_link_cost *link = &costs->link[kind];
        link_fields(link, fields);
        return take_times(line, fields, LINK_FIELDS, LINK_FIELDS) && link->latency > 0 && link->byte > 0;
    }
    return false;
}

/* A line of its own: it is 0 where nobody measured it. */
static bool take_flow(struct rt_costs *costs, struct line *line)
{
    char name[MOST_WORD];
    if (!take_word(line, name)) return false;
    for (int kind = 0; kind < RT_LINK_KINDS; kind++)
        if (!strcmp(name, rt_link_kind_name((enum rt_link_kind)kind)))
            return take_times(line, (double *const[]){ &costs->link[kind].flow_byte }, 1, 1);
    return false;
}

static bool take_reference(struct rt_costs *costs, struct line *line)
{
    char name[MOST_WORD];
    if (!take_word(line, name)) return false;
    for (int kind = 0; kind < RT_LINK_KINDS; kind++) {
        if (strcmp(name, rt_link_kind_name((enum rt_link_kind)kind))) continue;
        struct rt_link_measured *m = &costs->reference[kind];
        return take_times(line, (double *const[]){ &m->latency, &m->byte }, 2, 2) && m->latency > 0 && m->byte > 0;
    }
    return false;
}

static bool take_exchange(struct rt_costs *costs, struct line *line)
{
    double *fields[EXCHANGE_FIELDS];
    exchange_fields(&costs->exchange, fields);
    return take_times(line, fields, EXCHANGE_FIELDS, EXCHANGE_CACHE) && costs->exchange.latency > 0 &&
           costs->exchange.byte > 0;
}

static uint32_t way_named(const char *collective, const char *name)
{
    for (uint32_t c = 0; c < RINGTREE_COLLECTIVE_COUNT; c++) {
        if (strcmp(ringtree_collective_name((ringtree_collective)c), collective)) continue;
        if (!strcmp(name, "shared")) return rt_cost_way((ringtree_collective)c, NULL);
        const struct rt_algorithm *algorithm = rt_algorithm_find((ringtree_collective)c, name);
        return algorithm ? rt_cost_way((ringtree_collective)c, algorithm) : RT_COST_WAYS;
    }
    return RT_COST_WAYS;
}

/* An algorithm that this build lacks is passed over: tables outlive algorithms. */
static bool take_correction(struct rt_costs *costs, struct line *line)
{
    char link[MOST_WORD], collective[MOST_WORD], name[MOST_WORD];
    uint64_t ranks, thousandths;
    if (!take_word(line, link) || !take_word(line, collective) || !take_word(line, name)) return false;
    if (!take_number(line, 2, 8, &ranks) || (ranks & (ranks - 1))) return false;
    const uint32_t way = way_named(collective, name), n = ranks == 2 ? 0 : ranks == 4 ? 1 : 2;
    uint32_t c = 0;
    while (c < RT_COST_CASES && strcmp(link, rt_cost_case_name((enum rt_cost_case)c))) c++;
    if (c == RT_COST_CASES) return false;
    for (uint32_t b = 0; b < RT_COST_SIZES; b++) {
        if (!take_number(line, 1, 1000000, &thousandths)) return false;
        if (way < RT_COST_WAYS) costs->correction[c][way][n][b] = (float)thousandths / 1000;
    }
    return at_end(line);
}

static bool take_line(struct rt_costs *costs, struct line *line, bool *ended)
{
    char word[MOST_WORD];
    if (line->at == line->end || *line->at == '#') return true;
    if (*ended || !take_word(line, word)) return false;
    if (!strcmp(word, "link")) return take_link(costs, line);
    if (!strcmp(word, "flow")) return take_flow(costs, line);
    if (!strcmp(word, "reference")) return take_reference(costs, line);
    if (!strcmp(word, "exchange")) return take_exchange(costs, line);
    if (!strcmp(word, "correction")) return take_correction(costs, line);
    if (!strcmp(word, "add")) return take_times(line, (double *const[]){ &costs->add }, 1, 1);
    *ended = !strcmp(word, "end");
    return *ended && at_end(line);
}

ringtree_status rt_costs_read(struct rt_costs *costs, const char *text, size_t length, const char *origin,
                              struct rt_error *error)
{
    struct rt_costs changed = *costs;
    bool ended = false;
    size_t number = 1;
    const size_t first = sizeof FIRST_LINE - 1;
    if (length > RT_COST_TEXT_MOST || length <= first || memcmp(text, FIRST_LINE "\n", first + 1))
        return rt_fail(error, RINGTREE_INVALID_SETTING, "%s: not a table of costs of this version (\"" FIRST_LINE
                       "\", at most %d bytes)", origin, RT_COST_TEXT_MOST);
    for (const char *at = text + first + 1, *end = text + length; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        struct line line = { at, newline ? newline : end };
        number++;
        if (!take_line(&changed, &line, &ended))
            return rt_fail(error, RINGTREE_INVALID_SETTING, "%s, line %zu: wrong word, number or length", origin,
                           number);
        at = newline ? newline + 1 : end;
    }
    if (!ended) return rt_fail(error, RINGTREE_INVALID_SETTING, "%s: cut off, there is no line \"end\"", origin);
    *costs = changed;
    return RINGTREE_OK;
}

/* ---- writing */

static uint64_t whole(double x, double unit)
{
    return (uint64_t)(x / unit + 0.5);
}

static void write_times(double *const *fields, uint32_t count, uint32_t in_bytes, FILE *out)
{
    for (uint32_t i = 0; i < count; i++) fprintf(out, " %" PRIu64, whole(*fields[i], i == in_bytes ? 1 : FS));
    fputc('\n', out);
}

static bool is_one(const float *row)
{
    for (uint32_t b = 0; b < RT_COST_SIZES; b++)
        if (whole((double)row[b], 1e-3) != 1000) return false;
    return true;
}

static void write_way(const struct rt_costs *costs, uint32_t way, const char *collective, const char *name, FILE *out)
{
    for (uint32_t c = 0; c < RT_COST_CASES; c++)
        for (uint32_t n = 0; n < RT_COST_RANKS; n++) {
            const float *row = costs->correction[c][way][n];
            if (is_one(row)) continue;
            fprintf(out, "correction %s %s %s %u", rt_cost_case_name((enum rt_cost_case)c), collective, name, 2u << n);
            for (uint32_t b = 0; b < RT_COST_SIZES; b++) fprintf(out, " %" PRIu64, whole((double)row[b], 1e-3));
            fputc('\n', out);
        }
}

bool rt_costs_write(const struct rt_costs *costs, bool corrections, FILE *out)
{
    struct rt_costs copy = *costs;
    double *fields[EXCHANGE_FIELDS];
    fputs(FIRST_LINE "\n", out);
    for (int kind = 0; kind < RT_LINK_KINDS; kind++) {
        link_fields(&copy.link[kind], fields);
        fprintf(out, "link %s", rt_link_kind_name((enum rt_link_kind)kind));
        write_times(fields, LINK_FIELDS, LINK_FIELDS, out);
        if (!(copy.link[kind].flow_byte > 0)) continue;
        fprintf(out, "flow %s %" PRIu64 "\n", rt_link_kind_name((enum rt_link_kind)kind),
                whole(copy.link[kind].flow_byte, FS));
    }
    for (int kind = 0; kind < RT_LINK_KINDS; kind++) {
        struct rt_link_measured *m = &copy.reference[kind];
        if (!(m->latency > 0)) continue;
        fprintf(out, "reference %s", rt_link_kind_name((enum rt_link_kind)kind));
        write_times((double *const[]){ &m->latency, &m->byte }, 2, 2, out);
    }
    exchange_fields(&copy.exchange, fields);
    fputs("exchange", out);
    write_times(fields, EXCHANGE_FIELDS, EXCHANGE_CACHE, out);
    fprintf(out, "add %" PRIu64 "\n", whole(costs->add, FS));
    for (uint32_t i = 0; corrections && i < rt_algorithm_count; i++)
        write_way(costs, i, ringtree_collective_name(rt_algorithms[i]->collective), rt_algorithms[i]->name, out);
    for (uint32_t c = 0; corrections && c <= RINGTREE_BARRIER; c++)
        write_way(costs, rt_cost_way((ringtree_collective)c, NULL), ringtree_collective_name((ringtree_collective)c),
                  "shared", out);
    fputs("end\n", out);
    return fflush(out) == 0 && !ferror(out);
}

uint64_t rt_costs_hash(const struct rt_costs *costs)
{
    const unsigned char *bytes = (const unsigned char *)costs;
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (size_t i = 0; i < sizeof *costs; i++) hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}
