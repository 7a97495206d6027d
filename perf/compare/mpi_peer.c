/* Any MPI. Built once with each one's own mpi.h; those of MPICH's binary interface share one program. */
#include "protocol.h"

#include <mpi.h>
#include <stdlib.h>

static int mpi_open(void *context, uint32_t rank, uint32_t nranks)
{
    int mine, size;
    (void)context;
    if (MPI_Init(NULL, NULL)) return 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &mine);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return (uint32_t)mine != rank || (uint32_t)size != nranks;
}

static void mpi_close(void *context)
{
    (void)context;
    MPI_Finalize();
}

static int ping_pong(const struct call *call, int rank)
{
    const MPI_Comm world = MPI_COMM_WORLD;
    const int      n = (int)call->count;
    if (rank == 0) {
        MPI_Send(call->input, n, MPI_FLOAT, 1, 0, world);
        return MPI_Recv(call->output, n, MPI_FLOAT, 1, 0, world, MPI_STATUS_IGNORE);
    }
    if (rank != 1) return 0;
    MPI_Recv(call->output, n, MPI_FLOAT, 0, 0, world, MPI_STATUS_IGNORE);
    return MPI_Send(call->output, n, MPI_FLOAT, 0, 0, world);
}

static int mpi_run(void *context, const struct call *call)
{
    const MPI_Comm world = MPI_COMM_WORLD;
    const int      n = (int)call->count, root = (int)call->root, rank = *(const int *)context;
    const void    *input = call->in_place ? MPI_IN_PLACE : call->input;
    void          *output = call->output;
    switch (call->collective) {
    case ALL_REDUCE: return MPI_Allreduce(input, output, n, MPI_FLOAT, MPI_SUM, world);
    case REDUCE: return MPI_Reduce(input, output, n, MPI_FLOAT, MPI_SUM, root, world);
    case BROADCAST: return MPI_Bcast(output, n, MPI_FLOAT, root, world);
    case REDUCE_SCATTER: return MPI_Reduce_scatter_block(input, output, n, MPI_FLOAT, MPI_SUM, world);
    case ALL_GATHER: return MPI_Allgather(input, n, MPI_FLOAT, output, n, MPI_FLOAT, world);
    case ALL_TO_ALL: return MPI_Alltoall(input, n, MPI_FLOAT, output, n, MPI_FLOAT, world);
    case GATHER: return MPI_Gather(input, n, MPI_FLOAT, output, n, MPI_FLOAT, root, world);
    case SCATTER: return MPI_Scatter(input, n, MPI_FLOAT, output, n, MPI_FLOAT, root, world);
    case BARRIER: return MPI_Barrier(world);
    case SEND_RECV: return ping_pong(call, rank);
    default: return 1;
    }
}

int main(int argc, char **argv)
{
    struct options options;
    if (!protocol_options(&options, argc, argv)) return 2;
    int               rank = (int)options.rank;
    const struct peer peer = { &rank, true, mpi_open, mpi_run, NULL, mpi_close };
    const int         status = protocol_rank(&options, &peer, options.rank);
    if (status) exit(status); /* without MPI_Finalize: the launcher ends the others */
    return 0;
}
