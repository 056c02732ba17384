/*
 * Loading a shared library so that a failure names its plain reason: no such file, a folder, an
 * empty file, ...
 */
#ifndef OQ_RUNTIME_LIBRARY_H
#define OQ_RUNTIME_LIBRARY_H

#include "base/file.h"

#define OQ_LIBRARY_REASON_SIZE 1024

/* `path` is absolute: a name without a slash would be searched elsewhere, an empty one would load
 * the program itself. NULL: `reason` says why. */
void *oq_library_load(const char *path, char reason[OQ_LIBRARY_REASON_SIZE]);

#endif
