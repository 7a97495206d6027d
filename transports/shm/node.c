/* The shared file of a machine's ranks: made by the lowest, handed over a unix socket, checked before it is used. */
#include "inside.h"
#include "base/log.h"
#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define PAGE       4096
#define HEAP_BYTES (UINT64_C(1) << 42) /* of address space in the file; memory is used as it is touched */
#define FETCH_MS   10000

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Areas of 2 MiB and a header for up to 32 ranks, of 256 KiB beyond: all of them are mapped by all. */
struct rt_node_layout rt_node_layout(uint32_t nlocal, uint32_t slots, uint32_t slot_bytes)
{
    struct rt_node_layout layout = { .lines = PAGE };
    layout.areas = round_up(layout.lines + (uint64_t)nlocal * sizeof(struct rt_node_line), PAGE);
    layout.area_bytes = (nlocal <= 32 ? 2048 << 10 : 256 << 10) + (68 << 10);
    layout.links = layout.areas + nlocal * layout.area_bytes;
    layout.link_bytes = round_up(RT_LINK_HEADER + slots * RT_SLOT_STRIDE(slot_bytes), PAGE);
    layout.heap = round_up(layout.links + (uint64_t)nlocal * nlocal * RT_LINK_LANES * layout.link_bytes, 2 << 20);
    layout.file_bytes = layout.heap + HEAP_BYTES;
    return layout;
}

struct rt_node_header *rt_node_header(const struct rt_node *node)
{
    return (struct rt_node_header *)node->base;
}

static struct rt_node_line *line_of(const struct rt_node *node, uint32_t position)
{
    return (struct rt_node_line *)(node->base + node->layout.lines) + position;
}

/* ---- the file */

static ringtree_status file_map(struct rt_node *node, struct rt_error *error)
{
    void *base = mmap(NULL, node->layout.links, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, node->fd, 0);
    if (base == MAP_FAILED) return rt_fail_errno(error, "rank %u: cannot map the shared memory", node->rank);
    node->base = base;
    return RINGTREE_OK;
}

static ringtree_status file_make(struct rt_node *node, uint32_t nlocal, struct rt_error *error)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < node->layout.file_bytes) /* ftruncate would raise SIGXFSZ */
        return rt_fail(error, RINGTREE_SYSTEM, "rank %u: shared memory needs a (sparse) file of %" PRIu64 " bytes, but the "
                       "limit on file size is %" PRIu64 "; raise it with ulimit -f", node->rank,
                       node->layout.file_bytes, (uint64_t)limit.rlim_cur);
    node->fd = memfd_create("ringtree", MFD_CLOEXEC);
    if (node->fd < 0) return rt_fail_errno(error, "rank %u: memfd_create", node->rank);
    if (ftruncate(node->fd, (off_t)node->layout.file_bytes) != 0)
        return rt_fail_errno(error, "rank %u: cannot size the shared memory", node->rank);
    ringtree_status status = file_map(node, error);
    if (status != RINGTREE_OK) return status;
    struct rt_node_header *header = rt_node_header(node);
    *header = (struct rt_node_header){ RT_NODE_MAGIC, RT_NODE_VERSION, nlocal, node->slots, node->slot_bytes,
                                       node->layout.file_bytes, node->layout.heap };
    return RINGTREE_OK;
}

