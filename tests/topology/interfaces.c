/* The choice of addresses, in network namespaces made for each case. */
#include "test.h"
#include "topology/interfaces.h"
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static struct rt_error error;

static pid_t far_side; /* a process in a namespace that holds the other ends of the wires */

static int command(const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    strcat(text, " >/dev/null 2>&1");
    return system(text);
}

static void leave_far_side(void)
{
    if (far_side > 0) {
        kill(far_side, SIGKILL);
        waitpid(far_side, NULL, 0);
    }
    far_side = 0;
}

/* A process that waits in a network namespace of its own, until this one ends. */
static void start_far_side(void)
{
    int ready[2];
    char byte;

    leave_far_side();
    if (pipe(ready) < 0)
        return;
    far_side = fork();
    if (far_side == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (unshare(CLONE_NEWNET) == 0 && write(ready[1], "", 1) == 1)
            pause();
        _exit(1);
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        leave_far_side();
    close(ready[0]);
}

/* The kernel notices a carrier a little later, from a queue of its own. */
static int wait_for_carrier(const char *name)
{
    struct ifreq request = { .ifr_flags = 0 };
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), running = 0;

    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    for (int tries = 0; tries < 500 && !running; tries++) {
        running = ioctl(fd, SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_RUNNING);
        if (!running)
            usleep(10000);
    }
    close(fd);
    return running ? 0 : -1;
}

/* An interface with carrier and without addresses. */
static int add_interface(const char *name)
{
    return command("ip link add %s type veth peer name far-%s netns %d", name, name, (int)far_side) ||
           command("nsenter -t %d -n ip link set far-%s up", (int)far_side, name) ||
           command("ip link set %s addrgenmode none", name) || command("ip link set %s up", name) ||
           wait_for_carrier(name);
}

/* A new network namespace for this process, then each command there. NULL, or what is not possible here. */
static const char *enter(const char *const *commands)
{
    static char why[200];

    if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) {
        snprintf(why, sizeof(why), "no new network namespace: %s", strerror(errno));
        return why;
    }
    start_far_side();
    for (; *commands; commands++) {
        if ((*commands)[0] == '+' ? add_interface(*commands + 1) : command("ip %s", *commands)) {
            snprintf(why, sizeof(why), "\"ip %s\" does not work here", *commands);
            leave_far_side();
            return why;
        }
    }
    return NULL;
}

#define ENTER(...)                                                                                                     \
    do {                                                                                                               \
        const char *const commands[] = { "link set lo up", __VA_ARGS__, NULL }, *why = enter(commands);               \
        if (why) SKIP("%s", why);                                                                                      \
    } while (0)

#define HAS_IPV6 "-6 route get ::1"
#define ADD(name) "+" name

/* The addresses used with that RINGTREE_INTERFACE, "eth0/10.0.0.1 eth1/10.0.1.1"; the sentence if it is refused. */
static const char *used(const char *wanted)
{
    static char text[2048];
    struct rt_interfaces interfaces;
    size_t length = 0;

    if (rt_interfaces_find(&interfaces, wanted, &error)) {
        CHECK_EQ(error.status, RINGTREE_INVALID_SETTING);
        return error.text;
    }
    text[0] = '\0';
    for (size_t i = 0; i < interfaces.count; i++) {
        struct rt_candidate *candidate = &interfaces.list[i];
        char host[64];
        if (candidate->address.scope)
            CHECK_EQ(candidate->address.scope, if_nametoindex(candidate->address.interface));
        candidate->address.scope = 0;
        CHECK((candidate->why == NULL) == (i < interfaces.used));
        if (i < interfaces.used)
            length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s/%s", i ? " " : "",
                                       candidate->address.interface,
                                       rt_address_host(&candidate->address, host, sizeof(host)));
    }
    rt_interfaces_free(&interfaces);
    return text;
}

static const char *why_not(const char *name)
{
    struct rt_interfaces interfaces;
    const char *why = "is not there";

    CHECK_EQ(rt_interfaces_find(&interfaces, "", &error), RINGTREE_OK);
    for (size_t i = 0; i < interfaces.count; i++)
        if (strcmp(interfaces.list[i].address.interface, name) == 0)
            why = interfaces.list[i].why ? interfaces.list[i].why : "is used";
    rt_interfaces_free(&interfaces);
    return why;
}

static void check_used(const char *wanted, const char *expected)
{
    const char *text = used(wanted);

    CHECK_THAT(strcmp(text, expected) == 0, "RINGTREE_INTERFACE=%s: \"%s\", not \"%s\"", wanted, text, expected);
}

TEST(ordinary_addresses_are_used_in_the_kernels_order)
{
    ENTER(ADD("eth0"), ADD("eth1"), "addr add 10.0.0.1/24 dev eth0", "addr add 10.0.1.1/24 dev eth1",
          "addr add fd00::1/64 dev eth1 nodad");
    check_used("", "eth0/10.0.0.1 eth1/10.0.1.1 eth1/fd00::1");
    CHECK_HAS(why_not("lo"), "is loopback");
}

