/*
 * Constants, ranks and element types that follow from the operators alone; see opset_value.h.
 */
#include "prepare/opset_value.h"

#include "model/tensor.h"

#include <string.h>

/* Operators looked at for one question: models are deep, and few steps tell. */
#define STEPS 64

/* ---- Where a name comes from ---- */

struct origin {
    const struct oq_opset_body *body;
    const Onnx__NodeProto *node;       /* that makes it, */
    const Onnx__TensorProto *tensor;   /* or its initializer, */
    const Onnx__ValueInfoProto *input; /* or the graph input; replaceable initializers have both */
};

static const Onnx__ValueInfoProto *find_info(Onnx__ValueInfoProto *const *infos, size_t n,
                                             const char *name) {
    for (size_t i = 0; i < n; i++) {
        if (infos[i]->name != NULL && strcmp(infos[i]->name, name) == 0) {
            return infos[i];
        }
    }
    return NULL;
}

static struct origin find_origin(const struct oq_opset_body *body, const char *name) {
    for (; body != NULL && name[0] != '\0'; body = body->parent) {
        struct origin origin = {.body = body};
        size_t address;
        if (oq_map_get_name(body->producers, name, &address)) {
            origin.node = (const Onnx__NodeProto *)(uintptr_t)address;
            return origin;
        }
        if (oq_map_get_name(body->tensors, name, &address)) {
            origin.tensor = (const Onnx__TensorProto *)(uintptr_t)address;
        }
        if (body->graph != NULL) {
            origin.input = find_info(body->graph->input, body->graph->n_input, name);
        }
        if (origin.tensor != NULL || origin.input != NULL) {
            return origin;
        }
    }
    return (struct origin){0};
}

const Onnx__TensorProto *oq_opset_find_constant(const struct oq_opset_body *body,
                                                const char *name) {
    const struct origin origin = find_origin(body, name);
    if (origin.tensor != NULL) {
        /* Below IR version 4 initializers are graph inputs as a matter of form. */
        const bool replaceable =
            origin.input != NULL && oq_model_proto(body->edit->model)->ir_version >= 4;
        return replaceable ? NULL : origin.tensor;
    }
    if (origin.node == NULL || strcmp(origin.node->op_type, "Constant") != 0 ||
        !oq_is_default_domain(origin.node->domain)) {
        return NULL;
    }
    const Onnx__AttributeProto *value = oq_attribute(origin.node, "value");
    return value == NULL ? NULL : value->t;
}

/* ---- What operators do to rank and type ---- */

enum form {
    FORM_SAME,      /* rank and type of the first input */
    FORM_BROADCAST, /* the highest rank, the common type */
    FORM_MATRIX,    /* two axes */
    FORM_MATMUL,
    FORM_TRANSPOSE,
    FORM_RESHAPE,
    FORM_UNSQUEEZE,
    FORM_REDUCE,
    FORM_CAST
};

struct operator_form {
    const char *type;
    enum form form;
};

static const struct operator_form forms[] = {
    {"Abs", FORM_SAME},
    {"Add", FORM_BROADCAST},
    {"AveragePool", FORM_SAME},
    {"BatchNormalization", FORM_SAME},
    {"Cast", FORM_CAST},
    {"Ceil", FORM_SAME},
    {"Clip", FORM_SAME},
    {"Concat", FORM_SAME},
    {"Conv", FORM_SAME},
    {"ConvTranspose", FORM_SAME},
    {"DepthToSpace", FORM_SAME},
    {"Div", FORM_BROADCAST},
    {"Dropout", FORM_SAME},
    {"Elu", FORM_SAME},
    {"Erf", FORM_SAME},
    {"Exp", FORM_SAME},
    {"Flatten", FORM_MATRIX},
    {"Floor", FORM_SAME},
    {"Gemm", FORM_MATRIX},
    {"GlobalAveragePool", FORM_SAME},
    {"GlobalMaxPool", FORM_SAME},
    {"HardSigmoid", FORM_SAME},
    {"Identity", FORM_SAME},
    {"InstanceNormalization", FORM_SAME},
    {"LRN", FORM_SAME},
    {"LeakyRelu", FORM_SAME},
    {"Log", FORM_SAME},
    {"LogSoftmax", FORM_SAME},
    {"MatMul", FORM_MATMUL},
    {"Max", FORM_BROADCAST},
    {"MaxPool", FORM_SAME},
    {"Mean", FORM_BROADCAST},
    {"Min", FORM_BROADCAST},
    {"Mul", FORM_BROADCAST},
    {"Neg", FORM_SAME},
    {"PRelu", FORM_SAME},
    {"Pad", FORM_SAME},
    {"Pow", FORM_BROADCAST},
    {"Reciprocal", FORM_SAME},
    {"ReduceMax", FORM_REDUCE},
    {"ReduceMean", FORM_REDUCE},
    {"ReduceMin", FORM_REDUCE},
    {"ReduceSum", FORM_REDUCE},
    {"Relu", FORM_SAME},
    {"Reshape", FORM_RESHAPE},
    {"Resize", FORM_SAME},
    {"Selu", FORM_SAME},
    {"Sigmoid", FORM_SAME},
    {"Slice", FORM_SAME},
    {"Softmax", FORM_SAME},
    {"Softplus", FORM_SAME},
    {"Softsign", FORM_SAME},
    {"SpaceToDepth", FORM_SAME},
    {"Split", FORM_SAME},
    {"Sqrt", FORM_SAME},
    {"Sub", FORM_BROADCAST},
    {"Sum", FORM_BROADCAST},
    {"Tanh", FORM_SAME},
    {"ThresholdedRelu", FORM_SAME},
    {"Tile", FORM_SAME},
    {"Transpose", FORM_TRANSPOSE},
    {"Unsqueeze", FORM_UNSQUEEZE},
    {"Upsample", FORM_SAME},
};

