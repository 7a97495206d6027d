/* Makes one authenticated connection to whichever of several targets answers; never blocks unless asked to. */
#ifndef RT_DIALER_H
#define RT_DIALER_H

#include "auth.h"
#include "net.h"

#define RT_TARGETS_MOST (RT_MAX_ADDRESSES + 3) /* a unix socket, loopback of both families */

struct rt_dialer {
    struct rt_target       target[RT_TARGETS_MOST];
    int                    failed[RT_TARGETS_MOST]; /* last errno; RT_DIAL_ codes below 0 */
    uint32_t               ntargets, at;
    int                    fd; /* -1: between attempts */
    bool                   connecting;
    uint32_t               rounds, lacked; /* lacked: rounds in a row that ended for lack of descriptors */
    uint64_t               number, begun_ns, deadline_ns, attempt_ns, retry_ns, lack_ns;
    uint8_t                key[RT_AUTH_KEY];
    struct rt_claim        claim;
    struct rt_handshake    handshake;
    const struct rt_clock *clock;
};
#define RT_DIAL_REFUSED (-1) /* the secret was not accepted, or what answers is no ringtree */
#define RT_DIAL_SILENT  (-2) /* connected, but the handshake did not go on */
#define RT_DIAL_ENDED   (-3) /* connected, and ended during the handshake */
#define RT_DIAL_LACKS   (-4) /* connected, and heard that no descriptor is left there */

void rt_dialer_init(struct rt_dialer *dialer, const uint8_t key[RT_AUTH_KEY], uint64_t number,
                    const struct rt_claim *claim, const struct rt_clock *clock, uint64_t deadline_ns);
void rt_dialer_add_unix(struct rt_dialer *dialer, const char *name);
void rt_dialer_add_tcp(struct rt_dialer *dialer, const struct rt_address *address);

/* RINGTREE_OK: *fd is the caller's. RINGTREE_REFUSED: every target was tried and one said no.
 * RINGTREE_UNREACHABLE: the deadline is over, or there is no target, or no descriptor, here or
 * there, for two seconds. */
ringtree_status rt_dialer_go(struct rt_dialer *dialer, int *fd);
int rt_dialer_pollfd(const struct rt_dialer *dialer, short *events);
/* The same, waiting. */
ringtree_status rt_dialer_wait(struct rt_dialer *dialer, int *fd);
void rt_dialer_end(struct rt_dialer *dialer);
/* The end of the sentence where it is descriptors that lack, here or there; NULL: it is not. */
const char *rt_dialer_lack(const struct rt_dialer *dialer);
/* "10.0.0.1:4000 (eth0): connection refused; unix socket @x: ..." */
const char *rt_dialer_text(const struct rt_dialer *dialer, char *text, size_t capacity);

#endif
