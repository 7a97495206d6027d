/*
 * A small host in NCCL's place: loads the plugin, connects two processes by a handle that goes through shared memory,
 * moves data and compares it, with each version of the table; then what goes wrong. RINGTREE_TRANSPORTS says over what
 * all this goes, so the program is run once for each transport.
 */
#include "entries.h"
#include "host.h"
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* LeakSanitizer's tracer crashes in processes that had UCX (gcc 12); what comes back is counted by a test as well. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    const char *list = getenv("RINGTREE_TRANSPORTS");
    return list && strstr(list, "ucx") != NULL;
}

#define PATIENCE_S 20

/* ---- two processes */

struct board { /* shared */
    _Atomic int ready;
    uint8_t     handle[NCCL_HANDLE_BYTES];
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *receiver_connect(const struct host *h, struct board *board)
{
    void *listener = NULL, *comm = NULL;
    CHECK_EQ(host_listen(h, board->handle, &listener), NCCL_SUCCESS);
    atomic_store(&board->ready, 1);
    for (const double end = now() + PATIENCE_S; !comm && now() < end;)
        if (host_accept(h, listener, &comm) != NCCL_SUCCESS) break;
    CHECK_THAT(comm, "nobody was accepted: %s", heard);
    host_close(h, h->t->close_listen, listener);
    return comm;
}

static void *sender_connect(const struct host *h, struct board *board)
{
    void *comm = NULL;
    uint8_t handle[NCCL_HANDLE_BYTES]; /* NCCL, too, calls with a copy of its own */
    while (!atomic_load(&board->ready)) usleep(100);
    memcpy(handle, board->handle, sizeof(handle));
    for (const double end = now() + PATIENCE_S; !comm && now() < end;)
        if (host_connect(h, handle, &comm) != NCCL_SUCCESS) break;
    CHECK_THAT(comm, "not connected: %s", heard);
    return comm;
}

/* Until it is done, or fails. */
static enum nccl_result finish(const struct host *h, void *request, int *bytes)
{
    int done = 0;
    enum nccl_result result = NCCL_SUCCESS;
    for (const double end = now() + PATIENCE_S; !done && result == NCCL_SUCCESS && now() < end;)
        result = host_test(h, request, &done, bytes);
    return result == NCCL_SUCCESS && !done ? NCCL_SYSTEM_ERROR : result;
}

static const size_t lengths[] = { 4, 0, 1, 4096, 1 << 20, (3 << 20) + 7, 262144, 262145, 65536 };
#define LENGTHS (sizeof(lengths) / sizeof(*lengths))
#define MOST    ((size_t)4 << 20)

static void fill(unsigned char *memory, size_t bytes, size_t message)
{
    for (size_t i = 0; i < bytes; i++) memory[i] = (unsigned char)(i * 131 + (i >> 9) + message * 57);
}

/* All messages are under way at once, each into more room than it needs. */
static void exchange(const struct host *h, void *comm, bool sends)
{
    unsigned char *memory[LENGTHS], *expected = malloc(MOST);
    void *request[LENGTHS] = { NULL };
    for (size_t i = 0; i < LENGTHS; i++) {
        memory[i] = calloc(1, MOST);
        if (sends) fill(memory[i], lengths[i], i);
        const enum nccl_result result = sends ? host_isend(h, comm, memory[i], lengths[i], &request[i])
                                              : host_irecv(h, comm, 1, memory[i], MOST, &request[i]);
        CHECK_THAT(result == NCCL_SUCCESS && request[i], "message %zu: %d, %s", i, result, heard);
    }
    for (size_t i = 0; i < LENGTHS && request[i]; i++) {
        int bytes = -1;
        const enum nccl_result result = finish(h, request[i], &bytes);
        CHECK_THAT(result == NCCL_SUCCESS, "message %zu: %d, %s", i, result, heard);
        CHECK_EQ(bytes, lengths[i]);
        fill(expected, lengths[i], i);
        CHECK_THAT(sends || memcmp(memory[i], expected, lengths[i]) == 0, "message %zu is broken", i);
        CHECK_THAT(sends || lengths[i] == MOST || memory[i][lengths[i]] == 0, "message %zu: too much was written", i);
    }
    for (size_t i = 0; i < LENGTHS; i++) free(memory[i]);
    free(expected);
}

/* A thousand small ones, as many at once as the contract allows. */
static void many(const struct host *h, void *comm, bool sends)
{
    static uint32_t memory[NCCL_MOST_REQUESTS];
    void *request[NCCL_MOST_REQUESTS];
    for (uint32_t round = 0; round < 32; round++) {
        for (uint32_t i = 0; i < NCCL_MOST_REQUESTS; i++) {
            memory[i] = sends ? round * 1000 + i : 0;
            if (sends) host_isend(h, comm, &memory[i], 4, &request[i]);
            else host_irecv(h, comm, 1, &memory[i], 4, &request[i]);
            CHECK(request[i]);
        }
        void *more = &more;
        if (sends) CHECK_EQ(host_isend(h, comm, memory, 4, &more), NCCL_SUCCESS);
        CHECK_THAT(!sends || !more, "a request more than is allowed was taken");
        for (uint32_t i = 0; i < NCCL_MOST_REQUESTS; i++) {
            CHECK_EQ(finish(h, request[i], NULL), NCCL_SUCCESS);
            CHECK_EQ(memory[i], round * 1000 + i);
        }
    }
}

static void both_ways(const struct host *h, void *comm, bool sends)
{
    exchange(h, comm, sends);
    many(h, comm, sends);
}

/* fork(), whose child counts only its own failures. */
static pid_t divide(void)
{
    fflush(NULL);
    const pid_t child = fork();
    if (!child) atomic_store(&test_failures, 0);
    return child;
}

static void wait_for(pid_t child, bool killed)
{
    int status = 0;
    waitpid(child, &status, 0);
    CHECK_THAT(killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0), "the other process ended with %d", status);
}

