/* The node among threads of one process: who shares, layout, waiting, faults on the way. heap_test.c has the heap. */
#include "shm/inside.h"
#include "world.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- who shares */

TEST(threads_of_one_process_share_and_read_each_other)
{
    struct standin *world = world_of(3);
    for (uint32_t r = 0; r < 3; r++) {
        const struct rt_node *node = world->node[r];
        CHECK_EQ(rt_node_size(node), 3);
        CHECK_EQ(rt_node_index(node), r);
        for (uint32_t i = 0; i < 3; i++) {
            CHECK_EQ(rt_node_rank(node, i), i);
            CHECK_EQ(rt_node_find(node, i), i);
            CHECK_EQ(rt_node_reads(node, i), 2);
            CHECK_EQ(rt_node_pid(node, i), getpid());
            CHECK_EQ(world->node_of[r][i], 0);
        }
        CHECK_EQ(rt_node_find(node, 3), RT_NONE);
        CHECK(rt_node_oversubscribed(node)); /* 3 ranks on cores 0 and 1 */
    }
    standin_close(world);
}

TEST(hosts_are_told_apart_and_numbered_by_first_appearance)
{
    struct standin *world = standin_new(6);
    const uint64_t keys[6] = { 9, 1, 9, 5, 1, 9 };
    const uint32_t nodes[6] = { 0, 1, 0, 2, 1, 0 };
    for (uint32_t r = 0; r < 6; r++) world->place[r].host_key = keys[r];
    standin_open(world);
    for (uint32_t r = 0; r < 6; r++) {
        CHECK_EQ(world->status[r], RINGTREE_OK);
        for (uint32_t i = 0; i < 6; i++) CHECK_EQ(world->node_of[r][i], nodes[i]);
    }
    CHECK(world->node[3] == NULL);
    CHECK_EQ(rt_node_size(world->node[0]), 3);
    CHECK_EQ(rt_node_size(world->node[4]), 2);
    CHECK_EQ(rt_node_index(world->node[4]), 1);
    CHECK_EQ(rt_node_find(world->node[5], 2), 1);
    CHECK_EQ(rt_node_find(world->node[5], 1), RT_NONE);
    CHECK(!rt_node_oversubscribed(world->node[4]));
    CHECK(rt_node_oversubscribed(world->node[0]));
    standin_close(world);
}

TEST(ranks_alone_make_no_memory_but_take_part_in_both_exchanges)
{
    struct standin *world = standin_new(3);
    for (uint32_t r = 0; r < 3; r++) world->place[r].host_key = r;
    standin_open(world);
    for (uint32_t r = 0; r < 3; r++) {
        CHECK_EQ(world->status[r], RINGTREE_OK);
        CHECK(world->node[r] == NULL);
        CHECK_EQ(world->offered[r], -1);
        CHECK_EQ(world->node_of[0][r], r);
    }
    CHECK_EQ(world->gathers, 2);
    standin_close(world);
}

TEST(ranks_that_cannot_attach_are_alone_and_the_others_share)
{
    struct standin *world = standin_new(5);
    const uint32_t nodes[5] = { 0, 1, 0, 0, 2 };
    world->fetch_fails[1] = world->fetch_fails[4] = true;
    standin_open(world);
    for (uint32_t r = 0; r < 5; r++) {
        CHECK_EQ(world->status[r], RINGTREE_OK);
        CHECK_EQ(world->node[r] != NULL, nodes[r] == 0);
        for (uint32_t i = 0; i < 5; i++) CHECK_EQ(world->node_of[r][i], nodes[i]);
    }
    CHECK_EQ(rt_node_size(world->node[3]), 3);
    CHECK_EQ(rt_node_index(world->node[3]), 2);
    CHECK_EQ(rt_node_find(world->node[3], 2), 1);
    size_t bytes;
    *(int *)rt_node_area(world->node[3], 1, &bytes) = 42; /* seats and local indexes differ here */
    CHECK_EQ(*(int *)rt_node_area(world->node[2], rt_node_index(world->node[2]), &bytes), 42);
    standin_close(world);
}

TEST(a_leader_that_cannot_attach_itself_leaves_the_others_together)
{
    struct standin *world = standin_new(3);
    struct sockaddr_un name;
    const uint64_t number = rt_control_number(world->control);
    const int squatter = socket(AF_UNIX, SOCK_DGRAM, 0); /* has the name of rank 0's bell */
    const socklen_t length = rt_bell_name(&name, number, 0, 0);
    CHECK(bind(squatter, (struct sockaddr *)&name, length) == 0);
    standin_open(world);
    CHECK(world->node[0] == NULL);
    CHECK(world->node[1] && world->node[2] && rt_node_size(world->node[1]) == 2);
    for (uint32_t r = 0; r < 3; r++) CHECK_EQ(world->node_of[r][0] != world->node_of[r][1], 1);
    CHECK_EQ(world->node_of[0][1], world->node_of[0][2]);
    close(squatter);
    standin_close(world);
}

