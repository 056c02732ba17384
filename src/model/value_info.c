/*
 * Declarations of tensors; see value_info.h.
 */
#include "model/value_info.h"

#include <string.h>

Onnx__ValueInfoProto *oq_value_info_find(Onnx__ValueInfoProto *const *infos, size_t n,
                                         const char *name) {
    for (size_t i = 0; i < n; i++) {
        if (infos[i]->name != NULL && strcmp(infos[i]->name, name) == 0) {
            return infos[i];
        }
    }
    return NULL;
}

const Onnx__TypeProto__Tensor *oq_value_info_tensor(const Onnx__ValueInfoProto *info) {
    const Onnx__TypeProto *type = info == NULL ? NULL : info->type;
    return type != NULL && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
               ? type->tensor_type
               : NULL;
}

bool oq_value_info_is_fixed(const Onnx__ValueInfoProto *info) {
    const Onnx__TypeProto__Tensor *tensor = oq_value_info_tensor(info);
    if (tensor == NULL || tensor->shape == NULL) {
        return false;
    }
    for (size_t i = 0; i < tensor->shape->n_dim; i++) {
        const Onnx__TensorShapeProto__Dimension *dim = tensor->shape->dim[i];
        if (dim->value_case != ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE ||
            dim->dim_value < 0) {
            return false;
        }
    }
    return true;
}

void oq_value_info_remove(Onnx__GraphProto *graph, const char *name) {
    size_t kept = 0;
    for (size_t i = 0; i < graph->n_value_info; i++) {
        if (strcmp(oq_text(graph->value_info[i]->name), name) != 0) {
            graph->value_info[kept++] = graph->value_info[i];
        }
    }
    graph->n_value_info = kept;
}
