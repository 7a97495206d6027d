/* Split: an all-gather of colours, a meeting per colour, a second all-gather of their ids, a new communicator each. */
#include "comm.h"
#include <stdlib.h>
#include <string.h>

struct choice {
    uint32_t color, key;
};

struct group {
    uint32_t size, rank, leader; /* leader: rank of the parent that serves the meeting */
};

static bool goes_before(const struct choice *all, uint32_t a, uint32_t b)
{
    return all[a].key != all[b].key ? all[a].key < all[b].key : a < b;
}

static struct group group_of(const struct choice *all, uint32_t nranks, uint32_t self)
{
    struct group group = { .leader = self };
    for (uint32_t r = 0; r < nranks; r++) {
        if (all[r].color != all[self].color) continue;
        group.size++;
        group.rank += r != self && goes_before(all, r, self);
        if (goes_before(all, r, group.leader)) group.leader = r;
    }
    return group;
}

struct invitation {
    ringtree_id id;
    uint32_t    status;
    char        text[400];
};

static void invite(ringtree_comm *comm, struct invitation *mine)
{
    struct rt_meeting meeting = { 0 };
    struct rt_error error;
    mine->status = rt_meeting_serve(&meeting, NULL, &comm->settings, &error);
    if (mine->status == RINGTREE_OK) rt_meeting_to_id(&meeting, &mine->id);
    else memcpy(mine->text, error.text, sizeof mine->text - 1);
}

#ifdef RINGTREE_FAULT_SWITCHES
/* RINGTREE_FAULT=split: the new communicator takes it that no transport carries anything. */
static void forget_carriers(ringtree_comm *made)
{
    struct rt_carrier_costs *costs = &made->engine->carriers;
    for (uint32_t t = 0; t < RT_CARRIERS && !strcmp(made->settings.text[RT_FAULT], "split"); t++)
        for (uint32_t d = 0; d < RT_DISTANCES; d++) costs->tried[t][d] = RT_TRIED_MUTE;
}
#else
#define forget_carriers(made) (void)(made)
#endif

/* Its links are as its parent's, so they are not measured again. */
static ringtree_status make(ringtree_comm *comm, const struct group *group, const struct rt_meeting *meeting,
                            ringtree_comm **result)
{
    const ringtree_options options = { sizeof options, comm->timeout_ms, comm->engine->progress_thread_runs };
    struct rt_settings *settings = malloc(sizeof *settings);
    if (!settings)
        return rt_fail(&comm->error, RINGTREE_NO_MEMORY, "rank %u: no memory for ringtree_split", comm->rank);
    *settings = comm->settings;
    ringtree_status status = rt_setting_set(settings, RT_CALIBRATE, "off", "ringtree_split", &comm->error);
    if (status == RINGTREE_OK)
        status = rt_comm_make(result, settings, meeting, group->rank, group->size, &options, &comm->error);
    if (status == RINGTREE_OK) {
        (*result)->planner.costs = comm->planner.costs;
        (*result)->engine->carriers = comm->engine->carriers;
        forget_carriers(*result);
        status = rt_carriers_choose((*result)->engine, &comm->error);
        if (status != RINGTREE_OK) rt_comm_drop(result, &comm->error);
    }
    free(settings);
    return status;
}

static ringtree_status join(ringtree_comm *comm, const struct group *group, const struct invitation *invitation,
                            ringtree_comm **result)
{
    struct rt_meeting meeting;
    if (invitation->status)
        return rt_fail(&comm->error, (ringtree_status)invitation->status, "ringtree_split: %.*s",
                       (int)sizeof invitation->text - 1, invitation->text);
    if (group->size > 1) {
        ringtree_status status = rt_meeting_from_id(&meeting, &invitation->id, &comm->error);
        if (status != RINGTREE_OK) return status;
    }
    return make(comm, group, group->size > 1 ? &meeting : NULL, result);
}

static ringtree_status split(ringtree_comm *comm, const struct choice *mine, struct choice *all,
                             struct invitation *invitations, ringtree_comm **result)
{
    ringtree_status status = rt_control_all_gather(comm->control, mine, sizeof *mine, all, &comm->error);
    if (status != RINGTREE_OK) return status;
    const bool takes_part = mine->color != RINGTREE_NO_COLOR;
    struct group group = { .leader = comm->rank };
    struct invitation invitation = { .status = RINGTREE_OK };
    if (takes_part) group = group_of(all, comm->nranks, comm->rank);
    if (takes_part && group.leader == comm->rank && group.size > 1) invite(comm, &invitation);
    status = rt_control_all_gather(comm->control, &invitation, sizeof invitation, invitations, &comm->error);
    if (status != RINGTREE_OK || !takes_part) return status;
    return join(comm, &group, &invitations[group.leader], result);
}

struct job {
    ringtree_comm       *comm;
    const struct choice *mine;
    struct choice       *all;
    struct invitation   *invitations;
    ringtree_comm      **result;
    ringtree_status      status;
};

static void job_run(void *context)
{
    struct job *job = context;
    job->status = split(job->comm, job->mine, job->all, job->invitations, job->result);
}

ringtree_status ringtree_split(ringtree_comm *comm, uint32_t color, uint32_t key, ringtree_comm **result)
{
    if (result) *result = NULL;
    ringtree_status status = rt_comm_check(comm, "ringtree_split");
    if (status != RINGTREE_OK) return status;
    if (!result || comm->grouping)
        return rt_fail(&comm->error, RINGTREE_INVALID_ARGUMENT, "ringtree_split on rank %u: %s", comm->rank,
                       result ? "not inside a group" : "result is NULL");
    const struct choice mine = { color, key };
    struct choice *all = calloc(comm->nranks, sizeof *all);
    struct invitation *invitations = calloc(comm->nranks, sizeof *invitations);
    struct rt_frame frame = { .sequence = ++comm->engine->sequence, .root = RT_NONE, .collective = RT_CALL_SPLIT };
    rt_engine_record(comm->engine, &frame);
    struct job job = { comm, &mine, all, invitations, result, RINGTREE_OK };
    if (all && invitations) rt_engine_beside(comm->engine, job_run, &job);
    else job.status = rt_fail(&comm->error, RINGTREE_NO_MEMORY, "rank %u: no memory for ringtree_split", comm->rank);
    free(all);
    free(invitations);
    rt_control_record_done(comm->control, frame.sequence);
    return job.status;
}
