/*
 * The log: one line, one write, so that lines of many processes in one file stay whole.
 * Process wide and counted: the first communicator opens it, the last closes it.
 */
#include "log.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PATH_CAPACITY 1024
#define LINE_CAPACITY 2048

static struct {
    pthread_mutex_t lock;
    unsigned        openers;
    unsigned        generation; /* of openings: tells a thread's old rank from a present one */
    atomic_int      level; /* 0: closed or off; read without the lock */
    int             fd;
    bool            owns_fd;
    uint32_t        rank;
    bool            many_ranks; /* threads of this process are different ranks */
    char            host[65];
} the_log = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };

/* The rank that the calling thread is, valid in that generation. */
static _Thread_local struct {
    unsigned generation;
    uint32_t rank;
} this_thread;

static const char *const level_names[] = { "off", "error", "warn", "info", "debug" };

static int level_of(const char *name)
{
    for (int i = RT_LOG_ERROR; i <= RT_LOG_DEBUG; i++)
        if (strcmp(name, level_names[i]) == 0)
            return i;
    return 0;
}

/* Replaces %h, %p, %r and %% of `pattern`. */
static ringtree_status expand_path(const char *pattern, char *path, size_t capacity, struct rt_error *error)
{
    size_t used = 0;

    for (const char *c = pattern; *c; c++) {
        char part[80] = { *c, '\0' };
        if (*c == '%') {
            switch (*++c) {
            case 'h': snprintf(part, sizeof(part), "%s", the_log.host); break;
            case 'p': snprintf(part, sizeof(part), "%ld", (long)getpid()); break;
            case 'r': snprintf(part, sizeof(part), "%" PRIu32, the_log.rank); break;
            case '%': break;
            default:
                return rt_fail(error, RINGTREE_INVALID_SETTING,
                               "RINGTREE_LOG_FILE is \"%s\": after %% comes h (host), p (process), r (rank) or %%",
                               pattern);
            }
        }
        size_t length = strlen(part);
        if (used + length >= capacity)
            return rt_fail(error, RINGTREE_INVALID_SETTING, "RINGTREE_LOG_FILE is \"%s\": the path is too long",
                           pattern);
        memcpy(path + used, part, length + 1);
        used += length;
    }
    return RINGTREE_OK;
}

static ringtree_status open_output(const char *pattern, struct rt_error *error)
{
    char path[PATH_CAPACITY] = "";

    the_log.fd = STDERR_FILENO;
    the_log.owns_fd = false;
    if (pattern[0] == '\0')
        return RINGTREE_OK;
    ringtree_status status = expand_path(pattern, path, sizeof(path), error);
    if (status)
        return status;
    /* O_NONBLOCK: a named pipe without a reader is an error here rather than a wait. */
    the_log.fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0644);
    if (the_log.fd < 0)
        return rt_fail_errno(error, "log file \"%s\" (RINGTREE_LOG_FILE) cannot be opened", path);
    the_log.owns_fd = true;
    return RINGTREE_OK;
}

static ringtree_status open_first(const struct rt_settings *settings, uint32_t rank, struct rt_error *error)
{
    const int level = level_of(settings->text[RT_LOG]);

    the_log.rank = rank;
    the_log.many_ranks = false;
    the_log.generation++;
    if (gethostname(the_log.host, sizeof(the_log.host) - 1) < 0)
        strcpy(the_log.host, "?");
    ringtree_status status = level ? open_output(settings->text[RT_LOG_FILE], error) : RINGTREE_OK;
    if (status == RINGTREE_OK)
        atomic_store_explicit(&the_log.level, level, memory_order_relaxed);
    return status;
}

/* A thread keeps its first rank: later communicators of it are parts of the first. */
static void note_thread(uint32_t rank)
{
    if (this_thread.generation == the_log.generation)
        return;
    this_thread.generation = the_log.generation;
    this_thread.rank = rank;
    if (rank != the_log.rank)
        the_log.many_ranks = true;
}

void rt_log_thread(uint32_t rank)
{
    pthread_mutex_lock(&the_log.lock);
    if (the_log.openers > 0)
        note_thread(rank);
    pthread_mutex_unlock(&the_log.lock);
}

ringtree_status rt_log_open(const struct rt_settings *settings, uint32_t rank, struct rt_error *error)
{
    ringtree_status status = RINGTREE_OK;

    pthread_mutex_lock(&the_log.lock);
    if (the_log.openers == 0)
        status = open_first(settings, rank, error);
    if (status == RINGTREE_OK) {
        the_log.openers++;
        note_thread(rank);
    }
    pthread_mutex_unlock(&the_log.lock);
    return status;
}

void rt_log_close(void)
{
    pthread_mutex_lock(&the_log.lock);
    if (the_log.openers > 0 && --the_log.openers == 0) {
        atomic_store_explicit(&the_log.level, 0, memory_order_relaxed);
        if (the_log.owns_fd)
            close(the_log.fd);
        the_log.fd = -1;
        the_log.owns_fd = false;
    }
    pthread_mutex_unlock(&the_log.lock);
}

static void write_rank(char *text, size_t capacity)
{
    const bool known = this_thread.generation == the_log.generation;

    if (known || !the_log.many_ranks)
        snprintf(text, capacity, "%" PRIu32, known ? this_thread.rank : the_log.rank);
    else
        strcpy(text, "?");
}

static size_t write_head(char *line, size_t capacity, enum rt_log_level level)
{
    struct timespec now;
    struct tm calendar;
    char when[32], rank[16];

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &calendar);
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &calendar);
    write_rank(rank, sizeof(rank));
    int length = snprintf(line, capacity, "%s.%06ldZ %s %ld rank %s %s: ", when, now.tv_nsec / 1000, the_log.host,
                          (long)getpid(), rank, level_names[level]);
    return (size_t)length;
}

/* A line that cannot be written is lost: a log must not stop the program, nor kill it by a closed pipe. */
static void write_line(int fd, const char *line, size_t length)
{
    sigset_t pipe_signal, before, pending;
    const struct timespec no_wait = { 0, 0 };

    sigpending(&pending);
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    while (write(fd, line, length) < 0) {
        if (errno == EINTR)
            continue;
        if (errno == EPIPE && !sigismember(&pending, SIGPIPE))
            sigtimedwait(&pipe_signal, NULL, &no_wait);
        break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* What is logged may quote bytes from outside; it stays one line. Returns the length with its newline. */
static size_t finish_line(char *line, size_t length, size_t capacity)
{
    if (length > capacity - 2)
        length = capacity - 2;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
            line[i] = ' ';
    line[length] = '\n';
    return length + 1;
}

void rt_log(enum rt_log_level level, const char *format, ...)
{
    const int saved = errno;
    char line[LINE_CAPACITY];
    va_list args;

    if (level < RT_LOG_ERROR || (int)level > atomic_load_explicit(&the_log.level, memory_order_relaxed))
        return;
    pthread_mutex_lock(&the_log.lock);
    if (the_log.fd >= 0) {
        size_t length = write_head(line, sizeof(line), level);
        va_start(args, format);
        int text = vsnprintf(line + length, sizeof(line) - length, format, args);
        va_end(args);
        length = finish_line(line, length + (text > 0 ? (size_t)text : 0), sizeof(line));
        write_line(the_log.fd, line, length);
    }
    pthread_mutex_unlock(&the_log.lock);
    errno = saved;
}
