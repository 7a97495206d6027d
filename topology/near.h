/*
 * Which cores a rank should keep to: its share of the machine's NUMA domains, so that it stays near its memory and its
 * GPU. All ranks of a machine decide alike. Where there is one domain, or somebody has bound the rank already, nothing
 * is to be done.
 */
#ifndef RT_NEAR_H
#define RT_NEAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RT_MOST_CPUS    8192
#define RT_MOST_DOMAINS 64

struct rt_cpus {
    uint64_t word[RT_MOST_CPUS / 64];
};

struct rt_domain { /* a NUMA domain with cores that may be used */
    int32_t        number;
    uint32_t       ncpus;
    struct rt_cpus cpus;
};

struct rt_near {
    char             why[160];      /* nothing is to be bound; "": see domain[] */
    uint32_t         ndomains;      /* at least 2, unless why says so */
    uint32_t         ngpus;
    int32_t          gpu[RT_MOST_DOMAINS]; /* NUMA number of each, in the order of bus ids; -1 unknown */
    struct rt_domain domain[RT_MOST_DOMAINS];
};

/* Where to look; a test's copies, or those of RT_NEAR_HERE. */
struct rt_near_paths {
    const char *sys, *membership, *cgroup;
};
#define RT_NEAR_HERE ((struct rt_near_paths){ "/sys", "/proc/self/cgroup", "/sys/fs/cgroup" })

/* `allowed`: of this thread, see rt_cpus_allowed(). What cannot be read binds nothing. */
void rt_near_find(struct rt_near *near, const struct rt_near_paths *paths, const struct rt_cpus *allowed);

/* The cores for rank `index` of `size` on this machine. false: all of them, *why says why. */
bool rt_near_share(const struct rt_near *near, uint32_t index, uint32_t size, struct rt_cpus *cpus, const char **why);

/* Of `cpus`, those in the NUMA domain of a network interface; all of them where that is in none of theirs. */
void rt_near_interface(const struct rt_near *near, const char *sys, const char *interface, struct rt_cpus *cpus);

bool rt_cpus_allowed(struct rt_cpus *cpus); /* of this thread; false: the kernel has more than RT_MOST_CPUS */
bool rt_cpus_bind(const struct rt_cpus *cpus); /* this thread; false: errno */
/* The number of the NUMA domain that all of `cpus` are in; -1: there is none. */
int32_t rt_near_domain(const struct rt_near *near, const struct rt_cpus *cpus);
bool rt_cpus_parse(struct rt_cpus *cpus, const char *list);       /* "0-3,8"; false: it is none */
const char *rt_cpus_text(const struct rt_cpus *cpus, char *text, size_t capacity);

#endif
