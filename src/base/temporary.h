/*
 * Temporary files beside the files they will become: their names, and how a file that a killed
 * process left behind is told from one that is being written. Used by writer.c.
 *
 * Every temporary file is locked (flock) by its writer. The system drops the lock when the process
 * ends, however it ends, so a file without a lock has no writer. Unlike a process id in the name
 * that holds across containers and machines that share the folder, and ids are reused.
 */
#ifndef OQ_BASE_TEMPORARY_H
#define OQ_BASE_TEMPORARY_H

#include "base/error.h"

/* Creates `<path>.<process>.<8 hexadecimal digits>.tmp`, a long name cut, and locks it. `name` is
 * malloc'ed. */
enum onnxptq_status oq_temporary_open(const char *path, char **name, int *file,
                                      struct onnxptq_error *error) OQ_MUST_USE;

/* Removes the temporary files of `path`, where a link is followed, that no writer holds any more.
 * What cannot be read or removed stays: a later call may succeed. */
void oq_temporary_remove_stale(const char *path);

#endif
