/* Between lint_graph.c and lint_facts.c. */
#ifndef RT_LINT_SAY_H
#define RT_LINT_SAY_H

#include "lint.h"

void rt_lint_say(struct rt_lint *lint, const char *format, ...) __attribute__((format(printf, 2, 3)));

void rt_lint_facts(struct rt_lint *lint, const struct rt_graph *graph, uint32_t machine);

#endif
