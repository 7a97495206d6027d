/*
 * A table of costs as text, so that it can be kept, shipped and compared:
 *
 *   ringtree costs 1
 *   link loopback 4000000000 3000000000 300000 0 2000000000
 *   exchange 200000000 100000000 500000000 50000 20000 32000000 80000 1000000000
 *   add 80000
 *   flow network 1600000
 *   reference loopback 4200000000 150000
 *   correction tcp all_reduce ring 4 1020 998 870 ...
 *   end
 *
 * Whole numbers only, so that no locale and no rounding comes in: times in femtoseconds (10^-15 s), bytes, corrections
 * in thousandths. `link` has latency, message, byte, wire byte, crowding; `exchange` the fields of its struct; `flow`
 * what a byte takes over one connection; `reference` what the measurement at the start found of a link there (latency,
 * byte); `correction` the ranks (2, 4 or 8) and a number for each size. A # begins a comment line. Lines that are not
 * there keep what the table had. The reader trusts nothing: every word, range and length is checked, and a bad line
 * leaves the table as it was.
 */
#ifndef RT_COST_TABLE_H
#define RT_COST_TABLE_H

#include "base/error.h"
#include "cost.h"
#include <stdio.h>

#define RT_COST_TEXT_MOST (256 << 10) /* bytes of a table */

/* Changes *costs as the text says. An error names `origin` and the line. */
ringtree_status rt_costs_read(struct rt_costs *costs, const char *text, size_t length, const char *origin,
                              struct rt_error *error);
/* false: it could not be written. corrections: also those that are not 1. */
bool rt_costs_write(const struct rt_costs *costs, bool corrections, FILE *out);

/* Equal for equal tables. */
uint64_t rt_costs_hash(const struct rt_costs *costs);

#endif