TEST(threads_of_one_process_see_one_mapping_until_the_last_has_closed)
{
    struct standin *world = world_of(3);
    size_t bytes;
    int *area = rt_node_area(world->node[2], 1, &bytes);
    for (uint32_t r = 0; r < 3; r++) CHECK(rt_node_area(world->node[r], 1, &bytes) == area);
    rt_node_close(world->node[0]);
    rt_node_close(world->node[1]);
    world->node[0] = world->node[1] = NULL;
    *area = 5;
    standin_close(world);
    CHECK_EQ(msync((void *)((uintptr_t)area & ~(uintptr_t)4095), 4096, MS_ASYNC), -1); /* unmapped */
    CHECK_EQ(errno, ENOMEM);
}

/* ---- what is handed over is checked */

static struct rt_node_choice choice_of(uint32_t seats)
{
    struct rt_settings settings;
    struct rt_node_choice choice;
    rt_settings_defaults(&settings);
    rt_layout_choose(&choice, &settings, seats, 1234, INT64_MAX);
    return choice;
}

/* How a second rank fares with the first one's file after `harm` was done to it. */
static ringtree_status take_harmed(void (*harm)(struct rt_node_file *, struct rt_node_choice *), struct rt_error *error)
{
    struct rt_node_file made, taken;
    struct rt_node_choice choice = choice_of(2);
    CHECK_EQ(rt_file_make(&made, &choice, error), RINGTREE_OK);
    if (harm) harm(&made, &choice);
    ringtree_status status = rt_file_take(&taken, fcntl(made.fd, F_DUPFD_CLOEXEC, 0), &choice, error);
    rt_file_close(&taken);
    rt_file_close(&made);
    return status;
}

static void harm_magic(struct rt_node_file *file, struct rt_node_choice *choice)
{
    (void)choice;
    file->base[0] ^= 1;
}

static void harm_version(struct rt_node_file *file, struct rt_node_choice *choice)
{
    (void)choice;
    ((struct rt_node_header *)file->base)->layout.version++;
}

static void harm_offset(struct rt_node_file *file, struct rt_node_choice *choice)
{
    (void)choice;
    ((struct rt_node_header *)file->base)->layout.links += 4096;
}

static void harm_announced_slots(struct rt_node_file *file, struct rt_node_choice *choice)
{
    (void)file;
    choice->slots = UINT32_MAX;
}

static void harm_announced_length(struct rt_node_file *file, struct rt_node_choice *choice)
{
    (void)file;
    choice->file_bytes -= 4096;
}

static void harm_descriptor(struct rt_node_file *file, struct rt_node_choice *choice)
{
    close(file->fd);
    file->fd = memfd_create("short", MFD_CLOEXEC);
    CHECK(ftruncate(file->fd, (off_t)choice->file_bytes - 4096) == 0);
}

static void harm_seals(struct rt_node_file *file, struct rt_node_choice *choice)
{
    const int unsealed = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(ftruncate(unsealed, (off_t)choice->file_bytes) == 0);
    CHECK(pwrite(unsealed, file->base, 4096, 0) == 4096);
    close(file->fd);
    file->fd = unsealed;
}

TEST(a_file_that_is_not_as_announced_is_refused)
{
    struct rt_error error = { 0 };
    CHECK_EQ(take_harmed(NULL, &error), RINGTREE_OK);
    void (*const harms[])(struct rt_node_file *, struct rt_node_choice *) = {
        harm_magic, harm_version, harm_offset, harm_announced_slots, harm_announced_length, harm_descriptor,
        harm_seals };
    const char *const words[] = { "header", "version 2", "header", "impossible", "announced", "announced", "seals" };
    for (size_t i = 0; i < sizeof harms / sizeof *harms; i++) {
        CHECK_THAT(take_harmed(harms[i], &error) == RINGTREE_REFUSED, "harm %zu", i);
        CHECK_HAS(error.text, words[i]);
    }
}

TEST(a_false_descriptor_leaves_the_ranks_alone_without_hanging)
{
    struct standin *world = standin_new(3);
    world->false_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    standin_open(world);
    for (uint32_t r = 0; r < 3; r++) {
        CHECK_EQ(world->status[r], RINGTREE_OK);
        CHECK(world->node[r] == NULL);
        CHECK_EQ(world->node_of[r][2], 2);
    }
    close(world->false_fd);
    standin_close(world);
}

/* ---- limits, in a process of their own */

