/*
 * Preparing a model: what quantization needs of it beyond what every ONNX model has. Edits are the
 * smallest possible, made on a clone, and each is one function of the table in prepare.c.
 */
#ifndef OQ_PREPARE_PREPARE_H
#define OQ_PREPARE_PREPARE_H

#include "model/graph.h"

/* Version of the default domain that per-channel DequantizeLinear needs. */
#define OQ_MINIMUM_OPSET 13

/* `*prepared` is a new model, or NULL when the model of `graph` can be used as it is.
 * ONNXPTQ_ERROR_UNSUPPORTED when it cannot be prepared. */
enum onnxptq_status oq_prepare(const struct oq_graph *graph, struct oq_model **prepared,
                               struct onnxptq_error *error) OQ_MUST_USE;

#endif
