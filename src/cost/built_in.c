/*
 * The table that is used until something was measured: built-in.table, which ringtree-tune wrote on the machine that
 * ringtree was developed on, compiled in as text and read as any other table is.
 */
#include "built_in_table.h"
#include "table.h"

void rt_costs_uncorrect(struct rt_costs *costs)
{
    for (uint32_t c = 0; c < RT_COST_CASES; c++)
        for (uint32_t way = 0; way < RT_COST_WAYS; way++)
            for (uint32_t n = 0; n < RT_COST_RANKS; n++)
                for (uint32_t b = 0; b < RT_COST_SIZES; b++) costs->correction[c][way][n][b] = 1;
}

void rt_costs_built_in(struct rt_costs *costs)
{
    struct rt_error error;
    *costs = (struct rt_costs){ .add = 0 };
    rt_costs_uncorrect(costs);
    rt_costs_read(costs, built_in_table, sizeof built_in_table - 1, "built-in.table", &error); /* tests read it too */
}
