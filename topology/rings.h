/* The search within one machine, for search.c. */
#ifndef RT_RINGS_H
#define RT_RINGS_H

#include "site.h"

/* A try ends after so many looks; after so many of all tries the rest are short, then only single rings are tried. A
 * look takes 1 to 20 us. */
#define RT_LOOKS_PER_TRY       3000
#define RT_LOOKS_PER_SHORT_TRY 200
#define RT_LOOKS_LONG          45000
#define RT_LOOKS_MOST          90000

/* With no channel in it. NULL: no memory. */
struct rt_rings *rt_rings_new(uint32_t nseats, uint32_t nports, uint32_t nchannels);

/* The best channels that are found. *rings is NULL after RINGTREE_OK when no ring of any speed exists. */
ringtree_status rt_rings_search(struct rt_rings **rings, struct rt_site *site, bool network, struct rt_error *error);

/* Again what all machines have, after rings were replaced. */
void rt_search_summarize(struct rt_search *search);

#endif
