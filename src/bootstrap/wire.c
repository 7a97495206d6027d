/* Control messages to bytes and back; wire.h says what they are. */
#include "wire.h"
#include "bytes.h"
#include <string.h>

#define WIRE_MAGIC 0x314d5452u /* "RTM1" */

void rt_header_put(uint8_t to[RT_HEADER_BYTES], enum rt_message type, uint32_t length)
{
    rt_put_u32(to, WIRE_MAGIC);
    rt_put_u32(to + 4, type);
    rt_put_u32(to + 8, length);
}

static bool length_fits(uint32_t type, uint32_t length, uint32_t nranks)
{
    switch (type) {
    case RT_MESSAGE_JOIN: return length == RT_JOIN_BYTES;
    case RT_MESSAGE_SEAT: return length == RT_SEAT_BYTES;
    case RT_MESSAGE_FAILURE: return length >= 8 && length <= RT_FAILURE_MOST;
    case RT_MESSAGE_UP:
    case RT_MESSAGE_DOWN:
        return length >= RT_GATHER_HEAD && length - RT_GATHER_HEAD <= (uint64_t)nranks * RT_GATHER_MOST;
    case RT_MESSAGE_GOODBYE:
    case RT_MESSAGE_ALL_GONE:
    case RT_MESSAGE_LEAVE: return length == 0;
    case RT_MESSAGE_CALLS: return length >= 12 && length <= RT_CALLS_MOST;
    case RT_MESSAGE_STATE: return length == RT_STATE_BYTES;
    default: return false;
    }
}

bool rt_header_parse(const uint8_t from[RT_HEADER_BYTES], uint32_t nranks, struct rt_header *header)
{
    const uint32_t type = rt_get_u32(from + 4), length = rt_get_u32(from + 8);

    if (rt_get_u32(from) != WIRE_MAGIC || !length_fits(type, length, nranks))
        return false;
    *header = (struct rt_header){ (enum rt_message)type, length };
    return true;
}

/* ------------------------------------------------------------------ places */

static bool is_terminated(const char *text, size_t capacity)
{
    return memchr(text, '\0', capacity) != NULL;
}

void rt_wire_address_put(uint8_t to[40], const struct rt_address *address)
{
    rt_put_u16(to, address->family);
    rt_put_u16(to + 2, address->port);
    rt_put_u32(to + 4, address->scope);
    memcpy(to + 8, address->bytes, 16);
    memcpy(to + 24, address->interface, 16);
}

bool rt_wire_address_parse(const uint8_t from[40], struct rt_address *address)
{
    memset(address, 0, sizeof(*address));
    address->family = rt_get_u16(from);
    address->port = rt_get_u16(from + 2);
    address->scope = rt_get_u32(from + 4);
    memcpy(address->bytes, from + 8, 16);
    memcpy(address->interface, from + 24, 16);
    return (address->family == 0 || address->family == AF_INET || address->family == AF_INET6) &&
           is_terminated(address->interface, sizeof(address->interface));
}

void rt_place_put(uint8_t to[RT_PLACE_BYTES], const struct rt_place *place)
{
    rt_put_u64(to, place->host_key);
    rt_put_u32(to + 8, place->pid);
    rt_put_u32(to + 12, place->cores);
    rt_put_u64(to + 16, place->core_mask);
    rt_put_u64(to + 24, place->machine_key);
    memcpy(to + 32, place->host, 64);
    for (uint32_t i = 0; i < RT_MAX_ADDRESSES; i++)
        rt_wire_address_put(to + 96 + 40 * i, &place->address[i]);
}

bool rt_place_parse(const uint8_t from[RT_PLACE_BYTES], struct rt_place *place)
{
    memset(place, 0, sizeof(*place));
    place->host_key = rt_get_u64(from);
    place->pid = rt_get_u32(from + 8);
    place->cores = rt_get_u32(from + 12);
    place->core_mask = rt_get_u64(from + 16);
    place->machine_key = rt_get_u64(from + 24);
    memcpy(place->host, from + 32, 64);
    for (uint32_t i = 0; i < RT_MAX_ADDRESSES; i++)
        if (!rt_wire_address_parse(from + 96 + 40 * i, &place->address[i]))
            return false;
    return is_terminated(place->host, sizeof(place->host));
}

/* ------------------------------------------------------------------ the meeting */

void rt_join_put(uint8_t to[RT_JOIN_BYTES], const struct rt_join *join)
{
    rt_put_u32(to, join->rank);
    rt_put_u32(to + 4, join->nranks);
    rt_put_u32(to + 8, join->timeout_ms);
    rt_place_put(to + 12, &join->place);
    memcpy(to + 12 + RT_PLACE_BYTES, join->version, RT_VERSION_BYTES);
}