static int device_count(const struct host *h)
{
    int count = 0;
    CHECK_EQ(CALL((int *), h->t->devices)(&count), NCCL_SUCCESS);
    return count;
}

static const char *transports(void)
{
    const char *list = getenv("RINGTREE_TRANSPORTS");
    return list ? list : "tcp";
}

/* The child receives, this process sends. */
static void run(int version, void (*part)(const struct host *, void *, bool), bool dies)
{
    struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct host h;
    const pid_t child = divide();
    CHECK_EQ(host_init(&h, version), NCCL_SUCCESS);
    void *comm = child ? sender_connect(&h, board) : receiver_connect(&h, board);
    if (comm) part(&h, comm, child != 0);
    if (comm) host_close(&h, child ? h.t->close_send : h.t->close_recv, comm);
    if (!child) _exit(atomic_load(&test_failures) ? 1 : 0);
    wait_for(child, dies);
    munmap(board, sizeof(*board));
}

TEST(all_versions_have_their_symbols)
{
    for (int version = 8; version <= 12; version++) {
        const struct nccl_net_table *t = table(version);
        CHECK_THAT(t && !strcmp(t->name, "ringtree"), "version %d: %s", version, t ? t->name : dlerror());
        CHECK(t && t->init && t->devices && t->get_properties && t->listen && t->connect && t->accept && t->reg_mr);
        CHECK(t && t->dereg_mr && t->isend && t->irecv && t->iflush && t->test && t->close_send && t->close_recv);
        CHECK(t && t->close_listen && (version < 11 || (t->finalize && t->set_net_attr)));
    }
    CHECK(!table(13));
}

