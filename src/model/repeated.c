/*
 * Initializers that a graph lists more than once. Where they are equal all but one are dropped, as
 * in the runtime. Where they differ runtimes do not agree on the one that counts: such a model is
 * refused when its graph is indexed.
 */
#include "model/model_make.h"
#include "model/tensor.h"
#include "model/walk.h"

#include <string.h>

struct search {
    const struct oq_model *model;
    const char **repeated;
};

static bool is_equal(const struct oq_model *model, const Onnx__TensorProto *a,
                     const Onnx__TensorProto *b) {
    struct oq_tensor_view one, other;
    return a->n_dims == b->n_dims && a->data_type == b->data_type &&
           (a->n_dims == 0 || memcmp(a->dims, b->dims, a->n_dims * sizeof *a->dims) == 0) &&
           oq_tensor_view(model, a, &one, NULL) == ONNXPTQ_OK &&
           oq_tensor_view(model, b, &other, NULL) == ONNXPTQ_OK && one.size == other.size &&
           (one.size == 0 || memcmp(one.data, other.data, one.size) == 0);
}

static enum onnxptq_status keep_one(void *user, Onnx__GraphProto *graph,
                                    struct onnxptq_error *error) {
    struct search *search = user;
    size_t kept = 0;
    struct oq_map *known = oq_map_create();
    bool good = known != NULL;
    for (size_t i = 0; good && i < graph->n_initializer; i++) {
        Onnx__TensorProto *tensor = graph->initializer[i];
        const char *name = oq_text(tensor->name);
        size_t first = 0;
        if (oq_map_get_name(known, name, &first) &&
            is_equal(search->model, graph->initializer[first], tensor)) {
            *search->repeated = name;
            continue;
        }
        good = oq_map_put_name(known, name, kept);
        graph->initializer[kept++] = tensor;
    }
    oq_map_destroy(known);
    if (!good) {
        return oq_fail_memory(error, "the names of initializers");
    }
    graph->n_initializer = kept;
    return ONNXPTQ_OK;
}

enum onnxptq_status oq_model_drop_repeated(struct oq_model *model, struct onnxptq_error *error) {
    struct search search = {.model = model, .repeated = oq_model_repeated_slot(model)};
    const struct oq_visitor visitor = {.user = &search, .graph = keep_one};
    return oq_walk_model(oq_model_proto(model), &visitor, error);
}
