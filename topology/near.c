/* NUMA domains and GPUs from /sys, what the control group leaves, and the shares of ranks. */
#include "near.h"
#include "cores.h"
#include "file.h"
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DEVICES 4096 /* PCI functions of a machine */

static bool read_cpus(struct rt_cpus *cpus, const char *path)
{
    char line[4096];

    return rt_file_line(path, line, sizeof(line)) && rt_cpus_parse(cpus, line);
}

static uint32_t count(const struct rt_cpus *cpus)
{
    uint32_t sum = 0;

    for (size_t i = 0; i < RT_MOST_CPUS / 64; i++)
        sum += (uint32_t)__builtin_popcountll(cpus->word[i]);
    return sum;
}

static void keep_common(struct rt_cpus *cpus, const struct rt_cpus *other)
{
    for (size_t i = 0; i < RT_MOST_CPUS / 64; i++)
        cpus->word[i] &= other->word[i];
}

static void add_all(struct rt_cpus *cpus, const struct rt_cpus *other)
{
    for (size_t i = 0; i < RT_MOST_CPUS / 64; i++)
        cpus->word[i] |= other->word[i];
}

/* All that this process could be allowed: what its control group leaves, else what is online. */
static bool read_limit(struct rt_cpus *limit, const struct rt_near_paths *paths)
{
    char group[PATH_MAX], path[2 * PATH_MAX];

    rt_cores_group(paths->membership, group, sizeof(group));
    for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
        *end = '\0';
        snprintf(path, sizeof(path), "%s%s/cpuset.cpus.effective", paths->cgroup, group);
        if (read_cpus(limit, path) && count(limit) > 0)
            return true;
    }
    snprintf(path, sizeof(path), "%s/devices/system/cpu/online", paths->sys);
    return read_cpus(limit, path);
}

/* Domains with cores that are allowed, ascending. */
static void read_domains(struct rt_near *near, const char *sys, const struct rt_cpus *allowed)
{
    char path[PATH_MAX];
    struct rt_cpus online; /* numbers of domains, written like cores */

    snprintf(path, sizeof(path), "%s/devices/system/node/online", sys);
    if (!read_cpus(&online, path))
        return;
    for (int32_t number = 0; number < RT_MOST_CPUS && near->ndomains < RT_MOST_DOMAINS; number++) {
        struct rt_domain *domain = &near->domain[near->ndomains];
        if (!(online.word[number / 64] >> number % 64 & 1))
            continue;
        snprintf(path, sizeof(path), "%s/devices/system/node/node%d/cpulist", sys, number);
        if (!read_cpus(&domain->cpus, path))
            continue;
        keep_common(&domain->cpus, allowed);
        domain->number = number;
        domain->ncpus = count(&domain->cpus);
        near->ndomains += domain->ncpus > 0;
    }
}

static long read_number(const char *sys, const char *device, const char *file, int base)
{
    char path[PATH_MAX], line[32];

    snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/%s", sys, device, file);
    return rt_file_line(path, line, sizeof(line)) ? strtol(line, NULL, base) : -1;
}

