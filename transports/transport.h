/*
 * A transport carries slices, in order, one way, from one rank to one other.
 * Nothing here blocks, calls up, or holds a lock across this line. A link is used by one thread at a time.
 * close() is safe on a link whose open() failed half way: the core zeroes the link first.
 *
 * Sender: reserve() a slot (NULL: none is free, or the link is not connected yet: try later), then send() either the
 * reserved memory once it is filled, or other memory. Memory that is not a slot stays borrowed until sent() counts it.
 * Receiver: recv() until it gives a slice; unless it was delivered to `into` the data stays valid, in place, until
 * release(). One slice is held at a time. A slice that was delivered to `into` is released in the same way.
 */
#ifndef RT_TRANSPORT_H
#define RT_TRANSPORT_H

#include "base/clock.h"
#include "base/error.h"
#include "base/settings.h"

/*
 * Goes ahead of every slice. The first 32 bytes are the sender's call; the receiver compares them with its own, so
 * that ranks which call different things find out at once. Little endian on the wire.
 */
struct rt_frame {
    uint64_t sequence; /* number of the operation on the communicator (or of the message between two peers) */
    uint64_t count;    /* elements, as the caller gave it */
    uint32_t op;       /* ringtree_op; handles of ringtree_op_premul_sum() are all sent as 0x100 */
    uint32_t root;     /* RT_NONE where there is none */
    uint8_t  collective, type, lane;
    uint8_t  plan;     /* the way it goes, where ranks might choose differently; else 0 */
    uint32_t bytes; /* payload that follows; checked against the receiver's before it is touched */
};
_Static_assert(sizeof(struct rt_frame) == 32, "the wire format");

/* What a transport needs from the communicator. Owned by it, outlives the links. */
struct rt_control; /* bootstrap/control.h: authenticated connections */
struct rt_node;    /* shm/node.h: the memory shared with the ranks on this machine */
struct rt_tcp_pair;
struct rt_verbs;
struct rt_ucx;
struct rt_fabric {
    uint32_t                  rank, nranks;
    const struct rt_settings *settings;
    const struct rt_clock    *clock;
    struct rt_control        *control;
    struct rt_node           *node; /* NULL: no shared memory */
    struct rt_tcp_pair       *tcp;  /* the TCP transport's own: the connections of its links */
    struct rt_verbs          *verbs; /* the verbs transport's own: devices, ports, connections */
    struct rt_ucx            *ucx;  /* the UCX transport's own: its worker and endpoints */
    uint32_t                  connections; /* of a collective's link between machines; 0: nobody has chosen yet */
};

/* Filled by the core before open(); a transport's link begins with it. */
struct rt_link {
    const struct rt_transport *transport;
    struct rt_fabric          *fabric;
    uint32_t                   peer, lane; /* lane: 0 .. RT_MAX_LANES-1 collectives, RT_P2P_LANE point to point */
    bool                       sender;     /* true: this rank sends to peer; false: it receives from it */
    uint32_t                   slots, slot_bytes; /* set by open() */
};

#ifndef RT_NONE
#define RT_NONE UINT32_MAX
#endif
#define RT_P2P_LANE   8 /* after RT_MAX_LANES collective lanes */
#define RT_LINK_LANES 9

/* What a link costs: seconds from a short send to its arrival, and for a byte of a long message. */
struct rt_link_guess {
    double latency, byte;
};

struct rt_transport {
    size_t      size;      /* of this table: older transports stay valid when it grows */
    const char *name;      /* "tcp": also its name in RINGTREE_TRANSPORTS */
    size_t      link_size; /* bytes the core allocates for a link, zeroed */
    /* Can this rank reach that peer? On false, `why` gets the reason (may be NULL). */
    bool (*reaches)(const struct rt_fabric *fabric, uint32_t peer, char *why, size_t capacity);
    /* Start; connecting goes on inside reserve() and recv(). Sets slots and slot_bytes, equal at both ends. */
    ringtree_status (*open)(struct rt_link *link, struct rt_error *error);
    /* Memory of link->slot_bytes to build the next slice in; NULL: none now. The same until it is sent. Any error is
     * in *error and is then given by send() too. */
    void *(*reserve)(struct rt_link *link, struct rt_error *error);
    /* RINGTREE_OK: taken. RINGTREE_IN_PROGRESS: no slot free, call again. `data` may be what reserve() gave. */
    ringtree_status (*send)(struct rt_link *link, const struct rt_frame *frame, const void *data,
                            struct rt_error *error);
    /* How many slices handed to send() are no longer borrowed; also moves the sending on. */
    uint64_t (*sent)(struct rt_link *link, struct rt_error *error);
    /*
     * RINGTREE_OK: *frame and *data are the next slice. RINGTREE_IN_PROGRESS: not complete yet.
     * `into` (of `capacity` bytes) non-NULL: deliver there, and *data == into; a transport may do so at once as bytes
     * arrive, so call again with the same `into`, which then holds unspecified bytes until RINGTREE_OK. A frame longer
     * than `capacity` or slot_bytes, or one whose first 28 bytes differ from *expect, is not delivered to `into`:
     * RINGTREE_OK with *data NULL, and the caller reports the mismatch. With `into` NULL the caller compares.
     */
    ringtree_status (*recv)(struct rt_link *link, const struct rt_frame *expect, void *into, size_t capacity,
                            struct rt_frame *frame, const void **data, struct rt_error *error);
    void (*release)(struct rt_link *link);
    /* For sleeping: the descriptor and poll(2) events that end the link's present wait; -1: a doorbell does. */
    int (*pollfd)(struct rt_link *link, short *events);
    /* Everything sent has left this process's hands (or failed). For a clean end. */
    bool (*flushed)(struct rt_link *link);
    void (*close)(struct rt_link *link);
    /* For sentences: "shm", "tcp 10.0.0.1:4242 (eth0), 2 sockets"; and how far it has come, for that of a timeout. */
    const char *(*describe)(struct rt_link *link, char *text, size_t capacity);

    /*
     * Optional, for transports whose reach depends on what both ends have. Before reaches() is asked, each rank writes
     * up to RT_ANNOUNCEMENT bytes on its own end (they are zero before), then hears what all ranks wrote: rank r at
     * all + r * stride, valid during the call. leave() is called once after the last link is closed.
     */
    void (*announce)(struct rt_fabric *fabric, void *mine);
    void (*hear)(struct rt_fabric *fabric, const void *all, size_t stride);
    void (*leave)(struct rt_fabric *fabric);
    /* Optional. Called now and then while the rank waits, whatever for: moves the connecting of all links on, since the
     * other ends of some may wait for it while this rank waits for others. */
    void (*step)(struct rt_fabric *fabric);
    uint32_t (*slot_bytes)(const struct rt_settings *settings, uint32_t nranks); /* of its links */
    struct rt_link_guess guess[2]; /* within a machine, between machines; counts until it is measured */
};
#define RT_ANNOUNCEMENT 128

extern const struct rt_transport rt_transport_shm;
extern const struct rt_transport rt_transport_tcp;
extern const struct rt_transport rt_transport_verbs;
extern const struct rt_transport rt_transport_ucx;

#endif
