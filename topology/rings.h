/* The search within one machine, for search.c. */
#ifndef RT_RINGS_H
#define RT_RINGS_H

#include "site.h"

#define RT_LOOKS_PER_TRY 3000
#define RT_LOOKS_MOST    60000 /* of a machine: about a second at most */

/* With no channel in it. NULL: no memory. */
struct rt_rings *rt_rings_new(uint32_t nseats, uint32_t nports, uint32_t nchannels);

/* The best channels that are found. *rings is NULL after RINGTREE_OK when no ring of any speed exists. */
ringtree_status rt_rings_search(struct rt_rings **rings, struct rt_site *site, bool network, struct rt_error *error);

/* Again what all machines have, after rings were replaced. */
void rt_search_summarize(struct rt_search *search);

#endif
