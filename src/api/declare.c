/*
 * Declarations of inputs and outputs.
 */
#include "api/declare.h"

#include "model/value_info.h"

static bool read_shape(const Onnx__TensorShapeProto *shape, struct onnxptq_tensor *out) {
    if (shape == NULL || shape->n_dim > ONNXPTQ_MAX_RANK) {
        return false;
    }
    out->rank = shape->n_dim;
    for (size_t i = 0; i < shape->n_dim; i++) {
        const Onnx__TensorShapeProto__Dimension *dim = shape->dim[i];
        bool known = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
                     dim->dim_value >= 0;
        out->shape[i] = known ? dim->dim_value : -1;
    }
    return true;
}

/* Unknown dimensions are -1; what is no tensor, or of unknown or excessive rank, has type
 * UNDEFINED.
 */
static struct onnxptq_tensor describe(const Onnx__ValueInfoProto *info) {
    struct onnxptq_tensor tensor = {.name = oq_text(info->name)};
    const Onnx__TypeProto__Tensor *declared = oq_value_info_tensor(info);
    if (declared != NULL && read_shape(declared->shape, &tensor)) {
        tensor.type = (enum onnxptq_type)declared->elem_type;
    }
    return tensor;
}

static bool must_be_fed(const struct oq_graph *graph, const Onnx__ValueInfoProto *info) {
    uint32_t value = oq_graph_find_value(graph, 0, oq_text(info->name));
    if (value == OQ_NONE) {
        return true;
    }
    const struct oq_value *found = oq_graph_value(graph, value);
    return found->initializer == NULL && found->sparse_initializer == NULL;
}

enum onnxptq_status oq_declare_inputs(const struct oq_graph *graph, struct oq_arena *arena,
                                      const struct onnxptq_tensor **inputs, size_t *n,
                                      struct onnxptq_error *error) {
    const Onnx__GraphProto *proto = oq_graph_scope(graph, 0)->proto;
    struct onnxptq_tensor *list = oq_arena_array(arena, proto->n_input, sizeof *list);
    if (list == NULL) {
        return oq_fail_memory(error, "the model's inputs");
    }
    size_t count = 0;
    for (size_t i = 0; i < proto->n_input; i++) {
        if (must_be_fed(graph, proto->input[i])) {
            list[count++] = describe(proto->input[i]);
        }
    }
    *inputs = list;
    *n = count;
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_declare_outputs(const struct oq_graph *graph, struct oq_arena *arena,
                                       const struct onnxptq_tensor **outputs, size_t *n,
                                       struct onnxptq_error *error) {
    const Onnx__GraphProto *proto = oq_graph_scope(graph, 0)->proto;
    struct onnxptq_tensor *list = oq_arena_array(arena, proto->n_output, sizeof *list);
    if (list == NULL) {
        return oq_fail_memory(error, "the model's outputs");
    }
    for (size_t i = 0; i < proto->n_output; i++) {
        list[i] = describe(proto->output[i]);
    }
    *outputs = list;
    *n = proto->n_output;
    return ONNXPTQ_OK;
}
