/* The calls of a library that was loaded by name. */
#include "symbols.h"
#include <dlfcn.h>
#include <string.h>

bool rt_symbols_find(void *library, const struct rt_symbol *symbols, size_t count)
{
    bool complete = true;

    for (size_t i = 0; i < count; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        memcpy(symbols[i].slot, &symbol, sizeof(symbol)); /* ISO C has no cast between the two kinds of pointers */
        complete &= symbol != NULL;
    }
    return complete;
}
