/* What NCCL is told of this machine: one device, which is all interfaces that ringtree may use. */
#include "net.h"
#include "tcp/tcp.h"
#include "topology/interfaces.h"
#include <limits.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rt_settings net_settings;
struct rt_place    net_place;
nccl_logger        net_log;

static pthread_once_t   once = PTHREAD_ONCE_INIT;
static ringtree_status  started;
static struct rt_error  failure;
static char             pci_path[PATH_MAX], name[] = "ringtree";
static int              speed_mbps = 10000; /* of an interface that does not tell */

static void look_at_interface(void)
{
    char path[128], real[PATH_MAX];
    int speed = 0;
    snprintf(path, sizeof(path), "/sys/class/net/%s/device", net_place.address[0].interface);
    if (realpath(path, real) && strstr(real, "/pci")) memcpy(pci_path, real, sizeof(pci_path));
    snprintf(path, sizeof(path), "/sys/class/net/%s/speed", net_place.address[0].interface);
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%d", &speed) == 1 && speed > 0) speed_mbps = speed;
    if (file) fclose(file);
}

static void start(void)
{
    if (sodium_init() < 0) started = rt_fail(&failure, RINGTREE_SYSTEM, "libsodium finds no source of random numbers");
    if (started == RINGTREE_OK) started = rt_settings_load(&net_settings, &failure);
    if (started == RINGTREE_OK) started = rt_place_find(&net_place, &net_settings, &failure);
    if (started == RINGTREE_OK && net_place.address[0].family == 0)
        started = rt_fail(&failure, RINGTREE_UNREACHABLE, "no network address may be used (RINGTREE_INTERFACE)");
    if (started == RINGTREE_OK) look_at_interface();
}

enum nccl_result net_start(nccl_logger logger)
{
    if (logger) net_log = logger;
    pthread_once(&once, start);
    return started == RINGTREE_OK ? NCCL_SUCCESS : net_say(started, failure.text);
}

uint32_t net_transports(void)
{
    return NET_BY_TCP | (rt_transport_ucx.reaches(NULL, 0, NULL, 0) ? NET_BY_UCX : 0);
}

uint32_t net_prefer(uint32_t usable)
{
    const char *list = net_settings.text[RT_TRANSPORTS];
    char word[32];
    if (list[0] == '^')
        return usable & NET_BY_UCX && !rt_list_allows(list, "tcp") && rt_list_allows(list, "ucx") ? NET_BY_UCX
                                                                                                  : NET_BY_TCP;
    for (uint32_t i = 0; rt_list_item(list, i, word, sizeof(word)); i++) {
        const uint32_t bit = !strcmp(word, "ucx") ? NET_BY_UCX : !strcmp(word, "tcp") ? NET_BY_TCP : 0;
        if (usable & bit) return bit;
    }
    return NET_BY_TCP;
}

void net_properties(struct nccl_properties_12 *properties, int device)
{
    const size_t most = (size_t)1 << 40;
    *properties = (struct nccl_properties_12){
        .name = name, .pci_path = pci_path[0] ? pci_path : NULL, .guid = (uint64_t)device, .ptr_support = NCCL_PTR_HOST,
        .speed_mbps = speed_mbps, .max_comms = 65536, .max_recvs = 1, .devices = 1, .device = { device },
        .max_p2p_bytes = most, .max_coll_bytes = most, .max_multi_request = 1, .rail = -1, .plane = -1 };
}

enum nccl_result net_say(ringtree_status status, const char *sentence)
{
    if (net_log) net_log(NCCL_LOG_WARN, NCCL_LOG_NET, __FILE__, __LINE__, "NET/ringtree: %s", sentence);
    switch (status) {
    case RINGTREE_PEER_LOST:
    case RINGTREE_REFUSED:
    case RINGTREE_UNREACHABLE: return NCCL_REMOTE_ERROR;
    case RINGTREE_INVALID_ARGUMENT: return NCCL_INVALID_ARGUMENT;
    case RINGTREE_INVALID_SETTING:
    case RINGTREE_MISMATCH: return NCCL_INVALID_USAGE;
    case RINGTREE_INTERNAL: return NCCL_INTERNAL_ERROR;
    default: return NCCL_SYSTEM_ERROR;
    }
}
