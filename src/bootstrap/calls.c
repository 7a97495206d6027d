/*
 * The record of calls: a ring that the calling thread writes and the control thread reads, without locks. A reader may
 * be overtaken, so it looks at the head again afterwards: every word is stored with release after the head that
 * precedes it, so whoever saw a newer word also sees that newer head.
 */
#include "inside.h"
#include "base/names.h"
#include <stdio.h>
#include <string.h>

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ull; /* an odd number near 2^64 / golden ratio */
    return hash ^ hash >> 29;
}

void rt_control_record(struct rt_control *c, const struct rt_frame *frame)
{
    struct rt_call_ring *ring = &c->calls;
    const uint64_t ordinal = atomic_load_explicit(&ring->head, memory_order_relaxed);
    struct rt_call_slot *slot = &ring->slot[ordinal % RT_CALLS_KEPT];
    uint64_t word[5] = { frame->sequence, frame->count, frame->op | (uint64_t)frame->root << 32,
                         frame->collective | (uint64_t)frame->type << 8 | (uint64_t)frame->plan << 16 };

    for (int i = 0; i < 4; i++)
        ring->hash = mix(ring->hash, word[i]);
    word[4] = ring->hash;
    for (int i = 0; i < 5; i++)
        atomic_store_explicit(&slot->word[i], word[i], memory_order_release);
    atomic_store_explicit(&ring->head, ordinal + 1, memory_order_release);
}

uint64_t rt_control_history(const struct rt_control *c)
{
    return c->calls.hash;
}

void rt_control_record_done(struct rt_control *c, uint64_t sequence)
{
    atomic_store_explicit(&c->calls.finished, sequence + 1, memory_order_release);
}

bool rt_call_at(const struct rt_call_ring *ring, uint64_t ordinal, struct rt_frame *frame, uint64_t *hash)
{
    const struct rt_call_slot *slot = &ring->slot[ordinal % RT_CALLS_KEPT];
    uint64_t word[5], head = atomic_load_explicit(&ring->head, memory_order_acquire);

    if (ordinal >= head)
        return false;
    for (int i = 0; i < 5; i++)
        word[i] = atomic_load_explicit(&slot->word[i], memory_order_acquire);
    head = atomic_load_explicit(&ring->head, memory_order_acquire);
    if (head - ordinal >= RT_CALLS_KEPT) /* the writer may be at this slot again */
        return false;
    *frame = (struct rt_frame){ .sequence = word[0], .count = word[1], .op = (uint32_t)word[2],
                                .root = (uint32_t)(word[2] >> 32), .collective = (uint8_t)word[3],
                                .type = (uint8_t)(word[3] >> 8), .plan = (uint8_t)(word[3] >> 16) };
    *hash = word[4];
    return true;
}

/* The codec, or the root. topk has its ratio where others have a root. */
static int say_codec(const struct rt_frame *frame, char *text, size_t capacity)
{
    char codec[120];
    const char *words = rt_codec_tag_text(frame->op, codec, sizeof codec);
    float ratio;
    if (frame->root == RT_NONE) return snprintf(text, capacity, "%s", words);
    if (!*words || frame->collective == RINGTREE_BROADCAST)
        return snprintf(text, capacity, "%s, root %u", words, frame->root);
    memcpy(&ratio, &frame->root, sizeof ratio);
    return snprintf(text, capacity, "%s, ratio %g", words, (double)ratio);
}

const char *rt_call_text(const struct rt_frame *frame, char *text, size_t capacity)
{
    const ringtree_collective collective = (ringtree_collective)frame->collective;
    int used;

    if (frame->collective == RT_CALL_DESTROY || frame->collective == RT_CALL_SPLIT) {
        snprintf(text, capacity, "%s #%" PRIu64, frame->collective == RT_CALL_SPLIT ? "split" : "destroy",
                 frame->sequence);
        return text;
    }
    used = snprintf(text, capacity, "%s #%" PRIu64, ringtree_collective_name(collective), frame->sequence);
    if (collective == RINGTREE_BARRIER || used < 0 || (size_t)used >= capacity)
        return text;
    used += snprintf(text + used, capacity - (size_t)used, " (count %" PRIu64 ", %s", frame->count,
                     ringtree_type_name((ringtree_type)frame->type));
    if ((collective == RINGTREE_ALL_REDUCE || collective == RINGTREE_REDUCE || collective == RINGTREE_REDUCE_SCATTER) &&
        (size_t)used < capacity)
        used += snprintf(text + used, capacity - (size_t)used, ", %s", rt_op_name(frame->op));
    if ((size_t)used < capacity)
        used += say_codec(frame, text + used, capacity - (size_t)used);
    if (frame->plan && (size_t)used < capacity)
        used += snprintf(text + used, capacity - (size_t)used, ", way %u", frame->plan - 1u);
    if ((size_t)used < capacity)
        snprintf(text + used, capacity - (size_t)used, ")");
    return text;
}
