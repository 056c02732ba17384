/*
 * The local functions of a model, and what can be said of their bodies.
 */
#ifndef OQ_PREPARE_FUNCTIONS_H
#define OQ_PREPARE_FUNCTIONS_H

#include "base/map.h"
#include "prepare/preparation.h"

struct oq_function {
    Onnx__FunctionProto *proto;
    bool weighted;   /* holds Conv, ConvTranspose, Gemm or MatMul, or calls what does */
    bool pure;       /* holds only standard operators that give the same results in every run */
    unsigned height; /* calls inside calls below it */
    unsigned char mark;
};

struct oq_functions {
    struct oq_function *items; /* as in the model */
    size_t n;
    struct oq_map *index; /* by domain, name and overload */
};

/* A function that calls itself is an error. */
enum onnxptq_status oq_functions_init(struct oq_functions *functions, const struct oq_model *model,
                                      struct onnxptq_error *error) OQ_MUST_USE;
void oq_functions_reset(struct oq_functions *functions);

/* The function that a node calls, or NULL. */
struct oq_function *oq_functions_called(const struct oq_functions *functions,
                                        const Onnx__NodeProto *node);

/* A standard operator without bodies whose results depend on its inputs and attributes alone, and
 * that is no part of a quantization that is there already. */
bool oq_node_is_pure(const Onnx__NodeProto *node);

#endif
