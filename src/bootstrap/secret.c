/* Secrets for launchers that carry none. */
#include "bytes.h"
#include "launch.h"
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_LEAST 16 /* bytes: a shorter secret can be guessed */
#define FILE_MOST  4096

/* At most FILE_MOST bytes of a file that only its owner can read. */
static ringtree_status read_private(const char *path, uint8_t *bytes, size_t *count, struct rt_error *error)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return rt_fail(error, RINGTREE_INVALID_SETTING, "RINGTREE_SECRET_FILE is \"%s\": it cannot be opened: %s", path,
                       rt_errno_words(errno));
    ringtree_status status = RINGTREE_OK;
    if (fstat(fd, &info) || !S_ISREG(info.st_mode))
        status = rt_fail(error, RINGTREE_INVALID_SETTING, "RINGTREE_SECRET_FILE is \"%s\": it is not a file", path);
    else if (info.st_mode & (S_IRWXG | S_IRWXO))
        status = rt_fail(error, RINGTREE_INVALID_SETTING, "RINGTREE_SECRET_FILE is \"%s\": other users may open it "
                         "(mode %03o); run chmod 600 %s", path, info.st_mode & 0777, path);
    ssize_t got = status ? 0 : read(fd, bytes, FILE_MOST);
    close(fd);
    if (!status && got < FILE_LEAST)
        return rt_fail(error, RINGTREE_INVALID_SETTING, "RINGTREE_SECRET_FILE is \"%s\": it holds less than %d bytes; "
                       "make one with: head -c 32 /dev/urandom > %s", path, FILE_LEAST, path);
    *count = (size_t)(got > 0 ? got : 0);
    return status;
}

ringtree_status rt_launch_secret(struct rt_meeting *meeting, const char *job, const struct rt_settings *settings,
                                 struct rt_error *error)
{
    static const char purpose[] = "ringtree launch secret";
    uint8_t bytes[FILE_MOST] = { 0 }, sum[24];
    size_t count = 0;
    crypto_generichash_state state;
    const char *path = settings->text[RT_SECRET_FILE];
    char owner[32];

    if (sodium_init() < 0)
        return rt_fail(error, RINGTREE_SYSTEM, "libsodium finds no source of random numbers");
    if (path[0] != '\0') {
        ringtree_status status = read_private(path, bytes, &count, error);
        if (status)
            return status;
    }
    snprintf(owner, sizeof(owner), "uid %u", (unsigned)getuid());
    crypto_generichash_init(&state, NULL, 0, sizeof(sum));
    crypto_generichash_update(&state, (const uint8_t *)purpose, sizeof(purpose));
    crypto_generichash_update(&state, (const uint8_t *)job, strlen(job) + 1);
    if (count)
        crypto_generichash_update(&state, bytes, count);
    else
        crypto_generichash_update(&state, (const uint8_t *)owner, strlen(owner));
    crypto_generichash_final(&state, sum, sizeof(sum));
    memcpy(meeting->secret, sum, 16);
    meeting->number = rt_get_u64(sum + 16);
    sodium_memzero(bytes, sizeof(bytes));
    return RINGTREE_OK;
}

uint16_t rt_launch_port(const char *job)
{
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (const char *c = job; *c; c++)
        hash = (hash ^ (uint8_t)*c) * 16777619u;
    return (uint16_t)(20000 + hash % 10000);
}
