/* Registered memory of links, and what the system lets a process pin of it. */
#include "verbs.h"
#include "base/log.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define CAP_IPC_LOCK_BIT 14

/* A number in /proc/self/status, in its base; 0 if there is none. */
static uint64_t own_status(const char *name, int base)
{
    char line[256];
    uint64_t value = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof(line), file))
        if (!strncmp(line, name, strlen(name))) value = strtoull(line + strlen(name), NULL, base);
    if (file) fclose(file);
    return value;
}

ringtree_status rt_verbs_check_memlock(size_t bytes, uint64_t limit, bool privileged, struct rt_error *error)
{
    if (privileged || limit == RLIM_INFINITY || bytes <= limit) return RINGTREE_OK;
    return rt_fail(error, RINGTREE_NO_MEMORY,
                   "RDMA has to pin memory, with this link %zu bytes, and this process may pin only %" PRIu64
                   " (ulimit -l shows KiB). Raise that limit: \"ulimit -l unlimited\" in the shell that starts it, "
                   "\"* - memlock unlimited\" in /etc/security/limits.conf, LimitMEMLOCK=infinity in a systemd unit "
                   "(slurmd too), --ulimit memlock=-1 for docker; or lower RINGTREE_VERBS_SLOT_BYTES; or leave verbs "
                   "out: RINGTREE_TRANSPORTS=shm,tcp", bytes, limit);
}

static ringtree_status check_limit(size_t bytes, struct rt_error *error)
{
    struct rlimit limit;
    const bool privileged = own_status("CapEff:", 16) >> CAP_IPC_LOCK_BIT & 1;
    if (getrlimit(RLIMIT_MEMLOCK, &limit)) return RINGTREE_OK;
    return rt_verbs_check_memlock(bytes + own_status("VmPin:", 10) * 1024, limit.rlim_cur, privileged, error);
}

struct ibv_mr *rt_verbs_register(const struct rt_verbs *v, const struct rt_verbs_port *port, void *at, size_t bytes,
                                 bool remote)
{
    const int access = remote ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0;
    struct ibv_mr *mr = NULL;
    if (v->fabric->settings->number[RT_VERBS_ODP])
        mr = v->api->reg_mr(port->pd, at, bytes, access | IBV_ACCESS_ON_DEMAND);
    return mr ? mr : v->api->reg_mr(port->pd, at, bytes, access);
}

ringtree_status rt_verbs_slots_open(struct rt_verbs *v, struct rt_verbs_slots *slots, size_t bytes, bool remote,
                                    struct rt_error *error)
{
    ringtree_status status = check_limit(bytes, error);
    if (status != RINGTREE_OK) return status;
    slots->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slots->memory == MAP_FAILED) {
        slots->memory = NULL;
        return rt_fail(error, RINGTREE_NO_MEMORY, "no memory for the slots of a verbs link (%zu bytes); lower "
                       "RINGTREE_VERBS_SLOT_BYTES", bytes);
    }
    slots->bytes = bytes;
    for (uint32_t i = 0; i < v->ports; i++) {
        slots->mr[i] = rt_verbs_register(v, &v->port[i], slots->memory, bytes, remote);
        if (!slots->mr[i])
            return rt_fail(error, RINGTREE_SYSTEM, "%s cannot register %zu bytes of memory: %s; see ulimit -l, and "
                           "RINGTREE_VERBS_SLOT_BYTES for less", v->port[i].device, bytes, rt_errno_words(errno));
    }
    return RINGTREE_OK;
}

void rt_verbs_slots_close(struct rt_verbs *v, struct rt_verbs_slots *slots)
{
    for (uint32_t i = 0; i < RT_VERBS_PORTS; i++)
        if (slots->mr[i]) v->api->dereg_mr(slots->mr[i]);
    if (slots->memory) munmap(slots->memory, slots->bytes);
    memset(slots, 0, sizeof(*slots));
}

/* ---- the caller's memory */

static void deregister(void *context, void *registered)
{
    struct rt_verbs *v = context;
    struct ibv_mr **mr = registered;
    for (uint32_t i = 0; i < RT_VERBS_PORTS; i++)
        if (mr[i]) v->api->dereg_mr(mr[i]);
    free(mr);
}

static void *register_piece(void *context, void *at, size_t bytes)
{
    struct rt_verbs *v = context;
    struct ibv_mr **mr = calloc(RT_VERBS_PORTS, sizeof(*mr));
    bool all = mr && check_limit(bytes * v->ports, NULL) == RINGTREE_OK;
    for (uint32_t i = 0; i < v->ports && all; i++) {
        mr[i] = rt_verbs_register(v, &v->port[i], at, bytes, false);
        all &= mr[i] != NULL;
    }
    if (all) return mr;
    if (mr) deregister(v, mr);
    return NULL;
}

void rt_verbs_cache_start(struct rt_verbs *v)
{
    const char *why = "";
    if (v->cache || v->cache_tried || !v->fabric->settings->number[RT_VERBS_REGISTER]) return;
    v->cache_tried = true;
    v->cache = calloc(1, sizeof(*v->cache));
    if (!v->cache) return;
    v->cache->register_ = register_piece;
    v->cache->deregister = deregister;
    v->cache->context = v;
    if (rt_verbs_cache_open(v->cache, &why)) return;
    rt_log(RT_LOG_INFO, "verbs: arrays are copied before they are sent, since %s", why);
    rt_verbs_cache_stop(v);
}

void rt_verbs_cache_stop(struct rt_verbs *v)
{
    if (v->cache) rt_verbs_cache_close(v->cache);
    free(v->cache);
    v->cache = NULL;
}