TEST(container_bridges_are_no_second_choice)
{
    ENTER(HAS_IPV6, ADD("docker0"), ADD("br-12ab"), ADD("eth0"), "addr add 172.17.0.1/16 dev docker0",
          "addr add 172.18.0.1/16 dev br-12ab", "addr add 10.0.0.1/24 dev eth0");
    check_used("", "eth0/10.0.0.1");
    CHECK_HAS(why_not("docker0"), "is a bridge for containers");
    check_used("docker", "docker0/172.17.0.1");
    check_used("=eth0,docker0", "eth0/10.0.0.1 docker0/172.17.0.1");
    check_used("=docker0,eth0", "docker0/172.17.0.1 eth0/10.0.0.1");
    check_used("^eth", "docker0/172.17.0.1 br-12ab/172.18.0.1");
    check_used("^eth,docker", "br-12ab/172.18.0.1");
    check_used("^eth,docker,br-", "lo/127.0.0.1 lo/::1");
}

TEST(of_all_kinds_together_the_two_real_links_are_used)
{
    ENTER(HAS_IPV6, "link add docker0 type bridge", "link add virbr7 type bridge", "link set docker0 up",
          "link set virbr7 up", "addr add 172.17.0.1/16 dev docker0", "addr add 192.168.122.1/24 dev virbr7",
          ADD("usb0"), "addr add 169.254.3.1/16 dev usb0", ADD("eth1"), "addr add 10.0.1.1/24 dev eth1", ADD("eth0"),
          "addr add 10.0.0.1/24 dev eth0", "addr add fe80::7/64 dev eth0 nodad");
    check_used("", "eth1/10.0.1.1 eth0/10.0.0.1");
    CHECK_HAS(why_not("lo"), "is loopback");
    CHECK_HAS(why_not("usb0"), "is link-local");
    CHECK_HAS(why_not("docker0"), "bridge");
    CHECK_HAS(why_not("virbr7"), "bridge");
    check_used("=usb0", "usb0/169.254.3.1");
    CHECK_HAS(used("=eth7"), "\"eth7\" is no interface; this machine has: ");
    CHECK_HAS(used("=eth7"), "eth0 (10.0.0.1, fe80::7%");
    CHECK_HAS(used("=eth7"), "eth1 (10.0.1.1), lo (127.0.0.1, ::1), usb0 (169.254.3.1), virbr7 (192.168.122.1");
}

TEST(a_bridge_alone_is_better_than_loopback)
{
    ENTER(ADD("docker0"), "addr add 172.17.0.1/16 dev docker0");
    check_used("", "docker0/172.17.0.1");
}

TEST(loopback_alone_is_used)
{
    ENTER(HAS_IPV6);
    check_used("", "lo/127.0.0.1 lo/::1");
    check_used("lo", "lo/127.0.0.1 lo/::1");
    check_used("^lo", "");
}

TEST(a_machine_without_any_address_gives_none)
{
    ENTER("link set lo down");
    check_used("", "");
    CHECK_HAS(why_not("lo"), "is down");
    CHECK_HAS(used("lo"), "\"lo\" is down; this machine has: lo (127.0.0.1");
}

TEST(link_local_addresses_are_used_when_there_is_nothing_better)
{
    ENTER(ADD("docker0"), ADD("eth0"), "addr add 172.17.0.1/16 dev docker0", "addr add 169.254.7.7/16 dev eth0",
          "addr add fe80::7/64 dev eth0 nodad");
    check_used("", "eth0/169.254.7.7 eth0/fe80::7 docker0/172.17.0.1");
    CHECK_EQ(command("ip addr add 10.0.0.1/24 dev eth0"), 0);
    check_used("", "eth0/10.0.0.1");
    check_used("=eth0", "eth0/10.0.0.1");
    CHECK_HAS(why_not("docker0"), "is a bridge");
}

TEST(a_named_interface_may_have_only_link_local_addresses)
{
    ENTER(ADD("eth0"), ADD("ib0"), "addr add 10.0.0.1/24 dev eth0", "addr add fe80::7/64 dev ib0 nodad");
    check_used("", "eth0/10.0.0.1");
    check_used("=ib0", "ib0/fe80::7");
    check_used("ib,eth", "ib0/fe80::7 eth0/10.0.0.1");
}

TEST(an_ipv6_only_machine_uses_its_global_addresses)
{
    ENTER(ADD("eth0"), "addr add fd00::1/64 dev eth0 nodad", "addr add fe80::7/64 dev eth0 nodad",
          "addr del 127.0.0.1/8 dev lo");
    check_used("", "eth0/fd00::1");
}