/* The file came from a process that proved the secret, but it may be of another build or have other settings. */
static ringtree_status file_check(struct rt_node *node, uint32_t nlocal, struct rt_error *error)
{
    struct stat st;
    if (fstat(node->fd, &st) != 0) return rt_fail_errno(error, "rank %u: fstat of the shared memory", node->rank);
    if ((uint64_t)st.st_size < PAGE || (uint64_t)st.st_size != node->layout.file_bytes)
        return rt_fail(error, RINGTREE_MISMATCH, "rank %u: the shared memory has another size than computed here; all ranks "
                       "need the same ringtree and the same RINGTREE_SHM_SLOTS and RINGTREE_SHM_SLOT_BYTES", node->rank);
    ringtree_status status = file_map(node, error);
    if (status != RINGTREE_OK) return status;
    const struct rt_node_header header = *rt_node_header(node);
    if (header.magic != RT_NODE_MAGIC || header.version != RT_NODE_VERSION || header.nlocal != nlocal ||
        header.slots != node->slots || header.slot_bytes != node->slot_bytes || header.file_bytes != node->layout.file_bytes)
        return rt_fail(error, RINGTREE_MISMATCH, "rank %u: the shared memory was laid out by another version or with other "
                       "settings (RINGTREE_SHM_SLOTS, RINGTREE_SHM_SLOT_BYTES)", node->rank);
    return RINGTREE_OK;
}

/* ---- bells */

static socklen_t bell_address(uint64_t number, uint32_t rank, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    const int n = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "ringtree-bell-%016" PRIx64 "-%u", number,
                           rank);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static ringtree_status bell_open(struct rt_node *node, struct rt_error *error)
{
    struct sockaddr_un address;
    const socklen_t length = bell_address(node->number, node->rank, &address);
    node->bell = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (node->bell < 0 || bind(node->bell, (struct sockaddr *)&address, length) != 0)
        return rt_fail_errno(error, "rank %u: cannot make the doorbell's unix socket", node->rank);
    return RINGTREE_OK;
}

int rt_node_bell_fd(const struct rt_node *node)
{
    return node->bell;
}

void rt_node_sleep_begin(struct rt_node *node)
{
    atomic_store(&line_of(node, node->position[node->index])->sleeping, 1);
}

void rt_node_sleep_end(struct rt_node *node)
{
    char drain[16];
    atomic_store_explicit(&line_of(node, node->position[node->index])->sleeping, 0, memory_order_relaxed);
    while (recv(node->bell, drain, sizeof drain, MSG_DONTWAIT) > 0) {}
}

void rt_node_ring(struct rt_node *node, uint32_t i)
{
    if (!atomic_load_explicit(&line_of(node, node->position[i])->sleeping, memory_order_relaxed)) return;
    struct sockaddr_un address;
    const socklen_t length = bell_address(node->number, node->ranks[i], &address);
    /* a bell that is full is ringing already; one that is gone needs none */
    (void)!sendto(node->bell, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&address, length);
}

/* ---- who shares */

struct attached { /* what a rank tells the others once it has tried */
    uint64_t token; /* of its process */
    uint64_t token_address;
    uint32_t ok, pid;
};

