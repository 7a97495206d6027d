/* See control_standin.h. */
#include "control_standin.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rt_control {
    struct standin *world;
    uint32_t        rank;
};

const struct rt_place *rt_control_places(const struct rt_control *control)
{
    return control->world->place;
}

uint64_t rt_control_number(const struct rt_control *control)
{
    return (uint64_t)(uintptr_t)control->world ^ (uint64_t)getpid() << 48;
}

ringtree_status rt_control_all_gather(struct rt_control *control, const void *mine, size_t bytes, void *all,
                                      struct rt_error *error)
{
    struct standin *world = control->world;
    (void)error;
    if (control->rank == 0) world->gathers++;
    memcpy(world->gathered + control->rank * 4096, mine, bytes);
    pthread_barrier_wait(&world->barrier);
    for (uint32_t r = 0; r < world->ranks; r++) memcpy((char *)all + r * bytes, world->gathered + r * 4096, bytes);
    pthread_barrier_wait(&world->barrier);
    return RINGTREE_OK;
}

void rt_control_offer_fd(struct rt_control *control, int fd)
{
    control->world->offered[control->rank] = fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

ringtree_status rt_control_fetch_fd(struct rt_control *control, uint32_t peer, uint32_t wait_ms, int *fd,
                                    struct rt_error *error)
{
    struct standin *world = control->world;
    if (world->fetch_fails[control->rank])
        return rt_fail(error, RINGTREE_UNREACHABLE, "the stand-in refuses rank %u after %u ms", control->rank, wait_ms);
    *fd = fcntl(world->false_fd >= 0 ? world->false_fd : world->offered[peer], F_DUPFD_CLOEXEC, 0);
    return *fd >= 0 ? RINGTREE_OK : rt_fail_errno(error, "nothing was offered");
}

struct standin *standin_new(uint32_t ranks)
{
    struct standin *world = calloc(1, sizeof *world);
    if (!world) abort();
    world->ranks = ranks;
    world->false_fd = -1;
    world->gathered = calloc(ranks, 4096);
    world->control = calloc(ranks, sizeof *world->control);
    pthread_barrier_init(&world->barrier, NULL, ranks);
    rt_settings_defaults(&world->settings);
    for (uint32_t r = 0; r < ranks; r++) {
        world->offered[r] = -1;
        world->control[r] = (struct rt_control){ world, r };
        world->place[r] = (struct rt_place){ .host_key = 7, .pid = (uint32_t)getpid(), .cores = 2, .core_mask = 3,
                                             .host = "here" };
    }
    return world;
}

static void *open_one(void *argument)
{
    struct rt_control *control = argument;
    struct standin *world = control->world;
    const uint32_t r = control->rank;
    world->status[r] = rt_node_open(&world->node[r], control, &world->settings, r, world->ranks, world->node_of[r],
                                    &world->error[r]);
    world->fabric[r] = (struct rt_fabric){ r, world->ranks, &world->settings, &rt_system_clock, control,
                                           world->node[r] };
    return NULL;
}

void standin_open(struct standin *world)
{
    pthread_t thread[STANDIN_MOST];
    for (uint32_t r = 0; r < world->ranks; r++)
        if (pthread_create(&thread[r], NULL, open_one, &world->control[r])) abort();
    for (uint32_t r = 0; r < world->ranks; r++) pthread_join(thread[r], NULL);
}

void standin_close(struct standin *world)
{
    for (uint32_t r = 0; r < world->ranks; r++) {
        rt_node_close(world->node[r]);
        if (world->offered[r] >= 0) close(world->offered[r]);
    }
    pthread_barrier_destroy(&world->barrier);
    free(world->gathered);
    free(world->control);
    free(world);
}
