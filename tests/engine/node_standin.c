#include "node_standin.h"
#include <stdlib.h>
#include <string.h>

struct rt_node {
    uint32_t             n, index;
    unsigned char       *areas;
    size_t               area_bytes, heap_bytes;
    int                  reads;
    const unsigned char *heap;
    bool                 hidden;
};

struct rt_node *standin_node(uint32_t n, uint32_t index, unsigned char *areas, size_t area_bytes, int reads,
                             const void *heap, size_t heap_bytes)
{
    struct rt_node *node = malloc(sizeof *node);
    if (node) *node = (struct rt_node){ n, index, areas, area_bytes, heap_bytes, reads, heap, false };
    return node;
}

void standin_hide(struct rt_node *node, bool hidden)
{
    node->hidden = hidden;
}

uint32_t rt_node_size(const struct rt_node *node)
{
    return node->n;
}

uint32_t rt_node_index(const struct rt_node *node)
{
    return node->index;
}

uint32_t rt_node_rank(const struct rt_node *node, uint32_t i)
{
    (void)node;
    return i;
}

uint32_t rt_node_find(const struct rt_node *node, uint32_t rank)
{
    return rank < node->n ? rank : RT_NONE;
}

int rt_node_reads(const struct rt_node *node, uint32_t i)
{
    (void)i;
    return node->reads;
}

void rt_node_ring(struct rt_node *node, uint32_t local_index)
{
    (void)node;
    (void)local_index;
}

void *rt_node_area(const struct rt_node *node, uint32_t local_index, size_t *bytes)
{
    *bytes = node->area_bytes;
    return node->areas + local_index * node->area_bytes;
}

bool rt_node_offset(const struct rt_node *node, const void *pointer, size_t bytes, uint64_t *offset)
{
    const unsigned char *at = pointer;
    if (!node->heap || node->hidden || at < node->heap || bytes > node->heap_bytes ||
        (size_t)(at - node->heap) > node->heap_bytes - bytes)
        return false;
    *offset = (uint64_t)(at - node->heap);
    return true;
}

void *rt_node_map(struct rt_node *node, uint64_t offset, size_t bytes)
{
    if (bytes > node->heap_bytes || offset > node->heap_bytes - bytes) return NULL;
    return (void *)(uintptr_t)(node->heap + offset);
}

bool rt_node_oversubscribed(const struct rt_node *node)
{
    return node->n % 2 != 0; /* both kinds are tried */
}

bool rt_node_give(const struct rt_node *node, uint32_t i, uint64_t address, const void *source, size_t bytes)
{
    (void)node;
    (void)i;
    memcpy((void *)(uintptr_t)address, source, bytes);
    return true;
}

bool rt_node_fetch(const struct rt_node *node, uint32_t i, void *target, uint64_t address, size_t bytes)
{
    (void)node;
    (void)i;
    memcpy(target, (const void *)(uintptr_t)address, bytes);
    return true;
}
