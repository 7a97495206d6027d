/* What tools tell of the verbs transport; also in builds without it. */
#ifndef RT_VERBS_SUMMARY_H
#define RT_VERBS_SUMMARY_H

#include <stddef.h>
#include <stdint.h>

/* "mlx5_0, mlx5_1", or why there is nothing. Returns `text`. */
const char *rt_verbs_summary(char *text, size_t capacity);

/* Memory of a pair of ranks on one lane, both ways: what is pinned for slices of `slot_bytes`, what else there is,
 * with a queue pair of its lengths, about (drivers differ). 0: this build has no verbs. */
size_t rt_verbs_pinned_bytes(uint32_t slot_bytes);
size_t rt_verbs_pair_bytes(void);

#endif
