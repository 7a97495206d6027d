/* Opening and closing the control plane. */
#include "inside.h"
#include "base/log.h"
#include "thread.h"
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define TREE_LEAST_MS 5000 /* the tree gets this long even if the meeting took the whole timeout */

uint64_t rt_control_now(const struct rt_control *c)
{
    return rt_now_ns(c->clock);
}

const struct rt_place *rt_control_places(const struct rt_control *c)
{
    return c->places;
}

const uint8_t *rt_control_secret(const struct rt_control *c)
{
    return c->secret;
}

uint64_t rt_control_number(const struct rt_control *c)
{
    return c->number;
}

uint64_t rt_control_rejected(const struct rt_control *c)
{
    return atomic_load_explicit(&c->acceptor.rejected, memory_order_relaxed);
}

const char *rt_rank_words(const struct rt_control *c, uint32_t rank, char *text, size_t capacity)
{
    const struct rt_place *place = NULL;

    if (rank < c->nranks && (c->places_known || rank == c->rank))
        place = &c->places[rank];
    else if (rank == rt_tree_parent(c->rank))
        place = &c->parent_place;
    if (place)
        snprintf(text, capacity, "rank %u (host %s, pid %u)", rank, place->host, place->pid);
    else
        snprintf(text, capacity, "rank %u", rank);
    return text;
}

/* The listener's port makes it unique in the network namespace, which is also that of abstract names. */
void rt_control_unix_name(uint64_t number, uint32_t rank, uint16_t port, char name[RT_UNIX_NAME])
{
    snprintf(name, RT_UNIX_NAME, "ringtree-%016" PRIx64 "-%x-%x", number, rank & 0xfffff, port);
}

/* ------------------------------------------------------------------ opening */

static ringtree_status make_waits(struct rt_control *c, struct rt_error *error)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    int failed = pthread_mutex_init(&c->lock, NULL);
    if (!failed && (failed = pthread_cond_init(&c->changed, &attributes)) != 0)
        pthread_mutex_destroy(&c->lock);
    pthread_condattr_destroy(&attributes);
    if (failed)
        return rt_fail(error, RINGTREE_SYSTEM, "the control plane cannot start: %s", rt_errno_words(failed));
    c->has_lock = true;
    c->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (c->nranks > 1 && c->wake_fd >= 0)
        c->thread_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (c->wake_fd < 0 || (c->nranks > 1 && c->thread_fd < 0))
        return rt_fail_errno(error, "the control plane cannot make an eventfd");
    return RINGTREE_OK;
}

/* The address that leads to the root goes first: a datagram socket asks the kernel which that is, and sends nothing. */
static void prefer_route(struct rt_place *place, const struct rt_address *root)
{
    struct sockaddr_storage to;
    socklen_t length = rt_address_to_sockaddr(root, &to);
    const bool is_loopback = (root->family == AF_INET && root->bytes[0] == 127) ||
                             (root->family == AF_INET6 && root->bytes[0] == 0 && root->bytes[15] == 1);

    if (length == 0 || is_loopback)
        return;
    int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, (struct sockaddr *)&to, length) == 0)
        rt_place_prefer(place, fd);
    close(fd);
}

static ringtree_status open_listeners(struct rt_control *c, struct rt_place *place, struct rt_error *error)
{
    char name[RT_UNIX_NAME];
    uint16_t port = 0;
    int tcp_fd = rt_listen_tcp(NULL, &port);

    if (tcp_fd < 0)
        return rt_fail(error, RINGTREE_SYSTEM, "rank %u cannot listen on any TCP port: %s", c->rank,
                       rt_errno_words(-tcp_fd));
    place->address[0].port = port; /* also when it has no address: unix sockets are named after it */
    for (uint32_t i = 1; i < RT_MAX_ADDRESSES; i++)
        place->address[i].port = place->address[i].family ? port : 0;
    rt_control_unix_name(c->meeting_number, c->rank, port, name);
    int unix_fd = rt_listen_unix(name);
    if (unix_fd < 0) /* TCP does it all but share memory */
        rt_log(RT_LOG_WARN, "rank %u cannot listen on the unix socket @%s: %s", c->rank, name,
               rt_errno_words(-unix_fd));
    c->has_acceptor = true;
    return rt_acceptor_open(&c->acceptor, tcp_fd, unix_fd < 0 ? -1 : unix_fd, c->clock, error);
}

