/* What ringtree-info has found out, for its two printers. */
#ifndef RINGTREE_INFO_H
#define RINGTREE_INFO_H

#include "base/settings.h"
#include "topology/interfaces.h"
#include "topology/near.h"
#include <sys/utsname.h>

struct info {
    struct rt_settings   settings; /* the defaults when settings_error has a sentence */
    struct rt_error      settings_error;
    struct rt_interfaces interfaces; /* chosen without RINGTREE_INTERFACE when interfaces_error has a sentence */
    struct rt_error      interfaces_error;
    struct utsname       system;
    uint32_t             cores, quota; /* quota UINT32_MAX: none */
    struct rt_near       near;
    const char          *reduction;    /* "avx2" */
};

struct info_line { /* one line of the parts of the build and the machine */
    const char *name;
    char        value[256];
};
#define INFO_LINES 14

/* Fill `lines`, of INFO_LINES, and return how many there are. */
size_t info_build(const struct info *info, struct info_line *lines);
size_t info_machine(const struct info *info, struct info_line *lines);

/* "default", "file", "environment" */
const char *info_origin(const struct info *info, int setting);
/* Its value for people: secrets are hidden. */
const char *info_value(const struct info *info, int setting);

struct info_memory_line {
    const char *name; /* also the key in JSON */
    size_t      bytes;
    const char *what;
};
#define INFO_MEMORY_LINES 15

/* What a communicator of `n` ranks costs one of them: fills `lines`, of INFO_MEMORY_LINES; how many. */
size_t info_memory(const struct info *info, uint32_t n, struct info_memory_line *lines);
void   info_print_memory(const struct info *info, uint32_t n);

void info_print_text(const struct info *info, bool settings_only);
#ifdef RINGTREE_JSON
int info_print_json(const struct info *info, bool settings_only); /* 0, or -1: no memory */
int info_print_memory_json(const struct info *info, uint32_t n);
#endif

#endif
