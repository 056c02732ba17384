/*
 * BatchNormalization folded into the convolution before it.
 */
#ifndef OQ_PREPARE_BATCH_NORM_H
#define OQ_PREPARE_BATCH_NORM_H

#include "prepare/preparation.h"

/* Folds where the result is the same function: Conv or ConvTranspose with constant parameters, read
 * by nothing but a BatchNormalization in inference form with constant parameters, in the same
 * graph. Per output channel c, with s = scale / sqrt(variance + epsilon):
 *
 *   weight'[c] = weight[c] * s        bias'[c] = (bias[c] - mean) * s + B
 *
 * in double, rounded once. The convolution takes over the name of the result. Nodes that the user
 * excluded stay apart. */
enum onnxptq_status oq_prepare_batch_norm(struct oq_preparation *preparation,
                                          struct onnxptq_error *error) OQ_MUST_USE;

#endif
