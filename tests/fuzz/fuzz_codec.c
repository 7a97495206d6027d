/*
 * Any bytes as what another rank encoded: they are decoded, or there is one clear sentence and the target stays as
 * it was. And any floats as values: what they become is taken by the decoder, and is as long as is said at most.
 * Layout: kind, log2 of the block, flags (1 stochastic, 2 int8 values, 4 the rest is values), count (2 bytes), the
 * rest. Kind 6 reads the rest as a saved state.
 */
#include "codec/codec.h"
#include "codec/state.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEAD 5
#define COUNT_MAX 2048

static void check_sentence(ringtree_status status, ringtree_status expected, const struct rt_error *error)
{
    if (status != expected || error->status != status || strlen(error->text) < 10) abort();
}

static void decode_bytes(const struct rt_codec *codec, size_t count, const uint8_t *bytes, size_t length)
{
    float *target = malloc(count * sizeof *target + 1), *untouched = malloc(count * sizeof *target + 1);
    struct rt_error error = { 0 };
    memset(target, 0x5a, count * sizeof *target);
    memset(untouched, 0x5a, count * sizeof *target);
    const ringtree_status status = rt_codec_decode(codec, target, count, bytes, length, &error);
    if (status) {
        check_sentence(status, RINGTREE_MISMATCH, &error);
        if (memcmp(target, untouched, count * sizeof *target)) abort();
    } else if (length > rt_codec_max_bytes(codec, count)) abort();
    if (rt_codec_decode_add(codec, target, count, bytes, length, &error) != status) abort();
    free(target);
    free(untouched);
}

/* What comes back is not finite just where the values are not; what is sent and what is left are the values. */
static void check_coded(const float *values, const float *decoded, const float *residual, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (isfinite(values[i]) != isfinite(decoded[i]) || !isfinite(residual[i])) abort();
        if (!isfinite(values[i])) continue;
        const double sum = (double)decoded[i] + (double)residual[i];
        const double rounding = (fabs((double)values[i]) + fabs((double)residual[i])) * 0x1p-22;
        if (fabs(sum - (double)values[i]) > rounding) abort();
    }
}

static void encode_values(const struct rt_codec *codec, const uint8_t *data, size_t size)
{
    const size_t count = size / sizeof(float) < COUNT_MAX ? size / sizeof(float) : COUNT_MAX;
    float values[COUNT_MAX], residual[COUNT_MAX], decoded[COUNT_MAX];
    struct rt_part part = { .count = count, .step = size, .rank = 3 };
    uint8_t *bytes = malloc(rt_codec_max_bytes(codec, count) + 1);
    memcpy(values, data, count * sizeof *values);
    if (codec->kind == RT_CODEC_TOPK) part.cut = rt_topk_select(values, 0, count, rt_topk_kept(codec, count), NULL);
    const size_t length = rt_codec_encode(codec, &part, values, residual, bytes, NULL);
    if (length > rt_codec_max_bytes(codec, count)) abort();
    if (rt_codec_decode(codec, decoded, count, bytes, length, NULL)) abort();
    check_coded(values, decoded, residual, count);
    free(bytes);
}

static void load_state(const uint8_t *bytes, size_t length)
{
    const struct rt_codec_state shape = { .count = 8, .has_residual = 1 };
    struct rt_error error = { 0 };
    struct rt_codec_state *state;
    if (rt_codec_state_new(&state, &shape, NULL)) abort();
    const ringtree_status status = rt_codec_state_load(state, bytes, length, &error);
    if (status) check_sentence(status, RINGTREE_INVALID_ARGUMENT, &error);
    rt_codec_state_free(state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEAD) return 0;
    struct rt_codec codec = { .kind = data[0] % 7, .block = 1u << data[1] % 16, .ratio = 0.05f };
    const size_t count = (data[3] | (size_t)data[4] << 8) % (COUNT_MAX + 1);
    codec.rounding = data[2] & 1;
    codec.values = data[2] >> 1 & 1;
    if (data[0] % 7 == 6) load_state(data + HEAD, size - HEAD);
    else if (rt_codec_check(&codec, NULL)) return 0;
    else if (data[2] & 4) encode_values(&codec, data + HEAD, size - HEAD);
    else decode_bytes(&codec, count, data + HEAD, size - HEAD);
    return 0;
}
