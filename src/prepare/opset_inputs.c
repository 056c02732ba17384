/*
 * Conversions of operators whose attributes became inputs; see opset_table.h.
 */
#include "prepare/opset_table.h"
#include "prepare/opset_value.h"

#include "base/number.h"
#include "model/tensor.h"

/* ---- Axes ---- */

/* No axes means all of them in the newer form, and an empty list meant that in the older one. */
static enum onnxptq_status move_axes(struct oq_opset_body *body, Onnx__NodeProto *node,
                                     struct onnxptq_error *error) {
    const Onnx__AttributeProto *axes = node == NULL ? NULL : oq_attribute(node, "axes");
    const bool refers = axes != NULL && axes->ref_attr_name != NULL && *axes->ref_attr_name != '\0';
    if (axes != NULL && axes->n_ints == 0 && !refers) {
        oq_opset_remove_attribute(node, "axes");
    }
    OQ_TRY(oq_opset_move_ints(body, node, "axes", 1, error));
    oq_opset_emit(body, node);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_opset_squeeze_13(struct oq_opset_body *body, Onnx__NodeProto *node,
                                        struct onnxptq_error *error) {
    return move_axes(body, node, error);
}

/* ReduceSum at 13, the others at 18. */
enum onnxptq_status oq_opset_reduce(struct oq_opset_body *body, Onnx__NodeProto *node,
                                    struct onnxptq_error *error) {
    return move_axes(body, node, error);
}

enum onnxptq_status oq_opset_unsqueeze_13(struct oq_opset_body *body, Onnx__NodeProto *node,
                                          struct onnxptq_error *error) {
    OQ_TRY(oq_opset_move_ints(body, node, "axes", 1, error));
    oq_opset_emit(body, node);
    return ONNXPTQ_OK;
}

/* The default was axis 1 and became axis -2. */
enum onnxptq_status oq_opset_dft_20(struct oq_opset_body *body, Onnx__NodeProto *node,
                                    struct onnxptq_error *error) {
    if (node != NULL && oq_attribute(node, "axis") == NULL) {
        oq_opset_set_int(body, node, "axis", 1);
    }
    OQ_TRY(
        oq_opset_move_scalar(body, node, "axis", ONNX__TENSOR_PROTO__DATA_TYPE__INT64, 2, error));
    oq_opset_emit(body, node);
    return ONNXPTQ_OK;
}

/* ---- Parts of a tensor ---- */

static const char *count_axes(struct oq_opset_body *body, Onnx__NodeProto *node, size_t n) {
    int64_t *axes = oq_arena_array(oq_model_arena(body->edit->model), n, sizeof *axes);
    if (axes == NULL) {
        body->edit->out_of_memory = true;
        return "";
    }
    for (size_t i = 0; i < n; i++) {
        axes[i] = (int64_t)i;
    }
    return oq_opset_constant_ints(body, node, "axes", axes, n);
}

enum onnxptq_status oq_opset_slice_10(struct oq_opset_body *body, Onnx__NodeProto *node,
                                      struct onnxptq_error *error) {
    const Onnx__AttributeProto *axes = node == NULL ? NULL : oq_attribute(node, "axes");
    const Onnx__AttributeProto *starts = node == NULL ? NULL : oq_attribute(node, "starts");
    const size_t n = starts == NULL ? 0 : starts->n_ints;
    OQ_TRY(oq_opset_move_ints(body, node, "starts", 1, error));
    OQ_TRY(oq_opset_move_ints(body, node, "ends", 2, error));
    if (axes != NULL) {
        OQ_TRY(oq_opset_move_ints(body, node, "axes", 3, error));
    } else if (n > 0) {
        /* Absent axes are the first ones here, but all of the tensor's in newer versions. */
        oq_opset_set_input(body, node, 3, count_axes(body, node, n));
    }
    oq_opset_emit(body, node);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_opset_split_13(struct oq_opset_body *body, Onnx__NodeProto *node,
                                      struct onnxptq_error *error) {
    size_t n;
    if (node != NULL && oq_attribute_ints(node, "split", &n) == NULL) {
        const Onnx__AttributeProto *split = oq_attribute(node, "split");
        if (split != NULL && split->ref_attr_name == NULL) {
            oq_opset_remove_attribute(node, "split");
        }
    }
    OQ_TRY(oq_opset_move_ints(body, node, "split", 1, error));
    oq_opset_emit(body, node);
    return ONNXPTQ_OK;
}

/* Without sizes, the number of parts has to be said. */
enum onnxptq_status oq_opset_split_18(struct oq_opset_body *body, Onnx__NodeProto *node,
                                      struct onnxptq_error *error) {
    (void)error;
    if (node != NULL && *oq_opset_input(node, 1) == '\0') {
        node->n_input = 1;
        oq_opset_set_int(body, node, "num_outputs", (int64_t)node->n_output);
    }
    oq_opset_emit(body, node);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_opset_top_k_10(struct oq_opset_body *body, Onnx__NodeProto *node,
                                      struct onnxptq_error *error) {
    const char *const names[] = {"k", NULL};
    OQ_TRY(oq_opset_require_values(body, node, names, error));
    const int64_t k = node == NULL ? 0 : oq_attribute_int(node, "k", 0);
    oq_opset_set_input(body, node, 1, oq_opset_constant_ints(body, node, "k", &k, 1));
    oq_opset_remove_attribute(node, "k");
    oq_opset_emit(body, node);
    return ONNXPTQ_OK;
}

/* ---- Values of the tensor's type ---- */

enum onnxptq_status oq_opset_clip_11(struct oq_opset_body *body, Onnx__NodeProto *node,
                                     struct onnxptq_error *error) {
    const int type = oq_opset_find_type(body, oq_opset_input(node, 0));
    OQ_TRY(oq_opset_move_scalar(body, node, "min", type, 1, error));
    OQ_TRY(oq_opset_move_scalar(body, node, "max", type, 2, error));
    oq_opset_emit(body, node);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_opset_pad_11(struct oq_opset_body *body, Onnx__NodeProto *node,
                                    struct onnxptq_error *error) {
    const int type = oq_opset_find_type(body, oq_opset_input(node, 0));
    OQ_TRY(oq_opset_move_ints(body, node, "pads", 1, error));
    OQ_TRY(oq_opset_move_scalar(body, node, "value", type, 2, error));
    oq_opset_emit(body, node);
    return ONNXPTQ_OK;
}

/* ---- Dropout ---- */

/* Replaces the mask, an output of `type`, by zeros: that is what the runtime makes below version
 * 12. From there on it makes ones. */
static void make_mask(struct oq_opset_body *body, Onnx__NodeProto *node, int type) {
    if (node == NULL || node->n_output < 2) {
        return;
    }
    const char *mask = node->output[1];
    node->n_output = 1;
    if (*mask == '\0' || !oq_opset_is_read(body->edit, mask)) {
        return;
    }
    const char *shape = oq_opset_apply(body, node, "Shape", oq_opset_input(node, 0), NULL);
    const char *name = oq_opset_unique(body, node, "mask");
    Onnx__NodeProto *fill =
        oq_node_create(body->edit->model, name, "", "ConstantOfShape", &shape, 1, &mask, 1);
    const int64_t one = 1;
    oq_opset_set_tensor(
        body, fill, "value",
        oq_tensor_create(body->edit->model, "", type, &one, 1, NULL, oq_type_size(type)));
    oq_opset_emit(body, fill);
}

/* The mask was of the type of the tensor and became bool. */
enum onnxptq_status oq_opset_dropout_10(struct oq_opset_body *body, Onnx__NodeProto *node,
                                        struct onnxptq_error *error) {
    (void)error;
    make_mask(body, node, oq_opset_find_type(body, oq_opset_input(node, 0)));
    oq_opset_emit(body, node);
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_opset_dropout_12(struct oq_opset_body *body, Onnx__NodeProto *node,
                                        struct onnxptq_error *error) {
    make_mask(body, node, ONNX__TENSOR_PROTO__DATA_TYPE__BOOL);
    const Onnx__AttributeProto *ratio = node == NULL ? NULL : oq_attribute(node, "ratio");
    /* Ignored outside of training, but no longer allowed to be 1. */
    if (ratio != NULL && ratio->has_f && !(ratio->f >= 0.0F && ratio->f < 1.0F)) {
        oq_opset_remove_attribute(node, "ratio");
    }
    OQ_TRY(
        oq_opset_move_scalar(body, node, "ratio", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 1, error));
    oq_opset_emit(body, node);
    return ONNXPTQ_OK;
}
