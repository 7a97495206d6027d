/* Reads the text of a synthetic machine by recursive descent, bounded in items and depth; errors name the column. */
#include "synthetic_parse.h"
#include <stdio.h>
#include <string.h>

struct reader {
    const char          *text, *at;
    struct rt_synthetic *out;
    struct rt_error     *error;
    uint32_t             depth, group; /* lists that are open; those from `group` on are within the same parenthesis */
    uint8_t              parent[RT_SYNTHETIC_MOST_DEPTH + 1]; /* the kind that each list is inside */
};

struct word {
    char text[24];
};

#define KIND(kind) (1u << (kind))
#define PROCESSORS (KIND(RT_MACHINE) | KIND(RT_PACKAGE) | KIND(RT_NUMA))

static const struct { const char *name; enum rt_vertex_kind kind; uint32_t inside; uint32_t most; } kinds[] = {
    { "node", RT_MACHINE, 0, 1u << 20 },
    { "socket", RT_PACKAGE, KIND(RT_MACHINE), 64 },
    { "numa", RT_NUMA, KIND(RT_MACHINE) | KIND(RT_PACKAGE), 64 },
    { "core", RT_CORES, PROCESSORS, 1u << 16 },
    { "pci", RT_PCI_SWITCH, PROCESSORS | KIND(RT_PCI_SWITCH), 256 },
    { "gpu", RT_GPU, PROCESSORS | KIND(RT_PCI_SWITCH), 256 },
    { "nic", RT_NIC, PROCESSORS | KIND(RT_PCI_SWITCH), 256 },
};
enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

static bool refuse(struct reader *r, const char *at, const char *format, ...) __attribute__((format(printf, 3, 4)));
static bool refuse(struct reader *r, const char *at, const char *format, ...)
{
    char why[256];
    va_list args;

    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    rt_fail(r->error, RINGTREE_INVALID_ARGUMENT, "column %zu of the machine \"%s\": %s", (size_t)(at - r->text) + 1,
            r->text, why);
    return false;
}

static void skip_spaces(struct reader *r)
{
    while (*r->at == ' ' || *r->at == '\t' || *r->at == '\n')
        r->at++;
}

static bool is_letter(char c)
{
    return c >= 'a' && c <= 'z';
}

/* Letters; "" where there are none, or too many to be a word that is known. */
static struct word take_word(struct reader *r)
{
    struct word word = { "" };
    size_t length = 0;

    while (is_letter(r->at[length]))
        length++;
    if (length < sizeof(word.text))
        memcpy(word.text, r->at, length);
    r->at += length;
    return word;
}

static bool take_number(struct reader *r, const char *what, uint32_t most, uint32_t *number)
{
    const char *begin = r->at;
    uint64_t value = 0;

    while (*r->at >= '0' && *r->at <= '9' && value <= most)
        value = value * 10 + (uint64_t)(*r->at++ - '0');
    if (r->at == begin)
        return refuse(r, begin, "%s is missing", what);
    if (value == 0 || value > most)
        return refuse(r, begin, "%s is 1 to %u", what, most);
    *number = (uint32_t)value;
    return true;
}

static bool take_pcie(struct reader *r, struct rt_synthetic_item *item)
{
    uint32_t generation = 0, width = 0;

    if (!take_number(r, "a PCIe generation", 6, &generation))
        return false;
    if (*r->at != 'x')
        return refuse(r, r->at, "PCIe is written as 5x16: generation, x, lanes");
    r->at++;
    if (!take_number(r, "the number of PCIe lanes", 32, &width))
        return false;
    item->generation = (uint8_t)generation;
    item->width = (uint8_t)width;
    return true;
}

/* "switch" and the like, which complete nvlink:N. */
static bool take_shape(const struct word *word, struct rt_synthetic_item *item)
{
    static const char *const shapes[] = { "", "switch", "mesh", "ring", "cube" };

    for (uint8_t i = RT_NVLINK_SWITCH; i <= RT_NVLINK_CUBE; i++)
        if (strcmp(word->text, shapes[i]) == 0) {
            item->shape = i;
            return true;
        }
    return false;
}

