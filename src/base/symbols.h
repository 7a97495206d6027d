/* Libraries that are loaded by name when they are there, so that who links ringtree need not link them. */
#ifndef RT_SYMBOLS_H
#define RT_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>

struct rt_symbol {
    const char *name;
    void       *slot; /* the address of a function pointer */
};

/* Fills the slots from an open library; those of calls that it lacks become NULL, and the answer false. */
bool rt_symbols_find(void *library, const struct rt_symbol *symbols, size_t count);

#endif
