/*
 * State files: a calibration that is not over, to be gone on with after the process was killed, or
 * shared by several. Each is a ranges file that also tells which run of the model it belongs to and
 * which of the samples it has seen. "<path>" is that of a process alone, or what several left
 * behind once joined; "<path>.1" and so on are those of processes that share the samples.
 */
#ifndef OQ_API_STATE_H
#define OQ_API_STATE_H

#include "api/ranges.h"

#define OQ_STATE_MAX_PARTS 1024

/* malloc'ed; NULL when out of memory. */
char *oq_state_part_path(const char *path, size_t part);

/* Reads one file; NULL when it is not there. */
enum onnxptq_status oq_state_read(const char *path, struct oq_ranges **out,
                                  struct onnxptq_error *error) OQ_MUST_USE;
/* "<path>" and all parts as one. */
enum onnxptq_status oq_state_read_all(const char *path, struct oq_ranges **out,
                                      struct onnxptq_error *error) OQ_MUST_USE;

/* Which runs are done: a bit each, four to a hexadecimal digit, the lowest first. malloc'ed text of
 * none; NULL when out of memory. */
char *oq_state_done_create(size_t n_runs);
bool oq_state_is_done(const char *done, size_t run);
void oq_state_mark_done(char *done, size_t run);

#endif