/* 3D controllers and accelerators, and those displays that are a GPU maker's, not a server's own little one. */
static bool is_gpu(const char *sys, const char *device)
{
    const long class = read_number(sys, device, "class", 16) >> 8;

    if (class == 0x0302 || class == 0x1200)
        return true;
    const long vendor = class == 0x0300 ? read_number(sys, device, "vendor", 16) : 0;
    return vendor == 0x10de || vendor == 0x1002;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void read_gpus(struct rt_near *near, const char *sys)
{
    char path[PATH_MAX];
    struct dirent **entry = NULL;

    snprintf(path, sizeof(path), "%s/bus/pci/devices", sys);
    const int found = scandir(path, &entry, NULL, by_name);
    for (int i = 0; i < found; i++) {
        const char *name = entry[i]->d_name;
        if (found <= MOST_DEVICES && name[0] != '.' && near->ngpus < RT_MOST_DOMAINS && is_gpu(sys, name))
            near->gpu[near->ngpus++] = (int32_t)read_number(sys, name, "numa_node", 10);
        free(entry[i]);
    }
    free(entry);
}

void rt_near_find(struct rt_near *near, const struct rt_near_paths *paths, const struct rt_cpus *allowed)
{
    struct rt_cpus limit;
    char text[64], other[64];

    near->why[0] = '\0';
    near->ndomains = near->ngpus = 0;
    read_domains(near, paths->sys, allowed);
    if (near->ndomains < 2)
        snprintf(near->why, sizeof(near->why), "the cores that may be used are in one NUMA domain");
    else if (!read_limit(&limit, paths))
        snprintf(near->why, sizeof(near->why), "the system does not say which cores there are");
    else if (memcmp(allowed, &limit, sizeof(limit)) != 0)
        snprintf(near->why, sizeof(near->why), "bound to cores %s of %s already",
                 rt_cpus_text(allowed, text, sizeof(text)), rt_cpus_text(&limit, other, sizeof(other)));
    else
        read_gpus(near, paths->sys);
}

/*
 * The allowed cores, laid out in a line by domains, are cut into `size` equal pieces. A rank gets the domain that the
 * middle of its piece is in, and those whose own middle is in its piece, so few ranks share out all domains.
 */
static bool is_shared(const struct rt_near *near, uint32_t index, uint32_t size, uint32_t d)
{
    uint64_t total = 0, begin = 0;

    for (uint32_t i = 0; i < near->ndomains; i++) {
        begin += i < d ? near->domain[i].ncpus : 0;
        total += near->domain[i].ncpus;
    }
    const uint64_t end = begin + near->domain[d].ncpus, middle = (2 * index + UINT64_C(1)) * total;
    return (begin + end) * size / (2 * total) == index || (middle >= 2 * begin * size && middle < 2 * end * size);
}

static uint32_t domain_of_gpu(const struct rt_near *near, uint32_t gpu)
{
    uint32_t d = 0;

    while (d < near->ndomains && near->domain[d].number != near->gpu[gpu])
        d++;
    return d;
}

/* Whether each rank has a GPU of its own, whose domain is known and has a core for each of its ranks. */
static bool goes_by_gpus(const struct rt_near *near, uint32_t size)
{
    uint32_t ranks[RT_MOST_DOMAINS] = { 0 };

    if (near->ngpus != size)
        return false;
    for (uint32_t i = 0; i < size; i++) {
        const uint32_t d = domain_of_gpu(near, i);
        if (d == near->ndomains || ++ranks[d] > near->domain[d].ncpus)
            return false;
    }
    return true;
}

bool rt_near_share(const struct rt_near *near, uint32_t index, uint32_t size, struct rt_cpus *cpus, const char **why)
{
    memset(cpus, 0, sizeof(*cpus));
    *why = size < 2 ? "one rank has the whole machine" : near->why;
    if (**why)
        return false;
    if (goes_by_gpus(near, size)) { /* the share that its GPU is in */
        const uint32_t d = domain_of_gpu(near, index);
        for (index = 0; index + 1 < size && !is_shared(near, index, size, d);)
            index++;
    }
    for (uint32_t d = 0; d < near->ndomains; d++)
        if (is_shared(near, index, size, d))
            add_all(cpus, &near->domain[d].cpus);
    return true;
}

/* A virtual device has no domain of its own: that of the function which it is on. */
static int32_t domain_of_interface(const char *sys, const char *interface)
{
    char path[PATH_MAX], line[32];

    if (strchr(interface, '/'))
        return -1;
    snprintf(path, sizeof(path), "%s/class/net/%s/device/numa_node", sys, interface);
    if (rt_file_line(path, line, sizeof(line)))
        return (int32_t)strtol(line, NULL, 10);
    snprintf(path, sizeof(path), "%s/class/net/%s/device/../numa_node", sys, interface);
    return rt_file_line(path, line, sizeof(line)) ? (int32_t)strtol(line, NULL, 10) : -1;
}

void rt_near_interface(const struct rt_near *near, const char *sys, const char *interface, struct rt_cpus *cpus)
{
    const int32_t number = domain_of_interface(sys, interface);

    for (uint32_t d = 0; d < near->ndomains; d++) {
        struct rt_cpus common = *cpus;
        keep_common(&common, &near->domain[d].cpus);
        if (near->domain[d].number == number && count(&common) > 0)
            *cpus = common;
    }
}

int32_t rt_near_domain(const struct rt_near *near, const struct rt_cpus *cpus)
{
    for (uint32_t d = 0; d < near->ndomains; d++) {
        struct rt_cpus common = *cpus;
        keep_common(&common, &near->domain[d].cpus);
        if (memcmp(&common, cpus, sizeof(common)) == 0)
            return near->domain[d].number;
    }
    return -1;
}
