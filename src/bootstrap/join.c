/* A rank goes to the meeting at the root. */
#include "auth.h"
#include "dialer.h"
#include "meeting.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define MS 1000000ull
#define GRACE_MS 1000 /* the meeting tells who is missing when our time is over; wait that long for its words */

static ringtree_status not_reached(const struct rt_dialer *d, const struct rt_join *join, ringtree_status status,
                                   struct rt_error *error)
{
    char tried[512];
    bool has_route = true;
    const char *lack = rt_dialer_lack(d);
    const uint64_t waited_ms = lack ? (rt_now_ns(d->clock) - d->begun_ns) / MS : join->timeout_ms;

    rt_dialer_text(d, tried, sizeof(tried));
    if (status == RINGTREE_REFUSED)
        return rt_fail(error, RINGTREE_REFUSED,
                       "rank %u was refused at the meeting (%s); give all ranks the same id or RINGTREE_SECRET_FILE, "
                       "and look whether another job uses this address", join->rank, tried);
    for (uint32_t i = 0; i < d->ntargets; i++)
        if (d->failed[i] == EHOSTUNREACH || d->failed[i] == ENETUNREACH)
            has_route = false;
    status = lack ? RINGTREE_SYSTEM : has_route && d->ntargets ? RINGTREE_TIMEOUT : RINGTREE_UNREACHABLE;
    return rt_fail(error, status,
                   "rank %u: the root did not come, or cannot be reached, within %" PRIu64 " ms: tried %s; %s",
                   join->rank, waited_ms, tried,
                   lack ? lack : "look whether the process that made the id (or rank 0) runs and this address is "
                                 "right, or raise RINGTREE_TIMEOUT_MS");
}

static int receive(int fd, struct rt_header *header, uint8_t *body, const struct rt_clock *clock, uint64_t deadline_ns)
{
    uint8_t head[RT_HEADER_BYTES];

    int failed = rt_recv_all(fd, head, sizeof(head), clock, deadline_ns);
    if (failed)
        return failed;
    if (!rt_header_parse(head, 1, header) || header->length > RT_FAILURE_MOST)
        return -EBADMSG;
    return rt_recv_all(fd, body, header->length, clock, deadline_ns);
}

/* Say who we are, hear where to sit. */
static ringtree_status talk(int fd, const char *root, const struct rt_join *join, const struct rt_clock *clock,
                            uint64_t deadline_ns, struct rt_seat *seat, struct rt_error *error)
{
    uint8_t hello[RT_HEADER_BYTES + RT_JOIN_BYTES], body[RT_FAILURE_MOST];
    struct rt_header header;
    struct rt_error told;

    rt_header_put(hello, RT_MESSAGE_JOIN, RT_JOIN_BYTES);
    rt_join_put(hello + RT_HEADER_BYTES, join);
    int failed = rt_send_all(fd, hello, sizeof(hello), clock, deadline_ns);
    if (!failed)
        failed = receive(fd, &header, body, clock, deadline_ns);
    if (failed == -ETIMEDOUT)
        return rt_fail(error, RINGTREE_TIMEOUT, "rank %u: the meeting at %s was reached but said nothing for %u ms; "
                       "its process is stopped or overloaded", join->rank, root, join->timeout_ms + GRACE_MS);
    if (failed)
        return rt_fail(error, RINGTREE_PEER_LOST, "rank %u: the meeting at %s ended before all ranks had come: %s; "
                       "look at the output of the process that made the id (or of rank 0)", join->rank, root,
                       failed == -EPIPE ? "connection ended" : rt_errno_words(-failed));
    if (header.type == RT_MESSAGE_SEAT && rt_seat_parse(body, seat))
        return RINGTREE_OK;
    if (header.type == RT_MESSAGE_FAILURE && rt_failure_parse(body, header.length, &told))
        return rt_fail(error, told.status, "%s", told.text);
    return rt_fail(error, RINGTREE_INTERNAL, "rank %u: the meeting at %s sent a malformed answer", join->rank, root);
}

ringtree_status rt_join(const struct rt_meeting *meeting, const struct rt_join *join, const struct rt_clock *clock,
                        struct rt_seat *seat, struct rt_error *error)
{
    const uint64_t begun = rt_now_ns(clock), deadline = begun + join->timeout_ms * MS;
    const struct rt_claim claim = { .kind = RT_CONNECT_MEET, .rank = join->rank, .value = join->nranks };
    uint8_t key[RT_AUTH_KEY];
    struct rt_dialer dialer;
    struct rt_join left = *join;
    int fd = -1;

    rt_auth_key(key, meeting->secret, meeting->number);
    rt_dialer_init(&dialer, key, meeting->number, &claim, clock, deadline);
    rt_dialer_add_unix(&dialer, meeting->unix_name);
    for (uint32_t i = 0; i < RT_MAX_ADDRESSES; i++)
        rt_dialer_add_tcp(&dialer, &meeting->address[i]);
    ringtree_status status = rt_dialer_wait(&dialer, &fd);
    if (status)
        return not_reached(&dialer, join, status, error);
    const uint64_t now = rt_now_ns(clock);
    left.timeout_ms = now < deadline ? (uint32_t)((deadline - now) / MS) : 0;
    status = talk(fd, dialer.target[dialer.at].text, &left, clock, deadline + GRACE_MS * MS, seat, error);
    close(fd);
    return status;
}
