/*
 * process_vm_readv() from another process, which holds touched memory and sleeps: the time of a few bytes, and the
 * rate of many, with small and with huge pages.
 */
#include "limits.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define FEW_BYTES 64u
#define FEW_ROUNDS 2000u
#define BYTES_TIMED ((size_t)4 << 20)
#define MOST_BYTES ((size_t)16 << 20)

/* The child's memory lies where the parent's does, private to it since it wrote all of it. */
static pid_t start_holder(struct memory *memory, int core)
{
    int  ready[2];
    char byte;
    if (pipe2(ready, O_CLOEXEC)) return -1;
    const pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent || !pin_to(core)) _exit(1);
        memset(memory->bytes, 2, memory->length);
        if (write(ready[1], "r", 1) == 1)
            for (;;) pause();
        _exit(1);
    }
    close(ready[1]);
    if (pid > 0 && read(ready[0], &byte, 1) != 1) {
        waitpid(pid, NULL, 0);
        close(ready[0]);
        return -1;
    }
    close(ready[0]);
    return pid;
}

static void end_holder(pid_t pid)
{
    if (pid <= 0) return;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static bool read_from(pid_t pid, void *target, void *source, size_t bytes)
{
    const struct iovec here = { target, bytes }, there = { source, bytes };
    return process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

/* Nanoseconds for each read; 0: it failed, errno says why. */
static double time_reads(pid_t pid, void *target, void *source, size_t bytes, uint32_t rounds)
{
    const double start = now_ns();
    for (uint32_t i = 0; i < rounds; i++)
        if (!read_from(pid, target, source, bytes)) return 0;
    return (now_ns() - start) / rounds;
}

static void measure(struct limits *limits, pid_t pid, struct memory *target, void *source, struct figure figure)
{
    const bool     few = figure.bytes == FEW_BYTES;
    const uint32_t rounds = few ? FEW_ROUNDS : figure.bytes < BYTES_TIMED ? (uint32_t)(BYTES_TIMED / figure.bytes) : 1;
    double         samples[MOST_REPEATS];
    figure.unit = few ? "us" : "GB/s";
    for (uint32_t r = 0; r <= limits->repeats; r++) { /* the first is not counted */
        const double ns = time_reads(pid, target->bytes, source, figure.bytes, rounds);
        if (ns <= 0) {
            figure_missing(limits, figure, "process_vm_readv: %s", strerror(errno));
            return;
        }
        if (r) samples[r - 1] = few ? ns / 1e3 : (double)figure.bytes / ns;
    }
    figure_add(limits, figure, samples, limits->repeats);
}

static void measure_kind(struct limits *limits, enum memory_kind kind, const char *few_name, const char *name,
                         const char *what)
{
    struct memory source = memory_map(MOST_BYTES, kind), target = memory_new(MOST_BYTES, kind);
    const pid_t   pid = source.bytes && target.bytes ? start_holder(&source, limits->cores[1]) : -1;
    if (pid <= 0) {
        figure_missing(limits, (struct figure){ .name = name, .unit = "GB/s", .what = what }, "no memory or process");
    } else {
        if (few_name) measure(limits, pid, &target, source.bytes, (struct figure){ .name = few_name, .bytes = FEW_BYTES,
                              .what = "process_vm_readv() of a line from another process" });
        for (size_t bytes = (size_t)64 << 10; bytes <= MOST_BYTES; bytes *= 4)
            measure(limits, pid, &target, source.bytes, (struct figure){ .name = name, .bytes = bytes, .what = what });
    }
    end_holder(pid);
    memory_free(&source);
    memory_free(&target);
}

void meter_vm_read(struct limits *limits)
{
    pin_to(limits->cores[0]);
    measure_kind(limits, MEMORY_SMALL, "vm_read_few", "vm_read_small_pages", "process_vm_readv(), 4 KiB pages");
    measure_kind(limits, MEMORY_HUGE, NULL, "vm_read_huge_pages", "process_vm_readv(), 2 MiB pages where granted");
}
