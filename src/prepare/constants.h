/*
 * Constant subgraphs behind what quantization has to know the values of.
 */
#ifndef OQ_PREPARE_CONSTANTS_H
#define OQ_PREPARE_CONSTANTS_H

#include "prepare/preparation.h"

/* Weights, biases, parameters of a BatchNormalization behind a convolution and bounds of a Clip
 * behind such nodes become initializers where a constant subgraph computes them. Only these
 * readings change; nodes that nobody reads afterwards go. */
enum onnxptq_status oq_prepare_constants(struct oq_preparation *preparation,
                                         struct onnxptq_error *error) OQ_MUST_USE;

#endif
