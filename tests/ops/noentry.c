/* A sound shared library that registers nothing: it has no entry point at all. */
#include "op_common.h"

OP_EXPORT int library_without_entry_point(void);

int library_without_entry_point(void) {
    return 1;
}
