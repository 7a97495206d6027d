/* Wires: links opened on first use, with a count of the slices given to them. */
#include "engine.h"
#include <stdlib.h>

struct rt_wire *rt_wire(struct rt_engine *engine, bool sender, uint32_t lane, uint32_t peer)
{
    return engine->wires[((size_t)sender * RT_LINK_LANES + lane) * engine->fabric.nranks + peer];
}

static struct rt_wire *wire_new(struct rt_engine *engine, bool sender, uint32_t lane, uint32_t peer)
{
    const struct rt_transport *transport = engine->reach[peer];
    struct rt_wire *wire = calloc(1, sizeof *wire);
    struct rt_link *link = calloc(1, transport->link_size);
    if (!wire || !link) {
        free(wire);
        free(link);
        return NULL;
    }
    *link = (struct rt_link){ .transport = transport, .fabric = &engine->fabric, .peer = peer, .lane = lane,
                              .sender = sender };
    wire->link = link;
    return wire;
}

ringtree_status rt_wire_open(struct rt_engine *engine, bool sender, uint32_t lane, uint32_t peer,
                             struct rt_error *error)
{
    if (rt_wire(engine, sender, lane, peer)) return RINGTREE_OK;
    struct rt_wire *wire = wire_new(engine, sender, lane, peer);
    if (!wire) return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory for a link", engine->fabric.rank);
    ringtree_status status = wire->link->transport->open(wire->link, error);
    if (status == RINGTREE_OK && wire->link->slot_bytes < engine->slot_bytes)
        status = rt_fail(error, RINGTREE_INTERNAL, "rank %u: a %s link to rank %u has slots of %u bytes, not %zu",
                         engine->fabric.rank, wire->link->transport->name, peer, wire->link->slot_bytes,
                         engine->slot_bytes);
    if (status != RINGTREE_OK) {
        wire->link->transport->close(wire->link);
        free(wire->link);
        free(wire);
        return status;
    }
    wire->next = engine->all_wires;
    engine->all_wires = wire;
    engine->wires[((size_t)sender * RT_LINK_LANES + lane) * engine->fabric.nranks + peer] = wire;
    return RINGTREE_OK;
}

ringtree_status rt_wire_send(struct rt_wire *wire, const struct rt_frame *frame, const void *data,
                             struct rt_error *error)
{
    ringtree_status status = wire->link->transport->send(wire->link, frame, data, error);
    if (status == RINGTREE_OK) wire->posted++;
    return status;
}

/* Also moves the sending on: the rest of a long slice leaves only when somebody asks. */
bool rt_wire_idle(struct rt_wire *wire, struct rt_error *error)
{
    if (wire->sent < wire->posted) wire->sent = wire->link->transport->sent(wire->link, error);
    return wire->sent >= wire->posted;
}