/* What may be said with a number after a colon, and of which kinds. */
static bool take_valued(struct reader *r, const char *begin, const struct word *word, struct rt_synthetic_item *item)
{
    static const struct { const char *name; uint32_t kinds, most; } valued[] = {
        { "nvlink", KIND(RT_GPU), 64 },
        { "sm", KIND(RT_GPU), 200 },
        { "ports", KIND(RT_NIC), 8 },
        { "link", KIND(RT_PACKAGE) | KIND(RT_NUMA), 10000 },
        { "pcie", KIND(RT_GPU) | KIND(RT_NIC) | KIND(RT_PCI_SWITCH), 0 },
    };
    uint32_t number = 0;
    size_t i = 0;

    while (i < sizeof(valued) / sizeof(*valued) && strcmp(word->text, valued[i].name) != 0)
        i++;
    if (i == sizeof(valued) / sizeof(*valued) || !(valued[i].kinds & KIND(item->kind)))
        return refuse(r, begin, "\"%s\" cannot be said of a %s", word->text, rt_vertex_kind_name(item->kind));
    if (*r->at != ':')
        return refuse(r, r->at, "\"%s\" needs a colon and a number right after it", word->text);
    r->at++;
    if (strcmp(word->text, "pcie") == 0)
        return take_pcie(r, item);
    if (!take_number(r, word->text, valued[i].most, &number))
        return false;
    if (i == 0) item->nvlinks = (uint8_t)number;
    else if (i == 1) item->sm = (uint16_t)number;
    else if (i == 2) item->ports = (uint8_t)number;
    else item->link_gbs = (float)number;
    return true;
}

/* "200G" */
static bool take_speed(struct reader *r, struct rt_synthetic_item *item)
{
    const char *begin = r->at;
    uint32_t gbit = 0;

    if (!take_number(r, "a number of gigabits", 100000, &gbit))
        return false;
    if (item->kind != RT_NIC || *r->at != 'G')
        return refuse(r, begin, "a number is a count before a kind, or a NIC's speed such as 200G");
    r->at++;
    item->gbit = (float)gbit;
    return true;
}

/* The words after a kind. */
static bool take_words(struct reader *r, struct rt_synthetic_item *item)
{
    for (skip_spaces(r); *r->at && !strchr(":;()", *r->at); skip_spaces(r)) {
        const char *begin = r->at;
        if (*begin >= '0' && *begin <= '9') {
            if (!take_speed(r, item))
                return false;
            continue;
        }
        const struct word word = take_word(r);
        if (r->at == begin)
            return refuse(r, begin, "a word, \":\" or \";\" was expected");
        if (item->kind == RT_GPU && take_shape(&word, item))
            continue;
        if (!take_valued(r, begin, &word, item))
            return false;
    }
    if ((item->nvlinks != 0) != (item->shape != RT_NVLINK_NONE))
        return refuse(r, r->at, "NVLink needs both nvlink:N and one of switch, mesh, ring, cube");
    return true;
}

/* The kind of a word, singular or plural; KINDS: it is none. */
static size_t find_kind(const struct word *word)
{
    size_t length = strlen(word->text), i = 0;

    if (length > 1 && word->text[length - 1] == 's') /* nodes, gpus */
        length--;
    while (i < KINDS && (strlen(kinds[i].name) != length || memcmp(kinds[i].name, word->text, length) != 0))
        i++;
    return i;
}

/* Outermost stand either nodes or parts of one node, as the first item says. */
static bool may_be_inside(const struct reader *r, size_t kind, uint32_t parent)
{
    if (parent == RT_SYSTEM)
        return (kinds[kind].kind == RT_MACHINE) == (r->out->item[0].kind == RT_MACHINE);
    return kinds[kind].inside & KIND(parent);
}

/* Whether what follows a ";" belongs to a list further out, as a socket after a GPU does. */
static bool next_is_outside(struct reader *r)
{
    const char *begin = r->at++;
    bool outside = false;

    skip_spaces(r);
    while (*r->at >= '0' && *r->at <= '9')
        r->at++;
    skip_spaces(r);
    const struct word word = take_word(r);
    const size_t kind = find_kind(&word);
    if (kind < KINDS && !may_be_inside(r, kind, r->parent[r->depth]))
        for (uint32_t i = r->group; i < r->depth; i++)
            outside |= may_be_inside(r, kind, r->parent[i]);
    r->at = begin;
    return outside;
}

