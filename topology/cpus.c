/* Sets of cores: of this thread, as the kernel writes them, and for sentences. */
#include "near.h"
#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool rt_cpus_allowed(struct rt_cpus *cpus)
{
    memset(cpus, 0, sizeof(*cpus));
    return sched_getaffinity(0, sizeof(*cpus), (cpu_set_t *)cpus->word) == 0;
}

bool rt_cpus_bind(const struct rt_cpus *cpus)
{
    return sched_setaffinity(0, sizeof(*cpus), (const cpu_set_t *)cpus->word) == 0;
}

bool rt_cpus_parse(struct rt_cpus *cpus, const char *list)
{
    memset(cpus, 0, sizeof(*cpus));
    while (isspace((unsigned char)*list))
        list++;
    while (*list) {
        char *end;
        unsigned long first, last;
        if (!isdigit((unsigned char)*list))
            return false;
        first = last = strtoul(list, &end, 10);
        if (*end == '-' && isdigit((unsigned char)end[1]))
            last = strtoul(end + 1, &end, 10);
        if (last < first || last >= RT_MOST_CPUS || (*end && *end != ',' && !isspace((unsigned char)*end)))
            return false;
        for (; first <= last; first++)
            cpus->word[first / 64] |= UINT64_C(1) << first % 64;
        for (list = end; *list == ',' || isspace((unsigned char)*list);)
            list++;
    }
    return true;
}

static bool has(const struct rt_cpus *cpus, uint32_t cpu)
{
    return cpu < RT_MOST_CPUS && (cpus->word[cpu / 64] >> cpu % 64 & 1);
}

const char *rt_cpus_text(const struct rt_cpus *cpus, char *text, size_t capacity)
{
    size_t length = 0;

    text[0] = '\0';
    for (uint32_t cpu = 0; cpu < RT_MOST_CPUS; cpu++) {
        uint32_t last = cpu;
        if (!has(cpus, cpu))
            continue;
        while (has(cpus, last + 1))
            last++;
        if (length + 24 > capacity) {
            snprintf(text + length, capacity - length, ",...");
            break;
        }
        length += (size_t)snprintf(text + length, capacity - length, last > cpu ? "%s%u-%u" : "%s%u",
                                   length ? "," : "", cpu, last);
        cpu = last;
    }
    return text;
}