static bool in_child(void (*body)(void))
{
    int status = 0;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        atomic_store(&test_failures, 0);
        body();
        _exit(atomic_load(&test_failures) != 0);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void with_small_files(void)
{
    struct rlimit limit = { 1 << 20, 1 << 20 };
    setrlimit(RLIMIT_FSIZE, &limit);
    struct standin *world = standin_new(2);
    standin_open(world);
    CHECK_EQ(world->status[0], RINGTREE_OK);
    CHECK(world->node[0] == NULL && world->node[1] == NULL);
    CHECK_EQ(world->node_of[0][1], 1);
    standin_close(world);
}

static void with_a_small_heap(void)
{
    struct rlimit limit = { UINT64_C(256) << 20, UINT64_C(256) << 20 };
    setrlimit(RLIMIT_FSIZE, &limit);
    struct standin *world = world_of(2);
    struct rt_error error = { 0 };
    void *pointer;
    CHECK_EQ(rt_node_alloc(world->node[0], 100 << 20, &pointer, &error), RINGTREE_OK);
    CHECK_EQ(rt_node_alloc(world->node[1], 300 << 20, &pointer, &error), RINGTREE_NO_MEMORY);
    CHECK_EQ(rt_node_alloc(world->node[1], 200 << 20, &pointer, &error), RINGTREE_NO_MEMORY);
    CHECK(pointer == NULL);
    CHECK_HAS(error.text, "ulimit -f");
    CHECK_EQ(rt_node_alloc(world->node[1], 50 << 20, &pointer, &error), RINGTREE_OK);
    standin_close(world);
}

static void without_address_space(void)
{
    struct rlimit limit = { UINT64_C(1) << 30, UINT64_C(1) << 30 };
    setrlimit(RLIMIT_AS, &limit);
    struct standin *world = standin_new(2);
    world->settings.number[RT_SHM_SLOT_BYTES] = UINT64_C(64) << 20;
    standin_open(world);
    CHECK_THAT(world->status[0] == RINGTREE_OK, "%s", world->error[0].text);
    CHECK(world->node[0] == NULL && world->node[1] == NULL);
    standin_close(world);
}

TEST(small_limits_on_files_or_address_space_cost_the_sharing_and_nothing_else)
{
    CHECK(in_child(with_small_files));
    CHECK(in_child(with_a_small_heap));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    CHECK(in_child(without_address_space));
#else
    (void)without_address_space;
#endif
}

/* ---- layout */

TEST(up_to_thousand_ranks_have_a_sane_layout)
{
    for (uint32_t seats = 2; seats <= 1024; seats++) {
        const struct rt_node_choice choice = choice_of(seats);
        struct rt_node_layout layout;
        CHECK_THAT(rt_layout_from(&layout, &choice), "%u ranks", seats);
        CHECK_THAT(layout.slot_bytes >= 4096 && layout.slot_bytes % 64 == 0, "%u ranks: %u", seats, layout.slot_bytes);
        CHECK_EQ(layout.link_stride / layout.page % 2, 1);
        CHECK_EQ(layout.area_stride / layout.page % 2, 1);
        CHECK(layout.link_stride >= layout.link_payload + (uint64_t)layout.slots * layout.slot_bytes);
        CHECK(layout.heap - layout.links <= UINT64_C(256) << 30);
        if (seats <= 256) CHECK(layout.heap <= UINT64_C(65) << 30);
        if (seats <= 64) CHECK_EQ(layout.slot_bytes, 128 << 10);
        if (seats == 117 || seats == 118 || seats == 256 || seats == 1024)
            printf("%4u ranks: slots of %u KiB, areas of %" PRIu64 " KiB, %.1f GiB mapped\n", seats,
                   layout.slot_bytes >> 10, layout.area_bytes >> 10, (double)layout.heap / (1 << 30));
    }
}

TEST(settings_of_slots_are_obeyed_and_the_leaders_hold_for_all)
{
    struct standin *world = standin_new(2);
    world->settings.number[RT_SHM_SLOTS] = 64;
    world->settings.number[RT_SHM_SLOT_BYTES] = 5000;
    standin_open(world);
    CHECK_EQ(rt_node_slot_bytes(world->node[1]), 4992);
    CHECK_EQ(world->node[1]->file.layout.slots, 64);
    standin_close(world);
}

TEST(many_thread_ranks_open_quickly)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    const uint32_t ranks = 16;
#else
    const uint32_t ranks = 256;
#endif
    const uint64_t start = rt_now_ns(&rt_system_clock);
    struct standin *world = world_of(ranks);
    const uint64_t end = rt_now_ns(&rt_system_clock);
    CHECK_EQ(rt_node_size(world->node[ranks - 1]), ranks);
    printf("%u thread ranks opened in %.0f ms\n", ranks, (double)(end - start) / 1e6);
    CHECK(end - start < UINT64_C(3000000000));
    standin_close(world);
}

