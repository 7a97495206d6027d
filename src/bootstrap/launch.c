/*
 * What the launcher's environment says. Tried in the order of ringtree_init()'s description; the first that is there
 * wins, and a contradiction inside it is an error, never a reason to try the next.
 *
 * Where rank 0 listens:
 *   RINGTREE_ROOT   as it says.
 *   torchrun        MASTER_ADDR, and RINGTREE_PORT, or else MASTER_PORT + 1: torchrun's own store has MASTER_PORT.
 *   Slurm           the first node of the step, and RINGTREE_PORT, or else a port derived from job and step.
 *   Open MPI, Hydra on one machine a unix socket named after job and user; on several RINGTREE_ROOT must be set.
 */
#include "launch.h"
#include "base/log.h"
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS_MOST (1u << 20)

static const char *env(const char *name)
{
    const char *value = getenv(name);

    return value ? value : "";
}

ringtree_status rt_env_number(const char *name, uint64_t most, bool *found, uint64_t *number, struct rt_error *error)
{
    const char *text = env(name), *c = text;
    uint64_t sum = 0;

    *found = *text != '\0';
    for (; *c >= '0' && *c <= '9' && sum <= most; c++)
        sum = sum * 10 + (uint64_t)(*c - '0');
    *number = sum;
    if (*found && (*c != '\0' || sum > most))
        return rt_fail(error, RINGTREE_INVALID_SETTING, "%s is \"%.60s\": it must be a whole number from 0 to %" PRIu64,
                       name, text, most);
    return RINGTREE_OK;
}

/* A launcher's two variables: both or none. */
static ringtree_status rank_and_size(const char *rank_name, const char *size_name, bool *found,
                                     struct rt_launch *launch, struct rt_error *error)
{
    bool has_rank, has_size;
    uint64_t rank, size;

    ringtree_status status = rt_env_number(rank_name, RANKS_MOST - 1, &has_rank, &rank, error);
    if (!status)
        status = rt_env_number(size_name, RANKS_MOST, &has_size, &size, error);
    if (status)
        return status;
    *found = has_rank || has_size;
    if (!*found)
        return RINGTREE_OK;
    if (!has_rank || !has_size)
        return rt_fail(error, RINGTREE_INVALID_SETTING, "%s is set and %s is not: a rank needs both",
                       has_rank ? rank_name : size_name, has_rank ? size_name : rank_name);
    if (rank >= size)
        return rt_fail(error, RINGTREE_INVALID_SETTING, "%s is %" PRIu64 " and %s is %" PRIu64 ": a rank is 0 to size "
                       "- 1",
                       rank_name, rank, size_name, size);
    launch->rank = (uint32_t)rank;
    launch->nranks = (uint32_t)size;
    return RINGTREE_OK;
}

/* Everyone resolves `where`; rank 0 also listens there. A single rank needs neither. */
static ringtree_status meet_at(struct rt_launch *launch, const char *where, const char *origin, const char *job,
                               const struct rt_settings *settings, struct rt_error *error)
{
    char host[256];
    uint16_t port;

    ringtree_status status = rt_where_parse(where, origin, host, sizeof(host), &port, error);
    if (status || launch->nranks == 1)
        return status;
    if ((status = rt_launch_secret(&launch->meeting, job, settings, error)) != RINGTREE_OK)
        return status;
    if (launch->rank == 0)
        return rt_meeting_serve(&launch->meeting, where, settings, error);
    return rt_where_resolve(host, port, origin, launch->meeting.address, error);
}

/* Text of host and port, with brackets where IPv6 needs them. */
static void join_where(char *where, size_t capacity, const char *host, uint64_t port)
{
    snprintf(where, capacity, strchr(host, ':') ? "[%s]:%" PRIu64 : "%s:%" PRIu64, host, port);
}

/* ------------------------------------------------------------------ our own variables */

