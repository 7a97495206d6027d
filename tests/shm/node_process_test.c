/* The node among processes, over the real control plane: they share memory, wake each other, kill -9 leaves nothing. */
#include "../bootstrap/ranks.h"
#include "shm/inside.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>

#define TIMEOUT_MS 20000

struct board {
    _Atomic uint64_t arrived, offset[8], turn, rang_ns, seen, number;
    _Atomic uint64_t latency_total, latency_most;
};

static struct rt_node *node_open(struct rank_case *c, uint32_t *node_of)
{
    struct rt_node *node = NULL;
    struct rt_error error = { 0 };
    ringtree_status status = rt_node_open(&node, c->control, &c->settings, c->rank, c->nranks, node_of, &error);
    CHECK_THAT(status == RINGTREE_OK, "rank %u: %s", c->rank, error.text);
    CHECK_THAT(node != NULL, "rank %u shares with nobody", c->rank);
    return node;
}

static void meet(struct board *board, uint32_t ranks, uint32_t round)
{
    atomic_fetch_add(&board->arrived, 1);
    for (int i = 0; i < 20000 && atomic_load(&board->arrived) < (uint64_t)ranks * round; i++) sleep_ms(1);
    CHECK(atomic_load(&board->arrived) >= (uint64_t)ranks * round);
}

static void run_all(void (*body)(struct rank_case *), uint32_t ranks, struct board *board)
{
    struct rank_case model = { .run = body, .shared = board };
    pid_t pids[RANKS_MOST];
    rank_processes(&model, ranks, TIMEOUT_MS, pids);
    rank_reap(pids, ranks, RT_NONE);
}

/* ---- sharing */

static void share(struct rank_case *c)
{
    struct board *board = c->shared;
    struct rt_error error = { 0 };
    uint32_t node_of[8];
    struct rt_node *node = node_open(c, node_of);
    if (!node) return;
    CHECK_EQ(rt_node_size(node), c->nranks);
    CHECK_EQ(rt_node_index(node), c->rank);
    CHECK_EQ(rt_node_reads(node, c->rank), 2);
    CHECK_EQ(rt_node_pid(node, c->rank), getpid());
    size_t bytes;
    *(uint64_t *)rt_node_area(node, c->rank, &bytes) = 100 + c->rank;
    unsigned char *memory = NULL;
    CHECK_EQ(rt_node_alloc(node, 3 << 20, (void **)&memory, &error), RINGTREE_OK);
    memset(memory, 50 + (int)c->rank, 3 << 20);
    uint64_t offset = 0;
    CHECK(rt_node_offset(node, memory, 3 << 20, &offset));
    atomic_store(&board->offset[c->rank], offset);
    meet(board, c->nranks, 1);
    for (uint32_t i = 0; i < c->nranks; i++) {
        CHECK_EQ(*(uint64_t *)rt_node_area(node, i, &bytes), 100 + i);
        CHECK(i == c->rank || rt_node_reads(node, i) < 2);
        const unsigned char *view = rt_node_map(node, atomic_load(&board->offset[i]), 3 << 20);
        CHECK(view && view[0] == 50 + i && view[(3 << 20) - 1] == 50 + i);
    }
    meet(board, c->nranks, 2);
    rt_node_close(node);
    rt_control_close(c->control, 2000);
}

TEST(processes_share_areas_and_heap)
{
    struct board *board = shared_memory(sizeof *board);
    run_all(share, 4, board);
    munmap(board, sizeof *board);
}

/* In a mount namespace of its own, so nobody else notices. */
TEST(a_dev_shm_of_64_kib_is_enough)
{
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        atomic_store(&test_failures, 0);
        if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64k") != 0)
            _exit(77);
        struct board *board = shared_memory(sizeof *board);
        run_all(share, 3, board);
        _exit(count_entries("/dev/shm") == 2 && !atomic_load(&test_failures) ? 0 : 1);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) SKIP("no right to mount in a namespace of its own");
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- waking */

