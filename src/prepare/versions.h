/*
 * Versions of a model: the opset that quantization needs, and the IR that goes with the edits.
 */
#ifndef OQ_PREPARE_VERSIONS_H
#define OQ_PREPARE_VERSIONS_H

#include "prepare/preparation.h"

/* Raises the default domain to the version that is asked for, converting what changed on the way.
 */
enum onnxptq_status oq_prepare_opset(struct oq_preparation *preparation,
                                     struct onnxptq_error *error) OQ_MUST_USE;

/* Up to IR version 3 every initializer is an input of the graph too. A model with new ones becomes
 * version 4, where inputs of the kind are defaults that a caller may replace: they leave the list,
 * since they were constants. */
enum onnxptq_status oq_prepare_ir(struct oq_preparation *preparation, struct onnxptq_error *error)
    OQ_MUST_USE;

#endif
