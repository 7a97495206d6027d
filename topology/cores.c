/* Affinity and quota. What cannot be read limits nothing: these are hints for waiting, not for correctness. */
#include "cores.h"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
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

/* Microseconds of each period, rounded up to whole cores; what is no number limits nothing ("max", -1). */
static uint32_t cores_of(int fields, uint64_t quota, uint64_t period)
{
    if (fields != 2 || period == 0 || quota == 0 || quota / period >= UINT32_MAX - 1)
        return UINT32_MAX;
    return (uint32_t)(quota / period + (quota % period != 0));
}

static int read_numbers(const char *path, uint64_t *first, uint64_t *second)
{
    FILE *file = fopen(path, "re");

    if (!file)
        return 0;
    int fields = second ? fscanf(file, "%" SCNu64 " %" SCNu64, first, second) : fscanf(file, "%" SCNu64, first);
    fclose(file);
    return fields;
}

/* "max 100000" or "150000 100000" */
static uint32_t quota_2(const char *group)
{
    char path[3 * PATH_MAX];
    uint64_t quota = 0, period = 0;

    snprintf(path, sizeof(path), "%s/cpu.max", group);
    const int fields = read_numbers(path, &quota, &period);
    return cores_of(fields, quota, period);
}

static uint32_t quota_1(const char *group)
{
    char path[3 * PATH_MAX];
    uint64_t quota = 0, period = 0;

    snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", group);
    int fields = read_numbers(path, &quota, NULL);
    snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", group);
    fields += read_numbers(path, &period, NULL);
    return cores_of(fields, quota, period);
}

static bool has_word(const char *list, size_t length, const char *word)
{
    for (size_t at = 0; at <= length; at += strcspn(list + at, ",:") + 1)
        if (strncmp(list + at, word, strlen(word)) == 0 && strchr(",:", list[at + strlen(word)]))
            return true;
    return false;
}

/* The group in a line "4:cpu,cpuacct:/path" with this controller, or "0::/path" without one; "": there is none. */
static void group_of(const char *membership, const char *controller, char *group, size_t capacity)
{
    char line[PATH_MAX];
    FILE *file = fopen(membership, "re");

    group[0] = '\0';
    if (!file)
        return;
    while (fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        const char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
        if (!path || path[1] != '/')
            continue;
        const size_t length = (size_t)(path - list - 1);
        if (*controller ? has_word(list + 1, length, controller) : length == 0)
            snprintf(group, capacity, "%s", path + 1);
    }
    fclose(file);
}

void rt_cores_group(const char *membership, char *group, size_t capacity)
{
    group_of(membership, "", group, capacity);
}

/* Every group above limits as well. In a container the path may be another machine's view: then its root counts. */
static uint32_t least_quota(const char *root, char *group, uint32_t (*quota_of)(const char *group))
{
    char path[2 * PATH_MAX];
    uint32_t least = UINT32_MAX;

    for (char *end = group + strlen(group); end;) {
        *end = '\0';
        snprintf(path, sizeof(path), "%s%s", root, group);
        uint32_t quota = quota_of(path);
        least = quota < least ? quota : least;
        end = strrchr(group, '/');
    }
    return least;
}

uint32_t rt_cores_quota(const char *membership, const char *root)
{
    char group[PATH_MAX], root_1[PATH_MAX];

    rt_cores_group(membership, group, sizeof(group));
    const uint32_t second = least_quota(root, group, quota_2);
    group_of(membership, "cpu", group, sizeof(group));
    snprintf(root_1, sizeof(root_1), "%s/cpu", root);
    const uint32_t first = least_quota(root_1, group, quota_1);
    return first < second ? first : second;
}
