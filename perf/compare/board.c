/* The page that the ranks share: barrier, numbers, and the cache-line meter. */
#include "board.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LINE_CHUNKS 7u
#define LINE_ROUNDS 200u

double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void find_cpus(struct seat *seat)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    seat->ncpus = 0;
    if (sched_getaffinity(0, sizeof(set), &set)) return;
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &set)) continue;
        if (seat->ncpus < 2) seat->cpus[seat->ncpus] = cpu;
        seat->ncpus++;
    }
}

bool board_open(struct seat *seat, const char *path, uint32_t rank, uint32_t nranks)
{
    *seat = (struct seat){ .rank = rank, .nranks = nranks };
    if (nranks > BOARD_RANKS) return errno = E2BIG, false;
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return false;
    if (ftruncate(fd, sizeof(struct board))) return close(fd), false;
    void *page = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (page == MAP_FAILED) return false;
    seat->board = page;
    find_cpus(seat);
    seat->patience = nranks <= seat->ncpus ? PATIENCE_SPIN : PATIENCE_YIELD;
    return true;
}

static void run_on(uint32_t cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof(set), &set);
}

void board_pin(const struct seat *seat)
{
    cpu_set_t set;
    uint32_t  nth = seat->rank;
    if (seat->nranks > seat->ncpus || sched_getaffinity(0, sizeof(set), &set)) return;
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set) && nth-- == 0) {
            run_on(cpu);
            return;
        }
}

/* ---- waiting */

static void wait_a_little(enum patience patience)
{
    if (patience == PATIENCE_SPIN) relax();
    else if (patience == PATIENCE_YIELD) sched_yield();
    else nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
}

static void wait_for_change(const struct seat *seat, _Atomic uint32_t *word, uint32_t old, enum patience patience)
{
    const double give_up = now_us() + BOARD_WAIT_S * 1e6;
    for (uint32_t polls = 1; atomic_load_explicit(word, memory_order_acquire) == old; polls++) {
        wait_a_little(patience);
        if (polls % 1024 || now_us() < give_up) continue;
        fprintf(stderr, "rank %u waited %d s in vain for the other ranks\n", seat->rank, BOARD_WAIT_S);
        exit(3);
    }
}

static void meet(struct seat *seat, enum patience patience)
{
    struct board  *board = seat->board;
    const uint32_t epoch = atomic_load_explicit(&board->epoch, memory_order_acquire);
    if (atomic_fetch_add(&board->arrived, 1) + 1 < seat->nranks) {
        wait_for_change(seat, &board->epoch, epoch, patience);
        return;
    }
    atomic_store_explicit(&board->arrived, 0, memory_order_relaxed);
    atomic_store_explicit(&board->epoch, epoch + 1, memory_order_release);
}

void board_barrier(struct seat *seat)
{
    meet(seat, seat->patience);
}

uint64_t board_agree(struct seat *seat, uint64_t number)
{
    if (seat->rank == 0) atomic_store(&seat->board->number, number);
    board_barrier(seat);
    number = atomic_load(&seat->board->number);
    board_barrier(seat);
    return number;
}

void board_slowest(struct seat *seat, uint32_t count)
{
    double (*samples)[BOARD_SAMPLES] = seat->board->samples;
    board_barrier(seat);
    for (uint32_t i = 0; seat->rank == 0 && i < count; i++)
        for (uint32_t r = 1; r < seat->nranks; r++)
            if (samples[r][i] > samples[0][i]) samples[0][i] = samples[r][i];
    board_barrier(seat);
}

/* ---- the meter */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Rank 0 makes the number odd, rank 1 even. */
static void hand_to_and_fro(const struct seat *seat)
{
    _Atomic uint32_t *line = &seat->board->line;
    for (uint32_t i = 0; i < LINE_ROUNDS; i++) {
        const uint32_t mine = 2 * i + seat->rank;
        while (atomic_load_explicit(line, memory_order_acquire) != mine)
            relax();
        atomic_store_explicit(line, mine + 1, memory_order_release);
    }
}

static double time_line(struct seat *seat)
{
    double ns[LINE_CHUNKS];
    for (uint32_t i = 0; i < LINE_CHUNKS; i++) {
        if (seat->rank == 0) atomic_store(&seat->board->line, UINT32_MAX);
        meet(seat, seat->rank < 2 ? PATIENCE_SPIN : PATIENCE_SLEEP);
        if (seat->rank == 0) atomic_store_explicit(&seat->board->line, 0, memory_order_release);
        const double start = now_us();
        if (seat->rank < 2) hand_to_and_fro(seat);
        ns[i] = (now_us() - start) * 1e3 / (2 * LINE_ROUNDS);
        meet(seat, seat->rank < 2 ? PATIENCE_SPIN : PATIENCE_SLEEP);
    }
    qsort(ns, LINE_CHUNKS, sizeof(*ns), by_value);
    return ns[LINE_CHUNKS / 2];
}

double board_line_ns(struct seat *seat)
{
    cpu_set_t before;
    if (seat->ncpus < 2 || seat->nranks < 2) return 0;
    const bool moved = !sched_getaffinity(0, sizeof(before), &before);
    if (seat->rank < 2) run_on(seat->cpus[seat->rank]);
    const double ns = time_line(seat);
    if (moved && seat->rank < 2) sched_setaffinity(0, sizeof(before), &before);
    if (seat->rank == 0) seat->board->line_ns = ns;
    board_barrier(seat);
    const double agreed = seat->board->line_ns;
    board_barrier(seat);
    return agreed;
}
