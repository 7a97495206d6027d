/* Operations made by the caller: premul_sum. */
#include "comm.h"
#include <string.h>

ringtree_status ringtree_op_premul_sum(ringtree_comm *comm, const void *scalar, ringtree_type type, ringtree_op *op)
{
    ringtree_status status = rt_comm_check(comm, "ringtree_op_premul_sum");
    if (status != RINGTREE_OK) return status;
    const size_t element = ringtree_type_size(type);
    if (!scalar || !op || !element)
        return rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT,
                       "ringtree_op_premul_sum on rank %u: needs a scalar, a type and an op to fill", comm->rank);
    for (uint32_t i = 0; i < RT_MOST_OPS; i++) {
        struct rt_premul *premul = &comm->premul[i];
        if (premul->used) continue;
        *premul = (struct rt_premul){ .used = true, .type = type };
        memcpy(premul->scalar, scalar, element);
        *op = RT_PREMUL_OP + i;
        return RINGTREE_OK;
    }
    return rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT,
                   "ringtree_op_premul_sum on rank %u: %u operations are live; free some with ringtree_op_free",
                   comm->rank, RT_MOST_OPS);
}

ringtree_status ringtree_op_free(ringtree_comm *comm, ringtree_op op)
{
    ringtree_status status = rt_comm_check(comm, "ringtree_op_free");
    if (status != RINGTREE_OK) return status;
    if (op < RT_PREMUL_OP || op - RT_PREMUL_OP >= RT_MOST_OPS || !comm->premul[op - RT_PREMUL_OP].used)
        return rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT, "ringtree_op_free on rank %u: %u is no live operation",
                       comm->rank, op);
    comm->premul[op - RT_PREMUL_OP].used = false;
    return RINGTREE_OK;
}
