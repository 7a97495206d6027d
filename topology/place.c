/* Finds out where this rank lives. */
#include "place.h"
#include "cores.h"
#include "interfaces.h"
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void hash_text(crypto_generichash_state *state, const char *text)
{
    crypto_generichash_update(state, (const unsigned char *)text, strlen(text) + 1);
}

/* Changes at every start of the machine. Without /proc its name must do: a wrong guess costs only a failed try to
 * share memory. */
static void read_boot_id(char *text, size_t capacity)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, capacity - 1);

    if (fd >= 0)
        close(fd);
    if (length > 0)
        text[length] = '\0';
    else if (gethostname(text, capacity) < 0)
        text[0] = '\0';
    text[capacity - 1] = '\0';
}

/* BLAKE2b, 8 bytes, of three texts. */
static uint64_t hash_of(const char *first, const char *second, const char *third)
{
    crypto_generichash_state state;
    uint64_t key;

    _Static_assert(crypto_generichash_BYTES_MIN >= sizeof(key), "the key is a part of the hash");
    unsigned char hash[crypto_generichash_BYTES_MIN];
    crypto_generichash_init(&state, NULL, 0, sizeof(hash));
    hash_text(&state, first);
    hash_text(&state, second);
    hash_text(&state, third);
    crypto_generichash_final(&state, hash, sizeof(hash));
    memcpy(&key, hash, sizeof(key));
    return key;
}

static void find_keys(struct rt_place *place, const char *pretended)
{
    struct stat namespace = { 0 };
    char boot[128], network[64];

    read_boot_id(boot, sizeof(boot));
    stat("/proc/self/ns/net", &namespace);
    snprintf(network, sizeof(network), "%ju %ju", (uintmax_t)namespace.st_dev, (uintmax_t)namespace.st_ino);
    place->host_key = hash_of(boot, network, pretended);
    place->machine_key = hash_of(boot, "", "");
}

/* `host` is zeroed. A longer name is cut. */
static void find_host(char *host, size_t capacity, const char *pretended)
{
    if (pretended[0])
        memcpy(host, pretended, strnlen(pretended, capacity - 1));
    else if (gethostname(host, capacity) < 0)
        strcpy(host, "?");
    host[capacity - 1] = '\0';
}

ringtree_status rt_place_find(struct rt_place *place, const struct rt_settings *settings, struct rt_error *error)
{
    const char *pretended = settings->text[RT_HOST];
    struct rt_interfaces interfaces;

    memset(place, 0, sizeof(*place)); /* padding too: it is sent as bytes */
    ringtree_status status = rt_interfaces_find(&interfaces, settings->text[RT_INTERFACE], error);
    if (status)
        return status;
    for (size_t i = 0; i < interfaces.used; i++)
        place->address[i] = interfaces.list[i].address;
    rt_interfaces_free(&interfaces);

    const uint32_t quota = rt_cores_quota("/proc/self/cgroup", "/sys/fs/cgroup");
    place->cores = rt_cores_allowed(&place->core_mask);
    if (quota < place->cores)
        place->cores = quota;
    place->pid = (uint32_t)getpid();
    find_keys(place, pretended);
    find_host(place->host, sizeof(place->host), pretended);
    return RINGTREE_OK;
}

void rt_core_count_add(struct rt_core_count *count, const struct rt_place *place)
{
    const uint32_t counted = (uint32_t)__builtin_popcountll(place->core_mask);
    count->mask |= place->core_mask;
    if (place->cores > counted && place->cores - counted > count->beyond) count->beyond = place->cores - counted;
    if (place->cores < counted && place->cores > count->quota) count->quota = place->cores;
}

uint32_t rt_core_count_total(const struct rt_core_count *count)
{
    const uint32_t cores = (uint32_t)__builtin_popcountll(count->mask) + count->beyond;
    const uint32_t total = count->quota && count->quota < cores ? count->quota : cores;
    return total ? total : 1;
}

void rt_place_prefer(struct rt_place *place, int connected_fd)
{
    struct sockaddr_storage name;
    socklen_t length = sizeof(name);
    struct rt_address local;

    if (getsockname(connected_fd, (struct sockaddr *)&name, &length) < 0 ||
        !rt_address_from_sockaddr(&local, (const struct sockaddr *)&name))
        return;
    for (size_t i = 1; i < RT_MAX_ADDRESSES; i++) {
        if (!rt_address_same_host(&place->address[i], &local))
            continue;
        struct rt_address chosen = place->address[i];
        memmove(&place->address[1], &place->address[0], i * sizeof(chosen));
        place->address[0] = chosen;
        return;
    }
}
