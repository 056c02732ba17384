/*
 * Conversions of normalizations and of Softmax; see opset_table.h.
 */
#include "prepare/opset_table.h"
#include "prepare/opset_value.h"

/* Appends `name` with a shape of its own kept apart: the output of `node` becomes that of a Reshape
 * of `flat` to `shape`. */
static void restore_shape(struct oq_opset_body *body, const Onnx__NodeProto *near, const char *flat,
                          const char *shape, const char *output) {
    const char *const inputs[] = {flat, shape};
    const char *name = oq_opset_unique(body, near, "Reshape");
    Onnx__NodeProto *reshape =
        oq_node_create(body->edit->model, name, "", "Reshape", inputs, 2, &output, 1);
    if (body->edit->target >= 14 && reshape != NULL) {
        oq_opset_set_int(body, reshape, "allowzero", 1); /* empty tensors keep their shape */
    }
    if (reshape == NULL) {
        body->edit->out_of_memory = true;
    }
    oq_opset_emit(body, reshape);
}

/* The output of `node`, renamed; what it was is left for another node to produce. */
static const char *take_output(struct oq_opset_body *body, Onnx__NodeProto *node,
                               const char *suffix) {
    const char *output = oq_opset_output(node, 0);
    if (node == NULL || node->n_output == 0) {
        body->edit->out_of_memory = true;
        return "";
    }
    node->output[0] = (char *)oq_opset_unique(body, node, suffix);
    return output;
}

/* ---- Softmax, LogSoftmax, Hardmax ---- */

static bool is_last_axis(const struct oq_opset_body *body, const Onnx__NodeProto *node,
                         int64_t axis) {
    size_t rank;
    return axis == -1 || (oq_opset_find_rank(body, oq_opset_input(node, 0), &rank) && axis >= 0 &&
                          (size_t)axis + 1 == rank);
}

/* Before, all axes from `axis` (1 by default) to the last one were taken together; now it is one
 * axis, the last by default. */
enum onnxptq_status oq_opset_softmax_13(struct oq_opset_body *body, Onnx__NodeProto *node,
                                        struct onnxptq_error *error) {
    (void)error;
    const Onnx__AttributeProto *axis = node == NULL ? NULL : oq_attribute(node, "axis");
    const bool refers = axis != NULL && axis->ref_attr_name != NULL && *axis->ref_attr_name != '\0';
    if (node == NULL || (!refers && is_last_axis(body, node, oq_attribute_int(node, "axis", 1)))) {
        oq_opset_set_int(body, node, "axis", -1);
        oq_opset_emit(body, node);
        return ONNXPTQ_OK;
    }
    const char *input = oq_opset_input(node, 0);
    const char *shape = oq_opset_apply(body, node, "Shape", input, NULL);
    /* Its axis has the same default, and may as well be one that the caller of a function sets. */
    Onnx__NodeProto *flatten = oq_opset_add_node(body, node, "Flatten", &input, 1);
    if (flatten != NULL) {
        flatten->attribute = node->attribute;
        flatten->n_attribute = node->n_attribute;
    }
    const char *output = take_output(body, node, "flat");
    oq_opset_set_input(body, node, 0, oq_opset_output(flatten, 0));
    node->attribute = NULL;
    node->n_attribute = 0;
    oq_opset_set_int(body, node, "axis", -1);
    oq_opset_emit(body, node);
    restore_shape(body, node, oq_opset_output(node, 0), shape, output);
    return ONNXPTQ_OK;
}

/* ---- BatchNormalization ---- */

/* With spatial = 0 every element of a sample was normalized by parameters of its own: flattened,
 * elements are channels. */
