/*
 * Every RINGTREE_* setting, declared once in settings.c: name, type, unit, default, help.
 * A value comes from the environment, else from the file named by RINGTREE_CONFIG (lines NAME=value, # comments),
 * else is the default. An unknown RINGTREE_* name or a bad value is RINGTREE_INVALID_SETTING with the nearest name.
 *
 * The file: spaces around names and values do not count; a # at a line's start or after a space begins a comment; a
 * name may come once. Numbers are whole, without sign; sizes take K, M and G (times 1024); bools 0 1 no yes off on
 * false true. A setting without default (RINGTREE_RANK) is number 0, text "" and given 0 while it is unset.
 */
#ifndef RT_SETTINGS_H
#define RT_SETTINGS_H

#include "error.h"

enum rt_setting {
    RT_TIMEOUT_MS,       /* u64, 300000 */
    RT_ALGORITHM,        /* text: "ring" or "all_reduce=ring,broadcast=tree"; "" = chosen */
    RT_TRANSPORTS,       /* text list in order of preference: "shm,tcp"; or all but some, by cost: "^ucx" */
    RT_INTERFACE,        /* text: prefix list, '=' exact, '^' exclude */
    RT_HOST,             /* text: pretend to be on this host; ranks with different values share no memory */
    RT_LOG,              /* text: "", error, warn, info, debug */
    RT_LOG_FILE,         /* text: %h host, %p pid, %r rank; "" = stderr */
    RT_CONFIG,           /* text: settings file */
    RT_PROGRESS_THREAD,  /* bool, 0 */
    RT_SLICE_BYTES,      /* size, 0 = chosen */
    RT_SHM_SLOTS,        /* u64, 4 */
    RT_SHM_SLOT_BYTES,   /* size, 128K */
    RT_TCP_SOCKETS,      /* u64: sockets per link, 0 = chosen */
    RT_TCP_SLOT_BYTES,   /* size, 256K */
    RT_UCX_SLOT_BYTES,   /* size, 256K */
    RT_TCP_CONGESTION,   /* text: congestion control between machines; "" = the system's */
    RT_VERBS_DEVICES,    /* text list: "mlx5_0,mlx5_1:2"; "" = all */
    RT_VERBS_GID_INDEX,  /* u64 or unset = chosen */
    RT_VERBS_PKEY,       /* u64: partition, 0 = the first */
    RT_VERBS_TRAFFIC_CLASS, RT_VERBS_SERVICE_LEVEL,
    RT_VERBS_TIMEOUT,    /* u64, 16: 4.096 us * 2^n */
    RT_VERBS_RETRY,      /* u64, 7 */
    RT_VERBS_QPS,        /* u64, 1: per port */
    RT_VERBS_SLOT_BYTES, /* size, 128K; by default less for many ranks */
    RT_VERBS_REGISTER,   /* bool, 1 */
    RT_VERBS_ODP,        /* bool, 0 */
    RT_VERBS_FAILOVER,   /* text: "", port, off */
    RT_DIRECT,           /* bool, 1: direct shared-memory paths */
    RT_BIND,             /* bool, 1: ranks keep to their share of the NUMA domains */
    RT_TOPOLOGY,         /* text: file or words; empty: what is seen */
    RT_SHM_READS,        /* text: on, off, empty: measured */
    RT_CALIBRATE,        /* text: "", off, cached, always: whether links are measured at the start */
    RT_CALIBRATE_MS,     /* u64, 20: most that it takes */
    RT_REVIEW_EVERY,     /* u64, 0: collectives between two reviews of the planner's costs; 0 = never */
    RT_CACHE_DIR,        /* text: where measurements are kept; "" = XDG_CACHE_HOME/ringtree or ~/.cache/ringtree */
    RT_TUNE_FILE,        /* text: the planner's table, by ringtree-tune */
    RT_COMPRESS_BELOW,   /* size a second, 2G: links as fast as that are never compressed */
    RT_LINK_RATE,        /* size a second: of the link between nodes; 0 = as the planner knows it */
    RT_SPIN_POLLS,       /* u64: polls before yielding; 0 = chosen from cores and ranks */
    RT_SECRET_FILE,      /* text: file with the shared secret, for launchers that carry none */
    RT_ROOT,             /* text: host:port of rank 0, for RINGTREE_RANK / RINGTREE_SIZE */
    RT_ROOT_PORT,        /* u64: port of the root where the launcher names only a host; 0 = derived */
    RT_RANK, RT_SIZE,    /* u64 or unset: given by a launcher */
    RT_LOCAL_RANK, RT_LOCAL_SIZE,
    RT_ID,               /* text, hidden in output: the id in hex, set by ringtree-run */
    RT_FAULT,            /* text: fault switch, test builds only */
    RT_SETTING_COUNT
};

enum rt_setting_kind { RT_KIND_U64, RT_KIND_SIZE, RT_KIND_BOOL, RT_KIND_TEXT };

struct rt_setting_info {
    const char          *name; /* "RINGTREE_TIMEOUT_MS" */
    enum rt_setting_kind kind;
    const char          *unit; /* "ms", "bytes", "" */
    const char          *value; /* default, as text */
    uint64_t             least, most;
    const char          *help;
    const char          *choices; /* "error warn": the words allowed besides ""; NULL: any text */
    bool                 hidden;  /* a secret: sentences and tables do not show its value */
};

#define RT_SETTING_TEXT 640 /* RINGTREE_ID alone has 512 digits */

struct rt_settings {
    uint64_t number[RT_SETTING_COUNT];                /* U64, SIZE, BOOL */
    char     text[RT_SETTING_COUNT][RT_SETTING_TEXT]; /* the text as given or the default */
    uint8_t  given[RT_SETTING_COUNT];                 /* 0 default, 1 file, 2 environment */
};

extern const struct rt_setting_info rt_setting_table[RT_SETTING_COUNT];

/* Reads file and environment. After a failure *settings holds nothing of use. */
ringtree_status rt_settings_load(struct rt_settings *settings, struct rt_error *error);

/* The parser alone, for tests and fuzzers: `text` of `length` bytes in the file's form, over what is in *settings. */
ringtree_status rt_settings_parse(struct rt_settings *settings, const char *text, size_t length, const char *origin,
                                  struct rt_error *error);
void rt_settings_defaults(struct rt_settings *settings);

/* One setting from text, as if it had come from `origin`, which begins the sentence of an error. */
ringtree_status rt_setting_set(struct rt_settings *settings, enum rt_setting setting, const char *value,
                               const char *origin, struct rt_error *error);

/* RINGTREE_FAULT is refused in builds without tests. */
bool rt_setting_available(enum rt_setting setting);

/* Item number `index` of a comma-separated list; false: there is none, it is empty, or longer than `capacity`. */
bool rt_list_item(const char *list, uint32_t index, char *item, size_t capacity);
/* "a,b": is it one of these? "^a,b": is it none of these? */
bool rt_list_allows(const char *list, const char *item);

/* The setting of that full name, or RT_SETTING_COUNT. */
enum rt_setting rt_setting_find(const char *name);

#endif
