/*
 * The arithmetic of folding a BatchNormalization into a convolution.
 */
#ifndef OQ_PREPARE_FOLD_H
#define OQ_PREPARE_FOLD_H

#include "prepare/spill.h"

#define OQ_NORM_INPUTS 5 /* X, scale, B, mean, variance */

struct oq_fold {
    const struct oq_model *model;
    const Onnx__TensorProto *weight;
    const Onnx__TensorProto *bias;                 /* NULL: none */
    const Onnx__TensorProto *norm[OQ_NORM_INPUTS]; /* [0] is not used */
    bool transposed; /* a ConvTranspose: weights are (in, out / groups, ...), else (out, ...) */
    int64_t groups;
    float epsilon;

    struct oq_spilled new_weight, new_bias; /* results */
};

/* Fills new_weight and new_bias, in the type of the weight. `*exact` false: the parts do not fit
 * each other, or the result cannot be represented, and nothing is to be folded. */
enum onnxptq_status oq_fold_compute(struct oq_fold *fold, struct oq_spill *spill, bool *exact,
                                    struct onnxptq_error *error) OQ_MUST_USE;

#endif