/* NULL for operators that are not listed, and for further outputs, which may differ. */
static const struct operator_form *find_form(const Onnx__NodeProto *node, const char *name) {
    const bool first = strcmp(oq_opset_output(node, 0), name) == 0;
    if (!oq_is_default_domain(node->domain) || (!first && strcmp(node->op_type, "Split") != 0)) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (strcmp(forms[i].type, node->op_type) == 0) {
            return &forms[i];
        }
    }
    return NULL;
}

/* ---- Rank ---- */

static bool find_rank(const struct oq_opset_body *body, const char *name, int *steps, size_t *rank);

static bool highest_rank(const struct oq_opset_body *body, const Onnx__NodeProto *node, int *steps,
                         size_t *rank) {
    size_t highest = 0;
    for (size_t i = 0; i < node->n_input; i++) {
        size_t own;
        if (!find_rank(body, node->input[i], steps, &own)) {
            return false;
        }
        highest = own > highest ? own : highest;
    }
    *rank = highest;
    return true;
}

/* The product of vectors has fewer axes. */
static bool matmul_rank(const struct oq_opset_body *body, const Onnx__NodeProto *node, int *steps,
                        size_t *rank) {
    size_t left, right;
    if (!find_rank(body, oq_opset_input(node, 0), steps, &left) ||
        !find_rank(body, oq_opset_input(node, 1), steps, &right) || left < 2 || right < 2) {
        return false;
    }
    *rank = left > right ? left : right;
    return true;
}

/* Elements of an input that is a constant vector. */
static bool constant_length(const struct oq_opset_body *body, const char *name, size_t *length) {
    const Onnx__TensorProto *tensor = oq_opset_find_constant(body, name);
    if (tensor == NULL || tensor->n_dims != 1 || tensor->dims[0] < 0) {
        return false;
    }
    *length = (size_t)tensor->dims[0];
    return true;
}

static bool unsqueezed_rank(const struct oq_opset_body *body, const Onnx__NodeProto *node,
                            int *steps, size_t *rank) {
    size_t n_axes = 0;
    if (oq_attribute(node, "axes") != NULL) {
        (void)oq_attribute_ints(node, "axes", &n_axes);
    } else if (!constant_length(body, oq_opset_input(node, 1), &n_axes)) {
        return false;
    }
    if (n_axes == 0 || !find_rank(body, oq_opset_input(node, 0), steps, rank)) {
        return false;
    }
    *rank += n_axes;
    return true;
}

static bool transposed_rank(const struct oq_opset_body *body, const Onnx__NodeProto *node,
                            int *steps, size_t *rank) {
    size_t n;
    if (oq_attribute_ints(node, "perm", &n) == NULL || n == 0) {
        return find_rank(body, oq_opset_input(node, 0), steps, rank);
    }
    *rank = n;
    return true;
}

