/*
 * What travels on control connections after the handshake: a 12-byte header (magic, type, length), then a body whose
 * length is bounded by its type. The parsers are pure: any bytes in, a checked structure or false out.
 */
#ifndef RT_WIRE_H
#define RT_WIRE_H

#include "control.h"

#define RT_HEADER_BYTES  12
#define RT_PLACE_BYTES   (32 + 64 + RT_MAX_ADDRESSES * 40)
#define RT_VERSION_BYTES 16
#define RT_JOIN_BYTES    (12 + RT_PLACE_BYTES + RT_VERSION_BYTES)
#define RT_SEAT_BYTES    (8 + RT_PLACE_BYTES)
#define RT_FAILURE_MOST  (8 + RT_ERROR_TEXT)
#define RT_GATHER_HEAD   8
#define RT_GATHER_MOST   4096 /* bytes of one rank in rt_control_all_gather() */
#define RT_CALLS_SENT    16
#define RT_CALL_BYTES    40
#define RT_CALLS_MOST    (12 + RT_CALLS_SENT * RT_CALL_BYTES)
#define RT_STATE_BYTES   (24 + 2 * 32)

enum rt_message {
    RT_MESSAGE_JOIN = 1, /* to the meeting: who I am and where */
    RT_MESSAGE_SEAT,     /* from the meeting: the communicator's number, where your parent is */
    RT_MESSAGE_FAILURE,  /* from the meeting, and flooded on the tree */
    RT_MESSAGE_UP,       /* all-gather towards the root: a subtree's blocks */
    RT_MESSAGE_DOWN,     /* all-gather from the root: everything */
    RT_MESSAGE_GOODBYE,  /* to the parent: this subtree wants to leave */
    RT_MESSAGE_ALL_GONE, /* from the parent: every rank said goodbye */
    RT_MESSAGE_LEAVE,    /* this rank leaves without waiting */
    RT_MESSAGE_CALLS,    /* to the parent: the last calls */
    RT_MESSAGE_STATE,    /* the answer to RT_CONNECT_ASK */
    RT_MESSAGE_END
};

struct rt_header {
    enum rt_message type;
    uint32_t        length;
};

void rt_header_put(uint8_t to[RT_HEADER_BYTES], enum rt_message type, uint32_t length);
/* False: wrong magic, unknown type, or a length that this type cannot have among `nranks`. */
bool rt_header_parse(const uint8_t from[RT_HEADER_BYTES], uint32_t nranks, struct rt_header *header);

void rt_place_put(uint8_t to[RT_PLACE_BYTES], const struct rt_place *place);
bool rt_place_parse(const uint8_t from[RT_PLACE_BYTES], struct rt_place *place);
void rt_wire_address_put(uint8_t to[40], const struct rt_address *address);
bool rt_wire_address_parse(const uint8_t from[40], struct rt_address *address);

struct rt_join {
    uint32_t        rank, nranks, timeout_ms;
    char            version[RT_VERSION_BYTES]; /* of ringtree: what follows differs from one to the next */
    struct rt_place place;
};
void rt_join_put(uint8_t to[RT_JOIN_BYTES], const struct rt_join *join);
bool rt_join_parse(const uint8_t from[RT_JOIN_BYTES], struct rt_join *join);

struct rt_seat {
    uint64_t        number;
    struct rt_place parent; /* rank 0's own for rank 0 */
};
void rt_seat_put(uint8_t to[RT_SEAT_BYTES], const struct rt_seat *seat);
bool rt_seat_parse(const uint8_t from[RT_SEAT_BYTES], struct rt_seat *seat);

/* Returns the length, at most RT_FAILURE_MOST. */
uint32_t rt_failure_put(uint8_t *to, const struct rt_error *failure);
bool rt_failure_parse(const uint8_t *from, uint32_t length, struct rt_error *failure);

/* The last calls of a rank: ordinals head - count .. head - 1. `hash` is over all calls up to and with that one. */
struct rt_calls {
    uint64_t        head;
    uint32_t        count;
    struct rt_frame frame[RT_CALLS_SENT];
    uint64_t        hash[RT_CALLS_SENT];
};
uint32_t rt_calls_put(uint8_t *to, const struct rt_calls *calls);
bool rt_calls_parse(const uint8_t *from, uint32_t length, struct rt_calls *calls);

struct rt_state {
    uint64_t        head;        /* calls begun */
    uint64_t        done_age_ms; /* since the last one was finished */
    bool            finished;    /* `done` is set */
    bool            current;     /* `last` is begun and not finished */
    struct rt_frame done, last;
};
void rt_state_put(uint8_t to[RT_STATE_BYTES], const struct rt_state *state);
bool rt_state_parse(const uint8_t from[RT_STATE_BYTES], struct rt_state *state);

void rt_frame_put(uint8_t to[32], const struct rt_frame *frame);
void rt_frame_get(const uint8_t from[32], struct rt_frame *frame);

#endif
