/*
 * The body of a local function as nodes of a graph, for one call.
 */
#ifndef OQ_PREPARE_INSTANTIATE_H
#define OQ_PREPARE_INSTANTIATE_H

#include "prepare/preparation.h"

struct oq_instance {
    Onnx__NodeProto **nodes;
    size_t n_nodes;
    Onnx__ValueInfoProto **infos; /* of inner tensors that the function describes */
    size_t n_infos;
};

/* Copies the body: formal inputs and outputs take the names of the call's, everything else a new
 * one; attributes that refer to the call's get its values, or the function's defaults, or go. Nodes
 * inherit the call's origin. The result lies in the model's arena. */
enum onnxptq_status oq_instantiate(struct oq_preparation *preparation, const Onnx__NodeProto *call,
                                   const Onnx__FunctionProto *function, struct oq_instance *out,
                                   struct onnxptq_error *error) OQ_MUST_USE;

#endif
