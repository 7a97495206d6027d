/* The inside of rt_launch_find(): one function per launcher, and where secrets come from. */
#ifndef RT_LAUNCH_H
#define RT_LAUNCH_H

#include "meeting.h"

/* An environment variable that must be a number. `found` false: it is not set (or empty). */
ringtree_status rt_env_number(const char *name, uint64_t most, bool *found, uint64_t *number, struct rt_error *error);

/* The first host of a Slurm node list: "node[07-09,12],login" gives "node07". False: malformed or too long. */
bool rt_slurm_first_host(const char *list, char *host, size_t capacity);

/*
 * The meeting's secret and number: from RINGTREE_SECRET_FILE, else derived from `job`, which says what makes this job
 * different from others. That keeps jobs apart; it stops nobody who can guess it.
 */
ringtree_status rt_launch_secret(struct rt_meeting *meeting, const char *job, const struct rt_settings *settings,
                                 struct rt_error *error);

/* A port between 20000 and 29999, below the range of outgoing connections, for what `job` says. */
uint16_t rt_launch_port(const char *job);

#endif
