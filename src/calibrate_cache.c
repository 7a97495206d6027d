/*
 * Where a measurement of links is kept: a file for each machine and placement, named by a hash of the line that
 * describes them:
 *
 *   ringtree calibration 1
 *   machine Intel(R) Xeon(R) Processor, 2 cores, Linux 6.18.0, ringtree 0.1.0, ...
 *   link shm 612000000 61000
 *   link tcp-network 15000000000 800000
 *   end
 *
 * Others may have written there: a file that is not ours alone to write, too long, cut off, of another machine or with
 * a number out of range is logged and passed over.
 */
#include "calibrate.h"
#include "base/log.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define FIRST_LINE "ringtree calibration 1\n"
#define FILE_MOST  2048
#define LEAST_FS   UINT64_C(1)
#define MOST_FS    UINT64_C(10000000000000000) /* 10 s */

/* ---- the line */

static void find_processor(char *name, size_t capacity)
{
    char line[256];
    FILE *in = fopen("/proc/cpuinfo", "re");
    snprintf(name, capacity, "processor");
    while (in && fgets(line, sizeof line, in)) {
        const char *colon = strncmp(line, "model name", 10) ? NULL : strchr(line, ':');
        if (!colon) continue;
        snprintf(name, capacity, "%.*s", (int)strcspn(colon + 1 + strspn(colon + 1, " "), "\n"),
                 colon + 1 + strspn(colon + 1, " "));
        break;
    }
    if (in) fclose(in);
    for (char *c = name; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?';
}

void rt_fingerprint(const ringtree_comm *comm, char line[RT_FINGERPRINT_MOST])
{
    const struct rt_sites *s = &comm->planner.sites;
    struct utsname system;
    char processor[128];
    find_processor(processor, sizeof processor);
    if (uname(&system) < 0) strcpy(system.release, "?");
    snprintf(line, RT_FINGERPRINT_MOST,
             "%s, %u cores, Linux %.64s, ringtree %s, table %016" PRIx64 ", transports %.60s, %u ranks on %u nodes, at "
             "most %u on one, %u on the most crowded machine, %s inside, %s between by %.15s", processor, s->cores,
             system.release, ringtree_version(), rt_costs_hash(&comm->planner.costs),
             comm->settings.text[RT_TRANSPORTS], s->ranks, s->nodes, s->local, s->crowd,
             rt_link_kind_name((enum rt_link_kind)s->inside), rt_link_kind_name((enum rt_link_kind)s->between),
             rt_control_places(comm->control)[0].address[0].interface);
}

/* ---- the text */

static bool take_number(const char **at, const char *end, uint64_t *number)
{
    const char *start = *at;
    for (*number = 0; *at < end && **at >= '0' && **at <= '9' && *number <= MOST_FS; ++*at)
        *number = *number * 10 + (uint64_t)(**at - '0');
    return *at > start && *number >= LEAST_FS && *number <= MOST_FS;
}

static bool take_text(const char **at, const char *end, const char *text)
{
    const size_t length = strlen(text);
    if ((size_t)(end - *at) < length || memcmp(*at, text, length)) return false;
    *at += length;
    return true;
}

static bool take_link(const char **at, const char *end, struct rt_calibration *found)
{
    char name[32];
    for (uint32_t i = 0; i < RT_MEASURED; i++) {
        const char *here = *at;
        if (!take_text(&here, end, rt_measured_name(i, name)) || !take_text(&here, end, " ")) continue;
        if (found->latency_fs[i] || !take_number(&here, end, &found->latency_fs[i])) return false;
        if (!take_text(&here, end, " ") || !take_number(&here, end, &found->byte_fs[i])) return false;
        *at = here;
        return take_text(at, end, "\n");
    }
    return false;
}

bool rt_calibration_parse(const char *text, size_t length, const char *what, struct rt_calibration *found)
{
    const char *at = text, *end = text + length;
    struct rt_calibration read = { { 0 }, { 0 } };
    memset(found, 0, sizeof *found);
    if (length > FILE_MOST || !take_text(&at, end, FIRST_LINE "machine ")) return false;
    if (!take_text(&at, end, what) || !take_text(&at, end, "\n")) return false;
    while (take_text(&at, end, "link "))
        if (!take_link(&at, end, &read)) return false;
    if (!take_text(&at, end, "end\n") || at != end) return false;
    *found = read;
    return true;
}

/* ---- the file */

static bool find_directory(const struct rt_settings *settings, char *path, size_t capacity)
{
    const char *given = settings->text[RT_CACHE_DIR], *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (given[0]) n = snprintf(path, capacity, "%s", given);
    else if (xdg && xdg[0] == '/') n = snprintf(path, capacity, "%s/ringtree", xdg);
    else if (home && home[0] == '/') n = snprintf(path, capacity, "%s/.cache/ringtree", home);
    return n > 0 && (size_t)n < capacity;
}

static bool find_path(const struct rt_settings *settings, const char *what, char *path, size_t capacity)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (const char *c = what; *c; c++) hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    if (!find_directory(settings, path, capacity)) return false;
    const size_t used = strlen(path);
    const int n = snprintf(path + used, capacity - used, "/links-%016" PRIx64, hash);
    return n > 0 && (size_t)n < capacity - used;
}

