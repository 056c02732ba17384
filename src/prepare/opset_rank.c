/*
 * Ranks that follow from the operators alone; see opset_value.h.
 */
#include "prepare/opset_value.h"

#include "model/tensor.h"

#include <string.h>

static bool find_rank(const struct oq_opset_body *body, const char *name,
                      struct oq_opset_budget *budget, size_t *rank);

/* ---- Lengths of vectors, which as shapes are ranks ---- */

static bool find_length(const struct oq_opset_body *body, const char *name,
                        struct oq_opset_budget *budget, size_t *length);

static bool joined_length(const struct oq_opset_body *body, const Onnx__NodeProto *node,
                          struct oq_opset_budget *budget, size_t *length) {
    size_t sum = 0;
    for (size_t i = 0; i < node->n_input; i++) {
        size_t own;
        if (!find_length(body, node->input[i], budget, &own)) {
            return false;
        }
        sum += own;
    }
    *length = sum;
    return true;
}

/* The single element of an integer constant that counts from the front. */
static bool find_position(const struct oq_opset_body *body, const char *name, size_t *position) {
    struct oq_tensor_view view;
    const Onnx__TensorProto *tensor = oq_opset_find_constant(body, name);
    if (tensor == NULL ||
        (tensor->data_type != ONNX__TENSOR_PROTO__DATA_TYPE__INT64 &&
         tensor->data_type != ONNX__TENSOR_PROTO__DATA_TYPE__INT32) ||
        oq_tensor_view(body->edit->model, tensor, &view, NULL) != ONNXPTQ_OK ||
        view.n_elements != 1 || oq_tensor_view_integer(&view, 0) < 0) {
        return false;
    }
    *position = (size_t)oq_tensor_view_integer(&view, 0);
    return true;
}

/* Part of a vector by constants, without or with steps of 1. */
static bool sliced_length(const struct oq_opset_body *body, const Onnx__NodeProto *node,
                          struct oq_opset_budget *budget, size_t *length) {
    size_t start, end, step = 1, all;
    const bool stepped = *oq_opset_input(node, 4) != '\0';
    if (!find_position(body, oq_opset_input(node, 1), &start) ||
        !find_position(body, oq_opset_input(node, 2), &end) ||
        (stepped && !find_position(body, oq_opset_input(node, 4), &step)) || step != 1 ||
        !find_length(body, oq_opset_input(node, 0), budget, &all)) {
        return false;
    }
    end = end < all ? end : all;
    *length = end > start ? end - start : 0;
    return true;
}

static bool node_length(const struct oq_opset_body *body, const Onnx__NodeProto *node,
                        struct oq_opset_budget *budget, size_t *length) {
    const char *input = oq_opset_input(node, 0);
    size_t rank;
    if (!oq_is_default_domain(node->domain)) {
        return false;
    }
    if (strcmp(node->op_type, "Cast") == 0 || strcmp(node->op_type, "Identity") == 0) {
        return find_length(body, input, budget, length);
    }
    if (strcmp(node->op_type, "Concat") == 0) {
        return joined_length(body, node, budget, length);
    }
    if (strcmp(node->op_type, "Slice") == 0) {
        return sliced_length(body, node, budget, length);
    }
    if (strcmp(node->op_type, "Shape") == 0 && node->n_attribute == 0) {
        return find_rank(body, input, budget, length);
    }
    /* What becomes a vector by one more axis was a scalar. */
    if (strcmp(node->op_type, "Unsqueeze") == 0 &&
        find_rank(body, oq_opset_output(node, 0), budget, &rank) && rank == 1) {
        *length = 1;
        return true;
    }
    return false;
}

static bool find_length(const struct oq_opset_body *body, const char *name,
                        struct oq_opset_budget *budget, size_t *length) {
    if (budget->depth == 0 || budget->values == 0) {
        return false;
    }
    const Onnx__TensorProto *tensor = oq_opset_find_constant(body, name);
    if (tensor != NULL) {
        const bool vector = tensor->n_dims == 1 && tensor->dims[0] >= 0;
        *length = vector ? (size_t)tensor->dims[0] : 0;
        return vector;
    }
    const struct oq_opset_origin origin = oq_opset_find_origin(body, name);
    budget->values--;
    budget->depth--;
    const bool found = origin.node != NULL && node_length(origin.body, origin.node, budget, length);
    budget->depth++;
    return found;
}

/* ---- Ranks ---- */

static bool highest_rank(const struct oq_opset_body *body, const Onnx__NodeProto *node,
                         struct oq_opset_budget *budget, size_t *rank) {
    size_t highest = 0;
    for (size_t i = 0; i < node->n_input; i++) {
        size_t own;
        if (!find_rank(body, node->input[i], budget, &own)) {
            return false;
        }
        highest = own > highest ? own : highest;
    }
    *rank = highest;
    return true;
}

/* The product of vectors has fewer axes. */
static bool matmul_rank(const struct oq_opset_body *body, const Onnx__NodeProto *node,
                        struct oq_opset_budget *budget, size_t *rank) {
    size_t left, right;
    if (!find_rank(body, oq_opset_input(node, 0), budget, &left) ||
        !find_rank(body, oq_opset_input(node, 1), budget, &right) || left < 2 || right < 2) {
        return false;
    }
    *rank = left > right ? left : right;
    return true;
}