/* As the versions lie in NCCL's memory, on a machine with 64-bit pointers. */
TEST(properties_lie_where_each_version_expects_them)
{
    union { uint64_t words[40]; unsigned char bytes[320]; } p;
    struct host h;
    for (int version = 8; version <= 12; version++) {
        memset(&p, 0xee, sizeof(p));
        CHECK_EQ(host_init(&h, version), NCCL_SUCCESS);
        CHECK_EQ(CALL((int, void *), h.t->get_properties)(0, &p), NCCL_SUCCESS);
        int ptr_support, max_recvs, devices;
        size_t most;
        memcpy(&ptr_support, p.bytes + 24, 4);
        memcpy(&max_recvs, p.bytes + (version == 8 ? 48 : 52), 4);
        CHECK_EQ(ptr_support, 1);
        CHECK_EQ(max_recvs, 1);
        const size_t ends[] = { 64, 104, 104, 112, 128 };
        CHECK_THAT(p.bytes[ends[version - 8]] == 0xee, "version %d writes beyond its end", version);
        memcpy(&devices, p.bytes + 64, 4);
        memcpy(&most, p.bytes + (version == 12 ? 104 : 88), 8);
        CHECK(version == 8 || (devices == 1 && most == (size_t)1 << 40));
    }
}

TEST(two_processes_exchange_messages_with_version_8) { run(8, both_ways, false); }
TEST(two_processes_exchange_messages_with_version_9) { run(9, both_ways, false); }
TEST(two_processes_exchange_messages_with_version_10) { run(10, both_ways, false); }
TEST(two_processes_exchange_messages_with_version_11) { run(11, both_ways, false); }
TEST(two_processes_exchange_messages_with_version_12) { run(12, both_ways, false); }

#define PORT 42 /* in a handle: that of verbs, 22 bytes, if it has one; then come addresses */

/* The receiver says that its port is one of InfiniBand, so that the sender's Ethernet does not meet it. */
TEST(a_port_that_does_not_meet_is_reached_by_the_next_transport)
{
    struct host h;
    uint8_t handle[NCCL_HANDLE_BYTES];
    void *listener = NULL, *in = NULL, *out = NULL;
    if (strcmp(transports(), "verbs,tcp")) SKIP("RINGTREE_TRANSPORTS=verbs,tcp is needed");
    CHECK_EQ(host_init(&h, 11), NCCL_SUCCESS);
    CHECK_EQ(host_listen(&h, handle, &listener), NCCL_SUCCESS);
    handle[PORT + 16] = 1;
    for (const double end = now() + PATIENCE_S; (!out || !in) && now() < end;) {
        if (!out && host_connect(&h, handle, &out) != NCCL_SUCCESS) break;
        if (!in && host_accept(&h, listener, &in) != NCCL_SUCCESS) break;
    }
    CHECK_THAT(out && in, "%s", heard);
    CHECK_HAS(way, "goes by tcp");
    host_close(&h, h.t->close_send, out);
    host_close(&h, h.t->close_recv, in);
    host_close(&h, h.t->close_listen, listener);
}

TEST(each_device_says_what_it_is)
{
    struct host h;
    struct nccl_properties_12 p;
    char first[16];
    CHECK_EQ(host_init(&h, 12), NCCL_SUCCESS);
    snprintf(first, sizeof(first), "%.*s", (int)strcspn(transports(), ","), transports());
    const int count = device_count(&h);
    CHECK(count >= 1);
    for (int i = 0; i < count; i++) {
        CHECK_EQ(CALL((int, void *), h.t->get_properties)(i, &p), NCCL_SUCCESS);
        CHECK_HAS(p.name, first);
        CHECK(p.speed_mbps > 0 && p.latency_us > 0 && p.port >= 1 && p.max_comms > 0);
        CHECK(!p.pci_path || !strncmp(p.pci_path, "/sys/devices/pci", 16));
        CHECK_EQ(p.reg_is_global, 0);
        CHECK_EQ(p.device[0], i);
    }
    CHECK_EQ(CALL((int, void *), h.t->get_properties)(count, &p), NCCL_INVALID_ARGUMENT);
    CHECK_EQ(CALL((int, void *), h.t->get_properties)(-1, &p), NCCL_INVALID_ARGUMENT);
    CHECK_HAS(heard, "there is no device -1");
}

