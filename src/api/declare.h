/*
 * What a model declares of its inputs and outputs, read from the file: no session is needed to know
 * what to feed.
 */
#ifndef OQ_API_DECLARE_H
#define OQ_API_DECLARE_H

#include "model/graph.h"

/* What the model must be fed: graph inputs without an initializer, in order. Unknown dimensions are
 * -1; what is no tensor, or of unknown or excessive rank, has type UNDEFINED. In `arena`, names
 * borrowed from the model. */
enum onnxptq_status oq_declare_inputs(const struct oq_graph *graph, struct oq_arena *arena,
                                      const struct onnxptq_tensor **inputs, size_t *n,
                                      struct onnxptq_error *error) OQ_MUST_USE;
enum onnxptq_status oq_declare_outputs(const struct oq_graph *graph, struct oq_arena *arena,
                                       const struct onnxptq_tensor **outputs, size_t *n,
                                       struct onnxptq_error *error) OQ_MUST_USE;

#endif
