/*
 * Versions of a model; see versions.h. Conversion itself is in opset.c.
 */
#include "prepare/versions.h"

#include "prepare/opset.h"

#include <inttypes.h>

enum onnxptq_status oq_prepare_opset(struct oq_preparation *preparation,
                                     struct onnxptq_error *error) {
    const int64_t wanted = preparation->spec->opset;
    const int64_t old = oq_model_opset(preparation->model);
    /* A model of custom operators alone need not import the default domain. */
    if (old == 0 || old >= wanted) {
        return ONNXPTQ_OK;
    }
    OQ_TRY(oq_opset_raise(preparation->model, wanted, error));
    oq_preparation_note(preparation, "opset raised from %" PRId64 " to %" PRId64, old, wanted);
    return ONNXPTQ_OK;
}

static bool has_new_initializers(const Onnx__GraphProto *graph, const struct oq_graph *index) {
    for (size_t i = 0; i < graph->n_initializer; i++) {
        const uint32_t value = oq_graph_find_value(index, 0, oq_text(graph->initializer[i]->name));
        if (value != OQ_NONE && !oq_graph_value(index, value)->is_input) {
            return true;
        }
    }
    return false;
}

enum onnxptq_status oq_prepare_ir(struct oq_preparation *preparation, struct onnxptq_error *error) {
    const Onnx__ModelProto *model = oq_model_proto(preparation->model);
    const int64_t old = model->ir_version;
    if (old >= OQ_IR_FREE_INITIALIZERS || !has_new_initializers(model->graph, preparation->graph)) {
        return ONNXPTQ_OK;
    }
    if (!oq_model_free_initializers(preparation->model)) {
        return oq_fail_memory(error, "the names of initializers");
    }
    oq_preparation_note(preparation,
                        "IR version raised from %" PRId64 " to %d: before it, the new initializers "
                        "would have to be inputs of the model",
                        old, OQ_IR_FREE_INITIALIZERS);
    return ONNXPTQ_OK;
}
