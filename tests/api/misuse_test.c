/* Bad use of one communicator: each has its status and a sentence that says what is wrong, and leaves it usable. */
#include "ranks.h"
#include "test.h"

#include <sys/wait.h>
#include <unistd.h>

#define IS(status, wanted) CHECK_THAT((status) == (wanted), "%s", ringtree_last_error(comm))

/* The communicator still works after the refused calls. */
static void still_works(struct rank *self)
{
    int32_t one = 1, sum = 0;
    CHECK_EQ(ringtree_all_reduce(self->comm, &one, &sum, 1, RINGTREE_INT32, RINGTREE_SUM, NULL), RINGTREE_OK);
    CHECK_EQ(sum, self->size);
}

static void refuse_null(struct rank *self)
{
    ringtree_comm *comm = self->comm;
    float          x[4] = { 0 };
    IS(ringtree_all_reduce(comm, NULL, x, 4, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(ringtree_last_error(comm), "input");
    CHECK_HAS(ringtree_last_error(comm), "all_reduce");
    IS(ringtree_all_reduce(comm, x, NULL, 4, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(ringtree_last_error(comm), "output");
    IS(ringtree_all_to_all_v(comm, x, NULL, NULL, x, NULL, NULL, RINGTREE_FLOAT32, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_mem_alloc(comm, 4, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_split(comm, 0, 0, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_op_premul_sum(comm, NULL, RINGTREE_FLOAT32, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_plan_explain(comm, RINGTREE_ALL_REDUCE, 1, RINGTREE_FLOAT32, RINGTREE_SUM, NULL, 0),
       RINGTREE_INVALID_ARGUMENT);
    still_works(self);
}

TEST(null_pointers_are_refused_by_name)
{
    RANKS(refuse_null, .ranks = 2);
}

TEST(a_null_communicator_is_refused_everywhere)
{
    float            x[4] = { 0 };
    ringtree_comm   *comm = NULL;
    ringtree_op      op = 0;
    void            *memory = NULL;
    ringtree_request *request = NULL;
    IS(ringtree_all_reduce(NULL, x, x, 4, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_all_reduce(NULL, x, x, 4, RINGTREE_FLOAT32, RINGTREE_SUM, &request), RINGTREE_INVALID_ARGUMENT);
    CHECK(request == NULL);
    IS(ringtree_reduce(NULL, x, x, 4, RINGTREE_FLOAT32, RINGTREE_SUM, 0, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_broadcast(NULL, x, x, 4, RINGTREE_FLOAT32, 0, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_reduce_scatter(NULL, x, x, 4, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_all_gather(NULL, x, x, 4, RINGTREE_FLOAT32, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_all_to_all(NULL, x, x, 4, RINGTREE_FLOAT32, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_gather(NULL, x, x, 4, RINGTREE_FLOAT32, 0, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_scatter(NULL, x, x, 4, RINGTREE_FLOAT32, 0, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_barrier(NULL, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_send(NULL, x, 4, RINGTREE_FLOAT32, 0, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_recv(NULL, x, 4, RINGTREE_FLOAT32, 0, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_group_begin(NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_group_end(NULL, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_mem_alloc(NULL, 1, &memory), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_mem_free(NULL, x), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_split(NULL, 0, 0, &comm), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_abort(NULL, "no"), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_op_premul_sum(NULL, x, RINGTREE_FLOAT32, &op), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_init(NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_id_create(NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_init_id(NULL, NULL, 1, 0, NULL), RINGTREE_INVALID_ARGUMENT);
    CHECK(strlen(ringtree_last_error(NULL)) > 0);
    CHECK_EQ(ringtree_destroy(NULL), RINGTREE_OK);
    CHECK_EQ(ringtree_rank(NULL), UINT32_MAX);
    CHECK_EQ(ringtree_size(NULL), 0);
}

TEST(names_of_values_that_do_not_exist_are_safe)
{
    CHECK(ringtree_status_name((ringtree_status)99) != NULL);
    CHECK_EQ(ringtree_type_size((ringtree_type)99), 0);
    CHECK(strcmp(ringtree_type_name((ringtree_type)99), "?") == 0);
    CHECK(strcmp(ringtree_collective_name((ringtree_collective)99), "?") == 0);
    CHECK(strcmp(ringtree_status_name(RINGTREE_TIMEOUT), "RINGTREE_TIMEOUT") == 0);
    CHECK(strcmp(ringtree_version(), "0.1.0") == 0);
}

static void refuse_overlap(struct rank *self)
{
    ringtree_comm *comm = self->comm;
    float          x[64] = { 0 };
    IS(ringtree_all_reduce(comm, x, x + 1, 8, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(ringtree_last_error(comm), "overlap");
    IS(ringtree_all_reduce(comm, x + 7, x, 8, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_all_gather(comm, x + 1, x, 4, RINGTREE_FLOAT32, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_reduce_scatter(comm, x, x + 1, 4, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_all_to_all(comm, x, x + 1, 4, RINGTREE_FLOAT32, NULL), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(ringtree_last_error(comm), "overlap");
    IS(ringtree_all_reduce(comm, x, x + 8, 8, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_OK);
}

TEST(overlapping_buffers_are_refused_and_touching_ones_are_not)
{
    RANKS(refuse_overlap, .ranks = 2);
}

static void refuse_values(struct rank *self)
{
    ringtree_comm *comm = self->comm;
    float          x[8] = { 0 }, y[8] = { 0 };
    IS(ringtree_broadcast(comm, x, y, 2, RINGTREE_FLOAT32, 3, NULL), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(ringtree_last_error(comm), "root");
    CHECK_HAS(ringtree_last_error(comm), "3");
    IS(ringtree_reduce(comm, x, y, 2, RINGTREE_FLOAT32, RINGTREE_SUM, UINT32_MAX, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_gather(comm, x, y, 2, RINGTREE_FLOAT32, 7, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_scatter(comm, x, y, 2, RINGTREE_FLOAT32, 7, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_send(comm, x, 2, RINGTREE_FLOAT32, 3, NULL), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(ringtree_last_error(comm), "peer");
    IS(ringtree_all_reduce(comm, x, y, 2, (ringtree_type)12, RINGTREE_SUM, NULL), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(ringtree_last_error(comm), "type");
    CHECK_HAS(ringtree_last_error(comm), "12");
    IS(ringtree_all_reduce(comm, x, y, 2, RINGTREE_FLOAT32, (ringtree_op)77, NULL), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(ringtree_last_error(comm), "op");
    IS(ringtree_all_reduce(comm, x, y, SIZE_MAX / 2, RINGTREE_FLOAT64, RINGTREE_SUM, NULL), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(ringtree_last_error(comm), "count");
    IS(ringtree_all_gather(comm, x, y, SIZE_MAX / 4, RINGTREE_FLOAT32, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_plan_explain(comm, (ringtree_collective)99, 1, RINGTREE_FLOAT32, RINGTREE_SUM, (char *)x, sizeof(x)),
       RINGTREE_INVALID_ARGUMENT);
    still_works(self);
}

TEST(a_bad_root_peer_type_op_or_count_is_refused_by_name)
{
    RANKS(refuse_values, .ranks = 3);
}

static void refuse_ops(struct rank *self)
{
    ringtree_comm *comm = self->comm;
    float          two = 2, x = 1, y = 0;
    double         d = 1;
    ringtree_op    op = 0, more[64];
    IS(ringtree_op_free(comm, RINGTREE_SUM), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_op_premul_sum(comm, &two, (ringtree_type)50, &op), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_op_premul_sum(comm, &two, RINGTREE_FLOAT32, &op), RINGTREE_OK);
    IS(ringtree_all_reduce(comm, &d, &d, 1, RINGTREE_FLOAT64, op, NULL), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(ringtree_last_error(comm), "float32");
    IS(ringtree_all_reduce(comm, &x, &y, 1, RINGTREE_FLOAT32, op, NULL), RINGTREE_OK);
    CHECK_EQ(y, 4);
    IS(ringtree_op_free(comm, op), RINGTREE_OK);
    IS(ringtree_op_free(comm, op), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_all_reduce(comm, &x, &y, 1, RINGTREE_FLOAT32, op, NULL), RINGTREE_INVALID_ARGUMENT);
    for (int i = 0; i < 64; i++) IS(ringtree_op_premul_sum(comm, &two, RINGTREE_FLOAT32, &more[i]), RINGTREE_OK);
    CHECK(ringtree_op_premul_sum(comm, &two, RINGTREE_FLOAT32, &op) != RINGTREE_OK);
    CHECK_HAS(ringtree_last_error(comm), "64");
    still_works(self);
}

TEST(ops_of_another_type_freed_twice_or_too_many_are_refused)
{
    RANKS(refuse_ops, .ranks = 2);
}

static void misuse_requests(struct rank *self)
{
    ringtree_comm    *comm = self->comm;
    ringtree_request *request = NULL, *three[3] = { NULL, NULL, NULL };
    float             x = 1, y = 0;
    CHECK_EQ(ringtree_wait(&request), RINGTREE_OK);
    CHECK_EQ(ringtree_test(&request), RINGTREE_OK);
    CHECK_EQ(ringtree_wait_all(three, 3), RINGTREE_OK);
    CHECK_EQ(ringtree_wait_all(NULL, 0), RINGTREE_OK);
    CHECK_EQ(ringtree_wait(NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_all_reduce(comm, &x, &y, 1, RINGTREE_FLOAT32, RINGTREE_SUM, &request), RINGTREE_OK);
    IS(ringtree_wait(&request), RINGTREE_OK);
    CHECK(request == NULL);
    CHECK_EQ(ringtree_wait(&request), RINGTREE_OK);
    CHECK_EQ(y, 2);
}

TEST(waiting_for_nothing_or_twice_does_no_harm)
{
    RANKS(misuse_requests, .ranks = 2);
}

static void misuse_groups(struct rank *self)
{
    ringtree_comm    *comm = self->comm;
    ringtree_request *request = NULL;
    float             x = 1, y = 0;
    IS(ringtree_group_end(comm, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_group_begin(comm), RINGTREE_OK);
    IS(ringtree_group_begin(comm), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_all_reduce(comm, &x, &y, 1, RINGTREE_FLOAT32, RINGTREE_SUM, &request), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_all_reduce(comm, NULL, &y, 1, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_all_reduce(comm, &x, &y, 1, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_OK);
    IS(ringtree_group_end(comm, NULL), RINGTREE_OK);
    CHECK_EQ(y, 2);
    IS(ringtree_group_begin(comm), RINGTREE_OK);
    IS(ringtree_group_end(comm, NULL), RINGTREE_OK);
    still_works(self);
}

TEST(groups_without_begin_nested_or_with_bad_calls_inside_are_refused_in_part)
{
    RANKS(misuse_groups, .ranks = 2);
}

static void misuse_memory(struct rank *self)
{
    ringtree_comm *comm = self->comm;
    float          x;
    void          *memory = NULL, *none = NULL;
    IS(ringtree_mem_free(comm, &x), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_mem_alloc(comm, 0, &none), RINGTREE_OK);
    IS(ringtree_mem_alloc(comm, 100000, &memory), RINGTREE_OK);
    CHECK_EQ((uintptr_t)memory % 4096, 0);
    for (size_t i = 0; i < 100000; i++)
        if (((char *)memory)[i]) { CHECK_THAT(false, "byte %zu of new memory is not 0", i); break; }
    IS(ringtree_mem_free(comm, (char *)memory + 8), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_mem_free(comm, memory), RINGTREE_OK);
    IS(ringtree_mem_free(comm, memory), RINGTREE_INVALID_ARGUMENT);
    IS(ringtree_mem_free(comm, none), RINGTREE_OK);
    CHECK(ringtree_mem_alloc(comm, SIZE_MAX / 2, &memory) != RINGTREE_OK);
    still_works(self);
}

TEST(memory_that_is_not_ringtrees_or_is_freed_twice_is_refused)
{
    RANKS(misuse_memory, .ranks = 2, .processes = 2);
}

/* ---- settings */

static void bad_setting(struct rank *self)
{
    ringtree_comm *comm = NULL;
    const char    *wanted = self->argument;
    CHECK_EQ(ringtree_init(&comm), RINGTREE_INVALID_SETTING);
    CHECK(comm == NULL);
    CHECK_HAS(ringtree_last_error(NULL), wanted);
    ringtree_destroy(comm);
}

static void check_setting(const char *setting, const char *wanted)
{
    const char *const settings[] = { setting, NULL };
    RANKS(bad_setting, .ranks = 1, .bare = true, .settings = settings, .argument = (void *)(uintptr_t)wanted);
}

TEST(an_unknown_or_bad_setting_is_refused_with_what_was_meant)
{
    check_setting("RINGTREE_TIMEOUT=5", "RINGTREE_TIMEOUT_MS");
    check_setting("RINGTREE_TIMEOUT_MS=soon", "soon");
    check_setting("RINGTREE_TRANSPORTS=pigeon", "tcp");
    check_setting("RINGTREE_INTERFACE==nosuch0", "lo");
}

static void refuse_algorithm(struct rank *self)
{
    ringtree_comm *comm = self->comm;
    float          x = 1;
    IS(ringtree_all_reduce(comm, &x, &x, 1, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_INVALID_SETTING);
    CHECK_HAS(ringtree_last_error(comm), "all_reduce");
    CHECK_HAS(ringtree_last_error(comm), "ring");
    CHECK_HAS(ringtree_last_error(comm), "tree");
    CHECK_EQ(ringtree_barrier(comm, NULL), RINGTREE_OK);
}

TEST(an_algorithm_that_cannot_serve_a_collective_is_an_error_that_lists_those_that_can)
{
    RANKS(refuse_algorithm, .ranks = 3, .algorithm = "all_reduce=pairwise");
}

static void explain(struct rank *self)
{
    ringtree_comm *comm = self->comm;
    char           text[4096] = "", small[8];
    IS(ringtree_plan_explain(comm, RINGTREE_ALL_REDUCE, 1 << 20, RINGTREE_FLOAT32, RINGTREE_SUM, text, sizeof(text)),
       RINGTREE_OK);
    CHECK_HAS(text, "ring");
    CHECK_HAS(text, "all_reduce");
    memset(small, 'x', sizeof(small));
    ringtree_plan_explain(comm, RINGTREE_ALL_REDUCE, 1 << 20, RINGTREE_FLOAT32, RINGTREE_SUM, small, sizeof(small));
    CHECK(memchr(small, 0, sizeof(small)) != NULL);
    IS(ringtree_plan_explain(comm, (ringtree_collective)99, 1, RINGTREE_FLOAT32, RINGTREE_SUM, text, sizeof(text)),
       RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(ringtree_last_error(comm), "no such collective");
    IS(ringtree_plan_explain(comm, RINGTREE_ALL_REDUCE, SIZE_MAX, RINGTREE_FLOAT32, RINGTREE_SUM, text, sizeof(text)),
       RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(ringtree_last_error(comm), "more than memory can hold");
}

/* ---- forks */

static void check_in_child(struct rank *self, ringtree_request *request)
{
    ringtree_comm *own = NULL;
    ringtree_id    id;
    float          x[4] = { 0 }, y[4];
    const int      before = atomic_load(&test_failures);
    CHECK_EQ(ringtree_all_reduce(self->comm, x, y, 4, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_INVALID_ARGUMENT);
    CHECK_HAS(ringtree_last_error(NULL), "of the process that forked this one");
    CHECK_EQ(ringtree_wait(&request), RINGTREE_INVALID_ARGUMENT);
    CHECK_EQ(ringtree_abort(self->comm, NULL), RINGTREE_INVALID_ARGUMENT);
    CHECK_EQ(ringtree_destroy(self->comm), RINGTREE_INVALID_ARGUMENT);
    CHECK_EQ(ringtree_id_create(&id), RINGTREE_OK);
    CHECK_EQ(ringtree_init_id(&own, &id, 1, 0, NULL), RINGTREE_OK);
    CHECK_EQ(ringtree_all_reduce(own, x, y, 4, RINGTREE_FLOAT32, RINGTREE_SUM, NULL), RINGTREE_OK);
    CHECK_EQ(ringtree_destroy(own), RINGTREE_OK);
    _exit(atomic_load(&test_failures) > before);
}

static void fork_between(struct rank *self)
{
    int32_t           one = 1, sum = 0;
    ringtree_request *request = NULL;
    still_works(self);
    CHECK_EQ(ringtree_all_reduce(self->comm, &one, &sum, 1, RINGTREE_INT32, RINGTREE_SUM, &request), RINGTREE_OK);
    if (self->rank == 0) {
        int         status = -1;
        const pid_t child = fork();
        if (child == 0) check_in_child(self, request);
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
    CHECK_EQ(ringtree_wait(&request), RINGTREE_OK);
    CHECK_EQ(sum, self->size);
    still_works(self);
}

TEST(a_forked_child_is_refused_its_parents_communicator_and_may_make_its_own)
{
#ifdef __SANITIZE_THREAD__
    SKIP("ThreadSanitizer starts no threads in a forked child");
#endif
    RANKS(fork_between, .ranks = 3, .processes = 3);
    RANKS(fork_between, .ranks = 3, .processes = 3, .transports = "tcp");
}

TEST(a_plan_explains_itself_in_whatever_room_it_gets)
{
    RANKS(explain, .ranks = 4, .processes = 2);
}

TEST_MAIN
