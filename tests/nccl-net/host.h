/* NCCL's part of the test: loading the plugin, its log, and the calls as each version of the table has them. */
#ifndef RT_TEST_NCCL_HOST_H
#define RT_TEST_NCCL_HOST_H

#include "nccl-net/nccl_net.h"
#include "test.h"
#include <dlfcn.h>
#include <stdarg.h>

static char heard[1200], way[200]; /* the plugin's last warning; the last of its other lines */

static void logger(int level, unsigned long parts, const char *file, int line, const char *format, ...)
{
    va_list args;
    (void)parts, (void)file, (void)line;
    va_start(args, format);
    if (level == NCCL_LOG_WARN) vsnprintf(heard, sizeof(heard), format, args);
    else vsnprintf(way, sizeof(way), format, args);
    va_end(args);
}

static const struct nccl_net_table *table(int version)
{
    static void *library;
    char name[32];
    if (!library) library = dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL);
    snprintf(name, sizeof(name), "ncclNetPlugin_v%d", version);
    return library ? dlsym(library, name) : NULL;
}

/* ---- the calls as each version has them */

#define CALL(type, function) ((enum nccl_result(*) type)(function))

struct host {
    int                          version, device;
    const struct nccl_net_table *t;
};

static enum nccl_result host_init(struct host *h, int version)
{
    void *context = NULL;
    *h = (struct host){ version, 0, table(version) };
    if (version >= 11)
        return CALL((void **, uint64_t, void *, nccl_logger, void *), h->t->init)(&context, 7, NULL, logger, NULL);
    if (version == 10) return CALL((nccl_logger, void *), h->t->init)(logger, NULL);
    return CALL((nccl_logger), h->t->init)(logger);
}

static enum nccl_result host_listen(const struct host *h, void *handle, void **listener)
{
    if (h->version >= 11)
        return CALL((void *, int, void *, void **), h->t->listen)(NULL, h->device, handle, listener);
    return CALL((int, void *, void **), h->t->listen)(h->device, handle, listener);
}

static enum nccl_result host_connect(const struct host *h, void *handle, void **comm)
{
    void *device = NULL;
    if (h->version >= 11)
        return CALL((void *, int, void *, void **, void **), h->t->connect)(NULL, h->device, handle, comm, &device);
    if (h->version == 10)
        return CALL((int, void *, void *, void **, void **), h->t->connect)(h->device, NULL, handle, comm, &device);
    return CALL((int, void *, void **, void **), h->t->connect)(h->device, handle, comm, &device);
}

static enum nccl_result host_accept(const struct host *h, void *listener, void **comm)
{
    void *device = NULL;
    return CALL((void *, void **, void **), h->t->accept)(listener, comm, &device);
}

static enum nccl_result host_isend(const struct host *h, void *comm, void *data, size_t bytes, void **request)
{
    if (h->version >= 10)
        return CALL((void *, void *, size_t, int, void *, void *, void **), h->t->isend)(comm, data, bytes, 0, data,
                                                                                         NULL, request);
    if (h->version == 9)
        return CALL((void *, void *, size_t, int, void *, void **), h->t->isend)(comm, data, bytes, 0, data, request);
    return CALL((void *, void *, int, int, void *, void **), h->t->isend)(comm, data, (int)bytes, 0, data, request);
}

static enum nccl_result host_irecv(const struct host *h, void *comm, int n, void *data, size_t bytes, void **request)
{
    void *datas[8] = { data, data }, *mrs[8] = { data, data };
    size_t wide[8] = { bytes, bytes };
    int narrow[8] = { (int)bytes, (int)bytes }, tags[8] = { 0 };
    if (h->version >= 10)
        return CALL((void *, int, void **, size_t *, int *, void **, void **, void **),
                    h->t->irecv)(comm, n, datas, wide, tags, mrs, NULL, request);
    if (h->version == 9)
        return CALL((void *, int, void **, size_t *, int *, void **, void **), h->t->irecv)(comm, n, datas, wide, tags,
                                                                                            mrs, request);
    return CALL((void *, int, void **, int *, int *, void **, void **), h->t->irecv)(comm, n, datas, narrow, tags, mrs,
                                                                                     request);
}

static enum nccl_result host_test(const struct host *h, void *request, int *done, int *bytes)
{
    return CALL((void *, int *, int *), h->t->test)(request, done, bytes);
}

static void host_close(const struct host *h, void (*function)(void), void *what)
{
    (void)h;
    CHECK_EQ(CALL((void *), function)(what), NCCL_SUCCESS);
}

#endif
