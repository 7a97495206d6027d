/* A frame as it travels between machines: struct rt_frame with its numbers in little endian. */
#ifndef RT_FRAME_H
#define RT_FRAME_H

#include "transports/transport.h"
#include <endian.h>
#include <string.h>

static inline void rt_frame_to_wire(const struct rt_frame *frame, unsigned char *wire)
{
    const struct rt_frame little = { .sequence = htole64(frame->sequence), .count = htole64(frame->count),
                                     .op = htole32(frame->op), .root = htole32(frame->root),
                                     .collective = frame->collective, .type = frame->type, .lane = frame->lane,
                                     .plan = frame->plan, .bytes = htole32(frame->bytes) };
    memcpy(wire, &little, sizeof(little));
}

static inline void rt_frame_from_wire(const unsigned char *wire, struct rt_frame *frame)
{
    memcpy(frame, wire, sizeof(*frame));
    frame->sequence = le64toh(frame->sequence);
    frame->count = le64toh(frame->count);
    frame->op = le32toh(frame->op);
    frame->root = le32toh(frame->root);
    frame->bytes = le32toh(frame->bytes);
}

#endif