TEST(interfaces_that_are_down_are_left_out)
{
    ENTER(ADD("eth0"), ADD("eth1"), "addr add 10.0.0.1/24 dev eth0", "addr add 10.0.1.1/24 dev eth1",
          "link set eth0 down");
    check_used("", "eth1/10.0.1.1");
    CHECK_HAS(why_not("eth0"), "is down");
    CHECK_HAS(used("=eth0"), "\"eth0\" is down; this machine has: eth0 (10.0.0.1), eth1 (10.0.1.1), lo (127.0.0.1");
    check_used("eth", "eth1/10.0.1.1");
}

TEST(a_wire_without_its_other_end_has_no_carrier)
{
    ENTER("link add eth0 type veth peer name far", "link set eth0 addrgenmode none", "link set eth0 up",
          "addr add 10.0.0.1/24 dev eth0");
    CHECK_HAS(why_not("eth0"), "has no carrier");
    CHECK_EQ(command("ip link set far up"), 0);
    CHECK_HAS(why_not("eth0"), "is used"); /* at once: the kernel calls it running only later */
}

TEST(an_interface_that_does_not_exist_is_refused_with_the_candidates)
{
    ENTER(ADD("eth0"), ADD("eth1"), "addr add 10.0.0.1/24 dev eth0", "addr add fd00::1/64 dev eth0 nodad");
    CHECK_HAS(used("=eth9"), "RINGTREE_INTERFACE is \"=eth9\": \"eth9\" is no interface; this machine has: "
                             "eth0 (10.0.0.1, fd00::1), eth1 (no address), lo (127.0.0.1, ::1)");
    CHECK_HAS(used("=eth0,eth9"), "\"eth9\" is no interface");
    CHECK_HAS(used("=eth"), "\"eth\" is no interface");
    CHECK_HAS(used("=eth1"), "\"eth1\" has no IP address");
    CHECK_HAS(used("ib"), "\"ib\" is the beginning of no interface's name");
    check_used("ib,eth", "eth0/10.0.0.1 eth0/fd00::1");
    check_used(" eth0 , ib", "eth0/10.0.0.1 eth0/fd00::1");
    check_used("^nothere", "eth0/10.0.0.1 eth0/fd00::1");
    check_used("^=eth", "eth0/10.0.0.1 eth0/fd00::1");
}

TEST(a_malformed_list_is_refused)
{
    static const char *const bad[] = { "=", "^", ",", "eth0,", "=eth0,,eth1", "^^eth0", "=^eth0", "eth0,=eth1", "^ " };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_HAS(used(bad[i]), "RINGTREE_INTERFACE is \"");
        CHECK_HAS(used(bad[i]), "it takes beginnings of names (eth,ib), names (=eth0,eth1) or what to leave out");
    }
}

TEST(of_more_addresses_than_room_both_ip_versions_are_kept)
{
    ENTER(ADD("a0"), "addr add 10.0.0.1/24 dev a0", "addr add 10.0.1.1/24 dev a0", "addr add 10.0.2.1/24 dev a0",
          "addr add 10.0.3.1/24 dev a0", "addr add 10.0.4.1/24 dev a0", "addr add fd00::1/64 dev a0 nodad");
    check_used("", "a0/10.0.0.1 a0/10.0.1.1 a0/10.0.2.1 a0/fd00::1");
}

TEST(aliases_belong_to_their_interface)
{
    ENTER(ADD("eth0"), "addr add 10.0.0.1/24 dev eth0", "addr add 10.0.9.1/24 dev eth0 label eth0:1");
    check_used("=eth0", "eth0/10.0.0.1 eth0/10.0.9.1");
}

TEST(an_ordinary_address_on_lo_is_ordinary)
{
    ENTER("addr add 10.9.9.9/32 dev lo");
    check_used("", "lo/10.9.9.9");
}

TEST(a_hundred_interfaces_do_not_overflow_the_sentence)
{
    ENTER(HAS_IPV6);
    if (system("for i in $(seq 100 150); do echo link add verylong-a$i type veth peer name verylong-b$i; done |"
               "ip -batch -"))
        SKIP("no virtual wires");
    CHECK_HAS(used("=nothere"), "\"nothere\" is no interface; this machine has: lo (127.0.0.1, ::1), "
                                "verylong-a100 (no address)");
}

TEST(two_namespaces_are_two_hosts)
{
    struct rt_settings settings;
    struct rt_place a, b;

    rt_settings_defaults(&settings);
    CHECK_EQ(rt_place_find(&a, &settings, &error), RINGTREE_OK);
    ENTER("link set lo up");
    CHECK_EQ(rt_place_find(&b, &settings, &error), RINGTREE_OK);
    CHECK(a.host_key != b.host_key);
    CHECK(a.machine_key == b.machine_key); /* whose ranks share cores */
}

TEST_MAIN
