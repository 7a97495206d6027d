/* See broken.h. Links are the sound transport's own; only the calls are tampered with. */
#include "broken.h"
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const broken_names[BROKEN_KINDS] = {
    "not broken", "drops a slice", "changes the order", "corrupts a byte", "changes a frame", "counts too early",
    "never counts", "is never full", "ignores the call", "ignores the capacity", "writes before it checks",
    "writes beyond the slice", "delivers elsewhere", "moves a held slice", "reserves anew", "hides a loss",
    "leaks a descriptor", "is never flushed", "loses empty slices", "takes too large slices", "wakes always",
    "is nameless",
};

static struct rt_transport        broken;
static const struct rt_transport *sound;
static enum broken_kind           kind;
static uint64_t                   posted, sent_without, reserved; /* of the sender's thread */
static unsigned char              kept[4096]; /* the slice that is sent late */
static struct rt_frame            kept_frame;
static bool                       keeping;
static unsigned char             *elsewhere;

static ringtree_status b_open(struct rt_link *link, struct rt_error *error)
{
    if (link->sender) posted = sent_without = reserved = 0, keeping = false;
    if (kind == BROKEN_LEAKS_DESCRIPTOR && open("/dev/null", O_RDONLY | O_CLOEXEC) < 0) return RINGTREE_SYSTEM;
    return sound->open(link, error);
}

static void *b_reserve(struct rt_link *link, struct rt_error *error)
{
    unsigned char *memory = sound->reserve(link, error);
    if (kind == BROKEN_RESERVES_ANEW && memory && reserved++ % 2) return elsewhere;
    return memory;
}

static ringtree_status pass_on(struct rt_link *link, const struct rt_frame *frame, const void *data,
                               struct rt_error *error)
{
    const ringtree_status status = sound->send(link, frame, data, error);
    if (status == RINGTREE_OK) posted++;
    return status;
}

/* The seventh slice waits until the eighth is sent. */
static ringtree_status send_reordered(struct rt_link *link, const struct rt_frame *frame, const void *data,
                                      struct rt_error *error)
{
    if (posted == 6 && !keeping && frame->bytes <= sizeof(kept) && frame->bytes > 0) {
        memcpy(kept, data, frame->bytes);
        kept_frame = *frame;
        keeping = true;
        return RINGTREE_OK;
    }
    const ringtree_status status = pass_on(link, frame, data, error);
    if (status != RINGTREE_OK || !keeping || posted != 7) return status;
    while (pass_on(link, &kept_frame, kept, error) == RINGTREE_IN_PROGRESS) continue;
    keeping = false;
    return RINGTREE_OK;
}

static ringtree_status b_send(struct rt_link *link, const struct rt_frame *frame, const void *data,
                              struct rt_error *error)
{
    struct rt_frame changed = *frame;
    if (kind == BROKEN_REORDERS) return send_reordered(link, frame, data, error);
    if ((kind == BROKEN_DROPS && posted == 5 && !sent_without) || (kind == BROKEN_LOSES_EMPTY && frame->bytes == 0)) {
        sent_without++;
        return RINGTREE_OK;
    }
    if (kind == BROKEN_TAKES_TOO_LARGE && frame->bytes > link->slot_bytes) return RINGTREE_OK;
    if (kind == BROKEN_CHANGES_FRAME && posted == 9) changed.count ^= 1;
    const ringtree_status status = pass_on(link, &changed, data, error);
    if (kind == BROKEN_NEVER_FULL && status == RINGTREE_IN_PROGRESS && posted > 0) return RINGTREE_OK;
    if (kind == BROKEN_HIDES_LOSS && status == RINGTREE_PEER_LOST) return RINGTREE_IN_PROGRESS;
    return status;
}

static uint64_t b_sent(struct rt_link *link, struct rt_error *error)
{
    const uint64_t sent = sound->sent(link, error);
    if (kind == BROKEN_COUNTS_EARLY) return posted;
    if (kind == BROKEN_COUNTS_NEVER) return 0;
    return sent + sent_without;
}

static ringtree_status b_recv(struct rt_link *link, const struct rt_frame *expect, void *into, size_t capacity,
                              struct rt_frame *frame, const void **data, struct rt_error *error)
{
    if (kind == BROKEN_WRITES_EARLY && into && capacity) ((unsigned char *)into)[0] ^= 0xff;
    if (kind == BROKEN_IGNORES_CALL) expect = NULL;
    if (kind == BROKEN_IGNORES_CAPACITY && into && link->slot_bytes > capacity + 60) capacity += 60;
    if (kind == BROKEN_DELIVERS_ELSEWHERE) into = NULL;
    const ringtree_status status = sound->recv(link, expect, into, capacity, frame, data, error);
    if (kind == BROKEN_HIDES_LOSS && status == RINGTREE_PEER_LOST) return RINGTREE_IN_PROGRESS;
    if (status != RINGTREE_OK || !*data) return status;
    unsigned char *bytes = (unsigned char *)(uintptr_t)*data;
    if (kind == BROKEN_CORRUPTS && frame->bytes > 100) bytes[frame->bytes - 1] ^= 1;
    if (kind == BROKEN_WRITES_BEYOND && into) bytes[frame->bytes] = 0;
    if (kind == BROKEN_MOVES_HELD && frame->bytes <= link->slot_bytes && !into) {
        memcpy(elsewhere, bytes, frame->bytes);
        *data = elsewhere;
        elsewhere[0] = frame->sequence == 1 ? elsewhere[0] ^ 1 : elsewhere[0];
    }
    return status;
}

static int b_pollfd(struct rt_link *link, short *events)
{
    const int fd = sound->pollfd(link, events);
    if (kind == BROKEN_WAKES_ALWAYS) *events = POLLIN | POLLOUT;
    return fd;
}

static bool b_flushed(struct rt_link *link)
{
    return sound->flushed(link) && kind != BROKEN_NEVER_FLUSHED;
}

static const char *b_describe(struct rt_link *link, char *text, size_t capacity)
{
    if (kind == BROKEN_NAMELESS) return snprintf(text, capacity, "?"), text;
    return sound->describe(link, text, capacity);
}

const struct rt_transport *broken_transport(const struct rt_transport *base, enum broken_kind which)
{
    static unsigned char memory[1 << 20];
    sound = base;
    kind = which;
    elsewhere = memory;
    broken = *base;
    broken.open = b_open;
    broken.reserve = b_reserve;
    broken.send = b_send;
    broken.sent = b_sent;
    broken.recv = b_recv;
    broken.pollfd = b_pollfd;
    broken.flushed = b_flushed;
    broken.describe = b_describe;
    return &broken;
}
