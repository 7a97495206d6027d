/* What tools tell of the UCX transport; also in builds without it. */
#ifndef RT_UCX_SUMMARY_H
#define RT_UCX_SUMMARY_H

#include <stddef.h>

/* "1.13.1, UCX_TLS=...", or why there is nothing. Returns `text`. */
const char *rt_ucx_summary(char *text, size_t capacity);

/* Memory of a pair of ranks, and of its links on one lane, without their slots and what UCX itself takes. 0: this build
 * has no UCX. */
size_t rt_ucx_pair_bytes(void);
size_t rt_ucx_link_bytes(void);
unsigned rt_ucx_slots(void);

/* What UCX 1.13 was measured to take for its worker and for each further endpoint (perf/baseline/ucx.md). */
#define RT_UCX_WORKER_MEASURED   (4800 << 10)
#define RT_UCX_ENDPOINT_MEASURED (20 << 10)

#endif