static ringtree_status from_id(struct rt_launch *launch, const struct rt_settings *settings, struct rt_error *error)
{
    const char *hex = settings->text[RT_ID];
    ringtree_id id;
    size_t count = 0;
    const char *end = hex;

    launch->launcher = "ringtree-run";
    if (sodium_init() < 0 || sodium_hex2bin(id.bytes, sizeof(id.bytes), hex, strlen(hex), NULL, &count, &end) ||
        count != sizeof(id.bytes) || *end != '\0')
        return rt_fail(error, RINGTREE_INVALID_SETTING, "RINGTREE_ID must be the %zu bytes of a ringtree_id in hex; "
                       "ringtree-run sets it", sizeof(id.bytes));
    if (!settings->given[RT_RANK] || !settings->given[RT_SIZE])
        return rt_fail(error, RINGTREE_INVALID_SETTING, "RINGTREE_ID is set and %s is not; ringtree-run sets them all",
                       settings->given[RT_RANK] ? "RINGTREE_SIZE" : "RINGTREE_RANK");
    struct rt_error why = { 0 };
    if (rt_meeting_from_id(&launch->meeting, &id, &why))
        return rt_fail(error, RINGTREE_INVALID_SETTING, "RINGTREE_ID: %s", why.text);
    return RINGTREE_OK;
}

static ringtree_status from_settings(struct rt_launch *launch, bool *found, const struct rt_settings *settings,
                                     struct rt_error *error)
{
    const bool has_id = settings->text[RT_ID][0] != '\0', has_root = settings->text[RT_ROOT][0] != '\0';
    const bool has_rank = settings->given[RT_RANK] != 0, has_size = settings->given[RT_SIZE] != 0;
    char job[RT_SETTING_TEXT + 40];

    *found = has_id || has_rank || has_size;
    if (!*found)
        return RINGTREE_OK;
    launch->rank = (uint32_t)settings->number[RT_RANK];
    launch->nranks = (uint32_t)settings->number[RT_SIZE];
    ringtree_status status = has_id ? from_id(launch, settings, error) : RINGTREE_OK;
    if (status)
        return status;
    if (!has_rank || !has_size)
        return rt_fail(error, RINGTREE_INVALID_SETTING, "%s is set and %s is not: a rank needs both",
                       has_rank ? "RINGTREE_RANK" : "RINGTREE_SIZE", has_rank ? "RINGTREE_SIZE" : "RINGTREE_RANK");
    if (launch->rank >= launch->nranks)
        return rt_fail(error, RINGTREE_INVALID_SETTING, "RINGTREE_RANK is %u and RINGTREE_SIZE is %u: a rank is 0 to "
                       "size - 1", launch->rank, launch->nranks);
    if (has_id)
        return RINGTREE_OK;
    launch->launcher = "RINGTREE_ROOT";
    if (launch->nranks == 1)
        return RINGTREE_OK;
    if (!has_root)
        return rt_fail(error, RINGTREE_INVALID_SETTING, "RINGTREE_RANK and RINGTREE_SIZE are set, but neither "
                       "RINGTREE_ID nor RINGTREE_ROOT: set RINGTREE_ROOT=host:port, where rank 0 runs");
    snprintf(job, sizeof(job), "RINGTREE_ROOT %s", settings->text[RT_ROOT]);
    return meet_at(launch, settings->text[RT_ROOT], "RINGTREE_ROOT", job, settings, error);
}

/* ------------------------------------------------------------------ other launchers */

static ringtree_status from_torchrun(struct rt_launch *launch, bool *found, const struct rt_settings *settings,
                                     struct rt_error *error)
{
    bool has_port;
    uint64_t port;
    char where[300], job[700];

    *found = *env("RANK") && *env("WORLD_SIZE");
    if (!*found)
        return RINGTREE_OK; /* RANK alone is a common name that need not be torchrun's */
    launch->launcher = "torchrun";
    ringtree_status status = rank_and_size("RANK", "WORLD_SIZE", found, launch, error);
    if (!status)
        status = rt_env_number("MASTER_PORT", 65534, &has_port, &port, error);
    if (status || launch->nranks == 1)
        return status;
    if (!*env("MASTER_ADDR") || (!has_port && !settings->number[RT_ROOT_PORT]))
        return rt_fail(error, RINGTREE_INVALID_SETTING, "RANK and WORLD_SIZE are set, and %s is not: torchrun sets "
                       "it, or set it to where rank 0 runs", *env("MASTER_ADDR") ? "MASTER_PORT" : "MASTER_ADDR");
    port = settings->number[RT_ROOT_PORT] ? settings->number[RT_ROOT_PORT] : port + 1;
    join_where(where, sizeof(where), env("MASTER_ADDR"), port);
    snprintf(job, sizeof(job), "torchrun %.200s %.60s restart %.20s", where, env("TORCHELASTIC_RUN_ID"),
             env("TORCHELASTIC_RESTART_COUNT"));
    return meet_at(launch, where, "MASTER_ADDR and MASTER_PORT", job, settings, error);
}

