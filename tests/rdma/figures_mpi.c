/* figures_mpi BYTES CALLS: all_reduce of floats by MPI; prints bytes, median and average of the calls in us. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    const long bytes = atol(argv[1]), calls = atol(argv[2]), count = bytes / 4, warmup = calls / 8 + 1;
    float *in = malloc((size_t)bytes), *out = malloc((size_t)bytes);
    double *took = malloc((size_t)calls * sizeof(*took)), sum = 0;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (long i = 0; i < count; i++) in[i] = (float)(rank + 1);
    for (long i = -warmup; i < calls; i++) {
        const double begun = MPI_Wtime();
        MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        const double us = (MPI_Wtime() - begun) * 1e6;
        if (i < 0) continue;
        took[i] = us;
        sum += us;
    }
    qsort(took, (size_t)calls, sizeof(*took), compare);
    if (rank == 0 && out[0] == 3 && out[count - 1] == 3)
        printf("%ld %.2f %.2f\n", bytes, took[calls / 2], sum / (double)calls);
    MPI_Finalize();
    return 0;
}
