/* What the arrays of each collective consist of, for the direct paths. */
#include "exchange.h"
#include "reduce/reduce.h"

uint32_t rt_input_blocks(const struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call)
{
    switch (call->frame.collective) {
    case RINGTREE_REDUCE_SCATTER:
    case RINGTREE_ALL_TO_ALL: return x->n;
    case RINGTREE_SCATTER: return direct->root == x->self ? x->n : 0;
    case RINGTREE_BROADCAST: return direct->root == x->self;
    default: return 1;
    }
}

uint32_t rt_output_blocks(const struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call)
{
    switch (call->frame.collective) {
    case RINGTREE_ALL_GATHER:
    case RINGTREE_ALL_TO_ALL: return x->n;
    case RINGTREE_GATHER: return direct->root == x->self ? x->n : 0;
    case RINGTREE_REDUCE: return direct->root == x->self;
    default: return 1;
    }
}

void rt_prepare(const struct rt_exchange *x, const struct rt_call *call, void *target, const void *source,
                size_t elements)
{
    if (elements == 0) return;
    if (call->scaled) rt_scale(target, source, elements, call->type, call->scalar);
    else if (call->divided_first) rt_divide(target, source, elements, call->type, x->n);
    else rt_copy(target, source, elements * call->element);
}

void rt_add_up(struct rt_exchange *x, const struct rt_call *call, void *target, size_t elements)
{
    if (elements == 0) return;
    rt_reduce_many(target, x->sources, x->n, elements, call->type, call->op);
    if (call->divided_last) rt_divide(target, target, elements, call->type, x->n);
}

/* Below, the output is likely to be read again from the cache; measured with 2 MiB of it a core. */
#define STREAM_FROM ((size_t)4 << 20)

/* What is read and written in place is in the cache already. */
bool rt_streams(const struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call)
{
    const bool over_input = rt_is_reducing(call) || call->frame.collective == RINGTREE_ALL_TO_ALL;
    if (call->count * call->element * x->n < STREAM_FROM || (call->in_place && over_input)) return false;
    return call->count * call->element * rt_output_blocks(x, direct, call) >= STREAM_FROM;
}

void rt_put(const struct rt_direct *direct, void *target, const void *source, size_t bytes)
{
    if (bytes == 0 || target == source) return;
    if (direct->streams) rt_copy_stream(target, source, bytes);
    else memcpy(target, source, bytes);
}

void rt_only_givers(struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call)
{
    for (uint32_t i = 0; i < x->n; i++)
        if (!rt_gives(direct, call, i)) x->sources[i] = NULL;
}

void rt_combine(struct rt_exchange *x, const struct rt_direct *direct, const struct rt_call *call, size_t at,
                size_t elements)
{
    unsigned char *output = (unsigned char *)call->output + at * call->element;
    if (rt_is_reducing(call)) {
        if (direct->streams && !call->divided_last)
            rt_reduce_many_stream(output, x->sources, x->n, elements, call->type, call->op);
        else rt_add_up(x, call, output, elements);
        return;
    }
    const size_t bytes = elements * call->element, stride = rt_root_gives(call) ? 0 : call->count * call->element;
    for (uint32_t i = 0; i < x->n; i++)
        if (x->sources[i]) rt_put(direct, output + i * stride, x->sources[i], bytes);
}
