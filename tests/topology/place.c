/* Where a rank lives: key, cores, quotas, preferred address. */
#include "folder.h"
#include "topology/cores.h"
#include "topology/interfaces.h"
#include <arpa/inet.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

static struct rt_settings settings;
static struct rt_error error;

static struct rt_place find(const char *host)
{
    struct rt_place place;

    rt_settings_defaults(&settings);
    CHECK_EQ(rt_setting_set(&settings, RT_HOST, host, "test", &error), RINGTREE_OK);
    CHECK_THAT(rt_place_find(&place, &settings, &error) == RINGTREE_OK, "%s", error.text);
    return place;
}

TEST(the_place_of_this_process_is_found)
{
    const struct rt_place place = find("");
    cpu_set_t set;
    char host[65] = "";

    gethostname(host, sizeof(host) - 1);
    CHECK_EQ(place.pid, getpid());
    CHECK(strncmp(place.host, host, sizeof(place.host) - 1) == 0);
    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        CHECK(place.cores >= 1 && place.cores <= (uint32_t)CPU_COUNT(&set));
    CHECK(place.core_mask != 0);
}

TEST(the_same_host_gives_the_same_key_and_a_pretended_one_another)
{
    const struct rt_place a = find(""), b = find(""), c = find("left"), d = find("right"), e = find("left");

    CHECK(a.host_key == b.host_key);
    CHECK(a.host_key != c.host_key && c.host_key != d.host_key);
    CHECK(c.host_key == e.host_key);
    CHECK(strcmp(c.host, "left") == 0);
}

TEST(a_long_pretended_host_is_cut_in_sentences_but_not_in_the_key)
{
    char one[200], two[200];

    memset(one, 'h', sizeof(one));
    one[199] = '\0';
    memcpy(two, one, sizeof(two));
    two[198] = 'i';
    const struct rt_place a = find(one), b = find(two);
    CHECK_EQ(strlen(a.host), sizeof(a.host) - 1);
    CHECK(a.host_key != b.host_key);
}

TEST(cores_of_several_ranks_are_counted_once)
{
    const struct rt_place first = { .cores = 1, .core_mask = 1 }, second = { .cores = 1, .core_mask = 2 },
                          both = { .cores = 2, .core_mask = 3 }, wide = { .cores = 70, .core_mask = UINT64_MAX },
                          held = { .cores = 1, .core_mask = 3 };
    struct rt_core_count count = { 0 };
    CHECK_EQ(rt_core_count_total(&count), 1);
    rt_core_count_add(&count, &first);
    rt_core_count_add(&count, &first);
    CHECK_EQ(rt_core_count_total(&count), 1);
    rt_core_count_add(&count, &second);
    rt_core_count_add(&count, &both);
    CHECK_EQ(rt_core_count_total(&count), 2);
    rt_core_count_add(&count, &wide);
    CHECK_EQ(rt_core_count_total(&count), 70);
    rt_core_count_add(&count, &held);
    CHECK_EQ(rt_core_count_total(&count), 1);
}

TEST(affinity_bounds_the_cores)
{
    cpu_set_t before, one;
    uint64_t mask;

    if (sched_getaffinity(0, sizeof(before), &before) < 0)
        SKIP("more CPUs than this test knows");
    for (int cpu = 0; cpu < 64; cpu++) {
        if (!CPU_ISSET(cpu, &before))
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        CHECK_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
        CHECK_EQ(rt_cores_allowed(&mask), 1);
        CHECK(mask == UINT64_C(1) << cpu);
    }
    sched_setaffinity(0, sizeof(before), &before);
}

static char root[64];

static void write_text(const char *name, const char *text)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", root, name);
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(text, file) >= 0);
    if (file)
        fclose(file);
}

static uint32_t quota(void)
{
    char membership[256];

    snprintf(membership, sizeof(membership), "%s/membership", root);
    return rt_cores_quota(membership, root);
}

