/*
 * A node's opening, and what it knows of its ranks. All ranks of the communicator go through the same two exchanges,
 * whatever failed on the way: 1. each leader's choice, after it made the file and offered it; 2. who has attached.
 * Those that did not are alone. A seat is a rank's place among all that have its host key; local indexes count those
 * attached.
 */
#include "inside.h"
#include "base/log.h"
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define FETCH_MS 20000 /* a leader that offers answers at once; it may be busy with many */

struct report { /* exchange 2 */
    struct rt_identity identity;
    uint32_t           attached, pad;
};

struct group { /* sorted by (host, rank): ranks with equal keys stand together */
    uint64_t host_key;
    uint32_t rank;
};

struct opening {
    struct rt_control        *control;
    const struct rt_settings *settings;
    const struct rt_place    *places;
    uint32_t                  rank, nranks;
    struct group             *ranks; /* nranks, sorted */
    uint32_t                  first, seats, seat; /* this rank's host: ranks[first .. first + seats) */
    struct rt_node_choice    *choices;            /* nranks; seats 0: no memory is offered */
    struct report            *reports;            /* nranks */
    struct rt_node           *node;
    uint32_t                  attached; /* ranks of this host */
};

/* ---- who is on this machine */

static int group_compare(const void *left, const void *right)
{
    const struct group *a = left, *b = right;
    if (a->host_key != b->host_key) return a->host_key < b->host_key ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static void find_neighbours(struct opening *o)
{
    for (uint32_t r = 0; r < o->nranks; r++) o->ranks[r] = (struct group){ o->places[r].host_key, r };
    qsort(o->ranks, o->nranks, sizeof *o->ranks, group_compare);
    const uint64_t mine = o->places[o->rank].host_key;
    while (o->ranks[o->first].host_key != mine) o->first++;
    while (o->first + o->seats < o->nranks && o->ranks[o->first + o->seats].host_key == mine) {
        if (o->ranks[o->first + o->seats].rank == o->rank) o->seat = o->seats;
        o->seats++;
    }
}

static void opening_free(struct opening *o)
{
    free(o->ranks);
    free(o->choices);
    free(o->reports);
}

static ringtree_status opening_memory(struct opening *o, struct rt_error *error)
{
    o->ranks = calloc(o->nranks, sizeof *o->ranks);
    o->choices = calloc(o->nranks, sizeof *o->choices);
    o->reports = calloc(o->nranks, sizeof *o->reports);
    o->node = calloc(1, sizeof *o->node);
    if (!o->ranks || !o->choices || !o->reports || !o->node)
        return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory to look for the ranks on this machine", o->rank);
    *o->node = (struct rt_node){ .rank = o->rank, .file.fd = -1, .bell = -1 };
    return RINGTREE_OK;
}

static void say(const struct opening *o, const struct rt_error *why)
{
    rt_log(RT_LOG_WARN, "rank %u shares no memory with the other %u ranks on host %s: %s", o->rank, o->seats - 1,
           o->places[o->rank].host, why->text);
}

/* ---- exchange 1: the leader makes the file */

static struct rt_node_choice lead(struct opening *o)
{
    struct rt_node_choice choice = { 0 };
    struct rt_error why = { 0 };
    struct rlimit limit;
    uint64_t most = INT64_MAX;
    if (o->seats < 2 || o->seat != 0) return choice;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < most) most = limit.rlim_cur;
    rt_layout_choose(&choice, o->settings, o->seats, rt_control_number(o->control), most);
    if (rt_file_make(&o->node->file, &choice, &why) == RINGTREE_OK) {
        rt_control_offer_fd(o->control, o->node->file.fd);
        return choice;
    }
    rt_file_close(&o->node->file);
    say(o, &why);
    return (struct rt_node_choice){ 0 };
}

/* ---- between: the others take it */

