/* Requests: counted parts, handed to the caller, waited for, kept in a pool so that a stale handle is recognised. */
#include "comm.h"
#include <stdlib.h>

ringtree_request *rt_request_new(ringtree_comm *comm, uint32_t parts)
{
    ringtree_request *request = comm->request_pool;
    if (request) {
        comm->request_pool = request->next;
    } else {
        request = calloc(1, sizeof *request);
        if (!request) return NULL;
        request->made = comm->requests;
        comm->requests = request;
    }
    request->comm = comm;
    request->pending = parts;
    request->status = RINGTREE_OK;
    request->held = NULL;
    request->live = RT_REQUEST_LIVE;
    return request;
}

void rt_request_free(ringtree_request *request)
{
    request->live = 0;
    request->next = request->comm->request_pool;
    request->comm->request_pool = request;
}

static ringtree_status finish(ringtree_request *request, ringtree_status status)
{
    ringtree_comm *comm = request->comm;
    rt_lent_back(request->held, status == RINGTREE_OK);
    request->held = NULL;
    if (status != RINGTREE_OK) status = rt_comm_failed(comm);
    if (request->pending == 0) rt_request_free(request);
    else request->live = 0; /* failed: parts of it are still listed in the engine, so it is not used again */
    return status;
}

ringtree_status rt_request_hand(ringtree_comm *comm, ringtree_request *request, ringtree_request **out)
{
    if (!out) return finish(request, rt_engine_wait(comm->engine, request));
    rt_engine_lock(comm->engine);
    rt_engine_progress(comm->engine);
    rt_engine_unlock(comm->engine);
    rt_engine_wake(comm->engine);
    *out = request;
    return RINGTREE_OK;
}

static ringtree_status check(ringtree_request **request, const char *call)
{
    if (!request) return rt_fail(rt_thread_error(), RINGTREE_INVALID_ARGUMENT, "%s: request is NULL", call);
    if (*request && (*request)->comm->live != rt_comm_live) return rt_comm_check((*request)->comm, call);
    if (*request && (*request)->live != RT_REQUEST_LIVE)
        return rt_fail(rt_thread_error(), RINGTREE_INVALID_ARGUMENT,
                       "%s: this request was finished before; a request can be waited for once", call);
    return RINGTREE_OK;
}

ringtree_status ringtree_wait(ringtree_request **request)
{
    ringtree_status status = check(request, "ringtree_wait");
    if (status != RINGTREE_OK || !*request) return status;
    status = finish(*request, rt_engine_wait((*request)->comm->engine, *request));
    *request = NULL;
    return status;
}

ringtree_status ringtree_test(ringtree_request **request)
{
    ringtree_status status = check(request, "ringtree_test");
    if (status != RINGTREE_OK || !*request) return status;
    status = rt_engine_test((*request)->comm->engine, *request);
    if (status == RINGTREE_IN_PROGRESS) return status;
    status = finish(*request, status);
    *request = NULL;
    return status;
}

ringtree_status ringtree_wait_all(ringtree_request **requests, size_t count)
{
    ringtree_status first = RINGTREE_OK;
    if (!requests && count)
        return rt_fail(rt_thread_error(), RINGTREE_INVALID_ARGUMENT, "ringtree_wait_all: requests is NULL");
    for (size_t i = 0; i < count; i++) {
        ringtree_status status = ringtree_wait(&requests[i]);
        if (first == RINGTREE_OK) first = status;
    }
    return first;
}