/* ---- areas */

TEST(areas_are_zero_and_seen_by_all)
{
    struct standin *world = world_of(2);
    size_t bytes = 0;
    unsigned char *mine = rt_node_area(world->node[0], 0, &bytes), *theirs = rt_node_area(world->node[1], 0, &bytes);
    CHECK(bytes >= (2 << 20) + (64 << 10));
    size_t nonzero = 0;
    for (size_t i = 0; i < bytes; i++) nonzero += mine[i] != 0;
    CHECK_EQ(nonzero, 0);
    memset(mine, 7, bytes);
    CHECK(theirs[0] == 7 && theirs[bytes - 1] == 7);
    CHECK_EQ(*(unsigned char *)rt_node_area(world->node[1], 1, &bytes), 0);
    standin_close(world);
}

/* ---- waiting */

static bool rings(struct rt_node *node, int ms)
{
    struct pollfd fd = { rt_node_bell_fd(node), POLLIN, 0 };
    return poll(&fd, 1, ms) == 1;
}

TEST(only_a_sleeper_is_rung_and_once)
{
    struct standin *world = world_of(2);
    rt_node_ring(world->node[1], 0);
    CHECK(!rings(world->node[0], 0));
    rt_node_sleep_begin(world->node[0]);
    CHECK(!rings(world->node[0], 0));
    for (int i = 0; i < 1000; i++) rt_node_ring(world->node[1], 0);
    CHECK(rings(world->node[0], 1000));
    char byte;
    CHECK_EQ(recv(rt_node_bell_fd(world->node[0]), &byte, 1, MSG_DONTWAIT), 1);
    CHECK(!rings(world->node[0], 0));
    rt_node_sleep_end(world->node[0]);
    rt_node_ring(world->node[1], 0);
    CHECK(!rings(world->node[0], 0));
    rt_node_sleep_begin(world->node[0]);
    rt_node_ring(world->node[1], 0);
    rt_node_sleep_end(world->node[0]); /* drains */
    CHECK(!rings(world->node[0], 0));
    standin_close(world);
}

TEST(a_flood_of_foreign_bytes_does_not_hold_the_sleeper)
{
    struct standin *world = world_of(2);
    const int stranger = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    const struct rt_peer *peer = &world->node[1]->peers[0];
    for (int i = 0; i < 10000; i++)
        sendto(stranger, "much", 4, 0, (const struct sockaddr *)&peer->bell, peer->bell_length);
    rt_node_sleep_begin(world->node[0]);
    rt_node_ring(world->node[1], 0); /* the queue is full: it must not block */
    CHECK(rings(world->node[0], 0));
    rt_node_sleep_end(world->node[0]);
    CHECK(!rings(world->node[0], 0));
    close(stranger);
    standin_close(world);
}

struct waker {
    struct standin  *world;
    _Atomic uint64_t rang_ns, turn, seen;
};

static void *waker_main(void *argument)
{
    struct waker *waker = argument;
    for (uint64_t i = 1; i <= 200; i++) {
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
        atomic_store(&waker->rang_ns, rt_now_ns(&rt_system_clock));
        atomic_store_explicit(&waker->turn, i, memory_order_release);
        rt_node_ring(waker->world->node[1], 0);
        while (atomic_load(&waker->seen) < i) sched_yield();
    }
    return NULL;
}

TEST(a_sleeper_wakes_at_once_when_rung)
{
    struct waker waker = { .world = world_of(2) };
    struct rt_node *node = waker.world->node[0];
    uint64_t total = 0, most = 0, late = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, waker_main, &waker);
    for (uint64_t i = 1; i <= 200; i++) {
        rt_node_sleep_begin(node);
        if (atomic_load_explicit(&waker.turn, memory_order_acquire) < i) rings(node, 1000);
        rt_node_sleep_end(node);
        if (atomic_load(&waker.turn) < i) { /* woken for nothing */
            i--;
            continue;
        }
        const uint64_t ns = rt_now_ns(&rt_system_clock) - atomic_load(&waker.rang_ns);
        total += ns;
        if (ns > most) most = ns;
        late += ns > 5000000;
        atomic_store(&waker.seen, i);
    }
    pthread_join(thread, NULL);
    printf("woken after %.1f us on average, %.1f us at most\n", (double)total / 200e3, (double)most / 1e3);
    CHECK_THAT(late < 10, "%" PRIu64 " of 200 wake-ups took over 5 ms", late);
    standin_close(waker.world);
}

TEST_MAIN
