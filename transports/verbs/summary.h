/* What tools tell of the verbs transport; also in builds without it. */
#ifndef RT_VERBS_SUMMARY_H
#define RT_VERBS_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rt_fabric;

/* "mlx5_0, mlx5_1", or why there is nothing. Returns `text`. */
const char *rt_verbs_summary(char *text, size_t capacity);

/* Memory of a pair of ranks on one lane, both ways: what is pinned for slices of `slot_bytes`, what else there is,
 * with a queue pair of its lengths, about (drivers differ). 0: this build has no verbs. */
size_t rt_verbs_pinned_bytes(uint32_t slot_bytes);
size_t rt_verbs_pair_bytes(void);

/* A port that links could use, for those who tell of it before there are any. */
#define RT_VERBS_END_BYTES 22
struct rt_verbs_seen {
    char     device[32];
    uint32_t number;
    uint64_t speed_mbps, guid;
    bool     soft;                    /* emulated by the kernel */
    uint8_t  end[RT_VERBS_END_BYTES]; /* for rt_verbs_meets() on the other machine */
};

/* All those of RINGTREE_VERBS_DEVICES, wherever they are in the machine; how many, at most `most`. */
uint32_t rt_verbs_see(struct rt_fabric *fabric, struct rt_verbs_seen *seen, uint32_t most);
/* Can these two ports talk? False, too, if `theirs` is nothing that rt_verbs_see() writes. */
bool rt_verbs_meets(const uint8_t mine[RT_VERBS_END_BYTES], const uint8_t theirs[RT_VERBS_END_BYTES]);

#endif
