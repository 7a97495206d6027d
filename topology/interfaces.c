/*
 * Which of the machine's addresses other ranks should use.
 *
 * Without RINGTREE_INTERFACE: every ordinary address. Only when there is none: link-local addresses, then those of
 * container bridges; and loopback when there is nothing else at all. Bridges are not even a second choice beside an
 * ordinary address: docker0 has the same address on every machine, so a peer that tried it would reach itself.
 * A name in RINGTREE_INTERFACE lifts that: what is named is used, in the order of the names.
 */
#include "interfaces.h"
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <linux/if.h> /* after net/if.h: IFF_LOWER_UP */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ RINGTREE_INTERFACE */

struct filter {
    const char *text;  /* as given */
    const char *items; /* after the marks */
    bool        exclude, exact;
};

struct item {
    const char *name;
    size_t      length;
};

static struct filter read_filter(const char *text)
{
    struct filter filter = { text, text, false, false };

    if (*filter.items == '^')
        filter.exclude = true, filter.items++;
    if (*filter.items == '=')
        filter.exact = true, filter.items++;
    return filter;
}

static bool names_some(const struct filter *filter)
{
    return filter->text[0] != '\0' && !filter->exclude;
}

/* The item at *at, spaces around it cut, and *at moved behind it; false at the end. */
static bool next_item(const char **at, struct item *item)
{
    if (!*at)
        return false;
    const char *start = *at, *comma = strchr(start, ','), *end = comma ? comma : start + strlen(start);
    *at = comma ? comma + 1 : NULL;
    while (start < end && *start == ' ')
        start++;
    while (end > start && end[-1] == ' ')
        end--;
    *item = (struct item){ start, (size_t)(end - start) };
    return true;
}

static bool item_matches(const struct item *item, const char *name, bool exact)
{
    return strncmp(name, item->name, item->length) == 0 && (!exact || name[item->length] == '\0');
}

/* The place of the first item that matches, or SIZE_MAX. */
static size_t find_match(const struct filter *filter, const char *name)
{
    const char *at = filter->items;
    struct item item;

    for (size_t i = 0; next_item(&at, &item); i++)
        if (item_matches(&item, name, filter->exact))
            return i;
    return SIZE_MAX;
}

static ringtree_status check_filter(const struct filter *filter, struct rt_error *error)
{
    const char *at = filter->items;
    struct item item;

    if (filter->text[0] == '\0')
        return RINGTREE_OK;
    while (next_item(&at, &item))
        if (item.length == 0 || memchr(item.name, '=', item.length) || memchr(item.name, '^', item.length))
            return rt_fail(error, RINGTREE_INVALID_SETTING,
                           "RINGTREE_INTERFACE is \"%s\"; it takes beginnings of names (eth,ib), names (=eth0,eth1) or "
                           "what to leave out (^docker,lo)", filter->text);
    return RINGTREE_OK;
}

/* ------------------------------------------------------------------ what the kernel has */

