/*
 * Constants and element types that follow from the operators alone; see opset_value.h. Ranks are in
 * opset_rank.c.
 */
#include "prepare/opset_value.h"

#include <string.h>

/* ---- Where a name comes from ---- */

struct oq_opset_origin oq_opset_find_origin(const struct oq_opset_body *body, const char *name) {
    for (; body != NULL && name[0] != '\0'; body = body->parent) {
        struct oq_opset_origin origin = {.body = body};
        size_t address;
        if (oq_map_get_name(body->producers, name, &address)) {
            origin.node = (const Onnx__NodeProto *)(uintptr_t)address;
            return origin;
        }
        if (oq_map_get_name(body->tensors, name, &address)) {
            origin.tensor = (const Onnx__TensorProto *)(uintptr_t)address;
        }
        if (body->graph != NULL) {
            origin.input = oq_value_info_find(body->graph->input, body->graph->n_input, name);
        }
        if (origin.tensor != NULL || origin.input != NULL) {
            return origin;
        }
    }
    return (struct oq_opset_origin){0};
}

const Onnx__TensorProto *oq_opset_find_constant(const struct oq_opset_body *body,
                                                const char *name) {
    const struct oq_opset_origin origin = oq_opset_find_origin(body, name);
    if (origin.tensor != NULL) {
        /* Below IR version 4 initializers are graph inputs as a matter of form. */
        const bool replaceable =
            origin.input != NULL &&
            oq_model_proto(body->edit->model)->ir_version >= OQ_IR_FREE_INITIALIZERS;
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

static const struct oq_opset_form forms[] = {
    {"Abs", OQ_FORM_SAME},
    {"Add", OQ_FORM_BROADCAST},
    {"AveragePool", OQ_FORM_SAME},
    {"BatchNormalization", OQ_FORM_SAME},
    {"Cast", OQ_FORM_CAST},
    {"Ceil", OQ_FORM_SAME},
    {"Clip", OQ_FORM_SAME},
    {"Concat", OQ_FORM_SAME},
    {"Conv", OQ_FORM_CONV},
    {"ConvTranspose", OQ_FORM_CONV},
    {"DepthToSpace", OQ_FORM_SAME},
    {"Div", OQ_FORM_BROADCAST},
    {"Dropout", OQ_FORM_SAME},
    {"Elu", OQ_FORM_SAME},
    {"Erf", OQ_FORM_SAME},
    {"Exp", OQ_FORM_SAME},
    {"Flatten", OQ_FORM_MATRIX},
    {"Floor", OQ_FORM_SAME},
    {"Gather", OQ_FORM_GATHER},
    {"Gemm", OQ_FORM_MATRIX},
    {"GlobalAveragePool", OQ_FORM_SAME},
    {"GlobalMaxPool", OQ_FORM_SAME},
    {"HardSigmoid", OQ_FORM_SAME},
    {"Identity", OQ_FORM_SAME},
    {"InstanceNormalization", OQ_FORM_SAME},
    {"LRN", OQ_FORM_SAME},
    {"LeakyRelu", OQ_FORM_SAME},
    {"Log", OQ_FORM_SAME},
    {"LogSoftmax", OQ_FORM_SAME},
    {"MatMul", OQ_FORM_MATMUL},
    {"Max", OQ_FORM_BROADCAST},
    {"MaxPool", OQ_FORM_SAME},
    {"Mean", OQ_FORM_BROADCAST},
    {"Min", OQ_FORM_BROADCAST},
    {"Mul", OQ_FORM_BROADCAST},
    {"Neg", OQ_FORM_SAME},
    {"PRelu", OQ_FORM_SAME},
    {"Pad", OQ_FORM_SAME},
    {"Pow", OQ_FORM_BROADCAST},
    {"Reciprocal", OQ_FORM_SAME},
    {"ReduceMax", OQ_FORM_REDUCE},
    {"ReduceMean", OQ_FORM_REDUCE},
    {"ReduceMin", OQ_FORM_REDUCE},
    {"ReduceSum", OQ_FORM_REDUCE},
    {"Relu", OQ_FORM_SAME},
    {"Reshape", OQ_FORM_RESHAPE},
    {"Resize", OQ_FORM_SAME},
    {"Selu", OQ_FORM_SAME},
    {"Shape", OQ_FORM_SHAPE},
    {"Sigmoid", OQ_FORM_SAME},
    {"Slice", OQ_FORM_SAME},
    {"Softmax", OQ_FORM_SAME},
    {"Softplus", OQ_FORM_SAME},
    {"Softsign", OQ_FORM_SAME},
    {"SpaceToDepth", OQ_FORM_SAME},
    {"Split", OQ_FORM_SAME},
    {"Sqrt", OQ_FORM_SAME},
    {"Squeeze", OQ_FORM_SQUEEZE},
    {"Sub", OQ_FORM_BROADCAST},
    {"Sum", OQ_FORM_BROADCAST},
    {"Tanh", OQ_FORM_SAME},
    {"ThresholdedRelu", OQ_FORM_SAME},
    {"Tile", OQ_FORM_SAME},
    {"Transpose", OQ_FORM_TRANSPOSE},
    {"Unsqueeze", OQ_FORM_UNSQUEEZE},
    {"Upsample", OQ_FORM_SAME},
};

const struct oq_opset_form *oq_opset_find_form(const Onnx__NodeProto *node, const char *name) {
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

/* ---- Element type ---- */

static int find_type(const struct oq_opset_body *body, const char *name,
                     struct oq_opset_budget *budget);

static int node_type(const struct oq_opset_body *body, const Onnx__NodeProto *node,
                     const char *name, struct oq_opset_budget *budget) {
    const struct oq_opset_form *form = oq_opset_find_form(node, name);
    if (form == NULL) {
        return 0;
    }
    if (form->form == OQ_FORM_CAST) {
        return (int)oq_attribute_int(node, "to", 0);
    }
    if (form->form == OQ_FORM_SHAPE) {
        return ONNX__TENSOR_PROTO__DATA_TYPE__INT64;
    }
    const int type = find_type(body, oq_opset_input(node, 0), budget);
    /* Weights and the other side of arithmetic are of the same type. */
    const bool common = form->form == OQ_FORM_BROADCAST || form->form == OQ_FORM_MATMUL ||
                        form->form == OQ_FORM_CONV || strcmp(node->op_type, "Gemm") == 0 ||
                        strcmp(node->op_type, "BatchNormalization") == 0;
    return type != 0 || !common ? type : find_type(body, oq_opset_input(node, 1), budget);
}

static int declared_type(const struct oq_opset_body *body, const char *name) {
    const Onnx__GraphProto *graph = body->graph;
    const Onnx__ValueInfoProto *info = NULL;
    if (graph != NULL) {
        info = oq_value_info_find(graph->value_info, graph->n_value_info, name);
        info = info != NULL ? info : oq_value_info_find(graph->output, graph->n_output, name);
        info = info != NULL ? info : oq_value_info_find(graph->input, graph->n_input, name);
    }
    const Onnx__TypeProto__Tensor *type = oq_value_info_tensor(info);
    return type == NULL ? 0 : type->elem_type;
}

static int origin_type(const struct oq_opset_body *body, const char *name,
                       struct oq_opset_budget *budget) {
    const struct oq_opset_origin origin = oq_opset_find_origin(body, name);
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
                                                : node_type(origin.body, origin.node, name, budget);
}

static int find_type(const struct oq_opset_body *body, const char *name,
                     struct oq_opset_budget *budget) {
    if (budget->depth == 0 || budget->values == 0) {
        return 0;
    }
    budget->values--;
    budget->depth--;
    const int type = origin_type(body, name, budget);
    budget->depth++;
    return type;
}

int oq_opset_find_type(const struct oq_opset_body *body, const char *name) {
    struct oq_opset_budget budget = OQ_OPSET_BUDGET;
    const int type = find_type(body, name, &budget);
    return type == 0 ? ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT : type;
}
