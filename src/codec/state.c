/*
 * The state in memory, one allocation; and in bytes, little endian: magic, version, shape, step, the arrays, and a
 * hash of all before it. The hash is libsodium's BLAKE2b, a library that ringtree needs anyway; zlib's CRC-32 would
 * have been one more.
 */
#include "state.h"
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC 0x6574617473637472u /* "rtcstate" */
#define VERSION 1
#define HASH_BYTES 16
#define COUNT_MAX ((uint64_t)1 << 48)

/* Before the arrays. */
struct header {
    uint64_t magic, version, count, has_residual, has_momentum, step;
};

static size_t floats_of(const struct rt_codec_state *state)
{
    return (size_t)(state->count * (state->has_residual + state->has_momentum));
}

static float *arrays_of(struct rt_codec_state *state)
{
    return (float *)(state + 1);
}

ringtree_status rt_codec_state_new(struct rt_codec_state **state, const struct rt_codec_state *shape,
                                   struct rt_error *error)
{
    *state = NULL;
    if (shape->count > COUNT_MAX)
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "codec state: %" PRIu64 " elements are more than memory holds",
                       shape->count);
    if (shape->has_residual > 1 || shape->has_momentum > shape->has_residual)
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "codec state: momentum needs a residual");
    struct rt_codec_state *made = calloc(1, sizeof *made + floats_of(shape) * sizeof(float));
    if (!made)
        return rt_fail(error, RINGTREE_NO_MEMORY, "codec state: no memory for %zu floats", floats_of(shape));
    *made = *shape;
    made->step = 0;
    float *arrays = arrays_of(made);
    made->residual = made->has_residual ? arrays : NULL;
    made->momentum = made->has_momentum ? arrays + made->count : NULL;
    *state = made;
    return RINGTREE_OK;
}

void rt_codec_state_free(struct rt_codec_state *state)
{
    free(state);
}

void rt_codec_state_reset(struct rt_codec_state *state)
{
    state->step = 0;
    memset(arrays_of(state), 0, floats_of(state) * sizeof(float));
}

size_t rt_codec_state_bytes(const struct rt_codec_state *state)
{
    return sizeof(struct header) + floats_of(state) * sizeof(float) + HASH_BYTES;
}

static struct header header_of(const struct rt_codec_state *state)
{
    return (struct header){ MAGIC, VERSION, state->count, state->has_residual, state->has_momentum, state->step };
}

static void hash(unsigned char *out, const unsigned char *bytes, size_t length)
{
    crypto_generichash(out, HASH_BYTES, bytes, length, NULL, 0);
}

void rt_codec_state_save(const struct rt_codec_state *state, void *bytes)
{
    const struct header header = header_of(state);
    const size_t body = floats_of(state) * sizeof(float);
    unsigned char *to = bytes;
    memcpy(to, &header, sizeof header);
    memcpy(to + sizeof header, state + 1, body);
    hash(to + sizeof header + body, to, sizeof header + body);
}

static const char *kept(uint64_t residual, uint64_t momentum)
{
    return momentum ? "with residual and momentum" : residual ? "with residual" : "without residual";
}

static ringtree_status check_header(const struct rt_codec_state *state, const struct header *header,
                                    struct rt_error *error)
{
    if (header->magic != MAGIC)
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "codec state: these bytes are none; they begin with %#" PRIx64,
                       header->magic);
    if (header->version != VERSION)
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "codec state: version %" PRIu64 ", this library reads %d",
                       header->version, VERSION);
    if (header->count != state->count || header->has_residual != state->has_residual ||
        header->has_momentum != state->has_momentum)
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "codec state: saved for %" PRIu64 " elements, %s; this one is "
                       "for %" PRIu64 ", %s", header->count, kept(header->has_residual, header->has_momentum),
                       state->count, kept(state->has_residual, state->has_momentum));
    return RINGTREE_OK;
}

static bool all_finite(const unsigned char *bytes, size_t count)
{
    bool finite = true;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, bytes + i * sizeof bits, sizeof bits);
        finite &= (bits & 0x7fffffff) < 0x7f800000;
    }
    return finite;
}

ringtree_status rt_codec_state_load(struct rt_codec_state *state, const void *bytes, size_t length,
                                    struct rt_error *error)
{
    const unsigned char *from = bytes;
    const size_t body = floats_of(state) * sizeof(float);
    unsigned char expected[HASH_BYTES];
    struct header header;
    if (length < sizeof header + HASH_BYTES)
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "codec state: %zu bytes are too few", length);
    memcpy(&header, from, sizeof header);
    const ringtree_status status = check_header(state, &header, error);
    if (status) return status;
    if (length != rt_codec_state_bytes(state))
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "codec state: %zu bytes, not the %zu that its shape needs",
                       length, rt_codec_state_bytes(state));
    hash(expected, from, sizeof header + body);
    if (memcmp(expected, from + sizeof header + body, HASH_BYTES))
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "codec state: the bytes are damaged: their hash is another");
    if (!all_finite(from + sizeof header, floats_of(state)))
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "codec state: it holds NaN or infinity, which no step leaves");
    memcpy(arrays_of(state), from + sizeof header, body);
    state->step = header.step;
    return RINGTREE_OK;
}