static bool is_bridge(const char *name)
{
    static const char *const beginnings[] = { "docker", "br-", "virbr", "cni", "flannel", "lxc", "lxdbr", "podman",
                                              "kube-" };

    for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++)
        if (strncmp(name, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}

/* By address, not by interface: routed networks put a machine's ordinary address on lo. */
static bool is_loopback(const struct rt_address *address)
{
    static const uint8_t one[16] = { [15] = 1 };

    return address->family == AF_INET ? address->bytes[0] == 127 : memcmp(address->bytes, one, sizeof(one)) == 0;
}

static void leave_out(struct rt_candidate *candidate, const char *why)
{
    candidate->class = RT_UNUSABLE;
    candidate->why = why;
}

static void classify(struct rt_candidate *candidate, unsigned flags)
{
    const struct rt_address *address = &candidate->address;

    if (!(flags & IFF_UP))
        leave_out(candidate, "is down");
    else if (address->family == 0)
        leave_out(candidate, "has no IP address");
    else if (!(flags & (IFF_RUNNING | IFF_LOWER_UP))) /* RUNNING follows a carrier, LOWER_UP, by up to a second */
        leave_out(candidate, "has no carrier");
    else if (is_loopback(address))
        candidate->class = RT_LOOPBACK;
    else if (is_bridge(address->interface))
        candidate->class = RT_BRIDGE;
    else if (rt_address_is_link_local(address))
        candidate->class = RT_LINK_LOCAL;
}

/* An IPv4 alias is listed as "eth0:1": the interface is eth0. */
static void copy_name(char *to, const char *from)
{
    size_t length = strcspn(from, ":");

    if (length > IFNAMSIZ - 1)
        length = IFNAMSIZ - 1;
    memcpy(to, from, length);
    to[length] = '\0';
}

static bool has_address(const struct ifaddrs *all, const char *name)
{
    char other[IFNAMSIZ];

    for (const struct ifaddrs *entry = all; entry; entry = entry->ifa_next) {
        copy_name(other, entry->ifa_name);
        if (entry->ifa_addr && entry->ifa_addr->sa_family != AF_PACKET && strcmp(other, name) == 0)
            return true;
    }
    return false;
}

static void add_entry(struct rt_interfaces *interfaces, const struct ifaddrs *all, const struct ifaddrs *entry)
{
    struct rt_candidate candidate = { .found = interfaces->count };
    char name[IFNAMSIZ] = ""; /* all of it is sent */

    copy_name(name, entry->ifa_name);
    if (!entry->ifa_addr || !rt_address_from_sockaddr(&candidate.address, entry->ifa_addr))
        if (has_address(all, name))
            return;
    if (!rt_address_is_link_local(&candidate.address))
        candidate.address.scope = 0;
    memcpy(candidate.address.interface, name, sizeof(name));
    classify(&candidate, entry->ifa_flags);
    interfaces->list[interfaces->count++] = candidate;
}

static ringtree_status collect(struct rt_interfaces *interfaces, struct rt_error *error)
{
    struct ifaddrs *all;
    size_t entries = 0;

    if (getifaddrs(&all) < 0)
        return rt_fail_errno(error, "this machine's network interfaces cannot be listed");
    for (const struct ifaddrs *entry = all; entry; entry = entry->ifa_next)
        entries++;
    interfaces->list = calloc(entries + 1, sizeof(*interfaces->list));
    if (interfaces->list)
        for (const struct ifaddrs *entry = all; entry; entry = entry->ifa_next)
            add_entry(interfaces, all, entry);
    freeifaddrs(all);
    if (!interfaces->list)
        return rt_fail(error, RINGTREE_NO_MEMORY, "no memory to list %zu network addresses", entries);
    return RINGTREE_OK;
}

/* ------------------------------------------------------------------ choice */

static bool has_better_address(const struct rt_interfaces *interfaces, const struct rt_candidate *candidate)
{
    for (size_t i = 0; i < interfaces->count; i++) {
        const struct rt_candidate *other = &interfaces->list[i];
        if (other->class < RT_UNUSABLE && !rt_address_is_link_local(&other->address) &&
            strcmp(other->address.interface, candidate->address.interface) == 0)
            return true;
    }
    return false;
}

static void choose_named(struct rt_interfaces *interfaces, const struct filter *filter)
{
    for (size_t i = 0; i < interfaces->count; i++) {
        struct rt_candidate *candidate = &interfaces->list[i];
        candidate->order = find_match(filter, candidate->address.interface);
        if (candidate->order == SIZE_MAX)
            leave_out(candidate, "is not named by RINGTREE_INTERFACE");
        else if (candidate->class == RT_UNUSABLE)
            continue;
        else if (rt_address_is_link_local(&candidate->address) && has_better_address(interfaces, candidate))
            leave_out(candidate, "is link-local, and its interface has a better address");
        else
            candidate->class = RT_ORDINARY;
    }
}

static size_t count_up_to(const struct rt_interfaces *interfaces, enum rt_candidate_class worst)
{
    size_t count = 0;

    for (size_t i = 0; i < interfaces->count; i++)
        count += interfaces->list[i].class <= worst;
    return count;
}

static void choose_best(struct rt_interfaces *interfaces, const struct filter *filter)
{
    for (size_t i = 0; i < interfaces->count; i++)
        if (filter->exclude && find_match(filter, interfaces->list[i].address.interface) != SIZE_MAX)
            leave_out(&interfaces->list[i], "is excluded by RINGTREE_INTERFACE");

    const bool has_ordinary = count_up_to(interfaces, RT_ORDINARY) > 0;
    const bool has_other = count_up_to(interfaces, RT_BRIDGE) > 0;
    for (size_t i = 0; i < interfaces->count; i++) {
        struct rt_candidate *candidate = &interfaces->list[i];
        if (candidate->class == RT_LOOPBACK && has_other)
            leave_out(candidate, "is loopback, and there is something better");
        else if (candidate->class == RT_BRIDGE && has_ordinary)
            leave_out(candidate, "is a bridge for containers, and there is something better");
        else if (candidate->class == RT_LINK_LOCAL && has_ordinary)
            leave_out(candidate, "is link-local, and there is something better");
    }
}

static int compare(const void *left, const void *right)
{
    const struct rt_candidate *a = left, *b = right;

    if (a->class != b->class)
        return a->class < b->class ? -1 : 1;
    if (a->class != RT_UNUSABLE && a->order != b->order)
        return a->order < b->order ? -1 : 1;
    return a->found < b->found ? -1 : 1;
}

/* Both IP versions are kept when there are more addresses than room: a peer may have only one of them. */
static void keep_both_versions(struct rt_interfaces *interfaces, size_t usable)
{
    struct rt_candidate *list = interfaces->list;

    for (size_t i = 1; i < RT_MAX_ADDRESSES; i++)
        if (list[i].address.family != list[0].address.family)
            return;
    for (size_t i = RT_MAX_ADDRESSES; i < usable; i++) {
        if (list[i].address.family == list[0].address.family)
            continue;
        struct rt_candidate other = list[i];
        memmove(&list[RT_MAX_ADDRESSES], &list[RT_MAX_ADDRESSES - 1], (i - RT_MAX_ADDRESSES + 1) * sizeof(*list));
        list[RT_MAX_ADDRESSES - 1] = other;
        return;
    }
}

static void order(struct rt_interfaces *interfaces)
{
    const size_t usable = count_up_to(interfaces, RT_LOOPBACK);

    qsort(interfaces->list, interfaces->count, sizeof(*interfaces->list), compare);
    if (usable > RT_MAX_ADDRESSES)
        keep_both_versions(interfaces, usable);
    for (size_t i = RT_MAX_ADDRESSES; i < usable; i++)
        leave_out(&interfaces->list[i], "comes after the 4 addresses that are used at most");
    interfaces->used = usable < RT_MAX_ADDRESSES ? usable : RT_MAX_ADDRESSES;
}
_Static_assert(RT_MAX_ADDRESSES == 4, "a sentence above says so");

/* ------------------------------------------------------------------ refusals */

/* "eth0 (10.0.0.1, fd00::1), ib0 (no address)" */
static void list_candidates(const struct rt_interfaces *interfaces, char *text, size_t capacity)
{
    size_t used = 0;
    const char *last = "";

    snprintf(text, capacity, "none");
    for (size_t i = 0; i < interfaces->count && used < capacity; i++) {
        const struct rt_candidate *candidate = &interfaces->list[i];
        const char *name = candidate->address.interface;
        char host[64];
        const bool same = strcmp(name, last) == 0;
        int length = snprintf(text + used, capacity - used, "%s%s%s%s", same ? ", " : used ? "), " : "",
                              same ? "" : name, same ? "" : " (",
                              rt_address_host(&candidate->address, host, sizeof(host)));
        used += length > 0 ? (size_t)length : 0;
        last = name;
    }
    if (used && used + 1 < capacity)
        strcpy(text + used, ")");
}

static int compare_names(const void *left, const void *right)
{
    const struct rt_candidate *a = left, *b = right;
    const int names = strcmp(a->address.interface, b->address.interface);

    return names ? names : a->found < b->found ? -1 : 1;
}

static ringtree_status refuse(struct rt_interfaces *interfaces, const struct filter *filter, const struct item *item,
                              const char *why, struct rt_error *error)
{
    char candidates[640];

    qsort(interfaces->list, interfaces->count, sizeof(*interfaces->list), compare_names);
    list_candidates(interfaces, candidates, sizeof(candidates));
    return rt_fail(error, RINGTREE_INVALID_SETTING,
                   "RINGTREE_INTERFACE is \"%.96s\": \"%.*s\" %s; this machine has: %s", filter->text,
                   (int)(item->length < 32 ? item->length : 32), item->name, why, candidates);
}

/* Why `item` gives no usable address; NULL: it gives one. */
static const char *fault_of(const struct rt_interfaces *interfaces, const struct filter *filter,
                            const struct item *item)
{
    const char *why = filter->exact ? "is no interface" : "is the beginning of no interface's name";

    for (size_t i = 0; i < interfaces->count; i++) {
        const struct rt_candidate *candidate = &interfaces->list[i];
        if (!item_matches(item, candidate->address.interface, filter->exact))
            continue;
        if (candidate->class != RT_UNUSABLE)
            return NULL;
        why = candidate->why;
    }
    return why;
}

/* Every exact name must be there. Of beginnings one is enough, since machines of one job may differ. */
static ringtree_status check_named(struct rt_interfaces *interfaces, const struct filter *filter,
                                   struct rt_error *error)
{
    const char *at = filter->items;
    struct item item, bad_item = { "", 0 };
    const char *bad = NULL;
    bool some = false;

    while (next_item(&at, &item)) {
        const char *why = fault_of(interfaces, filter, &item);
        some = some || !why;
        if (why && !bad)
            bad = why, bad_item = item;
    }
    if (bad && (filter->exact || !some))
        return refuse(interfaces, filter, &bad_item, bad, error);
    return RINGTREE_OK;
}

ringtree_status rt_interfaces_find(struct rt_interfaces *interfaces, const char *wanted, struct rt_error *error)
{
    const struct filter filter = read_filter(wanted);
    ringtree_status status = check_filter(&filter, error);

    *interfaces = (struct rt_interfaces){ NULL, 0, 0 };
    if (status == RINGTREE_OK)
        status = collect(interfaces, error);
    if (status == RINGTREE_OK && names_some(&filter))
        status = check_named(interfaces, &filter, error);
    if (status) {
        rt_interfaces_free(interfaces);
        return status;
    }
    if (names_some(&filter))
        choose_named(interfaces, &filter);
    else
        choose_best(interfaces, &filter);
    order(interfaces);
    return RINGTREE_OK;
}

void rt_interfaces_free(struct rt_interfaces *interfaces)
{
    free(interfaces->list);
    *interfaces = (struct rt_interfaces){ NULL, 0, 0 };
}