/* A test of this program in a process of its own, which reads the setting; this one has read its own. */
static void run_with(const char *name, const char *value, const char *test)
{
    const pid_t child = divide();
    if (!child) {
        setenv(name, value, 1);
        execl("/proc/self/exe", "plugin_test", test, (char *)NULL);
        _exit(1);
    }
    wait_for(child, false);
}

TEST(a_list_that_leaves_nothing_between_machines_is_refused)
{
    struct host h;
    if (strcmp(transports(), "shm"))
        return run_with("RINGTREE_TRANSPORTS", "shm", "a_list_that_leaves_nothing_between_machines_is_refused");
    CHECK_EQ(host_init(&h, 11), NCCL_REMOTE_ERROR);
    CHECK_HAS(heard, "RINGTREE_TRANSPORTS=shm leaves nothing");
}

TEST(a_receiver_by_another_transport_is_refused)
{
    struct host h;
    uint8_t handle[NCCL_HANDLE_BYTES];
    void *listener = NULL, *comm = &comm;
    CHECK_EQ(host_init(&h, 11), NCCL_SUCCESS);
    CHECK_EQ(host_listen(&h, handle, &listener), NCCL_SUCCESS);
    const bool verbs = strstr(transports(), "verbs");
    handle[7] = strstr(transports(), "ucx") ? 1 : verbs ? 6 : 2;
    if (verbs) handle[PORT + 16] = 1; /* and its port does not meet, as above */
    CHECK_EQ(host_connect(&h, handle, &comm), NCCL_REMOTE_ERROR);
    CHECK(!comm);
    CHECK_HAS(heard, "by none of which this end may go there");
    host_close(&h, h.t->close_listen, listener);
}

/* Descriptors and memory after the second connection, of many. UCX 1.13 keeps 1.4 KiB of each worker that ended. */
#define CONNECTIONS 12
#define KEPT_BYTES  4096
static void again_and_again(bool sends, struct board *boards)
{
    static unsigned char memory[100000];
    struct host h;
    int entries = 0;
    size_t taken = 0;
    CHECK_EQ(host_init(&h, 11), NCCL_SUCCESS);
    for (int i = 0; i < CONNECTIONS; i++) {
        void *request = NULL, *comm = sends ? sender_connect(&h, &boards[i]) : receiver_connect(&h, &boards[i]);
        if (!comm) return;
        if (sends) host_isend(&h, comm, memory, sizeof(memory), &request);
        else host_irecv(&h, comm, 1, memory, sizeof(memory), &request);
        CHECK_EQ(finish(&h, request, NULL), NCCL_SUCCESS);
        host_close(&h, sends ? h.t->close_send : h.t->close_recv, comm);
        if (i != 1) continue;
        entries = count_entries("/proc/self/fd");
        taken = mallinfo2().uordblks + mallinfo2().hblkhd;
    }
    CHECK_EQ(count_entries("/proc/self/fd"), entries);
    const size_t more = mallinfo2().uordblks + mallinfo2().hblkhd - taken;
    CHECK_THAT((ptrdiff_t)more < (CONNECTIONS - 2) * KEPT_BYTES, "%zd bytes more than after the second connection",
               (ptrdiff_t)more);
}

TEST(descriptors_and_memory_come_back_after_close)
{
    struct board *boards = mmap(NULL, CONNECTIONS * sizeof(*boards), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                                -1, 0);
    const pid_t child = divide();
    again_and_again(child != 0, boards);
    if (!child) _exit(atomic_load(&test_failures) ? 1 : 0);
    wait_for(child, false);
    munmap(boards, CONNECTIONS * sizeof(*boards));
}

