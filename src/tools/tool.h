/* What the tools have in common: the one clear sentence before they end, and numbers on the command line. */
#ifndef TOOL_H
#define TOOL_H

#include <stdint.h>

#define EXIT_USAGE 2 /* of every tool; its sentence ends in where to read more */

_Noreturn void tool_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* From `least` to `most`, also with K, M or G; `what` names it in the sentence. */
uint64_t tool_number(const char *text, const char *what, uint64_t least, uint64_t most);

#endif
