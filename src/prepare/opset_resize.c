/*
 * Conversions of Upsample and Resize, and of the operators that sample images; see opset_table.h.
 */
#include "prepare/opset_table.h"
#include "prepare/opset_value.h"

#include "base/number.h"
#include "model/tensor.h"

#define FLOAT ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT

/* ---- Upsample ---- */

enum onnxptq_status oq_opset_upsample_9(struct oq_opset_body *body, Onnx__NodeProto *node,
                                        struct onnxptq_error *error) {
    const char *const names[] = {"scales", NULL};
    OQ_TRY(oq_opset_require_values(body, node, names, error));
    const Onnx__AttributeProto *scales = node == NULL ? NULL : oq_attribute(node, "scales");
    if (scales != NULL) {
        const int64_t n = (int64_t)scales->n_floats;
        oq_opset_set_input(body, node, 1,
                           oq_opset_constant(body, node, "scales", FLOAT, &n, 1, scales->floats,
                                             scales->n_floats * sizeof *scales->floats));
        oq_opset_remove_attribute(node, "scales");
    }
    oq_opset_emit(body, node);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_opset_upsample_10(struct oq_opset_body *body, Onnx__NodeProto *node,
                                         struct onnxptq_error *error) {
    (void)error;
    oq_opset_set_type(body, node, "Resize");
    oq_opset_emit(body, node);
    return ONNXPTQ_OK;
}

/* ---- Resize ---- */

/* Whether constant scales all enlarge (or keep), or all shrink (or keep). */
static void scale_direction(const struct oq_opset_body *body, const char *scales, bool *enlarge,
                            bool *shrink) {
    struct oq_tensor_view view;
    const Onnx__TensorProto *tensor = oq_opset_find_constant(body, scales);
    *enlarge = *shrink = false;
    if (tensor == NULL || tensor->data_type != FLOAT ||
        oq_tensor_view(body->edit->model, tensor, &view, NULL) != ONNXPTQ_OK) {
        return;
    }
    *enlarge = *shrink = true;
    for (size_t i = 0; i < view.n_elements; i++) {
        float scale;
        oq_tensor_view_floats(&view, i, 1, &scale);
        *enlarge = *enlarge && scale >= 1.0F;
        *shrink = *shrink && scale <= 1.0F;
    }
}

/* The regions that version 11 still wants to be there. */
static const char *no_regions(struct oq_opset_body *body, const Onnx__NodeProto *node) {
    const int64_t none = 0;
    return body->edit->target >= 13
               ? ""
               : oq_opset_constant(body, node, "roi", FLOAT, &none, 1, NULL, 0);
}

static void set_resize(struct oq_opset_body *body, Onnx__NodeProto *node, const char *nearest,
                       const char *scales) {
    oq_opset_set_input(body, node, 1, no_regions(body, node));
    oq_opset_set_input(body, node, 2, scales);
    oq_opset_set_string(body, node, "coordinate_transformation_mode", "asymmetric");
    oq_opset_set_string(body, node, "nearest_mode", nearest);
    oq_opset_emit(body, node);
}

/* Before, an axis was rounded up where it shrinks and down where it grows; now one rounding holds
 * for all axes. They are independent of each other, so first those that shrink are resized, then
 * the others. */
static void resize_twice(struct oq_opset_body *body, Onnx__NodeProto *node, const char *scales) {
    const char *one = oq_opset_constant_float(body, node, "one", FLOAT, 1.0F);
    const char *down = oq_opset_apply(body, node, "Min", scales, one);
    const char *up = oq_opset_apply(body, node, "Max", scales, one);
    Onnx__NodeProto *shrink = node == NULL ? NULL : oq_opset_copy_node(body, node);
    if (shrink == NULL) {
        body->edit->out_of_memory = true;
        return;
    }
    shrink->name = (char *)oq_opset_unique(body, node, "shrink");
    shrink->output[0] = (char *)oq_opset_unique(body, node, "shrink");
    set_resize(body, shrink, "ceil", down);
    oq_opset_set_input(body, node, 0, oq_opset_output(shrink, 0));
    set_resize(body, node, "floor", up);
}

enum onnxptq_status oq_opset_resize_11(struct oq_opset_body *body, Onnx__NodeProto *node,
                                       struct onnxptq_error *error) {
    const char *const names[] = {"mode", NULL};
    OQ_TRY(oq_opset_require_values(body, node, names, error));
    const char *scales = oq_opset_input(node, 1);
    bool enlarge, shrink;
    scale_direction(body, scales, &enlarge, &shrink);
    if (node == NULL || enlarge || !oq_opset_is_string(node, "mode", "nearest", "nearest")) {
        set_resize(body, node, "floor", scales);
    } else if (shrink) {
        set_resize(body, node, "ceil", scales);
    } else {
        resize_twice(body, node, scales);
    }
    return ONNXPTQ_OK;
}

/* tf_half_pixel_for_nn placed pixels half a pixel higher than half_pixel does, so with it the
 * roundings below are the same as these with half_pixel. */
static enum onnxptq_status replace_tf_half_pixel(struct oq_opset_body *body, Onnx__NodeProto *node,
                                                 struct onnxptq_error *error) {
    if (node == NULL || !oq_opset_is_string(node, "coordinate_transformation_mode", "half_pixel",
                                            "tf_half_pixel_for_nn")) {
        return ONNXPTQ_OK;
    }
    const bool nearest = oq_opset_is_string(node, "mode", "nearest", "nearest");
    const char *rounding = NULL;
    if (oq_opset_is_string(node, "nearest_mode", "round_prefer_floor", "floor")) {
        rounding = "round_prefer_ceil";
    } else if (oq_opset_is_string(node, "nearest_mode", "round_prefer_floor",
                                  "round_prefer_floor")) {
        rounding = "ceil";
    }
    if (!nearest || rounding == NULL) {
        return oq_opset_refuse(body, node, error,
                               "coordinate_transformation_mode 'tf_half_pixel_for_nn' was removed, "
                               "and with this mode nothing took its place; export the model again "
                               "with that opset");
    }
    oq_opset_set_string(body, node, "coordinate_transformation_mode", "half_pixel");
    oq_opset_set_string(body, node, "nearest_mode", rounding);
    return ONNXPTQ_OK;
}

/* Scales and sizes were both given, one of them empty, and now only one may be. */
enum onnxptq_status oq_opset_resize_13(struct oq_opset_body *body, Onnx__NodeProto *node,
                                       struct onnxptq_error *error) {
    const char *const names[] = {"coordinate_transformation_mode", "mode", "nearest_mode", NULL};
    OQ_TRY(oq_opset_require_values(body, node, names, error));
    OQ_TRY(replace_tf_half_pixel(body, node, error));
    const char *sizes = oq_opset_input(node, 3);
    if (*sizes != '\0' && *oq_opset_input(node, 2) != '\0') {
        const Onnx__TensorProto *tensor = oq_opset_find_constant(body, sizes);
        const bool empty = tensor != NULL && tensor->n_dims == 1 && tensor->dims[0] == 0;
        oq_opset_set_input(body, node, empty ? 3 : 2, "");
    }
    oq_opset_emit(body, node);
    return ONNXPTQ_OK;
}

/* ---- Sampling ---- */

enum onnxptq_status oq_opset_grid_sample_20(struct oq_opset_body *body, Onnx__NodeProto *node,
                                            struct onnxptq_error *error) {
    const char *const names[] = {"mode", NULL};
    OQ_TRY(oq_opset_require_values(body, node, names, error));
    if (node != NULL && oq_opset_is_string(node, "mode", "", "bilinear")) {
        oq_opset_set_string(body, node, "mode", "linear");
    } else if (node != NULL && oq_opset_is_string(node, "mode", "", "bicubic")) {
        oq_opset_set_string(body, node, "mode", "cubic");
    }
    oq_opset_emit(body, node);
    return ONNXPTQ_OK;
}

/* Pixels were not shifted by a half, which became the default. */
enum onnxptq_status oq_opset_roi_align_16(struct oq_opset_body *body, Onnx__NodeProto *node,
                                          struct onnxptq_error *error) {
    (void)error;
    oq_opset_set_string(body, node, "coordinate_transformation_mode", "output_half_pixel");
    oq_opset_emit(body, node);
    return ONNXPTQ_OK;
}
