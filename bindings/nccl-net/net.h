/*
 * Inside the plugin. NCCL's connection is one-way, from a connect() to an accept(): a fabric of two ranks of its own,
 * sender 0 and receiver 1, with one link of the library's transports. What the transports need of a communicator,
 * struct rt_control gives here without a thread: the receiver accepts, the sender dials, both when NCCL polls them.
 *
 * Files: table.c what NCCL sees; device.c what it is told of the machine; control.c connections; comm.c a link and its
 * requests; handle.c what the receiver tells.
 */
#ifndef RT_NET_PLUGIN_H
#define RT_NET_PLUGIN_H

#include "handle.h"
#include "nccl_net.h"
#include "bootstrap/acceptor.h"
#include "bootstrap/control.h"
#include "bootstrap/dialer.h"

#define NET_MOST_DEVICES 16
#define NET_MOST_STRIPES 16
#define NET_PARKED       64

/* ---- device.c */

/* The machine as found by net_start(); constant afterwards. */
extern const struct rt_transport *const net_transport[NET_TRANSPORTS];
extern struct rt_place net_place;
extern nccl_logger     net_log;
enum nccl_result net_start(nccl_logger logger);
uint32_t net_device_count(void);
struct net_device;
/* NULL: there is none of that number, which is said. */
const struct net_device *net_device(int number);
const struct rt_settings *net_device_settings(const struct net_device *device); /* of its connections */
/* The transports by which its connections may go, a bit each; `end` is its port if verbs is among them. */
uint32_t net_device_offers(const struct net_device *device, uint8_t end[RT_VERBS_END_BYTES]);
/* The best of them to that receiver; NET_TRANSPORTS: there is none. */
enum net_transport net_device_choice(const struct net_device *device, const struct net_handle *theirs);
void net_properties(struct nccl_properties_12 *properties, int number); /* of a device that there is */
void net_tell_way(const struct net_device *device, const struct rt_control *control); /* NCCL_DEBUG=INFO */
/* One line of NCCL's log; returns what NCCL is to get for a status. */
enum nccl_result net_say(ringtree_status status, const char *sentence);

/* ---- control.c */

struct rt_control {
    uint32_t        rank;
    struct rt_place place[2];
    uint8_t         secret[16];
    uint64_t        number;
    uint32_t        value; /* of this connection's claims: random, the two lowest bits the transport */
    bool            dialled; /* sender: the first connection is made */
    int             fd[NET_MOST_STRIPES]; /* receiver: accepted, not yet taken; -1 */
};

struct net_parked {
    struct rt_claim claim;
    int             fd;
};

struct net_listener {
    const struct net_device *device;
    struct rt_acceptor acceptor;
    struct net_handle  handle;
    uint32_t           nparked;
    struct net_parked  parked[NET_PARKED]; /* proven, of connections whose other stripes are missing */
};

void net_control_sender(struct rt_control *control, const struct net_handle *handle, uint32_t value);
void net_control_end(const struct rt_control *control); /* closes what nobody took */
enum nccl_result net_listener_open(const struct net_device *device, struct net_listener **listener);
void net_listener_close(struct net_listener *listener);
/* Has a whole connection come? Then it is `control`'s. */
bool net_listener_next(struct net_listener *listener, struct rt_control *control);

/* ---- comm.c */

struct net_comm;
/* The link of this control, whose descriptors it owns from here. NULL: the sentence is said. */
struct net_comm *net_comm_open(const struct net_device *device, const struct rt_control *control, bool sender);
void net_comm_close(struct net_comm *comm);
struct rt_control *net_comm_control(struct net_comm *comm);
/* Goes on connecting and moving; a failure is kept and returned from then on. */
enum nccl_result net_comm_progress(struct net_comm *comm);
/* *request NULL: too many are under way. */
enum nccl_result net_comm_post(struct net_comm *comm, void *data, size_t bytes, void **request);
enum nccl_result net_request_test(void *request, int *done, int *bytes);

#endif
