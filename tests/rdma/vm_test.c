/*
 * The verbs transport on the devices of this machine, over real authenticated connections: the conformance suite, and
 * faults. For a virtual machine of its own: as root it takes interfaces dummy0 (10.77.0.1) and dummy1 up and down.
 */
#include "transports/control_world.h"
#include "through.h"
#include "verbs/verbs.h"
#include <sys/resource.h>
#include <sys/syscall.h>
#include <linux/capability.h>

struct world {
    void             *control;
    struct rt_fabric *fabric;
};

static const char *devices = "rxe0", *failover = "";

/* `options`: queue pairs per port. */
static const char *start(const struct fixture *fixture, struct rt_fabric fabric[2], void **made)
{
    static const uint64_t sockets = 1;
    static char why[300];
    const struct fixture plain = { .options = &sockets };
    unsigned char all[2][RT_ANNOUNCEMENT] = { { 0 } };
    struct world *world = calloc(1, sizeof(*world));
    control_start(&plain, fabric, &world->control);
    world->fabric = fabric;
    *made = world;
    for (uint32_t r = 0; r < 2; r++) {
        struct rt_settings *settings = &((struct control_world *)world->control)->cases[r].settings;
        settings->number[RT_VERBS_QPS] = *(const uint64_t *)fixture->options;
        settings->given[RT_TRANSPORTS] = 2;
        settings->number[RT_VERBS_TIMEOUT] = 14;
        strcpy(settings->text[RT_VERBS_DEVICES], devices);
        strcpy(settings->text[RT_VERBS_FAILOVER], failover);
        rt_transport_verbs.announce(&fabric[r], all[r]);
    }
    for (uint32_t r = 0; r < 2; r++) rt_transport_verbs.hear(&fabric[r], all, RT_ANNOUNCEMENT);
    return rt_transport_verbs.reaches(&fabric[0], 1, why, sizeof(why)) ? NULL : why;
}

static void stop(void *made)
{
    struct world *world = made;
    for (uint32_t r = 0; r < 2; r++) rt_transport_verbs.leave(&world->fabric[r]);
    control_stop(world->control);
    free(world);
}

static const uint64_t one = 1, two = 2;
static const struct fixture one_queue_pair = { "1", &rt_transport_verbs, true, &one, start, stop };
static const struct fixture two_queue_pairs = { "2", &rt_transport_verbs, true, &two, start, stop };

CONFORMANCE(one_queue_pair, &one_queue_pair)
CONFORMANCE(two_queue_pairs, &two_queue_pairs)

/* ---- faults */

static void run(const char *command)
{
    if (system(command)) TEST_FAIL("%s", command);
}

static void check_through(const char *with, const char *how, void (*trouble)(struct pair *pair), const char *then)
{
    struct pair pair;
    bool skip;
    char text[300] = "";
    devices = with;
    failover = how;
    const uint64_t begun = now_ms();
    const char *why = pair_open(&pair, &one_queue_pair, &skip);
    if (!why) why = through(&pair, trouble, 200);
    if (!why) why = rt_transport_verbs.describe(pair.out, text, sizeof(text));
    CHECK_HAS(why, then);
    CHECK_THAT(now_ms() - begun < 15000, "it took %" PRIu64 " ms", now_ms() - begun);
    printf("         %s\n", why);
    pair_close(&pair);
    devices = "rxe0";
    failover = "";
}

static void queue_pair_to_error(struct pair *pair)
{
    struct rt_verbs_pair *in = ((struct rt_verbs_link *)pair->in)->pair;
    rt_verbs_queue_empty(in, &in->queue[0]);
}

static void own_queue_pair_to_error(struct pair *pair)
{
    struct rt_verbs_pair *out = ((struct rt_verbs_link *)pair->out)->pair;
    rt_verbs_queue_empty(out, &out->queue[0]);
}

TEST(fault_a_queue_pair_in_error_is_made_anew)
{
    check_through("rxe0", "", queue_pair_to_error, "verbs rxe0 port 1");
    check_through("rxe0", "", own_queue_pair_to_error, "verbs rxe0 port 1");
}

TEST(fault_without_failover_a_queue_pair_in_error_is_told)
{
    check_through("rxe0", "off", own_queue_pair_to_error, "RINGTREE_VERBS_FAILOVER=off");
}

static void port_down(struct pair *pair)
{
    (void)pair;
    run("ip link set dummy0 down");
}

static void restore(void)
{
    run("ip link set dummy0 up; ip addr replace 10.77.0.1/24 dev dummy0");
    sleep_ms(300);
}

TEST(fault_a_port_that_goes_down_is_replaced_by_another)
{
    check_through("rxe0,rxe1", "", port_down, "verbs rxe1 port 1");
    restore();
}

TEST(fault_tcp_takes_over_from_the_last_port)
{
    check_through("rxe0", "", port_down, "verbs, now over tcp");
    restore();
}

TEST(fault_without_failover_a_port_that_is_down_is_named)
{
    check_through("rxe0", "port", port_down, "rxe0 port 1 (GID ::ffff:10.77.0.1)");
    restore();
}

static void port_down_and_up(struct pair *pair)
{
    (void)pair;
    run("ip link set dummy0 down; usleep 100000; ip link set dummy0 up; ip addr replace 10.77.0.1/24 dev dummy0");
}

TEST(fault_a_port_that_comes_back_loses_nothing)
{
    check_through("rxe0", "", port_down_and_up, "verbs");
    restore();
}

static void gid_removed(struct pair *pair)
{
    (void)pair;
    run("ip addr del 10.77.0.1/24 dev dummy0");
}

TEST(fault_a_gid_that_is_removed_loses_nothing)
{
    check_through("rxe0", "", gid_removed, "verbs");
    restore();
}

static void device_removed(struct pair *pair)
{
    (void)pair;
    run("rdma link del rxe0 & sleep 0.5; pidof rdma > /dev/null");
}

static void interface_removed(struct pair *pair)
{
    (void)pair;
    run("ip link del dummy0 & sleep 0.5; ! ip link show dummy0 2>&1 | grep mtu");
}

/* soft-RoCE's driver waits for whoever has it open, and the device goes when the last link is closed. */
TEST(fault_a_device_that_is_removed_in_use_loses_nothing_and_goes_when_it_is_closed)
{
    check_through("rxe0", "", device_removed, "verbs");
    run("sleep 0.2; ! rdma link show | grep rxe0");
    run("rdma link add rxe0 type rxe netdev dummy0");
    restore();
}

TEST(fault_an_interface_that_is_removed_under_its_device_leaves_it_to_tcp)
{
    check_through("rxe0", "", interface_removed, "verbs, now over tcp");
    run("sleep 0.2; ! rdma link show | grep rxe0");
    run("ip link add dummy0 type dummy; ip link set dummy0 mtu 4200; rdma link add rxe0 type rxe netdev dummy0");
    restore();
}

/* Root may pin what it likes; a user may not. */
static void as_a_user(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2] = { { 0 } };
    const struct rlimit limit = { 65536, 65536 };
    if (setrlimit(RLIMIT_MEMLOCK, &limit) || syscall(SYS_capset, &header, data)) abort();
}

TEST(fault_with_64_KiB_of_memlock_the_remedy_is_told)
{
    const pid_t child = fork();
    if (child == 0) {
        struct pair pair;
        bool skip;
        as_a_user();
        const char *why = pair_open(&pair, &one_queue_pair, &skip);
        const bool told = why && strstr(why, "ulimit -l unlimited") && strstr(why, "65536");
        printf("         %s\n", why ? why : "it opened");
        fflush(stdout);
        _exit(told ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
}

TEST_MAIN
