/* See standin_control.h. Not thread safe but for what two ranks do: one dials, the other takes, under a lock. */
#include "standin_control.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rt_control {
    struct standin *world;
    uint32_t        rank;
};

struct rt_dial {
    struct standin *world;
    struct rt_claim claim;
    uint32_t        rounds;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool loopback_pair(int family, int pair[2])
{
    const struct rt_address v4 = { .family = AF_INET, .bytes = { 127, 0, 0, 1 } };
    const struct rt_address v6 = { .family = AF_INET6, .bytes = { [15] = 1 } };
    struct sockaddr_storage at;
    socklen_t length = rt_address_to_sockaddr(family == AF_INET ? &v4 : &v6, &at), same = length;
    const int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pair[0] = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pair[1] = -1;
    if (listener >= 0 && bind(listener, (struct sockaddr *)&at, length) == 0 && listen(listener, 1) == 0 &&
        getsockname(listener, (struct sockaddr *)&at, &same) == 0 &&
        connect(pair[0], (struct sockaddr *)&at, same) == 0)
        pair[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (listener >= 0) close(listener);
    if (pair[1] < 0 && pair[0] >= 0) close(pair[0]);
    return pair[1] >= 0;
}

bool standin_pair(int family, int pair[2])
{
    const bool made = family == AF_UNIX ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0
                                        : loopback_pair(family, pair);
    for (int i = 0; made && i < 2; i++) fcntl(pair[i], F_SETFL, O_NONBLOCK);
    return made;
}

struct standin *standin_start(int family, uint64_t sockets)
{
    int probe[2];
    if (!standin_pair(family, probe)) return NULL;
    close(probe[0]);
    close(probe[1]);
    struct standin *world = calloc(1, sizeof(*world));
    world->family = family;
    world->dial_rounds = 3;
    rt_settings_defaults(&world->settings);
    world->settings.number[RT_TIMEOUT_MS] = 5000;
    world->settings.number[RT_TCP_SOCKETS] = sockets;
    for (uint32_t r = 0; r < 2; r++) {
        world->place[r].address[0] = (struct rt_address){ .family = AF_INET, .port = 1, .bytes = { 127, 0, 0, 1 } };
        strcpy(world->place[r].host, "testhost");
        world->control[r] = malloc(sizeof(struct rt_control));
        *world->control[r] = (struct rt_control){ world, r };
    }
    return world;
}

void standin_stop(struct standin *world)
{
    for (uint32_t i = 0; i < world->parks; i++) close(world->parked[i].fd);
    free(world->control[0]);
    free(world->control[1]);
    free(world);
}

void standin_fabric(struct standin *world, struct rt_fabric fabric[2])
{
    for (uint32_t r = 0; r < 2; r++)
        fabric[r] = (struct rt_fabric){ .rank = r, .nranks = 2, .settings = &world->settings,
                                        .clock = &rt_system_clock, .control = world->control[r] };
}

static void park(struct standin *world, const struct rt_claim *claim, int fd)
{
    pthread_mutex_lock(&lock);
    world->parked[world->parks].claim = *claim;
    world->parked[world->parks++].fd = fd;
    pthread_mutex_unlock(&lock);
}

void standin_park(struct standin *world, uint32_t stripe, int fd)
{
    const struct rt_claim claim = { .kind = RT_CONNECT_DATA, .rank = 0, .lane = 2, .stripe = stripe };
    park(world, &claim, fd);
}

const struct rt_place *rt_control_places(const struct rt_control *control)
{
    return control->world->place;
}

int rt_control_take(struct rt_control *control, const struct rt_claim *claim)
{
    struct standin *world = control->world;
    int fd = -1;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < world->parks && fd < 0; i++) {
        const struct rt_claim *have = &world->parked[i].claim;
        if (have->kind != claim->kind || have->rank != claim->rank || have->lane != claim->lane ||
            have->stripe != claim->stripe)
            continue;
        fd = world->parked[i].fd;
        world->parked[i] = world->parked[--world->parks];
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

struct rt_dial *rt_dial_start(struct rt_control *control, uint32_t peer, const struct rt_claim *claim,
                              uint64_t deadline_ns)
{
    (void)peer;
    (void)deadline_ns;
    struct rt_dial *dial = malloc(sizeof(*dial));
    *dial = (struct rt_dial){ control->world, *claim, control->world->dial_rounds };
    return dial;
}

ringtree_status rt_dial_go(struct rt_dial *dial, int *fd, struct rt_error *error)
{
    int pair[2];
    if (dial->rounds-- > 0) return RINGTREE_IN_PROGRESS;
    if (dial->world->refuses || !standin_pair(dial->world->family, pair))
        return rt_fail(error, RINGTREE_UNREACHABLE, "rank 0 cannot connect to rank 1: the stand-in refuses");
    park(dial->world, &dial->claim, pair[1]);
    *fd = pair[0];
    return RINGTREE_OK;
}

int rt_dial_pollfd(struct rt_dial *dial, short *events)
{
    (void)dial;
    *events = 0;
    return -1;
}

void rt_dial_end(struct rt_dial *dial)
{
    free(dial);
}
