/*
 * Arrays as ranks have them: the shapes of gradients, and those that go wrong first. Seeded: the same on every run.
 */
#ifndef RT_CODEC_INPUTS_H
#define RT_CODEC_INPUTS_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

enum inputs { GAUSSIAN, IDENTICAL, CORRELATED, STUDENT, SPARSE, ADVERSARIAL, INPUTS };
static const char *const input_names[INPUTS] = { "gaussian", "identical", "correlated", "student t3", "sparse",
                                                 "adversarial" };

static inline uint64_t draw(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* In (0, 1). */
static inline double uniform(uint64_t *state)
{
    return ((double)(draw(state) >> 12) + 0.5) * 0x1p-52;
}

static inline double gaussian(uint64_t *state)
{
    const double r = sqrt(-2 * log(uniform(state)));
    return r * cos(2 * M_PI * uniform(state));
}

/* Three degrees of freedom: the variance is finite, the fourth moment is not. */
static inline double student3(uint64_t *state)
{
    double chi = 0;
    for (int i = 0; i < 3; i++) {
        const double g = gaussian(state);
        chi += g * g;
    }
    return gaussian(state) / sqrt(chi / 3);
}

/* All just between two codes, of the sign that makes the roundings add up; one large element per block. */
static inline double adversarial(uint64_t i)
{
    if (i % 32 == 5) return i % 64 < 32 ? 127 : -127;
    return (double)(i % 100) + 0.499;
}

static inline void fill_inputs(float *values, size_t count, enum inputs inputs, uint32_t rank, uint64_t seed)
{
    uint64_t own = seed * 1000003 + rank * 7919 + 1, common = seed * 1000003 + 77;
    for (size_t i = 0; i < count; i++) {
        double v = 0;
        switch (inputs) {
        case IDENTICAL:   v = gaussian(&common); break;
        case CORRELATED:  v = gaussian(&common) + 0.3 * gaussian(&own); break;
        case STUDENT:     v = student3(&own); break;
        case SPARSE:      v = uniform(&own) < 0.02 ? gaussian(&own) : 0; break;
        case ADVERSARIAL: v = adversarial(i + seed); break;
        default:          v = gaussian(&own);
        }
        values[i] = (float)(v * 1e-3);
    }
}

static inline float *new_floats(size_t count)
{
    float *values = calloc(count ? count : 1, sizeof *values);
    if (!values) abort();
    return values;
}

#endif
