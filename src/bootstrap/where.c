/* Where to meet: text to host and port to addresses. */
#include "meeting.h"
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool parse_port(const char *text, uint16_t *port)
{
    unsigned long sum = 0;
    const char *c = text;

    for (; *c >= '0' && *c <= '9' && sum <= 65535; c++)
        sum = sum * 10 + (unsigned long)(*c - '0');
    *port = (uint16_t)sum;
    return c > text && *c == '\0' && sum >= 1 && sum <= 65535;
}

ringtree_status rt_where_parse(const char *where, const char *origin, char *host, size_t capacity, uint16_t *port,
                               struct rt_error *error)
{
    const char *colon = strrchr(where, ':'), *begin = where, *end = colon;

    if (colon && where[0] == '[' && colon > where && colon[-1] == ']') {
        begin = where + 1;
        end = colon - 1;
    } else if (colon && memchr(where, ':', (size_t)(colon - where))) {
        colon = NULL; /* an IPv6 address without brackets: which part is the port? */
    }
    if (!colon || end <= begin || (size_t)(end - begin) >= capacity || !parse_port(colon + 1, port))
        return rt_fail(error, RINGTREE_INVALID_SETTING,
                       "%s is \"%s\": give host:port, such as node1:29500 or [fd00::1]:29500", origin, where);
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    return RINGTREE_OK;
}

ringtree_status rt_where_resolve(const char *host, uint16_t port, const char *origin, struct rt_address *addresses,
                                 struct rt_error *error)
{
    const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    uint32_t n = 0;

    int failed = getaddrinfo(host, NULL, &hints, &found);
    if (failed)
        return rt_fail(error, failed == EAI_NONAME ? RINGTREE_INVALID_SETTING : RINGTREE_UNREACHABLE,
                       "%s: the host name \"%s\" cannot be resolved: %s; RINGTREE_ROOT=host:port says where rank "
                       "0 runs", origin, host, failed == EAI_SYSTEM ? "system error" : gai_strerror(failed));
    for (struct addrinfo *a = found; a && n < RT_MAX_ADDRESSES; a = a->ai_next)
        if (rt_address_from_sockaddr(&addresses[n], a->ai_addr))
            addresses[n++].port = port;
    freeaddrinfo(found);
    if (n == 0)
        return rt_fail(error, RINGTREE_UNREACHABLE, "%s: the host \"%s\" has neither an IPv4 nor an IPv6 address",
                       origin, host);
    return RINGTREE_OK;
}