/* NCCL asks no more for the first of two connections, which nobody accepts. */
TEST(a_connection_that_was_given_up_is_closed)
{
    const char *timeout = getenv("RINGTREE_TIMEOUT_MS");
    struct host h;
    uint8_t first[NCCL_HANDLE_BYTES], second[NCCL_HANDLE_BYTES];
    void *listener[2] = { NULL, NULL }, *comm = NULL;
    if (!timeout) return run_with("RINGTREE_TIMEOUT_MS", "300", "a_connection_that_was_given_up_is_closed");
    CHECK_EQ(host_init(&h, 11), NCCL_SUCCESS);
    CHECK_EQ(host_listen(&h, first, &listener[0]), NCCL_SUCCESS);
    CHECK_EQ(host_listen(&h, second, &listener[1]), NCCL_SUCCESS);
    CHECK_EQ(host_connect(&h, first, &comm), NCCL_SUCCESS);
    const int one_open = count_entries("/proc/self/fd");
    usleep(100000);
    CHECK_EQ(host_connect(&h, second, &comm), NCCL_SUCCESS);
    CHECK_THAT(count_entries("/proc/self/fd") > one_open, "nothing was opened for the second, so this shows nothing");
    usleep(250000);
    CHECK_EQ(host_connect(&h, second, &comm), NCCL_SUCCESS);
    CHECK_EQ(count_entries("/proc/self/fd"), one_open);
    host_close(&h, h.t->close_listen, listener[0]);
    host_close(&h, h.t->close_listen, listener[1]);
}

static void die(const struct host *h, void *comm, bool sends)
{
    static unsigned char memory[1 << 20];
    void *request = NULL;
    if (!sends) {
        host_irecv(h, comm, 1, memory, sizeof(memory), &request);
        CHECK_EQ(finish(h, request, NULL), NCCL_SUCCESS);
        raise(SIGKILL);
    }
    const double end = now() + PATIENCE_S;
    enum nccl_result result = NCCL_SUCCESS;
    for (int i = 0; result == NCCL_SUCCESS && now() < end; i++) {
        result = host_isend(h, comm, memory, sizeof(memory), &request);
        if (result == NCCL_SUCCESS && request) result = finish(h, request, NULL);
    }
    CHECK_EQ(result, NCCL_REMOTE_ERROR);
    CHECK_HAS(heard, "rank 1");
    CHECK_EQ(host_isend(h, comm, memory, 1, &request), NCCL_REMOTE_ERROR);
}

TEST(a_killed_receiver_is_an_error_of_its_sender) { run(11, die, true); }

/* The sender is the child here. */
TEST(a_killed_sender_is_an_error_of_its_receiver)
{
    static unsigned char memory[1 << 20];
    struct board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct host h;
    void *request = NULL;
    const pid_t child = divide();
    CHECK_EQ(host_init(&h, 11), NCCL_SUCCESS);
    void *comm = child ? receiver_connect(&h, board) : sender_connect(&h, board);
    if (!comm) return;
    if (!child) {
        host_isend(&h, comm, memory, sizeof(memory), &request);
        finish(&h, request, NULL);
        raise(SIGKILL);
    }
    enum nccl_result result = NCCL_SUCCESS;
    for (const double end = now() + PATIENCE_S; result == NCCL_SUCCESS && now() < end;) {
        host_irecv(&h, comm, 1, memory, sizeof(memory), &request);
        if (request) result = finish(&h, request, NULL);
    }
    CHECK_EQ(result, NCCL_REMOTE_ERROR);
    CHECK_HAS(heard, "rank 0");
    host_close(&h, h.t->close_recv, comm);
    wait_for(child, true);
    munmap(board, sizeof(*board));
}

static void overflow(const struct host *h, void *comm, bool sends)
{
    unsigned char memory[64] = { 0 };
    void *request = NULL;
    if (sends) {
        host_isend(h, comm, memory, 33, &request);
        finish(h, request, NULL);
        usleep(200000);
        return;
    }
    memset(memory, 0xab, sizeof(memory));
    host_irecv(h, comm, 1, memory, 32, &request);
    CHECK_EQ(finish(h, request, NULL), NCCL_INVALID_USAGE);
    CHECK_HAS(heard, "of 33 bytes");
    for (int i = 32; i < 64; i++) CHECK_EQ(memory[i], 0xab);
}

