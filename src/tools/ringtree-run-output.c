/*
 * Ranks' output, line by line: a line is held until its newline has come, so lines of different ranks never mix.
 * Bytes are passed on as they are, NUL included. A line longer than LONGEST_LINE is broken there; a last line without
 * newline gets one, as the next rank's prefix has to begin a line.
 */
#include "ringtree-run.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_LINE   ((size_t)4096)
#define LONGEST_LINE ((size_t)1 << 20)

/* Writes all, attending to ranks and signals while the reader is slow. A pipe that polls writable takes PIPE_BUF bytes
 * without blocking, hence the pieces. */
static void emit(struct run *run, int fd, const char *data, size_t bytes)
{
    while (bytes && !run->output_lost) {
        struct pollfd waits[2] = { { .fd = fd, .events = POLLOUT }, { .fd = run->signal_fd, .events = POLLIN } };
        uint64_t end_ns = run->timed_out ? run->abandon_ns : 0; /* else the reader may take its time */
        if (end_ns && run_now_ns() >= end_ns) return;
        int ready = poll(waits, 2, run_attend_within_ms(run, end_ns));
        if (ready <= 0 || !waits[0].revents) {
            run_attend(run);
            continue;
        }
        ssize_t done = write(fd, data, bytes < PIPE_BUF ? bytes : PIPE_BUF);
        if (done < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (done < 0) {
            run->output_lost = true;
            run_stop(run);
            return;
        }
        data += done;
        bytes -= (size_t)done;
    }
}

static bool is_coloured(int fd)
{
    const char *terminal = getenv("TERM"), *off = getenv("NO_COLOR");
    return isatty(fd) && !(off && *off) && !(terminal && !strcmp(terminal, "dumb"));
}

/* "[ 3] ", as wide for all ranks. */
static size_t prefix_text(const struct run *run, uint32_t rank, int fd, char *text, size_t capacity)
{
    int digits = snprintf(NULL, 0, "%u", run->options->ranks - 1), length;
    if (is_coloured(fd)) length = snprintf(text, capacity, "\033[%um[%*u]\033[0m ", 31 + rank % 6, digits, rank);
    else length = snprintf(text, capacity, "[%*u] ", digits, rank);
    return (size_t)length;
}

static void emit_line(struct run *run, uint32_t rank, int which, const char *line, size_t bytes)
{
    char prefix[48];
    emit(run, 1 + which, prefix, prefix_text(run, rank, 1 + which, prefix, sizeof(prefix)));
    emit(run, 1 + which, line, bytes);
    if (!bytes || line[bytes - 1] != '\n') emit(run, 1 + which, "\n", 1);
}

static void emit_lines(struct run *run, uint32_t rank, int which)
{
    struct run_stream *stream = &run->ranks[rank].out[which];
    char *at = stream->line, *end = at + stream->used, *newline;
    while (at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
        emit_line(run, rank, which, at, (size_t)(newline + 1 - at));
        at = newline + 1;
    }
    stream->used = (size_t)(end - at);
    memmove(stream->line, at, stream->used);
}

/* Room for more; a line that cannot grow is broken. */
static void make_room(struct run *run, uint32_t rank, int which)
{
    struct run_stream *stream = &run->ranks[rank].out[which];
    if (stream->used < stream->capacity) return;
    size_t wanted = stream->capacity ? 2 * stream->capacity : FIRST_LINE;
    char *grown = wanted <= LONGEST_LINE ? realloc(stream->line, wanted) : NULL;
    if (grown) {
        stream->line = grown;
        stream->capacity = wanted;
    } else {
        emit_line(run, rank, which, stream->line, stream->used);
        stream->used = 0;
    }
}

bool run_stream_read(struct run *run, uint32_t rank, int which)
{
    struct run_stream *stream = &run->ranks[rank].out[which];
    make_room(run, rank, which);
    if (!stream->capacity) return false;
    ssize_t got = read(stream->fd, stream->line + stream->used, stream->capacity - stream->used);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    stream->used += (size_t)got;
    emit_lines(run, rank, which);
    return true;
}

void run_stream_end(struct run *run, uint32_t rank, int which)
{
    struct run_stream *stream = &run->ranks[rank].out[which];
    if (stream->used) emit_line(run, rank, which, stream->line, stream->used);
    free(stream->line);
    close(stream->fd);
    *stream = (struct run_stream){ .fd = -1 };
}
