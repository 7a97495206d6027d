/*
 * --link-limit: each process in a network namespace of its own, joined by a bridge, with tc tbf at both ends of each
 * cable, so that a rank sends and receives at that rate. The namespaces end with the processes; nothing is left behind.
 */
#include "perf.h"

#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static bool run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool run(const char *format, ...)
{
    char    command[512];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof(command), format, args);
    va_end(args);
    if (system(command) == 0) return true;
    fprintf(stderr, "--link-limit: this failed: %s\n", command);
    return false;
}

static bool limit(const char *before, const char *device, const char *rate)
{
    return run("%stc qdisc add dev %s root tbf rate %s burst 256kb latency 50ms", before, device, rate);
}

static bool join_one(const struct options *options, pid_t pid, uint32_t number)
{
    char inside[64], device[32];
    snprintf(inside, sizeof(inside), "nsenter -t %d -n ", (int)pid);
    snprintf(device, sizeof(device), "v%u", number);
    return run("ip link add %s type veth peer name eth0 netns %d", device, (int)pid) &&
           run("ip link set %s master br0 up", device) && limit("", device, options->link) &&
           run("%sip link set lo up", inside) && run("%sip link set eth0 up", inside) &&
           run("%sip addr add 10.97.%u.%u/16 dev eth0", inside, number / 250, number % 250 + 1) &&
           limit(inside, "eth0", options->link);
}

bool link_join(const struct options *options, const pid_t *pids, int ready)
{
    char byte;
    for (uint32_t p = 0; p < options->processes; p++)
        if (read(ready, &byte, 1) != 1 || byte != 'r') return false; /* the child says why */
    if (unshare(CLONE_NEWNET)) return perror("--link-limit needs root: unshare"), false;
    bool joined = run("ip link add br0 type bridge") && run("ip link set br0 up");
    for (uint32_t p = 0; joined && p < options->processes; p++) joined = join_one(options, pids[p], p);
    return joined;
}

bool link_leave_network(int ready)
{
    const bool alone = !unshare(CLONE_NEWNET);
    if (!alone) perror("--link-limit needs root: unshare");
    return write(ready, alone ? "r" : "f", 1) == 1 && alone;
}

void link_settings(const struct options *options, uint32_t process)
{
    char text[32];
    snprintf(text, sizeof(text), "%u", process);
    setenv("RINGTREE_RANK", text, 1);
    snprintf(text, sizeof(text), "%u", options->processes);
    setenv("RINGTREE_SIZE", text, 1);
    setenv("RINGTREE_ROOT", "10.97.0.1:29611", 1);
    snprintf(text, sizeof(text), "host%u", process);
    setenv("RINGTREE_HOST", text, 1);
}
