/*
 * --limits: what this machine could do at the same size in the same minute. Every rank copies with memcpy at once;
 * every rank sends to the next and receives from the previous over one plain TCP connection on the loopback at once.
 * Both are bytes per rank and second, as busbw is. Meters of the machine itself, without ranks, are in perf/limits/.
 */
#include "perf.h"

#include "limits/limits.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define WAIT_MS 10000
#define MOST_ITERATIONS 20u

struct sockets {
    int           next, previous; /* -1: there are none */
    struct duplex duplex;
};

/* What a rank tells the others: where it listens, and the word by which its neighbour is known. */
struct listener {
    char     host[64];
    uint64_t word;
    uint16_t port; /* 0: it could not listen */
};

static struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static int listen_here(struct listener *mine)
{
    struct sockaddr_in address = loopback(0);
    socklen_t          length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    gethostname(mine->host, sizeof(mine->host) - 1);
    if (fd < 0 || getrandom(&mine->word, sizeof(mine->word), 0) != sizeof(mine->word)) return fd;
    if (bind(fd, (struct sockaddr *)&address, length) || listen(fd, 4) ||
        getsockname(fd, (struct sockaddr *)&address, &length))
        return fd;
    mine->port = ntohs(address.sin_port);
    return fd;
}

static int connect_to(const struct listener *peer)
{
    struct sockaddr_in address = loopback(peer->port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    if (!connect(fd, (struct sockaddr *)&address, sizeof(address)) &&
        send(fd, &peer->word, sizeof(peer->word), MSG_NOSIGNAL) == sizeof(peer->word))
        return fd;
    close(fd);
    return -1;
}

static int accept_from(int listening, uint64_t word)
{
    struct pollfd wait = { .fd = listening, .events = POLLIN };
    if (listening < 0 || poll(&wait, 1, WAIT_MS) != 1) return -1;
    int      fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    uint64_t heard = 0;
    wait.fd = fd;
    if (fd >= 0 && poll(&wait, 1, WAIT_MS) == 1 && recv(fd, &heard, sizeof(heard), MSG_WAITALL) == sizeof(heard) &&
        heard == word)
        return fd;
    if (fd >= 0) close(fd);
    return -1;
}

static bool all_here(const struct listener *all, uint32_t n)
{
    for (uint32_t r = 0; r < n; r++)
        if (!all[r].port || strcmp(all[r].host, all[0].host)) return false;
    return n > 1;
}

static void close_sockets(struct sockets *sockets)
{
    if (sockets->next >= 0) close(sockets->next);
    if (sockets->previous >= 0) close(sockets->previous);
    sockets->next = sockets->previous = -1;
}

static void tune(struct sockets *sockets)
{
    const int on = 1;
    setsockopt(sockets->next, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    sockets->duplex = (struct duplex){ { sockets->next }, { sockets->previous }, 1, 0, WAIT_MS };
}

/* All ranks keep their sockets, or none does. */
static ringtree_status agree(struct bench *bench, struct sockets *sockets)
{
    unsigned char good = sockets->next >= 0 && sockets->previous >= 0, all[4096];
    ringtree_status status = gather_all(bench, &good, all, 1);
    for (uint32_t r = 0; r < bench->nranks; r++)
        good &= all[r];
    if (status || !good) close_sockets(sockets);
    else tune(sockets);
    return status;
}

static ringtree_status open_ring(struct bench *bench, struct sockets *sockets, struct listener *all)
{
    const uint32_t  n = bench->nranks;
    struct listener mine = { .port = 0 };
    const int       fd = listen_here(&mine);
    ringtree_status status = gather_all(bench, &mine, all, sizeof(mine));
    if (!status && all_here(all, n)) {
        sockets->next = connect_to(&all[(bench->rank + 1) % n]);
        sockets->previous = accept_from(fd, mine.word);
    }
    if (fd >= 0) close(fd);
    return status ? status : agree(bench, sockets);
}

ringtree_status limits_open(struct bench *bench)
{
    if (bench->nranks > 4096) return fail(bench, RINGTREE_UNSUPPORTED, "--limits works up to 4096 ranks");
    struct listener *all = calloc(bench->nranks, sizeof(*all));
    bench->sockets = malloc(sizeof(*bench->sockets));
    if (!all || !bench->sockets) {
        free(all);
        return fail(bench, RINGTREE_NO_MEMORY, "out of memory");
    }
    *bench->sockets = (struct sockets){ -1, -1, { .sockets = 0 } };
    ringtree_status status = open_ring(bench, bench->sockets, all);
    free(all);
    return status;
}

void limits_close(struct bench *bench)
{
    if (bench->sockets) close_sockets(bench->sockets);
    free(bench->sockets);
    bench->sockets = NULL;
}

static bool exchange(const struct bench *bench, size_t bytes)
{
    return duplex_exchange(&bench->sockets->duplex, bench->block[0], bench->block[1], bytes);
}

static bool copy(const struct bench *bench, size_t bytes)
{
    memcpy(bench->block[1], bench->block[0], bytes);
    __asm__ volatile("" ::: "memory"); /* or the compiler may leave out all but the last */
    return true;
}

/* Mean over ranks of bytes per second, in GB/s. */
static ringtree_status pace(struct bench *bench, size_t bytes, bool (*once)(const struct bench *, size_t), double *gbs)
{
    const uint32_t  iterations = bench->options->iterations < MOST_ITERATIONS ? bench->options->iterations
                                                                              : MOST_ITERATIONS;
    double         *all = bench->times, mine = 0;
    bool            good = once(bench, bytes);
    ringtree_status status = ringtree_barrier(bench->comm, NULL);
    if (status) return status;
    const double start = now_us();
    for (uint32_t i = 0; good && i < iterations; i++)
        good = once(bench, bytes);
    mine = good ? (double)bytes * iterations / (now_us() - start) / 1e3 : 0;
    status = gather_all(bench, &mine, all, sizeof(mine));
    *gbs = 0;
    for (uint32_t r = 0; r < bench->nranks; r++)
        *gbs += all[r] / bench->nranks;
    return status;
}

ringtree_status limits_measure(struct bench *bench, size_t bytes, struct limit *limit)
{
    struct limit now = { 0, 0 };
    if (!bytes) return RINGTREE_OK;
    ringtree_status status = pace(bench, bytes, copy, &now.memcpy_gbs);
    if (!status && bench->sockets->next >= 0) status = pace(bench, bytes, exchange, &now.socket_gbs);
    /* Called before and after the row: the mean of both. */
    limit->memcpy_gbs = limit->memcpy_gbs > 0 ? (limit->memcpy_gbs + now.memcpy_gbs) / 2 : now.memcpy_gbs;
    limit->socket_gbs = limit->socket_gbs > 0 ? (limit->socket_gbs + now.socket_gbs) / 2 : now.socket_gbs;
    return status;
}