static void wake(struct rank_case *c)
{
    struct board *board = c->shared;
    uint32_t node_of[8];
    struct rt_node *node = node_open(c, node_of);
    if (!node) return;
    for (uint64_t i = 1; i <= 200; i++) {
        if (c->rank == 1) {
            sleep_ms(1);
            atomic_store(&board->rang_ns, rt_now_ns(&rt_system_clock));
            atomic_store_explicit(&board->turn, i, memory_order_release);
            rt_node_ring(node, 0);
            while (atomic_load(&board->seen) < i) sched_yield();
            continue;
        }
        while (atomic_load_explicit(&board->turn, memory_order_acquire) < i) {
            struct pollfd fd = { rt_node_bell_fd(node), POLLIN, 0 };
            rt_node_sleep_begin(node);
            if (atomic_load_explicit(&board->turn, memory_order_acquire) < i) poll(&fd, 1, 50);
            rt_node_sleep_end(node);
        }
        const uint64_t ns = rt_now_ns(&rt_system_clock) - atomic_load(&board->rang_ns);
        atomic_fetch_add(&board->latency_total, ns);
        if (ns > board->latency_most) board->latency_most = ns;
        atomic_store(&board->seen, i);
    }
    rt_node_close(node);
    rt_control_close(c->control, 2000);
}

TEST(a_sleeping_process_is_woken_within_milliseconds)
{
    struct board *board = shared_memory(sizeof *board);
    run_all(wake, 2, board);
    printf("woken after %.1f us on average, %.1f us at most\n", (double)board->latency_total / 200e3,
           (double)board->latency_most / 1e3);
    CHECK(board->latency_total / 200 < 5000000);
    munmap(board, sizeof *board);
}

/* ---- kill -9 */

static void hold(struct rank_case *c)
{
    struct board *board = c->shared;
    struct rt_error error = { 0 };
    uint32_t node_of[8];
    struct rt_node *node = node_open(c, node_of);
    void *memory = NULL;
    if (!node) return;
    CHECK_EQ(rt_node_alloc(node, 64 << 20, &memory, &error), RINGTREE_OK);
    memset(memory, 1, 64 << 20);
    atomic_store(&board->number, rt_control_number(c->control));
    atomic_fetch_add(&board->arrived, 1);
    for (;;) pause();
}

static uint64_t shared_kib(void)
{
    char line[200];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file)) sscanf(line, "Shmem: %llu kB", &kib);
    if (file) fclose(file);
    return kib;
}

static bool bell_exists(uint64_t number)
{
    char line[400], name[60];
    bool found = false;
    FILE *file = fopen("/proc/net/unix", "r");
    snprintf(name, sizeof name, "@ringtree-%016" PRIx64 "-bell", number);
    while (file && fgets(line, sizeof line, file)) found |= strstr(line, name) != NULL;
    if (file) fclose(file);
    return found;
}

TEST(kill_9_leaves_no_file_no_socket_no_descriptor_and_no_memory)
{
    struct board *board = shared_memory(sizeof *board);
    struct rank_case model = { .run = hold, .shared = board };
    const int files = count_entries("/dev/shm"), descriptors = count_entries("/proc/self/fd");
    const uint64_t before = shared_kib();
    pid_t pids[RANKS_MOST];
    rank_processes(&model, 3, TIMEOUT_MS, pids);
    for (int i = 0; i < 20000 && atomic_load(&board->arrived) < 3; i++) sleep_ms(1);
    CHECK_EQ(atomic_load(&board->arrived), 3);
    CHECK(bell_exists(board->number));
    CHECK(shared_kib() > before + (100 << 10)); /* it would be seen */
    for (int i = 0; i < 3; i++) kill(pids[i], SIGKILL);
    for (int i = 0; i < 3; i++) waitpid(pids[i], NULL, 0);
    CHECK(!bell_exists(board->number));
    CHECK_EQ(count_entries("/dev/shm"), files);
    CHECK_EQ(count_entries("/proc/self/fd"), descriptors);
    CHECK_THAT(shared_kib() < before + (100 << 10), "%" PRIu64 " KiB before, %" PRIu64 " after", before, shared_kib());
    munmap(board, sizeof *board);
}

/* ---- many times */

static void again(struct rank_case *c)
{
    uint32_t node_of[8];
    int first = 0, last = 0;
    for (int i = 0; i < 30; i++) {
        struct rt_node *node = node_open(c, node_of);
        if (!node) return;
        /* one rank's closing must not disturb the other; the name of the bell is free again */
        rt_node_close(node);
        uint32_t all[8];
        struct rt_error error = { 0 };
        CHECK_EQ(rt_control_all_gather(c->control, &c->rank, sizeof c->rank, all, &error), RINGTREE_OK);
        if (i == 5) first = count_entries("/proc/self/fd") + count_entries("/proc/self/task");
        last = count_entries("/proc/self/fd") + count_entries("/proc/self/task");
    }
    CHECK_EQ(first, last);
    rt_control_close(c->control, 2000);
}

TEST(opening_and_closing_keeps_descriptors_and_threads_flat)
{
    run_all(again, 2, NULL);
}

TEST_MAIN