/* How many axes Squeeze or Unsqueeze names; false when it does not say. */
static bool count_axes(const struct oq_opset_body *body, const Onnx__NodeProto *node,
                       struct oq_opset_budget *budget, size_t *n_axes) {
    if (oq_attribute(node, "axes") != NULL) {
        return oq_attribute_ints(node, "axes", n_axes) != NULL;
    }
    return find_length(body, oq_opset_input(node, 1), budget, n_axes) && *n_axes > 0;
}

static bool squeezed_rank(const struct oq_opset_body *body, const Onnx__NodeProto *node,
                          struct oq_opset_budget *budget, bool squeezed, size_t *rank) {
    size_t n_axes, before;
    if (!count_axes(body, node, budget, &n_axes) ||
        !find_rank(body, oq_opset_input(node, 0), budget, &before) ||
        (squeezed && before < n_axes)) {
        return false;
    }
    *rank = squeezed ? before - n_axes : before + n_axes;
    return true;
}

static bool transposed_rank(const struct oq_opset_body *body, const Onnx__NodeProto *node,
                            struct oq_opset_budget *budget, size_t *rank) {
    size_t n;
    if (oq_attribute_ints(node, "perm", &n) == NULL) {
        return find_rank(body, oq_opset_input(node, 0), budget, rank);
    }
    *rank = n;
    return true;
}

static bool gathered_rank(const struct oq_opset_body *body, const Onnx__NodeProto *node,
                          struct oq_opset_budget *budget, size_t *rank) {
    size_t data, indices;
    if (!find_rank(body, oq_opset_input(node, 0), budget, &data) ||
        !find_rank(body, oq_opset_input(node, 1), budget, &indices) || data == 0) {
        return false;
    }
    *rank = data - 1 + indices;
    return true;
}

static bool node_rank(const struct oq_opset_body *body, const Onnx__NodeProto *node,
                      const char *name, struct oq_opset_budget *budget, size_t *rank) {
    const struct oq_opset_form *form = oq_opset_find_form(node, name);
    if (form == NULL) {
        return false;
    }
    switch (form->form) {
    case OQ_FORM_REDUCE:
        return oq_attribute_int(node, "keepdims", 1) == 1 &&
               find_rank(body, oq_opset_input(node, 0), budget, rank);
    case OQ_FORM_SAME:
    case OQ_FORM_CAST: return find_rank(body, oq_opset_input(node, 0), budget, rank);
    case OQ_FORM_BROADCAST: return highest_rank(body, node, budget, rank);
    case OQ_FORM_MATRIX: *rank = 2; return true;
    case OQ_FORM_SHAPE: *rank = 1; return true;
    /* Weights have the rank of the tensor, and are constants mostly. */
    case OQ_FORM_CONV:
        return find_rank(body, oq_opset_input(node, 1), budget, rank) ||
               find_rank(body, oq_opset_input(node, 0), budget, rank);
    case OQ_FORM_GATHER: return gathered_rank(body, node, budget, rank);
    case OQ_FORM_MATMUL: return matmul_rank(body, node, budget, rank);
    case OQ_FORM_TRANSPOSE: return transposed_rank(body, node, budget, rank);
    case OQ_FORM_RESHAPE: return find_length(body, oq_opset_input(node, 1), budget, rank);
    case OQ_FORM_SQUEEZE: return squeezed_rank(body, node, budget, true, rank);
    case OQ_FORM_UNSQUEEZE: return squeezed_rank(body, node, budget, false, rank);
    }
    return false;
}

/* Residual connections lead to the same nodes again and again, hence the notes. */
static bool noted_rank(const struct oq_opset_origin *origin, const char *name,
                       struct oq_opset_budget *budget, size_t *rank) {
    struct oq_map *notes = origin->body->edit->ranks;
    if (oq_map_get(notes, &origin->node, sizeof(void *), rank)) {
        return true;
    }
    return node_rank(origin->body, origin->node, name, budget, rank) &&
           oq_map_put_copy(notes, &origin->node, sizeof(void *), *rank);
}

static bool origin_rank(const struct oq_opset_body *body, const char *name,
                        struct oq_opset_budget *budget, size_t *rank) {
    const Onnx__TensorProto *constant = oq_opset_find_constant(body, name);
    if (constant != NULL) {
        *rank = constant->n_dims;
        return true;
    }
    const struct oq_opset_origin origin = oq_opset_find_origin(body, name);
    if (origin.node != NULL) {
        return noted_rank(&origin, name, budget, rank);
    }
    /* Of declared shapes, only those of the model's own inputs are enforced by the runtime. */
    const Onnx__TypeProto__Tensor *type = origin.body == NULL || origin.body->parent != NULL
                                              ? NULL
                                              : oq_value_info_tensor(origin.input);
    if (type == NULL || type->shape == NULL) {
        return false;
    }
    *rank = type->shape->n_dim;
    return true;
}

static bool find_rank(const struct oq_opset_body *body, const char *name,
                      struct oq_opset_budget *budget, size_t *rank) {
    if (budget->depth == 0 || budget->values == 0) {
        return false;
    }
    budget->values--;
    budget->depth--;
    const bool found = origin_rank(body, name, budget, rank);
    budget->depth++;
    return found;
}

bool oq_opset_find_rank(const struct oq_opset_body *body, const char *name, size_t *rank) {
    struct oq_opset_budget budget = OQ_OPSET_BUDGET;
    size_t found;
    if (!find_rank(body, name, &budget, &found)) {
        return false;
    }
    *rank = found;
    return true;
}
