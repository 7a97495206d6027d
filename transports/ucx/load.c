/* Loads UCX. */
#include "load.h"
#include "base/log.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucs/debug/log_def.h>

static struct rt_ucx_calls calls;
static const char *missing;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local char complaint[160];

static ucs_log_func_rc_t hear(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                              const ucs_log_component_config_t *component, const char *message, va_list args)
{
    (void)file, (void)line, (void)function, (void)component;
    if (level > UCS_LOG_LEVEL_WARN) return UCS_LOG_FUNC_RC_CONTINUE;
    vsnprintf(complaint, sizeof(complaint), message, args);
    rt_log(level == UCS_LOG_LEVEL_WARN ? RT_LOG_WARN : RT_LOG_ERROR, "UCX: %s", complaint);
    return UCS_LOG_FUNC_RC_STOP;
}

/* In a process that had no UCX before it is ours to quieten: its handlers would take a crash from the program. Who sets
 * UCX_LOG_LEVEL wants to read it himself. */
static void quieten(void *base)
{
    void (*disable)(void), (*push)(ucs_log_func_t);
    *(void **)&disable = dlsym(base, "ucs_debug_disable_signals");
    *(void **)&push = dlsym(base, "ucs_log_push_handler");
    if (disable && !getenv("UCX_HANDLE_ERRORS")) disable();
    if (push && !getenv("UCX_LOG_LEVEL")) push(hear);
}

static void load(void)
{
    static const struct { const char *name; void *slot; } symbols[] = {
#define X(name) { #name, &calls.name },
        RT_UCX_CALLS(X)
#undef X
    };
    void *there = dlopen("libucs.so.0", RTLD_NOW | RTLD_NOLOAD);
    void *library = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
    void *base = library ? dlopen("libucs.so.0", RTLD_NOW | RTLD_LOCAL) : NULL;
    unsigned major = 0, minor = 0, patch = 0;

    if (!base) missing = "libucp.so.0 is not installed (Debian: libucx0)";
    for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols) && !missing; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        memcpy(symbols[i].slot, &symbol, sizeof(symbol));
        if (!symbol) missing = "libucp.so.0 is too old: it must be of UCX 1.12 or later";
    }
    if (missing) return;
    *(void **)&calls.status_string = dlsym(base, "ucs_status_string");
    calls.ucp_get_version(&major, &minor, &patch);
    if (!calls.status_string || major != UCP_API_MAJOR || minor < 12)
        missing = "libucp.so.0 is of another version than 1.12 or later";
    else if (!there) quieten(base);
}

const struct rt_ucx_calls *rt_ucx_load(const char **why)
{
    pthread_once(&once, load);
    *why = missing;
    return missing ? NULL : &calls;
}

const char *rt_ucx_complaint(void)
{
    static _Thread_local char said[sizeof(complaint)];
    memcpy(said, complaint, sizeof(said));
    complaint[0] = '\0';
    return said;
}
