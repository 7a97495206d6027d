/* Slurm's lists of nodes: "n1,n2", "node[07-09,12]", "rack[1-2]node[1-4]-ib". */
#include "launch.h"
#include <string.h>

/* Appends `count` bytes; false when they do not fit or have no place in a host name. */
static bool append(char *host, size_t capacity, size_t *used, const char *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char c = from[i];
        bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                    c == '.' || c == '_';
        if (!good || *used + 1 >= capacity)
            return false;
        host[(*used)++] = c;
    }
    host[*used] = '\0';
    return true;
}

bool rt_slurm_first_host(const char *list, char *host, size_t capacity)
{
    size_t used = 0;
    const char *c = list;

    while (*c && *c != ',') {
        size_t plain = strcspn(c, "[,");
        if (!append(host, capacity, &used, c, plain))
            return false;
        c += plain;
        if (*c != '[')
            continue;
        size_t first = strspn(c + 1, "0123456789");
        const char *close_at = strchr(c, ']');
        if (first == 0 || !close_at || !strchr("-,]", c[1 + first]) || !append(host, capacity, &used, c + 1, first))
            return false;
        c = close_at + 1;
    }
    return used > 0;
}
