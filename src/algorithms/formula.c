/* What several formulas share. */
#include "formula.h"

uint32_t rt_one(const struct rt_shape *shape)
{
    (void)shape;
    return 1;
}

uint32_t rt_one_per_rank(const struct rt_shape *shape)
{
    return shape->nranks;
}

struct rt_step rt_own_block(uint32_t source, uint32_t target)
{
    struct rt_step step = rt_step_new(RT_COPY);
    step.source_chunk = source;
    step.target_chunk = target;
    return step;
}

struct rt_step rt_alone(void)
{
    struct rt_step step = rt_own_block(0, 0);
    step.flags = RT_FINAL;
    return step;
}

uint32_t rt_power_below(uint32_t n)
{
    return UINT32_C(1) << (31 - __builtin_clz(n));
}

uint32_t rt_log2_up(uint32_t n)
{
    return n < 2 ? 0 : 32 - (uint32_t)__builtin_clz(n - 1);
}