TEST(the_least_quota_on_the_way_up_counts)
{
    char path[256];

    strcpy(root, test_folder());
    CHECK_EQ(quota(), UINT32_MAX);
    snprintf(path, sizeof(path), "%s/job", root);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/job/step", root);
    mkdir(path, 0700);
    write_text("membership", "3:cpu:/elsewhere\n0::/job/step\n");
    CHECK_EQ(quota(), UINT32_MAX);
    write_text("job/step/cpu.max", "max 100000\n");
    CHECK_EQ(quota(), UINT32_MAX);
    write_text("job/cpu.max", "250000 100000\n");
    CHECK_EQ(quota(), 3);
    write_text("job/step/cpu.max", "200000 100000\n");
    CHECK_EQ(quota(), 2);
    write_text("cpu.max", "1000 100000\n");
    CHECK_EQ(quota(), 1);
    static const char *const garbage[] = { "", "x", "100", "100 0", "0 100", "99999999999999999999 1", "-1 100000" };
    write_text("membership", "0::/\n");
    for (size_t i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
        write_text("cpu.max", garbage[i]);
        CHECK_THAT(quota() == UINT32_MAX, "\"%s\" gave %u", garbage[i], quota());
    }
}

TEST(quotas_of_the_first_version_of_groups_count_too)
{
    char path[256];

    strcpy(root, test_folder());
    snprintf(path, sizeof(path), "%s/cpu", root);
    mkdir(path, 0700);
    snprintf(path, sizeof(path), "%s/cpu/job", root);
    mkdir(path, 0700);
    write_text("cpu/job/cpu.cfs_period_us", "100000\n");
    write_text("cpu/job/cpu.cfs_quota_us", "350000\n");
    static const char *const others[] = { "", "3:cpuset:/job\n", "3:xcpu,cpux:/job\n", "3:name=cpu:/job\n", "cpu",
                                          ":cpu:", "0::/job\n" };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        write_text("membership", others[i]);
        CHECK_THAT(quota() == UINT32_MAX, "\"%s\" gave %u", others[i], quota());
    }
    write_text("membership", "5:memory:/else\n4:cpuacct,cpu:/job\n0::/\n");
    CHECK_EQ(quota(), 4);
    write_text("cpu/job/cpu.cfs_quota_us", "-1\n");
    CHECK_EQ(quota(), UINT32_MAX);
    write_text("cpu/cpu.cfs_period_us", "50000\n"); /* seen from inside a container, where the path leads nowhere */
    write_text("cpu/cpu.cfs_quota_us", "5000\n");
    write_text("membership", "4:cpu,cpuacct:/docker/0123/nowhere\n");
    CHECK_EQ(quota(), 1);
}

static struct rt_address address(const char *digits)
{
    struct rt_address result = { .family = AF_INET, .port = 99 };

    inet_pton(AF_INET, digits, result.bytes);
    return result;
}

/* A UDP socket of `family` that is connected over loopback: its local address is 127.0.0.1. */
static int connected(int family)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct sockaddr_in6 to6 = { .sin6_family = AF_INET6, .sin6_port = htons(9) };
    int fd = socket(family, SOCK_DGRAM, 0);

    inet_pton(AF_INET6, "::ffff:127.0.0.1", &to6.sin6_addr);
    int failed = family == AF_INET ? connect(fd, (struct sockaddr *)&to, sizeof(to))
                                   : connect(fd, (struct sockaddr *)&to6, sizeof(to6));
    if (fd >= 0 && failed)
        close(fd);
    return failed ? -1 : fd;
}

TEST(the_address_that_leads_to_the_root_comes_first)
{
    static const int families[] = { AF_INET, AF_INET6 };

    for (size_t i = 0; i < 2; i++) {
        struct rt_place place = { .address = { address("10.0.0.1"), address("10.0.0.2"), address("127.0.0.1") } };
        int fd = connected(families[i]);
        if (fd < 0)
            SKIP("no loopback connection of family %d", families[i]);
        rt_place_prefer(&place, fd);
        close(fd);
        CHECK_EQ(place.address[0].bytes[0], 127);
        CHECK_EQ(place.address[0].port, 99);
        CHECK_EQ(place.address[1].bytes[3], 1);
        CHECK_EQ(place.address[2].bytes[3], 2);
        CHECK_EQ(place.address[3].family, 0);
    }
}

TEST(an_address_that_is_no_candidate_changes_nothing)
{
    struct rt_place place = { .address = { address("10.0.0.1"), address("10.0.0.2") } }, before = place;
    int fd = connected(AF_INET);

    if (fd < 0)
        SKIP("no loopback");
    rt_place_prefer(&place, fd);
    close(fd);
    rt_place_prefer(&place, -1);
    CHECK(memcmp(&place, &before, sizeof(place)) == 0);
}

TEST_MAIN