static bool node_rank(const struct oq_opset_body *body, const Onnx__NodeProto *node,
                      const char *name, int *steps, size_t *rank) {
    const struct operator_form *form = find_form(node, name);
    if (form == NULL) {
        return false;
    }
    switch (form->form) {
    case FORM_REDUCE:
        if (oq_attribute_int(node, "keepdims", 1) != 1) {
            return false;
        }
        return find_rank(body, oq_opset_input(node, 0), steps, rank);
    case FORM_SAME:
    case FORM_CAST: return find_rank(body, oq_opset_input(node, 0), steps, rank);
    case FORM_BROADCAST: return highest_rank(body, node, steps, rank);
    case FORM_MATRIX: *rank = 2; return true;
    case FORM_MATMUL: return matmul_rank(body, node, steps, rank);
    case FORM_TRANSPOSE: return transposed_rank(body, node, steps, rank);
    case FORM_RESHAPE: return constant_length(body, oq_opset_input(node, 1), rank);
    case FORM_UNSQUEEZE: return unsqueezed_rank(body, node, steps, rank);
    }
    return false;
}

static const Onnx__TypeProto__Tensor *tensor_type(const Onnx__ValueInfoProto *info) {
    return info == NULL || info->type == NULL ||
                   info->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
               ? NULL
               : info->type->tensor_type;
}

static bool find_rank(const struct oq_opset_body *body, const char *name, int *steps,
                      size_t *rank) {
    if (--*steps < 0) {
        return false;
    }
    const struct origin origin = find_origin(body, name);
    const Onnx__TensorProto *constant = oq_opset_find_constant(body, name);
    if (constant != NULL) {
        *rank = constant->n_dims;
        return true;
    }
    if (origin.node != NULL) {
        return node_rank(origin.body, origin.node, name, steps, rank);
    }
    /* Of declared shapes, only those of the model's own inputs are enforced by the runtime. */
    const Onnx__TypeProto__Tensor *type =
        origin.body == NULL || origin.body->parent != NULL ? NULL : tensor_type(origin.input);
    if (type == NULL || type->shape == NULL) {
        return false;
    }
    *rank = type->shape->n_dim;
    return true;
}

bool oq_opset_find_rank(const struct oq_opset_body *body, const char *name, size_t *rank) {
    int steps = STEPS;
    size_t found;
    if (!find_rank(body, name, &steps, &found)) {
        return false;
    }
    *rank = found;
    return true;
}

/* ---- Element type ---- */

static int find_type(const struct oq_opset_body *body, const char *name, int *steps);

static int node_type(const struct oq_opset_body *body, const Onnx__NodeProto *node,
                     const char *name, int *steps) {
    const struct operator_form *form = find_form(node, name);
    if (form == NULL) {
        return 0;
    }
    if (form->form == FORM_CAST) {
        return (int)oq_attribute_int(node, "to", 0);
    }
    const int type = find_type(body, oq_opset_input(node, 0), steps);
    /* Weights and the other side of arithmetic are of the same type. */
    const bool common =
        form->form == FORM_BROADCAST || form->form == FORM_MATMUL ||
        strcmp(node->op_type, "Conv") == 0 || strcmp(node->op_type, "ConvTranspose") == 0 ||
        strcmp(node->op_type, "Gemm") == 0 || strcmp(node->op_type, "BatchNormalization") == 0;
    return type != 0 || !common ? type : find_type(body, oq_opset_input(node, 1), steps);
}

static int declared_type(const struct oq_opset_body *body, const char *name) {
    const Onnx__GraphProto *graph = body->graph;
    const Onnx__ValueInfoProto *info = NULL;
    if (graph != NULL) {
        info = find_info(graph->value_info, graph->n_value_info, name);
        info = info != NULL ? info : find_info(graph->output, graph->n_output, name);
        info = info != NULL ? info : find_info(graph->input, graph->n_input, name);
    }
    const Onnx__TypeProto__Tensor *type = tensor_type(info);
    return type == NULL ? 0 : type->elem_type;
}

static int find_type(const struct oq_opset_body *body, const char *name, int *steps) {
    if (--*steps < 0) {
        return 0;
    }
    const struct origin origin = find_origin(body, name);
    const Onnx__TensorProto *constant =
        origin.tensor != NULL ? origin.tensor : oq_opset_find_constant(body, name);
    if (constant != NULL) {
        return constant->data_type;
    }
    if (origin.body == NULL) {
        return 0;
    }
    const int declared = declared_type(origin.body, name);
    return declared != 0 || origin.node == NULL ? declared
                                                : node_type(origin.body, origin.node, name, steps);
}

int oq_opset_find_type(const struct oq_opset_body *body, const char *name) {
    int steps = STEPS;
    const int type = find_type(body, name, &steps);
    return type == 0 ? ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT : type;
}
