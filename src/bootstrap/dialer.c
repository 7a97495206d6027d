/* Connecting, with patience: a peer may not listen yet, or not on its first address. See dialer.h. */
#include "dialer.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MS         1000000ull
#define ATTEMPT_MS 5000 /* one target; an address that swallows packets must not eat the whole deadline */
#define RETRY_MS   5    /* after the first round; doubles up to RETRY_MOST_MS */
#define RETRY_MOST_MS 100
#define LACK_KEPT_MS  1000
#define LACK_ROUNDS   20 /* about two seconds: other threads, here or there, may give descriptors back */

void rt_dialer_init(struct rt_dialer *d, const uint8_t key[RT_AUTH_KEY], uint64_t number, const struct rt_claim *claim,
                    const struct rt_clock *clock, uint64_t deadline_ns)
{
    memset(d, 0, sizeof(*d));
    d->fd = -1;
    d->number = number;
    d->claim = *claim;
    d->clock = clock;
    d->begun_ns = rt_now_ns(clock);
    d->deadline_ns = deadline_ns;
    memcpy(d->key, key, RT_AUTH_KEY);
}

void rt_dialer_add_unix(struct rt_dialer *d, const char *name)
{
    if (name[0] != '\0' && d->ntargets < RT_TARGETS_MOST)
        rt_target_unix(&d->target[d->ntargets++], name);
}

void rt_dialer_add_tcp(struct rt_dialer *d, const struct rt_address *address)
{
    if (d->ntargets < RT_TARGETS_MOST && rt_target_tcp(&d->target[d->ntargets], address))
        d->ntargets++;
}

void rt_dialer_end(struct rt_dialer *d)
{
    if (d->fd >= 0)
        close(d->fd);
    d->fd = -1;
}

static bool is_lack(int why)
{
    return why == EMFILE || why == ENFILE || why == RT_DIAL_LACKS;
}

const char *rt_dialer_lack(const struct rt_dialer *d)
{
    for (uint32_t i = 0; i < d->ntargets; i++)
        if (is_lack(d->failed[i]))
            return d->failed[i] == RT_DIAL_LACKS ? "it is the process there that lacks descriptors"
                                                 : "it is this process that lacks descriptors";
    return NULL;
}

/* A process that lacks descriptors may end a moment later. That nobody listens there then is the lesser news. */
static void note(struct rt_dialer *d, int why)
{
    const uint64_t now = rt_now_ns(d->clock);

    if (is_lack(why))
        d->lack_ns = now;
    else if (is_lack(d->failed[d->at]) && now - d->lack_ns < LACK_KEPT_MS * MS && why != RT_DIAL_REFUSED)
        return;
    d->failed[d->at] = why;
}

/* This target failed. After the last one: was one of them a clear no? Else rest before the next round. */
static ringtree_status next_target(struct rt_dialer *d, int why)
{
    uint64_t rest_ms = RETRY_MS << (d->rounds < 5 ? d->rounds : 5);

    rt_dialer_end(d);
    note(d, why);
    d->at++;
    if (d->at < d->ntargets)
        return RINGTREE_IN_PROGRESS;
    for (uint32_t i = 0; i < d->ntargets; i++)
        if (d->failed[i] == RT_DIAL_REFUSED)
            return RINGTREE_REFUSED;
    d->lacked = is_lack(why) ? d->lacked + 1 : 0;
    if (d->lacked > LACK_ROUNDS)
        return RINGTREE_UNREACHABLE;
    d->at = 0;
    d->rounds++;
    d->retry_ns = rt_now_ns(d->clock) + (rest_ms < RETRY_MOST_MS ? rest_ms : RETRY_MOST_MS) * MS;
    return RINGTREE_IN_PROGRESS;
}

static ringtree_status start_attempt(struct rt_dialer *d, uint64_t now)
{
    int fd = rt_connect_start(&d->target[d->at]);

    if (fd < 0)
        return next_target(d, -fd);
    d->fd = fd;
    d->connecting = true;
    d->attempt_ns = now + ATTEMPT_MS * MS;
    rt_handshake_ask(&d->handshake, d->key, d->number, &d->claim);
    return RINGTREE_IN_PROGRESS;
}

