/* ringtree: ranks as processes under ringtree-run (or found by RINGTREE_ROOT), or as threads of this process. */
#include "protocol.h"

#include <pthread.h>
#include <ringtree/ringtree.h>
#include <stdio.h>
#include <stdlib.h>

struct member {
    const struct options *options;
    const ringtree_id    *id; /* threads: where they meet */
    ringtree_comm        *comm;
    uint32_t              rank;
    int                   status;
};

static int say(const struct member *member, const char *call, ringtree_status status)
{
    fprintf(stderr, "rank %u: %s: %s: %s\n", member->rank, call, ringtree_status_name(status),
            ringtree_last_error(member->comm));
    return 1;
}

static int ringtree_open(void *context, uint32_t rank, uint32_t nranks)
{
    struct member        *member = context;
    const ringtree_status status = member->id ? ringtree_init_id(&member->comm, member->id, nranks, rank, NULL)
                                              : ringtree_init(&member->comm);
    if (status) return say(member, "start", status);
    return ringtree_rank(member->comm) != rank || ringtree_size(member->comm) != nranks;
}

static void ringtree_close(void *context)
{
    struct member *member = context;
    ringtree_destroy(member->comm);
}

static void *ringtree_shared(void *context, size_t bytes)
{
    struct member *member = context;
    void          *memory = NULL;
    const ringtree_status status = ringtree_mem_alloc(member->comm, bytes, &memory);
    if (status) say(member, "ringtree_mem_alloc", status);
    return memory;
}

static ringtree_status ping_pong(const struct member *member, const struct call *call)
{
    const ringtree_type type = RINGTREE_FLOAT32;
    if (member->rank == 0) {
        ringtree_status status = ringtree_send(member->comm, call->input, call->count, type, 1, NULL);
        return status ? status : ringtree_recv(member->comm, call->output, call->count, type, 1, NULL);
    }
    if (member->rank != 1) return RINGTREE_OK;
    ringtree_status status = ringtree_recv(member->comm, call->output, call->count, type, 0, NULL);
    return status ? status : ringtree_send(member->comm, call->output, call->count, type, 0, NULL);
}

static ringtree_status start(const struct member *member, const struct call *call)
{
    ringtree_comm      *comm = member->comm;
    const float        *input = call->input;
    float              *output = call->output;
    const size_t        n = call->count;
    const ringtree_type type = RINGTREE_FLOAT32;
    const ringtree_op   sum = RINGTREE_SUM;
    switch (call->collective) {
    case ALL_REDUCE: return ringtree_all_reduce(comm, input, output, n, type, sum, NULL);
    case REDUCE: return ringtree_reduce(comm, input, output, n, type, sum, call->root, NULL);
    case BROADCAST: return ringtree_broadcast(comm, input, output, n, type, call->root, NULL);
    case REDUCE_SCATTER: return ringtree_reduce_scatter(comm, input, output, n, type, sum, NULL);
    case ALL_GATHER: return ringtree_all_gather(comm, input, output, n, type, NULL);
    case ALL_TO_ALL: return ringtree_all_to_all(comm, input, output, n, type, NULL);
    case GATHER: return ringtree_gather(comm, input, output, n, type, call->root, NULL);
    case SCATTER: return ringtree_scatter(comm, input, output, n, type, call->root, NULL);
    case BARRIER: return ringtree_barrier(comm, NULL);
    default: return ping_pong(member, call);
    }
}

static int ringtree_run(void *context, const struct call *call)
{
    const struct member  *member = context;
    const ringtree_status status = start(member, call);
    return status ? say(member, "call", status) : 0;
}

static int take_part(struct member *member)
{
    const struct peer peer = { member, false, ringtree_open, ringtree_run, ringtree_shared, ringtree_close };
    return protocol_rank(member->options, &peer, member->rank);
}

static void *thread_main(void *argument)
{
    struct member *member = argument;
    member->status = take_part(member);
    if (member->status) exit(member->status);
    return NULL;
}

static int take_part_as_threads(const struct options *options)
{
    struct member *members = calloc(options->nranks, sizeof(*members));
    pthread_t     *threads = calloc(options->nranks, sizeof(*threads));
    ringtree_id    id;
    if (!members || !threads || ringtree_id_create(&id)) return fprintf(stderr, "no id or no memory\n"), 1;
    for (uint32_t r = 0; r < options->nranks; r++) {
        members[r] = (struct member){ .options = options, .id = &id, .rank = r };
        if (pthread_create(&threads[r], NULL, thread_main, &members[r])) return fprintf(stderr, "no thread\n"), 1;
    }
    for (uint32_t r = 0; r < options->nranks; r++)
        pthread_join(threads[r], NULL);
    free(threads);
    free(members);
    return 0;
}

int main(int argc, char **argv)
{
    struct options options;
    if (!protocol_options(&options, argc, argv)) return 2;
    if (options.threads) return take_part_as_threads(&options);
    struct member member = { .options = &options, .rank = options.rank };
    return take_part(&member);
}
