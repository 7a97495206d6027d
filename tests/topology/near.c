/* Shares of NUMA domains, on machines that are written into a folder as /sys shows them. */
#include "folder.h"
#include "topology/near.h"
#include <stdarg.h>
#include <sched.h>
#include <unistd.h>

static char folder[64];

static void put(const char *name, const char *value)
{
    char text[512];

    snprintf(text, sizeof(text), "mkdir -p $(dirname %s/%s) && echo '%s' >%s/%s", folder, name, value, folder, name);
    CHECK_EQ(system(text), 0);
}

static void link_to(const char *name, const char *target)
{
    char text[512];

    snprintf(text, sizeof(text), "mkdir -p $(dirname %s/%s) && ln -s %s/%s %s/%s", folder, name, folder, target, folder,
             name);
    CHECK_EQ(system(text), 0);
}

static void clear(void)
{
    char text[128];

    if (!folder[0])
        strcpy(folder, test_folder());
    snprintf(text, sizeof(text), "rm -rf %s/*", folder);
    CHECK_EQ(system(text), 0);
}

/* Domains in order, each a list of cores, ended by NULL. */
static void machine(const char *online, const char *list, ...)
{
    va_list lists;
    char name[64], domains[16];
    int number = 0;

    clear();
    put("devices/system/cpu/online", online);
    va_start(lists, list);
    for (; list; list = va_arg(lists, const char *), number++) {
        snprintf(name, sizeof(name), "devices/system/node/node%d/cpulist", number);
        put(name, list);
    }
    va_end(lists);
    snprintf(domains, sizeof(domains), "0-%d", number - 1);
    put("devices/system/node/online", domains);
}

static void gpu(const char *busid, const char *class, const char *vendor, const char *domain)
{
    char name[96];

    snprintf(name, sizeof(name), "bus/pci/devices/%s/class", busid);
    put(name, class);
    snprintf(name, sizeof(name), "bus/pci/devices/%s/vendor", busid);
    put(name, vendor);
    snprintf(name, sizeof(name), "bus/pci/devices/%s/numa_node", busid);
    put(name, domain);
}

static struct rt_near near;

static struct rt_cpus cpus(const char *list)
{
    struct rt_cpus parsed;

    CHECK(rt_cpus_parse(&parsed, list));
    return parsed;
}

static void find(const char *allowed)
{
    char membership[96], cgroup[96];

    snprintf(membership, sizeof(membership), "%s/membership", folder);
    snprintf(cgroup, sizeof(cgroup), "%s/cgroup", folder);
    const struct rt_cpus set = cpus(allowed);
    rt_near_find(&near, &(struct rt_near_paths){ folder, membership, cgroup }, &set);
}

/* "0-3 4-7": the cores of each of `size` ranks; or why they are not bound. */
static const char *shares(const char *allowed, uint32_t size)
{
    static char text[512];
    struct rt_cpus share;
    const char *why;
    size_t length = 0;

    find(allowed);
    text[0] = '\0';
    for (uint32_t i = 0; i < size; i++) {
        if (!rt_near_share(&near, i, size, &share, &why))
            return why;
        length += (size_t)snprintf(text + length, sizeof(text) - length, i ? " " : "");
        length += strlen(rt_cpus_text(&share, text + length, sizeof(text) - length));
    }
    return text;
}

static void check_shares(const char *allowed, uint32_t size, const char *expected)
{
    const char *text = shares(allowed, size);

    CHECK_THAT(strcmp(text, expected) == 0, "%u ranks on %s: \"%s\", not \"%s\"", size, allowed, text, expected);
}

