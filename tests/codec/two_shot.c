/* See two_shot.h. */
#include "two_shot.h"
#include <string.h>

/* Slice s of the tensor: whole alignment units, as equal as they get. */
static size_t slice_begin(const struct two_shot *run, uint32_t s)
{
    const size_t align = rt_codec_align(&run->codec), units = (run->count + align - 1) / align;
    const uint32_t slices = run->slices ? run->slices : run->nranks;
    const size_t begin = units * s / slices * align;
    return begin < run->count ? begin : run->count;
}

static uint32_t slices_of(const struct two_shot *run)
{
    return run->slices ? run->slices : run->nranks;
}

static size_t encode(struct two_shot *run, uint32_t rank, size_t begin, size_t count, const float *values,
                     float *residual, struct rt_cut cut, uint8_t *bytes)
{
    const struct rt_part part = { .first = begin, .count = count, .step = run->step, .rank = rank, .cut = cut };
    const size_t length = rt_codec_encode(&run->codec, &part, values, residual, bytes, &run->report);
    run->bytes += length;
    if (length > rt_codec_max_bytes(&run->codec, count)) abort();
    return length;
}

static int run_slice(struct two_shot *run, size_t begin, size_t count, uint8_t *bytes)
{
    float *sum = run->sum + begin;
    int failed = 0;
    memset(sum, 0, count * sizeof *sum);
    for (uint32_t r = 0; r < run->nranks; r++) {
        float *residual = run->residuals ? run->residuals[r] + begin : NULL;
        const float *values = residual ? residual : run->inputs[r] + begin;
        const size_t length = encode(run, r, begin, count, values, residual,
                                     run->cuts ? run->cuts[r] : rt_cut_nonzero, bytes);
        failed += (r ? rt_codec_decode_add : rt_codec_decode)(&run->codec, sum, count, bytes, length, NULL) != 0;
    }
    if (run->owned) {
        rt_codec_prepare(sum, run->owned + begin, count);
        memcpy(sum, run->owned + begin, count * sizeof *sum);
    }
    const size_t length = encode(run, RT_OWNER(0), begin, count, sum, run->owned ? run->owned + begin : NULL,
                                 rt_cut_nonzero, bytes);
    if (run->damage) run->damage(bytes, length);
    return failed + (rt_codec_decode(&run->codec, run->result + begin, count, bytes, length, NULL) != 0);
}

int run_two_shot(struct two_shot *run)
{
    uint8_t *bytes = malloc(rt_codec_max_bytes(&run->codec, run->count) + 1);
    int failed = 0;
    for (uint32_t r = 0; run->residuals && r < run->nranks; r++)
        rt_codec_prepare(run->inputs[r], run->residuals[r], run->count);
    for (uint32_t s = 0; s < slices_of(run); s++) {
        const size_t begin = slice_begin(run, s);
        failed += run_slice(run, begin, slice_begin(run, s + 1) - begin, bytes);
    }
    free(bytes);
    return failed;
}

int run_requantising_ring(struct two_shot *run)
{
    uint8_t *bytes = malloc(rt_codec_max_bytes(&run->codec, run->count) + 1);
    int failed = 0;
    memcpy(run->sum, run->inputs[0], run->count * sizeof *run->sum);
    for (uint32_t r = 1; r <= run->nranks; r++) {
        const size_t length = encode(run, r, 0, run->count, run->sum, NULL, rt_cut_nonzero, bytes);
        if (r == run->nranks)
            failed += rt_codec_decode(&run->codec, run->result, run->count, bytes, length, NULL) != 0;
        else {
            memcpy(run->sum, run->inputs[r], run->count * sizeof *run->sum);
            failed += rt_codec_decode_add(&run->codec, run->sum, run->count, bytes, length, NULL) != 0;
        }
    }
    free(bytes);
    return failed;
}

struct two_shot new_two_shot(struct rt_codec codec, uint32_t nranks, size_t count, enum inputs inputs, uint64_t seed)
{
    struct two_shot run = { .codec = codec, .nranks = nranks, .count = count };
    run.inputs = calloc(nranks, sizeof *run.inputs);
    run.sum = new_floats(count);
    run.result = new_floats(count);
    for (uint32_t r = 0; r < nranks; r++) {
        run.inputs[r] = new_floats(count);
        fill_inputs(run.inputs[r], count, inputs, r, seed);
    }
    return run;
}

void free_two_shot(struct two_shot *run)
{
    for (uint32_t r = 0; r < run->nranks; r++) {
        free(run->inputs[r]);
        if (run->residuals) free(run->residuals[r]);
    }
    free(run->inputs);
    free(run->residuals);
    free(run->owned);
    free(run->cuts);
    free(run->sum);
    free(run->result);
}

static double peak(const float *values, size_t count)
{
    double peak = 0;
    for (size_t i = 0; i < count; i++) peak = fmax(peak, fabs((double)values[i]));
    return peak;
}

double worst_share(const struct two_shot *run)
{
    const size_t block = run->codec.block ? run->codec.block : RT_BLOCK;
    double worst = 0;
    for (size_t i = 0; i < run->count; i += block) {
        const size_t now = run->count - i < block ? run->count - i : block;
        double allowed = rt_codec_error_bound(&run->codec, peak(run->sum + i, now));
        for (uint32_t r = 0; r < run->nranks; r++)
            allowed += rt_codec_error_bound(&run->codec, peak(run->inputs[r] + i, now));
        for (size_t j = i; j < i + now; j++) {
            double exact = 0, all = 0;
            for (uint32_t r = 0; r < run->nranks; r++) {
                exact += (double)run->inputs[r][j];
                all += fabs((double)run->inputs[r][j]);
            }
            const double adding = (all + allowed) * run->nranks * 0x1p-24;
            worst = fmax(worst, fabs((double)run->result[j] - exact) / (allowed + adding + DBL_MIN));
        }
    }
    return worst;
}
