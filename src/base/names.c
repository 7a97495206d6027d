/* The words for the numbers of ringtree.h. */
#include "names.h"
#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const status_names[] = {
    [RINGTREE_OK] = "RINGTREE_OK",
    [RINGTREE_IN_PROGRESS] = "RINGTREE_IN_PROGRESS",
    [RINGTREE_INVALID_ARGUMENT] = "RINGTREE_INVALID_ARGUMENT",
    [RINGTREE_INVALID_SETTING] = "RINGTREE_INVALID_SETTING",
    [RINGTREE_MISMATCH] = "RINGTREE_MISMATCH",
    [RINGTREE_TIMEOUT] = "RINGTREE_TIMEOUT",
    [RINGTREE_PEER_LOST] = "RINGTREE_PEER_LOST",
    [RINGTREE_UNREACHABLE] = "RINGTREE_UNREACHABLE",
    [RINGTREE_REFUSED] = "RINGTREE_REFUSED",
    [RINGTREE_NO_MEMORY] = "RINGTREE_NO_MEMORY",
    [RINGTREE_SYSTEM] = "RINGTREE_SYSTEM",
    [RINGTREE_UNSUPPORTED] = "RINGTREE_UNSUPPORTED",
    [RINGTREE_ABORTED] = "RINGTREE_ABORTED",
    [RINGTREE_INTERNAL] = "RINGTREE_INTERNAL",
};

static const struct {
    const char *name;
    size_t      size;
} types[] = {
    [RINGTREE_INT8] = { "int8", 1 },
    [RINGTREE_UINT8] = { "uint8", 1 },
    [RINGTREE_INT32] = { "int32", 4 },
    [RINGTREE_UINT32] = { "uint32", 4 },
    [RINGTREE_INT64] = { "int64", 8 },
    [RINGTREE_UINT64] = { "uint64", 8 },
    [RINGTREE_FLOAT16] = { "float16", 2 },
    [RINGTREE_FLOAT32] = { "float32", 4 },
    [RINGTREE_FLOAT64] = { "float64", 8 },
    [RINGTREE_BFLOAT16] = { "bfloat16", 2 },
    [RINGTREE_FLOAT8_E4M3] = { "float8_e4m3", 1 },
    [RINGTREE_FLOAT8_E5M2] = { "float8_e5m2", 1 },
};
_Static_assert(COUNT(types) == RINGTREE_TYPE_COUNT, "a type without a name");

static const char *const collective_names[] = {
    [RINGTREE_ALL_REDUCE] = "all_reduce",
    [RINGTREE_REDUCE] = "reduce",
    [RINGTREE_BROADCAST] = "broadcast",
    [RINGTREE_REDUCE_SCATTER] = "reduce_scatter",
    [RINGTREE_ALL_GATHER] = "all_gather",
    [RINGTREE_ALL_TO_ALL] = "all_to_all",
    [RINGTREE_GATHER] = "gather",
    [RINGTREE_SCATTER] = "scatter",
    [RINGTREE_BARRIER] = "barrier",
    [RINGTREE_SEND_RECV] = "send_recv",
    [RINGTREE_ALL_TO_ALL_V] = "all_to_all_v",
};
_Static_assert(COUNT(collective_names) == RINGTREE_COLLECTIVE_COUNT, "a collective without a name");

static const char *const op_names[] = { "sum", "prod", "max", "min", "avg" };

const char *ringtree_status_name(ringtree_status status)
{
    return (size_t)status < COUNT(status_names) ? status_names[status] : "?";
}

size_t ringtree_type_size(ringtree_type type)
{
    return (size_t)type < COUNT(types) ? types[type].size : 0;
}

const char *ringtree_type_name(ringtree_type type)
{
    return (size_t)type < COUNT(types) ? types[type].name : "?";
}

const char *ringtree_collective_name(ringtree_collective collective)
{
    return (size_t)collective < COUNT(collective_names) ? collective_names[collective] : "?";
}

const char *rt_op_name(ringtree_op op)
{
    return (op & 0xffff) < COUNT(op_names) ? op_names[op & 0xffff] : "premul_sum";
}

const char *ringtree_codec_name(ringtree_codec_kind kind)
{
    static const char *const names[] = { "none", "bf16", "fp16", "q8", "q4", "topk", "auto" };
    return (size_t)kind < COUNT(names) ? names[kind] : "?";
}

const char *rt_codec_tag_text(uint32_t op, char *text, size_t capacity)
{
    static const char *const flags[] = { "stochastic", "int8 values", "feedback", "reselect",
                                         "forced", "small too", "by ring", "by tree", "momentum" };
    const uint32_t tag = op >> 16;
    text[0] = '\0';
    if (!(tag & RT_CODEC_TAG)) return text;
    const char *name = ringtree_codec_name((ringtree_codec_kind)(tag >> 12 & 7));
    int used = snprintf(text, capacity, ", codec %s, block %u", name, 32u << (tag >> 9 & 7));
    for (uint32_t i = 0; i < COUNT(flags) && used > 0 && (size_t)used < capacity; i++)
        if (tag >> i & 1) used += snprintf(text + used, capacity - (size_t)used, ", %s", flags[i]);
    return text;
}

#define TEXT_OF(number) #number
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *ringtree_version(void)
{
    return VERSION_TEXT(RINGTREE_VERSION_MAJOR, RINGTREE_VERSION_MINOR, RINGTREE_VERSION_PATCH);
}
