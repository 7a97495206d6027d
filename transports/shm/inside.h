/* Private to shm/: the shared file's layout, and the parts that a node is made of. */
#ifndef RT_SHM_INSIDE_H
#define RT_SHM_INSIDE_H

#include "node.h"
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

#define RT_NODE_MAGIC   UINT64_C(0x72696e6774726565) /* "ringtree" */
#define RT_NODE_VERSION 1
#define RT_NODE_LINE    128 /* two cache lines: processors fetch them in pairs */
#define RT_SLOT_INLINE  24  /* payload that travels in the slot's own cache line */

/* ---- layout.c: where everything lies in the file. Also the file's first bytes, so without padding. */
struct rt_node_layout {
    uint64_t magic;
    uint64_t number; /* of the communicator */
    uint32_t version, seats, slots, slot_bytes;
    uint64_t page;
    uint64_t lines;                            /* offset; RT_NODE_LINE bytes per seat */
    uint64_t areas, area_bytes, area_stride;   /* offset; one per seat */
    uint64_t links, link_stride, link_payload; /* offset; one per (from, to, lane); where the slots' memory begins */
    uint64_t heap, file_bytes;                 /* offset, and where it ends */
};

/* What the leader chose; the rest follows from it. */
struct rt_node_choice {
    uint32_t seats, slots, slot_bytes, pad;
    uint64_t number, file_bytes;
};

/* The leader's choice from the settings and the limit on file sizes; file_bytes 0: nothing useful fits that limit. */
void rt_layout_choose(struct rt_node_choice *choice, const struct rt_settings *settings, uint32_t seats,
                      uint64_t number, uint64_t most_file_bytes);
/* false: not a choice that rt_layout_choose() makes. */
bool rt_layout_from(struct rt_node_layout *layout, const struct rt_node_choice *choice);

/* The file's first page. */
struct rt_node_header {
    struct rt_node_layout layout;
    unsigned char         pad[256 - sizeof(struct rt_node_layout)];
    _Atomic uint64_t      heap_used;
};
_Static_assert(sizeof(struct rt_node_layout) == 112, "no padding: it is compared as bytes");

/* ---- file.c: the shared file, made or taken, and its mapping up to the heap. */
struct rt_node_file {
    int                   fd; /* -1: none */
    unsigned char        *base;
    struct rt_node_layout layout;
};
ringtree_status rt_file_make(struct rt_node_file *file, const struct rt_node_choice *choice, struct rt_error *error);
/* Takes `fd`, also when it fails. */
ringtree_status rt_file_take(struct rt_node_file *file, int fd, const struct rt_node_choice *choice,
                             struct rt_error *error);
void rt_file_close(struct rt_node_file *file); /* also of a half-made one */

/* ---- mapping.c: the file's first `bytes` in memory, once per process; NULL: errno says why. */
void *rt_mapping_open(int fd, uint64_t bytes);
void rt_mapping_close(void *base);

/* ---- bell.c */
enum rt_sleep { RT_AWAKE, RT_SLEEPING, RT_RUNG };
struct rt_node_line {
    _Atomic uint32_t sleep; /* enum rt_sleep; set by its owner, SLEEPING -> RUNG by whoever rings */
};
socklen_t rt_bell_name(struct sockaddr_un *name, uint64_t number, uint32_t leader, uint32_t rank);
ringtree_status rt_bell_open(int *fd, uint64_t number, uint32_t leader, uint32_t rank, struct rt_error *error);

/* ---- reads.c: whose private memory can be read */
struct rt_identity {
    uint64_t process; /* the same for all ranks of a process, and only for them */
    uint64_t word, word_address;
};
void rt_identity_make(struct rt_identity *identity, uint64_t *word);
int rt_reads(const struct rt_identity *self, const struct rt_identity *peer, uint32_t peer_pid);

/* ---- heap.c */
struct rt_heap;
struct rt_heap *rt_heap_open(int fd, const struct rt_node_layout *layout, _Atomic uint64_t *used, uint32_t rank);
void rt_heap_close(struct rt_heap *heap);
ringtree_status rt_heap_alloc(struct rt_heap *heap, size_t bytes, void **pointer, struct rt_error *error);
ringtree_status rt_heap_free(struct rt_heap *heap, void *pointer, struct rt_error *error);
bool rt_heap_owns(struct rt_heap *heap, const void *pointer);
bool rt_heap_offset(struct rt_heap *heap, const void *pointer, size_t bytes, uint64_t *offset);
void *rt_heap_map(struct rt_heap *heap, uint64_t offset, size_t bytes);

/* ---- node.c */
struct rt_peer {
    uint32_t             rank, seat, pid;
    int                  reads;
    struct rt_node_line *line;
    struct sockaddr_un   bell;
    socklen_t            bell_length;
};

struct rt_node {
    uint32_t            rank, size, index, leader;
    bool                oversubscribed;
    struct rt_peer     *peers; /* `size` of them, by local index */
    struct rt_node_file file;
    int                 bell;
    struct rt_heap     *heap;
    uint64_t            word; /* peers try to read it */
};

/* The link area of (from, to, lane), local indexes. */
static inline unsigned char *rt_node_link(const struct rt_node *node, uint32_t from, uint32_t to, uint32_t lane)
{
    const struct rt_node_layout *layout = &node->file.layout;
    const uint64_t pair = (uint64_t)node->peers[from].seat * layout->seats + node->peers[to].seat;
    return node->file.base + layout->links + (pair * RT_LINK_LANES + lane) * layout->link_stride;
}

#endif