static ringtree_status from_slurm(struct rt_launch *launch, bool *found, const struct rt_settings *settings,
                                  struct rt_error *error)
{
    const char *list = *env("SLURM_STEP_NODELIST") ? env("SLURM_STEP_NODELIST") : env("SLURM_NODELIST");
    const char *size = *env("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    char host[256], where[300], job[160];

    *found = *env("SLURM_PROCID") && *env("SLURM_STEP_ID"); /* in a batch script alone, there is one process */
    if (!*found || strcmp(env("SLURM_STEP_ID"), "4294967291") == 0) { /* SLURM_BATCH_SCRIPT */
        *found = false;
        return RINGTREE_OK;
    }
    launch->launcher = "slurm";
    ringtree_status status = rank_and_size("SLURM_PROCID", size, found, launch, error);
    if (status || launch->nranks == 1)
        return status;
    snprintf(job, sizeof(job), "slurm job %.40s step %.40s", env("SLURM_JOB_ID"), env("SLURM_STEP_ID"));
    if (settings->text[RT_ROOT][0] != '\0')
        return meet_at(launch, settings->text[RT_ROOT], "RINGTREE_ROOT", job, settings, error);
    if (!rt_slurm_first_host(list, host, sizeof(host)))
        return rt_fail(error, RINGTREE_INVALID_SETTING, "SLURM_STEP_NODELIST is \"%.100s\": its first node cannot be "
                       "read; set RINGTREE_ROOT=host:port, where rank 0 runs", list);
    join_where(where, sizeof(where), host,
              settings->number[RT_ROOT_PORT] ? settings->number[RT_ROOT_PORT] : rt_launch_port(job));
    return meet_at(launch, where, "SLURM_STEP_NODELIST", job, settings, error);
}

/* mpirun and mpiexec: no address comes with them. On one machine the job's unix socket needs none. */
static ringtree_status meet_locally(struct rt_launch *launch, const char *job, uint64_t local_size,
                                    const char *size_name, const struct rt_settings *settings, struct rt_error *error)
{
    ringtree_status status = RINGTREE_OK;

    if (launch->nranks == 1)
        return RINGTREE_OK;
    if (settings->text[RT_ROOT][0] != '\0')
        return meet_at(launch, settings->text[RT_ROOT], "RINGTREE_ROOT", job, settings, error);
    if (local_size != launch->nranks)
        return rt_fail(error, RINGTREE_INVALID_SETTING, "%s started %u ranks, and %s says that %" PRIu64 " of them "
                       "are on this machine; for several machines set RINGTREE_ROOT=host:port, where rank 0 runs, on "
                       "all of them",
                       launch->launcher, launch->nranks, size_name, local_size);
    status = rt_launch_secret(&launch->meeting, job, settings, error);
    snprintf(launch->meeting.unix_name, sizeof(launch->meeting.unix_name), "ringtree-job-%016" PRIx64,
             launch->meeting.number);
    if (!status && launch->rank == 0)
        status = rt_meeting_serve(&launch->meeting, NULL, settings, error);
    return status;
}

static ringtree_status from_open_mpi(struct rt_launch *launch, bool *found, const struct rt_settings *settings,
                                     struct rt_error *error)
{
    bool has_local;
    uint64_t local;
    char job[300];