static ringtree_status start_thread(struct rt_control *c, struct rt_error *error)
{
    c->pollfds = calloc(1 + RT_LINKS_MOST + RT_ACCEPTOR_POLLFDS, sizeof(*c->pollfds));
    if (!c->pollfds)
        return rt_fail(error, RINGTREE_NO_MEMORY, "no memory for the control plane");
    int failed = rt_thread_start(&c->thread, "ringtree-ctl", rt_control_thread, c);
    if (failed)
        return rt_fail(error, RINGTREE_SYSTEM, "rank %u cannot start its control thread: %s", c->rank,
                       rt_errno_words(failed));
    c->has_thread = true;
    return RINGTREE_OK;
}

/* Connects to the parent in the tree, while this rank's own thread accepts its children. */
static ringtree_status reach_parent(struct rt_control *c, uint64_t deadline_ns, struct rt_error *error)
{
    const struct rt_claim claim = { .kind = RT_CONNECT_TREE, .rank = c->rank, .value = c->places[c->rank].pid };
    const uint32_t parent = rt_tree_parent(c->rank);
    char words[120], tried[600];
    struct rt_dialer dialer;
    int fd = -1;

    rt_dial_prepare(c, parent, &c->parent_place, &claim, deadline_ns, &dialer);
    ringtree_status status = rt_dialer_wait(&dialer, &fd);
    if (status)
        return rt_fail(error, status, "rank %u cannot connect to %s, its parent in the tree: %s; look at firewalls and "
                       "RINGTREE_INTERFACE", c->rank, rt_rank_words(c, parent, words, sizeof(words)),
                       rt_dialer_text(&dialer, tried, sizeof(tried)));
    pthread_mutex_lock(&c->lock);
    c->link[0].fd = fd;
    c->link[0].pid = c->parent_place.pid;
    pthread_mutex_unlock(&c->lock);
    rt_control_poke(c);
    return RINGTREE_OK;
}

/* What comes back is kept by the exchange itself; see learn_places(). */
static ringtree_status share_places(struct rt_control *c, struct rt_error *error)
{
    uint8_t mine[RT_PLACE_BYTES], *all = malloc((size_t)c->nranks * RT_PLACE_BYTES);

    if (!all)
        return rt_fail(error, RINGTREE_NO_MEMORY, "no memory for the places of %u ranks", c->nranks);
    rt_place_put(mine, &c->places[c->rank]);
    ringtree_status status = rt_control_all_gather(c, mine, sizeof(mine), all, error);
    free(all);
    return status;
}

/* The whole way for two and more ranks. */
static ringtree_status meet_others(struct rt_control *c, const struct rt_meeting *meeting, struct rt_error *error)
{
    const uint64_t deadline = rt_control_now(c) + c->timeout_ms * RT_NS_PER_MS;
    struct rt_join join = { .rank = c->rank, .nranks = c->nranks, .timeout_ms = c->timeout_ms };
    struct rt_seat seat;

    snprintf(join.version, sizeof(join.version), "%s", ringtree_version());
    ringtree_status status = rt_place_find(&join.place, c->settings, error);
    if (status)
        return status;
    prefer_route(&join.place, &meeting->address[0]);
    c->meeting_number = meeting->number;
    if ((status = open_listeners(c, &join.place, error)) != RINGTREE_OK)
        return status;
    c->places[c->rank] = join.place;
    if ((status = rt_join(meeting, &join, c->clock, &seat, error)) != RINGTREE_OK)
        return status;
    c->number = seat.number;
    c->parent_place = seat.parent;
    rt_auth_key(c->key, c->secret, c->number);
    rt_acceptor_trust(&c->acceptor, c->secret, c->number, c->nranks);
    rt_tree_init(c);
    if ((status = start_thread(c, error)) != RINGTREE_OK)
        return status;
    const uint64_t least = rt_control_now(c) + TREE_LEAST_MS * RT_NS_PER_MS;
    if (c->rank != 0 && (status = reach_parent(c, deadline > least ? deadline : least, error)) != RINGTREE_OK)
        return status;
    return share_places(c, error);
}

