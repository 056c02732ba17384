/*
 * What this project knows of operators: one table row per (domain, type). Anything without a row
 * is foreign if its domain is not the default one, and merely unknown ("other") if it is.
 */
#ifndef OQ_MODEL_OPERATORS_H
#define OQ_MODEL_OPERATORS_H

#include <stdbool.h>
#include <stdint.h>

/* What an operator is to quantization. */
enum oq_role {
    OQ_ROLE_OTHER, /* known or not, stays float: reductions, norms, shape arithmetic, ... */
    OQ_ROLE_CONV,  /* weighted: Conv, ConvTranspose, Gemm, MatMul */
    OQ_ROLE_CONV_TRANSPOSE,
    OQ_ROLE_GEMM,
    OQ_ROLE_MATMUL,
    OQ_ROLE_ADD,
    OQ_ROLE_MUL,
    OQ_ROLE_ACTIVATION, /* unary, element by element: Relu, Clip, Sigmoid, ... */
    OQ_ROLE_BATCH_NORM,
    OQ_ROLE_POOL_MAX,
    OQ_ROLE_POOL_AVERAGE, /* AveragePool, GlobalAveragePool */
    OQ_ROLE_CONCAT,
    OQ_ROLE_RESIZE,
    OQ_ROLE_SOFTMAX,
    OQ_ROLE_WHERE,
    OQ_ROLE_MOVEMENT,  /* moves elements, changes none: Reshape, Transpose, Slice, Gather, ... */
    OQ_ROLE_POINTWISE, /* other element-wise arithmetic: Sub, Div, Pow, Sqrt, Erf, ... */
    OQ_ROLE_QUANTIZE,  /* QuantizeLinear, DequantizeLinear and ready-made integer operators */
    OQ_ROLE_CONTROL    /* If, Loop, Scan */
};

struct oq_operator {
    const char *domain; /* "" is the default domain */
    const char *type;
    enum oq_role role;
    uint32_t data_inputs; /* bit i: input i is data in float */
    int weight_input;     /* index of the weight of a weighted operator, else -1 */
    int bias_input;       /* index of its bias, else -1 */
};

/* The row of (domain, type), or NULL. "ai.onnx" and NULL are spellings of "". */
const struct oq_operator *oq_operator_find(const char *domain, const char *type);
/* Conv, ConvTranspose, Gemm or MatMul of the default domain; `op` may be NULL. */
bool oq_operator_is_weighted(const struct oq_operator *op);
/* An operator of the default domain that draws random numbers. */
bool oq_operator_is_random(const char *domain, const char *type);
/* True when the default ONNX domain defines this type, in any opset, whether or not it has a row.
 */
bool oq_operator_is_onnx(const char *type);

#endif
