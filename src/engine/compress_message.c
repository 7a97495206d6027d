/* The messages of compress.h: a head and codes or values, in one slot. */
#include "compress.h"
#include "engine.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static struct rt_frame frame_of(const struct rt_operation *op, uint32_t lane, size_t bytes)
{
    struct rt_frame frame = op->call.frame;
    frame.lane = (uint8_t)lane;
    frame.bytes = (uint32_t)bytes;
    return frame;
}

ringtree_status rt_piece_room(struct rt_engine *engine, uint32_t lane, uint32_t to, unsigned char **codes,
                              struct rt_wire **blocked, struct rt_error *error)
{
    struct rt_wire *wire = rt_wire(engine, true, lane, to);
    unsigned char *slot = wire->link->transport->reserve(wire->link, error);
    *blocked = slot ? NULL : wire;
    if (!slot) return error->status ? error->status : RINGTREE_IN_PROGRESS;
    *codes = slot + sizeof(struct rt_piece_head);
    return RINGTREE_OK;
}

#ifdef RINGTREE_FAULT_SWITCHES
/* RINGTREE_FAULT=codes:RANK cuts a byte off what that rank sends, =place:RANK gives the piece a number that is not. */
static size_t spoil(const struct rt_engine *engine, struct rt_piece_head *head, size_t length)
{
    const char *fault = engine->fabric.settings->text[RT_FAULT];
    if (!*fault || strchr(fault, ':') != fault + 5 || (uint32_t)atoi(fault + 6) != engine->fabric.rank) return length;
    if (!strncmp(fault, "place", 5)) head->index += 7;
    return !strncmp(fault, "codes", 5) && length ? length - 1 : length;
}
#else
#define spoil(engine, head, length) (length)
#endif

ringtree_status rt_piece_post(struct rt_engine *engine, const struct rt_operation *op, uint32_t lane, uint32_t to,
                              const struct rt_piece *piece, unsigned char *codes, size_t length,
                              struct rt_error *error)
{
    struct rt_piece_head head = { piece->owner, piece->index };
    length = spoil(engine, &head, length);
    unsigned char *slot = codes - sizeof head;
    memcpy(slot, &head, sizeof head);
    const struct rt_frame frame = frame_of(op, lane, sizeof head + length);
    return rt_wire_send(rt_wire(engine, true, lane, to), &frame, slot, error);
}

ringtree_status rt_piece_send(struct rt_engine *engine, const struct rt_operation *op, uint32_t lane, uint32_t to,
                              const struct rt_piece *piece, const void *bytes, size_t length,
                              struct rt_wire **blocked, struct rt_error *error)
{
    unsigned char *codes;
    ringtree_status status = rt_piece_room(engine, lane, to, &codes, blocked, error);
    if (status != RINGTREE_OK) return status;
    memcpy(codes, bytes, length);
    return rt_piece_post(engine, op, lane, to, piece, codes, length, error);
}

ringtree_status rt_piece_take(struct rt_engine *engine, const struct rt_operation *op, uint32_t lane, uint32_t from,
                              struct rt_piece_head *head, const unsigned char **data, size_t *length,
                              struct rt_wire **blocked, struct rt_error *error)
{
    struct rt_wire *wire = rt_wire(engine, false, lane, from);
    const struct rt_frame expect = frame_of(op, lane, 0);
    struct rt_frame frame;
    const void *slot;
    *blocked = wire;
    ringtree_status status = wire->link->transport->recv(wire->link, &expect, NULL, 0, &frame, &slot, error);
    if (status != RINGTREE_OK) return status;
    *blocked = NULL;
    if (memcmp(&frame, &expect, offsetof(struct rt_frame, bytes)) != 0)
        return rt_mismatch(engine, &expect, from, &frame, error);
    if (!slot || frame.bytes < sizeof *head) {
        rt_fail(error, RINGTREE_MISMATCH, "a message of %u bytes", frame.bytes);
        return rt_bad_piece(engine, op, from, error);
    }
    memcpy(head, slot, sizeof *head);
    *data = (const unsigned char *)slot + sizeof *head;
    *length = frame.bytes - sizeof *head;
    return RINGTREE_OK;
}

ringtree_status rt_piece_expect(struct rt_engine *engine, const struct rt_operation *op, uint32_t lane, uint32_t from,
                                const struct rt_piece *piece, const unsigned char **data, size_t *length,
                                struct rt_wire **blocked, struct rt_error *error)
{
    struct rt_piece_head head;
    ringtree_status status = rt_piece_take(engine, op, lane, from, &head, data, length, blocked, error);
    if (status != RINGTREE_OK || (head.owner == piece->owner && head.index == piece->index)) return status;
    rt_fail(error, RINGTREE_MISMATCH, "piece %u of owner %u, not piece %u of owner %u", head.index, head.owner,
            piece->index, piece->owner);
    return rt_bad_piece(engine, op, from, error);
}

void rt_piece_release(struct rt_engine *engine, uint32_t lane, uint32_t from)
{
    struct rt_link *link = rt_wire(engine, false, lane, from)->link;
    link->transport->release(link);
}

/* ---- what is waited for */

struct visit {
    bool (*on)(struct rt_wire *wire, uint32_t peer, void *context);
    void *context;
    bool  more;
};

static void visit_wire(struct visit *visit, struct rt_wire *wire)
{
    if (wire && visit->more) visit->more = visit->on(wire, wire->link->peer, visit->context);
}

bool rt_compress_blocked(struct rt_engine *engine, const struct rt_operation *op,
                         bool (*on)(struct rt_wire *wire, uint32_t peer, void *context), void *context)
{
    const struct rt_compressor *c = engine->compressor;
    struct visit visit = { on, context, c->begun };
    if (!c->ready) visit_wire(&visit, c->gather.blocked);
    if (c->ready && !c->own.done) visit_wire(&visit, c->own.blocked);
    if (c->ready && !c->up.done) visit_wire(&visit, c->up.blocked);
    for (uint32_t owner = 0; c->missing && visit.more && owner < engine->fabric.nranks; owner++) {
        uint32_t from;
        if (owner == engine->fabric.rank || c->results[owner].got >= rt_pieces_of(c, owner)) continue;
        const uint32_t lane = rt_result_route(engine, op, owner, &from);
        if (!c->results[owner].held) visit_wire(&visit, rt_wire(engine, false, lane, from));
    }
    for (uint32_t lane = 0; lane < RT_COMPRESS_LANES; lane++)
        for (uint32_t peer = 0; visit.more && peer < engine->fabric.nranks; peer++) {
            struct rt_wire *wire = rt_wire(engine, true, lane, peer);
            if (wire && !rt_wire_idle(wire, NULL)) visit_wire(&visit, wire);
        }
    return visit.more;
}