/* Random, one per process: tells threads of this process, and proves process_vm_readv. */
static uint64_t process_token;
static void token_make(void)
{
    uint64_t expected = 0, fresh;
    randombytes_buf(&fresh, sizeof fresh);
    __atomic_compare_exchange_n(&process_token, &expected, fresh | 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static int how_read(const struct attached *peer)
{
    uint64_t seen = 0;
    if (peer->token == process_token) return 2;
    struct iovec local = { &seen, sizeof seen }, remote = { (void *)(uintptr_t)peer->token_address, sizeof seen };
    const ssize_t n = process_vm_readv((pid_t)peer->pid, &local, 1, &remote, 1, 0);
    return n == (ssize_t)sizeof seen && seen == peer->token;
}

struct group { /* ranks with this one's host_key, before it is known who can attach */
    uint32_t count, position, leader;
};

static struct group group_of(const struct rt_place *places, uint32_t nranks, uint32_t rank)
{
    struct group group = { .leader = rank };
    for (uint32_t r = 0; r < nranks; r++) {
        if (places[r].host_key != places[rank].host_key) continue;
        if (group.count == 0) group.leader = r;
        group.position += r < rank;
        group.count++;
    }
    return group;
}

static ringtree_status attach(struct rt_node *node, struct rt_control *control, const struct group *group,
                              struct rt_error *error)
{
    if (group->count < 2) return rt_fail(error, RINGTREE_UNREACHABLE, "rank %u is alone on its machine", node->rank);
    if (group->leader != node->rank) {
        ringtree_status status = rt_control_fetch_fd(control, group->leader, FETCH_MS, &node->fd, error);
        if (status == RINGTREE_OK) status = file_check(node, group->count, error);
        if (status != RINGTREE_OK) return status;
    }
    return node->base ? bell_open(node, error) : rt_fail(error, RINGTREE_SYSTEM, "no shared memory");
}

static bool lists_make(struct rt_node *node, uint32_t count)
{
    node->ranks = calloc(count, sizeof *node->ranks);
    node->position = calloc(count, sizeof *node->position);
    node->reads = calloc(count, sizeof *node->reads);
    node->pids = calloc(count, sizeof *node->pids);
    return node->ranks && node->position && node->reads && node->pids;
}

/* Those of the group who attached, in rank order. */
static void lists_fill(struct rt_node *node, const struct rt_place *places, const struct attached *all, uint32_t nranks)
{
    uint32_t position = 0;
    for (uint32_t r = 0; r < nranks; r++) {
        if (places[r].host_key != places[node->rank].host_key) continue;
        if (all[r].ok) {
            const uint32_t i = node->nlocal++;
            if (r == node->rank) node->index = i;
            node->ranks[i] = r;
            node->position[i] = position;
            node->pids[i] = all[r].pid;
            node->reads[i] = how_read(&all[r]);
        }
        position++;
    }
}

/* Nodes are numbered by first appearance; who did not attach is alone, and so is a leader that nobody reached. */
static void number_nodes(const struct rt_place *places, const struct attached *all, uint32_t nranks, uint32_t *node_of)
{
    uint32_t nodes = 0;
    for (uint32_t r = 0; r < nranks; r++) {
        node_of[r] = UINT32_MAX;
        for (uint32_t s = 0; s < r && all[r].ok && node_of[r] == UINT32_MAX; s++)
            if (all[s].ok && places[s].host_key == places[r].host_key) node_of[r] = node_of[s];
        if (node_of[r] == UINT32_MAX) node_of[r] = nodes++;
    }
}

static struct rt_node *node_new(struct rt_control *control, const struct rt_settings *settings, uint32_t rank,
                                uint32_t count)
{
    struct rt_node *node = calloc(1, sizeof *node);
    if (!node) return NULL;
    node->rank = rank;
    node->number = rt_control_number(control);
    node->cores = rt_control_places(control)[rank].cores;
    node->fd = node->bell = -1;
    node->slots = (uint32_t)settings->number[RT_SHM_SLOTS];
    node->slot_bytes = (uint32_t)round_up(settings->number[RT_SHM_SLOT_BYTES], 64);
    node->layout = rt_node_layout(count, node->slots, node->slot_bytes);
    return node;
}

/* Is shm among the transports asked for? */
static bool is_wanted(const struct rt_settings *settings)
{
    for (const char *at = settings->text[RT_TRANSPORTS]; *at;) {
        const size_t length = strcspn(at, ",");
        if (length == 3 && strncmp(at, "shm", 3) == 0) return true;
        at += length + (at[length] == ',');
    }
    return false;
}

/*
 * Two all-gathers, on every rank, whatever happens: the first tells that leaders offer their file, the second who
 * attached. A rank that cannot join must not stop the others.
 */
static ringtree_status join(struct rt_node *node, struct rt_control *control, const struct rt_settings *settings,
                            uint32_t nranks, struct attached *all, struct rt_error *error)
{
    const struct rt_place *places = rt_control_places(control);
    const struct group group = group_of(places, nranks, node->rank);
    struct rt_error why = { 0 };
    struct attached mine = { process_token, (uintptr_t)&process_token, 0, (uint32_t)getpid() };
    const bool wanted = is_wanted(settings);
    if (wanted && group.count > 1 && group.leader == node->rank && file_make(node, group.count, &why) == RINGTREE_OK)
        rt_control_offer_fd(control, node->fd);
    ringtree_status status = rt_control_all_gather(control, &mine, sizeof mine, all, error);
    if (status != RINGTREE_OK) return status;
    mine.ok = wanted && lists_make(node, group.count) && attach(node, control, &group, &why) == RINGTREE_OK;
    if (wanted && !mine.ok && group.count > 1) rt_log(RT_LOG_WARN, "no shared memory: %s", why.text);
    status = rt_control_all_gather(control, &mine, sizeof mine, all, error);
    if (status == RINGTREE_OK && mine.ok) lists_fill(node, places, all, nranks);
    return status;
}

ringtree_status rt_node_open(struct rt_node **result, struct rt_control *control, const struct rt_settings *settings,
                             uint32_t rank, uint32_t nranks, uint32_t *node_of, struct rt_error *error)
{
    *result = NULL;
    node_of[0] = 0;
    if (nranks == 1) return RINGTREE_OK;
    token_make();
    struct attached *all = calloc(nranks, sizeof *all);
    struct rt_node *node = node_new(control, settings, rank, group_of(rt_control_places(control), nranks, rank).count);
    ringtree_status status = all && node ? join(node, control, settings, nranks, all, error)
                                         : rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory", rank);
    if (status == RINGTREE_OK) number_nodes(rt_control_places(control), all, nranks, node_of);
    free(all);
    if (status == RINGTREE_OK && node->nlocal > 1) *result = node;
    else rt_node_close(node);
    return status;
}

void rt_node_close(struct rt_node *node)
{
    if (!node) return;
    rt_node_heap_close(node);
    if (node->base) munmap(node->base, node->layout.links);
    if (node->fd >= 0) close(node->fd);
    if (node->bell >= 0) close(node->bell);
    free(node->ranks);
    free(node->position);
    free(node->reads);
    free(node->pids);
    free(node);
}

/* ---- what it is like */

uint32_t rt_node_size(const struct rt_node *node)
{
    return node->nlocal;
}

uint32_t rt_node_index(const struct rt_node *node)
{
    return node->index;
}

uint32_t rt_node_rank(const struct rt_node *node, uint32_t i)
{
    return node->ranks[i];
}

uint32_t rt_node_find(const struct rt_node *node, uint32_t rank)
{
    for (uint32_t i = 0; i < node->nlocal; i++)
        if (node->ranks[i] == rank) return i;
    return RT_NONE;
}

bool rt_node_oversubscribed(const struct rt_node *node)
{
    return node->nlocal > node->cores;
}

uint32_t rt_node_slot_bytes(const struct rt_node *node)
{
    return node->slot_bytes;
}

int rt_node_reads(const struct rt_node *node, uint32_t i)
{
    return node->reads[i];
}

uint32_t rt_node_pid(const struct rt_node *node, uint32_t i)
{
    return node->pids[i];
}

void *rt_node_area(const struct rt_node *node, uint32_t i, size_t *bytes)
{
    *bytes = node->layout.area_bytes;
    return node->base + node->layout.areas + node->position[i] * node->layout.area_bytes;
}

unsigned char *rt_node_map_link(const struct rt_node *node, uint32_t from, uint32_t to, uint32_t lane)
{
    const uint64_t total = rt_node_header(node)->nlocal;
    const uint64_t number = (node->position[from] * total + node->position[to]) * RT_LINK_LANES + lane;
    void *memory = mmap(NULL, node->layout.link_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, node->fd,
                        (off_t)(node->layout.links + number * node->layout.link_bytes));
    return memory == MAP_FAILED ? NULL : memory;
}

void rt_node_unmap_link(const struct rt_node *node, unsigned char *memory)
{
    munmap(memory, node->layout.link_bytes);
}
