/*
 * Which library an error of a run comes from.
 */
#ifndef OQ_API_BLAME_H
#define OQ_API_BLAME_H

#include "model/graph.h"
#include "runtime/runtime.h"

/* Adds to a message of the runtime that names a node of a user's library which one that is; returns
 * `status`. `graph` and `runtime` may be NULL. */
enum onnxptq_status oq_blame_library(const struct oq_graph *graph, const struct oq_runtime *runtime,
                                     enum onnxptq_status status, struct onnxptq_error *error);

#endif
