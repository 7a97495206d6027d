/*
 * How fast a TCP link is beside plain sockets in the same run: one way of a ping-pong of 4 bytes, both ends polling,
 * and slices of 256 KiB in one direction. Loopback, two threads. Usage: tcp_speed [sockets] [congestion control of the
 * plain sockets]. Not a test: it prints.
 */
#include "standin_control.h"
#include "tcp/tcp.h"
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PINGS  20000u
#define SLICES 3000u
#define BYTES  (256 * 1024)

struct end {
    struct rt_link *out, *in; /* NULL: the plain socket */
    int             fd;
    bool            first;
    uint32_t        rounds, bytes;
};

static void stop_at(const char *where, const struct rt_error *error)
{
    fprintf(stderr, "%s: %s\n", where, error->text);
    exit(1);
}

static void put(struct end *e, const unsigned char *memory)
{
    static const struct rt_frame base = { .sequence = 1 };
    struct rt_frame frame = base;
    struct rt_error error = { 0 };
    ringtree_status status;
    frame.bytes = e->bytes;
    do status = rt_transport_tcp.send(e->out, &frame, memory, &error);
    while (status == RINGTREE_IN_PROGRESS);
    if (status != RINGTREE_OK) stop_at("send", &error);
}

static void get(struct end *e, unsigned char *memory)
{
    struct rt_frame frame, expect = { .sequence = 1, .bytes = e->bytes };
    struct rt_error error = { 0 };
    const void *data;
    ringtree_status status;
    do {
        status = rt_transport_tcp.recv(e->in, &expect, memory, e->bytes, &frame, &data, &error);
        if (e->out) rt_transport_tcp.sent(e->out, &error);
    } while (status == RINGTREE_IN_PROGRESS);
    if (status != RINGTREE_OK || !data) stop_at("recv", &error);
    rt_transport_tcp.release(e->in);
}

static void raw_put(struct end *e, const unsigned char *memory)
{
    for (size_t done = 0; done < e->bytes;) {
        const ssize_t n = send(e->fd, memory + done, e->bytes - done, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0) done += (size_t)n;
    }
}

static void raw_get(struct end *e, unsigned char *memory)
{
    for (size_t done = 0; done < e->bytes;) {
        const ssize_t n = recv(e->fd, memory + done, e->bytes - done, MSG_DONTWAIT);
        if (n > 0) done += (size_t)n;
    }
}

static void *ping(void *argument)
{
    struct end *e = argument;
    unsigned char memory[64] = { 0 };
    for (uint32_t i = 0; i < e->rounds; i++) {
        if (e->first) e->fd < 0 ? put(e, memory) : raw_put(e, memory);
        e->fd < 0 ? get(e, memory) : raw_get(e, memory);
        if (!e->first) e->fd < 0 ? put(e, memory) : raw_put(e, memory);
    }
    return NULL;
}

static void *stream(void *argument)
{
    struct end *e = argument;
    unsigned char *memory = malloc(BYTES);
    memset(memory, 1, BYTES);
    for (uint32_t i = 0; i < e->rounds; i++) {
        if (e->first) e->fd < 0 ? put(e, memory) : raw_put(e, memory);
        else e->fd < 0 ? get(e, memory) : raw_get(e, memory);
    }
    while (e->first && e->fd < 0 && !rt_transport_tcp.flushed(e->out)) continue;
    free(memory);
    return NULL;
}

static double run(void *(*work)(void *), struct end ends[2], uint32_t rounds, uint32_t bytes)
{
    pthread_t other;
    for (int i = 0; i < 2; i++) ends[i].rounds = rounds, ends[i].bytes = bytes, ends[i].first = i == 0;
    const uint64_t begun = rt_now_ns(&rt_system_clock);
    if (pthread_create(&other, NULL, work, &ends[1])) exit(1);
    work(&ends[0]);
    pthread_join(other, NULL);
    return (double)(rt_now_ns(&rt_system_clock) - begun);
}

static struct rt_link *link_of(struct rt_fabric *fabric, uint32_t peer, bool sender)
{
    struct rt_link *link = calloc(1, rt_transport_tcp.link_size);
    struct rt_error error = { 0 };
    *link = (struct rt_link){ .transport = &rt_transport_tcp, .fabric = fabric, .peer = peer, .sender = sender };
    if (rt_transport_tcp.open(link, &error)) stop_at("open", &error);
    return link;
}

static void report(const char *name, struct end ends[2])
{
    run(ping, ends, PINGS / 10, 4);
    const double ping_ns = run(ping, ends, PINGS, 4);
    run(stream, ends, SLICES / 10, BYTES);
    const double stream_ns = run(stream, ends, SLICES, BYTES);
    printf("%-28s %8.2f us one way of 4 bytes   %8.2f GB/s in slices of 256 KiB\n", name, ping_ns / PINGS / 2000,
           (double)SLICES * BYTES / stream_ns);
}

int main(int argc, char **argv)
{
    struct standin *world = standin_start(AF_INET, argc > 1 ? strtoul(argv[1], NULL, 10) : 1);
    struct rt_fabric fabric[2];
    int fds[2], one = 1;
    if (!world || !standin_pair(AF_INET, fds)) return 77;
    standin_fabric(world, fabric);
    struct end link[2], raw[2];
    for (uint32_t r = 0; r < 2; r++) {
        link[r] = (struct end){ .fd = -1, .out = link_of(&fabric[r], 1 - r, true) };
        link[r].in = link_of(&fabric[r], 1 - r, false);
        raw[r] = (struct end){ .fd = fds[r] };
        setsockopt(fds[r], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        if (argc > 2 && setsockopt(fds[r], IPPROTO_TCP, TCP_CONGESTION, argv[2], (socklen_t)strlen(argv[2])))
            perror(argv[2]);
    }
    for (int i = 0; i < 2; i++) {
        report("plain sockets", raw);
        report("tcp link", link);
    }
    for (int r = 0; r < 2; r++) {
        rt_transport_tcp.close(link[r].out);
        rt_transport_tcp.close(link[r].in);
        free(link[r].out);
        free(link[r].in);
        close(fds[r]);
    }
    standin_stop(world);
    return 0;
}