    launch->launcher = "open mpi";
    ringtree_status status = rank_and_size("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", found, launch, error);
    if (!status && *found)
        status = rt_env_number("OMPI_COMM_WORLD_LOCAL_SIZE", RANKS_MOST, &has_local, &local, error);
    if (status || !*found)
        return status;
    /* The parent is the daemon (or mpirun) that started all ranks of this machine; it tells two jobs apart. */
    snprintf(job, sizeof(job), "open mpi %.100s %.100s parent %ld", env("PMIX_NAMESPACE"),
             env("OMPI_MCA_ess_base_jobid"), settings->text[RT_ROOT][0] ? 0L : (long)getppid());
    return meet_locally(launch, job, local, "OMPI_COMM_WORLD_LOCAL_SIZE", settings, error);
}

static ringtree_status from_hydra(struct rt_launch *launch, bool *found, const struct rt_settings *settings,
                                  struct rt_error *error)
{
    bool has_local;
    uint64_t local;
    char job[300];

    launch->launcher = "mpich";
    ringtree_status status = rank_and_size("PMI_RANK", "PMI_SIZE", found, launch, error);
    if (!status && *found)
        status = rt_env_number("MPI_LOCALNRANKS", RANKS_MOST, &has_local, &local, error);
    if (status || !*found)
        return status;
    snprintf(job, sizeof(job), "mpich %.100s parent %ld", env("PMI_JOBID"),
             settings->text[RT_ROOT][0] ? 0L : (long)getppid());
    return meet_locally(launch, job, local, "MPI_LOCALNRANKS", settings, error);
}

/* What a reader of the log should know of this start. The communicator opens the log only later, and again. */
static ringtree_status tell_log(const struct rt_launch *launch, const struct rt_settings *settings,
                                struct rt_error *error)
{
    const bool carries_none = launch->nranks > 1 && settings->text[RT_ID][0] == '\0';

    ringtree_status status = rt_log_open(settings, launch->rank, error);
    if (status)
        return status;
    if (carries_none && settings->text[RT_SECRET_FILE][0] == '\0')
        rt_log(RT_LOG_WARN, "no secret: ranks are kept apart from other jobs by what %s says of this job, which a "
               "stranger on the network can guess; set RINGTREE_SECRET_FILE", launch->launcher);
    if (*env("SLURM_PROCID") && strcmp(launch->launcher, "slurm") != 0)
        rt_log(RT_LOG_INFO, "SLURM_PROCID is set and not used: %s; rank %u of %u (launcher: %s)",
               launch->nranks == 1 && strcmp(launch->launcher, "none") == 0
                   ? "this is the batch script, or SLURM_STEP_ID is missing; start ranks with srun"
                   : "another launcher's variables come first",
               launch->rank, launch->nranks, launch->launcher);
    rt_log_close();
    return RINGTREE_OK;
}

/* Nothing says which rank this is. That is a world of one, unless a root was named: then something is missing. */
static ringtree_status alone(struct rt_launch *launch, const struct rt_settings *settings, struct rt_error *error)
{
    *launch = (struct rt_launch){ .rank = 0, .nranks = 1, .launcher = "none" };
    if (settings->text[RT_ROOT][0] != '\0')
        return rt_fail(error, RINGTREE_INVALID_SETTING, "RINGTREE_ROOT is set, and nothing says which rank of how many "
                       "this is: set RINGTREE_RANK and RINGTREE_SIZE too, or start it with srun, mpirun or mpiexec");
    return RINGTREE_OK;
}

ringtree_status rt_launch_find(struct rt_launch *launch, const struct rt_settings *settings, struct rt_error *error)
{
    static ringtree_status (*const launchers[])(struct rt_launch *, bool *, const struct rt_settings *,
                                                struct rt_error *) = {
        from_settings, from_torchrun, from_slurm, from_open_mpi, from_hydra,
    };

    ringtree_status status = RINGTREE_OK;
    bool found = false;

    for (size_t i = 0; i < sizeof(launchers) / sizeof(*launchers) && !status && !found; i++) {
        memset(launch, 0, sizeof(*launch));
        status = launchers[i](launch, &found, settings, error);
    }
    if (!status && !found)
        status = alone(launch, settings, error);
    return status ? status : tell_log(launch, settings, error);
}
