/* How many cores this process may really use. */
#ifndef RT_CORES_H
#define RT_CORES_H

#include <stddef.h>
#include <stdint.h>

/* Cores of this process's affinity; *mask gets those numbered 0 to 63. At least 1. */
uint32_t rt_cores_allowed(uint64_t *mask);

/*
 * The whole cores that the quotas of control groups leave (version 2: cpu.max, version 1: cpu/cpu.cfs_quota_us),
 * rounded up; UINT32_MAX without a limit.
 * `membership` is /proc/self/cgroup and `root` /sys/fs/cgroup, or a test's copies.
 */
uint32_t rt_cores_quota(const char *membership, const char *root);

/* The control group of the line "0::/path" of `membership`; "" without one. */
void rt_cores_group(const char *membership, char *group, size_t capacity);

#endif