enum onnxptq_status oq_opset_batch_normalization_9(struct oq_opset_body *body,
                                                   Onnx__NodeProto *node,
                                                   struct onnxptq_error *error) {
    const char *const names[] = {"spatial", NULL};
    OQ_TRY(oq_opset_require_values(body, node, names, error));
    const bool spatial = node == NULL || oq_attribute_int(node, "spatial", 1) != 0;
    oq_opset_remove_attribute(node, "spatial");
    if (spatial) {
        oq_opset_emit(body, node);
        return ONNXPTQ_OK;
    }
    if (node->n_output > 1) {
        return oq_opset_refuse(body, node, error,
                               "it is in training mode; export the model for inference");
    }
    const char *input = oq_opset_input(node, 0);
    const char *shape = oq_opset_apply(body, node, "Shape", input, NULL);
    oq_opset_set_input(body, node, 0, oq_opset_apply(body, node, "Flatten", input, NULL));
    const int64_t vector[] = {-1};
    const char *vector_shape = oq_opset_constant_ints(body, node, "vector", vector, 1);
    for (size_t i = 1; i < node->n_input; i++) {
        oq_opset_set_input(
            body, node, i,
            oq_opset_apply(body, node, "Reshape", oq_opset_input(node, i), vector_shape));
    }
    const char *output = take_output(body, node, "flat");
    oq_opset_emit(body, node);
    restore_shape(body, node, oq_opset_output(node, 0), shape, output);
    return ONNXPTQ_OK;
}

/* More than one output meant training, which became an attribute; two of the outputs are gone. */
enum onnxptq_status oq_opset_batch_normalization_14(struct oq_opset_body *body,
                                                    Onnx__NodeProto *node,
                                                    struct onnxptq_error *error) {
    if (node != NULL && node->n_output > 1) {
        for (size_t i = 3; i < node->n_output; i++) {
            if (*oq_opset_output(node, i) != '\0' &&
                oq_opset_is_read(body->edit, oq_opset_output(node, i))) {
                return oq_opset_refuse(body, node, error,
                                       "its outputs saved_mean and saved_var, which are read, no "
                                       "longer exist; export the model for inference");
            }
        }
        node->n_output = node->n_output > 3 ? 3 : node->n_output;
        oq_opset_set_int(body, node, "training_mode", 1);
    }
    oq_opset_emit(body, node);
    return ONNXPTQ_OK;
}

/* ---- GroupNormalization ---- */

/* Repeats each element of a vector [G] as often as a group has channels. */
static const char *repeat(struct oq_opset_body *body, const Onnx__NodeProto *node,
                          const char *vector, const char *last_axis, const char *times,
                          const char *vector_shape) {
    const char *column = oq_opset_apply(body, node, "Unsqueeze", vector, last_axis);
    const char *matrix = oq_opset_apply(body, node, "Expand", column, times);
    return oq_opset_apply(body, node, "Reshape", matrix, vector_shape);
}

/* Scale and bias were per group and became per channel. */
enum onnxptq_status oq_opset_group_normalization_21(struct oq_opset_body *body,
                                                    Onnx__NodeProto *node,
                                                    struct onnxptq_error *error) {
    const char *const names[] = {"num_groups", NULL};
    OQ_TRY(oq_opset_require_values(body, node, names, error));
    const int64_t groups = node == NULL ? 1 : oq_attribute_int(node, "num_groups", 1);
    const int64_t one = 1, minus_one = -1;
    const char *input = oq_opset_input(node, 0);
    Onnx__NodeProto *shape = oq_opset_add_node(body, node, "Shape", &input, 1);
    oq_opset_set_int(body, shape, "start", 1);
    oq_opset_set_int(body, shape, "end", 2);
    const char *n_groups = oq_opset_constant_ints(body, node, "groups", &groups, 1);
    const char *times = oq_opset_apply(body, node, "Div", oq_opset_output(shape, 0), n_groups);
    const char *axis = oq_opset_constant_ints(body, node, "axis", &one, 1);
    const char *vector_shape = oq_opset_constant_ints(body, node, "vector", &minus_one, 1);
    for (size_t i = 1; i < 3; i++) {
        oq_opset_set_input(body, node, i,
                           repeat(body, node, oq_opset_input(node, i), axis, times, vector_shape));
    }
    oq_opset_emit(body, node);
    return ONNXPTQ_OK;
}