/* Is the connection made? Sets d->connecting to false when it is. */
static ringtree_status check_connected(struct rt_dialer *d)
{
    struct pollfd poll_fd = { d->fd, POLLOUT, 0 };
    int why = 0;
    socklen_t length = sizeof(why);

    if (poll(&poll_fd, 1, 0) <= 0)
        return RINGTREE_IN_PROGRESS;
    if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &why, &length))
        why = errno;
    if (why == 0 && rt_is_self_connected(d->fd))
        why = ECONNREFUSED;
    if (why != 0)
        return next_target(d, why);
    rt_tune_connection(d->fd);
    d->connecting = false;
    return RINGTREE_IN_PROGRESS;
}

/* Moves the open attempt on. *fd is set on success. */
static ringtree_status move_attempt(struct rt_dialer *d, uint64_t now, int *fd)
{
    if (d->connecting) {
        ringtree_status status = check_connected(d);
        if (d->fd < 0)
            return status;
    }
    if (d->connecting)
        return now >= d->attempt_ns ? next_target(d, ETIMEDOUT) : RINGTREE_IN_PROGRESS;
    switch (rt_handshake_go(&d->handshake, d->fd)) {
    case RINGTREE_OK:
        *fd = d->fd;
        d->fd = -1;
        return RINGTREE_OK;
    case RINGTREE_IN_PROGRESS:
        return now >= d->attempt_ns ? next_target(d, RT_DIAL_SILENT) : RINGTREE_IN_PROGRESS;
    case RINGTREE_REFUSED: return next_target(d, RT_DIAL_REFUSED);
    case RINGTREE_PEER_LOST: return next_target(d, RT_DIAL_ENDED);
    case RINGTREE_NO_MEMORY: return next_target(d, RT_DIAL_LACKS);
    default: return next_target(d, errno);
    }
}

ringtree_status rt_dialer_go(struct rt_dialer *d, int *fd)
{
    const uint64_t now = rt_now_ns(d->clock);
    ringtree_status status = RINGTREE_IN_PROGRESS;

    if (d->ntargets == 0)
        return RINGTREE_UNREACHABLE;
    for (uint32_t tries = 0; status == RINGTREE_IN_PROGRESS && tries < d->ntargets; tries++) {
        if (d->fd < 0 && now < d->retry_ns)
            break;
        if (d->fd < 0)
            status = start_attempt(d, now);
        if (status == RINGTREE_IN_PROGRESS && d->fd >= 0)
            status = move_attempt(d, now, fd);
        if (d->fd >= 0)
            break;
    }
    if (status == RINGTREE_IN_PROGRESS && now >= d->deadline_ns) {
        if (d->fd >= 0)
            note(d, d->connecting ? ETIMEDOUT : RT_DIAL_SILENT);
        rt_dialer_end(d);
        return RINGTREE_UNREACHABLE;
    }
    return status;
}

int rt_dialer_pollfd(const struct rt_dialer *d, short *events)
{
    *events = d->connecting ? POLLOUT : rt_handshake_events(&d->handshake);
    return d->fd;
}

ringtree_status rt_dialer_wait(struct rt_dialer *d, int *fd)
{
    ringtree_status status;

    while ((status = rt_dialer_go(d, fd)) == RINGTREE_IN_PROGRESS) {
        const uint64_t now = rt_now_ns(d->clock);
        struct pollfd poll_fd;
        uint64_t until = d->fd >= 0 ? d->attempt_ns : d->retry_ns;
        poll_fd.fd = rt_dialer_pollfd(d, &poll_fd.events); /* -1 is skipped by poll() */
        poll(&poll_fd, 1, rt_poll_ms(now, until < d->deadline_ns ? until : d->deadline_ns));
    }
    return status;
}

static const char *why_text(int why)
{
    switch (why) {
    case 0: return "not tried";
    case RT_DIAL_REFUSED: return "it did not accept this rank's secret, or is another program";
    case RT_DIAL_SILENT: return "connected, but it does not answer";
    case RT_DIAL_LACKS: return "its process has no descriptors left (raise ulimit -n there)";
    case RT_DIAL_ENDED: return "it ended the connection during the handshake";
    default: return rt_errno_words(why);
    }
}

const char *rt_dialer_text(const struct rt_dialer *d, char *text, size_t capacity)
{
    size_t used = 0;

    snprintf(text, capacity, "no address is known");
    for (uint32_t i = 0; i < d->ntargets && used < capacity; i++) {
        int length = snprintf(text + used, capacity - used, "%s%s: %s", i ? "; " : "", d->target[i].text,
                              why_text(d->failed[i]));
        used += length > 0 ? (size_t)length : 0;
    }
    return text;
}
