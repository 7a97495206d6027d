/* What the figures belong to. Whatever cannot be read stays empty or 0. */
#include "limits.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

static void read_line(const char *path, char *text, size_t capacity)
{
    FILE *file = fopen(path, "re");
    if (file && !fgets(text, (int)capacity, file)) *text = 0;
    if (file) fclose(file);
    text[strcspn(text, "\n")] = 0;
}

static void read_processor(char *text, size_t capacity)
{
    char  line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, sizeof(line), file)) {
        if (strncmp(line, "model name", 10) || !strchr(line, ':')) continue;
        snprintf(text, capacity, "%s", strchr(line, ':') + 2);
        text[strcspn(text, "\n")] = 0;
        break;
    }
    if (file) fclose(file);
}

/* What a fresh socket uses, which is what a library gets that asks for nothing. */
static void read_congestion(char *text, size_t capacity)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t length = (socklen_t)capacity - 1;
    if (fd >= 0 && getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, text, &length)) *text = 0;
    if (fd >= 0) close(fd);
}

static size_t positive(long value)
{
    return value > 0 ? (size_t)value : 0;
}

void machine_look(struct machine *machine)
{
    struct utsname system;
    *machine = (struct machine){ .cores = sysconf(_SC_NPROCESSORS_ONLN) };
    read_processor(machine->processor, sizeof(machine->processor));
    if (!uname(&system))
        snprintf(machine->kernel, sizeof(machine->kernel), "%.30s %.60s", system.sysname, system.release);
    read_congestion(machine->congestion, sizeof(machine->congestion));
    read_line("/proc/sys/net/ipv4/tcp_available_congestion_control", machine->congestion_available,
              sizeof(machine->congestion_available));
    read_line("/sys/kernel/mm/transparent_hugepage/enabled", machine->huge_pages, sizeof(machine->huge_pages));
    machine->l2_bytes = positive(sysconf(_SC_LEVEL2_CACHE_SIZE));
    machine->l3_bytes = positive(sysconf(_SC_LEVEL3_CACHE_SIZE));
    machine->page_bytes = positive(sysconf(_SC_PAGESIZE));
    machine->memory_bytes = positive(sysconf(_SC_PHYS_PAGES)) * machine->page_bytes;
}
