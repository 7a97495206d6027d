/* A bit of everything on two ranks of one process, then an orderly end: what valgrind then finds is a leak. */
#include <pthread.h>
#include <ringtree/ringtree.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 10000

static ringtree_id id;

static void *use(void *argument)
{
    const uint32_t    rank = argument != NULL;
    ringtree_comm    *comm = NULL, *part = NULL;
    ringtree_request *request = NULL;
    ringtree_op       op;
    float             two = 2, *x = calloc(2 * COUNT, sizeof(float)), *y = calloc(2 * COUNT, sizeof(float));
    void             *memory = NULL;
    int               failed = 0;
    if (ringtree_init_id(&comm, &id, 2, rank, NULL)) {
        fprintf(stderr, "%s\n", ringtree_last_error(NULL));
        exit(1);
    }
    failed |= ringtree_all_reduce(comm, x, y, COUNT, RINGTREE_FLOAT32, RINGTREE_SUM, NULL);
    failed |= ringtree_all_reduce(comm, x, y, 3, RINGTREE_FLOAT32, RINGTREE_MAX, &request);
    failed |= ringtree_wait(&request);
    failed |= ringtree_broadcast(comm, x, y, COUNT, RINGTREE_FLOAT32, 1, NULL);
    failed |= ringtree_all_gather(comm, x, y, COUNT, RINGTREE_FLOAT32, NULL);
    failed |= ringtree_reduce_scatter(comm, x, y, COUNT, RINGTREE_FLOAT32, RINGTREE_AVG, NULL);
    failed |= ringtree_all_to_all(comm, x, y, COUNT, RINGTREE_FLOAT32, NULL);
    failed |= ringtree_gather(comm, x, y, COUNT, RINGTREE_FLOAT32, 0, NULL);
    failed |= ringtree_scatter(comm, x, y, COUNT, RINGTREE_FLOAT32, 0, NULL);
    failed |= ringtree_mem_alloc(comm, 100000, &memory);
    failed |= ringtree_op_premul_sum(comm, &two, RINGTREE_FLOAT32, &op);
    failed |= ringtree_all_reduce(comm, memory, memory, COUNT, RINGTREE_FLOAT32, op, NULL);
    failed |= ringtree_group_begin(comm);
    failed |= ringtree_send(comm, x, COUNT, RINGTREE_FLOAT32, 1 - rank, NULL);
    failed |= ringtree_recv(comm, y, COUNT, RINGTREE_FLOAT32, 1 - rank, NULL);
    failed |= ringtree_group_end(comm, NULL);
    failed |= ringtree_split(comm, rank, 0, &part);
    failed |= ringtree_barrier(part, NULL);
    failed |= ringtree_destroy(part);
    failed |= ringtree_destroy(comm);
    free(x);
    free(y);
    return failed ? &id : NULL;
}

int main(void)
{
    pthread_t thread;
    void     *failed = NULL;
    if (ringtree_id_create(&id)) return fprintf(stderr, "%s\n", ringtree_last_error(NULL)), 1;
    if (pthread_create(&thread, NULL, use, &id)) return 1;
    const int mine = use(NULL) != NULL;
    pthread_join(thread, &failed);
    return mine || failed;
}
