/*
 * The operator table: what an operator is to quantization. A new operator is one more row.
 */
#include "model/operators.h"

#include "model/model.h"

#include <stdlib.h>
#include <string.h>

#define DATA(i) (1u << (i))
#define NO_WEIGHT (-1), (-1)

/* Sorted by domain and type: found by binary search. */
static const struct oq_operator OPERATORS[] = {
    {"", "Abs", OQ_ROLE_POINTWISE, DATA(0), NO_WEIGHT},
    {"", "Add", OQ_ROLE_ADD, DATA(0) | DATA(1), NO_WEIGHT},
    {"", "AveragePool", OQ_ROLE_POOL_AVERAGE, DATA(0), NO_WEIGHT},
    {"", "BatchNormalization", OQ_ROLE_BATCH_NORM, DATA(0), NO_WEIGHT},
    {"", "Cast", OQ_ROLE_OTHER, DATA(0), NO_WEIGHT},
    {"", "Clip", OQ_ROLE_ACTIVATION, DATA(0), NO_WEIGHT},
    {"", "Concat", OQ_ROLE_CONCAT, ~0u, NO_WEIGHT},
    {"", "Conv", OQ_ROLE_CONV, DATA(0), 1, 2},
    {"", "ConvInteger", OQ_ROLE_QUANTIZE, 0, NO_WEIGHT},
    {"", "ConvTranspose", OQ_ROLE_CONV_TRANSPOSE, DATA(0), 1, 2},
    {"", "DepthToSpace", OQ_ROLE_MOVEMENT, DATA(0), NO_WEIGHT},
    {"", "DequantizeLinear", OQ_ROLE_QUANTIZE, 0, NO_WEIGHT},
    {"", "Div", OQ_ROLE_POINTWISE, DATA(0) | DATA(1), NO_WEIGHT},
    {"", "Dropout", OQ_ROLE_MOVEMENT, DATA(0), NO_WEIGHT},
    {"", "DynamicQuantizeLinear", OQ_ROLE_QUANTIZE, 0, NO_WEIGHT},
    {"", "Elu", OQ_ROLE_ACTIVATION, DATA(0), NO_WEIGHT},
    {"", "Erf", OQ_ROLE_POINTWISE, DATA(0), NO_WEIGHT},
    {"", "Exp", OQ_ROLE_POINTWISE, DATA(0), NO_WEIGHT},
    {"", "Expand", OQ_ROLE_MOVEMENT, DATA(0), NO_WEIGHT},
    {"", "Flatten", OQ_ROLE_MOVEMENT, DATA(0), NO_WEIGHT},
    {"", "Gather", OQ_ROLE_MOVEMENT, DATA(0), NO_WEIGHT},
    {"", "GatherElements", OQ_ROLE_MOVEMENT, DATA(0), NO_WEIGHT},
    {"", "GatherND", OQ_ROLE_MOVEMENT, DATA(0), NO_WEIGHT},
    {"", "Gelu", OQ_ROLE_ACTIVATION, DATA(0), NO_WEIGHT},
    {"", "Gemm", OQ_ROLE_GEMM, DATA(0), 1, 2},
    {"", "GlobalAveragePool", OQ_ROLE_POOL_AVERAGE, DATA(0), NO_WEIGHT},
    {"", "GlobalMaxPool", OQ_ROLE_OTHER, DATA(0), NO_WEIGHT},
    {"", "HardSigmoid", OQ_ROLE_ACTIVATION, DATA(0), NO_WEIGHT},
    {"", "HardSwish", OQ_ROLE_ACTIVATION, DATA(0), NO_WEIGHT},
    {"", "Identity", OQ_ROLE_MOVEMENT, DATA(0), NO_WEIGHT},
    {"", "If", OQ_ROLE_CONTROL, 0, NO_WEIGHT},
    {"", "LeakyRelu", OQ_ROLE_ACTIVATION, DATA(0), NO_WEIGHT},
    {"", "Loop", OQ_ROLE_CONTROL, 0, NO_WEIGHT},
    {"", "MatMul", OQ_ROLE_MATMUL, DATA(0) | DATA(1), 1, -1},
    {"", "MatMulInteger", OQ_ROLE_QUANTIZE, 0, NO_WEIGHT},
    {"", "Max", OQ_ROLE_POINTWISE, ~0u, NO_WEIGHT},
    {"", "MaxPool", OQ_ROLE_POOL_MAX, DATA(0), NO_WEIGHT},
    {"", "Min", OQ_ROLE_POINTWISE, ~0u, NO_WEIGHT},
    {"", "Mul", OQ_ROLE_MUL, DATA(0) | DATA(1), NO_WEIGHT},
    {"", "Neg", OQ_ROLE_POINTWISE, DATA(0), NO_WEIGHT},
    {"", "PRelu", OQ_ROLE_ACTIVATION, DATA(0), NO_WEIGHT},
    {"", "Pow", OQ_ROLE_POINTWISE, DATA(0), NO_WEIGHT},
    {"", "QLinearConv", OQ_ROLE_QUANTIZE, 0, NO_WEIGHT},
    {"", "QLinearMatMul", OQ_ROLE_QUANTIZE, 0, NO_WEIGHT},
    {"", "QuantizeLinear", OQ_ROLE_QUANTIZE, 0, NO_WEIGHT},
    {"", "Relu", OQ_ROLE_ACTIVATION, DATA(0), NO_WEIGHT},
    {"", "Reshape", OQ_ROLE_MOVEMENT, DATA(0), NO_WEIGHT},
    {"", "Resize", OQ_ROLE_RESIZE, DATA(0), NO_WEIGHT},
    {"", "Scan", OQ_ROLE_CONTROL, 0, NO_WEIGHT},
    {"", "Selu", OQ_ROLE_ACTIVATION, DATA(0), NO_WEIGHT},
    {"", "Sigmoid", OQ_ROLE_ACTIVATION, DATA(0), NO_WEIGHT},
    {"", "Slice", OQ_ROLE_MOVEMENT, DATA(0), NO_WEIGHT},
    {"", "Softmax", OQ_ROLE_SOFTMAX, DATA(0), NO_WEIGHT},
    {"", "Softplus", OQ_ROLE_ACTIVATION, DATA(0), NO_WEIGHT},
    {"", "SpaceToDepth", OQ_ROLE_MOVEMENT, DATA(0), NO_WEIGHT},
    {"", "Split", OQ_ROLE_MOVEMENT, DATA(0), NO_WEIGHT},
    {"", "Sqrt", OQ_ROLE_POINTWISE, DATA(0), NO_WEIGHT},
    {"", "Squeeze", OQ_ROLE_MOVEMENT, DATA(0), NO_WEIGHT},
    {"", "Sub", OQ_ROLE_POINTWISE, DATA(0) | DATA(1), NO_WEIGHT},
    {"", "Tanh", OQ_ROLE_ACTIVATION, DATA(0), NO_WEIGHT},
    {"", "Tile", OQ_ROLE_MOVEMENT, DATA(0), NO_WEIGHT},
    {"", "Transpose", OQ_ROLE_MOVEMENT, DATA(0), NO_WEIGHT},
    {"", "Unsqueeze", OQ_ROLE_MOVEMENT, DATA(0), NO_WEIGHT},
    {"", "Upsample", OQ_ROLE_RESIZE, DATA(0), NO_WEIGHT},
    {"", "Where", OQ_ROLE_WHERE, DATA(1) | DATA(2), NO_WEIGHT},
};

static int compare_rows(const void *a, const void *b) {
    const struct oq_operator *one = a, *other = b;
    const int order = strcmp(one->domain, other->domain);
    return order != 0 ? order : strcmp(one->type, other->type);
}

const struct oq_operator *oq_operator_find(const char *domain, const char *type) {
    const struct oq_operator key = {.domain = oq_is_default_domain(domain) ? "" : domain,
                                    .type = oq_text(type)};
    return bsearch(&key, OPERATORS, sizeof OPERATORS / sizeof OPERATORS[0], sizeof OPERATORS[0],
                   compare_rows);
}

bool oq_operator_is_random(const char *domain, const char *type) {
    static const char *const types[] = {"Bernoulli",        "Multinomial",   "RandomNormal",
                                        "RandomNormalLike", "RandomUniform", "RandomUniformLike"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i], oq_text(type)) == 0) {
            return oq_is_default_domain(domain);
        }
    }
    return false;
}

bool oq_operator_is_weighted(const struct oq_operator *op) {
    return op != NULL && (op->role == OQ_ROLE_CONV || op->role == OQ_ROLE_CONV_TRANSPOSE ||
                          op->role == OQ_ROLE_GEMM || op->role == OQ_ROLE_MATMUL);
}