static ringtree_status take_file(struct opening *o, const struct rt_node_choice *choice, uint32_t leader,
                                 struct rt_error *why)
{
    int fd = -1;
    const uint64_t timeout = o->settings->number[RT_TIMEOUT_MS];
    if (choice->seats != o->seats || choice->number != rt_control_number(o->control))
        return rt_fail(why, RINGTREE_UNREACHABLE, "rank %u, which should have made it, offers none", leader);
    ringtree_status status = rt_control_fetch_fd(o->control, leader, timeout < FETCH_MS ? (uint32_t)timeout : FETCH_MS,
                                                 &fd, why);
    return status == RINGTREE_OK ? rt_file_take(&o->node->file, fd, choice, why) : status;
}

static ringtree_status attach(struct opening *o, struct rt_error *why)
{
    struct rt_node *node = o->node;
    const uint32_t leader = o->ranks[o->first].rank;
    node->leader = leader;
    ringtree_status status = o->seat == 0 ? RINGTREE_OK : take_file(o, &o->choices[leader], leader, why);
    if (status != RINGTREE_OK) return status;
    status = rt_bell_open(&node->bell, rt_control_number(o->control), leader, o->rank, why);
    if (status != RINGTREE_OK) return status;
    struct rt_node_header *header = (struct rt_node_header *)node->file.base;
    node->heap = rt_heap_open(node->file.fd, &node->file.layout, &header->heap_used, o->rank);
    if (!node->heap) return rt_fail(why, RINGTREE_NO_MEMORY, "no memory for its tables");
    /* First touch: the pages that this rank writes most come from its own NUMA node. */
    const struct rt_node_layout *layout = &node->file.layout;
    *(volatile unsigned char *)(node->file.base + layout->areas + o->seat * layout->area_stride) = 0;
    return RINGTREE_OK;
}

static struct report attach_and_report(struct opening *o)
{
    struct report report = { 0 };
    struct rt_error why = { 0 };
    if (o->seats < 2 || (o->seat == 0 && o->node->file.fd < 0)) return report;
    if (attach(o, &why) != RINGTREE_OK) {
        say(o, &why);
        return report;
    }
    rt_identity_make(&report.identity, &o->node->word);
    report.attached = 1;
    return report;
}

/* ---- exchange 2: what came of it */

static void number_nodes(const struct opening *o, uint32_t *node_of)
{
    uint32_t *leader_of = node_of, next = 0;
    for (uint32_t i = 0, leader = RT_NONE; i < o->nranks; i++) {
        const struct group *at = &o->ranks[i];
        if (i == 0 || at->host_key != o->ranks[i - 1].host_key) leader = RT_NONE;
        const bool attached = o->reports[at->rank].attached != 0;
        if (attached && leader == RT_NONE) leader = at->rank;
        leader_of[at->rank] = attached ? leader : at->rank;
    }
    for (uint32_t r = 0; r < o->nranks; r++) node_of[r] = leader_of[r] == r ? next++ : node_of[leader_of[r]];
}

static void peer_fill(const struct opening *o, struct rt_peer *peer, uint32_t seat)
{
    const struct rt_node *node = o->node;
    const uint32_t rank = o->ranks[o->first + seat].rank;
    *peer = (struct rt_peer){ .rank = rank, .seat = seat, .pid = o->places[rank].pid };
    peer->reads = rt_reads(&o->reports[o->rank].identity, &o->reports[rank].identity, peer->pid);
    peer->line = (struct rt_node_line *)(node->file.base + node->file.layout.lines + (uint64_t)seat * RT_NODE_LINE);
    peer->bell_length = rt_bell_name(&peer->bell, node->file.layout.number, node->leader, rank);
    (void)atomic_load_explicit(&peer->line->sleep, memory_order_relaxed); /* its page comes now, not with a call */
}

static bool is_oversubscribed(const struct opening *o)
{
    struct rt_core_count cores = { 0 };
    for (uint32_t i = 0; i < o->node->size; i++) rt_core_count_add(&cores, &o->places[o->node->peers[i].rank]);
    return o->node->size > rt_core_count_total(&cores);
}

static ringtree_status node_fill(struct opening *o, struct rt_error *error)
{
    struct rt_node *node = o->node;
    node->peers = calloc(o->attached, sizeof *node->peers);
    if (!node->peers)
        return rt_fail(error, RINGTREE_NO_MEMORY, "rank %u: no memory for the list of its neighbours", o->rank);
    for (uint32_t seat = 0; seat < o->seats; seat++) {
        if (!o->reports[o->ranks[o->first + seat].rank].attached) continue;
        if (seat == o->seat) node->index = node->size;
        peer_fill(o, &node->peers[node->size++], seat);
    }
    node->oversubscribed = is_oversubscribed(o);
    return RINGTREE_OK;
}

