/* See route.h. */
#include "route.h"
#include "words.h"
#include <stdio.h>
#include <string.h>

static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

bool rt_verbs_gid_is_ipv4(const uint8_t gid[16])
{
    return memcmp(gid, mapped, sizeof(mapped)) == 0;
}

bool rt_verbs_gid_is_link_local(const uint8_t gid[16])
{
    return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

bool rt_verbs_gid_same_subnet(const uint8_t a[16], const uint8_t b[16], uint32_t prefix)
{
    if (prefix > 128) return false;
    for (uint32_t bit = 0; bit < prefix; bit += 8) {
        const uint32_t left = prefix - bit;
        const uint8_t mask = left >= 8 ? 0xff : (uint8_t)(0xff00 >> left);
        if ((a[bit / 8] ^ b[bit / 8]) & mask) return false;
    }
    return true;
}

static bool is_address(const struct rt_verbs_gid *gid, const struct rt_address *address)
{
    if (address->family == AF_INET)
        return rt_verbs_gid_is_ipv4(gid->bytes) && memcmp(gid->bytes + 12, address->bytes, 4) == 0;
    return address->family == AF_INET6 && memcmp(gid->bytes, address->bytes, 16) == 0;
}

/* Greater is better; 0: not to be used. Whole address before interface, earlier addresses before later ones. */
static uint32_t grade(const struct rt_verbs_gid *gid, bool have_v2, const struct rt_address *addresses,
                      const char **reason)
{
    static const uint8_t nothing[16];
    *reason = "the first of an InfiniBand port";
    if (!memcmp(gid->bytes, nothing, sizeof(nothing))) return 0;
    if (gid->version == 0) return 1;
    if (have_v2 && gid->version != 2) return 0;
    for (uint32_t i = 0; i < RT_MAX_ADDRESSES; i++) {
        *reason = "the address that ringtree uses between hosts";
        if (addresses[i].family && is_address(gid, &addresses[i])) return 40 - i;
    }
    const bool local = rt_verbs_gid_is_link_local(gid->bytes);
    for (uint32_t i = 0; i < RT_MAX_ADDRESSES && !local; i++) {
        *reason = "of the interface that ringtree uses between hosts";
        if (addresses[i].family && gid->interface[0] && !strcmp(gid->interface, addresses[i].interface)) return 20 - i;
    }
    *reason = local ? "a link-local address, as there is no other" : "no address that ringtree uses is on this port, "
                      "but this one is no link-local address";
    return local ? 1 : rt_verbs_gid_is_ipv4(gid->bytes) ? 3 : 2;
}

static int tell(const struct rt_verbs_gid *gids, int chosen, const char *reason, char *why, size_t capacity)
{
    char text[64];
    const struct rt_verbs_gid *gid = &gids[chosen];
    const char *kind = gid->version == 2 ? "RoCE v2" : gid->version == 1 ? "RoCE v1" : "InfiniBand";
    snprintf(why, capacity, "GID %u (%s, %s%s%s): %s", gid->index,
             rt_verbs_gid_text(gid->bytes, text, sizeof(text)), kind, gid->interface[0] ? ", " : "", gid->interface,
             reason);
    return chosen;
}

int rt_verbs_choose_gid(const struct rt_verbs_gid *gids, uint32_t count, int asked,
                        const struct rt_address addresses[RT_MAX_ADDRESSES], char *why, size_t capacity)
{
    bool have_v2 = false;
    uint32_t best_grade = 0;
    const char *reason = "", *best_reason = "";
    int best = -1;
    for (uint32_t i = 0; i < count; i++) {
        if (asked >= 0 && gids[i].index == asked)
            return tell(gids, (int)i, "asked for by RINGTREE_VERBS_GID_INDEX", why, capacity);
        have_v2 |= gids[i].version == 2;
    }
    for (uint32_t i = 0; i < count && asked < 0; i++) {
        const uint32_t g = grade(&gids[i], have_v2, addresses, &reason);
        if (g <= best_grade) continue;
        best = (int)i;
        best_grade = g;
        best_reason = reason;
    }
    if (best >= 0) return tell(gids, best, best_reason, why, capacity);
    if (asked >= 0) snprintf(why, capacity, "it has no GID %d (RINGTREE_VERBS_GID_INDEX)", asked);
    else snprintf(why, capacity, "it has no GID: give its interface an address (ip addr add)");
    return -1;
}

int rt_verbs_ends_meet(const struct rt_verbs_end *a, const struct rt_verbs_end *b)
{
    if (a->layer != b->layer) return 0;
    if (a->layer == RT_VERBS_INFINIBAND) return memcmp(a->gid, b->gid, 8) == 0 ? 2 : 1;
    if (rt_verbs_gid_is_ipv4(a->gid) != rt_verbs_gid_is_ipv4(b->gid)) return 0;
    const bool local = rt_verbs_gid_is_link_local(a->gid);
    if (local != rt_verbs_gid_is_link_local(b->gid)) return 0;
    const uint32_t prefix = a->prefix > b->prefix ? a->prefix : b->prefix; /* the narrower view */
    if (local || (prefix && rt_verbs_gid_same_subnet(a->gid, b->gid, prefix))) return 2;
    return 1;
}

uint32_t rt_verbs_match(const struct rt_verbs_end *lower, uint32_t lowers, const struct rt_verbs_end *upper,
                        uint32_t uppers, int pair[RT_VERBS_PORTS])
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < RT_VERBS_PORTS; i++) pair[i] = -1;
    for (int least = 2; least >= 1 && found == 0; least--) {
        bool taken[RT_VERBS_PORTS] = { false };
        for (uint32_t i = 0; i < lowers && i < RT_VERBS_PORTS; i++)
            for (uint32_t k = 0; k < uppers && k < RT_VERBS_PORTS && pair[i] < 0; k++) {
                if (taken[k] || rt_verbs_ends_meet(&lower[i], &upper[k]) < least) continue;
                pair[i] = (int)k;
                taken[k] = true;
                found++;
            }
    }
    return found;
}
