/*
 * The result of an inspection as JSON.
 */
#ifndef OQ_API_INSPECT_H
#define OQ_API_INSPECT_H

#include "base/error.h"

/* Malloc'ed text (docs/report.md). */
enum onnxptq_status oq_inspection_write_json(const struct onnxptq_inspection *inspection,
                                             char **text, struct onnxptq_error *error) OQ_MUST_USE;

#endif
