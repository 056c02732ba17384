/*
 * Conversions of operators from before ONNX 1.0 that runtimes still accept below version 10, and
 * early exporters wrote; see opset_table.h. Each becomes operators of today.
 */
#include "prepare/opset_table.h"
#include "prepare/opset_value.h"

#include <string.h>

/* Makes `node` another operator with these inputs (NULL: only one) and no attributes. */
static void become(struct oq_opset_body *body, Onnx__NodeProto *node, const char *type,
                   const char *input, const char *second) {
    oq_opset_set_type(body, node, type);
    oq_opset_set_input(body, node, 0, input);
    if (second != NULL) {
        oq_opset_set_input(body, node, 1, second);
    }
    if (node != NULL) {
        node->n_attribute = 0;
    }
    oq_opset_emit(body, node);
}

/* A float attribute as a scalar of the type of the first input. */
static const char *scalar(struct oq_opset_body *body, const Onnx__NodeProto *node,
                          const char *attribute, float missing) {
    const int type = oq_opset_find_type(body, oq_opset_input(node, 0));
    const float value = node == NULL ? missing : oq_attribute_float(node, attribute, missing);
    return oq_opset_constant_float(body, node, attribute, type, value);
}

enum onnxptq_status oq_opset_affine_10(struct oq_opset_body *body, Onnx__NodeProto *node,
                                       struct onnxptq_error *error) {
    (void)error;
    const char *alpha = scalar(body, node, "alpha", 1.0F);
    const char *beta = scalar(body, node, "beta", 0.0F);
    become(body, node, "Add", oq_opset_apply(body, node, "Mul", oq_opset_input(node, 0), alpha),
           beta);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_opset_scale_10(struct oq_opset_body *body, Onnx__NodeProto *node,
                                      struct onnxptq_error *error) {
    (void)error;
    become(body, node, "Mul", oq_opset_input(node, 0), scalar(body, node, "scale", 1.0F));
    return ONNXPTQ_OK;
}

static enum onnxptq_status scaled(struct oq_opset_body *body, Onnx__NodeProto *node,
                                  const char *type) {
    const char *alpha = scalar(body, node, "alpha", 1.0F);
    const char *beta = scalar(body, node, "beta", 1.0F);
    const char *inner = oq_opset_apply(body, node, "Mul", oq_opset_input(node, 0), beta);
    become(body, node, "Mul", oq_opset_apply(body, node, type, inner, NULL), alpha);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_opset_scaled_tanh_10(struct oq_opset_body *body, Onnx__NodeProto *node,
                                            struct onnxptq_error *error) {
    (void)error;
    return scaled(body, node, "Tanh");
}

enum onnxptq_status oq_opset_parametric_softplus_10(struct oq_opset_body *body,
                                                    Onnx__NodeProto *node,
                                                    struct onnxptq_error *error) {
    (void)error;
    return scaled(body, node, "Softplus");
}

/* One scale for all, one bias per channel. */
enum onnxptq_status oq_opset_image_scaler_10(struct oq_opset_body *body, Onnx__NodeProto *node,
                                             struct onnxptq_error *error) {
    const Onnx__AttributeProto *bias = node == NULL ? NULL : oq_attribute(node, "bias");
    const int type = oq_opset_find_type(body, oq_opset_input(node, 0));
    if (node != NULL && (bias == NULL || type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT)) {
        return oq_opset_refuse(body, node, error,
                               "only float tensors with a bias are converted; export the model "
                               "again with that opset");
    }
    const char *factor = scalar(body, node, "scale", 1.0F);
    const char *product = oq_opset_apply(body, node, "Mul", oq_opset_input(node, 0), factor);
    const int64_t shape[] = {bias == NULL ? 0 : (int64_t)bias->n_floats, 1, 1};
    const float *values = bias == NULL ? NULL : bias->floats;
    become(body, node, "Add", product,
           oq_opset_constant(body, node, "bias", type, shape, 3, values,
                             (size_t)shape[0] * sizeof *values));
    return ONNXPTQ_OK;
}

/* Cuts `border` (left, top, right, bottom) off images, or with `scale` (height, width) takes that
 * much from left and top on. */
enum onnxptq_status oq_opset_crop_10(struct oq_opset_body *body, Onnx__NodeProto *node,
                                     struct onnxptq_error *error) {
    size_t n_border = 0, n_scale = 0;
    const int64_t *border = node == NULL ? NULL : oq_attribute_ints(node, "border", &n_border);
    const int64_t *scale = node == NULL ? NULL : oq_attribute_ints(node, "scale", &n_scale);
    if (node != NULL && (n_border != 4 || (n_scale != 0 && n_scale != 2))) {
        return oq_opset_refuse(body, node, error, "its attributes do not have 4 and 2 values");
    }
    if (border == NULL) {
        return ONNXPTQ_OK;
    }
    const int64_t axes[] = {2, 3}, starts[] = {border[1], border[0]};
    int64_t ends[] = {border[3] == 0 ? INT64_MAX : -border[3],
                      border[2] == 0 ? INT64_MAX : -border[2]};
    if (scale != NULL && (__builtin_add_overflow(border[1], scale[0], &ends[0]) ||
                          __builtin_add_overflow(border[0], scale[1], &ends[1]))) {
        return oq_opset_refuse(body, node, error, "its attributes are too large");
    }
    const char *first = oq_opset_constant_ints(body, node, "starts", starts, 2);
    oq_opset_set_input(body, node, 2, oq_opset_constant_ints(body, node, "ends", ends, 2));
    oq_opset_set_input(body, node, 3, oq_opset_constant_ints(body, node, "axes", axes, 2));
    become(body, node, "Slice", oq_opset_input(node, 0), first);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_opset_dynamic_slice_10(struct oq_opset_body *body, Onnx__NodeProto *node,
                                              struct onnxptq_error *error) {
    (void)error;
    oq_opset_set_type(body, node, "Slice");
    oq_opset_emit(body, node);
    return ONNXPTQ_OK;
}

/* Two switches became the list of axes; without the division by the deviation only a mean is left.
 */
enum onnxptq_status oq_opset_mean_variance_normalization_9(struct oq_opset_body *body,
                                                           Onnx__NodeProto *node,
                                                           struct onnxptq_error *error) {
    const char *const names[] = {"across_channels", "normalize_variance", NULL};
    OQ_TRY(oq_opset_require_values(body, node, names, error));
    const int64_t all[] = {0, 1, 2, 3}, within[] = {0, 2, 3};
    const bool across = node != NULL && oq_attribute_int(node, "across_channels", 0) != 0;
    const bool divide = node == NULL || oq_attribute_int(node, "normalize_variance", 1) != 0;
    const int64_t *axes = across ? all : within;
    const size_t n_axes = across ? 4 : 3;
    if (divide) {
        oq_opset_remove_attribute(node, "across_channels");
        oq_opset_remove_attribute(node, "normalize_variance");
        oq_opset_set_ints(body, node, "axes", axes, n_axes);
        oq_opset_emit(body, node);
        return ONNXPTQ_OK;
    }
    const char *input = oq_opset_input(node, 0);
    Onnx__NodeProto *mean = oq_opset_add_node(body, node, "ReduceMean", &input, 1);
    oq_opset_set_ints(body, mean, "axes", axes, n_axes);
    become(body, node, "Sub", input, oq_opset_output(mean, 0));
    return ONNXPTQ_OK;
}