bool rt_join_parse(const uint8_t from[RT_JOIN_BYTES], struct rt_join *join)
{
    join->rank = rt_get_u32(from);
    join->nranks = rt_get_u32(from + 4);
    join->timeout_ms = rt_get_u32(from + 8);
    memcpy(join->version, from + 12 + RT_PLACE_BYTES, RT_VERSION_BYTES);
    return rt_place_parse(from + 12, &join->place) && is_terminated(join->version, RT_VERSION_BYTES);
}

void rt_seat_put(uint8_t to[RT_SEAT_BYTES], const struct rt_seat *seat)
{
    rt_put_u64(to, seat->number);
    rt_place_put(to + 8, &seat->parent);
}

bool rt_seat_parse(const uint8_t from[RT_SEAT_BYTES], struct rt_seat *seat)
{
    seat->number = rt_get_u64(from);
    return rt_place_parse(from + 8, &seat->parent);
}

uint32_t rt_failure_put(uint8_t *to, const struct rt_error *failure)
{
    size_t length = strnlen(failure->text, RT_ERROR_TEXT - 1);

    rt_put_u32(to, failure->status);
    rt_put_u32(to + 4, 0);
    memcpy(to + 8, failure->text, length);
    return 8 + (uint32_t)length;
}

bool rt_failure_parse(const uint8_t *from, uint32_t length, struct rt_error *failure)
{
    uint32_t status;

    if (length < 8 || length - 8 >= RT_ERROR_TEXT)
        return false;
    status = rt_get_u32(from);
    if (status < RINGTREE_INVALID_ARGUMENT || status > RINGTREE_INTERNAL)
        return false;
    rt_fail(failure, (ringtree_status)status, "%.*s", (int)(length - 8), (const char *)from + 8);
    return true;
}

/* ------------------------------------------------------------------ calls */

void rt_frame_put(uint8_t to[32], const struct rt_frame *frame)
{
    rt_put_u64(to, frame->sequence);
    rt_put_u64(to + 8, frame->count);
    rt_put_u32(to + 16, frame->op);
    rt_put_u32(to + 20, frame->root);
    to[24] = frame->collective;
    to[25] = frame->type;
    to[26] = frame->lane;
    to[27] = frame->plan;
    rt_put_u32(to + 28, frame->bytes);
}

void rt_frame_get(const uint8_t from[32], struct rt_frame *frame)
{
    frame->sequence = rt_get_u64(from);
    frame->count = rt_get_u64(from + 8);
    frame->op = rt_get_u32(from + 16);
    frame->root = rt_get_u32(from + 20);
    frame->collective = from[24];
    frame->type = from[25];
    frame->lane = from[26];
    frame->plan = from[27];
    frame->bytes = rt_get_u32(from + 28);
}

uint32_t rt_calls_put(uint8_t *to, const struct rt_calls *calls)
{
    rt_put_u64(to, calls->head);
    rt_put_u32(to + 8, calls->count);
    for (uint32_t i = 0; i < calls->count; i++) {
        rt_frame_put(to + 12 + RT_CALL_BYTES * i, &calls->frame[i]);
        rt_put_u64(to + 12 + RT_CALL_BYTES * i + 32, calls->hash[i]);
    }
    return 12 + RT_CALL_BYTES * calls->count;
}

bool rt_calls_parse(const uint8_t *from, uint32_t length, struct rt_calls *calls)
{
    if (length < 12)
        return false;
    calls->head = rt_get_u64(from);
    calls->count = rt_get_u32(from + 8);
    if (calls->count > RT_CALLS_SENT || calls->count > calls->head || length != 12 + RT_CALL_BYTES * calls->count)
        return false;
    for (uint32_t i = 0; i < calls->count; i++) {
        rt_frame_get(from + 12 + RT_CALL_BYTES * i, &calls->frame[i]);
        calls->hash[i] = rt_get_u64(from + 12 + RT_CALL_BYTES * i + 32);
    }
    return true;
}

void rt_state_put(uint8_t to[RT_STATE_BYTES], const struct rt_state *state)
{
    rt_put_u64(to, state->head);
    rt_put_u64(to + 8, state->done_age_ms);
    rt_put_u32(to + 16, state->finished);
    rt_put_u32(to + 20, state->current);
    rt_frame_put(to + 24, &state->done);
    rt_frame_put(to + 56, &state->last);
}

bool rt_state_parse(const uint8_t from[RT_STATE_BYTES], struct rt_state *state)
{
    state->head = rt_get_u64(from);
    state->done_age_ms = rt_get_u64(from + 8);
    state->finished = rt_get_u32(from + 16) != 0;
    state->current = rt_get_u32(from + 20) != 0;
    rt_frame_get(from + 24, &state->done);
    rt_frame_get(from + 56, &state->last);
    return rt_get_u32(from + 16) <= 1 && rt_get_u32(from + 20) <= 1;
}
