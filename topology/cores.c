/* Affinity and quota. What cannot be read limits nothing: these are hints for waiting, not for correctness. */
#include "cores.h"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOST_CPUS (1 << 16)

/* The kernel refuses a set smaller than its own, so the set grows until it fits. */
static uint32_t read_affinity(int cpus, uint64_t *mask)
{
    cpu_set_t *set = CPU_ALLOC(cpus);
    const size_t size = CPU_ALLOC_SIZE(cpus);
    uint32_t count = 0;

    if (!set)
        return 0;
    if (sched_getaffinity(0, size, set) == 0) {
        count = (uint32_t)CPU_COUNT_S(size, set);
        for (int i = 0; i < 64; i++)
            *mask |= (uint64_t)(CPU_ISSET_S(i, size, set) != 0) << i;
    }
    CPU_FREE(set);
    return count;
}

uint32_t rt_cores_allowed(uint64_t *mask)
{
    *mask = 0;
    for (int cpus = 1024; cpus <= MOST_CPUS; cpus *= 2) {
        uint32_t count = read_affinity(cpus, mask);
        if (count)
            return count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (uint32_t)online : 1;
}

/* "max 100000" or "150000 100000": microseconds of each period. */
static uint32_t read_quota(const char *path)
{
    uint64_t quota, period;
    FILE *file = fopen(path, "re");

    if (!file)
        return UINT32_MAX;
    int fields = fscanf(file, "%" SCNu64 " %" SCNu64, &quota, &period);
    fclose(file);
    if (fields != 2 || period == 0 || quota == 0 || quota / period >= UINT32_MAX - 1)
        return UINT32_MAX;
    return (uint32_t)(quota / period + (quota % period != 0));
}

void rt_cores_group(const char *membership, char *group, size_t capacity)
{
    char line[PATH_MAX];
    FILE *file = fopen(membership, "re");

    group[0] = '\0';
    if (!file)
        return;
    while (fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::/", 4) == 0)
            snprintf(group, capacity, "%s", line + 3);
    }
    fclose(file);
}

uint32_t rt_cores_quota(const char *membership, const char *root)
{
    char group[PATH_MAX], path[2 * PATH_MAX];
    uint32_t least = UINT32_MAX;

    rt_cores_group(membership, group, sizeof(group));
    for (char *end = group + strlen(group); end;) { /* every group above limits as well */
        *end = '\0';
        snprintf(path, sizeof(path), "%s%s/cpu.max", root, group);
        uint32_t quota = read_quota(path);
        least = quota < least ? quota : least;
        end = strrchr(group, '/');
    }
    return least;
}
