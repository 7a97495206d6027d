/* A table of another machine, brought nearer to this one by a short measurement. */
#include "cost.h"

#define HALF_POWER 1.4142135623730951
#define MOST       64.0

/* The nearest half power of two, within 1/64 and 64. */
static double rounded(double ratio)
{
    double power = 1;
    if (!(ratio > 0)) return 1;
    for (double edge = 1.189207115002721; power * edge < ratio && power < MOST;) power *= HALF_POWER;
    for (double edge = 0.8408964152537145; power * edge > ratio && power > 1 / MOST;) power /= HALF_POWER;
    return power;
}

/*
 * How far this machine is from the table's, if that has a reference. What is within half a power of two is the noise of
 * a short measurement: the table's own machine was measured to be 1.2 times its reference at a start, and nearest to
 * that would be 1.41.
 */
static double departed(double ratio, bool known)
{
    return known && ratio > 1 / HALF_POWER && ratio < HALF_POWER ? 1 : rounded(ratio);
}

static void scale_exchange(struct rt_exchange_cost *x, double latency, double byte)
{
    x->latency *= latency;
    x->rank *= latency;
    x->block *= latency;
    x->crowded *= latency;
    x->byte *= byte;
    x->memory *= byte;
    x->read *= byte;
}

void rt_costs_adapt(struct rt_costs *costs, enum rt_link_kind kind, const struct rt_link_measured *measured)
{
    struct rt_link_cost *link = &costs->link[kind];
    const struct rt_link_measured *reference = &costs->reference[kind];
    const bool known = reference->latency > 0;
    const double byte_then = known ? reference->byte : link->wire_byte > 0 ? link->wire_byte : link->byte;
    const double latency = departed(measured->latency / (known ? reference->latency : link->latency), known);
    const double byte = departed(measured->byte / byte_then, known);
    link->latency *= latency;
    if (kind != RT_LINK_NETWORK) {
        link->message *= latency;
        link->crowded *= latency;
    } else if (link->message > link->latency) { /* how far it is says nothing else of what a core does for a message */
        link->message = link->latency;
    }
    if (link->wire_byte > 0) link->wire_byte *= byte; /* what a core takes for a byte is not known from this */
    else link->byte *= byte;
    if (kind == RT_LINK_SHM) scale_exchange(&costs->exchange, latency, byte);
}

void rt_costs_narrow(struct rt_costs *costs, enum rt_link_kind kind, double ratio)
{
    struct rt_link_cost *link = &costs->link[kind];
    const double byte = link->wire_byte > 0 ? link->wire_byte : link->byte, times = rounded(ratio);
    link->flow_byte = times > 1 ? byte * times : 0;
}
