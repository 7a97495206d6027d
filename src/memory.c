/* ringtree_mem_alloc(): memory of the node's shared heap, or private pages where no memory is shared. */
#include "comm.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ringtree_status private_alloc(ringtree_comm *comm, size_t bytes, void **pointer)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct rt_private_memory *memory = malloc(sizeof *memory);
    const size_t size = bytes && bytes <= SIZE_MAX - page ? (bytes + page - 1) / page * page : page;
    void *block = memory && bytes <= SIZE_MAX - page ? aligned_alloc(page, size) : NULL;
    if (!block) {
        free(memory);
        return rt_fail(&comm->error, RINGTREE_NO_MEMORY, "ringtree_mem_alloc on rank %u: no memory for %zu bytes",
                       comm->rank, bytes);
    }
    memset(block, 0, size);
    *memory = (struct rt_private_memory){ comm->memory, block };
    comm->memory = memory;
    *pointer = block;
    return RINGTREE_OK;
}

ringtree_status ringtree_mem_alloc(ringtree_comm *comm, size_t bytes, void **pointer)
{
    if (pointer) *pointer = NULL;
    ringtree_status status = rt_comm_check(comm, "ringtree_mem_alloc");
    if (status != RINGTREE_OK) return status;
    if (!pointer) return rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT, "ringtree_mem_alloc: pointer is NULL");
    if (!comm->node) return private_alloc(comm, bytes, pointer);
    rt_engine_lock(comm->engine); /* a progress thread looks up buffers in the same heap */
    status = rt_node_alloc(comm->node, bytes, pointer, &comm->error);
    rt_engine_unlock(comm->engine);
    return status;
}

ringtree_status ringtree_mem_free(ringtree_comm *comm, void *pointer)
{
    if (!comm || comm->live != rt_comm_live) return rt_comm_check(comm, "ringtree_mem_free");
    if (!pointer) return RINGTREE_OK;
    if (comm->node) {
        rt_engine_lock(comm->engine);
        ringtree_status status = rt_node_free(comm->node, pointer, &comm->error);
        rt_engine_unlock(comm->engine);
        return status;
    }
    for (struct rt_private_memory **at = &comm->memory; *at; at = &(*at)->next)
        if ((*at)->pointer == pointer) {
            struct rt_private_memory *memory = *at;
            *at = memory->next;
            free(memory->pointer);
            free(memory);
            return RINGTREE_OK;
        }
    return rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT,
                   "ringtree_mem_free on rank %u: %p is not live memory from ringtree_mem_alloc of this communicator",
                   comm->rank, pointer);
}
