/* Socket addresses in their fixed form: conversions, comparison, text. */
#include "interfaces.h"
#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

socklen_t rt_address_to_sockaddr(const struct rt_address *address, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof(*out));
    if (address->family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)out;
        in->sin_family = AF_INET;
        in->sin_port = htons(address->port);
        memcpy(&in->sin_addr, address->bytes, 4);
        return sizeof(*in);
    }
    if (address->family == AF_INET6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)out;
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(address->port);
        in6->sin6_scope_id = address->scope;
        memcpy(&in6->sin6_addr, address->bytes, 16);
        return sizeof(*in6);
    }
    return 0;
}

static void from_inet6(struct rt_address *address, const struct sockaddr_in6 *in6)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
    const uint8_t *bytes = in6->sin6_addr.s6_addr;

    address->port = ntohs(in6->sin6_port);
    if (memcmp(bytes, mapped, sizeof(mapped)) == 0) { /* an IPv4 peer of a dual-stack socket */
        address->family = AF_INET;
        memcpy(address->bytes, bytes + 12, 4);
        return;
    }
    address->family = AF_INET6;
    address->scope = in6->sin6_scope_id;
    memcpy(address->bytes, bytes, 16);
    if (address->scope && !if_indextoname(address->scope, address->interface))
        address->interface[0] = '\0';
}

bool rt_address_from_sockaddr(struct rt_address *address, const struct sockaddr *in)
{
    memset(address, 0, sizeof(*address));
    if (in->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, in, sizeof(in6));
        from_inet6(address, &in6);
        return true;
    }
    if (in->sa_family == AF_INET) {
        struct sockaddr_in in4;
        memcpy(&in4, in, sizeof(in4));
        address->family = AF_INET;
        address->port = ntohs(in4.sin_port);
        memcpy(address->bytes, &in4.sin_addr, 4);
        return true;
    }
    return false;
}

bool rt_address_is_link_local(const struct rt_address *address)
{
    const uint8_t *bytes = address->bytes;

    if (address->family == AF_INET)
        return bytes[0] == 169 && bytes[1] == 254;
    return address->family == AF_INET6 && bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

bool rt_address_same_host(const struct rt_address *a, const struct rt_address *b)
{
    if (a->family != b->family || memcmp(a->bytes, b->bytes, sizeof(a->bytes)) != 0)
        return false;
    return !rt_address_is_link_local(a) || a->scope == b->scope;
}

void rt_address_adopt_zone(struct rt_address *peer, const struct rt_place *self)
{
    const struct rt_address *zone = NULL;

    if (peer->family != AF_INET6 || !rt_address_is_link_local(peer))
        return;
    for (int i = RT_MAX_ADDRESSES - 1; i >= 0; i--) {
        const struct rt_address *own = &self->address[i];
        if (own->family != AF_INET6 || !rt_address_is_link_local(own))
            continue;
        if (!zone || strncmp(zone->interface, peer->interface, sizeof(peer->interface)) != 0)
            zone = own;
    }
    peer->scope = zone ? zone->scope : 0;
}

const char *rt_address_host(const struct rt_address *address, char *text, size_t capacity)
{
    char digits[INET6_ADDRSTRLEN];

    if (address->family != AF_INET && address->family != AF_INET6)
        snprintf(text, capacity, "no address");
    else if (!inet_ntop(address->family, address->bytes, digits, sizeof(digits)))
        snprintf(text, capacity, "?");
    else if (address->family == AF_INET6 && address->scope)
        snprintf(text, capacity, "%s%%%" PRIu32, digits, address->scope);
    else
        snprintf(text, capacity, "%s", digits);
    return text;
}

const char *rt_address_text(const struct rt_address *address, char *text, size_t capacity)
{
    char host[INET6_ADDRSTRLEN + 16], port[8] = "", interface[sizeof(address->interface) + 4] = "";
    const bool brackets = address->family == AF_INET6 && address->port;

    rt_address_host(address, host, sizeof(host));
    if (address->port && (address->family == AF_INET || address->family == AF_INET6))
        snprintf(port, sizeof(port), ":%u", address->port);
    if (address->interface[0]) /* came from a peer, perhaps without its end */
        snprintf(interface, sizeof(interface), " (%.*s)", (int)sizeof(address->interface) - 1, address->interface);
    snprintf(text, capacity, "%s%s%s%s%s", brackets ? "[" : "", host, brackets ? "]" : "", port, interface);
    return text;
}