static ringtree_status open_all(struct opening *o, uint32_t *node_of, struct rt_error *error)
{
    ringtree_status status = opening_memory(o, error);
    if (status != RINGTREE_OK) return status;
    find_neighbours(o);
    const struct rt_node_choice choice = lead(o);
    status = rt_control_all_gather(o->control, &choice, sizeof choice, o->choices, error);
    if (status != RINGTREE_OK) return status;
    const struct report report = attach_and_report(o);
    status = rt_control_all_gather(o->control, &report, sizeof report, o->reports, error);
    if (status != RINGTREE_OK) return status;
    number_nodes(o, node_of);
    for (uint32_t i = 0; i < o->seats; i++) o->attached += o->reports[o->ranks[o->first + i].rank].attached != 0;
    return report.attached && o->attached >= 2 ? node_fill(o, error) : RINGTREE_OK;
}

ringtree_status rt_node_open(struct rt_node **node, struct rt_control *control, const struct rt_settings *settings,
                             uint32_t rank, uint32_t nranks, uint32_t *node_of, struct rt_error *error)
{
    struct opening o = { .control = control, .settings = settings, .places = rt_control_places(control), .rank = rank,
                         .nranks = nranks };
    *node = NULL;
    ringtree_status status = open_all(&o, node_of, error);
    if (status == RINGTREE_OK && o.node->size >= 2) *node = o.node;
    else rt_node_close(o.node);
    opening_free(&o);
    return status;
}

void rt_node_close(struct rt_node *node)
{
    if (!node) return;
    rt_heap_close(node->heap);
    if (node->bell >= 0) close(node->bell);
    rt_file_close(&node->file);
    free(node->peers);
    free(node);
}

/* ---- what it knows */

uint32_t rt_node_size(const struct rt_node *node)
{
    return node->size;
}

uint32_t rt_node_index(const struct rt_node *node)
{
    return node->index;
}

uint32_t rt_node_rank(const struct rt_node *node, uint32_t i)
{
    return node->peers[i].rank;
}

uint32_t rt_node_find(const struct rt_node *node, uint32_t rank)
{
    uint32_t low = 0, high = node->size;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (node->peers[middle].rank < rank) low = middle + 1;
        else high = middle;
    }
    return low < node->size && node->peers[low].rank == rank ? low : RT_NONE;
}

bool rt_node_oversubscribed(const struct rt_node *node)
{
    return node->oversubscribed;
}

uint32_t rt_node_slot_bytes(const struct rt_node *node)
{
    return node->file.layout.slot_bytes;
}

uint32_t rt_node_pid(const struct rt_node *node, uint32_t i)
{
    return node->peers[i].pid;
}

int rt_node_reads(const struct rt_node *node, uint32_t i)
{
    return node->peers[i].reads;
}

void *rt_node_area(const struct rt_node *node, uint32_t i, size_t *bytes)
{
    const struct rt_node_layout *layout = &node->file.layout;
    *bytes = layout->area_bytes;
    return node->file.base + layout->areas + node->peers[i].seat * layout->area_stride;
}

ringtree_status rt_node_alloc(struct rt_node *node, size_t bytes, void **pointer, struct rt_error *error)
{
    return rt_heap_alloc(node->heap, bytes, pointer, error);
}

bool rt_node_owns(const struct rt_node *node, const void *pointer)
{
    return rt_heap_owns(node->heap, pointer);
}

ringtree_status rt_node_free(struct rt_node *node, void *pointer, struct rt_error *error)
{
    return rt_heap_free(node->heap, pointer, error);
}

bool rt_node_offset(const struct rt_node *node, const void *pointer, size_t bytes, uint64_t *offset)
{
    return rt_heap_offset(node->heap, pointer, bytes, offset);
}

void *rt_node_map(struct rt_node *node, uint64_t offset, size_t bytes)
{
    return rt_heap_map(node->heap, offset, bytes);
}
