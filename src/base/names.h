/* Names for sentences and tables that are not public. */
#ifndef RT_NAMES_H
#define RT_NAMES_H

#include <ringtree/ringtree.h>

/* "sum", "prod", "max", "min", "avg"; every other value is a handle of ringtree_op_premul_sum(): "premul_sum". */
const char *rt_op_name(ringtree_op op);

#endif