TEST(ranks_share_out_the_domains_evenly)
{
    machine("0-7", "0-3", "4-7", NULL);
    check_shares("0-7", 2, "0-3 4-7");
    check_shares("0-7", 4, "0-3 0-3 4-7 4-7");
    check_shares("0-7", 8, "0-3 0-3 0-3 0-3 4-7 4-7 4-7 4-7");
    check_shares("0-7", 3, "0-3 4-7 4-7");
    check_shares("0-7", 1, "one rank has the whole machine");
    machine("0-7", "0-1", "2-3", "4-5", "6-7", NULL);
    check_shares("0-7", 4, "0-1 2-3 4-5 6-7");
    check_shares("0-7", 2, "0-3 4-7");
    check_shares("0-7", 3, "0-1 2-5 6-7");
}

TEST(no_domain_gets_more_ranks_than_cores_and_none_is_left_idle)
{
    machine("0-7", "0-1,8", "2-7", "9-13", NULL);
    put("devices/system/cpu/online", "0-13");
    for (uint32_t size = 2; size <= 14; size++) {
        uint32_t ranks[3] = { 0 };
        static const uint32_t cores[] = { 3, 6, 5 };
        struct rt_cpus share, all = { { 0 } }, every = cpus("0-13");
        const char *why;
        find("0-13");
        for (uint32_t i = 0; i < size; i++) {
            CHECK_THAT(rt_near_share(&near, i, size, &share, &why), "%s", why);
            all.word[0] |= share.word[0];
            const int32_t domain = rt_near_domain(&near, &share);
            if (domain >= 0) ranks[domain]++;
        }
        CHECK_THAT(memcmp(&all, &every, sizeof(all)) == 0, "%u ranks leave cores idle", size);
        for (int d = 0; d < 3; d++)
            CHECK_THAT(ranks[d] <= cores[d], "%u of %u ranks in domain %d", ranks[d], size, d);
    }
}

TEST(hyperthreads_and_domains_without_cores_are_no_trouble)
{
    machine("0-7", "0-1,4-5", "2-3,6-7", "", NULL);
    check_shares("0-7", 2, "0-1,4-5 2-3,6-7");
}

TEST(one_domain_is_nothing_to_choose)
{
    machine("0-7", "0-7", NULL);
    check_shares("0-7", 4, "the cores that may be used are in one NUMA domain");
    clear();
    check_shares("0-7", 4, "the cores that may be used are in one NUMA domain");
}

TEST(who_is_bound_already_is_left_alone)
{
    machine("0-7", "0-3", "4-7", NULL);
    check_shares("0-5", 2, "bound to cores 0-5 of 0-7 already");
    check_shares("1", 2, "the cores that may be used are in one NUMA domain");
    find("1");
    const struct rt_cpus one = cpus("1"), both = cpus("1,5");
    CHECK_EQ(rt_near_domain(&near, &one), 0);
    CHECK_EQ(rt_near_domain(&near, &both), -1);
}

TEST(a_control_group_limits_and_does_not_bind)
{
    machine("0-7", "0-3", "4-7", NULL);
    put("membership", "0::/job/step");
    put("cgroup/job/cpuset.cpus.effective", "2-5");
    check_shares("2-5", 2, "2-3 4-5");
    check_shares("2-4", 2, "bound to cores 2-4 of 2-5 already");
    put("cgroup/job/step/cpuset.cpus.effective", "2-4");
    check_shares("2-4", 2, "2-3 4");
    put("cgroup/job/step/cpuset.cpus.effective", "rubbish");
    check_shares("2-5", 2, "2-3 4-5");
}

TEST(a_rank_for_each_gpu_goes_where_that_is)
{
    machine("0-7", "0-3", "4-7", NULL);
    gpu("0000:10:00.0", "0x030200", "0x10de", "1");
    gpu("0000:20:00.0", "0x030000", "0x1002", "1");
    gpu("0000:30:00.0", "0x120000", "0x1da3", "0");
    gpu("0000:02:00.0", "0x030000", "0x1a03", "0"); /* the server's own display */
    gpu("0000:01:00.0", "0x020000", "0x15b3", "0");
    check_shares("0-7", 3, "4-7 4-7 0-3");
    check_shares("0-7", 2, "0-3 4-7"); /* which of the three they take is not known */
    gpu("0000:30:00.0", "0x120000", "0x1da3", "-1");
    check_shares("0-7", 3, "0-3 4-7 4-7");
}