static bool take_kind(struct reader *r, uint32_t parent_kind, struct rt_synthetic_item *item)
{
    const char *begin = r->at;
    const struct word word = take_word(r);
    const size_t i = find_kind(&word);

    if (i == KINDS)
        return refuse(r, begin, "\"%.*s\" is no kind; there are node, socket, numa, core, pci, gpu, nic",
                      (int)(r->at - begin < 24 ? r->at - begin : 24), begin);
    if (parent_kind != RT_SYSTEM && !may_be_inside(r, i, parent_kind))
        return refuse(r, begin, "a %s cannot be inside a %s", kinds[i].name, rt_vertex_kind_name(parent_kind));
    if (item->count > kinds[i].most)
        return refuse(r, begin, "there can be at most %u of a %s here", kinds[i].most, kinds[i].name);
    item->kind = (uint8_t)kinds[i].kind;
    item->column = (uint32_t)(begin - r->text) + 1;
    return true;
}

static bool take_list(struct reader *r, uint32_t parent_kind, uint8_t *first);

static bool take_inside(struct reader *r, struct rt_synthetic_item *item)
{
    const uint32_t group = r->group;
    bool grouped;

    if (*r->at != ':')
        return true;
    r->at++;
    skip_spaces(r);
    grouped = *r->at == '(';
    r->at += grouped;
    if (grouped)
        r->group = r->depth + 1;
    if (!take_list(r, item->kind, &item->inside))
        return false;
    r->group = group;
    if (!grouped)
        return true;
    if (*r->at != ')')
        return refuse(r, r->at, "a \")\" is missing");
    r->at++;
    skip_spaces(r);
    return true;
}

static bool take_item(struct reader *r, uint32_t parent_kind, uint8_t *index)
{
    struct rt_synthetic_item *item = &r->out->item[r->out->nitems];

    if (r->out->nitems == RT_SYNTHETIC_MOST_ITEMS)
        return refuse(r, r->at, "at most %d items can be described", RT_SYNTHETIC_MOST_ITEMS);
    *index = (uint8_t)r->out->nitems++;
    *item = (struct rt_synthetic_item){ .inside = RT_SYNTHETIC_NONE, .next = RT_SYNTHETIC_NONE, .ports = 1,
                                         .count = 1 };
    if (*r->at >= '0' && *r->at <= '9' && !take_number(r, "a count", 1u << 20, &item->count))
        return false;
    skip_spaces(r);
    return take_kind(r, parent_kind, item) && take_words(r, item) && take_inside(r, item);
}

static bool take_list(struct reader *r, uint32_t parent_kind, uint8_t *first)
{
    if (++r->depth > RT_SYNTHETIC_MOST_DEPTH)
        return refuse(r, r->at, "this is nested over %d deep", RT_SYNTHETIC_MOST_DEPTH);
    r->parent[r->depth] = (uint8_t)parent_kind;
    for (uint8_t *link = first;; r->at++) {
        skip_spaces(r);
        uint8_t index = RT_SYNTHETIC_NONE;
        if (!take_item(r, parent_kind, &index))
            return false;
        *link = index;
        link = &r->out->item[index].next;
        if (*r->at != ';' || next_is_outside(r))
            break;
    }
    r->depth--;
    return true;
}

ringtree_status rt_synthetic_parse(struct rt_synthetic *synthetic, const char *text, struct rt_error *error)
{
    struct reader reader = { .text = text, .at = text, .out = synthetic, .error = error,
                             .group = 1 };
    uint8_t first = RT_SYNTHETIC_NONE;

    synthetic->nitems = 0;
    if (!take_list(&reader, RT_SYSTEM, &first))
        return RINGTREE_INVALID_ARGUMENT;
    if (*reader.at) {
        refuse(&reader, reader.at, "the end was expected, or \";\" and another item");
        return RINGTREE_INVALID_ARGUMENT;
    }
    for (uint8_t i = first; i != RT_SYNTHETIC_NONE; i = synthetic->item[i].next)
        if ((synthetic->item[i].kind == RT_MACHINE) != (synthetic->item[first].kind == RT_MACHINE)) {
            refuse(&reader, text + synthetic->item[i].column - 1, "outermost are either nodes or parts of one node");
            return RINGTREE_INVALID_ARGUMENT;
        }
    return RINGTREE_OK;
}
