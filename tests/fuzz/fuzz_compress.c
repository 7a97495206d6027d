/*
 * A rank in a compressed collective whose peers are played: heads, values, codes and proposals of ranges as they would
 * come, changed where the input says so. The call ends, well or with a sentence that names a rank; all arrays have
 * exactly their size, so that ASan sees one byte too many. Unchanged messages must be taken.
 *
 * Layout: even first byte, a call: shape of the call (7 bytes), then for each message that is asked for an order and
 * what it needs; without more of them all goes right. Odd first byte, ranges: ranks, count (3 bytes), proposals.
 */
#include "codec/sparse.h"
#include "engine/compress.h"
#include "engine/engine.h"
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 4
#define COUNT_MAX 20000
#define ROUNDS_MAX 100000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool right)
{
    if (!right) abort();
}

struct input {
    const uint8_t *at, *end;
};

static uint32_t next(struct input *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

/* ---- the links: what is sent is thrown away, what comes is made here */

struct played {
    struct rt_link link;
    uint64_t       posted;
    uint64_t       round;   /* of the piece that comes next */
    uint32_t       turn;
    bool           proposed; /* its ranges came */
    unsigned char *slot, *message;
};

static struct world {
    struct rt_engine    engine;
    struct rt_operation op;
    struct input        in;
    bool                changed;
} world;

static ringtree_status open_link(struct rt_link *link, struct rt_error *error)
{
    (void)error;
    link->slots = 2;
    link->slot_bytes = (uint32_t)world.engine.slot_bytes;
    return RINGTREE_OK;
}

static void *reserve(struct rt_link *link, struct rt_error *error)
{
    struct played *p = (struct played *)link;
    (void)error;
    if (!p->slot) p->slot = malloc(link->slot_bytes);
    return p->slot;
}

static ringtree_status take_all(struct rt_link *link, const struct rt_frame *frame, const void *data,
                                struct rt_error *error)
{
    (void)data, (void)error;
    must(frame->bytes <= link->slot_bytes);
    ((struct played *)link)->posted++;
    return RINGTREE_OK;
}

static uint64_t sent(struct rt_link *link, struct rt_error *error)
{
    (void)error;
    return ((struct played *)link)->posted;
}

/* Does a piece of that owner come on this link? */
static bool comes(const struct rt_link *link, uint32_t owner)
{
    const struct rt_squad *s = world.engine.compressor->squad;
    const uint32_t self = world.engine.fabric.rank, root = rt_compress_root(&world.op);
    uint32_t from;
    if (link->lane == RT_TO_OWNER) return owner == self;
    if (link->lane == RT_UP)
        return s->node_of[owner] != s->node_of[self] && rt_leader(s, s->node_of[self], owner) == self;
    if (root == RT_NONE && owner == self) return false;
    return rt_result_route(&world.engine, &world.op, owner, &from) == link->lane && from == link->peer;
}

/* In the order in which all ranks of a node send. */
static bool next_piece(struct played *p, struct rt_piece *piece)
{
    const struct rt_compressor *c = world.engine.compressor;
    while (p->round < c->rounds) {
        const uint32_t n = world.engine.fabric.nranks, shift = c->squad->node_of[world.engine.fabric.rank] + 1;
        const uint32_t owner = c->squad->order[(p->turn + shift) % n];
        const uint64_t round = p->round;
        p->turn = (p->turn + 1) % n;
        p->round += p->turn == 0;
        if (comes(&p->link, owner) && rt_piece_of(c, owner, round, piece)) return true;
    }
    return false;
}

/* What that rank gives: values to its own node, codes to others. */
static size_t fill(const struct rt_link *link, const struct rt_piece *piece, unsigned char *to)
{
    const struct rt_squad *s = world.engine.compressor->squad;
    const bool together = s->node_of[link->peer] == s->node_of[world.engine.fabric.rank];
    float *values = malloc(piece->count * sizeof *values);
    for (size_t i = 0; i < piece->count; i++) values[i] = (float)((i * 7 + link->peer) % 64);
    size_t length = piece->count * sizeof *values;
    if (together && link->lane <= RT_UP) memcpy(to, values, length);
    else {
        struct rt_part part = rt_part_of(&world.engine, &world.op, piece, false);
        part.cut = (struct rt_cut){ 0x42700000, 0 }; /* 60 */
        length = rt_codec_encode(&world.op.compression.codec, &part, values, NULL, to, NULL);
    }
    free(values);
    return length;
}

/* Returns the message's bytes; 0: none is to come. */
static size_t make(struct played *p, unsigned char *message)
{
    const struct rt_compressor *c = world.engine.compressor;
    const uint32_t n = world.engine.fabric.nranks;
    struct rt_piece piece = { p->link.peer, 0, 0, 0 };
    unsigned char *data = message + sizeof(struct rt_piece_head);
    size_t length;
    if (!c->ready && rt_ranges_balanced(&world.engine, &world.op)) {
        if (p->proposed) return 0;
        p->proposed = true;
        uint64_t wish[RANKS_MAX + 1];
        const struct rt_cut cut = { 0x7f000000, 0 };
        rt_sparse_wish(world.op.call.input, world.op.call.count, &cut, NULL, n, wish);
        memcpy(data, wish, length = (n + 1) * sizeof *wish);
    } else {
        if (!next_piece(p, &piece)) return 0;
        length = fill(&p->link, &piece, data);
    }
    const struct rt_piece_head head = { piece.owner, piece.index };
    memcpy(message, &head, sizeof head);
    return sizeof head + length;
}

static void scribble(unsigned char *bytes, size_t length)
{
    const size_t at = next(&world.in) | next(&world.in) << 8;
    if (length) bytes[at % length] ^= (unsigned char)(next(&world.in) | 1);
}

/* One order. Returns the message's new length. */
static size_t change(uint32_t order, struct rt_frame *frame, unsigned char *message, size_t length)
{
    world.changed = true;
    switch (order) {
    case 1: scribble(message, sizeof(struct rt_piece_head)); break;
    case 2: scribble((unsigned char *)frame, offsetof(struct rt_frame, bytes)); break;
    case 3: length = (next(&world.in) | next(&world.in) << 8) % (world.engine.slot_bytes + 1); break;
    default:
        for (uint32_t times = order - 3; times; times--) scribble(message, length);
        break;
    }
    return length;
}

static ringtree_status give(struct rt_link *link, const struct rt_frame *expect, void *into, size_t capacity,
                            struct rt_frame *frame, const void **data, struct rt_error *error)
{
    struct played *p = (struct played *)link;
    const uint32_t order = next(&world.in) % 16;
    unsigned char *all = calloc(1, link->slot_bytes);
    (void)into, (void)capacity, (void)error;
    must(!p->message);
    size_t length = order == 15 ? 0 : make(p, all);
    if (length && order && order < 8) length = change(order, (*frame = *expect, frame), all, length);
    else *frame = *expect;
    const bool here = length || (order == 3 && world.changed);
    if (here) {
        frame->bytes = (uint32_t)length;
        p->message = malloc(length + !length);
        memcpy(p->message, all, length);
        *data = p->message;
    }
    free(all);
    return here ? RINGTREE_OK : RINGTREE_IN_PROGRESS;
}

static void release(struct rt_link *link)
{
    struct played *p = (struct played *)link;
    free(p->message);
    p->message = NULL;
}

static void end_link(struct rt_link *link)
{
    release(link);
    free(((struct played *)link)->slot);
}

static const struct rt_transport transport = { .size = sizeof transport, .name = "played",
                                               .link_size = sizeof(struct played), .open = open_link,
                                               .reserve = reserve, .send = take_all, .sent = sent, .recv = give,
                                               .release = release, .close = end_link };

/* ---- the rest of the engine */

const struct rt_place *rt_control_places(const struct rt_control *control)
{
    static const struct rt_place places[RANKS_MAX];
    (void)control;
    return places;
}

ringtree_status rt_mismatch(struct rt_engine *engine, const struct rt_frame *mine, uint32_t peer,
                            const struct rt_frame *theirs, struct rt_error *error)
{
    must(memcmp(mine, theirs, offsetof(struct rt_frame, bytes)) != 0);
    return rt_fail(error, RINGTREE_MISMATCH, "rank %u and rank %u", engine->fabric.rank, peer);
}

/* ---- a call */

struct shape {
    struct rt_codec_state *state;
    float                 *input, *output;
};

static float *floats(size_t count)
{
    float *values = malloc(count * sizeof *values + 1);
    for (size_t i = 0; i < count; i++) values[i] = (float)(i % 101);
    return values;
}

static void shape_codec(struct rt_codec *codec, struct input *in)
{
    const uint32_t kind = next(in), how = next(in);
    codec->kind = RT_CODEC_BF16 + kind % (RT_CODEC_KIND_COUNT - RT_CODEC_BF16);
    codec->block = codec->kind == RT_CODEC_TOPK ? 0 : 32u << how % 4;
    codec->ratio = 0.01f;
    codec->values = how >> 2 & 1;
    codec->feedback = how >> 3 & 1;
    world.op.compression.apart = how >> 4 & 1;
    world.op.compression.reselect = codec->feedback && codec->kind == RT_CODEC_TOPK && (how >> 5 & 1);
}

static struct shape shape_call(struct input *in)
{
    static const uint8_t collectives[] = { RINGTREE_ALL_REDUCE, RINGTREE_ALL_REDUCE, RINGTREE_REDUCE_SCATTER,
                                           RINGTREE_ALL_GATHER, RINGTREE_BROADCAST };
    static const uint8_t nodes[][RANKS_MAX] = { { 0, 1, 2, 3 }, { 0, 0, 1, 1 }, { 0, 1, 1, 0 }, { 0, 1, 1, 1 } };
    static uint32_t node_of[RANKS_MAX];
    struct rt_engine *e = &world.engine;
    const uint32_t n = 2 + next(in) % (RANKS_MAX - 1), layout = next(in) % 4, self = next(in) % n;
    const uint8_t collective = collectives[next(in) % 5];
    e->fabric.rank = self;
    e->fabric.nranks = n;
    e->node_of = node_of;
    for (uint32_t r = 0; r < n; r++) {
        node_of[r] = nodes[layout][r];
        if (node_of[r] >= e->layout.nnodes) e->layout.nnodes = node_of[r] + 1;
    }
    if (e->layout.nnodes == 1) world.op.compression.apart = true;
    shape_codec(&world.op.compression.codec, in);
    world.op.compression.apart |= e->layout.nnodes == 1;
    e->slot_bytes = world.op.compression.codec.kind == RT_CODEC_TOPK ? 20480 : 1200; /* one group, one block */
    const bool blocks = collective == RINGTREE_REDUCE_SCATTER || collective == RINGTREE_ALL_GATHER;
    const size_t most = world.op.compression.codec.kind == RT_CODEC_TOPK ? COUNT_MAX : 2000;
    const size_t count = 1 + (next(in) | next(in) << 8) % (blocks ? most / n : most);
    const bool scatters = collective == RINGTREE_REDUCE_SCATTER, gathers = collective == RINGTREE_ALL_GATHER;
    const size_t own = count * (scatters ? n : 1);
    struct shape shape = { NULL, floats(own), floats(count * (gathers ? n : 1)) };
    const struct rt_codec_state kept = { .count = own, .has_residual = 1 };
    must(rt_codec_state_new(&shape.state, &kept, NULL) == RINGTREE_OK);
    world.op.compression.state = world.op.compression.codec.feedback ? shape.state : NULL;
    world.op.call = (struct rt_call){ .frame = { .count = count, .collective = collective, .type = RINGTREE_FLOAT32,
                                                 .root = collective == RINGTREE_BROADCAST ? count % n : RT_NONE },
                                      .input = shape.input, .output = shape.output, .count = count,
                                      .element = sizeof(float), .type = RINGTREE_FLOAT32 };
    return shape;
}

static void close_all(struct rt_engine *e)
{
    for (struct rt_wire *wire = e->all_wires, *after; wire; wire = after) {
        after = wire->next;
        wire->link->transport->close(wire->link);
        free(wire->link);
        free(wire);
    }
    rt_compress_close(e->compressor);
}

static void check_end(ringtree_status status, const struct rt_error *error)
{
    must(status == RINGTREE_OK || status == RINGTREE_MISMATCH);
    must(status == RINGTREE_OK || (world.changed && error->status == status && strstr(error->text, "rank ")));
}

static void play(struct input in)
{
    static struct rt_wire *wires[2 * RT_LINK_LANES * RANKS_MAX];
    static const struct rt_transport *const reach[RANKS_MAX] = { &transport, &transport, &transport, &transport };
    static const struct rt_settings settings = { .text[RT_FAULT] = "" };
    struct rt_error error = { 0 };
    struct rt_engine *e = &world.engine;
    memset(&world, 0, sizeof world);
    memset(wires, 0, sizeof wires);
    e->wires = wires;
    e->reach = (const struct rt_transport **)(uintptr_t)reach;
    e->fabric.settings = &settings;
    struct shape shape = shape_call(&in);
    const struct rt_call *call = &world.op.call;
    world.in = in;
    must(rt_compress_open(e, &world.op.compression, (ringtree_collective)call->frame.collective, call->frame.root,
                          &error) == RINGTREE_OK);
    ringtree_status status = RINGTREE_IN_PROGRESS;
    for (uint32_t round = 0; status == RINGTREE_IN_PROGRESS && round < ROUNDS_MAX; round++) {
        bool moved;
        status = rt_compress_advance(e, &world.op, &moved, &error);
    }
    check_end(status, &error);
    close_all(e);
    rt_codec_state_free(shape.state);
    free(shape.input);
    free(shape.output);
}

/* ---- ranges */

static void bounds(struct input in)
{
    uint64_t wishes[RANKS_MAX * (RANKS_MAX + 1)] = { 0 }, ranges[RANKS_MAX + 1];
    const uint32_t n = 1 + next(&in) % RANKS_MAX;
    const uint64_t count = next(&in) | next(&in) << 8 | next(&in) << 16;
    struct rt_error error = { 0 };
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t i = 0; i <= n; i++) {
            uint64_t *wish = &wishes[r * (n + 1) + i];
            const uint32_t how = next(&in);
            if (how % 2) for (int byte = 0; byte < 8; byte++) *wish = *wish << 8 | next(&in);
            else *wish = i == n ? count : i ? how / 2 * (uint64_t)RT_TOPK_GROUP : 0;
        }
    const ringtree_status status = rt_sparse_bounds(wishes, count, n, ranges, &error);
    if (status) {
        must(status == RINGTREE_MISMATCH && strstr(error.text, "rank "));
        return;
    }
    must(ranges[0] == 0 && ranges[n] == count);
    for (uint32_t i = 0; i < n; i++) must(ranges[i] <= ranges[i + 1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    const struct input in = { data + 1, data + size };
    if (data[0] % 2) bounds(in);
    else play(in);
    return 0;
}