TEST(gpus_that_are_all_at_one_domain_do_not_crowd_its_cores)
{
    machine("0-3", "0-1", "2-3", NULL);
    for (int i = 0; i < 4; i++) {
        char busid[16];
        snprintf(busid, sizeof(busid), "0000:1%d:00.0", i);
        gpu(busid, "0x030200", "0x10de", "1");
    }
    check_shares("0-3", 4, "0-1 0-1 2-3 2-3");
}

TEST(a_gpu_leads_to_the_whole_share_where_ranks_are_few)
{
    machine("0-7", "0-1", "2-3", "4-5", "6-7", NULL);
    gpu("0000:10:00.0", "0x030200", "0x10de", "3");
    gpu("0000:20:00.0", "0x030200", "0x10de", "0");
    check_shares("0-7", 2, "4-7 0-3");
}

TEST(the_progress_thread_goes_near_the_interface)
{
    struct rt_cpus set;

    machine("0-7", "0-1", "2-3", "4-5", "6-7", NULL);
    put("class/net/eth0/device/numa_node", "2");
    put("class/net/eth1/device/numa_node", "-1");
    put("devices/pci/numa_node", "3");
    put("devices/pci/virtio0/vendor", "0x1af4");
    link_to("class/net/eth2/device", "devices/pci/virtio0");
    find("0-7");
    set = cpus("0-7");
    rt_near_interface(&near, folder, "eth2", &set);
    CHECK_EQ(rt_near_domain(&near, &set), 3);
    set = cpus("4-7");
    rt_near_interface(&near, folder, "eth0", &set);
    CHECK_EQ(rt_near_domain(&near, &set), 2);
    set = cpus("0-3");
    rt_near_interface(&near, folder, "eth0", &set); /* not in this share: it stays in it */
    CHECK(memcmp(&set, &(struct rt_cpus){ { 0x0f } }, sizeof(set)) == 0);
    rt_near_interface(&near, folder, "eth1", &set);
    rt_near_interface(&near, folder, "none", &set);
    rt_near_interface(&near, folder, "../../etc", &set);
    CHECK(memcmp(&set, &(struct rt_cpus){ { 0x0f } }, sizeof(set)) == 0);
}

TEST(lists_of_cores_are_read_and_written)
{
    static const char *const good[] = { "", "0", "0-3,8", "63-64,8191" };
    static const char *const bad[] = { "x", "3-1", "8192", "1-", "1;2", "-1", "0-99999999999999999999" };
    struct rt_cpus set;
    char text[64];

    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
        CHECK_THAT(rt_cpus_parse(&set, good[i]) && strcmp(rt_cpus_text(&set, text, sizeof(text)), good[i]) == 0,
                   "\"%s\" became \"%s\"", good[i], text);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        CHECK_THAT(!rt_cpus_parse(&set, bad[i]), "\"%s\" was taken", bad[i]);
    memset(&set, 0x55, sizeof(set));
    CHECK_HAS(rt_cpus_text(&set, text, sizeof(text)), ",...");
}

TEST(this_thread_is_bound_and_says_so)
{
    struct rt_cpus before, one, now;

    CHECK(rt_cpus_allowed(&before));
    one = (struct rt_cpus){ { 0 } };
    one.word[sched_getcpu() / 64] |= UINT64_C(1) << sched_getcpu() % 64;
    for (size_t i = 0; i < sizeof(one.word) / sizeof(*one.word); i++)
        one.word[i] &= before.word[i];
    CHECK(rt_cpus_bind(&one) && rt_cpus_allowed(&now) && memcmp(&one, &now, sizeof(now)) == 0);
    CHECK(rt_cpus_bind(&before));
}

TEST_MAIN