TEST(a_message_longer_than_its_room_is_refused_and_nothing_is_overwritten) { run(11, overflow, false); }

static void misuse(const struct host *h, void *comm, bool sends)
{
    unsigned char memory[8] = { 0 };
    void *request = &request, *mr = NULL;
    CHECK_EQ(CALL((void *, void *, size_t, int, void **), h->t->reg_mr)(comm, memory, 8, 1, &mr), NCCL_SUCCESS);
    CHECK(mr);
    CHECK_EQ(CALL((void *, void *), h->t->dereg_mr)(comm, mr), NCCL_SUCCESS);
    CHECK_EQ(CALL((void *, void *, size_t, int, void **), h->t->reg_mr)(comm, memory, 8, 2, &mr), NCCL_INTERNAL_ERROR);
    if (sends) return;
    CHECK_EQ(host_irecv(h, comm, 2, memory, 4, &request), NCCL_INTERNAL_ERROR);
    CHECK(!request);
    int bytes = 8;
    void *data = memory;
    request = &request;
    CHECK_EQ(CALL((void *, int, void **, int *, void **, void **), h->t->iflush)(comm, 1, &data, &bytes, &mr, &request),
             NCCL_SUCCESS);
    CHECK(!request);
}

TEST(what_is_not_supported_is_refused) { run(9, misuse, false); }

TEST(a_handle_of_other_bytes_is_an_error)
{
    struct host h;
    uint8_t handle[NCCL_HANDLE_BYTES], good[NCCL_HANDLE_BYTES];
    void *comm = &comm, *listener = NULL;
    CHECK_EQ(host_init(&h, 11), NCCL_SUCCESS);
    memset(handle, 0xff, sizeof(handle));
    CHECK_EQ(host_connect(&h, handle, &comm), NCCL_INVALID_ARGUMENT);
    CHECK(!comm);
    CHECK_HAS(heard, "handle");
    CHECK_EQ(host_listen(&h, good, &listener), NCCL_SUCCESS);
    const int family = strstr(transports(), "verbs") ? PORT + 22 : PORT;
    const int kinds[] = { 0, 4, 6, 7, family }; /* magic, version, addresses, transports, family */
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        memcpy(handle, good, sizeof(handle));
        handle[kinds[i]] = 99;
        CHECK_EQ(host_connect(&h, handle, &comm), NCCL_INVALID_ARGUMENT);
    }
    host_close(&h, h.t->close_listen, listener);
}

/* The secret is another: the receiver refuses, and goes on waiting for the right one. */
TEST(a_handle_with_another_secret_is_refused_and_does_not_hinder_the_right_one)
{
    struct host h;
    uint8_t good[NCCL_HANDLE_BYTES], forged[NCCL_HANDLE_BYTES];
    void *listener = NULL, *in = NULL, *out = NULL;
    CHECK_EQ(host_init(&h, 11), NCCL_SUCCESS);
    CHECK_EQ(host_listen(&h, good, &listener), NCCL_SUCCESS);
    memcpy(forged, good, sizeof(forged));
    forged[30] ^= 1;
    enum nccl_result result = NCCL_SUCCESS;
    for (const double end = now() + PATIENCE_S; result == NCCL_SUCCESS && now() < end;) {
        result = host_connect(&h, forged, &out);
        CHECK_EQ(host_accept(&h, listener, &in), NCCL_SUCCESS);
    }
    CHECK_EQ(result, NCCL_REMOTE_ERROR);
    CHECK(!out && !in);
    for (const double end = now() + PATIENCE_S; (!out || !in) && now() < end;) {
        if (!out) CHECK_EQ(host_connect(&h, good, &out), NCCL_SUCCESS);
        if (!in) CHECK_EQ(host_accept(&h, listener, &in), NCCL_SUCCESS);
    }
    CHECK(out && in);
    host_close(&h, h.t->close_send, out);
    host_close(&h, h.t->close_recv, in);
    host_close(&h, h.t->close_listen, listener);
}

TEST_MAIN
