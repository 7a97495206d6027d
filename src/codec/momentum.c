/* See momentum.h. Plain loops: each element by itself, so every CPU gives the same bits. */
#include "momentum.h"
#include "families.h"
#include "kernels.h"
#include "reduce/reduce.h"
#include <math.h>
#include <string.h>

void rt_momentum_add(void *u, void *v, const void *gradient, size_t count, float factor)
{
    for (size_t i = 0; i < count * sizeof(float); i += sizeof(float)) {
        float pull, moved, now;
        memcpy(&pull, (char *)u + i, sizeof pull);
        memcpy(&moved, (char *)v + i, sizeof moved);
        memcpy(&now, (const char *)gradient + i, sizeof now);
        pull = factor * pull + now;
        moved += pull;
        memcpy((char *)u + i, &pull, sizeof pull);
        memcpy((char *)v + i, &moved, sizeof moved);
    }
}

static void mask_block(const struct rt_codec *codec, unsigned char *u, const unsigned char *v, uint64_t first,
                       size_t count, const struct rt_cut *cut)
{
    bool raw = false;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude;
        memcpy(&magnitude, v + i * sizeof magnitude, sizeof magnitude);
        magnitude &= 0x7fffffff;
        raw |= magnitude >= RT_INFINITE;
        const bool keeps = magnitude > cut->magnitude || (magnitude == cut->magnitude && first + i < cut->ties_end);
        if (keeps) memset(u + i * sizeof(float), 0, sizeof(float));
        kept += keeps && magnitude;
    }
    if (raw || rt_topk_is_dense(codec, kept, count)) memset(u, 0, count * sizeof(float));
}

void rt_momentum_mask(const struct rt_codec *codec, void *u, const void *v, uint64_t first, size_t count,
                      const struct rt_cut *cut)
{
    for (size_t i = 0; i < count; i += RT_BLOCK) {
        const size_t now = count - i < RT_BLOCK ? count - i : RT_BLOCK;
        const size_t at = i * sizeof(float);
        mask_block(codec, (unsigned char *)u + at, (const unsigned char *)v + at, first + i, now, cut);
    }
}

void rt_momentum_settle(void *u, size_t count)
{
    for (size_t i = 0; i < count * sizeof(float); i += sizeof(float)) {
        uint32_t bits;
        memcpy(&bits, (char *)u + i, sizeof bits);
        if ((bits & 0x7fffffff) >= RT_INFINITE) bits = 0;
        memcpy((char *)u + i, &bits, sizeof bits);
    }
}

double rt_clip(void *gradient, size_t count, double limit, uint32_t nranks)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        float value;
        memcpy(&value, (char *)gradient + i * sizeof value, sizeof value);
        sum += (double)value * (double)value;
    }
    const double norm = sqrt(sum), most = limit / sqrt(nranks);
    if (!(norm > most) || !isfinite(norm)) return norm;
    const float scale = (float)(most / norm);
    rt_scale(gradient, gradient, count, RINGTREE_FLOAT32, &scale);
    return norm;
}

float rt_warm_ratio(uint64_t step, uint64_t steps, float ratio)
{
    if (step >= steps || ratio >= RT_RATIO_MAX) return ratio;
    return (float)((double)RT_RATIO_MAX * pow((double)ratio / (double)RT_RATIO_MAX, (double)step / (double)steps));
}