static ringtree_status check_options(const struct rt_control_options *options, struct rt_error *error)
{
    if (options->nranks == 0 || options->nranks > 1u << 20 || options->rank >= options->nranks)
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "rank %u of %u: a rank is 0 to size - 1, a size 1 to %u",
                       options->rank, options->nranks, 1u << 20);
    if (options->nranks > 1 && !options->meeting)
        return rt_fail(error, RINGTREE_INVALID_ARGUMENT, "%u ranks need an id to meet", options->nranks);
    if (sodium_init() < 0)
        return rt_fail(error, RINGTREE_SYSTEM, "libsodium finds no source of random numbers");
    return RINGTREE_OK;
}

static struct rt_control *make_control(const struct rt_control_options *options)
{
    struct rt_control *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    c->places = calloc(options->nranks, sizeof(*c->places));
    if (!c->places) {
        free(c);
        return NULL;
    }
    c->rank = options->rank;
    c->nranks = options->nranks;
    c->timeout_ms = options->timeout_ms ? options->timeout_ms : (uint32_t)options->settings->number[RT_TIMEOUT_MS];
    c->settings = options->settings;
    c->clock = options->clock ? options->clock : &rt_system_clock;
    c->wake_fd = c->thread_fd = c->offered_fd = c->acceptor.tcp_fd = c->acceptor.unix_fd = -1;
    return c;
}

ringtree_status rt_control_open(struct rt_control **control, const struct rt_control_options *options,
                                struct rt_error *error)
{
    *control = NULL;
    ringtree_status status = check_options(options, error);
    if (status)
        return status;
    struct rt_control *c = make_control(options);
    if (!c)
        return rt_fail(error, RINGTREE_NO_MEMORY, "no memory for the control plane of %u ranks", options->nranks);
    status = make_waits(c, error);
    if (!status && c->nranks == 1) {
        randombytes_buf(c->secret, sizeof(c->secret));
        randombytes_buf(&c->number, sizeof(c->number));
        c->places_known = true;
        status = rt_place_find(&c->places[0], c->settings, error);
    } else if (!status) {
        memcpy(c->secret, options->meeting->secret, sizeof(c->secret));
        status = meet_others(c, options->meeting, error);
    }
    if (status) {
        if (c->has_thread) /* the others should not wait for this rank */
            rt_control_fail(c, status, error ? error->text : "a rank could not start");
        rt_control_close(c, 0);
        return status;
    }
    *control = c;
    return RINGTREE_OK;
}

/* ------------------------------------------------------------------ closing */

/* With the lock held: until all said goodbye, something failed, or the time is over. */
static void wait_all_gone(struct rt_control *c, uint32_t wait_ms)
{
    const uint64_t late = rt_now_ns(&rt_system_clock) + wait_ms * RT_NS_PER_MS;
    const struct timespec at = { (time_t)(late / 1000000000), (long)(late % 1000000000) };
    int timed_out = 0;

    if (wait_ms == 0)
        return;
    c->goodbye = true;
    rt_goodbye_step(c);
    while (!c->all_gone && !timed_out && !atomic_load_explicit(&c->failed, memory_order_relaxed))
        timed_out = pthread_cond_timedwait(&c->changed, &c->lock, &at) != 0;
}

static void end_thread(struct rt_control *c, uint32_t wait_ms)
{
    pthread_mutex_lock(&c->lock);
    wait_all_gone(c, wait_ms);
    if (!c->all_gone && !atomic_load_explicit(&c->failed, memory_order_relaxed))
        for (uint32_t i = 0; i < c->nlinks; i++)
            rt_tree_send(&c->link[i], RT_MESSAGE_LEAVE, NULL, 0);
    c->all_gone = true; /* from now on connections may end */
    c->stop = true;
    pthread_mutex_unlock(&c->lock);
    rt_control_poke(c);
    pthread_join(c->thread, NULL);
}

void rt_control_close(struct rt_control *c, uint32_t wait_ms)
{
    if (!c)
        return;
    if (c->has_thread)
        end_thread(c, wait_ms);
    for (uint32_t i = 0; i < c->nlinks; i++)
        rt_tree_end(&c->link[i]);
    rt_parked_end(c);
    if (c->has_acceptor)
        rt_acceptor_close(&c->acceptor);
    if (c->wake_fd >= 0)
        close(c->wake_fd);
    if (c->thread_fd >= 0)
        close(c->thread_fd);
    if (c->has_lock) {
        pthread_cond_destroy(&c->changed);
        pthread_mutex_destroy(&c->lock);
    }
    free(c->pollfds);
    free(c->places);
    sodium_memzero(c->secret, sizeof(c->secret));
    sodium_memzero(c->key, sizeof(c->key));
    free(c);
}