/* Why the file may not be believed; NULL: it may. */
static const char *mistrust(int fd)
{
    struct stat info;
    if (fstat(fd, &info) < 0 || !S_ISREG(info.st_mode)) return "it is not a regular file";
    if (info.st_uid != geteuid()) return "it belongs to somebody else";
    if (info.st_mode & (S_IWGRP | S_IWOTH)) return "others may write it";
    return info.st_size > FILE_MOST ? "it is too long" : NULL;
}

bool rt_calibration_load(const struct rt_settings *settings, const char *what, struct rt_calibration *found)
{
    char path[1024], text[FILE_MOST + 1];
    if (!find_path(settings, what, path, sizeof path)) return false;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        if (errno != ENOENT) rt_log(RT_LOG_WARN, "%s: not used: %s", path, rt_errno_words(errno));
        return false;
    }
    const char *why = mistrust(fd);
    const ssize_t length = why ? 0 : read(fd, text, sizeof text);
    close(fd);
    if (!why && (length < 0 || !rt_calibration_parse(text, (size_t)length, what, found)))
        why = "its contents are not what was written for this machine";
    if (why) rt_log(RT_LOG_WARN, "%s: not used, links are measured instead: %s", path, why);
    return !why;
}

static bool make_directories(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        const bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        *slash = '/';
        if (!made) return false;
    }
    return true;
}

static bool write_file(int fd, const char *what, const struct rt_calibration *found)
{
    FILE *out = fdopen(fd, "w");
    if (!out) return close(fd), false;
    fprintf(out, FIRST_LINE "machine %s\n", what);
    char name[32];
    for (uint32_t i = 0; i < RT_MEASURED; i++)
        if (found->latency_fs[i] && found->byte_fs[i])
            fprintf(out, "link %s %" PRIu64 " %" PRIu64 "\n", rt_measured_name(i, name), found->latency_fs[i],
                    found->byte_fs[i]);
    fputs("end\n", out);
    const bool written = fflush(out) == 0 && !ferror(out);
    return fclose(out) == 0 && written;
}

void rt_calibration_store(const struct rt_settings *settings, const char *what, const struct rt_calibration *found)
{
    char path[1024], fresh[1040];
    uint64_t any = 0;
    for (uint32_t i = 0; i < RT_MEASURED; i++) any |= found->latency_fs[i];
    if (!any) return;
    if (!find_path(settings, what, path, sizeof path)) return;
    snprintf(fresh, sizeof fresh, "%s.XXXXXX", path);
    const int fd = make_directories(path) ? mkostemp(fresh, O_CLOEXEC) : -1; /* mode 0600 */
    if (fd >= 0 && write_file(fd, what, found) && rename(fresh, path) == 0) return;
    rt_log(RT_LOG_INFO, "%s: the measurement of links could not be kept: %s", path, rt_errno_words(errno));
    if (fd >= 0) unlink(fresh);
}
