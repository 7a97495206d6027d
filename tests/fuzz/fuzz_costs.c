/*
 * Any bytes as a table of costs (first byte T) or as a kept measurement of links (else): they are taken whole, and what
 * is predicted by them is a time, or nothing has changed and a table's sentence says why.
 */
#include "calibrate.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void predict(const struct rt_costs *costs)
{
    static const uint32_t node_of[6] = { 0, 0, 0, 1, 1, 1 };
    const struct rt_sites s = rt_sites_of(6, node_of);
    for (uint32_t i = 0; i < rt_algorithm_count; i++) {
        struct rt_prediction p;
        rt_cost_predict(costs, &s, rt_algorithms[i]->collective, rt_algorithms[i], 1 << 20, 64 << 10, 0, &p);
        if (!(p.seconds >= 0)) abort();
    }
}

static void take_table(const char *text, size_t length)
{
    static struct rt_costs costs, before;
    struct rt_error error = { 0 };
    rt_costs_built_in(&costs);
    before = costs;
    const ringtree_status status = rt_costs_read(&costs, text, length, "fuzz", &error);
    if (status && (memcmp(&costs, &before, sizeof costs) || strlen(error.text) < 10)) abort();
    predict(&costs);
}

static void take_links(const char *text, size_t length)
{
    static struct rt_costs costs;
    struct rt_calibration found;
    if (!rt_calibration_parse(text, length, "here", &found)) return;
    rt_costs_built_in(&costs);
    for (int kind = 0; kind < RT_LINK_KINDS; kind++) {
        const struct rt_link_measured m = { (double)found.latency_fs[kind] * 1e-15,
                                            (double)found.byte_fs[kind] * 1e-15 };
        if (m.latency > 0) rt_costs_adapt(&costs, (enum rt_link_kind)kind, &m);
    }
    predict(&costs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    if (data[0] == 'T') take_table((const char *)data + 1, size - 1);
    else take_links((const char *)data + 1, size - 1);
    return 0;
}
