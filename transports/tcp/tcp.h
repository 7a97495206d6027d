/*
 * Inside the TCP transport. A link carries slices one way; the two links between a pair of ranks on one lane share
 * their 1 .. 16 connections, one link in each direction, so that acknowledgements ride on the data that goes back: an
 * exchange of small arrays takes 4.3 us on loopback, over two one-way connections 6.2. The lower rank dials. The lane
 * for messages has connections of its own for each direction, dialled by the sender, whose receiver may come later.
 *
 * The bytes. Whoever dials begins the first connection with a greeting of 8 bytes that tells how many there are, so
 * only one side chooses. Then, in each direction, per slice, its frame (32 bytes, little endian) and its payload. A
 * payload longer than RT_TCP_STRIPE_LEAST is cut into as many equal parts as there are connections (rt_tcp_part), part
 * i goes over connection i, and nothing but the frame's own `bytes` is needed to find the parts again. Shorter slices
 * go over the first connection whole: for them one more system call costs more than a second connection gains, and a
 * short slice then never waits behind a long one of another connection. (Slices in turn over the connections would need
 * no cutting, but a single large slice would go no faster, and of two slices under way the earlier could be the last to
 * come.)
 *
 * Files: tcp.c the table, open and close; socket.c options and words; pair.c connecting; send.c and recv.c the ends.
 */
#ifndef RT_TCP_H
#define RT_TCP_H

#include "bootstrap/control.h"
#include "transports/transport.h"

#define RT_TCP_MOST_SOCKETS 16
#define RT_TCP_SLOTS        4
#define RT_TCP_FRAME_BYTES  32
#define RT_TCP_GREETING     8
#define RT_TCP_STRIPE_LEAST (64 * 1024)
/* A payload with a place of its own is read together with its frame up to this: copying costs less than a call. */
#define RT_TCP_COPIED 8192

enum rt_tcp_way { RT_TCP_BOTH_WAYS, RT_TCP_OUT, RT_TCP_IN };

/* The connections that up to two links share. In a list of the fabric's. */
struct rt_tcp_pair {
    struct rt_tcp_pair *next;
    struct rt_fabric   *fabric;
    uint32_t            peer, lane, users;
    enum rt_tcp_way     way;
    bool                dials, connected;
    uint32_t            sockets; /* who does not dial learns it from the greeting; 0 until then */
    int                 fd[RT_TCP_MOST_SOCKETS]; /* -1: not connected yet */
    struct rt_dial     *dial[RT_TCP_MOST_SOCKETS];
    unsigned char       greeting[RT_TCP_GREETING]; /* as far as it came */
    uint32_t            greeted;
    struct rt_error     failure; /* of connecting */
    char                where[96]; /* the other end in words, kept since a dead socket no longer tells */
};

/* How far a link is on one of the connections. */
struct rt_tcp_socket {
    uint64_t slice; /* sender: the slice that it is writing; all before are written */
    uint32_t done;  /* bytes of its part of that slice that are through; the sender counts the frame too */
};

/* A slice given to send(). */
struct rt_tcp_slice {
    unsigned char        frame[RT_TCP_FRAME_BYTES];
    const unsigned char *data;
    uint32_t             bytes;
    int32_t              slot; /* the staging memory it lies in, or -1: borrowed */
};

enum rt_tcp_phase { RT_TCP_HEAD, RT_TCP_BODY, RT_TCP_HELD };

struct rt_tcp_link {
    struct rt_link       link;
    struct rt_error      failure; /* once set, every call gives it */
    struct rt_tcp_pair  *pair;
    struct rt_tcp_socket socket[RT_TCP_MOST_SOCKETS];
    unsigned char       *memory; /* sender: RT_TCP_SLOTS staging slots; receiver: two, the first after its frame */

    /* sender: slices sent .. posted-1 are in the kernel only in part */
    struct rt_tcp_slice slices[RT_TCP_SLOTS];
    uint64_t            posted, sent;
    uint32_t            slots_used; /* bit i: staging slot i belongs to such a slice */
    int32_t             reserved;   /* staging slot given by reserve(), -1 none */

    /* receiver */
    enum rt_tcp_phase phase;
    uint32_t          begin, end; /* of `memory`: what was read but not given yet */
    struct rt_frame   frame;
    unsigned char    *target; /* where the payload goes */
};

/* The part [*begin, *begin + length) of a payload that goes over connection `i` of `sockets`; returns its length. */
static inline uint32_t rt_tcp_part(uint32_t bytes, uint32_t sockets, uint32_t i, uint32_t *begin)
{
    *begin = 0;
    if (bytes <= RT_TCP_STRIPE_LEAST || sockets == 1) return i == 0 ? bytes : 0;
    const uint32_t part = (bytes / sockets + 63) & ~63u; /* whole cache lines */
    if ((uint64_t)part * i >= bytes) return 0;
    *begin = part * i;
    return i == sockets - 1 || bytes - *begin < part ? bytes - *begin : part;
}

/* ---- socket.c */

/* Options of a new connection, and pair->where. */
void rt_tcp_tune(struct rt_tcp_pair *pair, int fd);
/* How many connections this link should have. */
uint32_t rt_tcp_choose_sockets(const struct rt_link *link);
/* The link has failed: remember why, once. `number`: errno, or 0 when the peer closed. Returns the status. */
ringtree_status rt_tcp_lost(struct rt_tcp_link *l, int number, const char *when);
ringtree_status rt_tcp_fail(struct rt_tcp_link *l, ringtree_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Copies the link's failure, if any, into *error (may be NULL); its status. */
ringtree_status rt_tcp_failed(const struct rt_tcp_link *l, struct rt_error *error);
bool rt_tcp_would_block(int number);

/* ---- pair.c */

/* The pair of this link, made on first use. */
ringtree_status rt_tcp_pair_open(struct rt_tcp_link *l, struct rt_error *error);
void rt_tcp_pair_close(struct rt_tcp_link *l);
/* Goes on connecting. OK: all connections are there. A failure is the link's from then on. */
ringtree_status rt_tcp_pair_connect(struct rt_tcp_link *l);
int rt_tcp_pair_pollfd(const struct rt_tcp_pair *pair, short *events); /* while it connects */

/* ---- send.c and recv.c: functions of the table */
void *rt_tcp_reserve(struct rt_link *link, struct rt_error *error);
ringtree_status rt_tcp_send(struct rt_link *link, const struct rt_frame *frame, const void *data,
                            struct rt_error *error);
uint64_t rt_tcp_sent(struct rt_link *link, struct rt_error *error);
int rt_tcp_send_pollfd(struct rt_tcp_link *l, short *events);

ringtree_status rt_tcp_recv(struct rt_link *link, const struct rt_frame *expect, void *into, size_t capacity,
                            struct rt_frame *frame, const void **data, struct rt_error *error);
void rt_tcp_release(struct rt_link *link);
int rt_tcp_recv_pollfd(struct rt_tcp_link *l, short *events);

#endif
